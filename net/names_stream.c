/* SPDX-License-Identifier: Apache-2.0 */
#include "net/names_stream.h"

#include <arpa/inet.h>
#include <net/ethernet.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>

#include "base/mem.h"
#include "base/net_link.h"
#include "base/random.h"
#include "net/inet_sum.h"
#include "net/names_message.h"
#include "base/banned.h"

enum {
	IP4_LEN = 20,
	IP6_LEN = 40,
	TCP_LEN = 20,
	FIN = 1,
	SYN = 2,
	RST = 4,
	PSH = 8,
	ACK = 16,
	PORT = 53,
	TTL = 64,
	MSS = 1220, /* fits into any card's frames, with IPv6 too */
	OPTION_MSS = 2
};

/* A frame of the guest, as far as it counts here. */
struct segment {
	const uint8_t *eth;
	const uint8_t *guest;
	const uint8_t *own;
	bool ipv6;
	uint16_t port;
	uint32_t seq;
	uint32_t ack;
	uint8_t flags;
	uint16_t window;
	uint16_t mss; /* of a SYN */
	const uint8_t *data;
	size_t len;
};

struct connection {
	bool used;
	bool ipv6;
	bool established;
	bool asking; /* a question is with the resolver */
	bool guest_closed;
	bool fin_sent;
	uint32_t id;
	uint16_t port;
	uint8_t guest_mac[6];
	uint8_t own_mac[6];
	uint8_t guest[16];
	uint8_t own[16];
	uint32_t rcv_next;
	uint32_t snd_first; /* not acknowledged */
	uint32_t snd_next;
	uint32_t out_seq; /* of out[0] */
	uint16_t window;
	uint16_t mss;
	unsigned tries;
	uint64_t resend_ms; /* 0: nothing is on its way */
	uint64_t idle_ms;
	uint8_t *out; /* the answer, fresh memory; NULL: none */
	size_t out_len;
	size_t in_len;
	uint8_t in[2 + NAMES_QUESTION_MAX];
};

struct names_streams {
	struct names_streams_options options;
	uint8_t resolver4[4];
	uint8_t resolver6[16];
	uint32_t last_id;
	size_t n_open;
	struct connection all[STREAM_MAX];
};

int names_streams_new(const struct names_streams_options *options, struct names_streams **ret,
	holt_error **reterr)
{
	struct names_streams *t = mem_zalloc(sizeof *t);

	if (!t)
		return err_nomem(reterr);
	t->options = *options;
	(void)inet_pton(AF_INET, NET_RESOLVER4, t->resolver4);
	(void)inet_pton(AF_INET6, NET_RESOLVER6, t->resolver6);
	*ret = t;
	return 0;
}

static void connection_end(struct names_streams *t, struct connection *c)
{
	if (c->asking)
		t->options.forget(c->id, t->options.user);
	mem_free(c->out);
	*c = (struct connection){0};
	t->n_open--;
}

void names_streams_free(struct names_streams *t)
{
	if (!t)
		return;
	for (size_t i = 0; i < STREAM_MAX; i++)
		mem_free(t->all[i].out);
	mem_free(t);
}

size_t names_streams_open(const struct names_streams *t)
{
	return t->n_open;
}

/* Frames of the guest. */

static uint16_t mss_option(const uint8_t *tcp, size_t head)
{
	for (size_t at = TCP_LEN; at + 1 < head && tcp[at] != 0;) {
		const size_t len = tcp[at] == 1 ? 1 : tcp[at + 1];

		if (tcp[at] == OPTION_MSS && len == 4 && at + 4 <= head)
			return get16(tcp + at + 2);
		if (len == 0)
			break;
		at += len;
	}
	return 536;
}

static bool take_tcp(const uint8_t *tcp, size_t len, struct segment *s)
{
	if (len < TCP_LEN || get16(tcp + 2) != PORT)
		return false;
	const size_t head = (size_t)(tcp[12] >> 4) * 4;
	if (head < TCP_LEN || head > len)
		return false;
	s->port = get16(tcp);
	s->seq = get32(tcp + 4);
	s->ack = get32(tcp + 8);
	s->flags = tcp[13];
	s->window = get16(tcp + 14);
	s->mss = mss_option(tcp, head);
	s->data = tcp + head;
	s->len = len - head;
	return true;
}

/* Only what the filter took for whole comes here, so there are no options and no fragments. */
static bool take_segment(
	const struct names_streams *t, const uint8_t *frame, size_t len, struct segment *ret)
{
	const uint8_t *ip = frame + ETH_HLEN;
	const size_t left = len - ETH_HLEN;
	const uint16_t type = len > ETH_HLEN + IP4_LEN ? get16(frame + 12) : 0;

	*ret = (struct segment){.eth = frame};
	if (type == ETHERTYPE_IP && ip[0] == 0x45 && ip[9] == IPPROTO_TCP &&
		!memcmp(ip + 16, t->resolver4, 4)) {
		const size_t size = get16(ip + 2);

		ret->guest = ip + 12;
		ret->own = ip + 16;
		return size >= IP4_LEN && size <= left &&
		       take_tcp(ip + IP4_LEN, size - IP4_LEN, ret);
	}
	if (type == ETHERTYPE_IPV6 && left > IP6_LEN && ip[6] == IPPROTO_TCP &&
		!memcmp(ip + 24, t->resolver6, 16)) {
		const size_t size = get16(ip + 4);

		ret->ipv6 = true;
		ret->guest = ip + 8;
		ret->own = ip + 24;
		return size <= left - IP6_LEN && take_tcp(ip + IP6_LEN, size, ret);
	}
	return false;
}

/* Frames to it. */

static size_t put_ip(const struct connection *c, uint8_t *frame, size_t len)
{
	const struct inet_ends ends = {.to_mac = c->guest_mac,
		.from_mac = c->own_mac,
		.to = c->guest,
		.from = c->own,
		.ipv6 = c->ipv6};

	return inet_put_head(frame, &ends, IPPROTO_TCP, len);
}

static void send_segment(struct names_streams *t, const struct connection *c, uint32_t seq,
	uint8_t flags, const uint8_t *data, size_t len)
{
	uint8_t frame[ETH_HLEN + IP6_LEN + TCP_LEN + 4 + MSS];
	const size_t head = TCP_LEN + (flags & SYN ? 4u : 0);
	const size_t at = put_ip(c, frame, head + len);
	uint8_t *tcp = frame + at;

	memset(tcp, 0, head);
	put16(tcp, PORT);
	put16(tcp + 2, c->port);
	put32(tcp + 4, seq);
	put32(tcp + 8, c->rcv_next);
	tcp[12] = (uint8_t)(head / 4 << 4);
	tcp[13] = flags | (uint8_t)ACK;
	put16(tcp + 14, (uint16_t)(sizeof c->in - c->in_len));
	if (flags & SYN) {
		tcp[20] = OPTION_MSS;
		tcp[21] = 4;
		put16(tcp + 22, MSS);
	}
	if (len > 0)
		memcpy(tcp + head, data, len);
	put16(tcp + 16, inet_sum_transport(
				c->own, c->guest, c->ipv6 ? 16 : 4, IPPROTO_TCP, tcp, head + len));
	t->options.send(frame, at + head + len, t->options.user);
}

static void send_reset(struct names_streams *t, struct connection *c)
{
	send_segment(t, c, c->snd_next, RST, NULL, 0);
	connection_end(t, c);
}

static void arm(struct connection *c, uint64_t now_ms)
{
	c->resend_ms = now_ms + ((uint64_t)STREAM_RESEND_MS << c->tries);
}

static bool has_question(const struct connection *c)
{
	return c->in_len >= 2 && c->in_len >= 2u + get16(c->in);
}

/* What the guest's window has room for, and the end where all is said. @force: a window that is
 * closed gets one segment, to see whether it still is. */
static void push(struct names_streams *t, struct connection *c, uint64_t now_ms, bool force)
{
	const uint32_t end = c->out_seq + (uint32_t)c->out_len;

	if (!c->established) {
		send_segment(t, c, c->snd_first, SYN, NULL, 0);
		arm(c, now_ms);
		return;
	}
	while (c->out && (int32_t)(end - c->snd_next) > 0) {
		const uint32_t flight = c->snd_next - c->snd_first;
		uint32_t n = end - c->snd_next;

		if (flight >= c->window && !force)
			break;
		if (n > c->mss)
			n = c->mss;
		if (!force && n > c->window - flight)
			n = c->window - flight;
		send_segment(t, c, c->snd_next, PSH, c->out + (c->snd_next - c->out_seq), n);
		c->snd_next += n;
		force = false;
	}
	if (c->guest_closed && !c->asking && c->snd_next == end && !c->fin_sent &&
		!has_question(c)) {
		send_segment(t, c, c->snd_next++, FIN, NULL, 0);
		c->fin_sent = true;
	}
	if (c->snd_next != c->snd_first || (c->out && c->out_len > 0)) {
		if (!c->resend_ms)
			arm(c, now_ms);
	} else {
		c->resend_ms = 0;
	}
}

/* The next whole question, once the answer before it has arrived. */
static void ask_next(struct names_streams *t, struct connection *c)
{
	uint8_t question[NAMES_QUESTION_MAX];

	if (c->asking || c->out || c->in_len < 2)
		return;
	const size_t len = get16(c->in);
	if (len == 0 || len > NAMES_QUESTION_MAX) {
		send_reset(t, c);
		return;
	}
	if (!has_question(c))
		return;
	memcpy(question, c->in + 2, len);
	c->in_len -= 2 + len;
	memmove(c->in, c->in + 2 + len, c->in_len);
	c->asking = true;
	t->options.ask(c->id, question, len, t->options.user);
}

static struct connection *find(struct names_streams *t, const struct segment *s)
{
	for (size_t i = 0; i < STREAM_MAX; i++) {
		struct connection *c = &t->all[i];

		if (c->used && c->port == s->port && c->ipv6 == s->ipv6 &&
			!memcmp(c->guest, s->guest, s->ipv6 ? 16 : 4))
			return c;
	}
	return NULL;
}

static void accept_one(struct names_streams *t, const struct segment *s, uint64_t now_ms)
{
	struct connection *c = NULL;
	uint32_t first;

	for (size_t i = 0; !c && i < STREAM_MAX; i++)
		c = t->all[i].used ? NULL : &t->all[i];
	if (!c || random_bytes(&first, sizeof first) < 0)
		return;
	*c = (struct connection){.used = true,
		.ipv6 = s->ipv6,
		.id = ++t->last_id,
		.port = s->port,
		.rcv_next = s->seq + 1,
		.snd_first = first,
		.snd_next = first + 1,
		.out_seq = first + 1,
		.window = s->window,
		.mss = s->mss < 64    ? 64
		       : s->mss > MSS ? MSS
				      : s->mss,
		.idle_ms = now_ms + STREAM_IDLE_MS};
	memcpy(c->own_mac, s->eth, 6);
	memcpy(c->guest_mac, s->eth + 6, 6);
	memcpy(c->guest, s->guest, s->ipv6 ? 16 : 4);
	memcpy(c->own, s->own, s->ipv6 ? 16 : 4);
	t->n_open++;
	push(t, c, now_ms, false);
}

/* false: the connection has ended. */
static bool take_ack(
	struct names_streams *t, struct connection *c, const struct segment *s, uint64_t now_ms)
{
	const uint32_t gained = s->ack - c->snd_first;

	c->window = s->window;
	/* After a resend more may be acknowledged than was sent since. */
	const uint32_t end = c->out_seq + (uint32_t)c->out_len + c->fin_sent;
	const uint32_t most = c->established ? end - c->snd_first : 1;
	if (gained == 0 || gained > most)
		return true;
	c->established = true;
	c->snd_first = s->ack;
	if ((int32_t)(c->snd_first - c->snd_next) > 0)
		c->snd_next = c->snd_first;
	c->tries = 0;
	c->resend_ms = 0;
	c->idle_ms = now_ms + STREAM_IDLE_MS;
	if (c->fin_sent && c->snd_first == end) {
		connection_end(t, c);
		return false;
	}
	if (c->out && c->snd_first == c->out_seq + (uint32_t)c->out_len) {
		mem_free(take_ptr(c->out));
		c->out_seq = c->snd_first;
		c->out_len = 0;
	}
	return true;
}

static void take_data(
	struct names_streams *t, struct connection *c, const struct segment *s, uint64_t now_ms)
{
	const size_t room = sizeof c->in - c->in_len;
	const size_t n = s->len < room ? s->len : room;
	const bool in_order = s->seq == c->rcv_next && !c->guest_closed;

	if (s->len == 0 && !(s->flags & FIN))
		return;
	if (in_order) {
		memcpy(c->in + c->in_len, s->data, n);
		c->in_len += n;
		c->rcv_next += (uint32_t)n;
		c->idle_ms = now_ms + STREAM_IDLE_MS;
		if (s->flags & FIN && n == s->len) {
			c->rcv_next++;
			c->guest_closed = true;
		}
	}
	send_segment(t, c, c->snd_next, 0, NULL, 0);
}

enum names_stream_verdict names_streams_frame(
	struct names_streams *t, const uint8_t *frame, size_t len, uint64_t now_ms)
{
	struct segment s;

	if (!take_segment(t, frame, len, &s))
		return STREAM_FOREIGN;
	struct connection *c = find(t, &s);
	if (!c) {
		if ((s.flags & (SYN | ACK | RST)) != SYN)
			return STREAM_REFUSE;
		accept_one(t, &s, now_ms);
		return STREAM_TAKEN;
	}
	const uint32_t id = c->id;
	if (s.flags & RST) {
		if (s.seq == c->rcv_next)
			connection_end(t, c);
		return STREAM_TAKEN;
	}
	if (s.flags & SYN || !(s.flags & ACK)) {
		/* The guest has not heard our answer, or has begun anew: the old one is told. */
		if (!c->established)
			push(t, c, now_ms, false);
		else
			send_segment(t, c, c->snd_next, 0, NULL, 0);
		return STREAM_TAKEN;
	}
	if (!take_ack(t, c, &s, now_ms) || !c->established)
		return STREAM_TAKEN;
	take_data(t, c, &s, now_ms);
	ask_next(t, c);
	/* It may have ended meanwhile. */
	if (c->used && c->id == id)
		push(t, c, now_ms, false);
	return STREAM_TAKEN;
}

void names_streams_answer(
	struct names_streams *t, uint32_t id, const void *data, size_t len, uint64_t now_ms)
{
	for (size_t i = 0; i < STREAM_MAX; i++) {
		struct connection *c = &t->all[i];

		if (!c->used || c->id != id || !c->asking)
			continue;
		c->asking = false;
		c->out = len > 0 ? mem_zalloc(2 + len) : NULL;
		if (!c->out) {
			send_reset(t, c);
			return;
		}
		put16(c->out, (uint16_t)len);
		memcpy(c->out + 2, data, len);
		c->out_len = 2 + len;
		c->out_seq = c->snd_next;
		push(t, c, now_ms, false);
		return;
	}
}

void names_streams_wait(const struct names_streams *t, struct poll_set *set)
{
	for (size_t i = 0; t->n_open > 0 && i < STREAM_MAX; i++) {
		const struct connection *c = &t->all[i];

		if (!c->used)
			continue;
		poll_set_wake(set, c->idle_ms);
		if (c->resend_ms)
			poll_set_wake(set, c->resend_ms);
	}
}

static void resend(struct names_streams *t, struct connection *c, uint64_t now_ms)
{
	if (++c->tries > STREAM_TRIES) {
		send_reset(t, c);
		return;
	}
	c->resend_ms = 0;
	if (c->established) {
		c->snd_next = c->snd_first;
		c->fin_sent = false;
	}
	push(t, c, now_ms, true);
}

void names_streams_ready(struct names_streams *t, uint64_t now_ms)
{
	for (size_t i = 0; t->n_open > 0 && i < STREAM_MAX; i++) {
		struct connection *c = &t->all[i];

		if (!c->used)
			continue;
		if (now_ms >= c->idle_ms)
			send_reset(t, c);
		else if (c->resend_ms && now_ms >= c->resend_ms)
			resend(t, c, now_ms);
	}
}
