/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a guest that has been taken over can say to the host about files: a thread of this test is
 * the keeper and whatever is behind it, and answers each request with what a row of a table holds.
 * The host has to notice, end the worker, and never hand the caller what nobody asked for.
 */
#include <check.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "box/box_backend.h"
#include "box/box_files.h"

#include "dir_fixture.h"

#define IN_CREDIT 1048576u
#define FRAMES    4
#define STREAMS   128

#define STR(s)                                                     \
	{                                                          \
		.data = (const uint8_t *)(s), .len = sizeof(s) - 1 \
	}
#define MSG(o, ...)                                     \
	{                                               \
		.op = WIRE_OP_##o, .o = { __VA_ARGS__ } \
	}

/* What the guest says to the first frame of the op @when (0: any request), in one piece. */
struct answer {
	uint16_t refusal; /* of the start, as WIRE_FAIL_; 0: it starts */
	uint16_t when;
	struct wire_msg says[FRAMES];
	const char *raw; /* bytes behind them */
	size_t raw_len;
	const char *complains; /* then on stderr */
	bool ends; /* then the worker does, so: */
	struct wire_exit how;
};

/* ---- the keeper ---- */

static struct answer script; /* under the lock */
static pthread_mutex_t script_lock = PTHREAD_MUTEX_INITIALIZER;
static int lanes[2]; /* its ends */
static int stop_pipe[2];
static pthread_t keeper;
static int n_started, n_ended; /* workers; atomic */
static struct buf input[STREAMS]; /* of each worker's stdin */

static int load(const int *n)
{
	return __atomic_load_n(n, __ATOMIC_SEQ_CST);
}

/* What is said from now on. */
static void plan(struct answer a)
{
	pthread_mutex_lock(&script_lock);
	script = a;
	pthread_mutex_unlock(&script_lock);
}

static struct answer planned(void)
{
	pthread_mutex_lock(&script_lock);
	const struct answer a = script;
	pthread_mutex_unlock(&script_lock);
	return a;
}

static void say(const struct wire_msg *m)
{
	static uint8_t frame[2 * WIRE_DATA_MAX];
	size_t len = 0;

	ck_assert_int_eq(wire_encode(m, frame, sizeof frame, &len), WIRE_OK);
	/* The host may have gone meanwhile. */
	(void)!send(lanes[wire_lane_of(m->op)], frame, len, MSG_NOSIGNAL);
}

static void say_data(uint32_t stream, enum wire_channel channel, const void *data, size_t len)
{
	if (len > 0)
		say(&(struct wire_msg){.op = WIRE_OP_data,
			.stream = stream,
			.data = {.channel = (uint8_t)channel, .bytes = {data, (uint32_t)len}}});
}

static void give_answer(uint32_t stream, const struct answer *a)
{
	static uint8_t out[WIRE_DATA_MAX];
	size_t len = 0;

	for (int i = 0; i < FRAMES && a->says[i].op; i++) {
		size_t n = 0;
		ck_assert_int_eq(
			wire_encode(&a->says[i], out + len, sizeof out - len, &n), WIRE_OK);
		len += n;
	}
	if (a->raw_len)
		memcpy(out + len, a->raw, a->raw_len);
	say_data(stream, WIRE_STDOUT, out, len + a->raw_len);
	if (a->complains)
		say_data(stream, WIRE_STDERR, a->complains, strlen(a->complains));
	if (a->ends)
		say(&(struct wire_msg){.op = WIRE_OP_exit, .stream = stream, .exit = a->how});
}

static void take_input(uint32_t stream, const struct wire_bytes *bytes)
{
	const struct answer a = planned();
	struct buf *in = &input[stream % STREAMS];
	struct wire_msg m;
	size_t used = 0;

	ck_assert_int_eq(buf_append(in, bytes->data, bytes->len), 0);
	say(&(struct wire_msg){.op = WIRE_OP_credit,
		.stream = stream,
		.credit = {.channel = WIRE_STDIN, .bytes = bytes->len}});
	while (wire_decode(WIRE_AS_GUEST, WIRE_FILES, in->data, in->len, &m, &used) == WIRE_OK) {
		const bool request = m.op < WIRE_OP_file_data;
		if (a.when ? m.op == a.when : request)
			give_answer(stream, &a);
		buf_consume(in, used);
	}
}

static void take_exec(const struct wire_msg *m)
{
	const uint16_t refusal = planned().refusal;
	uint32_t pos = 0;

	ck_assert_str_eq(wire_strs_next(&m->exec.argv, &pos), WIRE_FILES_BUILTIN);
	ck_assert_str_eq(wire_strs_next(&m->exec.argv, &pos), WIRE_FILES_VERSION);
	ck_assert_uint_eq(m->exec.flags, WIRE_EXEC_STDIN | WIRE_EXEC_BUILTIN);
	ck_assert(m->exec.user.len == 4 && memcmp(m->exec.user.data, "1:23", 4) == 0);
	ck_assert(m->exec.cwd.len == 5 && memcmp(m->exec.cwd.data, "/work", 5) == 0);
	if (refusal) {
		say(&(struct wire_msg){
			.op = WIRE_OP_fail, .stream = m->stream, .fail = {.class_ = refusal}});
		return;
	}
	input[m->stream % STREAMS].len = 0;
	(void)__atomic_add_fetch(&n_started, 1, __ATOMIC_SEQ_CST);
	say(&(struct wire_msg){.op = WIRE_OP_started,
		.stream = m->stream,
		.started = {.pid = 7, .in_credit = IN_CREDIT}});
}

static void take_frame(const struct wire_msg *m)
{
	switch (m->op) {
	case WIRE_OP_exec:
		take_exec(m);
		break;
	case WIRE_OP_data:
		take_input(m->stream, &m->data.bytes);
		break;
	case WIRE_OP_leave:
		(void)__atomic_add_fetch(&n_ended, 1, __ATOMIC_SEQ_CST);
		break;
	default:
		break;
	}
}

static void *keeper_run(void *arg)
{
	struct buf in[2] = {BUF_INIT(8u << 20), BUF_INIT(8u << 20)};
	struct pollfd fds[] = {
		{lanes[0], POLLIN, 0}, {lanes[1], POLLIN, 0}, {stop_pipe[0], POLLIN, 0}};

	(void)arg;
	say(&(struct wire_msg)MSG(ready, .attempts = 1));
	while (poll(fds, 3, -1) > 0 && !fds[2].revents) {
		for (int i = 0; i < 2; i++) {
			struct wire_msg m;
			size_t used = 0;

			if (!fds[i].revents)
				continue;
			uint8_t *to = buf_reserve(&in[i], 65536);
			ck_assert_ptr_nonnull(to);
			const ssize_t n = recv(lanes[i], to, 65536, 0);
			if (n <= 0)
				fds[i].fd = -1;
			in[i].len += n > 0 ? (size_t)n : 0;
			while (wire_decode(WIRE_AS_KEEPER, (enum wire_lane)i, in[i].data, in[i].len,
				       &m, &used) == WIRE_OK) {
				take_frame(&m);
				buf_consume(&in[i], used);
			}
		}
	}
	buf_done(&in[0]);
	buf_done(&in[1]);
	return NULL;
}

/* ---- the box ---- */

static struct holt_home home;
static struct holt_box box;
static void *self;
static const holt_call call = {.timeout_ms = 10000};

static void begin(void)
{
	static char hostname[] = "h";
	int control[2], bulk[2];

	setup();
	for (int i = 0; i < STREAMS; i++)
		input[i] = BUF_INIT(8u << 20);
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, control), 0);
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, bulk), 0);
	ck_assert_int_eq(pipe2(stop_pipe, O_CLOEXEC), 0);
	lanes[0] = control[1];
	lanes[1] = bulk[1];
	ck_assert_int_eq(pthread_create(&keeper, NULL, keeper_run, NULL), 0);
	home = (struct holt_home){.boxes_fd = dir_fd, .loop = loop_new()};
	ck_assert_int_eq(loop_start(home.loop, NULL), 0);
	box = (struct holt_box){.home = &home, .rec = {.id = "b", .hostname = hostname}};
	ck_assert_int_eq(pthread_mutex_init(&box.lock, NULL), 0);
	ck_assert_int_eq(session_open(home.loop, control[0], bulk[0], "b", &box.session, NULL), 0);
	ck_assert_int_eq(box_backend_new(&box, "1:23", "/work", &self, NULL), 0);
}

static void end(void)
{
	box_backend.close(self);
	session_close(box.session);
	loop_free(home.loop);
	ck_assert_int_eq(write(stop_pipe[1], "x", 1), 1);
	ck_assert_int_eq(pthread_join(keeper, NULL), 0);
	for (int i = 0; i < STREAMS; i++)
		buf_done(&input[i]);
	for (int i = 0; i < 2; i++) {
		close(lanes[i]);
		close(stop_pipe[i]);
	}
	(void)pthread_mutex_destroy(&box.lock);
	teardown();
}

/* ---- what is asked ---- */

static _Thread_local uint64_t n_given; /* results, bytes */

static int give_data(const void *data, size_t len, void *user)
{
	(void)data;
	(void)user;
	n_given += len;
	return 0;
}

static int give_entry(const holt_entry *e, void *user)
{
	(void)e;
	(void)user;
	n_given++;
	return 0;
}

static int give_match(const holt_match *m, void *user)
{
	(void)m;
	(void)user;
	n_given++;
	return 0;
}

static int two_pieces(void *data, size_t size, size_t *ret_len, void *user)
{
	unsigned *n = user;

	memset(data, 'x', size);
	*ret_len = (*n)++ < 2 ? size : 0;
	return 0;
}

static int ask(uint16_t op, const holt_call *c, holt_error **reterr)
{
	static const char *const ignore[] = {".git", NULL};
	const holt_backend_read what = {.max_bytes = 4};
	holt_backend_search s = {.root = "/r",
		.ignore = ignore,
		.max_results = 2,
		.max_depth = 2,
		.pattern = "x",
		.line_bytes = 3};
	holt_file_info info = HOLT_FILE_INFO_INIT;
	holt_search_result result = HOLT_SEARCH_RESULT_INIT;
	unsigned n = 0;

	n_given = 0;
	switch (op) {
	case WIRE_OP_file_read:
		return box_backend.read(self, "p", &what, give_data, NULL, c, reterr);
	case WIRE_OP_file_write:
		return box_backend.write(self, "p", 0, two_pieces, &n, c, reterr);
	case WIRE_OP_file_stat:
		return box_backend.stat(self, "p", 0, c, &info, reterr);
	case WIRE_OP_file_mkdir:
		return box_backend.make_directory(self, "p", 0, c, reterr);
	case WIRE_OP_file_list:
		return box_backend.list(self, &s, give_entry, NULL, c, &result, reterr);
	case WIRE_OP_file_glob:
		return box_backend.glob(self, &s, give_entry, NULL, c, &result, reterr);
	default:
		return box_backend.grep(self, &s, give_match, NULL, c, &result, reterr);
	}
}

#define INFO      MSG(file_info, .type = WIRE_FILE_REGULAR, .mode = 0644)
#define DONE      MSG(file_done, .truncated = 0)
#define MORE      MSG(file_done, .truncated = 1)
#define DATA(s)   MSG(file_data, .bytes = STR(s))
#define A_FILE(p) MSG(file_entry, .type = WIRE_FILE_REGULAR, .path = STR(p))
#define A_DIR(p)  MSG(file_entry, .type = WIRE_FILE_DIRECTORY, .path = STR(p))
#define LINE(p, s) \
	MSG(file_match, .line = 1, .line_len = sizeof(s) - 1, .path = STR(p), .text = STR(s))

static const struct {
	uint16_t op;
	struct wire_msg says[FRAMES];
	uint64_t given; /* what may come through before it is noticed, or is fine */
	bool fine;
} orders[] = {
	/* A file: its description, content, the end. */
	{WIRE_OP_file_read, {INFO, DATA("ab"), DATA("cd"), DONE}, 4, true},
	{WIRE_OP_file_read, {INFO, DONE}, 0, true},
	{WIRE_OP_file_read, {DATA("ab"), DONE}, 0, false},
	{WIRE_OP_file_read, {DONE}, 0, false},
	{WIRE_OP_file_read, {MSG(file_info, .type = WIRE_FILE_FIFO), DONE}, 0, false},
	{WIRE_OP_file_read, {INFO, INFO, DONE}, 0, false},
	{WIRE_OP_file_read, {INFO, DATA("abcde"), DONE}, 0, false},
	{WIRE_OP_file_read, {INFO, DATA("abc"), DATA("de"), DONE}, 3, false},
	{WIRE_OP_file_read, {INFO, A_FILE("a"), DONE}, 0, false},
	{WIRE_OP_file_read, {INFO, MORE}, 0, false},
	{WIRE_OP_file_read, {INFO, MSG(file_done, .searched = 1)}, 0, false},
	{WIRE_OP_file_read, {INFO, DONE, DONE}, 0, false},
	{WIRE_OP_file_read, {INFO, DONE, INFO}, 0, false},
	{WIRE_OP_file_stat, {INFO, DONE}, 0, true},
	{WIRE_OP_file_stat, {MSG(file_info, .type = WIRE_FILE_BLOCK, .mode = 07777), DONE}, 0,
		true},
	{WIRE_OP_file_stat, {DONE}, 0, false},
	{WIRE_OP_file_stat, {INFO, INFO, DONE}, 0, false},
	{WIRE_OP_file_stat, {A_FILE("a"), DONE}, 0, false},
	{WIRE_OP_file_stat, {DATA("a"), DONE}, 0, false},
	{WIRE_OP_file_stat, {MSG(file_info, .type = 1, .mode = 010000), DONE}, 0, false},
	{WIRE_OP_file_mkdir, {DONE}, 0, true},
	{WIRE_OP_file_mkdir, {INFO, DONE}, 0, false},
	{WIRE_OP_file_mkdir, {DATA("a"), DONE}, 0, false},
	{WIRE_OP_file_mkdir, {MORE}, 0, false},
	/* The root, then what is beneath it, two at most. */
	{WIRE_OP_file_list, {A_DIR(""), A_FILE("a/b"), MORE}, 2, true},
	{WIRE_OP_file_list, {A_FILE(""), DONE}, 1, true},
	{WIRE_OP_file_list, {DONE}, 0, true},
	{WIRE_OP_file_list, {A_DIR(""), A_DIR("..."), DONE}, 2, true},
	{WIRE_OP_file_list, {A_DIR("a"), DONE}, 0, false},
	{WIRE_OP_file_list, {A_DIR(""), A_DIR(""), DONE}, 1, false},
	{WIRE_OP_file_list, {A_DIR(""), A_FILE("a"), A_FILE("b"), DONE}, 2, false},
	{WIRE_OP_file_list, {A_DIR(""), MORE}, 1, false},
	{WIRE_OP_file_list, {A_DIR(""), A_FILE("a/b/c"), DONE}, 1, false},
	{WIRE_OP_file_list, {A_DIR(""), A_FILE("/a"), DONE}, 1, false},
	{WIRE_OP_file_list, {A_DIR(""), A_FILE("/"), DONE}, 1, false},
	{WIRE_OP_file_list, {A_DIR(""), A_FILE(".."), DONE}, 1, false},
	{WIRE_OP_file_list, {A_DIR(""), A_FILE("a/.."), DONE}, 1, false},
	{WIRE_OP_file_list, {A_DIR(""), A_FILE("../a"), DONE}, 1, false},
	{WIRE_OP_file_list, {A_DIR(""), A_FILE("."), DONE}, 1, false},
	{WIRE_OP_file_list, {A_DIR(""), A_FILE("./a"), DONE}, 1, false},
	{WIRE_OP_file_list, {A_DIR(""), A_FILE("a/"), DONE}, 1, false},
	{WIRE_OP_file_list, {A_DIR(""), A_FILE("a//b"), DONE}, 1, false},
	{WIRE_OP_file_list,
		{A_DIR(""), MSG(file_entry, .type = WIRE_FILE_SYMLINK, .path = STR("a")), DONE}, 1,
		false},
	{WIRE_OP_file_list, {LINE("a", "x"), DONE}, 0, false},
	{WIRE_OP_file_list, {INFO, DONE}, 0, false},
	{WIRE_OP_file_glob, {A_FILE("a"), A_FILE("b/c/d/e"), MORE}, 2, true},
	{WIRE_OP_file_glob, {A_FILE(""), DONE}, 0, false},
	{WIRE_OP_file_glob, {A_DIR("a"), DONE}, 0, false},
	{WIRE_OP_file_glob, {A_FILE("a/../b"), DONE}, 0, false},
	{WIRE_OP_file_glob, {A_FILE("a"), MORE}, 1, false},
	{WIRE_OP_file_grep, {LINE("", "abc"), LINE("a", ""), MORE}, 2, true},
	{WIRE_OP_file_grep, {LINE("a", "a\0b"), MSG(file_done, .searched = 5, .skipped = 6)}, 1,
		true},
	{WIRE_OP_file_grep, {LINE("a", "abcd"), DONE}, 0, false},
	{WIRE_OP_file_grep, {LINE("../a", "a"), DONE}, 0, false},
	{WIRE_OP_file_grep, {A_FILE("a"), DONE}, 0, false},
	{WIRE_OP_file_grep, {LINE("a", "a"), LINE("a", "b"), LINE("a", "c"), DONE}, 2, false},
	{WIRE_OP_file_grep, {MORE}, 0, false},
};

static void await_ended(int n)
{
	const uint64_t until = clock_mono_ms() + 5000;

	while (load(&n_ended) < n) {
		ck_assert_uint_lt(clock_mono_ms(), until);
		(void)nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
	}
}

static void check_fails(int code, int r, holt_error *e, const char *what)
{
	ck_assert_msg(r == -code && holt_error_code(e) == code, "%s: %d, not %d: %s", what, r,
		-code, holt_error_message(e));
	ck_assert_str_ne(holt_error_message(e), "");
	ck_assert_str_ne(holt_error_stage(e), "");
	ck_assert_str_ne(holt_error_object(e), "");
	holt_error_free(e);
}

static void refused(int code, uint16_t op, const holt_call *c)
{
	holt_error *e = NULL;
	const int r = ask(op, c, &e);

	check_fails(code, r, e, wire_op_name(op));
}

START_TEST(nothing_comes_through_that_was_not_asked_for)
{
	int ended = 0;

	for (size_t i = 0; i < sizeof orders / sizeof orders[0]; i++) {
		char what[64];
		holt_error *e = NULL;

		snprintf(what, sizeof what, "row %zu, %s", i, wire_op_name(orders[i].op));
		struct answer a = {.when = 0};
		memcpy(a.says, orders[i].says, sizeof a.says);
		plan(a);
		const int r = ask(orders[i].op, &call, &e);
		if (orders[i].fine)
			ck_assert_msg(r == 0, "%s: %d %s", what, r, holt_error_message(e));
		else
			check_fails(HOLT_EPROTOCOL, r, e, what);
		ck_assert_msg(
			n_given == orders[i].given, "%s: %llu", what, (unsigned long long)n_given);
		/* A liar is ended, an honest one kept. */
		ended += !orders[i].fine;
		await_ended(ended);
		ck_assert_int_le(load(&n_started) - ended, 1);
	}
}
END_TEST

START_TEST(what_is_no_frame_ends_the_worker)
{
	static const struct {
		const char *bytes;
		size_t len;
	} t[] = {
		{"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 12},
		{"\x00\x00\x00\x00\x62\x00\x00\x00\x00\x00\x00\x00", 12}, /* a request */
		{"\x00\x00\x00\x00\x05\x00\x00\x00\x00\x00\x00\x00", 12}, /* of another lane */
		{"\xff\xff\xff\x7f\x70\x00\x00\x00\x00\x00\x00\x00", 12}, /* endless data */
		{"\x04\x00\x00\x00\x70\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00",
			16}, /* empty */
	};

	for (size_t i = 0; i < sizeof t / sizeof t[0]; i++) {
		plan((struct answer){.raw = t[i].bytes, .raw_len = t[i].len});
		refused(HOLT_EPROTOCOL, WIRE_OP_file_stat, &call);
		await_ended((int)i + 1);
	}
}
END_TEST

/* ---- failures ---- */

#define FAIL(class, err) \
	MSG(file_fail, .class_ = WIRE_FILE_FAIL_##class, .errnum = (err), .text = STR("\x1b[1m"))

static const struct {
	uint16_t op;
	struct wire_msg says;
	int code;
} failures[] = {
	{WIRE_OP_file_read, FAIL(ERRNO, ENOENT), HOLT_ENOT_FOUND},
	{WIRE_OP_file_read, FAIL(ERRNO, EACCES), HOLT_EDENIED},
	{WIRE_OP_file_list, FAIL(ERRNO, EACCES), HOLT_EDENIED},
	{WIRE_OP_file_read, FAIL(ERRNO, EISDIR), HOLT_EINVALID},
	{WIRE_OP_file_read, FAIL(ERRNO, ELOOP), HOLT_EINVALID},
	{WIRE_OP_file_mkdir, FAIL(ERRNO, EEXIST), HOLT_EEXISTS},
	{WIRE_OP_file_mkdir, FAIL(ERRNO, EXDEV), HOLT_EUNSUPPORTED},
	{WIRE_OP_file_mkdir, FAIL(ERRNO, EBUSY), HOLT_EINVALID},
	{WIRE_OP_file_mkdir, FAIL(ERRNO, ETXTBSY), HOLT_EINVALID},
	{WIRE_OP_file_mkdir, FAIL(ERRNO, EROFS), HOLT_EDENIED},
	{WIRE_OP_file_mkdir, FAIL(ERRNO, ENOSPC), HOLT_ELIMIT},
	{WIRE_OP_file_mkdir, FAIL(ERRNO, ENOMEM), HOLT_ELIMIT},
	{WIRE_OP_file_read, FAIL(ERRNO, EIO), HOLT_EIO},
	{WIRE_OP_file_read, FAIL(ERRNO, 4095), HOLT_EIO},
	{WIRE_OP_file_grep, FAIL(REQUEST, 0), HOLT_EINVALID},
	{WIRE_OP_file_grep, FAIL(PATTERN, 0), HOLT_EINVALID},
	{WIRE_OP_file_grep, FAIL(STEPS, 0), HOLT_ELIMIT},
	{WIRE_OP_file_grep, FAIL(TIME, 0), HOLT_ETIMEOUT},
	{WIRE_OP_file_grep, FAIL(LIMIT, 0), HOLT_ELIMIT},
	{WIRE_OP_file_write, FAIL(ABORTED, 0), HOLT_ECANCELLED},
	{WIRE_OP_file_read, FAIL(ERRNO, 0), HOLT_EPROTOCOL},
	{WIRE_OP_file_read, FAIL(ERRNO, 4096), HOLT_EPROTOCOL},
	{WIRE_OP_file_read, MSG(file_fail, .class_ = 7, .errnum = 1), HOLT_EPROTOCOL},
};

START_TEST(failures_are_typed_and_fit_for_a_terminal)
{
	for (size_t i = 0; i < sizeof failures / sizeof failures[0]; i++) {
		holt_error *e = NULL;
		char what[32];

		snprintf(what, sizeof what, "row %zu", i);
		plan((struct answer){.says = {failures[i].says}});
		/* A write is answered early, and hears of it once its content has ended. */
		const int r = ask(failures[i].op, &call, &e);
		ck_assert_ptr_null(strchr(holt_error_message(e), '\x1b'));
		if (failures[i].says.file_fail.class_ != WIRE_FILE_FAIL_ABORTED)
			ck_assert_str_ne(holt_error_hint(e), "");
		ck_assert_str_eq(holt_error_stage(e), wire_op_name(failures[i].op) + 5);
		check_fails(failures[i].code, r, e, what);
	}
	/* That a request fails is no reason to end a worker. */
	ck_assert_int_eq(load(&n_started), 1);
}
END_TEST

/* Slow enough for an answer to come before the end. */
static int slow_pieces(void *data, size_t size, size_t *ret_len, void *user)
{
	(void)nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
	return two_pieces(data, size, ret_len, user);
}

START_TEST(content_is_done_only_when_it_has_ended)
{
	holt_error *e = NULL;
	unsigned n = 0;

	plan((struct answer){.when = WIRE_OP_file_end, .says = {DONE}});
	ck_assert_int_eq(ask(WIRE_OP_file_write, &call, NULL), 0);
	plan((struct answer){.when = WIRE_OP_file_write, .says = {DONE}});
	const int r = box_backend.write(self, "p", 0, slow_pieces, &n, &call, &e);
	check_fails(HOLT_EPROTOCOL, r, e, "early");
	await_ended(1);
}
END_TEST

/* ---- ends ---- */

static const struct {
	const char *complains;
	struct wire_exit how;
	int code;
	const char *hint;
} deaths[] = {
	{NULL, {.kind = WIRE_SIGNALED, .code = SIGKILL, .flags = WIRE_EXIT_OOM}, HOLT_ELIMIT,
		"memory"},
	{NULL, {.kind = WIRE_SIGNALED, .code = SIGKILL}, HOLT_EIO, "again"},
	{"93\trequest\t2\tversion 2 only\n", {.code = 1}, HOLT_EUNSUPPORTED, "restart"},
	{"12\trequest\t\tno memory\n", {.code = 1}, HOLT_ELIMIT, "memory"},
	{"71\trequest\t\tbroken\n", {.code = 1}, HOLT_EPROTOCOL, "another"},
	{"\x1b\xff nonsense", {.code = 1}, HOLT_EPROTOCOL, "another"},
	{NULL, {.code = 0}, HOLT_EPROTOCOL, "another"},
};

START_TEST(a_worker_that_ends_says_why)
{
	for (size_t i = 0; i < sizeof deaths / sizeof deaths[0]; i++) {
		/* A fresh one, one with half an answer, and one that gets content. */
		static const uint16_t ops[] = {
			WIRE_OP_file_mkdir, WIRE_OP_file_read, WIRE_OP_file_write};

		for (int k = 0; k < 3; k++) {
			holt_error *e = NULL;
			char what[32];

			snprintf(what, sizeof what, "row %zu.%d", i, k);
			struct answer a = {.complains = deaths[i].complains,
				.ends = true,
				.how = deaths[i].how};
			if (k == 1)
				a.says[0] = (struct wire_msg)INFO;
			plan(a);
			const int r = ask(ops[k], &call, &e);
			ck_assert_msg(strstr(holt_error_hint(e), deaths[i].hint), "%s: %s", what,
				holt_error_hint(e));
			check_fails(deaths[i].code, r, e, what);
		}
	}
}
END_TEST

START_TEST(a_kept_worker_that_dies_is_replaced_once)
{
	plan((struct answer){.says = {INFO, DONE}});
	ck_assert_int_eq(ask(WIRE_OP_file_stat, &call, NULL), 0);
	plan((struct answer){.ends = true, .how = {.kind = WIRE_SIGNALED, .code = SIGKILL}});
	refused(HOLT_EIO, WIRE_OP_file_stat, &call);
	ck_assert_int_eq(load(&n_started), 2);
	plan((struct answer){.says = {INFO, DONE}});
	ck_assert_int_eq(ask(WIRE_OP_file_stat, &call, NULL), 0);
	ck_assert_int_eq(load(&n_started), 3);
	/* What may have been done is not done twice. */
	plan((struct answer){.ends = true, .how = {.kind = WIRE_SIGNALED, .code = SIGKILL}});
	refused(HOLT_EIO, WIRE_OP_file_mkdir, &call);
	ck_assert_int_eq(load(&n_started), 3);
}
END_TEST

START_TEST(an_agent_without_files_is_old)
{
	holt_error *e = NULL;

	plan((struct answer){.refusal = WIRE_FAIL_NOT_FOUND});
	ck_assert_int_eq(ask(WIRE_OP_file_stat, &call, &e), -HOLT_EUNSUPPORTED);
	ck_assert_ptr_nonnull(strstr(holt_error_hint(e), "restart the box"));
	holt_error_free(e);
	e = NULL;
	plan((struct answer){.refusal = WIRE_FAIL_PAUSED});
	ck_assert_int_eq(ask(WIRE_OP_file_stat, &call, &e), -HOLT_EBUSY);
	holt_error_free(e);
	e = NULL;
	plan((struct answer){.refusal = WIRE_FAIL_LIMIT});
	ck_assert_int_eq(ask(WIRE_OP_file_stat, &call, &e), -HOLT_ELIMIT);
	holt_error_free(e);
}
END_TEST

/* ---- many ---- */

static void *hang(void *arg)
{
	const holt_call c = {.timeout_ms = HOLT_FOREVER, .cancel = arg};
	holt_error *e = NULL;

	ck_assert_int_eq(ask(WIRE_OP_file_stat, &c, &e), -HOLT_ECANCELLED);
	holt_error_free(e);
	return NULL;
}

static void await_started(int n)
{
	const uint64_t until = clock_mono_ms() + 10000;

	while (load(&n_started) < n) {
		ck_assert_uint_lt(clock_mono_ms(), until);
		(void)nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
	}
}

START_TEST(no_more_than_64_calls_have_a_worker)
{
	const holt_call brief = {.timeout_ms = 100};
	pthread_t threads[FILES_BUSY_MAX + 2];
	holt_cancel *cancel = NULL;

	ck_assert_int_eq(cancel_new(&cancel, NULL), 0);
	plan((struct answer){.when = UINT16_MAX});
	for (int i = 0; i < FILES_BUSY_MAX; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, hang, cancel), 0);
	await_started(FILES_BUSY_MAX);
	refused(HOLT_ETIMEOUT, WIRE_OP_file_stat, &brief);
	/* These two wait for their turn, and are cancelled in that. */
	for (int i = FILES_BUSY_MAX; i < FILES_BUSY_MAX + 2; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, hang, cancel), 0);
	(void)nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
	cancel_trigger(cancel);
	for (int i = 0; i < FILES_BUSY_MAX + 2; i++)
		ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
	cancel_free(cancel);
	await_ended(FILES_BUSY_MAX);
	plan((struct answer){.says = {INFO, DONE}});
	ck_assert_int_eq(ask(WIRE_OP_file_stat, &call, NULL), 0);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {nothing_comes_through_that_was_not_asked_for,
		what_is_no_frame_ends_the_worker, failures_are_typed_and_fit_for_a_terminal,
		content_is_done_only_when_it_has_ended, a_worker_that_ends_says_why,
		a_kept_worker_that_dies_is_replaced_once, an_agent_without_files_is_old,
		no_more_than_64_calls_have_a_worker};
	Suite *s = suite_create("file worker");
	TCase *c = tcase_create("file worker");

	tcase_add_checked_fixture(c, begin, end);
	tcase_set_timeout(c, 60);
	for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++)
		tcase_add_test(c, tests[i]);
	suite_add_tcase(s, c);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	const int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
