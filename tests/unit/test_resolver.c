/* SPDX-License-Identifier: Apache-2.0 */
/*
 * K38, K41: the resolver against upstreams that are slow, dead or hostile. They are sockets of the
 * test; the port of names belongs to root, so that a connect() to it is led to theirs here.
 */
#include <errno.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/str.h"
#include "filter_fixture.h"
#include "names_fixture.h"
#include "net/resolver.h"

#define UPSTREAMS 2u

static struct resolver *r;
static int udp_fd[UPSTREAMS], tcp_fd[UPSTREAMS];
static struct sockaddr_in at[UPSTREAMS]; /* of both */
static bool no_sockets;
static unsigned sent, answers, wanted;
static struct message got, question, answer;
static uint32_t got_stream;

/* 127.0.0.1 and 127.0.0.2 are the upstreams. */
int connect(int fd, const struct sockaddr *to, socklen_t len)
{
	struct sockaddr_in in;

	if (no_sockets) {
		errno = EMFILE;
		return -1;
	}
	memcpy(&in, to, sizeof in < len ? sizeof in : len);
	const unsigned i = ntohl(in.sin_addr.s_addr) - INADDR_LOOPBACK;
	if (in.sin_family == AF_INET && in.sin_port == htons(53) && i < UPSTREAMS)
		return (int)syscall(SYS_connect, fd, &at[i], sizeof at[i]);
	return (int)syscall(SYS_connect, fd, to, len);
}

static void take_frame(const void *frame, size_t len, void *user)
{
	(void)user;
	sent++;
	ck_assert_uint_gt(len, 42);
	got.len = len - 42;
	memcpy(got.bytes, (const uint8_t *)frame + 42, got.len);
}

static void take_answer(uint32_t stream, const void *data, size_t len, void *user)
{
	(void)user;
	answers++;
	got_stream = stream;
	got.len = len;
	if (len > 0)
		memcpy(got.bytes, data, len);
}

static void want(void *user)
{
	(void)user;
	wanted++;
}

static void names(const char *resolv)
{
	resolver_set_names(r, str_dup(resolv), str_dup(""));
}

static void begin(enum net_mode mode, const char *const *allow)
{
	auto_error error = NULL;

	filter_begin(mode, allow, NULL);
	resolver_free(r);
	const struct resolver_options options = {.filter = f,
		.allowlist = mode == NET_ALLOWLIST,
		.send = take_frame,
		.answer = take_answer,
		.want_names = want};
	ck_assert_int_eq(resolver_new(&options, &r, &error), 0);
	for (unsigned i = 0; i < UPSTREAMS; i++) {
		socklen_t len = sizeof at[i];

		at[i] = (struct sockaddr_in){
			.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK + i)}};
		tcp_fd[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		udp_fd[i] = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		ck_assert_int_eq(bind(tcp_fd[i], (struct sockaddr *)&at[i], len), 0);
		ck_assert_int_eq(listen(tcp_fd[i], 300), 0);
		ck_assert_int_eq(getsockname(tcp_fd[i], (struct sockaddr *)&at[i], &len), 0);
		ck_assert_int_eq(bind(udp_fd[i], (struct sockaddr *)&at[i], len), 0);
	}
	no_sockets = false;
	sent = answers = wanted = 0;
	names("nameserver 127.0.0.1\nnameserver 127.0.0.2\noptions timeout:1 attempts:1\n");
}

static void resolver_teardown(void)
{
	resolver_free(r);
	r = NULL;
	teardown();
	for (unsigned i = 0; i < UPSTREAMS; i++) {
		(void)close(udp_fd[i]);
		(void)close(tcp_fd[i]);
	}
}

/* One turn of the helper, at most @ms long. */
static void turn(unsigned ms)
{
	struct poll_set set = {0};

	poll_set_clear(&set);
	poll_set_wake(&set, clock_mono_ms() + ms);
	resolver_wait(r, &set);
	ck_assert_int_eq(poll_set_wait(&set), 0);
	resolver_ready(r, &set);
	poll_set_done(&set);
}

/* The guest asks by UDP, from @port. */
static void ask(uint16_t id, const char *name, unsigned type, unsigned port)
{
	message_begin(&question, id, name, type);
	struct built b = frame_udp(G4, port, NET_RESOLVER4, 53, question.len);
	memcpy(b.bytes + b.inner + 8, question.bytes, question.len);
	ck_assert_int_eq(filter_out(f, b.bytes, b.len, clock_mono_ms(), &part), FILTER_NAMES);
	resolver_ask(r, b.bytes, b.len, &part);
}

/* What upstream @i was asked; it becomes an answer with its id. */
static struct sockaddr_in asked(unsigned i)
{
	struct sockaddr_in from;
	socklen_t len = sizeof from;
	const ssize_t n = recvfrom(udp_fd[i], answer.bytes, sizeof answer.bytes, MSG_DONTWAIT,
		(struct sockaddr *)&from, &len);

	ck_assert_int_gt(n, 0);
	answer.len = (size_t)n;
	message_turn(&answer, 0);
	return from;
}

static void say(int fd, const struct sockaddr_in *to)
{
	ck_assert_int_eq(sendto(fd, answer.bytes, answer.len, 0, (const void *)to, sizeof *to),
		(ssize_t)answer.len);
}

static void says(int records, const char *want)
{
	char text[256];

	ck_assert_int_eq(message_texts(got.bytes, got.len, ns_s_an, text, sizeof text), records);
	ck_assert_str_eq(text, want);
}

START_TEST(an_answer_comes_back_with_the_guests_id)
{
	begin(NET_OPEN, NULL);
	ask(77, "a.example", ns_t_a, 4000);
	const struct sockaddr_in from = asked(0);
	message_address(&answer, ANSWER, "a.example", "192.0.2.1");
	say(udp_fd[0], &from);
	turn(1000);
	ck_assert_uint_eq(sent, 1);
	ck_assert_uint_eq(get16(got.bytes), 77);
	says(1, "192.0.2.1");
	ck_assert_uint_eq(resolver_pending(r), 0);
}
END_TEST

START_TEST(k38_ids_and_ports_are_not_to_be_guessed)
{
	enum { N = 200 };
	unsigned ids = 0, ports = 0;
	unsigned last_id = 0, last_port = 0;

	begin(NET_OPEN, NULL);
	for (unsigned i = 0; i < N; i++) {
		ask(77, "a.example", ns_t_a, 4000 + i);
		const struct sockaddr_in from = asked(0);
		const unsigned id = get16(answer.bytes);

		ids += id == last_id || id == last_id + 1 || id == 77;
		ports += ntohs(from.sin_port) == last_port + 1 || from.sin_port == htons(4000 + i);
		last_id = id;
		last_port = ntohs(from.sin_port);
	}
	ck_assert_uint_lt(ids, 10);
	ck_assert_uint_lt(ports, N / 4);
}
END_TEST

START_TEST(k38_what_is_no_answer_is_not_taken)
{
	const int stranger = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	begin(NET_OPEN, NULL);
	ask(77, "a.example", ns_t_a, 4000);
	const struct sockaddr_in from = asked(0);
	const uint16_t id = get16(answer.bytes);
	message_address(&answer, ANSWER, "a.example", "192.0.2.1");
	/* From somebody else, and from the other upstream. */
	say(stranger, &from);
	say(udp_fd[1], &from);
	/* Another id, another name, another type, a question. */
	put16(answer.bytes, (uint16_t)(id + 1));
	say(udp_fd[0], &from);
	message_begin(&answer, id, "b.example", ns_t_a);
	message_turn(&answer, 0);
	say(udp_fd[0], &from);
	message_begin(&answer, id, "a.example", ns_t_aaaa);
	message_turn(&answer, 0);
	say(udp_fd[0], &from);
	message_begin(&answer, id, "a.example", ns_t_a);
	say(udp_fd[0], &from);
	answer.len = 3;
	say(udp_fd[0], &from);
	answer.len = 0;
	say(udp_fd[0], &from);
	for (unsigned i = 0; i < 5; i++)
		turn(20);
	ck_assert_uint_eq(sent, 0);
	ck_assert_uint_eq(resolver_pending(r), 1);
	(void)close(stranger);
}
END_TEST

START_TEST(an_upstream_that_floods_is_left_in_time)
{
	begin(NET_OPEN, NULL);
	ask(77, "a.example", ns_t_a, 4000);
	const struct sockaddr_in from = asked(0);
	const uint64_t start = clock_mono_ms();

	put16(answer.bytes, (uint16_t)(get16(answer.bytes) + 1));
	/* There is something to read in each turn. */
	while (clock_mono_ms() - start < 1200) {
		for (unsigned i = 0; i < 40; i++)
			(void)sendto(udp_fd[0], answer.bytes, answer.len, MSG_DONTWAIT,
				(const void *)&from, sizeof from);
		turn(0);
	}
	(void)asked(1);
	while (resolver_pending(r) > 0 && clock_mono_ms() - start < 4000)
		turn(100);
	ck_assert_uint_eq(sent, 1);
	ck_assert_int_eq(names_code(got.bytes), NAMES_SERVFAIL);
}
END_TEST

START_TEST(one_turn_reads_a_flood_in_parts)
{
	begin(NET_OPEN, NULL);
	ask(77, "a.example", ns_t_a, 4000);
	const struct sockaddr_in from = asked(0);
	const uint16_t id = get16(answer.bytes);

	put16(answer.bytes, (uint16_t)(id + 1));
	for (unsigned i = 0; i < 100; i++)
		say(udp_fd[0], &from);
	put16(answer.bytes, id);
	say(udp_fd[0], &from);
	turn(100);
	ck_assert_uint_eq(sent, 0);
	for (unsigned i = 0; i < 10; i++)
		turn(100);
	ck_assert_uint_eq(sent, 1);
}
END_TEST

START_TEST(the_next_one_is_asked)
{
	begin(NET_OPEN, NULL);
	ask(77, "a.example", ns_t_a, 4000);
	struct sockaddr_in from = asked(0);
	message_turn(&answer, NAMES_SERVFAIL);
	say(udp_fd[0], &from);
	turn(1000);
	from = asked(1);
	/* The first one's answer comes too late. */
	message_address(&answer, ANSWER, "a.example", "192.0.2.9");
	say(udp_fd[1], &from);
	turn(1000);
	says(1, "192.0.2.9");
	/* It is the first from now on. */
	ask(78, "b.example", ns_t_a, 4001);
	(void)asked(1);
}
END_TEST

START_TEST(more_questions_than_there_is_room_for)
{
	begin(NET_OPEN, NULL);
	for (unsigned i = 0; i < RESOLVER_QUESTIONS_MAX + 50; i++)
		ask((uint16_t)i, "a.example", ns_t_a, 4000 + i);
	ck_assert_uint_eq(resolver_pending(r), RESOLVER_QUESTIONS_MAX);
	/* The same one again is the same one. */
	ask(0, "a.example", ns_t_a, 4000);
	ck_assert_uint_eq(resolver_pending(r), RESOLVER_QUESTIONS_MAX);
	/* Whoever asks by TCP would wait for ever. */
	message_begin(&question, 1, "a.example", ns_t_a);
	resolver_ask_stream(r, 9, question.bytes, question.len);
	ck_assert_uint_eq(answers, 1);
	ck_assert_uint_eq(got_stream, 9);
	ck_assert_uint_eq(got.len, 0);
	resolver_ask_stream(r, 10, question.bytes, question.len - 1);
	ck_assert_uint_eq(answers, 2);
	ck_assert_uint_eq(got.len, 0);
	const uint64_t start = clock_mono_ms();
	while (resolver_pending(r) > 0 && clock_mono_ms() - start < 5000)
		turn(100);
	ck_assert_uint_eq(sent, RESOLVER_QUESTIONS_MAX);
	ck_assert_int_eq(names_code(got.bytes), NAMES_SERVFAIL);
}
END_TEST

START_TEST(without_descriptors_there_is_an_answer_at_once)
{
	begin(NET_OPEN, NULL);
	no_sockets = true;
	ask(77, "a.example", ns_t_a, 4000);
	ck_assert_uint_eq(sent, 1);
	ck_assert_int_eq(names_code(got.bytes), NAMES_SERVFAIL);
	ck_assert_uint_eq(resolver_pending(r), 0);
}
END_TEST

static int accepted(unsigned i)
{
	const int fd = accept(tcp_fd[i], NULL, NULL);

	ck_assert_int_ge(fd, 0);
	return fd;
}

/* A question by TCP whose answer by UDP was cut. */
static int ask_by_tcp(void)
{
	begin(NET_OPEN, NULL);
	message_begin(&question, 5, "a.example", ns_t_a);
	resolver_ask_stream(r, 3, question.bytes, question.len);
	const struct sockaddr_in from = asked(0);
	put16(answer.bytes + 2, 0x8380);
	say(udp_fd[0], &from);
	turn(1000);
	turn(1000);
	return accepted(0);
}

START_TEST(a_cut_answer_comes_by_tcp)
{
	const int fd = ask_by_tcp();
	uint8_t head[2];

	ck_assert_int_eq(recv(fd, head, 2, MSG_WAITALL), 2);
	ck_assert_uint_eq(get16(head), question.len);
	ck_assert_int_eq(recv(fd, answer.bytes, question.len, MSG_WAITALL), (ssize_t)question.len);
	answer.len = question.len;
	message_turn(&answer, 0);
	message_address(&answer, ANSWER, "a.example", "192.0.2.1");
	put16(head, (uint16_t)answer.len);
	/* Byte for byte. */
	for (unsigned i = 0; i < 2; i++) {
		ck_assert_int_eq(send(fd, head + i, 1, 0), 1);
		turn(100);
	}
	for (size_t i = 0; i < answer.len; i++) {
		ck_assert_int_eq(send(fd, answer.bytes + i, 1, 0), 1);
		turn(100);
	}
	ck_assert_uint_eq(answers, 1);
	ck_assert_uint_eq(get16(got.bytes), 5);
	says(1, "192.0.2.1");
	(void)close(fd);
}
END_TEST

START_TEST(tcp_that_ends_or_lies_is_left)
{
	static const uint8_t zero[2] = {0, 0};

	for (unsigned way = 0; way < 3; way++) {
		const int fd = ask_by_tcp();

		if (way == 1)
			ck_assert_int_eq(send(fd, zero, 2, 0), 2);
		if (way == 2)
			ck_assert_int_eq(send(fd, "\0\x0cmore than twelve", 18, 0), 18);
		if (way == 0)
			(void)close(fd);
		turn(1000);
		(void)asked(1);
		ck_assert_uint_eq(answers, 0);
		if (way > 0)
			(void)close(fd);
		resolver_teardown();
	}
	begin(NET_OPEN, NULL);
}
END_TEST

START_TEST(forgotten_questions_are_gone)
{
	const int fd = ask_by_tcp();

	resolver_forget_stream(r, 4);
	ck_assert_uint_eq(resolver_pending(r), 1);
	resolver_forget_stream(r, 3);
	ck_assert_uint_eq(resolver_pending(r), 0);
	(void)close(fd);
	/* New upstreams while a question is on its way, and none. */
	ask(1, "a.example", ns_t_a, 4000);
	names("nameserver 127.0.0.2\n");
	ck_assert_uint_eq(resolver_pending(r), 1);
	names("");
	ck_assert_uint_eq(resolver_pending(r), 0);
	ck_assert_int_eq(names_code(got.bytes), NAMES_SERVFAIL);
}
END_TEST

START_TEST(k38_only_listed_names_are_asked_for)
{
	static const struct {
		const char *name;
		unsigned type;
		int code;
	} all[] = {
		{"other.example", ns_t_a, NAMES_REFUSED},
		{"a.example.other", ns_t_a, NAMES_REFUSED},
		{"x\\.a.example", ns_t_txt, NAMES_REFUSED},
		{".", ns_t_ns, NAMES_REFUSED},
		{"a.example", ns_t_axfr, NAMES_REFUSED},
		{"a.example", NAMES_HTTPS, NAMES_OK},
		{"a.example", NAMES_SVCB, NAMES_OK},
		{"localhost", ns_t_a, NAMES_OK},
	};

	begin(NET_ALLOWLIST, LIST("a.example"));
	for (unsigned i = 0; i < sizeof all / sizeof *all; i++) {
		ask(1, all[i].name, all[i].type, 4000);
		ck_assert_uint_eq(sent, i + 1);
		ck_assert_int_eq(names_code(got.bytes), all[i].code);
	}
	ck_assert_uint_eq(resolver_pending(r), 0);
	ask(1, "A.example", ns_t_a, 4000);
	ck_assert_uint_eq(resolver_pending(r), 1);
}
END_TEST

START_TEST(k38_only_the_answer_opens_an_address)
{
	begin(NET_ALLOWLIST, LIST("a.example"));
	ask(1, "a.example", ns_t_a, 4000);
	const struct sockaddr_in from = asked(0);
	message_address(&answer, ANSWER, "a.example", "192.0.2.1");
	message_address(&answer, ANSWER, "a.example", "169.254.169.254");
	message_address(&answer, ADDITIONAL, "a.example", "192.0.2.2");
	say(udp_fd[0], &from);
	turn(1000);
	now = clock_mono_ms();
	says(1, "192.0.2.1");
	ck_assert_int_eq(tcp("192.0.2.1", 80), FILTER_PASS);
	ck_assert_int_eq(tcp("192.0.2.2", 80), FILTER_REFUSE);
	ck_assert_int_eq(tcp("169.254.169.254", 80), FILTER_REFUSE);
	ck_assert_int_eq(ping("192.0.2.1"), FILTER_PASS);
	ck_assert_int_eq(ping("192.0.2.2"), FILTER_REFUSE);
}
END_TEST

int main(void)
{
	Suite *const suite = suite_create("resolver");
	TCase *const tc = tcase_create("resolver");

	tcase_add_checked_fixture(tc, NULL, resolver_teardown);
	tcase_set_timeout(tc, 30);
	tcase_add_test(tc, an_answer_comes_back_with_the_guests_id);
	tcase_add_test(tc, k38_ids_and_ports_are_not_to_be_guessed);
	tcase_add_test(tc, k38_what_is_no_answer_is_not_taken);
	tcase_add_test(tc, an_upstream_that_floods_is_left_in_time);
	tcase_add_test(tc, one_turn_reads_a_flood_in_parts);
	tcase_add_test(tc, the_next_one_is_asked);
	tcase_add_test(tc, more_questions_than_there_is_room_for);
	tcase_add_test(tc, without_descriptors_there_is_an_answer_at_once);
	tcase_add_test(tc, a_cut_answer_comes_by_tcp);
	tcase_add_test(tc, tcp_that_ends_or_lies_is_left);
	tcase_add_test(tc, forgotten_questions_are_gone);
	tcase_add_test(tc, k38_only_listed_names_are_asked_for);
	tcase_add_test(tc, k38_only_the_answer_opens_an_address);
	suite_add_tcase(suite, tc);
	return run(suite);
}
