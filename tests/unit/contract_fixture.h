/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CONTRACT_FIXTURE_H
#define CONTRACT_FIXTURE_H

/*
 * A backend that notes what it is asked for and answers as the test says. One thread at a time uses
 * the notes; tests with threads look at atomic counters only.
 */

#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "holt/files.h"
#include "holt/sandbox.h"
#include "holt/search.h"
#include "holt/sys/backend.h"

#include "base/cancel.h"
#include "base/clock.h"
#include "base/mem.h"

#define ANSWERS 4

/* Pieces of output, data, entries or lines, in order; an empty list ends with NULL. */
struct piece {
	int stream; /* also the number of a line, or the type of an entry */
	const char *data;
	size_t len;
	const char *path;
};

struct answer {
	int code; /* 0, or a positive one, with the next four */
	int errnum;
	const char *message;
	const char *stage;
	const char *object;
	holt_exit exit;
	const struct piece *pieces;
	size_t n_pieces;
	uint32_t truncated;
	bool deaf; /* takes no notice of what a function returns */
	bool mute; /* fails without an error object */
};

static struct stub {
	atomic_int calls;
	atomic_int blocked; /* calls that wait for their token now */
	atomic_bool block; /* do so */
	atomic_int closed;
	char op[16];
	char path[70000];
	char to[256];
	char argv[3][256];
	char env[16][256];
	int n_env; /* -1: NULL */
	uint32_t flags;
	uint64_t timeout_ms; /* of the command */
	holt_call call;
	holt_backend_read read;
	holt_backend_search search;
	uint64_t max_bytes;
	char written[4096];
	size_t n_written;
	struct answer answers[ANSWERS]; /* to one call after the other; the last one stays */
	int n_answers;
	int at;
} stub;

static const struct answer *stub_enter(const char *op, const char *path, const holt_call *call)
{
	static const struct answer fine;
	const struct answer *a = &fine;

	atomic_fetch_add(&stub.calls, 1);
	(void)snprintf(stub.op, sizeof stub.op, "%s", op);
	(void)snprintf(stub.path, sizeof stub.path, "%s", path);
	stub.call = *call;
	if (stub.n_answers)
		a = &stub.answers[stub.at < stub.n_answers - 1 ? stub.at++ : stub.n_answers - 1];
	return a;
}

static int stub_leave(const struct answer *a, int stopped, holt_error **reterr)
{
	if (stopped && !a->deaf)
		return holt_error_set(reterr, HOLT_ECANCELLED, 0, "stub", NULL, "stopped");
	if (!a->code || a->mute)
		return -a->code;
	return holt_error_set(reterr, a->code, a->errnum, a->stage, a->object, a->message);
}

static int stub_wait(const holt_call *call, holt_error **reterr)
{
	const struct timespec nap = {.tv_nsec = 1000000};

	atomic_fetch_add(&stub.calls, 1);
	atomic_fetch_add(&stub.blocked, 1);
	while (!cancel_fired(call->cancel))
		(void)nanosleep(&nap, NULL);
	atomic_fetch_sub(&stub.blocked, 1);
	return holt_error_set(reterr, HOLT_ECANCELLED, 0, NULL, NULL, "cancelled");
}

static int stub_pieces(const struct answer *a, holt_output_fn output, holt_data_fn data, void *user)
{
	int r = 0;

	for (size_t i = 0; (r == 0 || a->deaf) && i < a->n_pieces; i++) {
		const struct piece *p = &a->pieces[i];

		r |= output ? output(p->stream, p->data, p->len, user)
			    : data(p->data, p->len, user);
	}
	return r;
}

static int stub_execute(void *self, const holt_backend_command *c, const holt_call *call,
	holt_exit *ret, holt_error **reterr)
{
	(void)self;
	if (atomic_load(&stub.block))
		return stub_wait(call, reterr);
	const struct answer *a = stub_enter("execute", "", call);
	for (int i = 0; i < 3; i++)
		(void)snprintf(stub.argv[i], sizeof stub.argv[i], "%s", c->argv[i]);
	ck_assert_ptr_null(c->argv[3]);
	stub.n_env = c->env ? 0 : -1;
	for (size_t i = 0; c->env && c->env[i]; i++)
		(void)snprintf(stub.env[stub.n_env++], sizeof stub.env[0], "%s", c->env[i]);
	stub.timeout_ms = c->timeout_ms;
	const int stopped = stub_pieces(a, c->output, NULL, c->user);
	*ret = a->exit;
	return stub_leave(a, stopped, reterr);
}

static int stub_read(void *self, const char *path, const holt_backend_read *what, holt_data_fn data,
	void *user, const holt_call *call, holt_error **reterr)
{
	(void)self;
	if (atomic_load(&stub.block))
		return stub_wait(call, reterr);
	const struct answer *a = stub_enter("read", path, call);
	stub.read = *what;
	return stub_leave(a, stub_pieces(a, NULL, data, user), reterr);
}

static int stub_download(void *self, const char *path, uint64_t max_bytes, holt_data_fn data,
	void *user, const holt_call *call, holt_error **reterr)
{
	const struct answer *a = stub_enter("download", path, call);

	(void)self;
	stub.max_bytes = max_bytes;
	return stub_leave(a, stub_pieces(a, NULL, data, user), reterr);
}

static int stub_take(const char *op, const char *path, uint32_t flags, holt_source_fn source,
	void *user, const holt_call *call, holt_error **reterr)
{
	const struct answer *a = stub_enter(op, path, call);
	size_t len = 1;
	int r = 0;

	stub.flags = flags;
	stub.n_written = 0;
	while (r == 0 && len > 0) {
		len = 0;
		/* Small steps, so that there are several. */
		r = source(stub.written + stub.n_written, 7, &len, user);
		stub.n_written += r ? 0 : len;
	}
	return stub_leave(a, r, reterr);
}

static int stub_write(void *self, const char *path, uint32_t flags, holt_source_fn source,
	void *user, const holt_call *call, holt_error **reterr)
{
	(void)self;
	return stub_take("write", path, flags, source, user, call, reterr);
}

static int stub_append(void *self, const char *path, uint32_t flags, holt_source_fn source,
	void *user, const holt_call *call, holt_error **reterr)
{
	(void)self;
	return stub_take("append", path, flags, source, user, call, reterr);
}

static int stub_update(void *self, const char *path, uint32_t flags, holt_source_fn source,
	void *user, const holt_call *call, holt_error **reterr)
{
	(void)self;
	return stub_take("update", path, flags, source, user, call, reterr);
}

static int stub_search(const char *op, const holt_backend_search *what, holt_entry_fn entry,
	holt_match_fn match, void *user, const holt_call *call, holt_search_result *ret,
	holt_error **reterr)
{
	const struct answer *a = stub_enter(op, what->root, call);
	int r = 0;

	stub.search = *what;
	for (size_t i = 0; (r == 0 || a->deaf) && i < a->n_pieces; i++) {
		const struct piece *p = &a->pieces[i];
		const holt_entry e = {p->path, strlen(p->path), p->stream};
		const holt_match m = {
			p->path, strlen(p->path), (uint64_t)p->stream, p->data, p->len};

		r |= entry ? entry(&e, user) : match(&m, user);
	}
	ret->truncated = a->truncated;
	ret->searched = 7;
	ret->skipped = 2;
	return stub_leave(a, r, reterr);
}

static int stub_list(void *self, const holt_backend_search *what, holt_entry_fn entry, void *user,
	const holt_call *call, holt_search_result *ret, holt_error **reterr)
{
	(void)self;
	return stub_search("list", what, entry, NULL, user, call, ret, reterr);
}

static int stub_glob(void *self, const holt_backend_search *what, holt_entry_fn entry, void *user,
	const holt_call *call, holt_search_result *ret, holt_error **reterr)
{
	(void)self;
	return stub_search("glob", what, entry, NULL, user, call, ret, reterr);
}

static int stub_grep(void *self, const holt_backend_search *what, holt_match_fn match, void *user,
	const holt_call *call, holt_search_result *ret, holt_error **reterr)
{
	(void)self;
	return stub_search("grep", what, NULL, match, user, call, ret, reterr);
}

static int stub_stat(void *self, const char *path, uint32_t flags, const holt_call *call,
	holt_file_info *ret, holt_error **reterr)
{
	const struct answer *a = stub_enter("stat", path, call);

	(void)self;
	stub.flags = flags;
	ret->size_bytes = 42;
	return stub_leave(a, 0, reterr);
}

static int stub_simple(const char *op, const char *path, uint32_t flags, const holt_call *call,
	holt_error **reterr)
{
	const struct answer *a = stub_enter(op, path, call);

	stub.flags = flags;
	return stub_leave(a, 0, reterr);
}

static int stub_make_directory(
	void *self, const char *path, uint32_t flags, const holt_call *call, holt_error **reterr)
{
	(void)self;
	return stub_simple("mkdir", path, flags, call, reterr);
}

static int stub_move(void *self, const char *from, const char *to, uint32_t flags,
	const holt_call *call, holt_error **reterr)
{
	(void)self;
	(void)snprintf(stub.to, sizeof stub.to, "%s", to);
	return stub_simple("move", from, flags, call, reterr);
}

static int stub_remove(
	void *self, const char *path, uint32_t flags, const holt_call *call, holt_error **reterr)
{
	(void)self;
	return stub_simple("remove", path, flags, call, reterr);
}

static void stub_close(void *self)
{
	ck_assert_ptr_eq(self, &stub);
	atomic_fetch_add(&stub.closed, 1);
}

static const holt_backend stub_backend = {
	.struct_size = sizeof(holt_backend),
	.name = "stub",
	.execute = stub_execute,
	.read = stub_read,
	.write = stub_write,
	.append = stub_append,
	.update = stub_update,
	.download = stub_download,
	.list = stub_list,
	.stat = stub_stat,
	.make_directory = stub_make_directory,
	.move = stub_move,
	.remove = stub_remove,
	.glob = stub_glob,
	.grep = stub_grep,
	.close = stub_close,
};

static holt_sandbox *sandbox;
static atomic_int told; /* calls of terminal */
static char told_message[256];

static void on_terminal(const char *id, const holt_error *error, void *user)
{
	ck_assert_ptr_eq(user, &told);
	ck_assert_str_eq(id, "box-id");
	/* Others may be told apart only by the first. */
	if (atomic_fetch_add(&told, 1) == 0)
		(void)snprintf(told_message, sizeof told_message, "%s", holt_error_message(error));
}

static void stub_open(const holt_sandbox_options *more)
{
	holt_sandbox_options o = HOLT_SANDBOX_OPTIONS_INIT;

	if (more)
		o = *more;
	o.id = "box-id";
	o.terminal = on_terminal;
	o.terminal_user = &told;
	memset(&stub, 0, sizeof stub);
	atomic_store(&told, 0);
	told_message[0] = '\0';
	ck_assert_int_eq(holt_sandbox_open_backend(&stub_backend, &stub, &o, &sandbox, NULL), 0);
}

static void setup(void)
{
	stub_open(NULL);
}

static void teardown(void)
{
	holt_sandbox_free(sandbox);
	ck_assert_int_eq(atomic_load(&stub.closed), 1);
	sandbox = NULL;
}

/* The next call, and all after it, end so. */
static void answer(const struct answer *a)
{
	stub.answers[0] = *a;
	stub.n_answers = 1;
	stub.at = 0;
}

static void answer_error(int code, const char *message)
{
	answer(&(struct answer){.code = code, .message = message});
}

/* A call has failed so. */
static void check_error(int r, holt_error **error, int code, const char *message)
{
	ck_assert_int_eq(r, -code);
	ck_assert_int_eq(holt_error_code(*error), code);
	if (!strstr(holt_error_message(*error), message))
		ck_abort_msg("'%s' is not in '%s'", message, holt_error_message(*error));
	ck_assert_str_ne(holt_error_stage(*error), "");
	holt_error_free(*error);
	*error = NULL;
}

static int run_suite(Suite *s)
{
	SRunner *r = srunner_create(s);

	srunner_run_all(r, CK_ENV);
	const int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? 1 : 0;
}

#endif
