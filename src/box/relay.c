/* SPDX-License-Identifier: Apache-2.0 */
#include "box/relay.h"

#include <errno.h>
#include <signal.h>

#include "base/hash.h"
#include "base/banned.h"

enum stream_state { STREAM_STARTING, STREAM_RUNNING };

struct stream {
	uint32_t guest_id;
	uint32_t client_id;
	struct relay_client *client; /* NULL: its client has left */
	enum stream_state state;
	bool out_eof[3];
	bool in_eof;
	uint64_t out_credit[3]; /* what the guest may still send, per channel */
	uint64_t in_credit; /* what the client may still send */
	bool hash_oom;
	UT_hash_handle by_guest;
	UT_hash_handle by_client;
};

struct relay_client {
	struct channel *ch;
	struct stream *streams;
};

struct relay {
	struct channel *guest;
	struct stream *streams;
	uint32_t next_id;
};

struct relay *relay_new(void)
{
	struct relay *r = mem_zalloc(sizeof *r);

	if (r)
		r->next_id = 1;
	return r;
}

static void stream_free(struct relay *r, struct stream *s)
{
	if (s->client)
		HASH_DELETE(by_client, s->client->streams, s);
	HASH_DELETE(by_guest, r->streams, s);
	mem_free(s);
}

void relay_free(struct relay *r)
{
	struct stream *s, *next;

	if (!r)
		return;
	HASH_ITER (by_guest, r->streams, s, next)
		stream_free(r, s);
	mem_free(r);
}

void relay_set_guest(struct relay *r, struct channel *guest)
{
	r->guest = guest;
}

size_t relay_streams(const struct relay *r)
{
	return HASH_CNT(by_guest, r->streams);
}

struct relay_client *relay_client_add(struct relay *r, struct channel *ch)
{
	struct relay_client *c = mem_zalloc(sizeof *c);

	(void)r;
	if (c)
		c->ch = ch;
	return c;
}

static int to_guest(struct relay *r, struct stream *s, const struct wire_msg *msg)
{
	struct wire_msg copy = *msg;

	copy.stream = s->guest_id;
	return r->guest ? channel_send(r->guest, &copy) : -EPIPE;
}

static int to_client(struct stream *s, const struct wire_msg *msg)
{
	struct wire_msg copy = *msg;

	if (!s->client)
		return 0;
	copy.stream = s->client_id;
	return channel_send(s->client->ch, &copy);
}

/* Let a stream without a client run out: nobody holds it up any more. */
static void stream_drain(
	struct relay *r, struct stream *s, enum wire_channel channel, uint32_t bytes)
{
	const struct wire_msg credit = {
		.op = WIRE_OP_credit, .credit = {.channel = (uint8_t)channel, .bytes = bytes}};

	if (bytes > 0 && to_guest(r, s, &credit) == 0)
		s->out_credit[channel] += bytes;
}

static void stream_abandon(struct relay *r, struct stream *s)
{
	const struct wire_msg kill = {
		.op = WIRE_OP_signal, .signal = {.signo = SIGKILL, .flags = WIRE_SIGNAL_ALL}};

	HASH_DELETE(by_client, s->client->streams, s);
	s->client = NULL;
	(void)to_guest(r, s, &kill);
	for (int i = WIRE_STDOUT; i <= WIRE_STDERR; i++) {
		if (s->out_credit[i] < WIRE_DATA_MAX)
			stream_drain(r, s, (enum wire_channel)i, WIRE_DATA_MAX);
	}
}

void relay_client_remove(struct relay *r, struct relay_client *c)
{
	struct stream *s, *next;

	if (!c)
		return;
	HASH_ITER (by_client, c->streams, s, next)
		stream_abandon(r, s);
	mem_free(c);
}

static uint32_t free_id(struct relay *r)
{
	struct stream *taken = NULL;

	do {
		if (r->next_id == 0)
			r->next_id = 1;
		const uint32_t id = r->next_id++;
		HASH_FIND(by_guest, r->streams, &id, sizeof id, taken);
	} while (taken);
	return r->next_id - 1;
}

/* Tell the client that its exec did not get as far as the guest. */
static int refuse(struct relay_client *c, uint32_t client_id, const char *text)
{
	const struct wire_msg fail = {.op = WIRE_OP_fail,
		.stream = client_id,
		.fail = {.class_ = WIRE_FAIL_LIMIT,
			.errnum = EAGAIN,
			.stage = {(const uint8_t *)"exec", 4},
			.text = {(const uint8_t *)text, (uint32_t)strlen(text)}}};

	return channel_send(c->ch, &fail);
}

static int client_exec(struct relay *r, struct relay_client *c, const struct wire_msg *msg)
{
	if (relay_streams(r) >= WIRE_STREAMS_MAX)
		return refuse(c, msg->stream, "the box already runs as many commands as it can");
	struct stream *s = mem_zalloc(sizeof *s);
	if (!s)
		return -ENOMEM;
	s->guest_id = free_id(r);
	s->client_id = msg->stream;
	s->client = c;
	s->out_credit[WIRE_STDOUT] = s->out_credit[WIRE_STDERR] = msg->exec.out_credit;
	HASH_ADD(by_guest, r->streams, guest_id, sizeof s->guest_id, s);
	if (s->hash_oom) {
		mem_free(s);
		return -ENOMEM;
	}
	HASH_ADD(by_client, c->streams, client_id, sizeof s->client_id, s);
	if (s->hash_oom) {
		s->client = NULL;
		stream_free(r, s);
		return -ENOMEM;
	}
	const int sent = to_guest(r, s, msg);
	if (sent < 0)
		stream_free(r, s);
	return sent;
}

static int client_credit(
	struct relay *r, struct stream *s, const struct wire_msg *msg, const char **ret_what)
{
	const uint8_t channel = msg->credit.channel;

	if (channel == WIRE_STDIN || s->out_credit[channel] + msg->credit.bytes > WIRE_CREDIT_MAX) {
		*ret_what = "credit beyond the limit";
		return -EPROTO;
	}
	const int sent = to_guest(r, s, msg);
	if (sent == 0)
		s->out_credit[channel] += msg->credit.bytes;
	return sent;
}

static int client_stdin(
	struct relay *r, struct stream *s, const struct wire_msg *msg, const char **ret_what)
{
	const bool eof = msg->op == WIRE_OP_eof;
	const uint8_t channel = eof ? msg->eof.channel : msg->data.channel;
	const uint32_t len = eof ? 0 : msg->data.bytes.len;

	if (channel != WIRE_STDIN || s->in_eof || len > s->in_credit) {
		*ret_what = "stdin beyond its credit or end";
		return -EPROTO;
	}
	s->in_credit -= len;
	s->in_eof = eof;
	return to_guest(r, s, msg);
}

int relay_from_client(
	struct relay *r, struct relay_client *c, const struct wire_msg *msg, const char **ret_what)
{
	struct stream *s = NULL;

	HASH_FIND(by_client, c->streams, &msg->stream, sizeof msg->stream, s);
	if (msg->op == WIRE_OP_exec) {
		if (s || msg->stream == 0 || msg->exec.out_credit > WIRE_CREDIT_MAX) {
			*ret_what = "exec on a stream in use, or with too much credit";
			return -EPROTO;
		}
		return client_exec(r, c, msg);
	}
	if (!s)
		return 0; /* it ended while the frame was under way */
	switch (msg->op) {
	case WIRE_OP_signal:
		return to_guest(r, s, msg);
	case WIRE_OP_credit:
		return client_credit(r, s, msg, ret_what);
	case WIRE_OP_data:
	case WIRE_OP_eof:
		return client_stdin(r, s, msg, ret_what);
	default:
		*ret_what = "a frame that no client may send";
		return -EPROTO;
	}
}

static bool out_channel(const struct stream *s, uint8_t channel)
{
	return (channel == WIRE_STDOUT || channel == WIRE_STDERR) && !s->out_eof[channel];
}

static int guest_data(
	struct relay *r, struct stream *s, const struct wire_msg *msg, const char **ret_what)
{
	const uint8_t channel = msg->data.channel;
	const uint32_t len = msg->data.bytes.len;

	if (!out_channel(s, channel) || len > s->out_credit[channel]) {
		*ret_what = "output beyond its credit or end";
		return -EPROTO;
	}
	s->out_credit[channel] -= len;
	if (!s->client)
		stream_drain(r, s, (enum wire_channel)channel, len);
	return to_client(s, msg);
}

static int guest_started(struct stream *s, const struct wire_msg *msg, const char **ret_what)
{
	if (s->state != STREAM_STARTING || msg->started.in_credit > WIRE_CREDIT_MAX) {
		*ret_what = "started twice, or with too much credit";
		return -EPROTO;
	}
	s->state = STREAM_RUNNING;
	s->in_credit = msg->started.in_credit;
	return to_client(s, msg);
}

static int guest_credit(struct stream *s, const struct wire_msg *msg, const char **ret_what)
{
	if (msg->credit.channel != WIRE_STDIN ||
		s->in_credit + msg->credit.bytes > WIRE_CREDIT_MAX) {
		*ret_what = "credit beyond the limit";
		return -EPROTO;
	}
	s->in_credit += msg->credit.bytes;
	return to_client(s, msg);
}

static int guest_end(struct relay *r, struct stream *s, const struct wire_msg *msg)
{
	const int sent = to_client(s, msg);

	stream_free(r, s);
	return sent;
}

int relay_from_guest(struct relay *r, const struct wire_msg *msg, const char **ret_what)
{
	struct stream *s = NULL;

	HASH_FIND(by_guest, r->streams, &msg->stream, sizeof msg->stream, s);
	*ret_what = "a frame for a stream that does not exist";
	/* The lanes overtake each other: a short program's exit (bulk) may come before its started
	 * or its last credit (control), which then concern nobody. */
	if (!s)
		return msg->op == WIRE_OP_started || msg->op == WIRE_OP_credit ? 0 : -EPROTO;
	switch (msg->op) {
	case WIRE_OP_started:
		return guest_started(s, msg, ret_what);
	case WIRE_OP_fail:
		return guest_end(r, s, msg);
	case WIRE_OP_credit:
		return guest_credit(s, msg, ret_what);
	case WIRE_OP_data:
		return guest_data(r, s, msg, ret_what);
	case WIRE_OP_eof:
		if (!out_channel(s, msg->eof.channel))
			return -EPROTO;
		s->out_eof[msg->eof.channel] = true;
		return to_client(s, msg);
	case WIRE_OP_exit:
		return guest_end(r, s, msg);
	default:
		*ret_what = "a frame that no stream carries";
		return -EPROTO;
	}
}
