/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kept execs. Output goes from the guest into a ring per channel and from there to the client that
 * is attached, if there is one.
 *
 * A ring holds `keep` bytes and one window more. The guest has at most a window of credit, and with
 * a client attached only as far as the ring has room behind what the client has taken: so nothing
 * is overwritten that it still needs, and a slow reader slows the program. Without a client the
 * guest always has a full window, and the oldest bytes go. A client that attaches begins `keep`
 * bytes before the newest; a gap frame tells it what is missing before that.
 *
 * An ended exec stays with its rings, so that its output and exit can still be had; the oldest
 * beyond KEPT_ENDED_MAX goes, and so it does where a new one needs its share of KEPT_TOTAL_MAX.
 *
 * Without memory a ring stays smaller than it should be. Then bytes may go that the client has not
 * got yet; a gap in front of the next ones tells how many.
 */
#include "box/relay_stream.h"

#include <errno.h>

#include "base/banned.h"

#define KEPT_WINDOW    262144u
#define KEPT_MIN       65536u
#define KEPT_DEFAULT   262144u
#define KEPT_MAX       16777216u
#define KEPT_ENDED_MAX 64u
#define KEPT_TOTAL_MAX 268435456u /* of all rings of a box, as if full */

static size_t window_of(const struct kept *k)
{
	return k->keep < KEPT_WINDOW ? k->keep : KEPT_WINDOW;
}

static size_t rings_total(const struct relay *r)
{
	const struct stream *s, *next;
	size_t total = 0;

	HASH_ITER (by_guest, r->streams, s, next)
		total += s->kept ? 2 * s->kept->out[0].ring.max : 0;
	return total;
}

/* Nobody is attached to it, and it is not the program of the box. False: there is none. */
static bool forget_oldest(struct relay *r)
{
	struct stream *s, *next, *oldest = NULL;

	HASH_ITER (by_guest, r->streams, s, next) {
		if (s->kept && s->state == STREAM_ENDED && !s->client && s != r->program &&
			(!oldest || s->kept->end_order < oldest->kept->end_order))
			oldest = s;
	}
	if (!oldest)
		return false;
	stream_free(oldest);
	return true;
}

void kept_trim(struct relay *r)
{
	while (r->ended_kept > KEPT_ENDED_MAX && forget_oldest(r))
		continue;
}

static bool make_room(struct relay *r, size_t need)
{
	while (rings_total(r) + need > KEPT_TOTAL_MAX) {
		if (!forget_oldest(r))
			return false;
	}
	return true;
}

int kept_new(struct stream *s, struct wire_msg *exec)
{
	const uint32_t wish = exec->exec.replay ? exec->exec.replay : KEPT_DEFAULT;
	struct kept *k = mem_zalloc(sizeof *k);

	if (!k)
		return -ENOMEM;
	k->keep = wish < KEPT_MIN ? KEPT_MIN : wish > KEPT_MAX ? KEPT_MAX : wish;
	if (!make_room(s->relay, 2 * (k->keep + window_of(k)))) {
		mem_free(k);
		return -EDQUOT;
	}
	k->number = s->relay->next_number++;
	k->program = exec->exec.flags & WIRE_EXEC_MAIN;
	for (int i = 0; i < 2; i++) {
		k->out[i].ring = RING_INIT(k->keep + window_of(k));
		k->out[i].credit = exec->exec.out_credit;
	}
	/* From here on the guest sends under our credit. */
	exec->exec.out_credit = (uint32_t)window_of(k);
	s->kept = k;
	if (k->program)
		s->relay->program = s;
	return 0;
}

void kept_free(struct stream *s)
{
	struct kept *k = s->kept;

	if (!k)
		return;
	if (s->relay->program == s)
		s->relay->program = NULL;
	if (s->state == STREAM_ENDED)
		s->relay->ended_kept--;
	ring_done(&k->out[0].ring);
	ring_done(&k->out[1].ring);
	mem_free(k);
	s->kept = NULL;
}

/* ---- towards the guest ---- */

static int grant(struct stream *s, enum wire_channel channel)
{
	const struct kept *k = s->kept;
	const struct kept_out *o = &k->out[channel - 1];
	size_t room = window_of(k);

	if (s->state == STREAM_ENDED || s->out_eof[channel])
		return 0;
	if (s->client) {
		const size_t left = o->ring.max - (size_t)(o->ring.head - o->pos);
		room = left < room ? left : room;
	}
	/* In halves, so that not every frame costs another. */
	if (room <= s->out_credit[channel] || room - s->out_credit[channel] < window_of(k) / 2)
		return 0;
	const struct wire_msg credit = {.op = WIRE_OP_credit,
		.credit = {.channel = (uint8_t)channel,
			.bytes = (uint32_t)(room - s->out_credit[channel])}};
	const int r = stream_to_guest(s, &credit);
	if (r == 0)
		s->out_credit[channel] = room;
	return r == -EPIPE ? 0 : r;
}

void kept_alone(struct stream *s)
{
	(void)grant(s, WIRE_STDOUT);
	(void)grant(s, WIRE_STDERR);
}

/* ---- towards the client ---- */

/* Pass over what is not there any more. */
static int pump_gap(struct stream *s, enum wire_channel channel)
{
	struct kept_out *o = &s->kept->out[channel - 1];

	if (o->pos >= o->ring.tail)
		return 0;
	const int r = stream_offer(
		s, &(struct wire_msg){.op = WIRE_OP_gap,
			   .gap = {.channel = (uint8_t)channel, .bytes = o->ring.tail - o->pos}});
	if (r == 0)
		o->pos = o->ring.tail;
	return r;
}

static int pump_data(struct stream *s, enum wire_channel channel)
{
	struct kept_out *o = &s->kept->out[channel - 1];

	while (o->pos < o->ring.head && o->credit > 0) {
		size_t len = 0;
		const uint8_t *data = ring_peek(&o->ring, o->pos, &len);

		if (len > o->credit)
			len = (size_t)o->credit;
		if (len > WIRE_DATA_MAX)
			len = WIRE_DATA_MAX;
		const struct wire_msg msg = {.op = WIRE_OP_data,
			.data = {.channel = (uint8_t)channel, .bytes = {data, (uint32_t)len}}};
		const int r = stream_offer(s, &msg);
		if (r < 0)
			return r;
		o->pos += len;
		o->credit -= len;
	}
	return 0;
}

static int pump_channel(struct stream *s, enum wire_channel channel)
{
	struct kept_out *o = &s->kept->out[channel - 1];
	int r = pump_gap(s, channel);

	if (r == 0)
		r = pump_data(s, channel);
	if (r < 0 || o->eof_sent || !s->out_eof[channel] || o->pos < o->ring.head)
		return r;
	r = stream_offer(
		s, &(struct wire_msg){.op = WIRE_OP_eof, .eof = {.channel = (uint8_t)channel}});
	o->eof_sent = r == 0;
	return r;
}

bool kept_owes(const struct stream *s)
{
	return s->client && s->state == STREAM_ENDED;
}

/* The exit goes last, and with it the client's part in the stream. */
static int pump_end(struct stream *s)
{
	const struct kept *k = s->kept;

	if (s->state != STREAM_ENDED || !k->out[0].eof_sent || !k->out[1].eof_sent)
		return 0;
	const int r = stream_offer(s, &k->end);
	if (r == 0) {
		s->client->got_exit = true;
		stream_part(s);
	}
	return r;
}

int kept_pump(struct stream *s)
{
	int r = 0;

	if (s->client && s->state != STREAM_STARTING) {
		r = pump_channel(s, WIRE_STDOUT);
		if (r == 0)
			r = pump_channel(s, WIRE_STDERR);
		if (r == 0)
			r = pump_end(s);
		/* A full queue is not the end: relay_client_drained goes on. */
		if (r == -ENOBUFS)
			r = 0;
	}
	if (r == 0)
		r = grant(s, WIRE_STDOUT);
	return r == 0 ? grant(s, WIRE_STDERR) : r;
}

/* ---- attach and leave ---- */

static int send_started(struct stream *s)
{
	return stream_to_client(
		s, &(struct wire_msg){.op = WIRE_OP_started,
			   .started = {.pid = s->kept->pid,
				   .in_credit = s->in_eof ? 0 : (uint32_t)s->in_credit,
				   .number = s->kept->number}});
}

/* Place the client in front of what is kept, and tell what is not. */
static int begin(struct stream *s, uint32_t credit)
{
	int r = 0;

	for (int i = 0; i < 2 && r == 0; i++) {
		struct kept_out *o = &s->kept->out[i];
		const uint64_t kept = o->ring.head - o->ring.tail;

		o->pos = kept > s->kept->keep ? o->ring.head - s->kept->keep : o->ring.tail;
		o->credit = credit;
		o->eof_sent = false;
		if (o->pos > 0)
			r = stream_to_client(
				s, &(struct wire_msg){.op = WIRE_OP_gap,
					   .gap = {.channel = (uint8_t)(i + 1), .bytes = o->pos}});
	}
	return r;
}

static struct stream *find_kept(const struct relay *r, uint32_t number)
{
	struct stream *s, *next;

	if (number == 0)
		return r->program;
	HASH_ITER (by_guest, r->streams, s, next)
		if (s->kept && s->kept->number == number)
			return s;
	return NULL;
}

int kept_attach(struct relay *r, struct relay_client *c, const struct wire_msg *msg)
{
	struct stream *s = find_kept(r, msg->attach.number);

	if (!s)
		return relay_refuse(c, msg->stream, WIRE_FAIL_NO_EXEC, ENOENT,
			"the box keeps no command of that number");
	if (s->client)
		return relay_refuse(c, msg->stream, WIRE_FAIL_BUSY, EBUSY,
			"another client is attached to the command");
	int rc = stream_join(s, c, msg->stream);
	if (rc == 0 && s->state != STREAM_STARTING)
		rc = send_started(s);
	if (rc == 0)
		rc = begin(s, msg->attach.out_credit);
	return rc == 0 ? kept_pump(s) : rc;
}

/* ---- frames ---- */

int kept_started(struct stream *s, const struct wire_msg *msg)
{
	s->kept->pid = msg->started.pid;
	const int r = send_started(s);
	return r == 0 ? kept_pump(s) : r;
}

int kept_client_credit(struct stream *s, enum wire_channel channel, uint32_t bytes)
{
	struct kept_out *o = &s->kept->out[channel - 1];

	if (o->credit + bytes > WIRE_CREDIT_MAX)
		return -EPROTO;
	o->credit += bytes;
	return kept_pump(s);
}

int kept_data(struct stream *s, enum wire_channel channel, const struct wire_bytes *bytes)
{
	const struct relay_hooks *hooks = &s->relay->hooks;

	if (s->kept->program && hooks->program_output)
		hooks->program_output(hooks->user, channel, bytes->data, bytes->len);
	ring_append(&s->kept->out[channel - 1].ring, bytes->data, bytes->len);
	return kept_pump(s);
}

int kept_eof(struct stream *s)
{
	return kept_pump(s);
}

int kept_end(struct stream *s, const struct wire_msg *msg)
{
	struct relay *relay = s->relay;

	/* The exit came first; the client still has to learn its number. */
	if (s->state == STREAM_STARTING)
		(void)!send_started(s);
	s->state = STREAM_ENDED;
	s->kept->end = *msg;
	s->kept->end_order = relay->ended++;
	s->out_eof[WIRE_STDOUT] = s->out_eof[WIRE_STDERR] = true;
	relay->ended_kept++;
	const int r = kept_pump(s);
	if (s->kept->program && relay->hooks.program_ended)
		relay->hooks.program_ended(relay->hooks.user, msg);
	kept_trim(relay);
	return r;
}
