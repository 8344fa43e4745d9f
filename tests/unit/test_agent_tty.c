/* SPDX-License-Identifier: Apache-2.0 */
#include "agent_client.h"

/*
 * Terminals of the agent under the fake engine: /dev/ptmx is the host's, all else is as in a
 * machine. A new terminal echoes, and ends its lines with CR LF.
 */

#define TTY .flags = WIRE_EXEC_TTY | WIRE_EXEC_STDIN, .rows = 24, .cols = 100

/* Send what somebody types; less than the window. */
static void type(struct run *r, const char *keys)
{
	const uint32_t len = (uint32_t)strlen(keys);

	ck_assert_uint_ge(r->in_credit, len);
	r->in_credit -= len;
	send_msg(&(struct wire_msg){.op = WIRE_OP_data,
		.stream = r->stream,
		.data = {.channel = WIRE_STDIN, .bytes = text(keys)}});
}

static void send_eof(const struct run *r)
{
	send_msg(&(struct wire_msg){
		.op = WIRE_OP_eof, .stream = r->stream, .eof = {.channel = WIRE_STDIN}});
}

static void hang_up(const struct run *r, uint32_t signo)
{
	send_msg(&(struct wire_msg){.op = WIRE_OP_signal,
		.stream = r->stream,
		.signal = {.signo = signo, .flags = WIRE_SIGNAL_HANGUP}});
}

static void resize(uint32_t stream, uint16_t rows, uint16_t cols)
{
	send_msg(&(struct wire_msg){
		.op = WIRE_OP_resize, .stream = stream, .resize = {.rows = rows, .cols = cols}});
}

/* Run a shell command line on a terminal. */
static void tty_shell(const char *line, uint32_t code, const char *out)
{
	const struct job j = {.argv = {"/bin/sh", "-c", line}, TTY};
	struct run r;

	job_run(&j, &r);
	check_exit(&r, WIRE_EXITED, code, 0);
	check_out(&r.out[0], out);
	check_out(&r.out[1], "");
	run_free(&r);
}

/* K22: the size is right from the first moment, and all three are the same terminal. */
START_TEST(is_a_terminal)
{
	tty_shell("stty size; test -t 0 && test -t 1 && test -t 2 && exit 3", 3, "24 100\r\n");
	tty_shell("echo out; echo err >&2; echo $TERM", 0, "out\r\nerr\r\nxterm\r\n");
	tty_shell("test \"$(tty)\" -ef /dev/tty || cat /dev/null >/dev/tty && echo mine", 0,
		"mine\r\n");
	/* Fields of stat: the leader's session, terminal and foreground group. */
	tty_shell("read -r p c s q g sid tty fg rest </proc/$$/stat; test $sid = $$ && test $fg = "
		  "$$ && test $tty != 0 && echo leader",
		0, "leader\r\n");
	shell("test -t 1; echo $?${TERM+term}", 0, "1\n");
}
END_TEST

START_TEST(term_of_the_request)
{
	const struct job j = {.argv = {"/bin/sh", "-c", "echo $TERM"}, .env = {"TERM=vt100"}, TTY};
	struct run r;

	job_run(&j, &r);
	check_out(&r.out[0], "vt100\r\n");
	run_free(&r);
}
END_TEST

/* Its mode and group come from how devpts is mounted. */
START_TEST(belongs_to_the_user)
{
	struct job j = {.argv = {"/bin/sh", "-c", "stat -c %u $(tty)"}, TTY};
	const bool root = geteuid() == 0;
	char want[64];
	struct run r;

	j.user = root ? "1234" : NULL;
	(void)snprintf(want, sizeof(want), "%u\r\n", root ? 1234 : geteuid());
	job_run(&j, &r);
	check_exit(&r, WIRE_EXITED, 0, 0);
	check_out(&r.out[0], want);
	run_free(&r);
}
END_TEST

START_TEST(unknown_size)
{
	const struct job j = {.argv = {"stty", "size"}, .flags = WIRE_EXEC_TTY};
	struct run r;

	job_run(&j, &r);
	check_exit(&r, WIRE_EXITED, 0, 0);
	check_out(&r.out[0], "0 0\r\n");
	run_free(&r);
}
END_TEST

START_TEST(stderr_ends_at_once)
{
	const struct job j = {.argv = {"/bin/sh", "-c", "read x; exit 4"}, TTY};
	const uint64_t until = now_ms() + WAIT_MS;
	struct run r;

	job_start(&j, &r);
	while (!r.eof[1] || !r.started)
		ck_assert(!job_wait(&j, &r, 10) && now_ms() < until);
	ck_assert(!r.eof[0]);
	type(&r, "\n");
	ck_assert(job_wait(&j, &r, WAIT_MS));
	check_exit(&r, WIRE_EXITED, 4, 0);
	run_free(&r);
}
END_TEST

/* The end of input is typed, once, or twice behind a line that was not finished. */
START_TEST(end_of_input)
{
	static const char *const typed[] = {"", "abc\n", "abc\nde", "\n"};
	static const char *const shown[] = {"", "abc\r\nabc\r\n", NULL, "\r\n\r\n"};
	const struct job j = {.argv = {"cat"},
		.in = (const uint8_t *)typed[_i],
		.in_len = strlen(typed[_i]),
		TTY};
	struct run r;

	job_run(&j, &r);
	check_exit(&r, WIRE_EXITED, 0, 0);
	if (shown[_i])
		check_out(&r.out[0], shown[_i]);
	else /* echo and cat may take turns in two ways */
		ck_assert_uint_eq(r.out[0].len, strlen("abc\r\nabc\r\ndede"));
	run_free(&r);
}
END_TEST

/* The program that reads on after an end of input still has its terminal. */
START_TEST(terminal_stays)
{
	const struct job j = {
		.argv = {"/bin/sh", "-c", "cat; stty size; test -t 0 && sleep 0.3; exit 6"}, TTY};
	struct run r;

	job_start(&j, &r);
	ck_assert(!job_wait(&j, &r, 100));
	resize(r.stream, 7, 8);
	send_eof(&r);
	send_eof(&r);
	ck_assert(job_wait(&j, &r, WAIT_MS));
	check_exit(&r, WIRE_EXITED, 6, 0);
	check_out(&r.out[0], "7 8\r\n");
	run_free(&r);
}
END_TEST

/* Raw mode: all bytes pass both ways, more than the kernel and the windows hold. */
START_TEST(raw_bytes)
{
	static uint8_t data[600 * 1024 + 7];
	struct job j = {.argv = {"/bin/sh", "-c", "stty raw -echo; echo go; head -c 614407"}, TTY};
	struct run r;

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 2654435761u >> 13);
	job_start(&j, &r);
	job_wait_out(&j, &r, 3);
	check_out(&r.out[0], "go\n");
	j.in = data;
	j.in_len = sizeof(data);
	feed(&j, &r);
	ck_assert(job_wait(&j, &r, WAIT_MS));
	check_exit(&r, WIRE_EXITED, 0, 0);
	ck_assert_uint_eq(r.out[0].len, 3 + sizeof(data));
	ck_assert_mem_eq(r.out[0].data + 3, data, sizeof(data));
	run_free(&r);
}
END_TEST

/* Without credit the program is blocked, and nothing is lost, also not behind its end. */
START_TEST(back_pressure)
{
	const struct job j = {
		.argv = {"head", "-c", "300000", "/dev/zero"}, .credit = 1000, .stingy = true, TTY};
	struct run r;

	job_start(&j, &r);
	for (size_t total = 1000; total < 300000; total += 29900) {
		ck_assert(!job_wait(&j, &r, 300));
		ck_assert_uint_eq(r.out[0].len, total);
		ck_assert(!r.eof[0]);
		grant(&r, WIRE_STDOUT, 29900);
	}
	ck_assert(job_wait(&j, &r, WAIT_MS));
	check_exit(&r, WIRE_EXITED, 0, 0);
	ck_assert_uint_eq(r.out[0].len, 300000);
	run_free(&r);
}
END_TEST

START_TEST(window_exactly_used)
{
	const struct job j = {.argv = {"echo", "123456"}, .credit = 8, .stingy = true, TTY};
	struct run r;

	job_run(&j, &r);
	check_exit(&r, WIRE_EXITED, 0, 0);
	check_out(&r.out[0], "123456\r\n");
	run_free(&r);
}
END_TEST

/* A program that is slow to read does not hold up the agent. */
START_TEST(nobody_reads)
{
	static uint8_t data[2 * 1024 * 1024]; /* more than credit and terminal take */
	struct job j = {.argv = {"/bin/sh", "-c", "stty raw; echo go; sleep 60"}, TTY};
	struct run r;
	struct wire_msg m;

	job_start(&j, &r);
	job_wait_out(&j, &r, 3);
	j.in = data;
	j.in_len = sizeof(data);
	feed(&j, &r);
	ck_assert(!job_wait(&j, &r, 300));
	ck_assert_uint_lt(r.in_pos, sizeof(data));
	send_msg(&(struct wire_msg){.op = WIRE_OP_ping, .stream = 77, .ping = {.token = 5}});
	do
		ck_assert(recv_msg(&m, now_ms() + WAIT_MS));
	while (m.op != WIRE_OP_pong);
	ck_assert_uint_eq(m.stream, 77);
	hang_up(&r, SIGHUP);
	ck_assert(job_wait(&j, &r, WAIT_MS));
	check_exit(&r, WIRE_SIGNALED, SIGHUP, 0);
	run_free(&r);
}
END_TEST

/* K22: what Ctrl-C means is up to the terminal. */
START_TEST(interrupt)
{
	const struct job j = {.argv = {"sleep", "60"}, TTY};
	const struct job shell_job = {
		.argv = {"/bin/sh", "-c", "trap 'echo got; exit 5' INT; echo up; sleep 60"}, TTY};
	const struct job raw = {
		.argv = {"/bin/sh", "-c", "stty raw -echo; echo up; head -c 1 | od -An -tx1"}, TTY};
	struct run r;

	job_start(&j, &r);
	ck_assert(!job_wait(&j, &r, 200));
	type(&r, "\x03");
	ck_assert(job_wait(&j, &r, WAIT_MS));
	check_exit(&r, WIRE_SIGNALED, SIGINT, 0);
	run_free(&r);

	job_start(&shell_job, &r);
	job_wait_out(&shell_job, &r, 4);
	type(&r, "\x03");
	ck_assert(job_wait(&shell_job, &r, WAIT_MS));
	check_exit(&r, WIRE_EXITED, 5, 0);
	check_out(&r.out[0], "up\r\n^Cgot\r\n");
	run_free(&r);

	job_start(&raw, &r);
	job_wait_out(&raw, &r, 3);
	type(&r, "\x03");
	ck_assert(job_wait(&raw, &r, WAIT_MS));
	check_exit(&r, WIRE_EXITED, 0, 0);
	check_out(&r.out[0], "up\n 03\n");
	run_free(&r);
}
END_TEST

START_TEST(changes_of_size)
{
	const struct job j = {.argv = {"/bin/sh", "-c",
				      "trap 'stty size; exit 9' WINCH; stty size; while :; do "
				      "sleep 0.02; done"},
		TTY};
	const struct job plain = {.argv = {"sleep", "0.2"}};
	struct run r;

	job_start(&j, &r);
	job_wait_out(&j, &r, 8);
	resize(r.stream, 50, 132);
	ck_assert(job_wait(&j, &r, WAIT_MS));
	check_exit(&r, WIRE_EXITED, 9, 0);
	check_out(&r.out[0], "24 100\r\n50 132\r\n");
	run_free(&r);

	/* To nobody, and to a program without a terminal: both are harmless. */
	resize(999, 1, 1);
	job_start(&plain, &r);
	resize(r.stream, 1, 1);
	ck_assert(job_wait(&plain, &r, WAIT_MS));
	check_exit(&r, WIRE_EXITED, 0, 0);
	run_free(&r);
}
END_TEST

/* K06 on a terminal: what holds it behind the leader's back does not hold up the exit, and is hung
 * up. */
START_TEST(background_child)
{
	const struct job j = {
		.argv = {"/bin/sh", "-c", "trap '' HUP; sleep 60 & echo $!; trap - HUP; exit 5"},
		TTY};
	const struct job hearing = {.argv = {"/bin/sh", "-c", "sleep 60 & echo $!; exit 5"}, TTY};
	struct run r;
	uint64_t begin = now_ms();

	job_run(&j, &r);
	ck_assert_uint_lt(now_ms() - begin, 900);
	check_exit(&r, WIRE_EXITED, 5, WIRE_EXIT_LEFT);
	bytes_add(&r.out[0], "", 1);
	const pid_t child = (pid_t)strtol((const char *)r.out[0].data, NULL, 10);
	ck_assert_int_gt(child, 0);
	ck_assert_int_eq(kill(child, SIGKILL), 0);
	run_free(&r);

	begin = now_ms();
	job_run(&hearing, &r);
	ck_assert_uint_lt(now_ms() - begin, 900);
	ck_assert_uint_eq(r.exit.code, 5);
	bytes_add(&r.out[0], "", 1);
	const pid_t gone = (pid_t)strtol((const char *)r.out[0].data, NULL, 10);
	for (int i = 0; i < WAIT_MS / 10 && kill(gone, 0) == 0; i++)
		(void)poll(NULL, 0, 10);
	ck_assert_int_lt(kill(gone, 0), 0);
	run_free(&r);
}
END_TEST

/* The leader closes its terminal for a while. */
START_TEST(opened_again)
{
	tty_shell("exec <&- >&- 2>&-; sleep 0.3; exec </dev/tty >/dev/tty 2>&1; stty size; exit 2",
		2, "24 100\r\n");
}
END_TEST

/* K22: the client is gone. Who hears it ends as he wants, who does not is killed. */
START_TEST(hang_up_a_terminal)
{
	static const char *const lines[] = {
		"trap 'exit 7' HUP; echo up; while :; do sleep 0.02; done",
		"trap '' HUP; echo up; while :; do sleep 0.02; done"};
	const struct job j = {.argv = {"/bin/sh", "-c", lines[_i]}, TTY};
	struct run r;

	job_start(&j, &r);
	job_wait_out(&j, &r, 4);
	const uint64_t begin = now_ms();
	hang_up(&r, SIGTERM);
	hang_up(&r, SIGTERM);
	ck_assert(job_wait(&j, &r, WAIT_MS));
	if (_i == 0) {
		check_exit(&r, WIRE_EXITED, 7, 0);
		ck_assert_uint_lt(now_ms() - begin, 900);
	} else {
		check_exit(&r, WIRE_SIGNALED, SIGKILL, 0);
		ck_assert_uint_ge(now_ms() - begin, 990);
		ck_assert_uint_lt(now_ms() - begin, 3000);
	}
	run_free(&r);
}
END_TEST

START_TEST(hang_up_pipes)
{
	static const char *const lines[] = {
		"trap 'echo bye; exit 7' TERM; echo up; while :; do sleep 0.02; done",
		"trap '' TERM; echo up; while :; do sleep 0.02; done"};
	const struct job j = {.argv = {"/bin/sh", "-c", lines[_i]}};
	struct run r;

	job_start(&j, &r);
	job_wait_out(&j, &r, 3);
	const uint64_t begin = now_ms();
	hang_up(&r, SIGTERM);
	ck_assert(job_wait(&j, &r, WAIT_MS));
	if (_i == 0) {
		check_exit(&r, WIRE_EXITED, 7, 0);
		check_out(&r.out[0], "up\nbye\n");
	} else {
		check_exit(&r, WIRE_SIGNALED, SIGKILL, 0);
		ck_assert_uint_ge(now_ms() - begin, 990);
	}
	run_free(&r);
}
END_TEST

/* Before the program runs. */
START_TEST(hang_up_at_once)
{
	const struct job j = {.argv = {"sleep", "60"}, TTY};
	struct run r;

	for (int i = 0; i < 20; i++) {
		job_start(&j, &r);
		hang_up(&r, SIGHUP);
		ck_assert(job_wait(&j, &r, WAIT_MS));
		ck_assert(r.exited && r.exit.kind == WIRE_SIGNALED);
		run_free(&r);
	}
}
END_TEST

START_TEST(time_out)
{
	const struct job j = {
		.argv = {"/bin/sh", "-c", "echo so far; sleep 60"}, .timeout_ms = 300, TTY};
	struct run r;

	job_run(&j, &r);
	check_exit(&r, WIRE_SIGNALED, SIGKILL, WIRE_EXIT_TIMED_OUT);
	check_out(&r.out[0], "so far\r\n");
	run_free(&r);
}
END_TEST

START_TEST(failing_exec)
{
	const struct job j = {.argv = {"/no/such"}, TTY};
	struct run r;

	job_run(&j, &r);
	ck_assert(r.failed);
	ck_assert_uint_eq(r.fail.class_, WIRE_FAIL_NOT_FOUND);
	run_free(&r);
}
END_TEST

START_TEST(nothing_is_left)
{
	tty_shell("exit 0", 0, "");
	const int fds = count_fds(c.vm.proc.pid);

	for (int i = 0; i < 100; i++) {
		tty_shell(i % 2 ? "echo hi" : "exit 1", i % 2 ? 0 : 1, i % 2 ? "hi\r\n" : "");
		const struct job j = {.argv = {"/no/such"}, TTY};
		struct run r;
		job_run(&j, &r);
		ck_assert(r.failed);
	}
	tty_shell("exit 0", 0, ""); /* a failed exec is freed behind its answer */
	ck_assert_int_eq(count_fds(c.vm.proc.pid), fds);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("agent_tty");
	TCase *t = tcase_create("terminal");

	tcase_set_timeout(t, 60);
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, is_a_terminal);
	tcase_add_test(t, term_of_the_request);
	tcase_add_test(t, belongs_to_the_user);
	tcase_add_test(t, unknown_size);
	tcase_add_test(t, stderr_ends_at_once);
	tcase_add_loop_test(t, end_of_input, 0, 4);
	tcase_add_test(t, terminal_stays);
	tcase_add_test(t, raw_bytes);
	tcase_add_test(t, back_pressure);
	tcase_add_test(t, window_exactly_used);
	tcase_add_test(t, nobody_reads);
	tcase_add_test(t, interrupt);
	tcase_add_test(t, changes_of_size);
	tcase_add_test(t, background_child);
	tcase_add_test(t, opened_again);
	tcase_add_loop_test(t, hang_up_a_terminal, 0, 2);
	tcase_add_loop_test(t, hang_up_pipes, 0, 2);
	tcase_add_test(t, hang_up_at_once);
	tcase_add_test(t, time_out);
	tcase_add_test(t, failing_exec);
	tcase_add_test(t, nothing_is_left);
	suite_add_tcase(s, t);

	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	const int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
