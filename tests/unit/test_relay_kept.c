/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kept execs in the keeper: what of the output is kept, what is told to be missing, and that
 * neither a hostile guest nor a client that does not read makes it wrong or large (K02, K47).
 *
 * Every byte of a stream is a function of its position, so a reader sees at once whether one is
 * missing, doubled, or not told to be gone.
 */
#include "relay_fixture.h"

#include "box/ring.h"

#define KEEP_MIN 65536u
#define WINDOW   262144u

/* ---- the program ---- */

/* What the exec that is played in the guest has sent and may send, by channel. */
struct program {
	uint32_t stream;
	uint64_t sent[3];
	uint64_t credit[3];
};

static uint64_t hooked_bytes;
static int hooked_ends;

static void on_output(void *user, enum wire_channel channel, const uint8_t *bytes, size_t len)
{
	(void)user;
	(void)channel;
	(void)bytes;
	hooked_bytes += len;
}

static void on_end(void *user, const struct wire_msg *msg)
{
	(void)user;
	ck_assert(msg->op == WIRE_OP_exit || msg->op == WIRE_OP_fail);
	hooked_ends++;
}

static void setup_kept(void)
{
	hooks = (struct relay_hooks){.program_output = on_output, .program_ended = on_end};
	setup();
}

static uint8_t byte_at(uint64_t pos)
{
	return (uint8_t)(pos * 31 + pos / 251 + (pos >> 16) * 7);
}

static struct wire_msg kept_exec(uint32_t id, uint32_t client_credit, uint32_t replay)
{
	return (struct wire_msg){.op = WIRE_OP_exec,
		.stream = id,
		.exec = {.flags = WIRE_EXEC_KEEP,
			.out_credit = client_credit,
			.replay = replay,
			.argv = argv_true}};
}

/* What the guest gets of a new exec. */
static struct program begun(void)
{
	struct wire_msg msg = next(&guest, WIRE_AS_GUEST, WIRE_CONTROL);

	while (msg.op == WIRE_OP_credit)
		msg = next(&guest, WIRE_AS_GUEST, WIRE_CONTROL);
	ck_assert_int_eq(msg.op, WIRE_OP_exec);
	/* Flags for the keeper go no further. */
	ck_assert_uint_eq(msg.exec.flags & ~(uint32_t)WIRE_EXEC_FLAGS_ALL, 0);
	return (struct program){
		.stream = msg.stream, .credit = {0, msg.exec.out_credit, msg.exec.out_credit}};
}

static struct program keep(uint32_t id, uint32_t client_credit, uint32_t replay)
{
	ck_assert_int_eq(from_client(kept_exec(id, client_credit, replay)), 0);
	const struct program p = begun();
	ck_assert_int_eq(from_guest(started(p.stream, 0)), 0);
	return p;
}

/* Take what the keeper has granted. */
static void take_credit(struct program *p)
{
	struct wire_msg msg;

	while (try_next(&guest, WIRE_AS_GUEST, WIRE_CONTROL, &msg)) {
		if (msg.op != WIRE_OP_credit || msg.stream != p->stream)
			continue;
		p->credit[msg.credit.channel] += msg.credit.bytes;
		ck_assert_uint_le(p->credit[msg.credit.channel], WINDOW);
	}
}

/* Write up to @len bytes, as far as the credit goes; returns how many went. */
static uint64_t feed(struct program *p, uint8_t channel, uint64_t len)
{
	static uint8_t bytes[WIRE_DATA_MAX];
	uint64_t done = 0;

	for (;;) {
		uint64_t n = len - done < sizeof bytes ? len - done : sizeof bytes;

		if (p->credit[channel] == 0)
			take_credit(p);
		if (n > p->credit[channel])
			n = p->credit[channel];
		if (n == 0)
			return done;
		for (uint64_t i = 0; i < n; i++)
			bytes[i] = byte_at(p->sent[channel] + i);
		ck_assert_int_eq(
			from_guest((struct wire_msg){.op = WIRE_OP_data,
				.stream = p->stream,
				.data = {.channel = channel, .bytes = {bytes, (uint32_t)n}}}),
			0);
		p->sent[channel] += n;
		p->credit[channel] -= n;
		done += n;
	}
}

static void finish(const struct program *p, uint32_t code)
{
	ck_assert_int_eq(from_guest((struct wire_msg){
				 .op = WIRE_OP_exit, .stream = p->stream, .exit = {.code = code}}),
		0);
}

/* ---- the reader ---- */

struct reader {
	uint32_t stream;
	uint64_t pos[3]; /* of the next byte */
	uint64_t gap[3];
	uint64_t got[3];
	uint32_t number;
	int n_started;
	bool eof[3];
	bool over;
	uint32_t code;
};

static void read_bulk(struct reader *r, const struct wire_msg *m)
{
	ck_assert_msg(!r->over, "a frame behind the exit");
	if (m->op == WIRE_OP_gap) {
		r->gap[m->gap.channel] += m->gap.bytes;
		r->pos[m->gap.channel] += m->gap.bytes;
	} else if (m->op == WIRE_OP_data) {
		const uint8_t c = m->data.channel;
		ck_assert_uint_gt(m->data.bytes.len, 0);
		ck_assert(!r->eof[c]);
		uint32_t same = 0;
		while (same < m->data.bytes.len &&
			m->data.bytes.data[same] == byte_at(r->pos[c] + same))
			same++;
		ck_assert_uint_eq(same, m->data.bytes.len);
		r->pos[c] += m->data.bytes.len;
		r->got[c] += m->data.bytes.len;
	} else if (m->op == WIRE_OP_eof) {
		ck_assert(!r->eof[m->eof.channel]);
		r->eof[m->eof.channel] = true;
	} else {
		ck_assert_int_eq(m->op, WIRE_OP_exit);
		r->over = true;
		r->code = m->exit.code;
	}
}

/* Take everything that is there for the client. */
static void read_all(struct reader *r)
{
	struct wire_msg m;

	while (try_next(&client, WIRE_AS_CLIENT, WIRE_CONTROL, &m)) {
		if (m.stream != r->stream || m.op != WIRE_OP_started)
			continue;
		r->n_started++;
		r->number = m.started.number;
	}
	while (try_next(&client, WIRE_AS_CLIENT, WIRE_BULK, &m)) {
		if (m.stream == r->stream)
			read_bulk(r, &m);
	}
	ck_assert_int_eq(drained, 0);
}

static struct wire_msg attach(uint32_t id, uint32_t number, uint32_t window)
{
	return (struct wire_msg){.op = WIRE_OP_attach,
		.stream = id,
		.attach = {.number = number, .out_credit = window}};
}

/* Attach with a window that takes all that can be kept here, and read it. */
static struct reader read_kept(uint32_t id, uint32_t number)
{
	struct reader r = {.stream = id};

	ck_assert_int_eq(from_client(attach(id, number, WIRE_CREDIT_MAX)), 0);
	read_all(&r);
	return r;
}

/* How an attach is refused. */
static uint32_t refusal(uint32_t id, uint32_t number)
{
	ck_assert_int_eq(from_client(attach(id, number, 1)), 0);
	const struct wire_msg msg = next(&client, WIRE_AS_CLIENT, WIRE_CONTROL);
	ck_assert_int_eq(msg.op, WIRE_OP_fail);
	ck_assert_uint_eq(msg.stream, id);
	return msg.fail.class_;
}

static void leave(uint32_t id)
{
	ck_assert_int_eq(from_client(plain(WIRE_OP_leave, id)), 0);
	struct wire_msg msg = next(&client, WIRE_AS_CLIENT, WIRE_CONTROL);

	while (msg.op == WIRE_OP_started)
		msg = next(&client, WIRE_AS_CLIENT, WIRE_CONTROL);
	ck_assert_int_eq(msg.op, WIRE_OP_done);
}

static uint32_t number_of(uint32_t id)
{
	struct reader r = {.stream = id};

	read_all(&r);
	ck_assert_int_eq(r.n_started, 1);
	return r.number;
}

/* ---- output ---- */

START_TEST(a_slow_reader_slows_the_program_and_loses_nothing)
{
	struct program p = keep(1, 1000, KEEP_MIN);
	struct reader r = {.stream = 1};

	for (int round = 0; r.got[1] < 1000000; round++) {
		ck_assert_int_lt(round, 2000);
		(void)feed(&p, WIRE_STDOUT, UINT64_MAX);
		read_all(&r);
		/* Held is what the ring has room for, and no more. */
		ck_assert_uint_le(p.sent[1] - r.got[1], 2 * KEEP_MIN);
		ck_assert_int_eq(from_client(credit(1, WIRE_STDOUT, 1000)), 0);
	}
	ck_assert_uint_eq(r.gap[1], 0);
	/* The other channel is not held up. */
	ck_assert_uint_eq(feed(&p, WIRE_STDERR, 1000), 1000);
	finish(&p, 3);
	while (!r.over) {
		read_all(&r);
		ck_assert_int_eq(from_client(credit(1, WIRE_STDOUT, 100000)), 0);
	}
	ck_assert_uint_eq(r.got[1], p.sent[1]);
	ck_assert_uint_eq(r.got[2], 1000);
	ck_assert(r.eof[1] && r.eof[2]);
	ck_assert_uint_eq(r.code, 3);
}
END_TEST

START_TEST(without_a_reader_the_newest_stay_and_the_gap_is_exact)
{
	static const uint64_t sizes[] = {0, 1, 4095, KEEP_MIN - 1, KEEP_MIN, KEEP_MIN + 1,
		2 * KEEP_MIN, 2 * KEEP_MIN + 1, 1000003};

	for (uint32_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
		struct program p = keep(10 + i, 1, KEEP_MIN);
		const uint32_t number = number_of(10 + i);

		leave(10 + i);
		ck_assert_uint_eq(feed(&p, WIRE_STDOUT, sizes[i]), sizes[i]);
		ck_assert_uint_eq(feed(&p, WIRE_STDERR, 7), 7);
		const struct reader r = read_kept(100 + i, number);
		ck_assert_int_eq(r.n_started, 1);
		ck_assert_uint_eq(r.number, number);
		ck_assert_uint_eq(r.gap[1] + r.got[1], sizes[i]);
		ck_assert_uint_eq(r.got[1], sizes[i] < KEEP_MIN ? sizes[i] : KEEP_MIN);
		ck_assert_uint_eq(r.gap[2], 0);
		ck_assert_uint_eq(r.got[2], 7);
	}
}
END_TEST

START_TEST(kept_output_then_live_output_then_again_from_another)
{
	struct program p = keep(1, 1, KEEP_MIN);
	const uint32_t number = number_of(1);

	leave(1);
	(void)feed(&p, WIRE_STDOUT, 300000);
	struct reader r = read_kept(2, number);
	(void)feed(&p, WIRE_STDOUT, 50000);
	read_all(&r);
	ck_assert_uint_eq(r.pos[1], 350000);
	leave(2);
	(void)feed(&p, WIRE_STDOUT, 10);
	/* The second reader gets what the first has had too, as far as it is kept. */
	r = read_kept(3, number);
	ck_assert_uint_eq(r.pos[1], 350010);
	ck_assert_uint_eq(r.got[1], KEEP_MIN);
	finish(&p, 9);
	read_all(&r);
	ck_assert(r.over && r.code == 9);
	/* And whoever comes after the end. */
	r = read_kept(4, number);
	ck_assert(r.over && r.code == 9 && r.pos[1] == 350010);
	r = read_kept(5, number);
	ck_assert(r.over && r.pos[1] == 350010);
}
END_TEST

START_TEST(a_reader_that_stops_reading_holds_no_more_than_its_queue)
{
	struct program p[8];
	struct reader r[8];

	/* More than the queue and the socket of the client take together. */
	for (uint32_t i = 0; i < 8; i++) {
		p[i] = keep(1 + i, WINDOW, WINDOW);
		r[i] = (struct reader){.stream = 1 + i};
	}
	for (int i = 0; i < 8; i++)
		ck_assert_uint_ge(feed(&p[i], WIRE_STDOUT, WINDOW), WINDOW);
	ck_assert_uint_le(channel_queued(&client.ch, WIRE_BULK), PEER_QUEUE);
	ck_assert_uint_gt(channel_queued(&client.ch, WIRE_BULK), PEER_QUEUE - 2 * WIRE_DATA_MAX);
	/* The ends come while nothing more fits. */
	for (int i = 0; i < 8; i++)
		finish(&p[i], (uint32_t)i);
	ck_assert(relay_owes(relay, rc));
	struct wire_msg m;
	while (try_next(&client, WIRE_AS_CLIENT, WIRE_BULK, &m))
		read_bulk(&r[m.stream - 1], &m);
	ck_assert_int_eq(drained, 0);
	for (uint32_t i = 0; i < 8; i++) {
		ck_assert_uint_eq(r[i].got[1], WINDOW);
		ck_assert(r[i].eof[1] && r[i].eof[2]);
		ck_assert_msg(r[i].over && r[i].code == i, "an exit was lost");
	}
	ck_assert(!relay_owes(relay, rc));
}
END_TEST

START_TEST(a_plain_exec_never_looks_whole_when_its_client_is_full)
{
	uint32_t a = start(1, WIRE_CREDIT_MAX), b = start(2, WIRE_CREDIT_MAX);
	int r = 0;

	for (int i = 0; i < 32 && r == 0; i++)
		r = from_guest(data(i % 2 ? a : b, WIRE_STDOUT, WIRE_DATA_MAX));
	/* Said once for the keeper, which drops it. */
	ck_assert_int_eq(r, -ENOBUFS);
	ck_assert(relay_client_broken(rc));
}
END_TEST

/* ---- who is attached ---- */

START_TEST(one_reader_at_a_time)
{
	struct program p = keep(1, 1, 0);
	const uint32_t number = number_of(1);

	ck_assert_uint_eq(refusal(2, number), WIRE_FAIL_BUSY);
	ck_assert_uint_eq(refusal(3, number + 1), WIRE_FAIL_NO_EXEC);
	ck_assert_uint_eq(refusal(4, 0), WIRE_FAIL_NO_EXEC);
	leave(1);
	/* Nothing is left to leave: also fine. */
	leave(1);
	ck_assert_int_eq(from_client(attach(5, number, 10)), 0);
	ck_assert_uint_eq(number_of(5), number);
	ck_assert_uint_eq(refusal(6, number), WIRE_FAIL_BUSY);
	finish(&p, 0);
}
END_TEST

START_TEST(a_client_that_dies_leaves_its_kept_execs_running)
{
	struct program p = keep(1, 1, KEEP_MIN);
	const uint32_t number = number_of(1);

	(void)feed(&p, WIRE_STDOUT, 100);
	relay_client_remove(relay, rc);
	rc = relay_client_add(relay, &client.ch);
	ck_assert_uint_eq(feed(&p, WIRE_STDOUT, 200000), 200000);
	struct wire_msg m;
	while (try_next(&client, WIRE_AS_CLIENT, WIRE_BULK, &m))
		ck_assert_uint_eq(m.stream, 1);
	const struct reader r = read_kept(7, number);
	ck_assert_uint_eq(r.pos[1], 200100);
	nothing(&guest);
}
END_TEST

START_TEST(stdin_that_was_ended_stays_so_for_the_next_client)
{
	ck_assert_int_eq(from_client(kept_exec(1, 1, 0)), 0);
	struct program p = begun();
	ck_assert_int_eq(from_guest(started(p.stream, 100)), 0);
	const uint32_t number = number_of(1);
	ck_assert_int_eq(from_client(data(1, WIRE_STDIN, 60)), 0);
	leave(1);
	/* The next one has what is left of the credit, and what came back meanwhile. */
	ck_assert_int_eq(from_guest(credit(p.stream, WIRE_STDIN, 5)), 0);
	ck_assert_int_eq(from_client(attach(2, number, 1)), 0);
	struct wire_msg msg = next(&client, WIRE_AS_CLIENT, WIRE_CONTROL);
	ck_assert_uint_eq(msg.started.in_credit, 45);
	const struct wire_msg eof = {
		.op = WIRE_OP_eof, .stream = 2, .eof = {.channel = WIRE_STDIN}};
	ck_assert_int_eq(from_client(eof), 0);
	leave(2);
	ck_assert_int_eq(from_client(attach(3, number, 1)), 0);
	msg = next(&client, WIRE_AS_CLIENT, WIRE_CONTROL);
	ck_assert_uint_eq(msg.started.in_credit, 0);
	/* Late credit of the guest is not passed on to somebody who may not write. */
	ck_assert_int_eq(from_guest(credit(p.stream, WIRE_STDIN, 5)), 0);
	ck_assert(!try_next(&client, WIRE_AS_CLIENT, WIRE_CONTROL, &msg));
	finish(&p, 0);
}
END_TEST

START_TEST(the_exit_may_overtake_the_start)
{
	struct reader r = {.stream = 1};

	ck_assert_int_eq(from_client(kept_exec(1, 100, 0)), 0);
	struct program p = begun();
	(void)feed(&p, WIRE_STDOUT, 50);
	finish(&p, 4);
	/* Its number is known nevertheless. */
	read_all(&r);
	ck_assert_int_eq(r.n_started, 1);
	ck_assert_uint_ne(r.number, 0);
	ck_assert(r.over && r.code == 4 && r.got[1] == 50);
	ck_assert_int_eq(from_guest(started(p.stream, 10)), 0);
	ck_assert(read_kept(2, r.number).over);
}
END_TEST

/* ---- the program of the box ---- */

START_TEST(the_program_is_one_and_its_end_is_told_once)
{
	struct wire_msg exec = kept_exec(1, 100, KEEP_MIN);

	exec.exec.flags = WIRE_EXEC_MAIN;
	ck_assert(!relay_has_program(relay));
	ck_assert_int_eq(from_client(exec), 0);
	struct program p = begun();
	ck_assert(relay_has_program(relay));
	exec.stream = 2;
	ck_assert_int_eq(from_client(exec), 0);
	ck_assert_uint_eq(
		next(&client, WIRE_AS_CLIENT, WIRE_CONTROL).fail.class_, WIRE_FAIL_INVALID);
	ck_assert_int_eq(from_guest(started(p.stream, 0)), 0);
	leave(1);
	hooked_bytes = 0;
	hooked_ends = 0;
	(void)feed(&p, WIRE_STDOUT, 500000);
	ck_assert_uint_eq(hooked_bytes, 500000);
	const struct reader r = read_kept(3, 0);
	ck_assert_uint_eq(r.pos[1], 500000);
	finish(&p, 1);
	ck_assert_int_eq(hooked_ends, 1);
	ck_assert(!relay_has_program(relay));
	/* It can still be had. */
	struct reader rest = {.stream = 3, .pos = {0, 500000, 0}};
	read_all(&rest);
	ck_assert(rest.over && read_kept(4, 0).over);
}
END_TEST

START_TEST(a_program_that_does_not_start_is_gone)
{
	struct wire_msg exec = kept_exec(1, 100, KEEP_MIN);

	exec.exec.flags |= WIRE_EXEC_MAIN;
	ck_assert_int_eq(from_client(exec), 0);
	const struct program p = begun();
	hooked_ends = 0;
	ck_assert_int_eq(from_guest(plain(WIRE_OP_fail, p.stream)), 0);
	ck_assert_int_eq(hooked_ends, 1);
	ck_assert_int_eq(next(&client, WIRE_AS_CLIENT, WIRE_CONTROL).op, WIRE_OP_fail);
	ck_assert(!relay_has_program(relay));
	ck_assert_uint_eq(relay_streams(relay), 0);
	ck_assert_uint_eq(refusal(2, 0), WIRE_FAIL_NO_EXEC);
}
END_TEST

/* ---- limits ---- */

START_TEST(of_the_ended_the_oldest_goes)
{
	uint32_t numbers[70];

	for (uint32_t i = 0; i < 70; i++) {
		struct program p = keep(1 + i, 1000, KEEP_MIN);

		numbers[i] = number_of(1 + i);
		leave(1 + i);
		(void)feed(&p, WIRE_STDOUT, i);
		finish(&p, i);
	}
	ck_assert_uint_eq(relay_streams(relay), 64);
	for (uint32_t i = 0; i < 6; i++)
		ck_assert_uint_eq(refusal(200 + i, numbers[i]), WIRE_FAIL_NO_EXEC);
	for (uint32_t i = 6; i < 70; i++) {
		const struct reader r = read_kept(300 + i, numbers[i]);
		ck_assert(r.over && r.code == i && r.got[1] == i);
	}
}
END_TEST

/* Those that somebody still reads stay, and do not stay for ever. */
START_TEST(an_ended_one_that_is_read_does_not_go)
{
	struct program p[70];

	for (uint32_t i = 0; i < 70; i++) {
		p[i] = keep(1 + i, 1, KEEP_MIN);
		(void)feed(&p[i], WIRE_STDOUT, 2);
	}
	for (uint32_t i = 0; i < 70; i++)
		finish(&p[i], i);
	ck_assert_uint_eq(relay_streams(relay), 70);
	for (uint32_t i = 0; i < 70; i++)
		ck_assert_int_eq(from_client(credit(1 + i, WIRE_STDOUT, 10)), 0);
	/* An exit is owed until it has left the queue. */
	struct reader last = {.stream = 70};
	read_all(&last);
	ck_assert(last.over);
	ck_assert(!relay_owes(relay, rc));
	ck_assert_uint_eq(relay_streams(relay), 64);
}
END_TEST

START_TEST(the_rings_of_a_box_are_bounded_and_ended_ones_make_room)
{
	struct program p[32];
	uint32_t n = 0;
	struct wire_msg msg = {0};

	for (; n < 32; n++) {
		ck_assert_int_eq(from_client(kept_exec(1 + n, 1, 16u << 20)), 0);
		if (!try_next(&guest, WIRE_AS_GUEST, WIRE_CONTROL, &msg))
			break;
		p[n] = (struct program){.stream = msg.stream};
		ck_assert_int_eq(from_guest(started(msg.stream, 0)), 0);
	}
	/* 256 MiB in all, as if they were full. */
	ck_assert_uint_eq(n, 7);
	struct wire_msg last = {0};
	while (try_next(&client, WIRE_AS_CLIENT, WIRE_CONTROL, &msg))
		last = msg;
	ck_assert_int_eq(last.op, WIRE_OP_fail);
	ck_assert_uint_eq(last.fail.class_, WIRE_FAIL_LIMIT);
	for (uint32_t i = 0; i < 3; i++)
		finish(&p[i], 0);
	for (uint32_t i = 0; i < 3; i++)
		(void)keep(100 + i, 1, 16u << 20);
}
END_TEST

START_TEST(a_client_cannot_have_more_credit_than_there_is)
{
	const struct program p = keep(1, 1, 0);
	const uint32_t number = number_of(1);

	ck_assert_int_eq(from_client(credit(1, WIRE_STDOUT, WIRE_CREDIT_MAX)), -EPROTO);
	leave(1);
	ck_assert_int_eq(from_client(attach(2, number, WIRE_CREDIT_MAX + 1)), -EPROTO);
	finish(&p, 0);
}
END_TEST

/* ---- the hostile ---- */

START_TEST(a_guest_cannot_go_beyond_its_state)
{
	const struct program p = keep(1, WINDOW, KEEP_MIN);

	for (uint8_t c = WIRE_STDOUT; c <= WIRE_STDERR; c++) {
		ck_assert_int_eq(from_guest(data(p.stream, c, KEEP_MIN)), 0);
		ck_assert_int_eq(from_guest(data(p.stream, c, KEEP_MIN)), 0);
	}
	leave(1);
	/* What the window was, and not a byte more than what was granted since. */
	struct program q = keep(2, 0, KEEP_MIN);
	ck_assert_int_eq(from_guest(data(q.stream, WIRE_STDOUT, KEEP_MIN)), 0);
	take_credit(&q);
	ck_assert_int_eq(from_guest(data(q.stream, WIRE_STDOUT, KEEP_MIN)), 0);
	ck_assert_int_eq(from_guest(data(q.stream, WIRE_STDOUT, 1)), -EPROTO);
	ck_assert_int_eq(from_guest(started(q.stream, 0)), -EPROTO);
	const struct wire_msg eof = {
		.op = WIRE_OP_eof, .stream = q.stream, .eof = {.channel = WIRE_STDERR}};
	ck_assert_int_eq(from_guest(eof), 0);
	ck_assert_int_eq(from_guest(eof), -EPROTO);
	ck_assert_int_eq(from_guest(data(q.stream, WIRE_STDERR, 1)), -EPROTO);
	finish(&q, 0);
	ck_assert_int_eq(from_guest(plain(WIRE_OP_exit, q.stream)), -EPROTO);
	ck_assert_int_eq(from_guest(plain(WIRE_OP_fail, q.stream)), -EPROTO);
	ck_assert_int_eq(from_guest(data(q.stream, WIRE_STDOUT, 1)), -EPROTO);
}
END_TEST

/* A running exec does not fail to start any more: its number would be gone without an exit. */
START_TEST(a_guest_cannot_take_a_start_back)
{
	const struct program p = keep(1, 1, 0);

	ck_assert_int_eq(from_guest(plain(WIRE_OP_fail, p.stream)), -EPROTO);
	const uint32_t a = start(2, 1);
	ck_assert_int_eq(from_guest(started(a, 0)), 0);
	ck_assert_int_eq(from_guest(plain(WIRE_OP_fail, a)), -EPROTO);
	ck_assert_uint_eq(relay_streams(relay), 2);
}
END_TEST

static uint32_t dice;

static uint32_t roll(uint32_t n)
{
	dice = dice * 1664525u + 1013904223u;
	return (dice >> 8) % n;
}

static struct wire_msg noise(bool of_guest)
{
	static const uint16_t guests[] = {WIRE_OP_data, WIRE_OP_data, WIRE_OP_data, WIRE_OP_started,
		WIRE_OP_eof, WIRE_OP_exit, WIRE_OP_fail, WIRE_OP_credit, WIRE_OP_pong};
	static const uint16_t clients[] = {WIRE_OP_exec, WIRE_OP_exec, WIRE_OP_attach,
		WIRE_OP_leave, WIRE_OP_credit, WIRE_OP_credit, WIRE_OP_eof, WIRE_OP_signal,
		WIRE_OP_ping};
	struct wire_msg m = {.stream = 1 + roll(12)};

	m.op = of_guest ? guests[roll(9)] : clients[roll(9)];
	switch (m.op) {
	case WIRE_OP_exec:
		m = kept_exec(m.stream, roll(3) * 1000, roll(2) * KEEP_MIN);
		m.exec.flags = roll(8) == 0 ? WIRE_EXEC_MAIN : roll(4) ? WIRE_EXEC_KEEP : 0;
		break;
	case WIRE_OP_attach:
		m = attach(m.stream, roll(40), roll(100000));
		break;
	case WIRE_OP_data:
		m = data(m.stream, (uint8_t)(1 + roll(2)), 1 + roll(WIRE_DATA_MAX));
		break;
	case WIRE_OP_eof:
		m.eof.channel = (uint8_t)(of_guest ? 1 + roll(2) : WIRE_STDIN);
		break;
	case WIRE_OP_credit:
		m = credit(m.stream, (uint8_t)(of_guest ? WIRE_STDIN : 1 + roll(2)), roll(100000));
		break;
	default:
		break;
	}
	return m;
}

/* Whatever comes in whatever order: bounded, and each side only breaks itself. */
START_TEST(noise_from_both_sides_stays_bounded)
{
	dice = (uint32_t)_i + 1;
	for (int i = 0; i < 3000; i++) {
		const bool of_guest = roll(2);
		struct wire_msg m = noise(of_guest);

		/* Memory is scarce now and then. */
		mem_fail_at(roll(10) == 0 ? 1 + roll(3) : 0);
		const int r = of_guest ? from_guest(m) : from_client(m);
		mem_fail_at(0);
		ck_assert(r == 0 || r == -EPROTO || r == -ENOMEM || r == -ENOBUFS);
		if (!of_guest && r < 0) {
			relay_client_remove(relay, rc);
			rc = relay_client_add(relay, &client.ch);
		}
		ck_assert_uint_le(relay_streams(relay), WIRE_STREAMS_MAX);
		ck_assert_uint_le(channel_queued(&client.ch, WIRE_BULK), PEER_QUEUE);
		if (i % 50 == 0) {
			while (try_next(&guest, WIRE_AS_GUEST, WIRE_CONTROL, &m) ||
				try_next(&guest, WIRE_AS_GUEST, WIRE_BULK, &m) ||
				try_next(&client, WIRE_AS_CLIENT, WIRE_CONTROL, &m) ||
				try_next(&client, WIRE_AS_CLIENT, WIRE_BULK, &m))
				continue;
		}
	}
}
END_TEST

/* ---- memory ---- */

/* Whichever allocation fails: what is lost is told, and nothing is invented. */
START_TEST(without_memory_a_gap_is_told)
{
	for (unsigned long n = 1; n < 14; n++) {
		const uint32_t id = (uint32_t)n * 10;
		struct program p = keep(id, WINDOW, KEEP_MIN);
		struct reader r = {.stream = id};

		mem_fail_at(n);
		for (int i = 0; i < 40; i++)
			(void)feed(&p, WIRE_STDOUT, 3000);
		mem_fail_at(0);
		finish(&p, 0);
		read_all(&r);
		ck_assert(r.over);
		ck_assert_uint_eq(r.pos[1], p.sent[1]);
		ck_assert_uint_eq(r.got[1] + r.gap[1], p.sent[1]);
		/* The next one is told the same of what is kept. */
		const struct reader again = read_kept(id + 1, r.number);
		ck_assert(again.over && again.pos[1] == p.sent[1]);
	}
}
END_TEST

START_TEST(without_memory_no_kept_exec_begins)
{
	for (unsigned long n = 1; n < 6; n++) {
		mem_fail_at(n);
		const int r = from_client(kept_exec((uint32_t)n, 1, 0));
		mem_fail_at(0);
		ck_assert(r == 0 || r == -ENOMEM);
	}
}
END_TEST

/* A ring beside all that was ever written to it. */
START_TEST(a_ring_has_the_newest)
{
	static uint8_t all[1 << 20];
	struct ring ring = RING_INIT(10000 + (size_t)_i * 4096);
	size_t end = 0;

	dice = (uint32_t)_i + 77;
	for (size_t i = 0; i < sizeof all; i++)
		all[i] = byte_at(i);
	while (end < sizeof all - 70000) {
		const size_t len = 1 + roll(roll(10) ? 5000 : 66000);

		mem_fail_at(_i % 2 && roll(3) == 0 ? 1 : 0);
		ring_append(&ring, all + end, len);
		mem_fail_at(0);
		end += len;
		ck_assert_uint_eq(ring.head, end);
		ck_assert_uint_le(ring.cap, ring.max);
		if (_i % 2 == 0)
			ck_assert_uint_eq(ring.head - ring.tail, end < ring.max ? end : ring.max);
		for (uint64_t pos = ring.tail; pos < ring.head;) {
			size_t n = 0;
			const uint8_t *piece = ring_peek(&ring, pos, &n);
			ck_assert_uint_gt(n, 0);
			ck_assert_mem_eq(piece, all + pos, n);
			pos += n;
		}
	}
	ring_done(&ring);
	ck_assert_ptr_null(ring.data);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {a_slow_reader_slows_the_program_and_loses_nothing,
		without_a_reader_the_newest_stay_and_the_gap_is_exact,
		kept_output_then_live_output_then_again_from_another,
		a_reader_that_stops_reading_holds_no_more_than_its_queue,
		a_plain_exec_never_looks_whole_when_its_client_is_full, one_reader_at_a_time,
		a_client_that_dies_leaves_its_kept_execs_running,
		stdin_that_was_ended_stays_so_for_the_next_client, the_exit_may_overtake_the_start,
		the_program_is_one_and_its_end_is_told_once, a_program_that_does_not_start_is_gone,
		of_the_ended_the_oldest_goes, an_ended_one_that_is_read_does_not_go,
		the_rings_of_a_box_are_bounded_and_ended_ones_make_room,
		a_client_cannot_have_more_credit_than_there_is, a_guest_cannot_go_beyond_its_state,
		a_guest_cannot_take_a_start_back, without_memory_a_gap_is_told,
		without_memory_no_kept_exec_begins};
	Suite *s = suite_create("relay_kept");
	TCase *c = tcase_create("relay_kept");

	tcase_add_checked_fixture(c, setup_kept, teardown);
	for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++)
		tcase_add_test(c, tests[i]);
	tcase_add_loop_test(c, noise_from_both_sides_stays_bounded, 0, 8);
	tcase_add_loop_test(c, a_ring_has_the_newest, 0, 4);
	suite_add_tcase(s, c);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	const int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
