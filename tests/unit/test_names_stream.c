/* SPDX-License-Identifier: Apache-2.0 */
/* K41: questions by TCP of a guest that is in order, slow, broken or hostile. */
#include <check.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/net_link.h"
#include "frames.h"
#include "net/inet_sum.h"
#include "net/names_message.h"
#include "net/names_stream.h"
#include "net/poll_set.h"

#define FIN     1u
#define SYN     2u
#define RST     4u
#define ACK     16u
#define TCP_MAX 1240u

static struct names_streams *t;
static uint64_t now;
static bool six;
/* What the guest got last, and in all. */
static struct {
	unsigned n;
	uint8_t flags;
	uint32_t seq, ack;
	uint16_t port, window;
	size_t len;
	uint8_t data[TCP_MAX];
	size_t all_len;
	uint8_t all[NAMES_ANSWER_MAX + 2];
	uint32_t all_seq; /* where what is in order ends */
} got;
static struct {
	unsigned n, forgotten;
	uint32_t id;
	size_t len;
	uint8_t data[NAMES_QUESTION_MAX];
	bool none; /* answer at once that there is no answer */
} asked;

static void take_question(uint32_t id, const void *data, size_t len, void *user)
{
	(void)user;
	asked.n++;
	asked.id = id;
	asked.len = len;
	ck_assert_uint_le(len, sizeof asked.data);
	memcpy(asked.data, data, len);
	if (asked.none)
		names_streams_answer(t, id, NULL, 0, now);
}

static void forget(uint32_t id, void *user)
{
	(void)user;
	(void)id;
	asked.forgotten++;
}

static void take_frame(const void *frame, size_t len, void *user)
{
	const uint8_t *const p = frame;
	const uint8_t *const ip = p + IP_AT;
	const size_t head = six ? 40 : 20;
	const uint8_t *const tcp = ip + head;
	const size_t size = (six ? 40u + get16(ip + 4) : get16(ip + 2)) - head;

	(void)user;
	ck_assert_uint_eq(IP_AT + head + size, len);
	ck_assert_uint_eq(inet_sum_transport(ip + (six ? 8 : 12), ip + (six ? 24 : 16),
				  six ? 16 : 4, 6, tcp, size),
		0);
	ck_assert_uint_eq(get16(tcp), 53);
	got.n++;
	got.port = get16(tcp + 2);
	got.seq = get32(tcp + 4);
	got.ack = get32(tcp + 8);
	got.flags = tcp[13];
	got.window = get16(tcp + 14);
	got.len = size - (size_t)(tcp[12] >> 4) * 4;
	ck_assert_uint_le(got.len, sizeof got.data);
	memcpy(got.data, tcp + size - got.len, got.len);
	if (got.len > 0 && got.seq == got.all_seq) {
		memcpy(got.all + got.all_len, got.data, got.len);
		got.all_len += got.len;
		got.all_seq += (uint32_t)got.len;
	}
}

static void setup(void)
{
	const struct names_streams_options options = {
		.ask = take_question, .forget = forget, .send = take_frame};
	auto_error error = NULL;

	six = false;
	now = 1000000;
	memset(&got, 0, sizeof got);
	memset(&asked, 0, sizeof asked);
	ck_assert_int_eq(names_streams_new(&options, &t, &error), 0);
}

static void teardown(void)
{
	names_streams_free(t);
	t = NULL;
}

/* A guest's end of a connection. */
static struct {
	uint16_t port, window;
	uint32_t seq, ack;
} me;

static enum names_stream_verdict give(unsigned flags, const void *data, size_t len)
{
	struct built b = frame_tcp(six ? NET_GUEST6 : NET_GUEST4, me.port,
		six ? NET_RESOLVER6 : NET_RESOLVER4, 53, (uint8_t)flags);
	uint8_t *const tcp = b.bytes + b.inner;

	put32(tcp + 4, me.seq);
	put32(tcp + 8, me.ack);
	put16(tcp + 14, me.window);
	memcpy(tcp + 20, data, len);
	b.len += len;
	put16(b.bytes + IP_AT + (six ? 4 : 2), (uint16_t)(len + (six ? 20 : 40)));
	uint8_t *const exact = malloc(b.len);
	memcpy(exact, b.bytes, b.len);
	const enum names_stream_verdict v = names_streams_frame(t, exact, b.len, now);
	free(exact);
	return v;
}

static void say(unsigned flags, const void *data, size_t len)
{
	ck_assert_int_eq(give(flags, data, len), STREAM_TAKEN);
}

static void dial(uint16_t port)
{
	me.port = port;
	me.window = 65535;
	me.seq = 0xfffffffe; /* it wraps */
	me.ack = 0;
	say(SYN, "", 0);
	ck_assert_uint_eq(got.flags, SYN | ACK);
	ck_assert_uint_eq(got.ack, me.seq + 1);
	me.seq++;
	me.ack = got.seq + 1;
	got.all_seq = me.ack;
	got.all_len = 0;
	say(ACK, "", 0);
}

static void question(size_t len)
{
	uint8_t data[2 + NAMES_QUESTION_MAX] = {0};

	put16(data, (uint16_t)len);
	say(ACK, data, 2 + len);
	me.seq += 2 + (uint32_t)len;
}

static void answer(size_t len)
{
	static uint8_t data[NAMES_ANSWER_MAX];

	for (size_t i = 0; i < len; i++)
		data[i] = (uint8_t)(i * 7 + (i >> 8));
	names_streams_answer(t, asked.id, data, len, now);
}

static void check_answer(size_t len)
{
	ck_assert_uint_eq(got.all_len, 2 + len);
	ck_assert_uint_eq(get16(got.all), len);
	for (size_t i = 0; i < len; i++)
		ck_assert_uint_eq(got.all[2 + i], (uint8_t)(i * 7 + (i >> 8)));
}

/* Until nothing is to be done for @ms; the wait must have an end that is ahead. */
static void pass(uint64_t ms)
{
	for (const uint64_t end = now + ms; now < end;) {
		struct poll_set set = {0};

		poll_set_clear(&set);
		names_streams_wait(t, &set);
		ck_assert_msg(set.wake_ms > now, "it would not wait");
		now = set.wake_ms < end ? set.wake_ms : end;
		names_streams_ready(t, now);
	}
}

START_TEST(one_question_after_another_and_the_end)
{
	six = _i;
	dial(4000);
	for (size_t len = 1; len <= 60000; len = len * 9 + 1) {
		question(30);
		ck_assert_uint_eq(asked.len, 30);
		answer(len);
		check_answer(len);
		me.ack = got.all_seq;
		got.all_len = 0;
		say(ACK, "", 0);
	}
	say(ACK | FIN, "", 0);
	me.seq++;
	ck_assert_uint_eq(got.flags, ACK | FIN);
	ck_assert_uint_eq(names_streams_open(t), 1);
	me.ack = got.seq + 1;
	say(ACK, "", 0);
	ck_assert_uint_eq(names_streams_open(t), 0);
	ck_assert_int_eq(give(ACK, "", 0), STREAM_REFUSE);
	ck_assert_uint_eq(asked.forgotten, 0);
}
END_TEST

START_TEST(questions_at_once_and_in_pieces)
{
	uint8_t data[3 * 12];

	dial(4000);
	for (unsigned i = 0; i < 3; i++) {
		memset(data + i * 12, (int)i, 12);
		put16(data + i * 12, 10);
	}
	/* Two and a half, then the rest byte for byte, with the end. */
	say(ACK, data, 30);
	me.seq += 30;
	for (unsigned i = 30; i < 36; i++, me.seq++)
		say(i == 35 ? ACK | FIN : ACK, data + i, 1);
	me.seq++;
	for (unsigned i = 0; i < 3; i++) {
		ck_assert_uint_eq(asked.n, i + 1);
		ck_assert_uint_eq(asked.data[9], i);
		ck_assert(!(got.flags & FIN));
		answer(5);
		me.ack = got.all_seq;
		say(ACK, "", 0);
	}
	ck_assert_uint_eq(got.all_len, 21);
	ck_assert(got.flags & FIN);
	me.ack++;
	say(ACK, "", 0);
	ck_assert_uint_eq(names_streams_open(t), 0);
}
END_TEST

START_TEST(what_is_lost_comes_again)
{
	dial(4000);
	question(10);
	const uint32_t before = me.ack;
	answer(5000);
	/* All but the beginning was lost. */
	got.all_seq = me.ack = before + 1220;
	got.all_len = 1220;
	say(ACK, "", 0);
	ck_assert_uint_eq(got.all_len, 1220);
	pass(STREAM_RESEND_MS);
	check_answer(5000);
	/* So does the end. */
	me.ack = got.all_seq;
	say(ACK | FIN, "", 0);
	me.seq++;
	const unsigned n = got.n;
	pass(STREAM_RESEND_MS);
	ck_assert_uint_eq(got.n, n + 1);
	ck_assert_uint_eq(got.flags, ACK | FIN);
	me.ack = got.seq + 1;
	say(ACK, "", 0);
	ck_assert_uint_eq(names_streams_open(t), 0);
}
END_TEST

START_TEST(a_small_window_is_kept_to)
{
	dial(4000);
	me.window = 10;
	question(10);
	answer(100);
	ck_assert_uint_eq(got.all_len, 10);
	while (got.all_len < 102) {
		me.ack = got.all_seq;
		say(ACK, "", 0);
		ck_assert_uint_le(got.len, 10);
	}
	check_answer(100);
}
END_TEST

START_TEST(a_guest_that_stops_reading_is_left)
{
	dial(4000);
	me.window = 0;
	question(10);
	answer(60000);
	ck_assert_uint_eq(got.all_len, 0);
	pass(60000);
	ck_assert_uint_eq(names_streams_open(t), 0);
	ck_assert(got.flags & RST);
	ck_assert_uint_lt(got.n, 20);
	/* One that opens and does nothing, one that only begins, one that asks and goes. */
	dial(4001);
	pass(STREAM_IDLE_MS);
	ck_assert_uint_eq(names_streams_open(t), 0);
	me.port = 4002;
	say(SYN, "", 0);
	pass(60000);
	ck_assert_uint_eq(names_streams_open(t), 0);
	dial(4003);
	question(10);
	pass(STREAM_IDLE_MS);
	ck_assert_uint_eq(names_streams_open(t), 0);
	ck_assert_uint_eq(asked.forgotten, 1);
	answer(10);
	ck_assert_uint_eq(names_streams_open(t), 0);
}
END_TEST

START_TEST(there_is_an_end_of_connections)
{
	for (unsigned port = 1; port <= 1000; port++) {
		me.port = (uint16_t)port;
		say(SYN, "", 0);
	}
	ck_assert_uint_eq(names_streams_open(t), STREAM_MAX);
	ck_assert_uint_eq(got.n, STREAM_MAX);
	pass(60000);
	ck_assert_uint_eq(names_streams_open(t), 0);
	dial(4000);
	ck_assert_uint_eq(names_streams_open(t), 1);
}
END_TEST

START_TEST(no_answer_is_an_end)
{
	dial(4000);
	asked.none = true;
	question(10);
	ck_assert(got.flags & RST);
	ck_assert_uint_eq(names_streams_open(t), 0);
	asked.none = false;
	dial(4000);
	question(10);
	answer(0);
	ck_assert_uint_eq(names_streams_open(t), 0);
	ck_assert_uint_eq(asked.forgotten, 0);
}
END_TEST

START_TEST(lengths_that_no_question_has)
{
	static const uint8_t lengths[][2] = {{0, 0}, {0x04, 0xd1}, {0xff, 0xff}};

	for (size_t i = 0; i < 3; i++) {
		dial((uint16_t)(4000 + i));
		say(ACK, lengths[i], 2);
		ck_assert(got.flags & RST);
		ck_assert_uint_eq(names_streams_open(t), 0);
	}
	ck_assert_uint_eq(asked.n, 0);
	dial(4010);
	question(NAMES_QUESTION_MAX);
	ck_assert_uint_eq(asked.len, NAMES_QUESTION_MAX);
}
END_TEST

START_TEST(more_than_there_is_room_for)
{
	uint8_t data[1400] = {0, 10};
	size_t taken = 0;

	dial(4000);
	/* The first is with the resolver; the rest waits, and is not taken beyond the room. */
	for (unsigned i = 0; i < 10; i++) {
		say(ACK, data, i == 0 ? 12 : sizeof data);
		taken += got.ack - me.seq;
		me.seq = got.ack;
		memset(data, 0, 2);
	}
	ck_assert_uint_eq(taken, 12 + 2 + NAMES_QUESTION_MAX);
	ck_assert_uint_eq(got.window, 0);
	ck_assert_uint_eq(asked.n, 1);
}
END_TEST

START_TEST(segments_that_do_not_fit)
{
	dial(4000);
	question(10);
	const uint32_t ack = me.ack, seq = me.seq;
	answer(3000);
	/* Acknowledged what was never sent, or long ago. */
	me.ack = ack + 100000;
	say(ACK, "", 0);
	me.ack = ack - 1;
	say(ACK, "", 0);
	got.all_seq = ack;
	got.all_len = 0;
	pass(STREAM_RESEND_MS);
	check_answer(3000);
	/* Data from elsewhere is not taken, but told where it should be. */
	me.seq = seq + 1;
	say(ACK, "x", 1);
	ck_assert_uint_eq(got.ack, seq);
	me.seq = seq - 1;
	say(ACK | FIN, "x", 1);
	ck_assert_uint_eq(got.ack, seq);
	/* A reset from elsewhere is none; so is a SYN. */
	say(RST, "", 0);
	say(SYN, "", 0);
	ck_assert_uint_eq(names_streams_open(t), 1);
	me.seq = seq;
	say(RST, "", 0);
	ck_assert_uint_eq(names_streams_open(t), 0);
	/* To no connection. */
	ck_assert_int_eq(give(ACK, "x", 1), STREAM_REFUSE);
	ck_assert_int_eq(give(SYN | ACK, "", 0), STREAM_REFUSE);
	ck_assert_int_eq(give(FIN, "", 0), STREAM_REFUSE);
}
END_TEST

START_TEST(numbers_of_connections_are_not_to_be_guessed)
{
	uint32_t last = 0;
	unsigned near = 0;

	for (unsigned i = 0; i < 50; i++) {
		dial((uint16_t)(4000 + i));
		near += me.ack - last < 0x1000000;
		last = me.ack;
	}
	ck_assert_uint_lt(near, 10);
}
END_TEST

START_TEST(options_of_a_syn)
{
	static const struct {
		uint8_t bytes[8];
		unsigned mss;
	} all[] = {
		{{2, 4, 0x02, 0x58}, 600},
		{{1, 1, 1, 1, 2, 4, 1, 44}, 300},
		{{2, 4, 0, 1}, 64},
		{{2, 4, 0xff, 0xff}, 1220},
		{{3, 0, 2, 4, 1, 44}, 536},
		{{8, 255, 2, 4, 1, 44}, 536},
		{{1, 1, 1, 1, 1, 1, 2, 4}, 536},
		{{0, 0, 2, 4, 1, 44}, 536},
	};

	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		struct built b = frame_tcp(NET_GUEST4, 4000, NET_RESOLVER4, 53, SYN);

		memcpy(b.bytes + b.inner + 20, all[i].bytes, 8);
		b.bytes[b.inner + 12] = 7 << 4;
		put16(b.bytes + b.inner + 14, 65535);
		put16(b.bytes + IP_AT + 2, 48);
		uint8_t *const exact = malloc(b.len + 8);
		memcpy(exact, b.bytes, b.len + 8);
		ck_assert_int_eq(names_streams_frame(t, exact, b.len + 8, now), STREAM_TAKEN);
		free(exact);
		me.port = 4000;
		me.window = 65535;
		me.seq = 1;
		me.ack = got.seq + 1;
		got.all_seq = me.ack;
		got.all_len = 0;
		question(10);
		answer(3000);
		check_answer(3000);
		ck_assert_uint_eq(got.len, 3002 % all[i].mss ? 3002 % all[i].mss : all[i].mss);
		say(RST, "", 0);
		ck_assert_uint_eq(names_streams_open(t), 0);
	}
}
END_TEST

int main(void)
{
	Suite *const suite = suite_create("names_stream");
	TCase *const tc = tcase_create("names_stream");

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_loop_test(tc, one_question_after_another_and_the_end, 0, 2);
	tcase_add_test(tc, questions_at_once_and_in_pieces);
	tcase_add_test(tc, what_is_lost_comes_again);
	tcase_add_test(tc, a_small_window_is_kept_to);
	tcase_add_test(tc, a_guest_that_stops_reading_is_left);
	tcase_add_test(tc, there_is_an_end_of_connections);
	tcase_add_test(tc, no_answer_is_an_end);
	tcase_add_test(tc, lengths_that_no_question_has);
	tcase_add_test(tc, more_than_there_is_room_for);
	tcase_add_test(tc, segments_that_do_not_fit);
	tcase_add_test(tc, numbers_of_connections_are_not_to_be_guessed);
	tcase_add_test(tc, options_of_a_syn);
	suite_add_tcase(suite, tc);
	SRunner *const runner = srunner_create(suite);
	srunner_run_all(runner, CK_ENV);
	const int failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
