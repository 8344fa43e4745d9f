/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_UNIT_AGENT_CLIENT_H
#define TESTS_UNIT_AGENT_CLIENT_H

#include "vmm/vm.h"
#include "wire/wire.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/*
 * A host's side of the protocol for one test program: starts the agent under the fake engine, sends
 * requests, collects what comes back, and asserts what must always hold (no data without credit,
 * nothing after eof, exit last). One machine at a time.
 */

#define WAIT_MS   20000
#define WINDOW    262144
#define FRAME_CAP (256 * 1024)

struct bytes {
	uint8_t *data;
	size_t len;
};

/* One open machine and what came from it. */
struct client {
	struct vm vm;
	struct bytes in[2];
	size_t used[2]; /* of the frame handed out last */
	uint32_t streams;
	bool closed;
};

struct job {
	const char *argv[8];
	const char *env[4];
	const char *cwd;
	const char *user;
	uint32_t flags;
	uint16_t rows; /* of a terminal */
	uint16_t cols;
	uint64_t timeout_ms;
	uint32_t credit; /* 0 = WINDOW */
	bool stingy; /* grant nothing after the first window */
	const uint8_t *in;
	size_t in_len;
};

struct run {
	uint32_t stream;
	bool started;
	bool failed;
	bool exited;
	uint32_t pid;
	struct wire_fail fail;
	char text[512];
	struct wire_exit exit;
	struct bytes out[2];
	bool eof[2];
	uint32_t credit[2]; /* what the agent may still send */
	uint32_t in_credit;
	size_t in_pos;
	bool in_ended;
};

static struct client c;

static uint64_t now_ms(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static void bytes_add(struct bytes *b, const void *data, size_t len)
{
	if (len == 0)
		return;
	b->data = realloc(b->data, b->len + len);
	ck_assert_ptr_nonnull(b->data);
	memcpy(b->data + b->len, data, len);
	b->len += len;
}

static int lane_fd(int lane)
{
	return lane == WIRE_CONTROL ? c.vm.control_fd : c.vm.bulk_fd;
}

static void send_bytes(int lane, const uint8_t *data, size_t len)
{
	while (len > 0) {
		const ssize_t n = send(lane_fd(lane), data, len, MSG_NOSIGNAL);
		if (n > 0) {
			data += n;
			len -= (size_t)n;
			continue;
		}
		if (errno == EPIPE || errno == ECONNRESET)
			return; /* tests of the agent's end look at what they receive */
		ck_assert_int_eq(errno, EAGAIN);
		struct pollfd p = {.fd = lane_fd(lane), .events = POLLOUT};
		ck_assert_int_eq(poll(&p, 1, WAIT_MS), 1);
	}
}

static void send_msg(const struct wire_msg *m)
{
	const size_t size = wire_size(m);
	uint8_t *buf = malloc(size);
	size_t len = 0;

	ck_assert_ptr_nonnull(buf);
	ck_assert_int_eq(wire_encode(m, buf, size, &len), WIRE_OK);
	send_bytes(wire_lane_of(m->op), buf, len);
	free(buf);
}

/* Returns false at the deadline or the end of a lane. */
static bool recv_msg(struct wire_msg *ret, uint64_t until_ms)
{
	for (int l = 0; l < 2; l++) {
		memmove(c.in[l].data, c.in[l].data + c.used[l], c.in[l].len - c.used[l]);
		c.in[l].len -= c.used[l];
		c.used[l] = 0;
	}
	for (;;) {
		struct pollfd p[2];
		for (int l = 0; l < 2; l++) {
			size_t used = 0;
			const enum wire_status st = wire_decode(WIRE_AS_HOST, (enum wire_lane)l,
				c.in[l].data, c.in[l].len, ret, &used);
			if (st == WIRE_OK) {
				c.used[l] = used;
				return true;
			}
			ck_assert_int_eq(st, WIRE_MORE);
			p[l] = (struct pollfd){.fd = lane_fd(l), .events = POLLIN};
		}
		/* What came before the end of a lane was looked at above. */
		const uint64_t now = now_ms();
		if (c.closed || now >= until_ms || poll(p, 2, (int)(until_ms - now)) <= 0)
			return false;
		for (int l = 0; l < 2; l++) {
			if (!p[l].revents)
				continue;
			const ssize_t n = recv(
				p[l].fd, c.in[l].data + c.in[l].len, FRAME_CAP - c.in[l].len, 0);
			if (n == 0 || (n < 0 && errno == ECONNRESET)) {
				c.closed = true;
				continue;
			}
			ck_assert_int_gt(n, 0);
			c.in[l].len += (size_t)n;
		}
	}
}

/* The next message must be this; others than log and stage are an error. */
static void expect(uint16_t op, struct wire_msg *ret)
{
	do
		ck_assert_msg(recv_msg(ret, now_ms() + WAIT_MS), "no '%s' came", wire_op_name(op));
	while (ret->op != op && (ret->op == WIRE_OP_log || ret->op == WIRE_OP_stage));
	ck_assert_str_eq(wire_op_name(ret->op), wire_op_name(op));
}

static struct wire_bytes text(const char *s)
{
	return (struct wire_bytes){.data = (const uint8_t *)s, .len = s ? (uint32_t)strlen(s) : 0};
}

static void pack(struct bytes *b, const char *const *list, size_t max, struct wire_strs *ret)
{
	uint32_t n = 0;

	for (; n < max && list[n]; n++)
		bytes_add(b, list[n], strlen(list[n]) + 1);
	*ret = (struct wire_strs){.data = b->data, .len = (uint32_t)b->len, .count = n};
}

static void job_start(const struct job *j, struct run *r)
{
	struct bytes argv = {0};
	struct bytes env = {0};
	struct wire_msg m = {
		.op = WIRE_OP_exec,
		.stream = ++c.streams,
		.exec = {.flags = j->flags | (j->in ? WIRE_EXEC_STDIN : 0),
			.timeout_ms = j->timeout_ms,
			.out_credit = j->credit ? j->credit : WINDOW,
			.rows = j->rows,
			.cols = j->cols,
			.user = text(j->user),
			.cwd = text(j->cwd)},
	};

	pack(&argv, j->argv, 8, &m.exec.argv);
	pack(&env, j->env, 4, &m.exec.env);
	*r = (struct run){.stream = c.streams, .credit = {m.exec.out_credit, m.exec.out_credit}};
	send_msg(&m);
	free(argv.data);
	free(env.data);
}

static void grant(struct run *r, uint8_t channel, uint32_t bytes)
{
	r->credit[channel - 1] += bytes;
	send_msg(&(struct wire_msg){.op = WIRE_OP_credit,
		.stream = r->stream,
		.credit = {.channel = channel, .bytes = bytes}});
}

static void feed(const struct job *j, struct run *r)
{
	while (j->in && r->in_pos < j->in_len && r->in_credit > 0) {
		size_t n = j->in_len - r->in_pos;
		n = n < r->in_credit ? n : r->in_credit;
		n = n < WIRE_DATA_MAX ? n : WIRE_DATA_MAX;
		send_msg(&(struct wire_msg){.op = WIRE_OP_data,
			.stream = r->stream,
			.data = {
				.channel = WIRE_STDIN, .bytes = {j->in + r->in_pos, (uint32_t)n}}});
		r->in_pos += n;
		r->in_credit -= (uint32_t)n;
	}
	if (j->in && r->started && r->in_pos == j->in_len && !r->in_ended) {
		send_msg(&(struct wire_msg){
			.op = WIRE_OP_eof, .stream = r->stream, .eof = {.channel = WIRE_STDIN}});
		r->in_ended = true;
	}
}

static void take_data(const struct job *j, struct run *r, const struct wire_data *d)
{
	const int i = d->channel - 1;

	ck_assert_msg(r->started || r->credit[i], "data before the program ran");
	ck_assert(!r->eof[i]);
	ck_assert_uint_le(d->bytes.len, r->credit[i]);
	r->credit[i] -= d->bytes.len;
	bytes_add(&r->out[i], d->bytes.data, d->bytes.len);
	if (!j->stingy)
		grant(r, d->channel, d->bytes.len);
}

/* What a message means for a run. */
static void take_msg(const struct job *j, struct run *r, const struct wire_msg *m)
{
	switch (m->op) {
	case WIRE_OP_started:
		r->started = true;
		r->pid = m->started.pid;
		r->in_credit = m->started.in_credit;
		break;
	case WIRE_OP_fail:
		ck_assert(!r->started);
		r->failed = true;
		r->fail = m->fail;
		(void)snprintf(r->text, sizeof(r->text), "%.*s", (int)m->fail.text.len,
			(const char *)m->fail.text.data);
		break;
	case WIRE_OP_credit:
		r->in_credit += m->credit.bytes;
		break;
	case WIRE_OP_data:
		take_data(j, r, &m->data);
		break;
	case WIRE_OP_eof:
		ck_assert(!r->eof[m->eof.channel - 1]);
		r->eof[m->eof.channel - 1] = true;
		break;
	case WIRE_OP_exit:
		ck_assert(r->eof[0] && r->eof[1]);
		r->exited = true;
		r->exit = m->exit;
		break;
	default:
		ck_abort_msg("unexpected '%s'", wire_op_name(m->op));
	}
	feed(j, r);
}

/* Take messages until the run is over or the time has come; returns whether it is over. The two
 * lanes race, so that the exit may come before the "started". */
static bool job_wait(const struct job *j, struct run *r, uint64_t for_ms)
{
	const uint64_t until = now_ms() + for_ms;
	struct wire_msg m;

	while (!r->failed && !(r->exited && r->started) && recv_msg(&m, until)) {
		if (m.op == WIRE_OP_log)
			continue;
		ck_assert_uint_eq(m.stream, r->stream);
		take_msg(j, r, &m);
	}
	return r->failed || (r->exited && r->started);
}

/* Take messages until the program has written @n bytes to stdout. */
__attribute__((unused)) static void job_wait_out(const struct job *j, struct run *r, size_t n)
{
	const uint64_t until = now_ms() + WAIT_MS;

	while (r->out[0].len < n || !r->started)
		ck_assert_msg(!job_wait(j, r, 10) && now_ms() < until, "it did not write");
}

static void run_free(struct run *r)
{
	free(r->out[0].data);
	free(r->out[1].data);
}

static void job_run(const struct job *j, struct run *r)
{
	job_start(j, r);
	ck_assert_msg(job_wait(j, r, WAIT_MS), "'%s' did not end", j->argv[0]);
}

static void check_out(const struct bytes *b, const char *want)
{
	ck_assert_uint_eq(b->len, strlen(want));
	if (b->len)
		ck_assert_mem_eq(b->data, want, b->len);
}

static void check_exit(const struct run *r, uint8_t kind, uint32_t code, uint32_t flags)
{
	ck_assert_msg(r->exited, "failed: %s", r->text);
	ck_assert_uint_eq(r->exit.kind, kind);
	ck_assert_uint_eq(r->exit.code, code);
	ck_assert_uint_eq(r->exit.flags, flags);
}

/* Run a shell command line that shall exit with @code and print @out. */
__attribute__((unused)) static void shell(const char *line, uint32_t code, const char *out)
{
	const struct job j = {.argv = {"/bin/sh", "-c", line}};
	struct run r;

	job_run(&j, &r);
	check_exit(&r, WIRE_EXITED, code, 0);
	check_out(&r.out[0], out);
	run_free(&r);
}

__attribute__((unused)) static int count_fds(pid_t pid)
{
	char path[64];
	int n = 0;

	(void)snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	DIR *dir = opendir(path);
	ck_assert_ptr_nonnull(dir);
	while (readdir(dir))
		n++;
	(void)closedir(dir);
	return n;
}

static void machine_open_as(const char *agent)
{
	ck_assert_int_eq(setenv("HOLT_AGENT", agent, 1), 0);
	c = (struct client){.vm = VM_INIT};
	for (int l = 0; l < 2; l++) {
		c.in[l].data = malloc(FRAME_CAP);
		ck_assert_ptr_nonnull(c.in[l].data);
	}
	const struct vm_spec spec = {.lock_fd = -EBADF};
	holt_error *error = NULL;
	ck_assert_msg(
		vm_engine_fake.start(&spec, &c.vm, &error) == 0, "%s", holt_error_message(error));
}

static void machine_open(void)
{
	machine_open_as(TEST_AGENT);
}

static void hello(uint16_t version, uint16_t oldest)
{
	struct wire_msg m;

	expect(WIRE_OP_hello, &m);
	ck_assert_uint_eq(m.hello.magic, WIRE_MAGIC);
	ck_assert_uint_eq(m.hello.version, WIRE_VERSION);
	ck_assert_uint_gt(m.hello.build.len, 0);
	send_msg(&(struct wire_msg){.op = WIRE_OP_hello,
		.hello = {.magic = WIRE_MAGIC, .version = version, .oldest = oldest}});
}

static void setup(void)
{
	struct wire_msg m;

	machine_open();
	hello(WIRE_VERSION, WIRE_OLDEST);
	send_msg(&(struct wire_msg){.op = WIRE_OP_setup, .setup = {.hostname = text("box")}});
	expect(WIRE_OP_setup_done, &m);
}

static void teardown(void)
{
	vm_kill(&c.vm, NULL);
	free(c.in[0].data);
	free(c.in[1].data);
}

#endif
