/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BACKEND_FIXTURE_H
#define BACKEND_FIXTURE_H

/*
 * A box of the fake engine as a backend, for each test one. The agent works on this host's files
 * here, so all paths lie in a directory of the test's. The program that includes this is no library
 * beside which a kernel would be looked for: KERNEL_DIR names one.
 */
#include "boxes_fixture.h"

#include "box/box_backend.h"

static char work[96]; /* the directory that the test's paths lie in */
static holt_box *box;
static void *self;
static const holt_call forever = {.timeout_ms = HOLT_FOREVER};
static const holt_call soon = {.timeout_ms = 20000};

static inline void begin(void)
{
	setup();
	snprintf(work, sizeof work, "%s/work", home_dir);
	/* A test that has failed may have left it. */
	(void)!fs_remove_tree(AT_FDCWD, work);
	ck_assert_int_eq(mkdir(work, 0755), 0);
	box = make(NULL, 0, NULL);
	start_box(box, 0);
	ok(box_backend_new(box, NULL, work, &self, E));
}

static inline void end(void)
{
	box_backend.close(self);
	holt_box_close(box);
	ck_assert_int_eq(fs_remove_tree(AT_FDCWD, work), 0);
	teardown();
}

/* A path in the directory; good for eight more calls. */
static inline const char *in(const char *name)
{
	static _Thread_local char paths[8][256];
	static _Thread_local unsigned next;
	char *path = paths[next++ % 8];

	snprintf(path, sizeof paths[0], "%s/%s", work, name);
	return path;
}

/* ---- content ---- */

struct text {
	const char *data;
	size_t left;
};

static inline int from_text(void *data, size_t size, size_t *ret_len, void *user)
{
	struct text *t = user;
	const size_t n = t->left < size ? t->left : size;

	memcpy(data, t->data, n);
	t->data += n;
	t->left -= n;
	*ret_len = n;
	return 0;
}

static inline int put(const char *path, const char *text, uint32_t flags, holt_error **reterr)
{
	struct text t = {text, strlen(text)};

	return box_backend.write(self, path, flags, from_text, &t, &soon, reterr);
}

struct sink {
	char data[4096];
	size_t len;
};

static inline int to_sink(const void *data, size_t len, void *user)
{
	struct sink *s = user;

	ck_assert_uint_gt(len, 0);
	ck_assert_uint_lt(s->len + len, sizeof s->data);
	memcpy(s->data + s->len, data, len);
	s->len += len;
	s->data[s->len] = 0;
	return 0;
}

static inline void check_text(const char *path, const char *want)
{
	struct sink s = {.len = 0};
	const holt_backend_read all = {.first_line = 0};

	ok(box_backend.read(self, path, &all, to_sink, &s, &soon, E));
	ck_assert_str_eq(s.data, want);
}

static inline int to_nowhere(const void *data, size_t len, void *user)
{
	(void)data;
	if (user)
		*(size_t *)user += len;
	return 0;
}

/* ---- results of searches ---- */

struct found {
	char text[4096];
	unsigned n;
	unsigned stop_at; /* 0: never */
};

static inline int to_found(const holt_entry *e, void *user)
{
	struct found *f = user;
	const size_t len = strlen(f->text);

	snprintf(f->text + len, sizeof f->text - len, "%.*s%s\n", (int)e->path_len, e->path,
		e->type == HOLT_FILE_DIRECTORY ? "/" : "");
	return ++f->n == f->stop_at;
}

static inline int to_matches(const holt_match *m, void *user)
{
	struct found *f = user;
	const size_t len = strlen(f->text);

	snprintf(f->text + len, sizeof f->text - len, "%.*s:%llu:%.*s\n", (int)m->path_len, m->path,
		(unsigned long long)m->line_number, (int)m->line_len, m->line);
	return ++f->n == f->stop_at;
}

/* ---- commands ---- */

struct output {
	char text[3][256]; /* by stream */
	size_t total;
	size_t stop_at; /* 0: never */
};

static inline int to_output(int stream, const void *data, size_t len, void *user)
{
	struct output *o = user;
	const size_t have = strlen(o->text[stream]);

	if (have + len < sizeof o->text[0])
		memcpy(o->text[stream] + have, data, len);
	o->total += len;
	return o->stop_at && o->total >= o->stop_at;
}

static inline int command(const char *script, const holt_call *call, uint64_t timeout_ms,
	struct output *o, holt_exit *ret, holt_error **reterr)
{
	const char *const argv[] = {"/bin/sh", "-c", script, NULL};
	const char *const env[] = {"WORD=value", NULL};
	const holt_backend_command c = {
		.argv = argv, .env = env, .timeout_ms = timeout_ms, .output = to_output, .user = o};

	return box_backend.execute(self, &c, call, ret, reterr);
}

static inline int run_backend_tests(const char *name, const TTest *const *tests, size_t n)
{
	if (access(KERNEL_DIR, F_OK) == 0)
		setenv("HOLT_KERNEL", KERNEL_DIR, 0);
	return run_tests_in(name, begin, end, tests, n);
}

#endif
