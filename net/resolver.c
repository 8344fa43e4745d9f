/* SPDX-License-Identifier: Apache-2.0 */
#include "net/resolver.h"

#include <arpa/nameser.h>
#include <errno.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/str.h"
#include "net/asker.h"
#include "net/filter.h"
#include "net/hosts_file.h"
#include "net/inet_sum.h"
#include "net/names_message.h"
#include "net/upstreams.h"
#include "base/banned.h"

/* What an answer by UDP may be at most, so that it is one frame of any card. */
#define UDP_ANSWER_MAX 1232u
/* Of one upstream, before others have their turn: it may send faster than they are read. */
#define DATAGRAMS_AT_ONCE 16u

/* A question under way. */
struct pending {
	bool used;
	bool tcp;
	int fd;
	int place; /* in the poll set */
	unsigned tries; /* how many upstreams were asked */
	unsigned first; /* where it began in the list */
	uint16_t id; /* that the upstream sees */
	uint64_t until_ms; /* of this try */
	uint64_t deadline_ms;
	struct asker asker;
	struct names_question q;
	uint8_t data[2 + NAMES_QUESTION_MAX]; /* with the length in front, as TCP wants it */
	size_t len; /* without it */
	size_t sent; /* by TCP */
	uint8_t *got; /* by TCP; fresh memory */
	size_t got_len;
};

struct resolver {
	struct resolver_options options;
	struct upstreams upstreams;
	char *resolv;
	char *hosts;
	uint64_t read_ms; /* the host's files; 0: not yet */
	unsigned living; /* the upstream that answered last */
	size_t n_pending;
	struct pending pending[RESOLVER_QUESTIONS_MAX];
	uint8_t buffer[NAMES_ANSWER_MAX + 1];
	uint8_t frame[ASKER_FRAME_HEAD + NAMES_ANSWER_MAX];
};

int resolver_new(const struct resolver_options *options, struct resolver **ret, holt_error **reterr)
{
	struct resolver *r = mem_zalloc(sizeof *r);

	if (!r)
		return err_nomem(reterr);
	r->options = *options;
	*ret = r;
	return 0;
}

static void pending_end(struct resolver *r, struct pending *p)
{
	(void)fd_close(p->fd);
	mem_free(p->got);
	p->got = NULL;
	p->used = false;
	r->n_pending--;
}

void resolver_free(struct resolver *r)
{
	if (!r)
		return;
	for (size_t i = 0; i < RESOLVER_QUESTIONS_MAX; i++) {
		if (r->pending[i].used)
			pending_end(r, &r->pending[i]);
	}
	mem_free(r->resolv);
	mem_free(r->hosts);
	mem_free(r);
}

size_t resolver_pending(const struct resolver *r)
{
	return r->n_pending;
}

/* Answers. */

static void give(struct resolver *r, const struct asker *a, const struct names_question *q,
	uint8_t *data, size_t len)
{
	put16(data, q->id);
	if (a->stream) {
		r->options.answer(a->stream_id, data, len, r->options.user);
		return;
	}
	const size_t head = asker_head(a);
	len = names_cut(data, len, q, q->udp_max < UDP_ANSWER_MAX ? q->udp_max : UDP_ANSWER_MAX);
	memcpy(r->frame + head, data, len);
	r->options.send(r->frame, asker_frame(a, r->frame, len), r->options.user);
}

static void give_code(struct resolver *r, const struct asker *a, const uint8_t *question,
	const struct names_question *q, enum names_code code)
{
	const size_t len = names_make(question, q, code, NULL, 0, 0, r->buffer);

	give(r, a, q, r->buffer, len);
}

struct learning {
	struct resolver *r;
	const char *name;
};

static bool learn(const struct net_addr *address, uint32_t ttl_s, void *user)
{
	const struct learning *l = user;

	return filter_learn(l->r->options.filter, l->name, address, ttl_s, clock_mono_ms());
}

static bool check(const struct net_addr *address, void *user)
{
	const struct learning *l = user;

	return filter_reachable(l->r->options.filter, address);
}

/* RFC 6761: these names mean the guest itself and are asked of nobody. */
static bool is_localhost(const char *name)
{
	const size_t len = strlen(name);
	const size_t own = strlen("localhost");

	return len >= own && !strcasecmp(name + len - own, "localhost") &&
	       (len == own || name[len - own - 1] == '.');
}

static void give_localhost(struct resolver *r, const struct asker *a, const uint8_t *question,
	const struct names_question *q)
{
	struct net_addr address = {.bytes = {0}};
	const bool any = q->class == ns_c_in && (q->type == NAMES_A || q->type == NAMES_AAAA);

	(void)net_addr_parse(q->type == NAMES_A ? "127.0.0.1" : "::1", &address);
	const size_t len = names_make(
		question, q, NAMES_OK, &address, any, RESOLVER_LOCAL_TTL_S, r->buffer);
	give(r, a, q, r->buffer, len);
}

static bool give_host_name(struct resolver *r, const struct asker *a, const uint8_t *question,
	const struct names_question *q)
{
	struct net_addr found[HOSTS_ADDRESSES_MAX];
	struct learning l = {.r = r, .name = q->name};
	size_t n;
	size_t kept = 0;

	if (!r->hosts || q->class != ns_c_in || (q->type != NAMES_A && q->type != NAMES_AAAA) ||
		!hosts_find(r->hosts, q->name, q->type == NAMES_AAAA, found, &n))
		return false;
	for (size_t i = 0; i < n; i++) {
		if (learn(&found[i], RESOLVER_LOCAL_TTL_S, &l))
			found[kept++] = found[i];
	}
	const size_t len = names_make(
		question, q, NAMES_OK, found, kept, RESOLVER_LOCAL_TTL_S, r->buffer);
	give(r, a, q, r->buffer, len);
	return true;
}

/* Upstreams. */

static int connect_to(const struct upstream *up, bool tcp)
{
	const int type = (tcp ? SOCK_STREAM : SOCK_DGRAM) | SOCK_CLOEXEC | SOCK_NONBLOCK;
	auto_fd fd = socket(up->address.ss_family, type, 0);

	if (fd < 0)
		return -errno;
	if (connect(fd, (const struct sockaddr *)&up->address, up->len) < 0 && errno != EINPROGRESS)
		return -errno;
	return take_fd(fd);
}

static unsigned place_of_try(const struct resolver *r, const struct pending *p)
{
	return (p->first + p->tries) % (unsigned)r->upstreams.n;
}

/* One try; 0, or -errno where this upstream cannot be asked at all. */
static int pending_send(struct resolver *r, struct pending *p, uint64_t now_ms)
{
	p->fd = connect_to(&r->upstreams.list[place_of_try(r, p)], p->tcp);
	if (p->fd < 0)
		return p->fd;
	const int failed = random_bytes(&p->id, sizeof p->id);
	if (failed < 0)
		return failed;
	put16(p->data, (uint16_t)p->len);
	put16(p->data + 2, p->id);
	p->sent = 0;
	p->got_len = 0;
	p->until_ms = now_ms + (p->tcp ? RESOLVER_TCP_MS : r->upstreams.timeout_ms);
	if (p->until_ms > p->deadline_ms)
		p->until_ms = p->deadline_ms;
	if (!p->tcp && send(p->fd, p->data + 2, p->len, MSG_NOSIGNAL) < 0)
		return -errno;
	return 0;
}

/* Begin with this try, or the first after it that can be asked; without any left the guest is told.
 */
static void pending_start(struct resolver *r, struct pending *p, uint64_t now_ms)
{
	const unsigned most = (unsigned)r->upstreams.n * r->upstreams.attempts;

	for (; p->tries < most && now_ms < p->deadline_ms; p->tries++) {
		p->fd = fd_close(p->fd);
		if (pending_send(r, p, now_ms) == 0)
			return;
	}
	give_code(r, &p->asker, p->data + 2, &p->q, NAMES_SERVFAIL);
	pending_end(r, p);
}

static void pending_next(struct resolver *r, struct pending *p, uint64_t now_ms)
{
	p->tries++;
	p->tcp = r->upstreams.use_tcp;
	pending_start(r, p, now_ms);
}

static struct pending *pending_new(struct resolver *r, const struct asker *a, uint16_t id)
{
	struct pending *free_one = NULL;

	for (size_t i = 0; i < RESOLVER_QUESTIONS_MAX; i++) {
		struct pending *p = &r->pending[i];

		if (!p->used)
			free_one = free_one ? free_one : p;
		else if (p->q.id == id && asker_is_same(&p->asker, a))
			return NULL; /* the guest asks again while we do */
	}
	return free_one;
}

/* By TCP the guest waits for as long as the connection stands; by UDP it asks again. */
static void give_nothing(struct resolver *r, const struct asker *a)
{
	if (a->stream)
		r->options.answer(a->stream_id, NULL, 0, r->options.user);
}

static void ask_upstreams(struct resolver *r, const struct asker *a, const uint8_t *data,
	size_t len, const struct names_question *q)
{
	const uint64_t now = clock_mono_ms();

	if (r->upstreams.n == 0 && r->read_ms) {
		give_code(r, a, data, q, NAMES_SERVFAIL);
		return;
	}
	struct pending *p = pending_new(r, a, q->id);
	if (!p) {
		give_nothing(r, a);
		return;
	}
	if (r->upstreams.rotate && r->upstreams.n > 0)
		r->living = (r->living + 1) % (unsigned)r->upstreams.n;
	*p = (struct pending){.used = true,
		.tcp = r->upstreams.use_tcp,
		.fd = FD_NONE,
		.place = -1,
		.first = r->living,
		.until_ms = now + RESOLVER_NAMES_MS,
		.deadline_ms = now + RESOLVER_DEADLINE_MS,
		.asker = *a,
		.q = *q,
		.len = len};
	memcpy(p->data + 2, data, len);
	r->n_pending++;
	/* Else once it is known whom to ask. */
	if (r->read_ms)
		pending_start(r, p, now);
}

static void ask(struct resolver *r, const struct asker *a, const uint8_t *data, size_t len)
{
	struct names_question q;

	if (!names_parse_question(data, len, &q)) {
		give_nothing(r, a);
		return;
	}
	if (!r->read_ms || clock_mono_ms() - r->read_ms > RESOLVER_OLD_MS)
		r->options.want_names(r->options.user);
	if (is_localhost(q.name)) {
		give_localhost(r, a, data, &q);
	} else if (q.type == NAMES_AXFR || q.type == NAMES_IXFR ||
		   !filter_may_ask(r->options.filter, q.name)) {
		give_code(r, a, data, &q, NAMES_REFUSED);
	} else if (r->options.allowlist && (q.type == NAMES_HTTPS || q.type == NAMES_SVCB)) {
		/* Their hints are addresses, which nobody would have learnt. */
		give_code(r, a, data, &q, NAMES_OK);
	} else if (!give_host_name(r, a, data, &q)) {
		ask_upstreams(r, a, data, len, &q);
	}
}

void resolver_ask(
	struct resolver *r, const uint8_t *frame, size_t len, const struct filter_part *part)
{
	struct asker a;

	if (asker_take(&a, frame, len, part))
		ask(r, &a, part->data, part->len);
}

void resolver_ask_stream(struct resolver *r, uint32_t stream, const uint8_t *data, size_t len)
{
	const struct asker a = {.stream = true, .stream_id = stream};

	ask(r, &a, data, len);
}

void resolver_forget_stream(struct resolver *r, uint32_t stream)
{
	for (size_t i = 0; i < RESOLVER_QUESTIONS_MAX; i++) {
		struct pending *p = &r->pending[i];

		if (p->used && p->asker.stream && p->asker.stream_id == stream)
			pending_end(r, p);
	}
}

void resolver_set_names(struct resolver *r, char *resolv, char *hosts)
{
	const bool new = !r->resolv || strcmp(r->resolv, resolv) != 0;
	const uint64_t now = clock_mono_ms();

	r->read_ms = now;
	mem_free(r->hosts);
	r->hosts = hosts;
	mem_free(r->resolv);
	r->resolv = resolv;
	if (!new)
		return;
	upstreams_parse(resolv, &r->upstreams);
	r->living = 0;
	for (size_t i = 0; i < RESOLVER_QUESTIONS_MAX; i++) {
		struct pending *p = &r->pending[i];

		if (!p->used)
			continue;
		p->first = 0;
		p->tries = 0;
		p->tcp = r->upstreams.use_tcp;
		pending_start(r, p, now);
	}
}

/* What upstreams say. */

static void pending_answered(struct resolver *r, struct pending *p, uint8_t *data, size_t len)
{
	struct learning l = {.r = r, .name = p->q.name};
	const enum names_code code = names_code(data);
	const uint64_t now = clock_mono_ms();

	if (!p->tcp && p->asker.stream && names_is_cut(data)) {
		p->tcp = true;
		p->fd = fd_close(p->fd);
		if (pending_send(r, p, now) < 0)
			pending_next(r, p, now);
		return;
	}
	/* It lives, but cannot or will not: another one may. */
	if ((code == NAMES_SERVFAIL || code == NAMES_REFUSED || code == NAMES_NOTIMP) &&
		p->tries + 1 < r->upstreams.n) {
		pending_next(r, p, now);
		return;
	}
	r->living = place_of_try(r, p);
	len = names_filter(data, len, &p->q, learn, check, &l);
	if (len > 0)
		give(r, &p->asker, &p->q, data, len);
	else
		give_code(r, &p->asker, p->data + 2, &p->q, NAMES_SERVFAIL);
	pending_end(r, p);
}

static void udp_ready(struct resolver *r, struct pending *p)
{
	for (unsigned i = 0; i < DATAGRAMS_AT_ONCE; i++) {
		const ssize_t n = recv(p->fd, r->buffer, sizeof r->buffer, MSG_DONTWAIT);

		if (n < 0 && errno == EAGAIN)
			return;
		if (n < 0) {
			pending_next(r, p, clock_mono_ms());
			return;
		}
		/* What is no answer to this question is not from whom it says. */
		if (names_is_answer(r->buffer, (size_t)n, &p->q, p->id)) {
			pending_answered(r, p, r->buffer, (size_t)n);
			return;
		}
	}
}

/* 1: complete, 0: not yet, or -errno. */
static int tcp_go_on(struct pending *p)
{
	ssize_t n;

	if (p->sent < p->len + 2) {
		n = send(p->fd, p->data + p->sent, p->len + 2 - p->sent, MSG_NOSIGNAL);
		if (n < 0)
			return errno == EAGAIN ? 0 : -errno;
		p->sent += (size_t)n;
		return 0;
	}
	if (!p->got)
		p->got = mem_zalloc(2 + NAMES_ANSWER_MAX);
	if (!p->got)
		return -ENOMEM;
	size_t want = 2;
	if (p->got_len >= 2)
		want += get16(p->got);
	n = recv(p->fd, p->got + p->got_len, want - p->got_len, MSG_DONTWAIT);
	if (n <= 0)
		return n < 0 && errno == EAGAIN ? 0 : n < 0 ? -errno : -ECONNRESET;
	p->got_len += (size_t)n;
	if (p->got_len == 2 && get16(p->got) == 0)
		return -EPROTO;
	return p->got_len > 2 && p->got_len == 2u + get16(p->got);
}

static void tcp_ready(struct resolver *r, struct pending *p)
{
	int n;

	do {
		const size_t before = p->got_len + p->sent;

		n = tcp_go_on(p);
		if (n == 0 && p->got_len + p->sent == before)
			return;
	} while (n == 0);
	if (n > 0 && names_is_answer(p->got + 2, p->got_len - 2, &p->q, p->id)) {
		const size_t len = p->got_len - 2;

		memcpy(r->buffer, p->got + 2, len);
		pending_answered(r, p, r->buffer, len);
		return;
	}
	pending_next(r, p, clock_mono_ms());
}

void resolver_wait(struct resolver *r, struct poll_set *set)
{
	for (size_t i = 0; r->n_pending > 0 && i < RESOLVER_QUESTIONS_MAX; i++) {
		struct pending *p = &r->pending[i];

		if (!p->used)
			continue;
		p->place = poll_set_add(
			set, p->fd, p->tcp && p->sent < p->len + 2 ? POLLOUT : POLLIN);
		poll_set_wake(set, p->until_ms);
	}
}

void resolver_ready(struct resolver *r, const struct poll_set *set)
{
	const uint64_t now = clock_mono_ms();

	for (size_t i = 0; r->n_pending > 0 && i < RESOLVER_QUESTIONS_MAX; i++) {
		struct pending *p = &r->pending[i];

		/* One that began since the wait has no place in it. */
		const int place = p->place;
		p->place = -1;
		if (!p->used)
			continue;
		if (poll_set_got(set, place)) {
			if (p->tcp)
				tcp_ready(r, p);
			else
				udp_ready(r, p);
		}
		/* Also where something came: it may be no answer, again and again. */
		if (p->used && now >= p->until_ms)
			pending_next(r, p, now);
	}
}
