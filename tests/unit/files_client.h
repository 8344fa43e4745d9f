/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_UNIT_FILES_CLIENT_H
#define TESTS_UNIT_FILES_CLIENT_H

#include "builtin_client.h"

#include <sys/wait.h>

/*
 * The host's half of the built-in "files": workers of a real agent under the fake engine, in the
 * test's directory, and the answers to what is asked. While a worker runs the agent must not be
 * asked for anything else, so that shell lines are run by the test itself (local).
 */

#define WORKERS_MAX 4

struct worker {
	struct job job;
	struct run run;
	size_t used; /* of its output */
};

struct answer {
	bool informed;
	struct wire_file_info info;
	char target[PATH_MAX];
	struct bytes data;
	bool failed;
	uint16_t class;
	uint32_t errnum;
	char stage[16];
	char object[2048];
	char text[8192];
};

static struct worker workers[WORKERS_MAX];
static unsigned n_workers;

static bool is_root(void)
{
	return geteuid() == 0;
}

/* Take one message for whichever worker it is for. */
static void turn(void)
{
	struct wire_msg m;

	ck_assert_msg(recv_msg(&m, now_ms() + WAIT_MS), "the agent says nothing");
	if (m.op == WIRE_OP_log)
		return;
	for (unsigned i = 0; i < n_workers; i++)
		if (workers[i].run.stream == m.stream) {
			take_msg(&workers[i].job, &workers[i].run, &m);
			return;
		}
	ck_abort_msg("a '%s' for nobody", wire_op_name(m.op));
}

/* As root with another @user, so that permissions count. */
static struct worker *worker_start(const char *user)
{
	ck_assert_uint_lt(n_workers, WORKERS_MAX);
	struct worker *const w = &workers[n_workers];

	*w = (struct worker){.job = {.argv = {WIRE_FILES_BUILTIN, WIRE_FILES_VERSION},
				     .flags = WIRE_EXEC_BUILTIN | WIRE_EXEC_STDIN,
				     .cwd = base,
				     .user = user}};
	job_start(&w->job, &w->run);
	n_workers++;
	while (!w->run.started && !w->run.failed)
		turn();
	ck_assert_msg(!w->run.failed, "%s", w->run.text);
	return w;
}

static struct worker *worker_of_user(void)
{
	ck_assert_int_eq(chmod(base, 0777), 0);
	return worker_start(is_root() ? "4242:4343" : NULL);
}

static void put_bytes(struct worker *w, const uint8_t *data, size_t len)
{
	while (len > 0) {
		while (w->run.in_credit == 0)
			turn();
		size_t n = len < w->run.in_credit ? len : w->run.in_credit;
		n = n < WIRE_DATA_MAX ? n : WIRE_DATA_MAX;
		send_msg(&(struct wire_msg){.op = WIRE_OP_data,
			.stream = w->run.stream,
			.data = {.channel = WIRE_STDIN, .bytes = {data, (uint32_t)n}}});
		w->run.in_credit -= (uint32_t)n;
		data += n;
		len -= n;
	}
}

static void put_msg(struct worker *w, const struct wire_msg *m)
{
	const size_t size = wire_size(m);
	uint8_t *const buf = malloc(size);
	size_t len = 0;

	ck_assert_ptr_nonnull(buf);
	ck_assert_int_eq(wire_encode(m, buf, size, &len), WIRE_OK);
	put_bytes(w, buf, len);
	free(buf);
}

static void put_eof(struct worker *w)
{
	send_msg(&(struct wire_msg){
		.op = WIRE_OP_eof, .stream = w->run.stream, .eof = {.channel = WIRE_STDIN}});
}

/* The next message of the worker, good until the next call. */
static void get_msg(struct worker *w, struct wire_msg *ret)
{
	struct bytes *const out = &w->run.out[0];
	enum wire_status rc = WIRE_MORE;
	size_t used = 0;

	if (w->used == out->len)
		w->used = out->len = 0;
	for (;;) {
		if (out->len > w->used)
			rc = wire_decode(WIRE_AS_HOST, WIRE_FILES, out->data + w->used,
				out->len - w->used, ret, &used);
		if (rc == WIRE_OK)
			break;
		ck_assert_int_eq(rc, WIRE_MORE);
		ck_assert_msg(!w->run.exited, "the worker ended: %.*s", (int)w->run.out[1].len,
			(const char *)w->run.out[1].data);
		turn();
	}
	w->used += used;
}

static void copy_text(char *dst, size_t cap, const struct wire_bytes *b)
{
	ck_assert_uint_lt(b->len, cap);
	if (b->len)
		memcpy(dst, b->data, b->len);
	dst[b->len] = 0;
}

static void get_fail(struct answer *a, const struct wire_file_fail *fail)
{
	a->failed = true;
	a->class = fail->class_;
	a->errnum = fail->errnum;
	copy_text(a->stage, sizeof(a->stage), &fail->stage);
	copy_text(a->object, sizeof(a->object), &fail->object);
	copy_text(a->text, sizeof(a->text), &fail->text);
}

static void get_answer(struct worker *w, struct answer *a)
{
	struct wire_msg m;

	*a = (struct answer){0};
	for (get_msg(w, &m); m.op != WIRE_OP_file_done; get_msg(w, &m)) {
		switch (m.op) {
		case WIRE_OP_file_info:
			ck_assert(!a->informed && a->data.len == 0);
			a->informed = true;
			a->info = m.file_info;
			copy_text(a->target, sizeof(a->target), &m.file_info.target);
			break;
		case WIRE_OP_file_data:
			bytes_add(&a->data, m.file_data.bytes.data, m.file_data.bytes.len);
			break;
		case WIRE_OP_file_fail:
			get_fail(a, &m.file_fail);
			return;
		default:
			ck_abort_msg("unexpected '%s'", wire_op_name(m.op));
		}
	}
	ck_assert_uint_eq(m.file_done.truncated, 0);
}

__attribute__((unused)) static void is_done(struct answer *a)
{
	ck_assert_msg(!a->failed, "%s", a->text);
	free(a->data.data);
	a->data = (struct bytes){0};
}

__attribute__((unused)) static void is_failure(
	struct answer *a, int errnum, const char *stage, const char *object)
{
	ck_assert_msg(a->failed, "no failure %d of '%s'", errnum, object);
	ck_assert_msg(
		a->errnum == (uint32_t)errnum, "%u is not %d: %s", a->errnum, errnum, a->text);
	ck_assert_uint_eq(a->class, WIRE_FILE_FAIL_ERRNO);
	ck_assert_str_eq(a->stage, stage);
	ck_assert_str_eq(a->object, object);
	ck_assert_ptr_nonnull(strstr(a->text, strerror(errnum)));
	free(a->data.data);
	a->data = (struct bytes){0};
}

static void ask(struct worker *w, const struct wire_msg *m, struct answer *a)
{
	put_msg(w, m);
	get_answer(w, a);
}

__attribute__((unused)) static void ask_read(
	struct worker *w, const char *path, struct wire_file_read want, struct answer *a)
{
	want.path = text(path);
	ask(w, &(struct wire_msg){.op = WIRE_OP_file_read, .file_read = want}, a);
}

__attribute__((unused)) static void ask_stat(
	struct worker *w, const char *path, uint32_t flags, struct answer *a)
{
	ask(w,
		&(struct wire_msg){
			.op = WIRE_OP_file_stat, .file_stat = {.flags = flags, .path = text(path)}},
		a);
}

static void put_content(struct worker *w, const void *data, size_t len)
{
	const uint8_t *p = data;

	for (size_t n = 0; len > 0; p += n, len -= n) {
		n = len < WIRE_DATA_MAX ? len : WIRE_DATA_MAX;
		put_msg(w, &(struct wire_msg){.op = WIRE_OP_file_data,
				   .file_data = {.bytes = {p, (uint32_t)n}}});
	}
}

static void put_write(struct worker *w, const char *path, uint32_t flags)
{
	put_msg(w, &(struct wire_msg){.op = WIRE_OP_file_write,
			   .file_write = {.flags = flags, .path = text(path)}});
}

static void put_end(struct worker *w, bool abort)
{
	put_msg(w,
		&(struct wire_msg){.op = WIRE_OP_file_end, .file_end = {.abort_ = abort ? 1 : 0}});
}

__attribute__((unused)) static void ask_write(struct worker *w, const char *path, uint32_t flags,
	const void *data, size_t len, struct answer *a)
{
	put_write(w, path, flags);
	put_content(w, data, len);
	put_end(w, false);
	get_answer(w, a);
}

/* Nothing may be left over of earlier answers. */
static void worker_stop(struct worker *w)
{
	put_eof(w);
	while (!w->run.exited)
		turn();
	check_success(&w->run);
	ck_assert_uint_eq(w->used, w->run.out[0].len);
	run_free(&w->run);
}

static void files_setup(void)
{
	base_setup();
	n_workers = 0;
}

static void files_teardown(void)
{
	for (unsigned i = 0; i < n_workers; i++)
		worker_stop(&workers[i]);
	base_teardown();
}

/* A shell line in the test's directory that must succeed. */
static void local(const char *line)
{
	int status = 0;
	const pid_t pid = fork();

	if (pid == 0) {
		(void)!chdir(base);
		(void)execl("/bin/sh", "sh", "-c", line, (char *)NULL);
		_exit(127);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_msg(status == 0, "%s", line);
}

#define MIB (1024u * 1024)

/* Of a file in the test's directory. */
__attribute__((unused)) static struct stat look(const char *name)
{
	struct stat st;

	ck_assert_msg(lstat(in_base(name), &st) == 0, "'%s': %s", name, strerror(errno));
	return st;
}

__attribute__((unused)) static void check_content(const char *name, const void *want, size_t len)
{
	uint8_t *const have = malloc(len + 1);
	size_t n = 0;
	ssize_t got = 0;
	const int fd = open(in_base(name), O_RDONLY | O_CLOEXEC);

	ck_assert_int_ge(fd, 0);
	ck_assert_ptr_nonnull(have);
	while (n <= len && (got = read(fd, have + n, len + 1 - n)) > 0)
		n += (size_t)got;
	(void)close(fd);
	ck_assert_uint_eq(n, len);
	ck_assert_int_eq(len ? memcmp(have, want, len) : 0, 0);
	free(have);
}

__attribute__((unused)) static void put_file(const char *name, const void *data, size_t len)
{
	const int fd = open(in_base(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, data, len), (ssize_t)len);
	(void)close(fd);
}

/* Bytes of every value, never the same for long. */
__attribute__((unused)) static uint8_t *noise(size_t len)
{
	uint8_t *const data = malloc(len);
	uint32_t x = 1;

	ck_assert_ptr_nonnull(data);
	for (size_t i = 0; i < len; i++) {
		x = x * 1664525 + 1013904223;
		data[i] = (uint8_t)(x >> 24);
	}
	return data;
}

#endif
