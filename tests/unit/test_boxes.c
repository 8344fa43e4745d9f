/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Boxes that live on, through holt.h on the fake engine: their life and end, names, owners, what
 * several handles, threads and processes do with one box. Hostile surroundings (keepers that hang
 * or die, nonsense at the door) are in test_boxes_hostile.c.
 */
#include <poll.h>

#include "boxes_fixture.h"

#define MANY    17 /* more than there are hex digits: two ids begin alike */
#define WAITERS 4
#define CYCLES  4

START_TEST(a_kept_box_from_birth_to_removal)
{
	holt_box *b = make("one", HOLT_BOX_KEEP, NULL);
	holt_box *other = get(home, "one");

	ck_assert_int_eq(info_of(b).state, HOLT_BOX_CREATED);
	ok(holt_box_stop(b, 0, E));
	fails(HOLT_ECLOSED, holt_box_kill(b, SIGKILL, E));
	fails(HOLT_ECLOSED, try_run(b, E));
	start_box(b, HOLT_START_DETACHED);
	ck_assert_int_eq(info_of(other).state, HOLT_BOX_RUNNING);
	ck_assert_int_eq(info_of(other).flags, HOLT_BOX_KEEP);
	fails(HOLT_EBUSY, holt_box_start(b, NULL, NULL, E));
	fails(HOLT_EBUSY, holt_box_start(other, NULL, NULL, E));
	check_works(b);
	check_works(other);
	fails(HOLT_EBUSY, holt_box_remove(other, 0, E));
	ok(holt_box_stop(other, 0, E));
	check_end(b, HOLT_BOX_EXITED, HOLT_END_STOPPED, 0);
	ok(holt_box_stop(b, 0, E));
	start_box(other, HOLT_START_DETACHED);
	check_works(b);
	ok(holt_box_stop(b, HOLT_NO_GRACE, E));
	check_end(other, HOLT_BOX_EXITED, HOLT_END_STOPPED, 0);
	start_box(b, HOLT_START_DETACHED);
	drop(b);
	/* The other handle outlives the box. */
	ck_assert_int_eq(info_of(other).state, HOLT_BOX_GONE);
	fails(HOLT_ENOT_FOUND, holt_box_start(other, NULL, NULL, E));
	fails(HOLT_ENOT_FOUND, holt_box_stop(other, 0, E));
	fails(HOLT_ENOT_FOUND, holt_box_kill(other, SIGTERM, E));
	fails(HOLT_ENOT_FOUND, holt_box_kill(other, SIGKILL, E));
	fails(HOLT_ENOT_FOUND, holt_box_rename(other, "x", E));
	ok(holt_box_wait(other, 0, NULL, NULL, E));
	ok(holt_box_remove(other, 0, E));
	ok(holt_box_remove(other, 1, E));
	holt_log_reader *log = NULL;
	fails(HOLT_ENOT_FOUND, holt_box_open_log(other, 0, &log, E));
	holt_exec *x = NULL;
	holt_error *e = NULL;
	ck_assert_int_lt(holt_exec_attach(other, HOLT_EXEC_PROGRAM, NULL, &x, &e), 0);
	holt_error_free(e);
	holt_box_close(other);
	fails(HOLT_ENOT_FOUND, holt_box_get(home, "one", &other, E));
}
END_TEST

START_TEST(names_and_beginnings_of_ids)
{
	holt_box *boxes[MANY], *b = NULL, **list = NULL;
	const char *json = NULL;
	char ref[8] = "";
	size_t n = 0;

	for (int i = 0; i < MANY; i++) {
		char name[16];

		snprintf(name, sizeof name, "box-%d", i);
		boxes[i] = make(i < 3 ? name : NULL, HOLT_BOX_KEEP, NULL);
	}
	ok(holt_box_list(home, &list, &n, E));
	ck_assert_uint_eq(n, MANY);
	for (int i = 0; i < MANY; i++)
		ck_assert_str_eq(holt_box_id(list[i]), holt_box_id(boxes[MANY - 1 - i]));
	holt_box_list_free(list, n);
	/* Two of them begin alike. */
	bool many = false;
	for (const char *digit = "0123456789abcdef"; *digit && !many; digit++) {
		ref[0] = *digit;
		many = holt_box_get(home, ref, &b, NULL) == -HOLT_EINVALID;
		holt_box_close(b);
		b = NULL;
	}
	ck_assert(many);
	b = get(home, holt_box_id(boxes[5]));
	ck_assert_ptr_null(holt_box_name(b));
	ok(holt_box_json(b, &json, E));
	ck_assert_ptr_nonnull(strstr(json, holt_box_id(boxes[5])));
	holt_box_close(b);
	b = NULL;
	fails(HOLT_ENOT_FOUND, holt_box_get(home, "", &b, E));
	fails(HOLT_ENOT_FOUND, holt_box_get(home, "*", &b, E));
	fails(HOLT_ENOT_FOUND, holt_box_get(home, "[0-9a-f]*", &b, E));
	/* Names. */
	holt_box_options o = HOLT_BOX_OPTIONS_INIT;
	o.name = "box-1";
	fails(HOLT_EEXISTS, holt_box_create(home, "t", &o, &b, E));
	fails(HOLT_EEXISTS, holt_box_rename(boxes[0], "box-1", E));
	fails(HOLT_EINVALID, holt_box_rename(boxes[0], "", E));
	fails(HOLT_EINVALID, holt_box_rename(boxes[0], "a/b", E));
	ok(holt_box_rename(boxes[0], "box-0", E));
	ok(holt_box_rename(boxes[0], "new", E));
	ck_assert_str_eq(holt_box_name(boxes[0]), "new");
	ok(holt_box_rename(boxes[1], "box-0", E));
	b = get(home, "box-0");
	ck_assert_str_eq(holt_box_id(b), holt_box_id(boxes[1]));
	holt_box_close(b);
	for (int i = 0; i < MANY; i++)
		drop(boxes[i]);
	ok(holt_box_list(home, &list, &n, E));
	ck_assert_uint_eq(n, 0);
	holt_box_list_free(list, n);
}
END_TEST

START_TEST(an_attached_box_ends_with_its_handle)
{
	holt_box *b = make("kept", HOLT_BOX_KEEP, NULL);

	start_box(b, 0);
	holt_box_close(b);
	b = get(home, "kept");
	check_end(b, HOLT_BOX_EXITED, HOLT_END_OWNER_GONE, 137);
	/* Somebody else's handle does not matter. */
	start_box(b, HOLT_START_DETACHED);
	holt_box_close(get(home, "kept"));
	holt_box_close(b);
	b = get(home, "kept");
	check_works(b);
	drop(b);
	b = make("not", 0, NULL);
	ck_assert_int_eq(info_of(b).state, HOLT_BOX_CREATED);
	ok(holt_box_stop(b, 0, E));
	start_box(b, 0);
	check_works(b);
	holt_box_close(b);
	ck_assert_uint_eq(boxes_left(), 0);
	/* Its name is free at once. */
	holt_box_close(make("not", 0, NULL));
	ck_assert_uint_eq(boxes_left(), 0);
}
END_TEST

/* A process that makes boxes and then does nothing, until it is killed. */
static void owner(int fd)
{
	home = open_home();
	start_box(make("kept", HOLT_BOX_KEEP, NULL), 0);
	start_box(make("not", 0, NULL), 0);
	start_box(make("detached", HOLT_BOX_KEEP, NULL), HOLT_START_DETACHED);
	(void)make("idle", 0, NULL);
	(void)!write(fd, "x", 1);
	pause();
}

START_TEST(a_killed_owner_takes_its_boxes_along)
{
	int ready[2];
	char c;

	holt_home_close(home);
	ck_assert_int_eq(pipe2(ready, O_CLOEXEC), 0);
	const pid_t pid = fork();
	if (pid == 0)
		owner(ready[1]);
	ck_assert_int_eq(read(ready[0], &c, 1), 1);
	home = open_home();
	holt_box *kept = get(home, "kept"), *not = get(home, "not"),
		 *detached = get(home, "detached");
	(void)track(kept);
	(void)track(not );
	(void)track(detached);
	const uint64_t before = clock_mono_ms();
	kill(pid, SIGKILL);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
	check_end(kept, HOLT_BOX_EXITED, HOLT_END_OWNER_GONE, 137);
	/* Nobody waited for this one when it ended, and it leaves no record. */
	ok(holt_box_wait(not, 20000, NULL, NULL, E));
	ck_assert_int_eq(info_of(not ).state, HOLT_BOX_GONE);
	ck_assert_uint_lt(clock_mono_ms() - before, 5000);
	check_works(detached);
	drop(kept);
	holt_box_close(not );
	drop(detached);
	close(ready[0]);
	close(ready[1]);
	/* The one that was never started goes with the next home that is opened: teardown. */
}
END_TEST

START_TEST(why_a_box_ended)
{
	static const struct {
		const char *const argv[4];
		uint64_t timeout_ms;
		int code;
		int start; /* code of its start */
	} t[] = {{{"/bin/sh", "-c", "exit 3"}, 0, 3, 0}, {{"/bin/true"}, HOLT_FOREVER, 0, 0},
		{{"/bin/sh", "-c", "kill -TERM $$"}, 0, 143, 0},
		{{"/bin/sleep", "100"}, 200, 124, 0}, {{"/no/such"}, 0, 127, HOLT_ENOT_FOUND},
		{{"/etc"}, 0, 126, HOLT_EDENIED}};

	for (size_t i = 0; i < sizeof t / sizeof t[0]; i++) {
		for (uint32_t flags = 0; flags <= HOLT_BOX_KEEP; flags += HOLT_BOX_KEEP) {
			holt_box *b = make_argv("p", flags, t[i].argv, t[i].timeout_ms);
			holt_error *e = NULL;

			ck_assert_str_eq(holt_box_command(b)[0], t[i].argv[0]);
			ck_assert_int_eq(holt_box_start(b, NULL, NULL, &e), -t[i].start);
			if (t[i].start)
				ck_assert_int_eq(holt_error_exit_code(e), t[i].code);
			holt_error_free(e);
			if (flags)
				check_end(b, HOLT_BOX_EXITED, HOLT_END_PROGRAM, t[i].code);
			else if (t[i].code == 124)
				check_end(b, HOLT_BOX_GONE, HOLT_END_PROGRAM, t[i].code);
			else
				ok(holt_box_wait(b, 20000, NULL, NULL, E));
			if (flags)
				drop(b);
			else
				holt_box_close(b);
		}
	}
}
END_TEST

START_TEST(stop_asks_first)
{
	holt_box_options o = HOLT_BOX_OPTIONS_INIT;
	holt_exec_options p = HOLT_EXEC_OPTIONS_INIT;
	const char *const argv[] = {"/bin/sh", "-c",
		"trap 'exit 9' USR1; trap '' TERM; echo up; while :; do sleep 0.02; done", NULL};
	holt_box *b = NULL;

	o.program = &p;
	o.flags = HOLT_BOX_KEEP;
	o.stop_signal = SIGUSR1;
	p.argv = argv;
	ok(holt_box_create(home, "t", &o, &b, E));
	start_box(b, HOLT_START_DETACHED);
	wait_line(b, "up\n");
	ok(holt_box_stop(b, 20000, E));
	check_end(b, HOLT_BOX_EXITED, HOLT_END_STOPPED, 9);
	drop(b);
	/* One that does not listen gets its grace, and no more. */
	o.stop_signal = 0;
	o.stop_grace_ms = 400;
	ok(holt_box_create(home, "t", &o, &b, E));
	start_box(b, HOLT_START_DETACHED);
	wait_line(b, "up\n");
	uint64_t before = clock_mono_ms();
	ok(holt_box_stop(b, 0, E));
	ck_assert_uint_ge(clock_mono_ms() - before, 400);
	ck_assert_uint_lt(clock_mono_ms() - before, 400 + 2000 + 2000);
	check_end(b, HOLT_BOX_EXITED, HOLT_END_STOPPED, 137);
	start_box(b, HOLT_START_DETACHED);
	ok(holt_box_stop(b, HOLT_NO_GRACE, E));
	check_end(b, HOLT_BOX_EXITED, HOLT_END_STOPPED, 137);
	fails(HOLT_EINVALID, holt_box_stop(b, 3600001, E));
	drop(b);
}
END_TEST

START_TEST(kill_is_a_signal_to_the_program)
{
	holt_box *b = make("p", HOLT_BOX_KEEP,
		"exec 2>/dev/null; trap 'echo hup' HUP; trap 'exit 4' TERM; echo up; while :; do "
		"sleep 0.02; done");
	holt_box *bare = make("bare", HOLT_BOX_KEEP, NULL);

	start_box(b, HOLT_START_DETACHED);
	start_box(bare, HOLT_START_DETACHED);
	fails(HOLT_EINVALID, holt_box_kill(b, 0, E));
	fails(HOLT_EINVALID, holt_box_kill(b, 65, E));
	fails(HOLT_EINVALID, holt_box_kill(bare, SIGTERM, E));
	wait_line(b, "up\n");
	ok(holt_box_kill(b, SIGHUP, E));
	wait_line(b, "hup\n");
	ok(holt_box_kill(b, SIGTERM, E));
	check_end(b, HOLT_BOX_EXITED, HOLT_END_PROGRAM, 4);
	fails(HOLT_ECLOSED, holt_box_kill(b, SIGTERM, E));
	start_box(b, HOLT_START_DETACHED);
	ok(holt_box_kill(b, SIGKILL, E));
	check_end(b, HOLT_BOX_EXITED, HOLT_END_KILLED, 137);
	ok(holt_box_kill(bare, SIGKILL, E));
	check_end(bare, HOLT_BOX_EXITED, HOLT_END_KILLED, 137);
	drop(b);
	drop(bare);
}
END_TEST

START_TEST(pause_holds_everything)
{
	holt_box *b = make("p", HOLT_BOX_KEEP, "echo up; sleep 100");
	holt_box_stats stats = HOLT_BOX_STATS_INIT;
	uint64_t us = 0;

	start_box(b, HOLT_START_DETACHED);
	ok(holt_box_get_stats(b, &stats, E));
	ck_assert_uint_eq(stats.execs, 1);
	ck_assert_uint_gt(stats.memory_total_bytes, 0);
	ok(holt_box_ping(b, 0, &us, E));
	ck_assert_uint_gt(us, 0);
	ok(holt_box_unpause(b, E));
	ok(holt_box_pause(b, E));
	ok(holt_box_pause(b, E));
	ck_assert_int_eq(info_of(b).state, HOLT_BOX_PAUSED);
	fails(HOLT_EBUSY, try_run(b, E));
	fails(HOLT_EBUSY, holt_box_ping(b, 100, NULL, E));
	fails(HOLT_EBUSY, holt_box_get_stats(b, &stats, E));
	fails(HOLT_EBUSY, holt_box_kill(b, SIGTERM, E));
	ok(holt_box_unpause(b, E));
	ck_assert_int_eq(info_of(b).state, HOLT_BOX_RUNNING);
	check_works(b);
	ok(holt_box_pause(b, E));
	ok(holt_box_stop(b, 5000, E));
	check_end(b, HOLT_BOX_EXITED, HOLT_END_STOPPED, 143);
	holt_box *second = get(home, "p");
	fails(HOLT_ECLOSED, holt_box_pause(second, E));
	holt_box_close(second);
	start_box(b, HOLT_START_DETACHED);
	ok(holt_box_pause(b, E));
	ok(holt_box_kill(b, SIGKILL, E));
	check_end(b, HOLT_BOX_EXITED, HOLT_END_KILLED, 137);
	drop(b);
}
END_TEST

static void *pause_thread(void *arg)
{
	holt_error *e = NULL;

	(void)holt_box_pause(arg, &e);
	holt_error_free(e);
	return NULL;
}

START_TEST(pause_and_stop_at_once_6_times)
{
	holt_box *b = make("p", HOLT_BOX_KEEP, "trap 'exit 5' TERM; while :; do sleep 0.01; done");

	for (int i = 0; i < 6; i++) {
		pthread_t t;

		start_box(b, HOLT_START_DETACHED);
		ck_assert_int_eq(pthread_create(&t, NULL, pause_thread, b), 0);
		nap_ms((unsigned)i);
		const uint64_t before = clock_mono_ms();
		ok(holt_box_stop(b, 20000, E));
		/* Nobody had to use up the grace. */
		ck_assert_uint_lt(clock_mono_ms() - before, 15000);
		pthread_join(t, NULL);
		check_end(b, HOLT_BOX_EXITED, HOLT_END_STOPPED, info_of(b).exit_code);
	}
	drop(b);
}
END_TEST

/* Another process that uses a box: it runs something, and leaves something running. */
static void other_process(int fd)
{
	holt_home *h = open_home();
	holt_box *b = get(h, "shared");

	check_works(b);
	holt_exec *x = run(b, "echo begin; read x; echo got $x", HOLT_EXEC_KEEP | HOLT_EXEC_STDIN);
	const uint32_t number = holt_exec_number(x);
	holt_exec_free(x);
	(void)!write(fd, &number, sizeof number);
	holt_box_close(b);
	holt_home_close(h);
	_exit(0);
}

START_TEST(kept_execs_are_anybodys)
{
	int fds[2], status = -1;
	uint32_t number = 0;
	char text[64];
	holt_exec *x = NULL, *second = NULL;

	ck_assert_int_eq(pipe2(fds, O_CLOEXEC), 0);
	holt_home_close(home);
	home = open_home();
	/* The fork must come before this process has threads. */
	int go[2];
	ck_assert_int_eq(pipe2(go, O_CLOEXEC), 0);
	const pid_t pid = fork();
	if (pid == 0) {
		(void)!read(go[0], text, 1);
		other_process(fds[1]);
	}
	holt_box *b = make("shared", HOLT_BOX_KEEP, "echo program; sleep 100");
	start_box(b, HOLT_START_DETACHED);
	ck_assert_int_eq(write(go[1], "x", 1), 1);
	ck_assert_int_eq(read(fds[0], &number, sizeof number), sizeof number);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	ok(holt_exec_attach(b, number, NULL, &x, E));
	ck_assert_uint_eq(holt_exec_number(x), number);
	fails(HOLT_EBUSY, holt_exec_attach(b, number, NULL, &second, E));
	fails(HOLT_ENOT_FOUND, holt_exec_attach(b, number + 99, NULL, &second, E));
	ok(holt_exec_write(x, "you\n", 4, 5000, NULL, E));
	read_all(x, text, sizeof text);
	ck_assert_str_eq(text, "begin\ngot you\n");
	ck_assert_int_eq(end_of(x), 0);
	/* Its end stays, for the next one. */
	ok(holt_exec_attach(b, number, NULL, &x, E));
	read_all(x, text, sizeof text);
	ck_assert_str_eq(text, "begin\ngot you\n");
	ck_assert_uint_eq(holt_exec_gap(x, HOLT_STDOUT), 0);
	ck_assert_int_eq(end_of(x), 0);
	ok(holt_exec_attach(b, HOLT_EXEC_PROGRAM, NULL, &x, E));
	size_t n = 0;
	ok(holt_exec_read(x, HOLT_STDOUT, text, sizeof text, 5000, &n, E));
	ck_assert_uint_eq(n, 8);
	holt_exec_free(x);
	drop(b);
	for (int i = 0; i < 2; i++) {
		close(fds[i]);
		close(go[i]);
	}
}
END_TEST

START_TEST(what_nobody_took_is_a_gap)
{
	holt_box *b = make("p", HOLT_BOX_KEEP, NULL);
	char text[64];
	holt_exec *x;

	start_box(b, HOLT_START_DETACHED);
	x = run(b, "sleep 0.2; head -c 2000000 /dev/zero; exit 6", HOLT_EXEC_KEEP);
	const uint32_t number = holt_exec_number(x);
	holt_exec_free(x);
	/* Without a reader it comes to its end. */
	holt_box_stats stats = HOLT_BOX_STATS_INIT;
	do {
		nap_ms(20);
		ok(holt_box_get_stats(b, &stats, E));
	} while (stats.execs > 0);
	for (int i = 0; i < 2; i++) {
		ok(holt_exec_attach(b, number, NULL, &x, E));
		const size_t got = read_all(x, text, sizeof text);
		ck_assert_uint_ge(got, 65536);
		ck_assert_uint_eq(got + holt_exec_gap(x, HOLT_STDOUT), 2000000);
		ck_assert_int_eq(end_of(x), 6);
	}
	/* With one that is slow, nothing is missing. */
	x = run(b, "head -c 3000000 /dev/zero", HOLT_EXEC_KEEP);
	nap_ms(200);
	ck_assert_uint_eq(read_all(x, text, sizeof text), 3000000);
	ck_assert_uint_eq(holt_exec_gap(x, HOLT_STDOUT), 0);
	ck_assert_int_eq(end_of(x), 0);
	drop(b);
}
END_TEST

START_TEST(freed_execs_leave_nothing)
{
	holt_box *b = make("p", HOLT_BOX_KEEP, NULL);
	holt_box_stats stats = HOLT_BOX_STATS_INIT;

	start_box(b, HOLT_START_DETACHED);
	for (int i = 0; i < 12; i++) {
		holt_exec *x = run(b, i % 2 ? "yes" : "yes & yes >&2", 0);

		/* Until there is no more room anywhere. */
		nap_ms(i < 4 ? 200 : 0);
		holt_exec_free(x);
	}
	const uint64_t until = clock_mono_ms() + 20000;
	do {
		nap_ms(20);
		ok(holt_box_get_stats(b, &stats, E));
	} while (stats.execs > 0 && clock_mono_ms() < until);
	ck_assert_uint_eq(stats.execs, 0);
	drop(b);
}
END_TEST

START_TEST(event_fd_tells_when_to_look)
{
	holt_box *b = make("p", 0, NULL);
	char chunk[5000];
	size_t total = 0, n = 0;
	int fd = -1, again = -1;
	holt_exit result = HOLT_EXIT_INIT;

	start_box(b, 0);
	holt_exec *x = run(b, "head -c 1500000 /dev/zero; exit 2", 0);
	ok(holt_exec_event_fd(x, &fd, E));
	ok(holt_exec_event_fd(x, &again, E));
	ck_assert_int_eq(fd, again);
	while (holt_exec_wait(x, 0, &result, NULL) == -HOLT_ETIMEOUT) {
		struct pollfd p = {.fd = fd, .events = POLLIN};
		uint64_t count;

		ck_assert_int_eq(poll(&p, 1, 20000), 1);
		ck_assert_int_eq(read(fd, &count, sizeof count), sizeof count);
		while (holt_exec_read(x, HOLT_STDOUT, chunk, sizeof chunk, 0, &n, NULL) == 0 && n)
			total += n;
	}
	while (holt_exec_read(x, HOLT_STDOUT, chunk, sizeof chunk, 0, &n, NULL) == 0 && n)
		total += n;
	ck_assert_uint_eq(total, 1500000);
	ck_assert_int_eq(end_of(x), 2);
	holt_box_close(b);
}
END_TEST

struct waiter {
	pthread_t thread;
	holt_box *b;
	holt_cancel *cancel;
	uint64_t timeout_ms;
	int result;
	holt_box_info info;
};

static void *wait_thread(void *arg)
{
	struct waiter *w = arg;

	w->info = (holt_box_info)HOLT_BOX_INFO_INIT;
	w->result = holt_box_wait(w->b, w->timeout_ms, w->cancel, &w->info, NULL);
	return NULL;
}

START_TEST(many_wait_for_one_box)
{
	holt_box *b = make("p", 0, "sleep 1; exit 21");
	struct waiter w[WAITERS + 2] = {0};
	holt_cancel *cancel = NULL;

	ok(holt_cancel_new(&cancel, E));
	start_box(b, 0);
	for (int i = 0; i < WAITERS + 2; i++) {
		w[i].b = i % 2 ? b : get(home, "p");
		w[i].timeout_ms = i == WAITERS ? 50 : HOLT_FOREVER;
		w[i].cancel = i == WAITERS + 1 ? cancel : NULL;
		ck_assert_int_eq(pthread_create(&w[i].thread, NULL, wait_thread, &w[i]), 0);
	}
	nap_ms(100);
	holt_cancel_trigger(cancel);
	for (int i = 0; i < WAITERS + 2; i++) {
		pthread_join(w[i].thread, NULL);
		if (i % 2 == 0)
			holt_box_close(w[i].b);
		if (i < WAITERS) {
			/* Not kept: only those who waited can tell. */
			ck_assert_int_eq(w[i].result, 0);
			ck_assert_int_eq(w[i].info.state, HOLT_BOX_GONE);
			ck_assert_int_eq(w[i].info.end_reason, HOLT_END_PROGRAM);
			ck_assert_int_eq(w[i].info.exit_code, 21);
		}
	}
	ck_assert_int_eq(w[WAITERS].result, -HOLT_ETIMEOUT);
	ck_assert_int_eq(w[WAITERS + 1].result, -HOLT_ECANCELLED);
	holt_cancel_free(cancel);
	holt_box_close(b);
}
END_TEST

/* Uses the box in every way that any thread may, whatever it does. */
static void *use_thread(void *arg)
{
	struct waiter *w = arg;

	while (!__atomic_load_n(&w->result, __ATOMIC_SEQ_CST)) {
		holt_box_info info = HOLT_BOX_INFO_INIT;

		(void)holt_box_wait(w->b, 20, NULL, &info, NULL);
		(void)try_run(w->b, NULL);
		(void)holt_box_ping(w->b, 100, NULL, NULL);
		nap_ms(1);
	}
	return NULL;
}

START_TEST(one_handle_through_4_starts_and_stops_while_threads_use_it)
{
	holt_box *b = make("p", HOLT_BOX_KEEP, NULL);
	struct waiter w[3] = {0};
	size_t fds = 0;

	for (int i = 0; i < 3; i++) {
		w[i].b = b;
		ck_assert_int_eq(pthread_create(&w[i].thread, NULL, use_thread, &w[i]), 0);
	}
	for (int i = 0; i < CYCLES; i++) {
		/* Attached: each run has an owner pipe of its own. */
		start_box(b, 0);
		nap_ms(30);
		ok(holt_box_stop(b, HOLT_NO_GRACE, E));
	}
	for (int i = 0; i < 3; i++) {
		__atomic_store_n(&w[i].result, 1, __ATOMIC_SEQ_CST);
		pthread_join(w[i].thread, NULL);
	}
	/* Nothing heaps up from run to run. */
	for (int i = 0; i < 4; i++) {
		start_box(b, 0);
		ok(holt_box_stop(b, HOLT_NO_GRACE, E));
		if (i == 1)
			fds = count_dir("/proc/self/fd");
	}
	/* The last connection may still be closing. */
	const uint64_t until = clock_mono_ms() + 10000;
	while (count_dir("/proc/self/fd") > fds && clock_mono_ms() < until)
		nap_ms(5);
	ck_assert_uint_le(count_dir("/proc/self/fd"), fds);
	drop(b);
}
END_TEST

START_TEST(log_and_events_tell_the_story)
{
	static const char *const story[] = {
		"create", "start", "pause", "unpause", "rename", "kill", "die", "destroy"};
	holt_events *events = NULL;
	holt_log_reader *log = NULL;
	const char *text = NULL;
	const void *data = NULL;
	size_t len = 0;
	int stream = 0;

	ok(holt_events_open(home, UINT64_MAX, &events, E));
	holt_box *b = make("p", HOLT_BOX_KEEP, "echo one; echo two >&2; sleep 100");
	start_box(b, HOLT_START_DETACHED);
	ok(holt_box_open_log(b, UINT64_MAX, &log, E));
	for (int seen = 0; seen < 8; seen += (int)len)
		ok(holt_log_next(log, 20000, NULL, &data, &len, &stream, NULL, E));
	ok(holt_log_next(log, 50, NULL, &data, &len, &stream, NULL, E));
	ck_assert_uint_eq(len, 0);
	ok(holt_box_pause(b, E));
	ok(holt_box_unpause(b, E));
	ok(holt_box_rename(b, "q", E));
	ok(holt_box_kill(b, SIGKILL, E));
	/* The end of the box is the end of its log. */
	ok(holt_log_next(log, HOLT_FOREVER, NULL, &data, &len, &stream, NULL, E));
	ck_assert_uint_eq(len, 0);
	holt_log_close(log);
	ok(holt_box_remove(b, 0, E));
	for (size_t i = 0; i < sizeof story / sizeof story[0]; i++) {
		char want[32];

		ok(holt_events_next(events, 20000, NULL, &text, E));
		ck_assert_ptr_nonnull(text);
		snprintf(want, sizeof want, "\"action\":\"%s\"", story[i]);
		ck_assert_msg(strstr(text, want), "%s, not %s", text, want);
		ck_assert_ptr_nonnull(strstr(text, holt_box_id(b)));
	}
	holt_events_close(events);
	holt_box_close(b);
}
END_TEST

/* Start a box of a home that was opened with this kernel. */
static int start_with_kernel(const char *kernel, holt_error **error)
{
	holt_home_options o = HOLT_HOME_OPTIONS_INIT;
	holt_home *const usual = home;

	o.path = home_path;
	o.kernel = kernel;
	ok(holt_home_open(&o, &home, E));
	holt_box *b = make("named-kernel", HOLT_BOX_KEEP, "sleep 100");
	const int r = holt_box_start(b, NULL, NULL, error);
	ok(holt_box_remove(b, 1, E));
	holt_box_close(b);
	holt_home_close(home);
	home = usual;
	return r;
}

START_TEST(a_home_may_name_its_kernel)
{
	holt_home_options o = HOLT_HOME_OPTIONS_INIT;
	holt_error *e = NULL;

	ck_assert_int_eq(start_with_kernel("/nonexistent/vmlinuz", &e), -HOLT_ENOT_FOUND);
	ck_assert_str_eq(holt_error_stage(e), "kernel");
	ck_assert_str_eq(holt_error_object(e), "/nonexistent/vmlinuz");
	ck_assert_ptr_nonnull(strstr(holt_error_message(e), "the kernel that was named"));
	holt_error_free(e);
	e = NULL;
	/* It counts more than the environment. */
	ck_assert_int_eq(setenv("HOLT_KERNEL", "/nonexistent", 1), 0);
	ck_assert_int_eq(start_with_kernel(KERNEL_DIR, &e), 0);
	ck_assert_ptr_null(e);
	ck_assert_int_eq(unsetenv("HOLT_KERNEL"), 0);
	o.path = home_path;
	o.kernel = "";
	fails(HOLT_EINVALID, holt_home_open(&o, &home, E));
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {a_kept_box_from_birth_to_removal, names_and_beginnings_of_ids,
		an_attached_box_ends_with_its_handle, a_killed_owner_takes_its_boxes_along,
		why_a_box_ended, stop_asks_first, kill_is_a_signal_to_the_program,
		pause_holds_everything, pause_and_stop_at_once_6_times, kept_execs_are_anybodys,
		what_nobody_took_is_a_gap, freed_execs_leave_nothing, event_fd_tells_when_to_look,
		many_wait_for_one_box, one_handle_through_4_starts_and_stops_while_threads_use_it,
		log_and_events_tell_the_story, a_home_may_name_its_kernel};

	return run_tests("boxes", tests, sizeof tests / sizeof tests[0]);
}
