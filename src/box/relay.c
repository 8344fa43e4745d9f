/* SPDX-License-Identifier: Apache-2.0 */
#include "box/relay.h"

#include <errno.h>
#include <signal.h>

#include "box/relay_stream.h"
#include "base/banned.h"

struct relay *relay_new(const struct relay_hooks *hooks)
{
	struct relay *r = mem_zalloc(sizeof *r);

	if (!r)
		return NULL;
	r->hooks = *hooks;
	r->next_id = r->next_number = 1;
	return r;
}

/* ---- streams ---- */

int stream_join(struct stream *s, struct relay_client *c, uint32_t client_id)
{
	s->client_id = client_id;
	s->hash_oom = false;
	HASH_ADD(by_client, c->streams, client_id, sizeof s->client_id, s);
	if (s->hash_oom)
		return -ENOMEM;
	s->client = c;
	return 0;
}

void stream_part(struct stream *s)
{
	if (s->client)
		HASH_DELETE(by_client, s->client->streams, s);
	s->client = NULL;
}

void stream_free(struct stream *s)
{
	stream_part(s);
	kept_free(s);
	HASH_DELETE(by_guest, s->relay->streams, s);
	if (s->answer)
		s->answer(s->answer_user, NULL);
	mem_free(s);
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

static struct stream *stream_new(struct relay *r)
{
	struct stream *s = mem_zalloc(sizeof *s);

	if (!s)
		return NULL;
	s->relay = r;
	s->guest_id = free_id(r);
	HASH_ADD(by_guest, r->streams, guest_id, sizeof s->guest_id, s);
	if (s->hash_oom) {
		mem_free(s);
		return NULL;
	}
	return s;
}

int stream_to_guest(struct stream *s, const struct wire_msg *msg)
{
	struct wire_msg copy = *msg;

	copy.stream = s->guest_id;
	return s->relay->guest ? channel_send(s->relay->guest, &copy) : -EPIPE;
}

int stream_offer(struct stream *s, const struct wire_msg *msg)
{
	struct wire_msg copy = *msg;

	if (!s->client)
		return 0;
	copy.stream = s->client_id;
	return channel_send(s->client->ch, &copy);
}

int stream_to_client(struct stream *s, const struct wire_msg *msg)
{
	const int rc = stream_offer(s, msg);

	if (rc < 0)
		s->client->broken = true;
	return rc;
}

/* ---- clients ---- */

void relay_free(struct relay *r)
{
	struct stream *s, *next;

	if (!r)
		return;
	HASH_ITER (by_guest, r->streams, s, next)
		stream_free(s);
	mem_free(r);
}

void relay_set_guest(struct relay *r, struct channel *guest)
{
	r->guest = guest;
}

void relay_set_paused(struct relay *r, bool paused)
{
	r->paused = paused;
}

void relay_set_full(struct relay *r, bool full)
{
	r->full = full;
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

/* Let a plain exec without a client run out: nobody holds it up any more. */
static void drain(struct stream *s, enum wire_channel channel, uint32_t bytes)
{
	const struct wire_msg credit = {
		.op = WIRE_OP_credit, .credit = {.channel = (uint8_t)channel, .bytes = bytes}};

	if (bytes > 0 && stream_to_guest(s, &credit) == 0)
		s->out_credit[channel] += bytes;
}

static void abandon(struct stream *s)
{
	const struct wire_msg end = {.op = WIRE_OP_signal,
		.signal = {.signo = s->tty ? SIGHUP : SIGKILL,
			.flags = s->tty ? WIRE_SIGNAL_HANGUP : WIRE_SIGNAL_ALL}};

	stream_part(s);
	if (s->kept)
		kept_alone(s);
	if (s->kept || s->request)
		return;
	(void)!stream_to_guest(s, &end);
	for (int i = WIRE_STDOUT; i <= WIRE_STDERR; i++) {
		if (s->out_credit[i] < WIRE_DATA_MAX)
			drain(s, (enum wire_channel)i, WIRE_DATA_MAX);
	}
}

void relay_client_remove(struct relay *r, struct relay_client *c)
{
	struct stream *s, *next;

	if (!c)
		return;
	HASH_ITER (by_client, c->streams, s, next)
		abandon(s);
	kept_trim(r);
	mem_free(c);
}

bool relay_client_broken(const struct relay_client *c)
{
	return c->broken;
}

int relay_client_drained(struct relay *r, struct relay_client *c)
{
	struct stream *s, *next;
	int rc = 0;

	HASH_ITER (by_client, c->streams, s, next) {
		if (s->kept && rc == 0)
			rc = kept_pump(s);
	}
	kept_trim(r);
	return rc;
}

int relay_refuse(struct relay_client *c, uint32_t stream, enum wire_fail_class class, int errnum,
	const char *text)
{
	return channel_send(
		c->ch, &(struct wire_msg){.op = WIRE_OP_fail,
			       .stream = stream,
			       .fail = {.class_ = (uint16_t) class,
				       .errnum = (uint32_t)errnum,
				       .stage = {(const uint8_t *)"keeper", 6},
				       .text = {(const uint8_t *)text, (uint32_t)strlen(text)}}});
}

int relay_done(struct relay_client *c, uint32_t stream)
{
	return channel_send(c->ch, &(struct wire_msg){.op = WIRE_OP_done, .stream = stream});
}

/* ---- frames of clients ---- */

/* A new stream of a client. The caller sends its first frame. */
static int client_stream(
	struct relay *r, struct relay_client *c, uint32_t client_id, struct stream **ret)
{
	struct stream *s = stream_new(r);

	*ret = s;
	if (!s)
		return -ENOMEM;
	const int rc = stream_join(s, c, client_id);
	if (rc < 0)
		stream_free(s);
	return rc;
}

static int client_exec(struct relay *r, struct relay_client *c, const struct wire_msg *msg)
{
	const uint32_t ours = WIRE_EXEC_KEEP | WIRE_EXEC_MAIN;
	struct wire_msg exec = *msg;
	struct stream *s = NULL;

	if ((msg->exec.flags & WIRE_EXEC_MAIN) && r->program)
		return relay_refuse(
			c, msg->stream, WIRE_FAIL_INVALID, EEXIST, "the box has a program already");
	int rc = client_stream(r, c, msg->stream, &s);
	if (rc < 0)
		return rc;
	s->tty = msg->exec.flags & WIRE_EXEC_TTY;
	if (msg->exec.flags & ours)
		rc = kept_new(s, &exec);
	if (rc == -EDQUOT) {
		stream_free(s);
		return relay_refuse(c, msg->stream, WIRE_FAIL_LIMIT, EDQUOT,
			"the box already keeps as much output as it can");
	}
	s->out_credit[WIRE_STDOUT] = s->out_credit[WIRE_STDERR] = exec.exec.out_credit;
	exec.exec.flags &= ~ours;
	if (rc == 0)
		rc = stream_to_guest(s, &exec);
	if (rc < 0)
		stream_free(s);
	return rc;
}

static int client_request(struct relay *r, struct relay_client *c, const struct wire_msg *msg)
{
	struct stream *s = NULL;
	int rc = client_stream(r, c, msg->stream, &s);

	if (rc < 0)
		return rc;
	s->request = msg->op;
	rc = stream_to_guest(s, msg);
	if (rc < 0)
		stream_free(s);
	return rc;
}

/* A frame that opens a stream. */
static int client_open(
	struct relay *r, struct relay_client *c, const struct wire_msg *msg, const char **ret_what)
{
	const uint32_t credit = msg->op == WIRE_OP_exec     ? msg->exec.out_credit
				: msg->op == WIRE_OP_attach ? msg->attach.out_credit
							    : 0;

	if (msg->stream == 0 || credit > WIRE_CREDIT_MAX) {
		*ret_what = "a request without a stream, or with too much credit";
		return -EPROTO;
	}
	if (msg->op == WIRE_OP_attach)
		return kept_attach(r, c, msg);
	if (!r->guest)
		return relay_refuse(
			c, msg->stream, WIRE_FAIL_ENDING, ESHUTDOWN, "the box is ending");
	if (r->full)
		return relay_refuse(c, msg->stream, WIRE_FAIL_NO_SPACE, ENOSPC,
			"the box waits for space on the host's disk");
	if (r->paused)
		return relay_refuse(c, msg->stream, WIRE_FAIL_PAUSED, EAGAIN, "the box is paused");
	if (relay_streams(r) >= WIRE_STREAMS_MAX)
		return relay_refuse(c, msg->stream, WIRE_FAIL_LIMIT, EAGAIN,
			"the box already runs as many commands as it can");
	return msg->op == WIRE_OP_exec ? client_exec(r, c, msg) : client_request(r, c, msg);
}

static int client_credit(struct stream *s, const struct wire_msg *msg, const char **ret_what)
{
	const uint8_t channel = msg->credit.channel;
	int rc = -EPROTO;

	*ret_what = "credit beyond the limit";
	if (channel == WIRE_STDIN)
		return rc;
	if (s->kept)
		return kept_client_credit(s, (enum wire_channel)channel, msg->credit.bytes);
	if (s->out_credit[channel] + msg->credit.bytes > WIRE_CREDIT_MAX)
		return rc;
	rc = stream_to_guest(s, msg);
	if (rc == 0)
		s->out_credit[channel] += msg->credit.bytes;
	return rc;
}

static int client_stdin(struct stream *s, const struct wire_msg *msg, const char **ret_what)
{
	const bool eof = msg->op == WIRE_OP_eof;
	const uint8_t channel = eof ? msg->eof.channel : msg->data.channel;
	const uint32_t len = eof ? 0 : msg->data.bytes.len;

	if (channel != WIRE_STDIN || (s->in_eof && !eof) || len > s->in_credit) {
		*ret_what = "stdin beyond its credit or end";
		return -EPROTO;
	}
	if (s->in_eof && !s->tty)
		return 0;
	s->in_credit -= len;
	/* On a terminal an end is a key like others. */
	s->in_eof = eof && !s->tty;
	return stream_to_guest(s, msg);
}

/* The client wants nothing more of it. Only a kept one goes on. */
static int client_leave(struct stream *s, const struct wire_msg *msg)
{
	struct relay_client *c = s->client;

	abandon(s);
	return relay_done(c, msg->stream);
}

/* A frame of a stream that is open. */
static int client_frame(struct stream *s, const struct wire_msg *msg, const char **ret_what)
{
	if (msg->op == WIRE_OP_leave && !s->request)
		return client_leave(s, msg);
	if (msg->op == WIRE_OP_credit)
		return client_credit(s, msg, ret_what);
	if (s->request) {
		*ret_what = "more than one frame for a request";
		return -EPROTO;
	}
	if (s->state == STREAM_ENDED || !s->relay->guest)
		return 0;
	switch (msg->op) {
	case WIRE_OP_signal:
	case WIRE_OP_resize:
		return stream_to_guest(s, msg);
	case WIRE_OP_data:
	case WIRE_OP_eof:
		return client_stdin(s, msg, ret_what);
	default:
		*ret_what = "a frame that no client may send";
		return -EPROTO;
	}
}

int relay_from_client(
	struct relay *r, struct relay_client *c, const struct wire_msg *msg, const char **ret_what)
{
	struct stream *s = NULL;
	int rc = 0;

	HASH_FIND(by_client, c->streams, &msg->stream, sizeof msg->stream, s);
	switch (msg->op) {
	case WIRE_OP_exec:
	case WIRE_OP_attach:
	case WIRE_OP_directories:
	case WIRE_OP_ping:
	case WIRE_OP_stats:
		*ret_what = "a request on a stream in use";
		rc = s ? -EPROTO : client_open(r, c, msg, ret_what);
		break;
	case WIRE_OP_leave:
		rc = s ? client_frame(s, msg, ret_what) : relay_done(c, msg->stream);
		break;
	default:
		/* Without a stream: it ended while the frame was under way. */
		rc = s ? client_frame(s, msg, ret_what) : 0;
	}
	kept_trim(r);
	/* The guest is just ending; the box's end tells the client. */
	return rc == -EPIPE && !r->guest ? 0 : rc;
}

/* ---- frames of the guest ---- */

static bool out_channel(const struct stream *s, uint8_t channel)
{
	return (channel == WIRE_STDOUT || channel == WIRE_STDERR) && !s->out_eof[channel];
}

static int guest_data(struct stream *s, const struct wire_msg *msg, const char **ret_what)
{
	const uint8_t channel = msg->data.channel;
	const uint32_t len = msg->data.bytes.len;

	if (!out_channel(s, channel) || len > s->out_credit[channel]) {
		*ret_what = "output beyond its credit or end";
		return -EPROTO;
	}
	s->out_credit[channel] -= len;
	if (s->kept)
		return kept_data(s, (enum wire_channel)channel, &msg->data.bytes);
	if (!s->client)
		drain(s, (enum wire_channel)channel, len);
	return stream_to_client(s, msg);
}

static int guest_eof(struct stream *s, const struct wire_msg *msg)
{
	if (!out_channel(s, msg->eof.channel))
		return -EPROTO;
	s->out_eof[msg->eof.channel] = true;
	return s->kept ? kept_eof(s) : stream_to_client(s, msg);
}

static int guest_started(struct stream *s, const struct wire_msg *msg, const char **ret_what)
{
	if (s->state != STREAM_STARTING || msg->started.in_credit > WIRE_CREDIT_MAX) {
		*ret_what = "started twice, or with too much credit";
		return -EPROTO;
	}
	s->state = STREAM_RUNNING;
	s->in_credit = msg->started.in_credit;
	return s->kept ? kept_started(s, msg) : stream_to_client(s, msg);
}

static int guest_credit(struct stream *s, const struct wire_msg *msg, const char **ret_what)
{
	if (msg->credit.channel != WIRE_STDIN ||
		s->in_credit + msg->credit.bytes > WIRE_CREDIT_MAX) {
		*ret_what = "credit beyond the limit";
		return -EPROTO;
	}
	s->in_credit += msg->credit.bytes;
	return s->in_eof ? 0 : stream_to_client(s, msg);
}

/* It did not start. */
static int guest_fail(struct stream *s, const struct wire_msg *msg, const char **ret_what)
{
	if (s->state != STREAM_STARTING) {
		*ret_what = "a program that runs cannot fail to start";
		return -EPROTO;
	}
	const struct relay_hooks hooks = s->relay->hooks;
	const bool program = s->kept && s->kept->program;
	const int rc = stream_to_client(s, msg);

	stream_free(s);
	if (program && hooks.program_ended)
		hooks.program_ended(hooks.user, msg);
	return rc;
}

static int guest_exit(struct stream *s, const struct wire_msg *msg)
{
	if (s->kept)
		return kept_end(s, msg);
	const int rc = stream_to_client(s, msg);
	stream_free(s);
	return rc;
}

/* The one answer of a request, or that it failed. */
static int guest_answer(struct stream *s, const struct wire_msg *msg, const char **ret_what)
{
	static const struct {
		uint16_t request;
		uint16_t answer;
	} pairs[] = {{WIRE_OP_directories, WIRE_OP_done}, {WIRE_OP_freeze, WIRE_OP_done},
		{WIRE_OP_network, WIRE_OP_done}, {WIRE_OP_park, WIRE_OP_done},
		{WIRE_OP_ping, WIRE_OP_pong}, {WIRE_OP_stats, WIRE_OP_stats_reply}};
	bool fits = msg->op == WIRE_OP_fail;

	for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
		fits |= pairs[i].request == s->request && pairs[i].answer == msg->op;
	if (!fits) {
		*ret_what = "an answer that does not fit the request";
		return -EPROTO;
	}
	const int rc = stream_to_client(s, msg);
	void (*answer)(void *, const struct wire_msg *) = s->answer;
	void *user = s->answer_user;
	s->answer = NULL;
	stream_free(s);
	if (answer)
		answer(user, msg);
	return rc;
}

int relay_from_guest(struct relay *r, const struct wire_msg *msg, const char **ret_what)
{
	struct stream *s = NULL;

	HASH_FIND(by_guest, r->streams, &msg->stream, sizeof msg->stream, s);
	*ret_what = "a frame for a stream that does not exist";
	/* The lanes overtake each other: a short program's exit (bulk) may come before its started
	 * or its last credit (control), which then concern nobody. */
	if (!s || s->state == STREAM_ENDED)
		return msg->op == WIRE_OP_started || msg->op == WIRE_OP_credit ? 0 : -EPROTO;
	if (s->request)
		return guest_answer(s, msg, ret_what);
	switch (msg->op) {
	case WIRE_OP_started:
		return guest_started(s, msg, ret_what);
	case WIRE_OP_fail:
		return guest_fail(s, msg, ret_what);
	case WIRE_OP_credit:
		return guest_credit(s, msg, ret_what);
	case WIRE_OP_data:
		return guest_data(s, msg, ret_what);
	case WIRE_OP_eof:
		return guest_eof(s, msg);
	case WIRE_OP_exit:
		return guest_exit(s, msg);
	default:
		*ret_what = "a frame that no stream carries";
		return -EPROTO;
	}
}

/* ---- of the keeper itself ---- */

int relay_ask(struct relay *r, const struct wire_msg *msg,
	void (*answer)(void *user, const struct wire_msg *msg), void *user)
{
	struct stream *s = stream_new(r);

	if (!s)
		return -ENOMEM;
	s->request = msg->op;
	const int rc = stream_to_guest(s, msg);
	if (rc < 0) {
		stream_free(s);
		return rc;
	}
	s->answer = answer;
	s->answer_user = user;
	return 0;
}

bool relay_has_program(const struct relay *r)
{
	return r->program && r->program->state != STREAM_ENDED;
}

int relay_signal_program(struct relay *r, uint32_t signo, uint32_t flags)
{
	if (!relay_has_program(r))
		return 0;
	return stream_to_guest(r->program, &(struct wire_msg){.op = WIRE_OP_signal,
						   .signal = {.signo = signo, .flags = flags}});
}

bool relay_owes(const struct relay *r, const struct relay_client *c)
{
	const struct stream *s, *next;

	(void)r;
	HASH_ITER (by_client, c->streams, s, next) {
		if (s->kept && kept_owes(s))
			return true;
	}
	return c->got_exit && channel_queued(c->ch, WIRE_BULK) > 0;
}
