/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A box as a backend of the sandbox contract, over the fake engine: the table of operations, its
 * file workers and what becomes of them. The agent works on this host's files here, so all paths
 * lie in a directory of the test's. What a lying guest can do is in test_file_worker.c.
 */
#include "boxes_fixture.h"

#include "box/box_backend.h"
#include "box/box_files.h"

#define THREADS 8
#define ROUNDS  10
/* What a call may take of this process's memory, however much it moves. */
#define STREAM_KIB_MAX 8192

static char work[96]; /* the directory that the test's paths lie in */
static holt_box *box;
static void *self;
static const holt_call forever = {.timeout_ms = HOLT_FOREVER};
static const holt_call soon = {.timeout_ms = 20000};

static void begin(void)
{
	setup();
	snprintf(work, sizeof work, "%s/work", home_dir);
	/* A test that has failed may have left it. */
	(void)fs_remove_tree(AT_FDCWD, work);
	ck_assert_int_eq(mkdir(work, 0755), 0);
	box = make(NULL, 0, NULL);
	start_box(box, 0);
	ok(box_backend_new(box, NULL, work, &self, E));
}

static void end(void)
{
	box_backend.close(self);
	holt_box_close(box);
	ck_assert_int_eq(fs_remove_tree(AT_FDCWD, work), 0);
	teardown();
}

/* A path in the directory; good for eight more calls. */
static const char *in(const char *name)
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

static int from_text(void *data, size_t size, size_t *ret_len, void *user)
{
	struct text *t = user;
	const size_t n = t->left < size ? t->left : size;

	memcpy(data, t->data, n);
	t->data += n;
	t->left -= n;
	*ret_len = n;
	return 0;
}

static int put(const char *path, const char *text, uint32_t flags, holt_error **reterr)
{
	struct text t = {text, strlen(text)};

	return box_backend.write(self, path, flags, from_text, &t, &soon, reterr);
}

struct sink {
	char data[4096];
	size_t len;
};

static int to_sink(const void *data, size_t len, void *user)
{
	struct sink *s = user;

	ck_assert_uint_gt(len, 0);
	ck_assert_uint_lt(s->len + len, sizeof s->data);
	memcpy(s->data + s->len, data, len);
	s->len += len;
	s->data[s->len] = 0;
	return 0;
}

static void check_text(const char *path, const char *want)
{
	struct sink s = {.len = 0};
	const holt_backend_read all = {.first_line = 0};

	ok(box_backend.read(self, path, &all, to_sink, &s, &soon, E));
	ck_assert_str_eq(s.data, want);
}

static int to_nowhere(const void *data, size_t len, void *user)
{
	(void)data;
	if (user)
		*(size_t *)user += len;
	return 0;
}

START_TEST(content_goes_round)
{
	struct sink s = {.len = 0};
	struct text more = {"four\n", 5};
	struct text bytes = {"\xff", 1};
	const holt_backend_read lines = {.first_line = 2, .last_line = 3};

	ok(put(in("a"), "one\ntwo\nthree\n", 0, E));
	check_text(in("a"), "one\ntwo\nthree\n");
	ok(box_backend.append(self, in("a"), 0, from_text, &more, &soon, E));
	ok(box_backend.read(self, in("a"), &lines, to_sink, &s, &soon, E));
	ck_assert_str_eq(s.data, "two\nthree\n");
	ok(box_backend.update(self, in("b/c/d"), HOLT_WRITE_PARENTS, from_text, &bytes, &soon, E));
	s.len = 0;
	ok(box_backend.download(self, in("b/c/d"), 1, to_sink, &s, &soon, E));
	ck_assert_str_eq(s.data, "\xff");
	/* Relative paths begin at the sandbox's directory; nothing is a content, too. */
	ok(put("e", "", 0, E));
	check_text(in("e"), "");
}
END_TEST

START_TEST(names_are_made_moved_removed)
{
	holt_file_info info = HOLT_FILE_INFO_INIT;

	ok(box_backend.make_directory(self, in("d/e"), HOLT_MKDIR_PARENTS, &soon, E));
	ok(box_backend.make_directory(self, in("d/e"), HOLT_MKDIR_PARENTS, &soon, E));
	fails(HOLT_EEXISTS, box_backend.make_directory(self, in("d"), 0, &soon, E));
	ok(put(in("d/f"), "12345", 0, E));
	ok(box_backend.stat(self, in("d/f"), 0, &soon, &info, E));
	ck_assert_int_eq(info.type, HOLT_FILE_REGULAR);
	ck_assert_uint_eq(info.size_bytes, 5);
	ck_assert_uint_eq(info.mode, 0644);
	ck_assert_uint_eq(info.uid, geteuid());
	ck_assert_int_gt(info.mtime_ns, 1700000000000000000);
	ok(box_backend.move(self, in("d/f"), in("g"), 0, &soon, E));
	ck_assert_int_eq(symlink("g", in("link")), 0);
	ok(box_backend.stat(self, in("link"), 0, &soon, &info, E));
	ck_assert_int_eq(info.type, HOLT_FILE_REGULAR);
	ok(box_backend.stat(self, in("link"), HOLT_STAT_NOFOLLOW, &soon, &info, E));
	ck_assert_int_eq(info.type, HOLT_FILE_SYMLINK);
	fails(HOLT_EEXISTS,
		box_backend.move(self, in("g"), in("link"), HOLT_MOVE_NOREPLACE, &soon, E));
	fails(HOLT_EINVALID, box_backend.remove(self, in("d"), 0, &soon, E));
	ok(box_backend.remove(self, in("d"), HOLT_REMOVE_RECURSIVE, &soon, E));
	fails(HOLT_ENOT_FOUND, box_backend.remove(self, in("d"), 0, &soon, E));
	ok(box_backend.remove(self, in("d"), HOLT_REMOVE_FORCE, &soon, E));
}
END_TEST

/* ---- searching ---- */

struct found {
	char text[4096];
	unsigned n;
	unsigned stop_at; /* 0: never */
};

static int to_found(const holt_entry *e, void *user)
{
	struct found *f = user;
	const size_t len = strlen(f->text);

	snprintf(f->text + len, sizeof f->text - len, "%.*s%s\n", (int)e->path_len, e->path,
		e->type == HOLT_FILE_DIRECTORY ? "/" : "");
	return ++f->n == f->stop_at;
}

static int to_matches(const holt_match *m, void *user)
{
	struct found *f = user;
	const size_t len = strlen(f->text);

	snprintf(f->text + len, sizeof f->text - len, "%.*s:%llu:%.*s\n", (int)m->path_len, m->path,
		(unsigned long long)m->line_number, (int)m->line_len, m->line);
	return ++f->n == f->stop_at;
}

static const char *const ignore[] = {".git", "*.log", NULL};

START_TEST(searches_find_what_is_there)
{
	holt_backend_search what = {.root = work,
		.ignore = ignore,
		.max_results = 10,
		.max_depth = 1,
		.line_bytes = 10};
	holt_search_result result = HOLT_SEARCH_RESULT_INIT;
	struct found f = {.n = 0};

	ok(put(in("src/a.c"), "int one;\nINT two three four;\n", HOLT_WRITE_PARENTS, E));
	ok(put(in("src/x.log"), "int\n", 0, E));
	ok(put(in(".git/y.c"), "int\n", HOLT_WRITE_PARENTS, E));
	ok(box_backend.list(self, &what, to_found, &f, &soon, &result, E));
	ck_assert_str_eq(f.text, "/\nsrc/\n");
	ck_assert_uint_eq(result.count, 2);
	ck_assert_uint_eq(result.truncated, 0);
	what.max_results = 1;
	f = (struct found){.n = 0};
	ok(box_backend.list(self, &what, to_found, &f, &soon, &result, E));
	ck_assert_str_eq(f.text, "/\n");
	ck_assert_uint_eq(result.truncated, 1);
	what.max_results = 0;
	ok(box_backend.list(self, &what, to_found, &f, &soon, &result, E));
	ck_assert_uint_eq(result.count, 0);
	ck_assert_uint_eq(result.truncated, 1);

	what.max_results = 10;
	what.pattern = "*.c";
	f = (struct found){.n = 0};
	ok(box_backend.glob(self, &what, to_found, &f, &soon, &result, E));
	ck_assert_str_eq(f.text, "src/a.c\n");
	what.pattern = "s*";
	what.flags = HOLT_GLOB_DIRECTORIES;
	f = (struct found){.n = 0};
	ok(box_backend.glob(self, &what, to_found, &f, &soon, NULL, E));
	ck_assert_str_eq(f.text, "src/\n");

	what.pattern = "^int ";
	what.flags = 0;
	f = (struct found){.n = 0};
	ok(box_backend.grep(self, &what, to_matches, &f, &soon, &result, E));
	ck_assert_str_eq(f.text, "src/a.c:1:int one;\nsrc/a.c:2:INT two th\n");
	ck_assert_uint_eq(result.searched, 1);
	what.root = in("src/a.c");
	what.pattern = "^";
	what.flags = HOLT_GREP_LITERAL;
	f = (struct found){.n = 0};
	ok(box_backend.grep(self, &what, to_matches, &f, &soon, &result, E));
	ck_assert_str_eq(f.text, "");
	what.pattern = "INT";
	what.flags = HOLT_GREP_LITERAL | HOLT_GREP_CASE_SENSITIVE;
	ok(box_backend.grep(self, &what, to_matches, &f, &soon, &result, E));
	ck_assert_str_eq(f.text, ":2:INT two th\n");
}
END_TEST

START_TEST(failures_are_typed)
{
	const holt_backend_read all = {.max_bytes = 3};
	holt_backend_search what = {
		.root = work, .max_results = 10, .pattern = "(", .max_depth = 1};
	struct text t = {"x", 1};
	holt_file_info info = HOLT_FILE_INFO_INIT;
	holt_error *e = NULL;
	char *longer = malloc(70000);

	ok(put(in("a"), "four", 0, E));
	ck_assert_int_eq(box_backend.read(self, in("no\nne"), &all, to_nowhere, NULL, &soon, &e),
		-HOLT_ENOT_FOUND);
	ck_assert_int_eq(holt_error_errno(e), ENOENT);
	ck_assert_str_eq(holt_error_stage(e), "read");
	/* What comes from a guest does not reach a terminal as it is. */
	ck_assert_ptr_nonnull(strstr(holt_error_object(e), "no\\x0ane"));
	ck_assert_ptr_null(strchr(holt_error_message(e), '\n'));
	ck_assert_str_ne(holt_error_hint(e), "");
	holt_error_free(e);
	e = NULL;
	ck_assert_int_eq(
		box_backend.read(self, in("a"), &all, to_nowhere, NULL, &soon, &e), -HOLT_ELIMIT);
	ck_assert_int_eq(holt_error_errno(e), EFBIG);
	holt_error_free(e);
	fails(HOLT_EINVALID, box_backend.read(self, work, &all, to_nowhere, NULL, &soon, E));
	fails(HOLT_EINVALID, box_backend.stat(self, in("a/b"), 0, &soon, &info, E));
	fails(HOLT_EINVALID, box_backend.grep(self, &what, to_matches, &what, &soon, NULL, E));
	what.root = in("none");
	fails(HOLT_ENOT_FOUND, box_backend.list(self, &what, to_found, &what, &soon, NULL, E));
	fails(HOLT_EEXISTS,
		box_backend.write(self, in("a"), HOLT_WRITE_EXCLUSIVE, from_text, &t, &soon, E));
	check_text(in("a"), "four");
	/* Refused here, since no message holds them. */
	memset(longer, 'x', 69999);
	longer[69999] = 0;
	fails(HOLT_EINVALID, box_backend.stat(self, longer, 0, &soon, &info, E));
	fails(HOLT_EINVALID, box_backend.stat(self, "", 0, &soon, &info, E));
	fails(HOLT_EINVALID, box_backend.move(self, in("a"), longer, 0, &soon, E));
	free(longer);
}
END_TEST

START_TEST(a_search_ends_with_whoever_wants_no_more)
{
	const holt_backend_search what = {.root = work, .max_results = 10, .max_depth = 3};
	struct found f = {.stop_at = 1};

	fails(HOLT_ECANCELLED, box_backend.list(self, &what, to_found, &f, &soon, NULL, E));
	ck_assert_uint_eq(f.n, 1);
	ok(put(in("a"), "x", 0, E));
}
END_TEST

/* ---- commands ---- */

struct output {
	char text[3][256]; /* by stream */
	size_t total;
	size_t stop_at; /* 0: never */
};

static int to_output(int stream, const void *data, size_t len, void *user)
{
	struct output *o = user;
	const size_t have = strlen(o->text[stream]);

	if (have + len < sizeof o->text[0])
		memcpy(o->text[stream] + have, data, len);
	o->total += len;
	return o->stop_at && o->total >= o->stop_at;
}

static int command(const char *script, const holt_call *call, uint64_t timeout_ms, struct output *o,
	holt_exit *ret, holt_error **reterr)
{
	const char *const argv[] = {"/bin/sh", "-c", script, NULL};
	const char *const env[] = {"WORD=value", NULL};
	const holt_backend_command c = {
		.argv = argv, .env = env, .timeout_ms = timeout_ms, .output = to_output, .user = o};

	return box_backend.execute(self, &c, call, ret, reterr);
}

START_TEST(commands_have_surroundings_and_an_end)
{
	struct output o = {.total = 0};
	holt_exit result = HOLT_EXIT_INIT;
	char want[256];

	ok(command("echo $WORD; pwd; echo err >&2; cat; exit 7", &forever, HOLT_FOREVER, &o,
		&result, E));
	snprintf(want, sizeof want, "value\n%s\n", work);
	ck_assert_str_eq(o.text[HOLT_STDOUT], want);
	ck_assert_str_eq(o.text[HOLT_STDERR], "err\n");
	ck_assert_int_eq(result.code, 7);
	o = (struct output){.total = 0};
	ok(command("head -c 3000000 /dev/zero; head -c 3000000 /dev/zero >&2; kill -9 $$", &soon,
		HOLT_FOREVER, &o, &result, E));
	ck_assert_uint_eq(o.total, 6000000);
	ck_assert_int_eq(result.code, 137);
	ck_assert_int_eq(result.signal, SIGKILL);
}
END_TEST

START_TEST(a_command_ends_in_time)
{
	struct output o = {.total = 0};
	holt_exit result = HOLT_EXIT_INIT;
	const holt_call brief = {.timeout_ms = 300};
	uint64_t before = clock_mono_ms();

	ok(command("echo part; sleep 100 & sleep 100", &forever, 300, &o, &result, E));
	ck_assert_int_eq(result.code, 124);
	ck_assert_uint_eq(result.flags, HOLT_EXIT_TIMED_OUT);
	ck_assert_str_eq(o.text[HOLT_STDOUT], "part\n");
	ck_assert_uint_lt(clock_mono_ms() - before, 3000);
	before = clock_mono_ms();
	fails(HOLT_ETIMEOUT, command("sleep 100", &brief, HOLT_FOREVER, &o, &result, E));
	/* Also with something to do all the time. */
	fails(HOLT_ETIMEOUT, command("yes", &brief, HOLT_FOREVER, &o, &result, E));
	ck_assert_uint_lt(clock_mono_ms() - before, 5000);
	o.stop_at = o.total + 100000;
	fails(HOLT_ECANCELLED, command("yes", &forever, HOLT_FOREVER, &o, &result, E));
	ok(command("true", &soon, HOLT_FOREVER, &o, &result, E));
}
END_TEST

START_TEST(a_command_that_cannot_start_is_typed)
{
	static const char *const missing[] = {"/no/such/program", NULL};
	static const char *const directory[] = {"/etc", NULL};
	holt_backend_command c = {.argv = missing, .output = to_output};
	holt_exit result = HOLT_EXIT_INIT;
	void *other = NULL;

	c.timeout_ms = HOLT_FOREVER;
	fails(HOLT_ENOT_FOUND, box_backend.execute(self, &c, &soon, &result, E));
	c.argv = directory;
	fails(HOLT_EDENIED, box_backend.execute(self, &c, &soon, &result, E));
	/* The caller's own directory is not made for commands; for files it is. */
	ok(box_backend_new(box, NULL, in("new"), &other, E));
	c.argv = (const char *const[]){"/bin/true", NULL};
	fails(HOLT_EINVALID, box_backend.execute(other, &c, &soon, &result, E));
	holt_file_info info = HOLT_FILE_INFO_INIT;
	ok(box_backend.stat(other, ".", 0, &soon, &info, E));
	ok(box_backend.execute(other, &c, &soon, &result, E));
	box_backend.close(other);
	ok(box_backend_new(box, "no-such-user", NULL, &other, E));
	fails(HOLT_EINVALID, box_backend.stat(other, "/", 0, &soon, &info, E));
	box_backend.close(other);
}
END_TEST

/* ---- workers ---- */

/* The children of the box's agent: its workers, where no command runs. Returns their number. */
static unsigned workers(int *ret, unsigned cap)
{
	const int agent = info_of(box).vmm_pid;
	DIR *d = opendir("/proc");
	unsigned n = 0;

	ck_assert_ptr_nonnull(d);
	for (struct dirent *e; (e = readdir(d));) {
		char path[300], state = 'X';
		int parent = 0;

		snprintf(path, sizeof path, "/proc/%s/stat", e->d_name);
		FILE *f = e->d_name[0] >= '0' && e->d_name[0] <= '9' ? fopen(path, "re") : NULL;
		if (!f)
			continue;
		if (fscanf(f, "%*d (%*[^)]) %c %d", &state, &parent) == 2 && parent == agent &&
			state != 'Z' && n < cap)
			ret[n++] = atoi(e->d_name);
		(void)fclose(f);
	}
	closedir(d);
	return n;
}

/* Until there are at most @most. */
static unsigned await_workers(int *ret, unsigned most)
{
	const uint64_t until = clock_mono_ms() + 10000;
	unsigned n = workers(ret, 64);

	for (; n > most; n = workers(ret, 64)) {
		ck_assert_uint_lt(clock_mono_ms(), until);
		nap_ms(5);
	}
	return n;
}

static int the_worker(void)
{
	int pids[64];

	ck_assert_uint_eq(await_workers(pids, 1), 1);
	return pids[0];
}

static int look(const holt_call *call, holt_error **reterr)
{
	holt_file_info info = HOLT_FILE_INFO_INIT;

	return box_backend.stat(self, work, 0, call, &info, reterr);
}

START_TEST(one_worker_does_all_that_is_asked_in_turn)
{
	const holt_backend_read all = {.first_line = 0};
	struct found f = {.stop_at = 1};
	holt_backend_search what = {.root = work, .max_results = 10, .max_depth = 1};
	int pids[64];

	ck_assert_uint_eq(workers(pids, 64), 0);
	ok(look(&soon, E));
	const int first = the_worker();
	ok(put(in("a"), "x", 0, E));
	/* A failure that the worker tells is no reason to end it, */
	fails(HOLT_ENOT_FOUND,
		box_backend.read(self, in("none"), &all, to_nowhere, NULL, &soon, E));
	ck_assert_int_eq(the_worker(), first);
	/* an answer that nobody hears out is. */
	fails(HOLT_ECANCELLED, box_backend.list(self, &what, to_found, &f, &soon, NULL, E));
	ck_assert_uint_eq(await_workers(pids, 0), 0);
	ok(look(&soon, E));
	ck_assert_int_ne(the_worker(), first);
}
END_TEST

static int gives_up(void *data, size_t size, size_t *ret_len, void *user)
{
	unsigned *pieces = user;

	memset(data, 'x', size);
	*ret_len = size;
	return --*pieces == 0;
}

/* Never ends by itself; counts. */
static int endless(void *data, size_t size, size_t *ret_len, void *user)
{
	memset(data, 'x', size);
	*ret_len = size;
	*(size_t *)user += size;
	return *(size_t *)user > ((size_t)1 << 31);
}

static int too_much(void *data, size_t size, size_t *ret_len, void *user)
{
	(void)data;
	(void)user;
	*ret_len = size + 1;
	return 0;
}

START_TEST(a_write_that_is_given_up_leaves_the_old)
{
	unsigned pieces = 20;

	ok(put(in("a"), "old", 0, E));
	const int worker = the_worker();
	fails(HOLT_ECANCELLED, box_backend.write(self, in("a"), 0, gives_up, &pieces, &soon, E));
	fails(HOLT_EINVALID, box_backend.write(self, in("a"), 0, too_much, NULL, &soon, E));
	check_text(in("a"), "old");
	pieces = 1;
	fails(HOLT_ECANCELLED, box_backend.append(self, in("a"), 0, gives_up, &pieces, &soon, E));
	check_text(in("a"), "old");
	ck_assert_uint_eq(count_dir(work), 1);
	ck_assert_int_eq(the_worker(), worker);
}
END_TEST

START_TEST(a_write_that_cannot_work_ends_early)
{
	size_t drawn = 0;

	ok(look(&soon, E));
	const int worker = the_worker();
	fails(HOLT_EINVALID, box_backend.write(self, work, 0, endless, &drawn, &soon, E));
	/* No more than what was under way. */
	ck_assert_uint_lt(drawn, 64u << 20);
	ck_assert_int_eq(the_worker(), worker);
}
END_TEST

static void *trigger_later(void *arg)
{
	nap_ms(150);
	holt_cancel_trigger(arg);
	return NULL;
}

START_TEST(a_worker_that_hangs_holds_up_nobody)
{
	const holt_call brief = {.timeout_ms = 300};
	holt_call call = {.timeout_ms = HOLT_FOREVER};
	pthread_t t;
	int pids[64];

	ok(look(&soon, E));
	ck_assert_int_eq(kill(the_worker(), SIGSTOP), 0);
	uint64_t before = clock_mono_ms();
	fails(HOLT_ETIMEOUT, look(&brief, E));
	ck_assert_uint_lt(clock_mono_ms() - before, 2300);
	ck_assert_uint_eq(await_workers(pids, 0), 0);
	ok(look(&soon, E));
	ck_assert_int_eq(kill(the_worker(), SIGSTOP), 0);
	ok(holt_cancel_new(&call.cancel, E));
	ck_assert_int_eq(pthread_create(&t, NULL, trigger_later, call.cancel), 0);
	before = clock_mono_ms();
	fails(HOLT_ECANCELLED, look(&call, E));
	ck_assert_uint_lt(clock_mono_ms() - before, 2150);
	pthread_join(t, NULL);
	/* A token that has fired already ends a call before it begins. */
	fails(HOLT_ECANCELLED, look(&call, E));
	holt_cancel_free(call.cancel);
	ck_assert_uint_eq(await_workers(pids, 0), 0);
	ok(look(&soon, E));
}
END_TEST

static void *kill_later(void *arg)
{
	nap_ms(150);
	ck_assert_int_eq(kill(*(int *)arg, SIGKILL), 0);
	return NULL;
}

/* It has the request and does not answer; then it is killed. */
static void doomed(pthread_t *t, int *pid)
{
	ok(look(&soon, E));
	*pid = the_worker();
	ck_assert_int_eq(kill(*pid, SIGSTOP), 0);
	ck_assert_int_eq(pthread_create(t, NULL, kill_later, pid), 0);
}

START_TEST(a_killed_worker_is_replaced_where_that_does_no_harm)
{
	size_t drawn = 0;
	pthread_t t;
	int pid;

	/* Killed while it was idle, even if that is not known yet. */
	ok(look(&soon, E));
	ck_assert_int_eq(kill(the_worker(), SIGKILL), 0);
	ok(look(&soon, E));
	doomed(&t, &pid);
	ok(look(&soon, E));
	pthread_join(t, NULL);
	ck_assert_int_ne(the_worker(), pid);
	doomed(&t, &pid);
	fails(HOLT_EIO, box_backend.make_directory(self, in("d"), 0, &soon, E));
	pthread_join(t, NULL);
	doomed(&t, &pid);
	fails(HOLT_EIO, box_backend.write(self, in("a"), 0, endless, &drawn, &soon, E));
	pthread_join(t, NULL);
	ck_assert_uint_gt(drawn, 0);
	ck_assert_uint_eq(count_dir(work), 0);
	ok(look(&soon, E));
}
END_TEST

START_TEST(a_paused_box_uses_no_idle_worker)
{
	char path[200];
	int pids[64];

	ok(look(&soon, E));
	const int first = the_worker();
	/* The fake engine has nothing that could be paused: only its state says so. */
	snprintf(path, sizeof path, "sed -i 's/\"running\"/\"paused\"/' %s/boxes/%s/state.json",
		home_path, holt_box_id(box));
	shell(path);
	ck_assert_int_eq(info_of(box).state, HOLT_BOX_PAUSED);
	ok(look(&soon, E));
	ck_assert_uint_eq(workers(pids, 64), 2);
	ck_assert(pids[0] == first || pids[1] == first);
}
END_TEST

/* ---- many at once ---- */

/* Its own file, written, appended to, moved, listed, searched and removed. */
static void work_once(long id, int round)
{
	char name[32], other[32], text[64];
	struct found f = {.n = 0};
	struct output o = {.total = 0};
	struct text more = {"more\n", 5};
	holt_exit result = HOLT_EXIT_INIT;
	holt_backend_search what = {.max_results = 10, .line_bytes = 100};

	snprintf(name, sizeof name, "t%ld/f%d", id, round);
	snprintf(other, sizeof other, "t%ld/g%d", id, round);
	snprintf(text, sizeof text, "thread %ld round %d\n", id, round);
	ok(put(in(name), text, HOLT_WRITE_PARENTS, E));
	ok(box_backend.append(self, in(name), 0, from_text, &more, &soon, E));
	ok(box_backend.move(self, in(name), in(other), 0, &soon, E));
	what.root = in(other);
	what.pattern = "thread";
	ok(box_backend.grep(self, &what, to_matches, &f, &soon, NULL, E));
	ck_assert_uint_eq(f.n, 1);
	text[strlen(text) - 1] = 0;
	ck_assert_ptr_nonnull(strstr(f.text, text));
	ok(command("printf $WORD; exit 3", &soon, HOLT_FOREVER, &o, &result, E));
	ck_assert_str_eq(o.text[HOLT_STDOUT], "value");
	ck_assert_int_eq(result.code, 3);
	ok(box_backend.remove(self, in(other), 0, &soon, E));
	fails(HOLT_ENOT_FOUND, box_backend.remove(self, in(other), 0, &soon, E));
}

static void *worker(void *arg)
{
	for (int i = 0; i < ROUNDS; i++)
		work_once((long)arg, i);
	return NULL;
}

START_TEST(eight_threads_of_10_rounds_share_the_workers)
{
	pthread_t threads[THREADS];
	int pids[64];

	for (long i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, worker, (void *)i), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	ck_assert_uint_le(await_workers(pids, FILES_IDLE_MAX), FILES_IDLE_MAX);
	/* With the backend they go. */
	box_backend.close(self);
	self = NULL;
	ck_assert_uint_eq(await_workers(pids, 0), 0);
}
END_TEST

/* ---- memory ---- */

struct bulk {
	size_t left;
	uint8_t next;
};

static int from_bulk(void *data, size_t size, size_t *ret_len, void *user)
{
	struct bulk *b = user;
	const size_t n = b->left < size ? b->left : size;

	for (size_t i = 0; i < n; i++)
		((uint8_t *)data)[i] = b->next++;
	b->left -= n;
	*ret_len = n;
	return 0;
}

static int to_bulk(const void *data, size_t len, void *user)
{
	struct bulk *b = user;

	bool same = len <= b->left;

	for (size_t i = 0; i < len; i++)
		same &= ((const uint8_t *)data)[i] == b->next++;
	b->left -= len;
	return !same;
}

static long peak_kib(void)
{
	FILE *f = fopen("/proc/self/status", "re");
	char line[128];
	long kib = 0;

	while (f && fgets(line, sizeof line, f))
		if (sscanf(line, "VmHWM: %ld", &kib) == 1)
			break;
	ck_assert_ptr_nonnull(f);
	(void)fclose(f);
	return kib;
}

START_TEST(content_of_64_MiB_takes_less_than_8_MiB_of_memory)
{
	struct bulk b = {.left = 64u << 20};
	const holt_backend_read all = {.first_line = 0};

	ok(put(in("a"), "x", 0, E));
	check_text(in("a"), "x");
	const long before = peak_kib();
	ok(box_backend.write(self, in("a"), 0, from_bulk, &b, &forever, E));
	b = (struct bulk){.left = 64u << 20};
	ok(box_backend.read(self, in("a"), &all, to_bulk, &b, &forever, E));
	ck_assert_uint_eq(b.left, 0);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
	ck_assert_int_lt(peak_kib() - before, STREAM_KIB_MAX);
#else
	(void)before; /* a sanitizer keeps what was freed */
#endif
}
END_TEST

/* ---- the box ---- */

START_TEST(a_box_that_ends_ends_its_calls_and_works_again_after_a_start)
{
	holt_box *kept = make("kept", HOLT_BOX_KEEP, NULL);
	holt_file_info info = HOLT_FILE_INFO_INIT;
	size_t drawn = 0;
	void *other = NULL;

	ok(box_backend_new(kept, NULL, work, &other, E));
	fails(HOLT_ECLOSED, box_backend.stat(other, "/", 0, &soon, &info, E));
	start_box(kept, HOLT_START_DETACHED);
	ok(box_backend.stat(other, "/", 0, &soon, &info, E));
	/* An idle worker does not hold up the end. */
	const uint64_t before = clock_mono_ms();
	ok(holt_box_stop(kept, 5000, E));
	ck_assert_uint_lt(clock_mono_ms() - before, 3000);
	fails(HOLT_EGUEST_LOST, box_backend.stat(other, "/", 0, &soon, &info, E));
	start_box(kept, HOLT_START_DETACHED);
	ok(box_backend.stat(other, "/", 0, &soon, &info, E));
	ck_assert_int_eq(kill(info_of(kept).vmm_pid, SIGKILL), 0);
	fails(HOLT_EGUEST_LOST, box_backend.write(other, in("a"), 0, endless, &drawn, &soon, E));
	box_backend.close(other);
	check_end(kept, HOLT_BOX_EXITED, HOLT_END_CRASHED, 137);
	drop(kept);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {content_goes_round, names_are_made_moved_removed,
		searches_find_what_is_there, failures_are_typed,
		a_search_ends_with_whoever_wants_no_more, commands_have_surroundings_and_an_end,
		a_command_ends_in_time, a_command_that_cannot_start_is_typed,
		one_worker_does_all_that_is_asked_in_turn, a_write_that_is_given_up_leaves_the_old,
		a_write_that_cannot_work_ends_early, a_worker_that_hangs_holds_up_nobody,
		a_killed_worker_is_replaced_where_that_does_no_harm,
		a_paused_box_uses_no_idle_worker, eight_threads_of_10_rounds_share_the_workers,
		content_of_64_MiB_takes_less_than_8_MiB_of_memory,
		a_box_that_ends_ends_its_calls_and_works_again_after_a_start};

	/* This program is no library beside which the kernel would be looked for. */
	if (access(KERNEL_DIR, F_OK) == 0)
		setenv("HOLT_KERNEL", KERNEL_DIR, 0);
	return run_tests_in("box backend", begin, end, tests, sizeof tests / sizeof tests[0]);
}
