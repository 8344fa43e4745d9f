/* SPDX-License-Identifier: Apache-2.0 */
#include "agent_client.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>

/*
 * The agent as a plain process under the fake engine: everything about execs that needs no machine.
 * Times that are asserted have a generous margin, since the machine may be busy and the agent under
 * a sanitizer. TEST_AGENT, its path, comes from the build.
 */

static bool alive(pid_t pid)
{
	return kill(pid, 0) == 0;
}

static bool soon(bool (*holds)(pid_t), pid_t pid, bool want)
{
	for (int i = 0; i < WAIT_MS / 10 && holds(pid) != want; i++)
		(void)poll(NULL, 0, 10);
	return holds(pid) == want;
}

START_TEST(exit_codes)
{
	shell("exit 0", 0, "");
	shell("exit 1", 1, "");
	shell("echo out; exit 77", 77, "out\n");
	shell("exit 255", 255, "");
}
END_TEST

START_TEST(killed_by_signal)
{
	const struct job j = {.argv = {"/bin/sh", "-c", "kill -SEGV $$"}};
	struct run r;

	job_run(&j, &r);
	check_exit(&r, WIRE_SIGNALED, SIGSEGV, 0);
	run_free(&r);
}
END_TEST

START_TEST(streams_are_separate)
{
	const struct job j = {.argv = {"/bin/sh", "-c", "echo a; echo b >&2; echo c"}};
	struct run r;

	job_run(&j, &r);
	check_out(&r.out[0], "a\nc\n");
	check_out(&r.out[1], "b\n");
	run_free(&r);
}
END_TEST

START_TEST(stdin_round_trip)
{
	static uint8_t data[3 * 1024 * 1024 + 11];
	const struct job j = {.argv = {"cat"}, .in = data, .in_len = sizeof(data)};
	struct run r;

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 2654435761u >> 13);
	job_run(&j, &r);
	check_exit(&r, WIRE_EXITED, 0, 0);
	ck_assert_uint_eq(r.out[0].len, sizeof(data));
	ck_assert_mem_eq(r.out[0].data, data, sizeof(data));
	run_free(&r);
}
END_TEST

START_TEST(stdin_is_empty_by_default)
{
	shell("cat; echo over", 0, "over\n");
}
END_TEST

/* The program stops reading; the host may still send all it has. */
START_TEST(stdin_closed_early)
{
	static uint8_t data[2 * 1024 * 1024];
	const struct job j = {.argv = {"/bin/sh", "-c", "head -c 3; exec <&-; sleep 0.5"},
		.in = data,
		.in_len = sizeof(data)};
	struct run r;

	memset(data, 'x', sizeof(data));
	job_run(&j, &r);
	check_exit(&r, WIRE_EXITED, 0, 0);
	check_out(&r.out[0], "xxx");
	ck_assert_uint_eq(r.in_pos, sizeof(data));
	run_free(&r);
}
END_TEST

START_TEST(environment_and_directory)
{
	const struct job j = {.argv = {"/bin/sh", "-c", "pwd; echo \"$A|$PATH|$HOME\"; umask"},
		.env = {"A=x=\n\xff", "HOME=/h"},
		.cwd = "/usr/.."};
	struct run r;

	job_run(&j, &r);
	check_out(&r.out[0], "/\nx=\n\xff|/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin"
			     ":/bin|/h\n0022\n");
	run_free(&r);
}
END_TEST

START_TEST(only_std_descriptors)
{
	shell("cd /proc/self/fd && echo *", 0, "0 1 2 3\n"); /* 3 is the shell's own, for the * */
}
END_TEST

/* K03, K17, K18: what fails, how, and that the next exec works. */
static void make_file(
	const char *dir, const char *name, const char *content, size_t len, mode_t mode)
{
	char path[256];

	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	const int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, mode);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, content, len), (ssize_t)len);
	(void)close(fd);
}

static void check_fail(struct job j, uint16_t class, int errnum, const char *stage)
{
	struct run r;

	job_run(&j, &r);
	ck_assert_msg(r.failed, "'%s' in '%s' as '%s' did not fail", j.argv[0], j.cwd, j.user);
	ck_assert_msg(
		r.fail.class_ == class, "class %u for '%s': %s", r.fail.class_, j.argv[0], r.text);
	ck_assert_uint_eq(r.fail.errnum, (uint32_t)errnum);
	ck_assert_uint_eq(r.fail.stage.len, strlen(stage));
	ck_assert_uint_gt(strlen(r.text), 0);
	shell("echo works", 0, "works\n");
}

START_TEST(failing_execs)
{
	char dir[] = "/tmp/holt-test-agent-XXXXXX";
	char line[256];
	/* An ELF header for aarch64. */
	static const char elf[64] = "\177ELF\2\1\1\0\0\0\0\0\0\0\0\0\2\0\267\0\1";

	ck_assert_ptr_nonnull(mkdtemp(dir));
	make_file(dir, "plain", "text\n", 5, 0644);
	make_file(dir, "elf", elf, sizeof(elf), 0755);
	make_file(dir, "bang", "#!/no/such/interpreter\n", 23, 0755);
	make_file(dir, "good", "#!/bin/sh\nexit 4\n", 17, 0755);

	check_fail((struct job){.argv = {"/no/such"}}, WIRE_FAIL_NOT_FOUND, ENOENT, "exec");
	check_fail((struct job){.argv = {"no-such"}}, WIRE_FAIL_NOT_FOUND, ENOENT, "exec");
	check_fail((struct job){.argv = {""}}, WIRE_FAIL_NOT_FOUND, ENOENT, "exec");
	check_fail(
		(struct job){.argv = {"./x/y"}, .cwd = dir}, WIRE_FAIL_NOT_FOUND, ENOENT, "exec");
	check_fail((struct job){.argv = {dir}}, WIRE_FAIL_NOT_EXEC, EISDIR, "exec");
	check_fail(
		(struct job){.argv = {"./plain"}, .cwd = dir}, WIRE_FAIL_NOT_EXEC, EACCES, "exec");
	check_fail(
		(struct job){.argv = {"./elf"}, .cwd = dir}, WIRE_FAIL_NOT_EXEC, ENOEXEC, "exec");
	check_fail(
		(struct job){.argv = {"./bang"}, .cwd = dir}, WIRE_FAIL_NOT_EXEC, ENOENT, "exec");
	(void)snprintf(line, sizeof(line), "PATH=/no/such:%s", dir);
	check_fail(
		(struct job){.argv = {"bang"}, .env = {line}}, WIRE_FAIL_NOT_EXEC, ENOENT, "exec");
	check_fail(
		(struct job){.argv = {"plain"}, .env = {line}}, WIRE_FAIL_NOT_EXEC, EACCES, "exec");
	check_fail(
		(struct job){.argv = {"sh"}, .env = {line}}, WIRE_FAIL_NOT_FOUND, ENOENT, "exec");

	check_fail((struct job){.argv = {"sh"}, .cwd = "/no/dir"}, WIRE_FAIL_CWD, ENOENT, "cwd");
	check_fail((struct job){.argv = {"sh"}, .cwd = "rel"}, WIRE_FAIL_CWD, EINVAL, "cwd");
	(void)snprintf(line, sizeof(line), "%s/plain", dir);
	check_fail((struct job){.argv = {"sh"}, .cwd = line}, WIRE_FAIL_CWD, ENOTDIR, "cwd");
	check_fail((struct job){.argv = {"sh"}, .cwd = line, .flags = WIRE_EXEC_MKCWD},
		WIRE_FAIL_CWD, ENOTDIR, "cwd");

	check_fail((struct job){.argv = {"sh"}, .user = "no-such-user"}, WIRE_FAIL_USER, 0, "user");
	check_fail((struct job){.argv = {"sh"}, .user = "0:no-group"}, WIRE_FAIL_USER, 0, "user");
	check_fail((struct job){.argv = {"sh"}, .user = "2147483648"}, WIRE_FAIL_USER, 0, "user");
	check_fail((struct job){.argv = {"sh"}, .env = {"=x"}}, WIRE_FAIL_INVALID, 0, "exec");
	check_fail((struct job){.argv = {"sh"}, .env = {"x"}}, WIRE_FAIL_INVALID, 0, "exec");
	check_fail((struct job){.argv = {NULL}}, WIRE_FAIL_INVALID, 0, "exec");
	check_fail((struct job){.argv = {"sh"}, .flags = 1u << 31}, WIRE_FAIL_INVALID, 0, "exec");

	struct run r;
	const struct job good = {.argv = {"./good"}, .cwd = dir};
	job_run(&good, &r);
	check_exit(&r, WIRE_EXITED, 4, 0);
	(void)snprintf(line, sizeof(line), "%s/new/deep", dir);
	const struct job made = {.argv = {"rmdir", line}, .cwd = line, .flags = WIRE_EXEC_MKCWD};
	job_run(&made, &r);
	check_exit(&r, WIRE_EXITED, 0, 0);
	(void)snprintf(line, sizeof(line), "rm -r %s", dir);
	shell(line, 0, "");
}
END_TEST

/* Without credit the program is blocked, and nothing is lost. */
START_TEST(back_pressure)
{
	const struct job j = {.argv = {"dd", "if=/dev/zero", "bs=65536", "count=100"},
		.credit = 100000,
		.stingy = true};
	const struct job generous = {.argv = {"dd"}};
	struct run r;

	job_start(&j, &r);
	ck_assert(!job_wait(&j, &r, 500));
	ck_assert_uint_eq(r.out[0].len, 100000);
	ck_assert(!r.eof[0]);
	grant(&r, WIRE_STDOUT, 1);
	ck_assert(!job_wait(&j, &r, 200));
	ck_assert_uint_eq(r.out[0].len, 100001);
	grant(&r, WIRE_STDOUT, WINDOW);
	ck_assert(job_wait(&generous, &r, WAIT_MS));
	check_exit(&r, WIRE_EXITED, 0, 0);
	ck_assert_uint_eq(r.out[0].len, 6553600);
	run_free(&r);
}
END_TEST

/* The leader is long gone, and what it wrote is still delivered at the reader's pace. */
static void slow_reader(const char *line, uint32_t flags)
{
	const struct job j = {.argv = {"/bin/sh", "-c", line}, .credit = 10, .stingy = true};
	struct run r;

	job_start(&j, &r);
	ck_assert(!job_wait(&j, &r, 1200));
	ck_assert_uint_eq(r.out[0].len, 10);
	for (int i = 0; i < 10; i++) {
		grant(&r, WIRE_STDOUT, 3999);
		ck_assert(job_wait(&j, &r, i < 9 ? 20 : WAIT_MS) == (i == 9));
	}
	check_exit(&r, WIRE_EXITED, 0, flags);
	ck_assert_uint_eq(r.out[0].len, 40000);
	run_free(&r);
}

START_TEST(slow_reader_after_exit)
{
	slow_reader("head -c 40000 /dev/zero", 0);
}
END_TEST

START_TEST(slow_reader_and_background_child)
{
	slow_reader("head -c 40000 /dev/zero; sleep 60 2>&1 & sleep 0.2", WIRE_EXIT_LEFT);
}
END_TEST

/* eof and exit need no credit: the window is used up to the last byte. */
START_TEST(window_exactly_used)
{
	const struct job j = {
		.argv = {"/bin/sh", "-c", "echo 1234567"}, .credit = 8, .stingy = true};
	struct run r;

	job_run(&j, &r);
	check_exit(&r, WIRE_EXITED, 0, 0);
	check_out(&r.out[0], "1234567\n");
	run_free(&r);
}
END_TEST

START_TEST(time_out)
{
	const struct job j = {
		.argv = {"/bin/sh", "-c", "echo so far; sleep 60 & sleep 60"}, .timeout_ms = 300};
	struct run r;
	const uint64_t begin = now_ms();

	job_run(&j, &r);
	ck_assert_uint_ge(now_ms() - begin, 300);
	ck_assert_uint_lt(now_ms() - begin, 300 + 3000);
	check_exit(&r, WIRE_SIGNALED, SIGKILL, WIRE_EXIT_TIMED_OUT);
	check_out(&r.out[0], "so far\n");
	shell("echo next", 0, "next\n");
	run_free(&r);
}
END_TEST

/* K06: the leader's end is the end, and the background child lives on. */
START_TEST(background_child)
{
	char line[256];
	char path[] = "/tmp/holt-test-agent-XXXXXX";
	const int fd = mkstemp(path);
	const struct job j = {.argv = {"/bin/sh", "-c", line}};
	struct run r;
	struct stat st = {0};

	ck_assert_int_ge(fd, 0);
	(void)snprintf(line, sizeof(line),
		"(sleep 1; head -c 500000 /dev/zero; echo done > %s) & echo x; exit 5", path);
	const uint64_t begin = now_ms();
	job_run(&j, &r);
	ck_assert_uint_lt(now_ms() - begin, 900);
	check_exit(&r, WIRE_EXITED, 5, WIRE_EXIT_LEFT);
	check_out(&r.out[0], "x\n");
	/* It writes more than a pipe holds, so somebody must read it. */
	for (int i = 0; i < WAIT_MS / 20 && st.st_size == 0; i++) {
		(void)poll(NULL, 0, 20);
		ck_assert_int_eq(fstat(fd, &st), 0);
	}
	ck_assert_int_eq(st.st_size, 5);
	(void)close(fd);
	(void)unlink(path);
	run_free(&r);
}
END_TEST

START_TEST(signals)
{
	const struct job j = {
		.argv = {"/bin/sh", "-c",
			"trap 'echo got; exit 3' TERM; echo up; sleep 60 >/dev/null 2>&1 & wait"}};
	struct run r;

	job_start(&j, &r);
	while (r.out[0].len < 3)
		ck_assert(!job_wait(&j, &r, 20));
	send_msg(&(struct wire_msg){
		.op = WIRE_OP_signal, .stream = r.stream, .signal = {.signo = SIGTERM}});
	ck_assert(job_wait(&j, &r, WAIT_MS));
	check_exit(&r, WIRE_EXITED, 3, 0);
	check_out(&r.out[0], "up\ngot\n");
	run_free(&r);

	/* To nobody, and an impossible one: both are harmless. */
	send_msg(&(struct wire_msg){
		.op = WIRE_OP_signal, .stream = 999, .signal = {.signo = SIGKILL}});
	send_msg(
		&(struct wire_msg){.op = WIRE_OP_signal, .stream = 999, .signal = {.signo = 1000}});
	shell("echo fine", 0, "fine\n");
}
END_TEST

START_TEST(ping_under_load)
{
	const struct job j = {.argv = {"cat", "/dev/zero"}};
	struct run r;
	struct wire_msg m;
	size_t before = 0;

	job_start(&j, &r);
	for (uint64_t token = 1; token <= 100; token++) {
		bool answered = false;
		send_msg(&(struct wire_msg){.op = WIRE_OP_ping, .ping = {.token = token}});
		for (int frames = 0; !answered; frames++) {
			ck_assert(recv_msg(&m, now_ms() + WAIT_MS));
			answered = m.op == WIRE_OP_pong;
			if (answered)
				ck_assert_uint_eq(m.pong.token, token);
			else
				take_msg(&j, &r, &m);
			/* It does not wait behind the stream: two windows are the most under way.
			 */
			ck_assert_int_lt(frames, 200);
		}
		/* Keep the stream flowing between the pings. */
		for (before = r.out[0].len; r.out[0].len == before;) {
			ck_assert(recv_msg(&m, now_ms() + WAIT_MS));
			take_msg(&j, &r, &m);
		}
	}
	send_msg(&(struct wire_msg){
		.op = WIRE_OP_signal, .stream = r.stream, .signal = {.signo = SIGKILL}});
	ck_assert(job_wait(&j, &r, WAIT_MS));
	check_exit(&r, WIRE_SIGNALED, SIGKILL, 0);
	run_free(&r);
}
END_TEST

static bool has_children(pid_t pid)
{
	char path[64];
	char one = 0;

	(void)snprintf(path, sizeof(path), "/proc/%d/task/%d/children", pid, pid);
	const int fd = open(path, O_RDONLY | O_CLOEXEC);
	ck_assert_int_ge(fd, 0);
	const ssize_t n = read(fd, &one, 1);
	(void)close(fd);
	return n == 1;
}

START_TEST(many_quick_execs)
{
	shell("true", 0, "");
	const int fds = count_fds(c.vm.proc.pid);

	for (int i = 0; i < 200; i++) {
		const struct job j = {.argv = {"echo", "hi"}};
		struct run r;
		job_run(&j, &r);
		check_exit(&r, WIRE_EXITED, 0, 0);
		check_out(&r.out[0], "hi\n");
		run_free(&r);
	}
	for (int i = 0; i < 50; i++)
		check_fail((struct job){.argv = {"/no/such"}}, WIRE_FAIL_NOT_FOUND, ENOENT, "exec");
	ck_assert_int_eq(count_fds(c.vm.proc.pid), fds);
	ck_assert(soon(has_children, c.vm.proc.pid, false));
}
END_TEST

/* K04: orphans are reaped. */
START_TEST(orphans)
{
	shell("i=0; while [ $i -lt 100 ]; do (sleep 0.1 >/dev/null 2>&1 &); i=$((i+1)); done", 0,
		"");
	ck_assert(soon(has_children, c.vm.proc.pid, false));
}
END_TEST

START_TEST(parallel_streams)
{
	enum { N = 64 };
	static struct run runs[N];
	static char words[N][16];
	int open = N;
	struct wire_msg m;
	const struct job any = {0};

	for (int i = 0; i < N; i++) {
		(void)snprintf(words[i], sizeof(words[i]), "word %d\n", i);
		const struct job j = {.argv = {"printf", "%s", words[i]}};
		job_start(&j, &runs[i]);
	}
	while (open > 0) {
		ck_assert(recv_msg(&m, now_ms() + WAIT_MS));
		if (m.op == WIRE_OP_log)
			continue;
		struct run *r = &runs[m.stream - runs[0].stream];
		take_msg(&any, r, &m);
		open -= (m.op == WIRE_OP_exit && r->started) ||
			(m.op == WIRE_OP_started && r->exited);
	}
	for (int i = 0; i < N; i++) {
		check_exit(&runs[i], WIRE_EXITED, 0, 0);
		check_out(&runs[i].out[0], words[i]);
		run_free(&runs[i]);
	}
}
END_TEST

static void check_ends(void)
{
	struct wire_msg m;

	while (recv_msg(&m, now_ms() + WAIT_MS))
		;
	ck_assert_msg(c.closed, "the agent did not end");
}

START_TEST(shutdown_with_grace)
{
	const struct job j = {
		.argv = {"/bin/sh", "-c",
			"trap 'echo bye; exit 0' TERM; echo up; sleep 60 >/dev/null 2>&1 & wait"}};
	struct run r;

	job_start(&j, &r);
	while (r.out[0].len < 3)
		ck_assert(!job_wait(&j, &r, 20));
	send_msg(&(struct wire_msg){.op = WIRE_OP_shutdown, .shutdown = {.grace_ms = 5000}});
	ck_assert(job_wait(&j, &r, WAIT_MS));
	check_exit(&r, WIRE_EXITED, 0, 0);
	check_out(&r.out[0], "up\nbye\n");
	check_ends();
	run_free(&r);
}
END_TEST

static void freeze(uint32_t stream, uint8_t on)
{
	send_msg(&(struct wire_msg){.op = WIRE_OP_freeze, .stream = stream, .freeze = {.on = on}});
}

/* Without cgroups the agent stops the leaders' groups; all else is as in a machine. */
START_TEST(freeze_and_thaw)
{
	const struct job j = {.argv = {"/bin/sh", "-c", "while :; do echo tick; sleep 0.01; done"}};
	const struct job late = {.argv = {"true"}};
	struct run r;
	struct run refused;
	struct wire_msg m;

	job_start(&j, &r);
	job_wait_out(&j, &r, 20);
	for (uint32_t stream = 500; stream < 502; stream++) {
		freeze(stream, 1);
		for (m.op = 0; m.op != WIRE_OP_done;) {
			ck_assert(recv_msg(&m, now_ms() + WAIT_MS));
			if (m.op != WIRE_OP_done)
				take_msg(&j, &r, &m);
		}
		ck_assert_uint_eq(m.stream, stream);
	}
	ck_assert(!job_wait(&j, &r, 100));
	const size_t len = r.out[0].len;
	ck_assert(!job_wait(&j, &r, 300));
	ck_assert_uint_eq(r.out[0].len, len);

	job_run(&late, &refused);
	ck_assert(refused.failed);
	ck_assert_uint_eq(refused.fail.class_, WIRE_FAIL_INVALID);
	ck_assert_str_eq(refused.text, "the machine is frozen");

	freeze(600, 0);
	expect(WIRE_OP_done, &m);
	ck_assert_uint_eq(m.stream, 600);
	job_wait_out(&j, &r, len + 20);
	send_msg(&(struct wire_msg){
		.op = WIRE_OP_signal, .stream = r.stream, .signal = {.signo = SIGKILL}});
	ck_assert(job_wait(&j, &r, WAIT_MS));
	check_exit(&r, WIRE_SIGNALED, SIGKILL, 0);
	run_free(&r);
	shell("echo fine", 0, "fine\n");
}
END_TEST

START_TEST(kill_a_frozen_exec)
{
	const struct job j = {.argv = {"/bin/sh", "-c", "echo up; sleep 60"}};
	struct run r;
	struct wire_msg m;

	job_start(&j, &r);
	job_wait_out(&j, &r, 3);
	freeze(500, 1);
	expect(WIRE_OP_done, &m);
	send_msg(&(struct wire_msg){
		.op = WIRE_OP_signal, .stream = r.stream, .signal = {.signo = SIGKILL}});
	ck_assert(job_wait(&j, &r, WAIT_MS));
	check_exit(&r, WIRE_SIGNALED, SIGKILL, 0);
	freeze(501, 0);
	expect(WIRE_OP_done, &m);
	run_free(&r);
}
END_TEST

/* Who was frozen still gets its grace. */
START_TEST(shutdown_while_frozen)
{
	const struct job j = {
		.argv = {"/bin/sh", "-c",
			"trap 'exit 8' TERM; echo up; sleep 60 >/dev/null 2>&1 & wait"}};
	struct run r;
	struct wire_msg m;

	job_start(&j, &r);
	job_wait_out(&j, &r, 3);
	freeze(500, 1);
	expect(WIRE_OP_done, &m);
	send_msg(&(struct wire_msg){.op = WIRE_OP_shutdown, .shutdown = {.grace_ms = WAIT_MS}});
	ck_assert(job_wait(&j, &r, WAIT_MS));
	check_exit(&r, WIRE_EXITED, 8, 0);
	check_ends();
	run_free(&r);
}
END_TEST

START_TEST(freeze_before_setup)
{
	struct wire_msg m;

	machine_open();
	hello(WIRE_VERSION, WIRE_OLDEST);
	freeze(3, 1);
	expect(WIRE_OP_fail, &m);
	ck_assert_uint_eq(m.stream, 3);
	ck_assert_uint_eq(m.fail.class_, WIRE_FAIL_INVALID);
	teardown();
}
END_TEST

START_TEST(stats)
{
	const struct job j = {.argv = {"/bin/sh", "-c", "echo up; sleep 60"}};
	struct run r[2];
	struct wire_msg m;

	for (int i = 0; i < 2; i++) {
		job_start(&j, &r[i]);
		job_wait_out(&j, &r[i], 3);
	}
	send_msg(&(struct wire_msg){.op = WIRE_OP_stats, .stream = 700});
	expect(WIRE_OP_stats_reply, &m);
	ck_assert_uint_eq(m.stream, 700);
	ck_assert_uint_eq(m.stats_reply.execs, 2);
	ck_assert_uint_gt(m.stats_reply.uptime_us, 0);
	ck_assert_uint_gt(m.stats_reply.memory_used, 1 << 20);
	ck_assert_uint_gt(m.stats_reply.memory_total, m.stats_reply.memory_used);
	run_free(&r[0]);
	run_free(&r[1]);
}
END_TEST

START_TEST(closed_lane_ends_all)
{
	const struct job j = {
		.argv = {"/bin/sh", "-c", "setsid sleep 60 & echo $!; trap '' TERM HUP; wait"}};
	struct run r;

	job_start(&j, &r);
	while (r.out[0].len == 0 || !r.started)
		ck_assert(!job_wait(&j, &r, 20));
	bytes_add(&r.out[0], "", 1);
	const pid_t child = (pid_t)strtol((const char *)r.out[0].data, NULL, 10);
	ck_assert(alive((pid_t)r.pid) && alive(child));
	(void)shutdown(_i ? c.vm.bulk_fd : c.vm.control_fd, SHUT_RDWR);
	ck_assert(soon(alive, (pid_t)r.pid, false));
	ck_assert(soon(alive, child, false));
	run_free(&r);
}
END_TEST

START_TEST(exec_before_setup)
{
	struct run r;
	const struct job j = {.argv = {"true"}};

	machine_open();
	hello(WIRE_VERSION, WIRE_OLDEST);
	struct wire_msg m;
	expect(WIRE_OP_stage, &m);
	job_run(&j, &r);
	ck_assert(r.failed);
	ck_assert_uint_eq(r.fail.class_, WIRE_FAIL_INVALID);
	teardown();
}
END_TEST

START_TEST(other_version)
{
	struct wire_msg m;

	machine_open();
	hello(WIRE_VERSION + 9, WIRE_VERSION + 5);
	expect(WIRE_OP_fail, &m);
	ck_assert_uint_eq(m.fail.class_, WIRE_FAIL_INVALID);
	check_ends();
	teardown();
}
END_TEST

/* K47 from the other side: whatever breaks the protocol ends the agent. */
static void break_data_without_credit(void)
{
	const struct job j = {.argv = {"sleep", "60"}};
	struct run r;

	job_start(&j, &r);
	send_msg(&(struct wire_msg){.op = WIRE_OP_data,
		.stream = r.stream,
		.data = {.channel = WIRE_STDIN, .bytes = text("x")}});
}

static void break_stream_in_use(void)
{
	const struct job j = {.argv = {"sleep", "60"}};
	struct run r;

	job_start(&j, &r);
	c.streams--;
	job_start(&j, &r);
}

static void break_credit(void)
{
	const struct job j = {.argv = {"sleep", "60"}};
	struct run r;

	job_start(&j, &r);
	grant(&r, WIRE_STDOUT, WIRE_CREDIT_MAX);
}

static void break_frame(void)
{
	static const uint8_t junk[64] = "this is not a frame of the protocol";

	send_bytes(WIRE_CONTROL, junk, sizeof(junk));
}

static void break_bulk(void)
{
	static const uint8_t header[12] = {0xff, 0xff, 0xff, 0xff, 32, 0, 0, 0, 1};

	send_bytes(WIRE_BULK, header, sizeof(header));
}

static void break_hello(void)
{
	send_msg(&(struct wire_msg){.op = WIRE_OP_hello, .hello = {.magic = WIRE_MAGIC}});
}

static void (*const breaks[])(void) = {break_data_without_credit, break_stream_in_use, break_credit,
	break_frame, break_bulk, break_hello};

START_TEST(broken_protocol)
{
	breaks[_i]();
	check_ends();
}
END_TEST

START_TEST(engine_without_agent)
{
	static const char *const bad[] = {"", "relative/agent", "/no/such/agent"};
	const struct vm_spec spec = {.lock_fd = -EBADF};

	for (size_t i = 0; i < 3; i++) {
		struct vm vm = VM_INIT;
		holt_error *error = NULL;
		ck_assert_int_eq(setenv("HOLT_AGENT", bad[i], 1), 0);
		ck_assert_int_lt(vm_engine_fake.start(&spec, &vm, &error), 0);
		ck_assert_str_ne(holt_error_message(error), "");
		ck_assert_str_eq(holt_error_stage(error), "vm start");
		holt_error_free(error);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("agent");
	TCase *t = tcase_create("exec");
	TCase *bare = tcase_create("start");
	const int n_breaks = (int)(sizeof(breaks) / sizeof(breaks[0]));

	tcase_set_timeout(t, 60);
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, exit_codes);
	tcase_add_test(t, killed_by_signal);
	tcase_add_test(t, streams_are_separate);
	tcase_add_test(t, stdin_round_trip);
	tcase_add_test(t, stdin_is_empty_by_default);
	tcase_add_test(t, stdin_closed_early);
	tcase_add_test(t, environment_and_directory);
	tcase_add_test(t, only_std_descriptors);
	tcase_add_test(t, failing_execs);
	tcase_add_test(t, back_pressure);
	tcase_add_test(t, slow_reader_after_exit);
	tcase_add_test(t, slow_reader_and_background_child);
	tcase_add_test(t, window_exactly_used);
	tcase_add_test(t, time_out);
	tcase_add_test(t, background_child);
	tcase_add_test(t, signals);
	tcase_add_test(t, ping_under_load);
	tcase_add_test(t, many_quick_execs);
	tcase_add_test(t, orphans);
	tcase_add_test(t, parallel_streams);
	tcase_add_test(t, shutdown_with_grace);
	tcase_add_test(t, freeze_and_thaw);
	tcase_add_test(t, kill_a_frozen_exec);
	tcase_add_test(t, shutdown_while_frozen);
	tcase_add_test(t, stats);
	tcase_add_loop_test(t, closed_lane_ends_all, 0, 2);
	tcase_add_loop_test(t, broken_protocol, 0, n_breaks);
	suite_add_tcase(s, t);
	tcase_add_test(bare, exec_before_setup);
	tcase_add_test(bare, other_version);
	tcase_add_test(bare, freeze_before_setup);
	tcase_add_test(bare, engine_without_agent);
	suite_add_tcase(s, bare);

	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	const int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
