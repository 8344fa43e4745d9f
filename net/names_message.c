/* SPDX-License-Identifier: Apache-2.0 */
#include "net/names_message.h"

#include <arpa/nameser.h>
#include <resolv.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "net/inet_sum.h"
#include "base/banned.h"

enum {
	FLAGS = 2, /* offsets in the header */
	COUNTS = 4,
	FLAG_QR = 0x8000,
	FLAG_OPCODE = 0x7800,
	FLAG_TC = 0x0200,
	FLAG_RD = 0x0100,
	FLAG_RA = 0x0080,
	FLAG_CODE = 0x000f,
	RECORD = 10, /* type, class, TTL, length */
	POINTER_TO_QUESTION = 0xc000 | NAMES_HEADER,
	HINT_IP4 = 4, /* of a service: parameters that are addresses */
	HINT_IP6 = 6
};

/* The only question, whose name is written out. */
static bool take_question(ns_msg *m, struct names_question *ret)
{
	uint8_t written[NS_MAXCDNAME];
	ns_rr rr;

	if (ns_msg_count(*m, ns_s_qd) != 1 || ns_parserr(m, ns_s_qd, 0, &rr) < 0)
		return false;
	ret->id = ns_msg_id(*m);
	ret->type = ns_rr_type(rr);
	ret->class = ns_rr_class(rr);
	const size_t len = strnlen(ns_rr_name(rr), sizeof ret->name);
	if (len == sizeof ret->name)
		return false;
	memcpy(ret->name, ns_rr_name(rr), len + 1);
	const int n = dn_comp(ret->name, written, sizeof written, NULL, NULL);
	if (n < 0 || dn_skipname(ns_msg_base(*m) + NAMES_HEADER, ns_msg_end(*m)) != n)
		return false;
	ret->end = NAMES_HEADER + (size_t)n + NS_QFIXEDSZ;
	return true;
}

/* The option record, which says how large an answer may be. */
static uint16_t udp_max(ns_msg *m)
{
	ns_rr rr;

	for (int i = 0; i < ns_msg_count(*m, ns_s_ar) && i < 4; i++) {
		if (ns_parserr(m, ns_s_ar, i, &rr) < 0)
			break;
		/* The class of an option record is a size. */
		if (ns_rr_type(rr) == ns_t_opt)
			return ns_rr_class(rr) < NAMES_UDP_MAX ? NAMES_UDP_MAX : ns_rr_class(rr);
	}
	return NAMES_UDP_MAX;
}

bool names_parse_question(const uint8_t *data, size_t len, struct names_question *ret)
{
	ns_msg m;

	if (len < NAMES_HEADER || len > NAMES_QUESTION_MAX ||
		get16(data + FLAGS) & (FLAG_QR | FLAG_OPCODE | FLAG_TC) ||
		ns_initparse(data, (int)len, &m) < 0 || !take_question(&m, ret) ||
		ns_msg_count(m, ns_s_an) || ns_msg_count(m, ns_s_ns))
		return false;
	ret->udp_max = udp_max(&m);
	return true;
}

bool names_is_answer(const uint8_t *data, size_t len, const struct names_question *q, uint16_t id)
{
	struct names_question got;
	ns_msg m;

	if (len < NAMES_HEADER || len > NAMES_ANSWER_MAX || !(get16(data + FLAGS) & FLAG_QR) ||
		get16(data + FLAGS) & FLAG_OPCODE || get16(data) != id ||
		ns_initparse(data, (int)len, &m) < 0 || !take_question(&m, &got))
		return false;
	return got.type == q->type && got.class == q->class && got.end == q->end &&
	       !strcasecmp(got.name, q->name);
}

bool names_is_cut(const uint8_t *data)
{
	return get16(data + FLAGS) & FLAG_TC;
}

enum names_code names_code(const uint8_t *data)
{
	return get16(data + FLAGS) & FLAG_CODE;
}

/* Who is asked about addresses. */
struct judge {
	names_learn_fn learn;
	names_check_fn check;
	void *user;
};

static struct net_addr take_address(const uint8_t *data, size_t size)
{
	struct net_addr a = {.bytes = {[10] = 0xff, [11] = 0xff}};

	memcpy(a.bytes + 16 - size, data, size);
	return a;
}

/* The value of a hint: addresses of @size bytes each. */
static bool hints_good(const uint8_t *data, size_t len, size_t size, const struct judge *j)
{
	for (; len >= size; data += size, len -= size) {
		const struct net_addr a = take_address(data, size);

		if (!j->check(&a, j->user))
			return false;
	}
	return len == 0;
}

/* RFC 9460: a priority, a target, and parameters, some of which are addresses. */
static bool service_good(const ns_rr *rr, const struct judge *j)
{
	const uint8_t *p = ns_rr_rdata(*rr);
	const uint8_t *const end = p + ns_rr_rdlen(*rr);

	if (end - p < 3)
		return false;
	p += 2;
	const int n = dn_skipname(p, end);
	if (n < 0)
		return false;
	for (p += n; end - p >= 4;) {
		const unsigned key = get16(p);
		const size_t len = get16(p + 2);

		p += 4;
		if (len > (size_t)(end - p) || (key == HINT_IP4 && !hints_good(p, len, 4, j)) ||
			(key == HINT_IP6 && !hints_good(p, len, 16, j)))
			return false;
		p += len;
	}
	return p == end;
}

/* May the guest see it? Of the answer itself addresses are learnt. One of another class or length
 * is none, but a guest that looks at the type alone would take it for one. */
static bool record_good(const ns_rr *rr, bool answer, const struct judge *j)
{
	const unsigned type = ns_rr_type(*rr);
	const size_t size = type == ns_t_a ? 4 : 16;

	if (type == NAMES_SVCB || type == NAMES_HTTPS)
		return service_good(rr, j);
	if (type != ns_t_a && type != ns_t_aaaa)
		return true;
	if (ns_rr_class(*rr) != ns_c_in || ns_rr_rdlen(*rr) != size)
		return false;
	const struct net_addr a = take_address(ns_rr_rdata(*rr), size);
	/* An IPv4 address in IPv6's clothes leads nowhere, whatever it is. */
	if (type == ns_t_aaaa && net_addr_is4(&a))
		return false;
	return answer ? j->learn(&a, ns_rr_ttl(*rr), j->user) : j->check(&a, j->user);
}

/* A message that is written anew, without compression. */
struct rewriting {
	uint8_t *out;
	size_t len;
	size_t max;
	uint16_t records;
};

static bool put_name(struct rewriting *w, const char *name)
{
	const int n = dn_comp(name, w->out + w->len, (int)(w->max - w->len), NULL, NULL);

	if (n < 0)
		return false;
	w->len += (size_t)n;
	return true;
}

static bool put_bytes(struct rewriting *w, const void *data, size_t len)
{
	if (len > w->max - w->len)
		return false;
	memcpy(w->out + w->len, data, len);
	w->len += len;
	return true;
}

/* Aliases and addresses; all else is of no use without what was taken out. */
static bool put_record(struct rewriting *w, const ns_msg *m, const ns_rr *rr)
{
	uint8_t head[RECORD];
	char target[NAMES_TEXT_MAX];

	if (ns_rr_type(*rr) != ns_t_a && ns_rr_type(*rr) != ns_t_aaaa &&
		ns_rr_type(*rr) != ns_t_cname)
		return true;
	put16(head, ns_rr_type(*rr));
	put16(head + 2, ns_rr_class(*rr));
	put32(head + 4, ns_rr_ttl(*rr));
	put16(head + 8, ns_rr_rdlen(*rr));
	if (!put_name(w, ns_rr_name(*rr)) || !put_bytes(w, head, sizeof head))
		return false;
	w->records++;
	if (ns_rr_type(*rr) != ns_t_cname)
		return put_bytes(w, ns_rr_rdata(*rr), ns_rr_rdlen(*rr));
	const size_t at = w->len;
	if (dn_expand(ns_msg_base(*m), ns_msg_end(*m), ns_rr_rdata(*rr), target, sizeof target) <
			0 ||
		!put_name(w, target))
		return false;
	put16(w->out + at - 2, (uint16_t)(w->len - at));
	return true;
}

/* Everything but what @denied says, into @out. Returns the length, 0: it cannot be done. */
static size_t rewrite(ns_msg *m, const struct names_question *q, const bool *denied, uint8_t *out)
{
	struct rewriting w = {.out = out, .max = NAMES_ANSWER_MAX, .len = q->end};
	ns_rr rr;

	for (int i = 0; i < ns_msg_count(*m, ns_s_an); i++) {
		if (ns_parserr(m, ns_s_an, i, &rr) < 0)
			return 0;
		if (!denied[i] && !put_record(&w, m, &rr))
			return 0;
	}
	memset(out + COUNTS, 0, NAMES_HEADER - COUNTS);
	put16(out + COUNTS, 1);
	put16(out + COUNTS + 2, w.records);
	return w.len;
}

/* Is everything behind the answer good? Not where it cannot be read. */
static bool rest_good(ns_msg *m, const struct judge *j)
{
	static const ns_sect sections[] = {ns_s_ns, ns_s_ar};
	ns_rr rr;

	for (unsigned s = 0; s < 2; s++) {
		for (int i = 0; i < ns_msg_count(*m, sections[s]); i++) {
			if (ns_parserr(m, sections[s], i, &rr) < 0 || !record_good(&rr, false, j))
				return false;
		}
	}
	return true;
}

/* The message without what is behind the answer, to which no name before it can point. */
static size_t cut_rest(uint8_t *data, size_t len, const struct names_question *q, unsigned records)
{
	const int n = ns_skiprr(data + q->end, data + len, ns_s_an, (int)records);

	if (n < 0)
		return 0;
	memset(data + COUNTS + 4, 0, NAMES_HEADER - COUNTS - 4);
	return q->end + (size_t)n;
}

size_t names_filter(uint8_t *data, size_t len, const struct names_question *q, names_learn_fn learn,
	names_check_fn check, void *user)
{
	const struct judge judge = {.learn = learn, .check = check, .user = user};
	bool denied[NAMES_RECORDS_MAX];
	bool any = false;
	ns_msg m;
	ns_rr rr;

	if (ns_initparse(data, (int)len, &m) < 0 ||
		ns_msg_count(m, ns_s_an) + ns_msg_count(m, ns_s_ns) + ns_msg_count(m, ns_s_ar) >
			(int)NAMES_RECORDS_MAX)
		return 0;
	for (int i = 0; i < ns_msg_count(m, ns_s_an); i++) {
		if (ns_parserr(&m, ns_s_an, i, &rr) < 0)
			return 0;
		denied[i] = !record_good(&rr, true, &judge);
		any |= denied[i];
	}
	if (!any)
		return rest_good(&m, &judge) ? len
					     : cut_rest(data, len, q, ns_msg_count(m, ns_s_an));
	auto_free uint8_t *out = mem_zalloc(NAMES_ANSWER_MAX);
	if (!out)
		return 0;
	memcpy(out, data, q->end);
	const size_t n = rewrite(&m, q, denied, out);
	memcpy(data, out, n);
	return n;
}

size_t names_make(const uint8_t *question, const struct names_question *q, enum names_code code,
	const struct net_addr *addresses, size_t n, uint32_t ttl_s, uint8_t *ret)
{
	const size_t size = q->type == NAMES_A ? 4 : 16;
	size_t at = q->end;

	memcpy(ret, question, q->end);
	put16(ret + FLAGS, (uint16_t)(FLAG_QR | (get16(question + FLAGS) & FLAG_RD) | FLAG_RA |
				      (unsigned)code));
	memset(ret + COUNTS, 0, NAMES_HEADER - COUNTS);
	put16(ret + COUNTS, 1);
	put16(ret + COUNTS + 2, (uint16_t)n);
	for (size_t i = 0; i < n; i++) {
		put16(ret + at, POINTER_TO_QUESTION);
		put16(ret + at + 2, q->type);
		put16(ret + at + 4, ns_c_in);
		put32(ret + at + 6, ttl_s);
		put16(ret + at + 10, (uint16_t)size);
		memcpy(ret + at + 12, addresses[i].bytes + 16 - size, size);
		at += 12 + size;
	}
	return at;
}

size_t names_cut(uint8_t *data, size_t len, const struct names_question *q, size_t max)
{
	if (len <= max || q->end > len)
		return len;
	put16(data + FLAGS, (uint16_t)(get16(data + FLAGS) | FLAG_TC));
	memset(data + COUNTS + 2, 0, NAMES_HEADER - COUNTS - 2);
	return q->end;
}
