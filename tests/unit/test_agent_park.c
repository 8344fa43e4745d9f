/* SPDX-License-Identifier: Apache-2.0 */
#include "agent_client.h"

/*
 * How the agent becomes a template and wakes up as a clone, as a plain process under the fake
 * engine: states, refusals, what ends it. That a clone has other names, numbers and addresses is
 * for real machines. TEST_AGENT, the agent's path, comes from the build.
 */

#define PARK_STREAM 900

static void send_park(void)
{
	send_msg(&(struct wire_msg){.op = WIRE_OP_park, .stream = PARK_STREAM});
}

static void park(void)
{
	struct wire_msg m;

	send_park();
	expect(WIRE_OP_done, &m);
	ck_assert_uint_eq(m.stream, PARK_STREAM);
}

static void check_refused(uint16_t class)
{
	struct wire_msg m;

	send_park();
	expect(WIRE_OP_fail, &m);
	ck_assert_uint_eq(m.stream, PARK_STREAM);
	ck_assert_uint_eq(m.fail.class_, class);
	ck_assert_uint_eq(m.fail.stage.len, strlen("park"));
	ck_assert_uint_gt(m.fail.text.len, 0);
}

static void send_hello(uint16_t version, uint16_t oldest)
{
	send_msg(&(struct wire_msg){.op = WIRE_OP_hello,
		.hello = {.magic = WIRE_MAGIC, .version = version, .oldest = oldest}});
}

static uint64_t set_up(void)
{
	struct wire_msg m;

	send_msg(&(struct wire_msg){.op = WIRE_OP_setup, .setup = {.hostname = text("box")}});
	expect(WIRE_OP_setup_done, &m);
	return m.setup_done.uptime_us;
}

/* What the host of a clone says, all at once and before the clone runs. */
static uint64_t wake(void)
{
	struct wire_msg m;

	send_hello(WIRE_VERSION, WIRE_OLDEST);
	expect(WIRE_OP_hello, &m);
	ck_assert_uint_eq(m.hello.magic, WIRE_MAGIC);
	ck_assert_uint_eq(m.hello.version, WIRE_VERSION);
	return set_up();
}

static void check_ends(void)
{
	struct wire_msg m;

	while (recv_msg(&m, now_ms() + WAIT_MS))
		;
	ck_assert_msg(c.closed, "the agent did not end");
}

/* Nothing comes from a parked agent, and nothing runs. */
static void check_silent(void)
{
	struct wire_msg m;
	char path[64];
	char one = 0;

	ck_assert(!recv_msg(&m, now_ms() + 100));
	ck_assert(!c.closed);
	(void)snprintf(
		path, sizeof(path), "/proc/%d/task/%d/children", c.vm.proc.pid, c.vm.proc.pid);
	const int fd = open(path, O_RDONLY | O_CLOEXEC);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(read(fd, &one, 1), 0);
	(void)close(fd);
}

START_TEST(park_and_wake)
{
	uint64_t before = 0;

	shell("echo before", 0, "before\n");
	const int fds = count_fds(c.vm.proc.pid);
	for (int i = 0; i < 3; i++) {
		park();
		check_silent();
		const uint64_t uptime = wake();
		ck_assert_uint_gt(uptime, before);
		before = uptime;
		shell("echo after", 0, "after\n");
	}
	ck_assert_int_eq(count_fds(c.vm.proc.pid), fds);
}
END_TEST

/* The new host does not wait for the answer to its hello. */
START_TEST(wake_in_one_go)
{
	struct wire_msg m;

	park();
	send_hello(WIRE_VERSION, WIRE_OLDEST);
	send_msg(&(struct wire_msg){.op = WIRE_OP_setup, .setup = {.hostname = text("box")}});
	expect(WIRE_OP_hello, &m);
	expect(WIRE_OP_setup_done, &m);
	shell("echo after", 0, "after\n");
}
END_TEST

START_TEST(between_hello_and_setup)
{
	const struct job j = {.argv = {"true"}};
	struct run r;
	struct wire_msg m;

	park();
	send_hello(WIRE_VERSION, WIRE_OLDEST);
	expect(WIRE_OP_hello, &m);
	expect(WIRE_OP_stage, &m);
	job_run(&j, &r);
	ck_assert(r.failed);
	ck_assert_uint_eq(r.fail.class_, WIRE_FAIL_INVALID);
	check_refused(WIRE_FAIL_INVALID);
	(void)set_up();
	shell("echo after", 0, "after\n");
}
END_TEST

START_TEST(not_while_something_runs)
{
	const struct job j = {.argv = {"/bin/sh", "-c", "echo up; sleep 60"}};
	struct run r;

	job_start(&j, &r);
	job_wait_out(&j, &r, 3);
	check_refused(WIRE_FAIL_BUSY);
	send_msg(&(struct wire_msg){
		.op = WIRE_OP_signal, .stream = r.stream, .signal = {.signo = SIGKILL}});
	ck_assert(job_wait(&j, &r, WAIT_MS));
	check_exit(&r, WIRE_SIGNALED, SIGKILL, 0);
	run_free(&r);
}
END_TEST

START_TEST(not_with_background_processes)
{
	const struct job j = {.argv = {"/bin/sh", "-c", "sleep 60 >/dev/null 2>&1 & echo $!"}};
	struct run r;

	job_run(&j, &r);
	bytes_add(&r.out[0], "", 1);
	const pid_t child = (pid_t)strtol((const char *)r.out[0].data, NULL, 10);
	ck_assert_int_gt(child, 1);
	check_refused(WIRE_FAIL_BUSY);
	ck_assert_int_eq(kill(child, SIGKILL), 0);
	run_free(&r);
	for (int i = 0; i < WAIT_MS / 10 && kill(child, 0) == 0; i++)
		(void)poll(NULL, 0, 10);
	park();
	check_silent();
	(void)wake();
}
END_TEST

START_TEST(not_while_frozen)
{
	struct wire_msg m;

	send_msg(&(struct wire_msg){.op = WIRE_OP_freeze, .stream = 7, .freeze = {.on = 1}});
	expect(WIRE_OP_done, &m);
	check_refused(WIRE_FAIL_BUSY);
	send_msg(&(struct wire_msg){.op = WIRE_OP_freeze, .stream = 8, .freeze = {.on = 0}});
	expect(WIRE_OP_done, &m);
	park();
}
END_TEST

static void break_ping(void)
{
	send_msg(&(struct wire_msg){.op = WIRE_OP_ping, .ping = {.token = 1}});
}

static void break_setup(void)
{
	send_msg(&(struct wire_msg){.op = WIRE_OP_setup});
}

static void break_exec(void)
{
	const struct job j = {.argv = {"true"}};
	struct run r;

	job_start(&j, &r);
}

static void break_shutdown(void)
{
	send_msg(&(struct wire_msg){.op = WIRE_OP_shutdown});
}

static void break_magic(void)
{
	send_msg(&(struct wire_msg){.op = WIRE_OP_hello, .hello = {.magic = 1}});
}

static void break_version(void)
{
	send_hello(WIRE_VERSION + 9, WIRE_VERSION + 5);
}

static void break_control(void)
{
	static const uint8_t junk[64] = "this is not a frame of the protocol";

	send_bytes(WIRE_CONTROL, junk, sizeof(junk));
}

static void break_bulk(void)
{
	send_bytes(WIRE_BULK, (const uint8_t *)"", 1); /* not even a frame */
}

static void break_credit(void)
{
	send_msg(&(struct wire_msg){
		.op = WIRE_OP_credit, .stream = 1, .credit = {.channel = WIRE_STDOUT, .bytes = 1}});
}

static void break_end_of_control(void)
{
	(void)shutdown(c.vm.control_fd, SHUT_RDWR);
}

static void break_end_of_bulk(void)
{
	(void)shutdown(c.vm.bulk_fd, SHUT_RDWR);
}

static void (*const breaks[])(void) = {send_park, break_ping, break_setup, break_exec,
	break_shutdown, break_magic, break_version, break_control, break_bulk, break_credit,
	break_end_of_control, break_end_of_bulk};

START_TEST(only_hello_wakes)
{
	park();
	breaks[_i]();
	check_ends();
}
END_TEST

/* What would be the beginning of the first frame that a clone reads. */
START_TEST(bytes_behind_park)
{
	const struct wire_msg m = {.op = WIRE_OP_park, .stream = PARK_STREAM};
	uint8_t buf[64] = {0};
	size_t len = 0;

	ck_assert_int_eq(wire_encode(&m, buf, sizeof(buf), &len), WIRE_OK);
	send_bytes(WIRE_CONTROL, buf, len + 1);
	check_ends();
}
END_TEST

START_TEST(park_before_setup)
{
	machine_open();
	hello(WIRE_VERSION, WIRE_OLDEST);
	check_refused(WIRE_FAIL_INVALID);
	(void)set_up();
	park();
	check_silent();
	teardown();
}
END_TEST

/* An agent that finds in its environment what the kernel would put there. */
static void setup_bare(void)
{
	static const char script[] = "#!/bin/sh\n" WIRE_BARE_ENV " exec " TEST_AGENT " \"$@\"\n";
	char dir[] = "/tmp/holt-test-park-XXXXXX";
	char path[128];
	struct wire_msg m;

	ck_assert_ptr_nonnull(mkdtemp(dir));
	(void)snprintf(path, sizeof(path), "%s/agent", dir);
	const int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
	ck_assert_int_eq(write(fd, script, sizeof(script) - 1), (ssize_t)sizeof(script) - 1);
	(void)close(fd);
	machine_open_as(path);
	hello(WIRE_VERSION, WIRE_OLDEST);
	expect(WIRE_OP_stage, &m);
	/* It runs, so the script is not needed any more. */
	(void)unlink(path);
	(void)rmdir(dir);
}

/* With a park before the setup, and as if the host had thought better of it. */
START_TEST(bare_park)
{
	const struct job j = {.argv = {"true"}};
	struct run r;

	job_run(&j, &r);
	ck_assert(r.failed);
	if (_i) {
		park();
		check_silent();
		(void)wake();
	} else {
		(void)set_up();
	}
	shell("echo after", 0, "after\n");
	park();
	(void)wake();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("agent park");
	TCase *t = tcase_create("park");
	TCase *start = tcase_create("start");
	TCase *bare = tcase_create("bare");
	const int n_breaks = (int)(sizeof(breaks) / sizeof(breaks[0]));

	tcase_set_timeout(t, 60);
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, park_and_wake);
	tcase_add_test(t, wake_in_one_go);
	tcase_add_test(t, between_hello_and_setup);
	tcase_add_test(t, not_while_something_runs);
	tcase_add_test(t, not_with_background_processes);
	tcase_add_test(t, not_while_frozen);
	tcase_add_loop_test(t, only_hello_wakes, 0, n_breaks);
	tcase_add_test(t, bytes_behind_park);
	suite_add_tcase(s, t);
	tcase_set_timeout(start, 60);
	tcase_add_test(start, park_before_setup);
	suite_add_tcase(s, start);
	tcase_set_timeout(bare, 60);
	tcase_add_checked_fixture(bare, setup_bare, teardown);
	tcase_add_loop_test(bare, bare_park, 0, 2);
	suite_add_tcase(s, bare);

	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	const int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
