/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who has a box of a pool, as its keeper decides (keeper_lease.c) and as box_lease.c asks: handles
 * of this process, and other processes, as holders of one box. Real machines: tests/vm/lease.bats.
 */
#include <sys/socket.h>
#include <sys/un.h>

#include "base/thread_context.h"
#include "lease_fixture.h"

#define GONE_MS 100 /* in which the end of a holder is noticed */

/* ---- one process ---- */

START_TEST(one_has_it_and_the_next_one_waits)
{
	holt_box *a = pool_box("a", 0), *b = get(home, "a");
	const unsigned acquired = events_with("\"acquire\""), released = events_with("\"release\""),
		       traced = events_with("trace-1"), traced2 = events_with("trace-2");
	const char *json = NULL;
	holt_error *e = NULL;

	check_lease(a, BOX_LEASE_NONE, "");
	ok(holt_box_json(a, &json, E));
	ck_assert_ptr_null(strstr(json, "\"lease\""));
	ok(hold(a, "one", 0, E));
	check_lease(b, BOX_LEASE_HELD, "one");
	ok(holt_box_json(b, &json, E));
	ck_assert_ptr_nonnull(strstr(json, "\"lease\""));
	ck_assert_ptr_nonnull(strstr(json, "\"held\""));
	ck_assert_int_eq(hold(b, "two", 0, &e), -HOLT_EBUSY);
	ck_assert_str_eq(holt_error_object(e), "one");
	ck_assert_ptr_nonnull(strstr(holt_error_message(e), "'one'"));
	holt_error_free(e);
	/* Whoever does not have it lets nothing go. */
	ok(box_park(b, E));
	check_lease(b, BOX_LEASE_HELD, "one");
	/* The holder may ask again. */
	ok(hold(a, "one", 0, E));
	const uint64_t since = look(b).lease_ns;
	/* One request has taken it, another lets it go. */
	ck_assert_int_eq(context_set_trace("trace-2"), 0);
	ok(box_park(a, E));
	ck_assert_int_eq(context_set_trace(NULL), 0);
	ck_assert_uint_eq(events_with("trace-2"), traced2 + 1);
	check_lease(b, BOX_LEASE_WARM, "one");
	ck_assert_uint_ge(look(b).lease_ns, since);
	ok(box_park(a, E));
	ok(hold(b, "two", 0, E));
	check_lease(a, BOX_LEASE_HELD, "two");
	check_works(a);
	check_works(b);
	ck_assert_uint_eq(events_with("\"acquire\""), acquired + 2);
	ck_assert_uint_eq(events_with("\"release\""), released + 1);
	ck_assert_uint_eq(events_with("trace-1"), traced + 2);
	holt_box_close(b);
	drop(a);
}
END_TEST

START_TEST(who_waited_first_is_next)
{
	holt_box *a = pool_box("a", 0);
	struct holding waits[4] = {0};
	int turn = 0;

	ok(hold(a, "holder", 0, E));
	for (int i = 0; i < 4; i++) {
		waits[i] = (struct holding){
			.box = get(home, "a"), .who = "waiter", .wait_ms = SOON_MS, .turn = &turn};
		holding_begin(&waits[i]);
	}
	check_lease(a, BOX_LEASE_HELD, "holder");
	ck_assert_int_eq(__atomic_load_n(&turn, __ATOMIC_SEQ_CST), 0);
	ok(box_park(a, E));
	for (int i = 0; i < 4; i++) {
		ck_assert_int_eq(holding_end(&waits[i]), 0);
		ck_assert_int_eq(waits[i].my_turn, i + 1);
	}
	check_lease(a, BOX_LEASE_WARM, "waiter");
	for (int i = 0; i < 4; i++)
		holt_box_close(waits[i].box);
	drop(a);
}
END_TEST

START_TEST(a_wait_that_is_over_names_the_holder_and_leaves_nothing)
{
	holt_box *a = pool_box("a", 0), *b = get(home, "a");
	holt_error *e = NULL;

	ok(hold(a, "worker-7", 0, E));
	const uint64_t start = clock_mono_ms();
	ck_assert_int_eq(hold(b, "late", 100, &e), -HOLT_EBUSY);
	ck_assert_uint_ge(clock_mono_ms() - start, 100);
	ck_assert_uint_lt(clock_mono_ms() - start, 5000);
	ck_assert_str_eq(holt_error_object(e), "worker-7");
	ck_assert_ptr_nonnull(strstr(holt_error_message(e), "worker-7"));
	ck_assert_str_eq(holt_error_stage(e), "hold");
	ck_assert_str_ne(holt_error_hint(e), "");
	holt_error_free(e);
	ok(box_park(a, E));
	check_lease(a, BOX_LEASE_WARM, "worker-7");
	holt_box_close(b);
	drop(a);
}
END_TEST

START_TEST(a_cancelled_hold_leaves_nothing)
{
	holt_box *a = pool_box("a", 0), *b = get(home, "a");
	struct holding wait = {.box = b, .who = "b", .wait_ms = HOLT_FOREVER};
	const struct lease_wish w = wish_of("b");

	ok(hold(a, "a", 0, E));
	ok(holt_cancel_new(&wait.cancel, E));
	holding_begin(&wait);
	holt_cancel_trigger(wait.cancel);
	ck_assert_int_eq(holding_end(&wait), -HOLT_ECANCELLED);
	holt_error_free(wait.error);
	ok(box_park(a, E));
	check_lease(a, BOX_LEASE_WARM, "a");
	/* One that was cancelled before, and would have got it. */
	fails(HOLT_ECANCELLED, box_hold(b, &w, SOON_MS, wait.cancel, E));
	wait_lease(a, BOX_LEASE_WARM, SOON_MS);
	ok(hold(a, "a", SOON_MS, E));
	/* A wait is also given up by letting go. */
	struct holding again = {.box = b, .who = "b", .wait_ms = HOLT_FOREVER};
	holding_begin(&again);
	ok(box_park(b, E));
	ck_assert_int_eq(holding_end(&again), -HOLT_EBUSY);
	holt_error_free(again.error);
	check_lease(a, BOX_LEASE_HELD, "a");
	/* And by closing the connection. */
	holt_box *c = get(home, "a");
	ok(box_ping(c, SOON_MS, NULL, E));
	const struct wire_msg hold_msg = {.op = WIRE_OP_hold,
		.hold = {.wait_ms = UINT64_MAX,
			.idle_ms = UINT64_MAX,
			.pause_ms = UINT64_MAX,
			.holder = {(const uint8_t *)"c", 1}}};
	ok(session_tell(box_session(c), &hold_msg, E));
	ok(box_ping(c, SOON_MS, NULL, E));
	holt_box_close(c);
	nap_ms(20);
	ok(box_park(a, E));
	wait_lease(a, BOX_LEASE_WARM, SOON_MS);
	holt_cancel_free(wait.cancel);
	holt_box_close(b);
	drop(a);
}
END_TEST

/* ---- several processes ---- */

/* Forked before this process has threads; begins when something comes by @go, tells by @said. */
struct other {
	pid_t pid;
	int go[2];
	int said[2];
};

static void other_start(struct other *o, void (*run_other)(const struct other *))
{
	char c;

	ck_assert_int_eq(pipe2(o->go, O_CLOEXEC), 0);
	ck_assert_int_eq(pipe2(o->said, O_CLOEXEC), 0);
	o->pid = fork();
	ck_assert_int_ge(o->pid, 0);
	if (o->pid == 0) {
		(void)!read(o->go[0], &c, 1);
		home = open_home();
		run_other(o);
		_exit(0);
	}
}

static void other_go(const struct other *o)
{
	ck_assert_int_eq(write(o->go[1], "x", 1), 1);
}

static void other_wait(const struct other *o)
{
	char c;

	ck_assert_int_eq(read(o->said[0], &c, 1), 1);
}

static int other_end(struct other *o)
{
	int status = -1;

	ck_assert_int_eq(waitpid(o->pid, &status, 0), o->pid);
	for (int i = 0; i < 2; i++) {
		close(o->go[i]);
		close(o->said[i]);
	}
	return status;
}

static void holds_until_killed(const struct other *o)
{
	holt_box *b = get(home, "a");

	ok(hold(b, "victim", SOON_MS, E));
	(void)!write(o->said[1], "x", 1);
	pause();
}

/* On real machines: tests/vm/lease.bats. */
START_TEST(a_killed_holder_has_let_go_at_once)
{
	struct other first, second;

	holt_home_close(home);
	other_start(&first, holds_until_killed);
	other_start(&second, holds_until_killed);
	home = open_home();
	holt_box *a = pool_box("a", 0);
	struct holding wait = {.box = get(home, "a"), .who = "heir", .wait_ms = SOON_MS};
	other_go(&first);
	other_wait(&first);
	check_lease(a, BOX_LEASE_HELD, "victim");
	const unsigned told = events_with("holder gone");
	uint64_t killed_ns = clock_wall_ns();
	kill(first.pid, SIGKILL);
	(void)other_end(&first);
	wait_lease(a, BOX_LEASE_WARM, SOON_MS);
	ck_assert_uint_lt(look(a).lease_ns - killed_ns, GONE_MS * UINT64_C(1000000));
	ck_assert_uint_eq(events_with("holder gone"), told + 1);
	check_works(a);
	/* Somebody who waits has it then. */
	other_go(&second);
	other_wait(&second);
	holding_begin(&wait);
	check_lease(a, BOX_LEASE_HELD, "victim");
	killed_ns = clock_wall_ns();
	kill(second.pid, SIGKILL);
	ck_assert_int_eq(holding_end(&wait), 0);
	ck_assert_uint_lt(clock_wall_ns() - killed_ns, GONE_MS * UINT64_C(1000000));
	(void)other_end(&second);
	check_lease(a, BOX_LEASE_HELD, "heir");
	holt_box_close(wait.box);
	wait_lease(a, BOX_LEASE_WARM, SOON_MS);
	drop(a);
}
END_TEST

#define ROUNDS 50

/* Whoever has the box is alone with a file. */
static void holds_often(const struct other *o)
{
	holt_box *b = get(home, "a");
	char path[96];

	(void)o;
	snprintf(path, sizeof path, "%s/alone", home_dir);
	for (int i = 0; i < ROUNDS; i++) {
		ok(hold(b, "other", SOON_MS, E));
		const int fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
		ck_assert_int_ge(fd, 0);
		close(fd);
		ck_assert_int_eq(unlink(path), 0);
		ok(box_park(b, E));
	}
	holt_box_close(b);
	holt_home_close(home);
}

START_TEST(two_processes_take_turns)
{
	struct other others[2];
	const unsigned held = events_with("\"acquire\""), let_go = events_with("\"release\"");

	holt_home_close(home);
	for (int i = 0; i < 2; i++)
		other_start(&others[i], holds_often);
	home = open_home();
	holt_box *a = pool_box("a", 0);
	for (int i = 0; i < 2; i++)
		other_go(&others[i]);
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(other_end(&others[i]), 0);
	check_lease(a, BOX_LEASE_WARM, "other");
	ck_assert_uint_eq(events_with("\"acquire\""), held + 2 * ROUNDS);
	ck_assert_uint_eq(events_with("\"release\""), let_go + 2 * ROUNDS);
	drop(a);
}
END_TEST

START_TEST(a_box_is_detached_when_it_is_ready)
{
	holt_box *a = make("a", 0, NULL), *b = get(home, "a");

	start_box(a, 0);
	ok(hold(a, "maker", 0, E));
	ok(box_detach(a, E));
	ok(box_detach(a, E));
	holt_box_close(a);
	wait_lease(b, BOX_LEASE_WARM, SOON_MS);
	check_works(b);
	drop(b);
	/* Without that word it goes with its maker, whoever waits. */
	a = make("a", 0, NULL);
	start_box(a, 0);
	b = get(home, "a");
	ok(hold(a, "maker", 0, E));
	struct holding wait = {.box = b, .who = "heir", .wait_ms = SOON_MS};
	uint64_t unused;
	ok(box_ping(b, SOON_MS, &unused, E));
	ck_assert_int_eq(pthread_create(&wait.thread, NULL, holding_run, &wait), 0);
	nap_ms(50);
	holt_box_close(a);
	(void)holding_end(&wait);
	holt_error_free(wait.error);
	fails(HOLT_ECLOSED, hold(b, "heir", 0, E));
	holt_box_close(b);
}
END_TEST

/* ---- time ---- */

static void hold_and_park(holt_box *b, uint64_t pause_ms, uint64_t idle_ms, bool stop)
{
	struct lease_wish w = wish_of("x");

	w.pause_after_ms = pause_ms;
	w.idle_ms = idle_ms;
	w.stop_when_idle = stop;
	ok(box_hold(b, &w, SOON_MS, NULL, E));
	ok(box_park(b, E));
}

/* C-151: reaped when its time is over and not before, for a reason that is told. */
START_TEST(a_box_that_nobody_uses_goes)
{
	const unsigned told = events_with("idle_timeout");
	holt_box *a = pool_box("a", 0), *kept = pool_box("kept", HOLT_BOX_KEEP);
	struct lease_wish w = wish_of("x");

	/* As long as it is held, no time passes. */
	w.idle_ms = 100;
	ok(box_hold(a, &w, 0, NULL, E));
	nap_ms(250);
	check_lease(a, BOX_LEASE_HELD, "x");
	const uint64_t start = clock_mono_ms();
	hold_and_park(a, HOLT_FOREVER, 200, true);
	nap_ms(100);
	check_lease(a, BOX_LEASE_WARM, "x");
	wait_phase(a, BOX_GONE);
	ck_assert_uint_ge(clock_mono_ms() - start, 200);
	ck_assert_uint_lt(clock_mono_ms() - start, 2200);
	ck_assert_int_eq(look(a).lease, BOX_LEASE_NONE);
	fails(HOLT_ECLOSED, hold(a, "x", 0, E));
	/* A disk that is kept goes as well, unless that is wanted otherwise. */
	hold_and_park(kept, HOLT_FOREVER, 0, false);
	wait_phase(kept, BOX_GONE);
	/* It loses its name first, then its files, and tells then. */
	wait_events("idle_timeout", told + 4);
	ck_assert_uint_eq(boxes_left(), 0);
	holt_box_close(a);
	holt_box_close(kept);
}
END_TEST

START_TEST(a_kept_box_that_nobody_uses_is_stopped)
{
	holt_box *a = pool_box("a", HOLT_BOX_KEEP);
	const char *json = NULL;

	hold_and_park(a, HOLT_FOREVER, 100, true);
	check_end(a, HOLT_BOX_EXITED, HOLT_END_STOPPED, 0);
	const struct box_state s = look(a);
	ck_assert_int_eq(s.lease, BOX_LEASE_NONE);
	ck_assert_str_eq(s.holder, "");
	ck_assert_ptr_nonnull(strstr(s.text, "100 ms"));
	ok(holt_box_json(a, &json, E));
	ck_assert_ptr_null(strstr(json, "\"lease\""));
	fails(HOLT_ECLOSED, hold(a, "x", SOON_MS, E));
	start_box(a, HOLT_START_DETACHED);
	check_lease(a, BOX_LEASE_NONE, "");
	ok(hold(a, "x", 0, E));
	drop(a);
}
END_TEST

START_TEST(a_warm_box_is_paused_and_a_hold_lets_it_go_on)
{
	holt_box *a = pool_box("a", 0), *b = get(home, "a");
	const uint64_t start = clock_mono_ms();

	hold_and_park(a, 100, HOLT_FOREVER, false);
	wait_phase(a, BOX_PAUSED);
	ck_assert_uint_ge(clock_mono_ms() - start, 100);
	check_lease(a, BOX_LEASE_WARM, "x");
	fails(HOLT_EBUSY, try_run(a, E));
	ok(hold(b, "y", 0, E));
	ck_assert_int_eq(look(a).phase, BOX_RUNNING);
	check_works(b);
	/* Paused by somebody, held or not. */
	ok(holt_box_pause(a, E));
	ck_assert_int_eq(look(a).phase, BOX_PAUSED);
	ok(hold(b, "y", 0, E));
	check_works(b);
	ok(box_park(b, E));
	ok(holt_box_pause(a, E));
	ok(hold(a, "x", 0, E));
	check_works(a);
	/* It comes while the machine is just being stopped. */
	for (int i = 0; i < 20; i++) {
		hold_and_park(a, 0, HOLT_FOREVER, false);
		if (i % 2)
			nap_ms((unsigned)i / 2);
		ok(hold(a, "x", 0, E));
		ck_assert_int_eq(look(a).phase, BOX_RUNNING);
		check_works(a);
	}
	/* And the paused one ends in time, too. */
	hold_and_park(a, 50, 300, false);
	wait_phase(a, BOX_PAUSED);
	wait_phase(a, BOX_GONE);
	holt_box_close(b);
	holt_box_close(a);
}
END_TEST

START_TEST(a_lease_needs_nobody)
{
	holt_box *a = pool_box("a", 0), *b = get(home, "a");

	ok(box_lease(a, 0, SOON_MS, E));
	check_lease(a, BOX_LEASE_NONE, "");
	/* One before any hold. */
	ok(box_lease(a, 60000, SOON_MS, E));
	check_lease(a, BOX_LEASE_HELD, "");
	ck_assert_uint_gt(look(a).lease_until_ns, clock_wall_ns() + 50 * UINT64_C(1000000000));
	ok(box_lease(b, 0, SOON_MS, E));
	check_lease(a, BOX_LEASE_WARM, "");
	ck_assert_uint_eq(look(a).lease_until_ns, 0);
	/* A connection may hold it as well; the box is warm when neither does. */
	struct lease_wish w = wish_of("one");
	w.idle_ms = 400;
	ok(box_hold(a, &w, 0, NULL, E));
	ok(box_lease(b, HOLT_FOREVER, SOON_MS, E));
	ok(box_park(a, E));
	check_lease(a, BOX_LEASE_HELD, "one");
	ok(box_hold(b, &w, 0, NULL, E));
	ok(box_lease(a, 0, SOON_MS, E));
	check_lease(a, BOX_LEASE_HELD, "one");
	ok(box_park(b, E));
	check_lease(a, BOX_LEASE_WARM, "one");
	/* Begun while the box is warm, it ends the idle time. */
	ok(box_lease(b, 60000, SOON_MS, E));
	nap_ms(600);
	check_lease(a, BOX_LEASE_HELD, "one");
	/* Renewed, it lasts longer; its end is when the idle time begins. */
	ok(box_hold(a, &w, 0, NULL, E));
	const uint64_t start = clock_mono_ms();
	ok(box_lease(a, 100, SOON_MS, E));
	ok(box_park(a, E));
	ok(box_lease(b, 300, SOON_MS, E));
	nap_ms(200);
	check_lease(a, BOX_LEASE_HELD, "one");
	wait_lease(a, BOX_LEASE_WARM, SOON_MS);
	ck_assert_uint_ge(clock_mono_ms() - start, 300);
	wait_phase(a, BOX_GONE);
	ck_assert_uint_ge(clock_mono_ms() - start, 700);
	fails(HOLT_ECLOSED, box_lease(a, 100, SOON_MS, E));
	holt_box_close(b);
	holt_box_close(a);
}
END_TEST

/* ---- the end of the box ---- */

static void check_waiter_hears(int how)
{
	holt_box *a = pool_box("a", HOLT_BOX_KEEP), *b = get(home, "a");
	struct holding wait = {.box = b, .who = "b", .wait_ms = HOLT_FOREVER};

	ok(hold(a, "a", 0, E));
	holding_begin(&wait);
	if (how == SIGTERM)
		ok(holt_box_stop(a, 0, E));
	else if (how == SIGKILL)
		ok(holt_box_kill(a, SIGKILL, E));
	else
		kill(info_of(a).keeper_pid, SIGKILL);
	ck_assert_int_eq(holding_end(&wait), -HOLT_ECLOSED);
	ck_assert_str_ne(holt_error_message(wait.error), "");
	holt_error_free(wait.error);
	wait_phase(a, BOX_EXITED);
	ck_assert_int_eq(look(a).lease, BOX_LEASE_NONE);
	fails(HOLT_ECLOSED, hold(a, "a", SOON_MS, E));
	ok(box_park(a, E));
	fails(HOLT_ECLOSED, box_lease(a, 100, SOON_MS, E));
	holt_box_close(b);
	drop(a);
}

START_TEST(whoever_waits_hears_of_the_end)
{
	check_waiter_hears(SIGTERM);
	check_waiter_hears(SIGKILL);
	check_waiter_hears(0);
	holt_box *a = make("a", 0, NULL);
	fails(HOLT_EUNAVAILABLE, hold(a, "a", 0, E));
	holt_box *b = get(home, "a");
	drop(a);
	fails(HOLT_ECLOSED, hold(b, "a", 0, E));
	holt_box_close(b);
}
END_TEST

static void *stop_slowly(void *arg)
{
	ok(holt_box_stop(arg, 1500, E));
	return NULL;
}

START_TEST(a_box_that_is_stopping_is_nobodys)
{
	holt_box *a = make(
			 "a", HOLT_BOX_KEEP, "trap '' TERM; echo ready; while :; do sleep 1; done"),
		 *b = get(home, "a");
	pthread_t thread;

	start_box(a, HOLT_START_DETACHED);
	wait_line(a, "ready\n");
	ok(hold(a, "a", 0, E));
	ck_assert_int_eq(pthread_create(&thread, NULL, stop_slowly, a), 0);
	wait_phase(b, BOX_STOPPING);
	fails(HOLT_ECLOSED, hold(b, "b", SOON_MS, E));
	fails(HOLT_ECLOSED, box_lease(b, 100, SOON_MS, E));
	ck_assert_int_eq(look(b).phase, BOX_STOPPING);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	holt_box_close(b);
	drop(a);
}
END_TEST

/* ---- what others send ---- */

static int ask_hold(holt_box *b, struct wire_bytes holder, struct wire_bytes label,
	struct wire_bytes trace, holt_error **reterr)
{
	struct session *s = NULL;
	const struct wire_msg msg = {.op = WIRE_OP_hold,
		.hold = {.idle_ms = UINT64_MAX,
			.pause_ms = UINT64_MAX,
			.holder = holder,
			.label = label,
			.trace = trace}};

	ok(box_connect(b, SOON_MS, &s, E));
	return session_ask(s, &msg, SOON_MS, NULL, NULL, reterr);
}

START_TEST(names_have_a_length_and_are_only_text)
{
	static const uint8_t bytes[] = "\033[31m\xff\n\"\\\xc3\xa4"
				       "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
				       "\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4"
				       "\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4"
				       "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
				       "aaaaaaaaaaaaaaaaaaaaaaaaaaa";
	const struct wire_bytes none = {bytes, 0}, one = {bytes + 16, 1};
	holt_box *a = pool_box("a", 0), *b = get(home, "a");
	const char *json = NULL;
	holt_error *e = NULL;

	fails(HOLT_EINVALID, ask_hold(a, none, one, one, E));
	fails(HOLT_EINVALID, ask_hold(a, (struct wire_bytes){bytes, 33}, one, one, E));
	fails(HOLT_EINVALID, ask_hold(a, one, (struct wire_bytes){bytes, 65}, one, E));
	fails(HOLT_EINVALID, ask_hold(a, one, one, (struct wire_bytes){bytes, 129}, E));
	check_lease(a, BOX_LEASE_NONE, "");
	/* Every length that is allowed, whatever is cut. */
	for (uint32_t n = 1; n <= 128; n++) {
		const uint32_t label = n < 64 ? n : 64, holder = n < 32 ? n : 32;

		ok(ask_hold(a, (struct wire_bytes){bytes, holder},
			(struct wire_bytes){bytes, label}, (struct wire_bytes){bytes, n}, E));
		ck_assert_int_eq(look(a).lease, BOX_LEASE_HELD);
		ck_assert_ptr_null(strchr(look(a).holder_label, '\033'));
		ck_assert_ptr_null(strchr(look(a).holder_label, '\n'));
		ck_assert_int_eq(strncmp(look(a).holder, "\\x1b", 4), 0);
		ok(holt_box_json(a, &json, E));
		ck_assert_int_eq(hold(b, "b", 0, &e), -HOLT_EBUSY);
		ck_assert_str_eq(holt_error_object(e), look(a).holder_label);
		holt_error_free(e);
		e = NULL;
	}
	/* A second wait of one connection, and letting go in somebody else's name. */
	struct holding wait = {.box = b, .who = "b", .wait_ms = HOLT_FOREVER};
	holding_begin(&wait);
	fails(HOLT_EINVALID, hold(b, "b", 0, E));
	ok(box_park(a, E));
	ck_assert_int_eq(holding_end(&wait), 0);
	const struct wire_msg unhold = {.op = WIRE_OP_unhold, .unhold = {.trace = {bytes, 129}}};
	fails(HOLT_EINVALID, session_ask(box_session(b), &unhold, SOON_MS, NULL, NULL, E));
	check_lease(a, BOX_LEASE_HELD, "b");
	check_works(a);
	holt_box_close(b);
	drop(a);
}
END_TEST

/* ---- a keeper of the protocol before ---- */

static int door_of(holt_box *b, const char *name, struct sockaddr_un *ret)
{
	char path[256];
	const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	snprintf(path, sizeof path, "%s/boxes/%s/%s", home_path, holt_box_id(b), name);
	ck_assert_uint_lt(strlen(path), sizeof ret->sun_path);
	*ret = (struct sockaddr_un){.sun_family = AF_UNIX};
	memcpy(ret->sun_path, path, strlen(path) + 1);
	ck_assert_int_ge(fd, 0);
	return fd;
}

/* One knock is handed on to the keeper, whose answer then speaks of protocol 2. */
static void *be_old(void *arg)
{
	const int listener = ((const int *)arg)[0], keeper = ((const int *)arg)[1];
	struct keeper_knock knock;
	struct keeper_answer answer;
	char control[CMSG_SPACE(2 * sizeof(int))];
	struct iovec part = {.iov_base = &knock, .iov_len = sizeof knock};
	struct msghdr msg = {.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof control};
	const int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	int fds[2];

	ck_assert_int_eq(recvmsg(fd, &msg, MSG_CMSG_CLOEXEC), sizeof knock);
	const struct cmsghdr *head = CMSG_FIRSTHDR(&msg);
	if (!head)
		return NULL;
	memcpy(fds, CMSG_DATA(head), sizeof fds);
	ck_assert_int_eq(sendmsg(keeper, &msg, 0), sizeof knock);
	ck_assert_int_eq(recv(keeper, &answer, sizeof answer, 0), sizeof answer);
	ck_assert_uint_eq(answer.version, KEEPER_PROTOCOL);
	answer.version = KEEPER_PROTOCOL_OLDEST;
	ck_assert_int_eq(send(fd, &answer, sizeof answer, 0), sizeof answer);
	close(fds[0]);
	close(fds[1]);
	close(fd);
	return NULL;
}

START_TEST(a_keeper_of_the_protocol_before_does_the_rest)
{
	holt_box *a = pool_box("a", 0), *b = get(home, "a");
	struct sockaddr_un real, moved;
	pthread_t thread;
	int fds[2];

	fds[1] = door_of(a, "sock", &real);
	fds[0] = door_of(a, "old", &moved);
	ck_assert_int_eq(connect(fds[1], (struct sockaddr *)&real, sizeof real), 0);
	ck_assert_int_eq(rename(real.sun_path, moved.sun_path), 0);
	ck_assert_int_eq(bind(fds[0], (struct sockaddr *)&real, sizeof real), 0);
	ck_assert_int_eq(listen(fds[0], 1), 0);
	ck_assert_int_eq(pthread_create(&thread, NULL, be_old, fds), 0);
	fails(HOLT_EUNSUPPORTED, hold(b, "b", SOON_MS, E));
	fails(HOLT_EUNSUPPORTED, box_lease(b, 100, SOON_MS, E));
	ok(box_park(b, E));
	check_works(b);
	check_lease(a, BOX_LEASE_NONE, "");
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	close(fds[0]);
	close(fds[1]);
	holt_box_close(b);
	drop(a);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {one_has_it_and_the_next_one_waits, who_waited_first_is_next,
		a_wait_that_is_over_names_the_holder_and_leaves_nothing,
		a_cancelled_hold_leaves_nothing, a_killed_holder_has_let_go_at_once,
		two_processes_take_turns, a_box_is_detached_when_it_is_ready,
		a_box_that_nobody_uses_goes, a_kept_box_that_nobody_uses_is_stopped,
		a_warm_box_is_paused_and_a_hold_lets_it_go_on, a_lease_needs_nobody,
		whoever_waits_hears_of_the_end, a_box_that_is_stopping_is_nobodys,
		names_have_a_length_and_are_only_text,
		a_keeper_of_the_protocol_before_does_the_rest};

	if (access(KERNEL_DIR, F_OK) == 0)
		setenv("HOLT_KERNEL", KERNEL_DIR, 0);
	return run_tests("keeper lease", tests, sizeof tests / sizeof tests[0]);
}
