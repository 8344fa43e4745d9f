/* SPDX-License-Identifier: Apache-2.0 */
/* The foundations: errors, memory, buffers, text, files, processes, JSON. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/digest.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/fsutil.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/str.h"

static char dir[] = "/tmp/holt-base-XXXXXX";
static int dirfd_;

static void setup(void)
{
	strcpy(dir + strlen(dir) - 6, "XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	dirfd_ = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ck_assert_int_ge(dirfd_, 0);
}

static void teardown(void)
{
	close(dirfd_);
	ck_assert_int_eq(fs_remove_tree(AT_FDCWD, dir), 0);
	ck_assert_int_ne(access(dir, F_OK), 0);
}

START_TEST(errors_carry_everything)
{
	auto_error e = NULL;

	ck_assert_int_eq(err_errno(&e, ENOENT, "cannot open '%s'", "x"), -HOLT_ENOT_FOUND);
	err_wrap(&e, "import");
	err_stage(&e, "import");
	err_stage(&e, "later stages do not replace the first");
	err_object(&e, "x");
	err_hint(&e, "try %d", 2);
	ck_assert_str_eq(
		holt_error_message(e), "import: cannot open 'x': No such file or directory");
	ck_assert_str_eq(holt_error_stage(e), "import");
	ck_assert_str_eq(holt_error_object(e), "x");
	ck_assert_str_eq(holt_error_hint(e), "try 2");
	ck_assert_int_eq(holt_error_errno(e), ENOENT);
	ck_assert_str_eq(holt_code_name(holt_error_code(e)), "NOT_FOUND");
}
END_TEST

START_TEST(errors_without_memory_or_receiver)
{
	auto_error e = NULL;

	ck_assert_int_eq(err_make(NULL, HOLT_EBUSY, "nobody hears"), -HOLT_EBUSY);
	mem_fail_at(1);
	ck_assert_int_eq(err_make(&e, HOLT_EBUSY, "busy"), -HOLT_EBUSY);
	mem_fail_at(0);
	ck_assert_int_eq(holt_error_code(e), HOLT_ENO_MEMORY);
	err_stage(&e, "must not be written into the static object");
	ck_assert_str_eq(holt_error_stage(e), "");
}
END_TEST

START_TEST(error_messages_are_safe_for_a_terminal)
{
	auto_error e = NULL;

	err_make(&e, HOLT_EINVALID, "name '%s'", "a\x1b[31m\x07\xff\xc2\x9b");
	ck_assert_str_eq(holt_error_message(e), "name 'a\\x1b[31m\\x07\\xff\\xc2\\x9b'");
}
END_TEST

START_TEST(codes_have_distinct_names)
{
	for (int i = 0; i <= HOLT_EINTERNAL; i++) {
		ck_assert_str_ne(holt_code_name(i), "UNKNOWN");
		for (int j = 0; j < i; j++)
			ck_assert_str_ne(holt_code_name(i), holt_code_name(j));
	}
	ck_assert_str_eq(holt_code_name(-1), "UNKNOWN");
	ck_assert_str_eq(holt_code_name(HOLT_EINTERNAL + 1), "UNKNOWN");
}
END_TEST

START_TEST(memory_refuses_overflow)
{
	ck_assert_ptr_null(mem_array(SIZE_MAX / 2, 3));
	ck_assert_ptr_null(mem_resize(NULL, SIZE_MAX / 2, 3));
	void *p = mem_array(0, 8);
	ck_assert_ptr_nonnull(p);
	mem_free(p);
}
END_TEST

START_TEST(buffers_have_a_maximum)
{
	auto_buf b = BUF_INIT(10);

	ck_assert_int_eq(buf_appends(&b, "12345"), 0);
	ck_assert_int_eq(buf_appends(&b, "678901"), -EMSGSIZE);
	ck_assert_uint_eq(b.len, 5);
	ck_assert_int_eq(buf_printf(&b, "%d", 67890), 0);
	ck_assert_str_eq((char *)b.data, "1234567890");
	ck_assert_int_eq(buf_printf(&b, "x"), -EMSGSIZE);
	buf_consume(&b, 3);
	ck_assert_uint_eq(b.len, 7);
	ck_assert_mem_eq(b.data, "4567890", 7);
	ck_assert_ptr_null(buf_reserve(&b, SIZE_MAX));
}
END_TEST

START_TEST(numbers_are_strict)
{
	uint64_t n = 0;

	ck_assert_int_eq(str_to_u64("18446744073709551615", UINT64_MAX, &n), 0);
	ck_assert_uint_eq(n, UINT64_MAX);
	ck_assert_int_eq(str_to_u64("18446744073709551616", UINT64_MAX, &n), -ERANGE);
	ck_assert_int_eq(str_to_u64("11", 10, &n), -ERANGE);
	static const char *const bad[] = {"", "-1", "+1", " 1", "1 ", "0x1", "1.0"};
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		ck_assert_int_eq(str_to_u64(bad[i], UINT64_MAX, &n), -EINVAL);
}
END_TEST

START_TEST(escape_keeps_good_text_only)
{
	static const struct {
		const char *in, *out;
		bool keep_lf;
	} t[] = {
		{"plain", "plain", false},
		{"l\nf", "l\\x0af", false},
		{"l\nf", "l\nf", true},
		{"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80",
			false},
		{"\xc0\xaf", "\\xc0\\xaf", false},
		{"\xed\xa0\x80", "\\xed\\xa0\\x80", false},
		{"\xe2\x80\xae", "\\xe2\\x80\\xae", false},
		{"\x7f\xc2\x85", "\\x7f\\xc2\\x85", false},
		{"\xe2\x82", "\\xe2\\x82", false},
	};
	char out[64];

	for (size_t i = 0; i < sizeof t / sizeof t[0]; i++) {
		str_escape(out, sizeof out, t[i].in, strlen(t[i].in), t[i].keep_lf);
		ck_assert_str_eq(out, t[i].out);
	}
	/* Too small a buffer cuts between characters. */
	ck_assert_uint_eq(str_escape(out, 4, "ab\x01", 3, false), 2);
	ck_assert_str_eq(out, "ab");
}
END_TEST

START_TEST(lists_copy_and_free)
{
	const char *const list[] = {"a", "", "c", NULL};
	char **copy = strv_dup(list);

	ck_assert_uint_eq(strv_len((const char *const *)copy), 3);
	ck_assert_str_eq(copy[2], "c");
	strv_free(copy);
	ck_assert_uint_eq(strv_len(NULL), 0);
	strv_free(NULL);
}
END_TEST

START_TEST(digest_is_sha256)
{
	char s[DIGEST_STR_LEN + 1];

	ck_assert_int_eq(digest_of("abc", 3, s), 0);
	ck_assert_str_eq(
		s, "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
	ck_assert(digest_valid(s));
	s[10] = 'G';
	ck_assert(!digest_valid(s));
	ck_assert(!digest_valid("sha256:ba"));
}
END_TEST

START_TEST(atomic_write_replaces_whole_files)
{
	auto_free char *data = NULL;
	size_t len = 0;
	struct stat st;

	ck_assert_int_eq(fs_write_atomic(dirfd_, "f", "one", 3, 0600), 0);
	ck_assert_int_eq(fs_write_atomic(dirfd_, "f", "second", 6, 0600), 0);
	ck_assert_int_eq(fs_read_file(dirfd_, "f", 100, &data, &len), 0);
	ck_assert_uint_eq(len, 6);
	ck_assert_str_eq(data, "second");
	ck_assert_int_eq(fstatat(dirfd_, "f", &st, 0), 0);
	ck_assert_uint_eq(st.st_mode & 0777, 0600);
	char *none = NULL;
	ck_assert_int_eq(fs_read_file(dirfd_, "f", 5, &none, NULL), -EFBIG);
	ck_assert_int_eq(fs_read_file(dirfd_, "missing", 5, &none, NULL), -ENOENT);
	ck_assert_ptr_null(none);
}
END_TEST

START_TEST(read_file_takes_all_sizes)
{
	static const size_t sizes[] = {0, 1, 4095, 4096, 4097, 8192, 100000};

	for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
		auto_free char *in = mem_zalloc(sizes[i] + 1);
		auto_free char *out = NULL;
		size_t len = 0;

		memset(in, 'x', sizes[i]);
		ck_assert_int_eq(fs_write_atomic(dirfd_, "f", in, sizes[i], 0600), 0);
		ck_assert_int_eq(fs_read_file(dirfd_, "f", sizes[i], &out, &len), 0);
		ck_assert_uint_eq(len, sizes[i]);
		ck_assert_int_eq(memcmp(in, out, len + 1), 0);
	}
}
END_TEST

START_TEST(remove_tree_never_follows_links)
{
	auto_free char *outside = str_printf("%s/outside", dir);
	auto_free char *deep = str_printf("%s/tree/a/b/c/d", dir);

	ck_assert_int_eq(fs_mkdirs(outside), 0);
	ck_assert_int_eq(fs_mkdirs(deep), 0);
	ck_assert_int_eq(fs_write_atomic(dirfd_, "outside/keep", "x", 1, 0600), 0);
	ck_assert_int_eq(fs_write_atomic(dirfd_, "tree/a/b/file", "x", 1, 0400), 0);
	ck_assert_int_eq(symlinkat("../../outside", dirfd_, "tree/a/link"), 0);
	ck_assert_int_eq(fs_remove_tree(dirfd_, "tree"), 0);
	ck_assert_int_ne(faccessat(dirfd_, "tree", F_OK, 0), 0);
	ck_assert_int_eq(faccessat(dirfd_, "outside/keep", F_OK, 0), 0);
	ck_assert_int_eq(fs_remove_tree(dirfd_, "tree"), 0);
}
END_TEST

START_TEST(remove_tree_stops_at_its_depth)
{
	auto_free char *path = str_printf("%s/deep", dir);

	for (int i = 0; i < 70; i++) {
		char *more = str_printf("%s/d", path);
		mem_free(path);
		path = more;
	}
	ck_assert_int_eq(fs_mkdirs(path), 0);
	ck_assert_int_eq(fs_remove_tree(dirfd_, "deep"), -ELOOP);
	/* From further down it goes. */
	for (int i = 0; i < 3; i++) {
		auto_free char *part = str_dup("deep/d/d/d/d/d/d/d/d/d/d");
		ck_assert_int_eq(fs_remove_tree(dirfd_, part), 0);
	}
}
END_TEST

START_TEST(lock_file_belongs_to_one)
{
	const int a = fs_open_lock(dirfd_, "l", false);

	ck_assert_int_ge(a, 0);
	ck_assert_int_eq(fs_open_lock(dirfd_, "l", false), -EWOULDBLOCK);
	/* The holder may remove it: the next one locks a new file, not the orphan. */
	ck_assert_int_eq(unlinkat(dirfd_, "l", 0), 0);
	const int b = fs_open_lock(dirfd_, "l", false);
	ck_assert_int_ge(b, 0);
	close(a);
	ck_assert_int_eq(fs_open_lock(dirfd_, "l", false), -EWOULDBLOCK);
	close(b);
}
END_TEST

START_TEST(sparse_copy_keeps_holes)
{
	const int src = openat(dirfd_, "s", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	const int dst = openat(dirfd_, "d", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	char back[4] = "";
	struct stat st;

	ck_assert_int_eq(ftruncate(src, 1 << 30), 0);
	ck_assert_int_eq(pwrite(src, "abcd", 4, 500 << 20), 4);
	ck_assert_int_eq(fs_copy_sparse(src, dst), 0);
	ck_assert_int_eq(fstat(dst, &st), 0);
	ck_assert_int_eq(st.st_size, 1 << 30);
	ck_assert_int_lt(st.st_blocks, 4096);
	ck_assert_int_eq(pread(dst, back, 4, 500 << 20), 4);
	ck_assert_mem_eq(back, "abcd", 4);
	close(src);
	close(dst);
}
END_TEST

START_TEST(run_reports_output_and_status)
{
	const char *const good[] = {"sh", "-c", "echo out; echo err >&2", NULL};
	const char *const bad[] = {"sh", "-c", "echo no\033; exit 3", NULL};
	const char *const slow[] = {"sleep", "100", NULL};
	auto_free char *out = NULL;
	auto_error e = NULL;
	auto_error late = NULL;
	auto_error missing = NULL;

	ck_assert_int_eq(proc_run("/bin/sh", good, 5000, &out, NULL), 0);
	ck_assert_str_eq(out, "out\nerr\n");
	ck_assert_int_eq(proc_run("/bin/sh", bad, 5000, NULL, &e), -HOLT_EIO);
	ck_assert_ptr_nonnull(strstr(holt_error_message(e), "status 3: no\\x1b"));
	const uint64_t start = clock_mono_ms();
	ck_assert_int_eq(proc_run("/bin/sleep", slow, 100, NULL, &late), -HOLT_ETIMEOUT);
	ck_assert_uint_lt(clock_mono_ms() - start, 3000);
	ck_assert_int_eq(proc_run("/no/such", good, 100, NULL, &missing), -HOLT_ENOT_FOUND);
}
END_TEST

static int count_fds(const char *listing)
{
	int n = 0;

	for (const char *p = listing; *p; p++)
		n += *p == '\n';
	return n;
}

START_TEST(children_get_only_what_is_listed)
{
	/* Open on purpose without close-on-exec. */
	const int leak = open("/dev/null", O_RDONLY);
	int out[2];
	char text[4096];
	const char *const argv[] = {"ls", "/proc/self/fd", NULL};

	ck_assert_int_ge(leak, 0);
	ck_assert_int_eq(fd_pipe(out), 0);
	const struct proc_fd fds[] = {{out[1], 1}, {out[1], 7}};
	const struct proc_spec spec = {.path = "/bin/ls", .argv = argv, .fds = fds, .n_fds = 2};
	struct proc p = {0};
	ck_assert_int_eq(proc_spawn(&spec, &p, NULL), 0);
	close(out[1]);
	const ssize_t n = fd_read_full(out[0], text, sizeof text - 1);
	ck_assert_int_gt(n, 0);
	text[n] = 0;
	int status = -1;
	ck_assert_int_eq(proc_wait(p.pid, &status), 0);
	ck_assert_int_eq(status, 0);
	/* 0, 1, 2, 7 and the directory that ls has open itself. */
	ck_assert_int_eq(count_fds(text), 5);
	ck_assert_ptr_nonnull(strstr(text, "7\n"));
	close(p.pidfd);
	close(out[0]);
	close(leak);
}
END_TEST

START_TEST(child_is_invisible_to_the_host_program)
{
	const char *const argv[] = {"false", NULL};
	const struct proc_spec spec = {.path = "/bin/false", .argv = argv, .flags = PROC_HIDDEN};
	struct proc p = {0};
	int status = 0;

	ck_assert_int_eq(proc_spawn(&spec, &p, NULL), 0);
	ck_assert_int_eq(waitpid(-1, NULL, 0), -1);
	ck_assert_int_eq(errno, ECHILD);
	ck_assert_int_eq(proc_wait(p.pid, &status), 0);
	ck_assert(WIFEXITED(status));
	ck_assert_int_eq(WEXITSTATUS(status), 1);
	close(p.pidfd);
}
END_TEST

START_TEST(detached_child_is_nobodys)
{
	int out[2];
	char text[64] = "";
	const char *const argv[] = {
		"sh", "-c", "read a b c ppid rest </proc/self/stat; echo $$ $ppid", NULL};

	ck_assert_int_eq(fd_pipe(out), 0);
	const struct proc_fd fds[] = {{out[1], 1}};
	const struct proc_spec spec = {
		.path = "/bin/sh", .argv = argv, .fds = fds, .n_fds = 1, .flags = PROC_DETACH};
	struct proc p = {0};
	ck_assert_int_eq(proc_spawn(&spec, &p, NULL), 0);
	close(out[1]);
	ck_assert_int_gt(fd_read_full(out[0], text, sizeof text - 1), 0);
	int pid = 0, ppid = 0;
	ck_assert_int_eq(sscanf(text, "%d %d", &pid, &ppid), 2);
	ck_assert_int_eq(pid, p.pid);
	ck_assert_int_ne(ppid, getpid());
	ck_assert_int_eq(proc_wait(p.pid, NULL), -ECHILD);
	close(out[0]);
}
END_TEST

START_TEST(deathsig_follows_the_parent)
{
	int out[2];
	char text[32] = "";

	ck_assert_int_eq(fd_pipe(out), 0);
	const pid_t middle = fork();
	if (middle == 0) {
		const char *const argv[] = {"sleep", "1000", NULL};
		const struct proc_fd fds[] = {{out[1], 1}};
		const struct proc_spec spec = {.path = "/bin/sleep",
			.argv = argv,
			.fds = fds,
			.n_fds = 1,
			.flags = PROC_DEATHSIG | PROC_NOPRIVS};
		struct proc p = {0};
		if (proc_spawn(&spec, &p, NULL) == 0)
			dprintf(out[1], "%d", p.pid);
		_exit(0);
	}
	close(out[1]);
	/* End-of-file comes only when the sleeper, which holds the pipe, is gone. */
	const ssize_t n = fd_read_full(out[0], text, sizeof text - 1);
	ck_assert_int_gt(n, 0);
	ck_assert_int_eq(waitpid(middle, NULL, 0), middle);
	close(out[0]);
}
END_TEST

START_TEST(json_getters_are_typed)
{
	static const char text[] = "{\"s\":\"x\",\"n\":7,\"l\":[\"a\",\"b\"],\"z\":null,\"m\":[1]}";
	auto_json j = NULL;
	auto_error e = NULL;
	const char *s = NULL;
	int64_t n = 0;
	char **l = NULL;

	ck_assert_int_eq(json_parse(text, strlen(text), 1000, "test", &j, NULL), 0);
	ck_assert_int_eq(json_get_str(j, "s", &s, NULL), 0);
	ck_assert_str_eq(s, "x");
	ck_assert_int_eq(json_get_str(j, "z", &s, NULL), 0);
	ck_assert_ptr_null(s);
	ck_assert_int_eq(json_get_str(j, "n", &s, NULL), -HOLT_EINVALID);
	ck_assert_int_eq(json_get_int(j, "n", 0, 10, &n, NULL), 0);
	ck_assert_int_eq(n, 7);
	ck_assert_int_eq(json_get_int(j, "n", 8, 10, &n, NULL), -HOLT_EINVALID);
	ck_assert_int_eq(json_get_strv(j, "l", &l, NULL), 0);
	ck_assert_str_eq(l[1], "b");
	strv_free(l);
	ck_assert_int_eq(json_get_strv(j, "m", &l, NULL), -HOLT_EINVALID);
	json_t *none = NULL;
	ck_assert_int_eq(json_parse("[]", 2, 1000, "test", &none, &e), -HOLT_EINVALID);
	ck_assert_int_eq(json_parse(text, strlen(text), 5, "test", &none, NULL), -HOLT_ELIMIT);
	ck_assert_int_eq(json_parse("{\"a\":1,\"a\":2}", 13, 50, "t", &none, NULL), -HOLT_EINVALID);
	ck_assert_ptr_null(none);
}
END_TEST

static char seen[256];

static void on_log(int level, const char *component, const char *message, void *user)
{
	(void)level;
	(void)user;
	snprintf(seen, sizeof seen, "%s %s", component, message);
}

START_TEST(log_is_silent_until_asked)
{
	log_warn("c", "lost");
	holt_log_set(HOLT_LOG_WARN, on_log, NULL);
	log_debug("c", "too quiet");
	ck_assert_str_eq(seen, "");
	log_warn("c", "key=%d bad=%s", 1, "a\nb");
	holt_log_set(0, NULL, NULL);
	ck_assert_str_eq(seen, "c key=1 bad=a\\x0ab");
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {errors_carry_everything, errors_without_memory_or_receiver,
		error_messages_are_safe_for_a_terminal, codes_have_distinct_names,
		memory_refuses_overflow, buffers_have_a_maximum, numbers_are_strict,
		escape_keeps_good_text_only, lists_copy_and_free, digest_is_sha256,
		atomic_write_replaces_whole_files, read_file_takes_all_sizes,
		remove_tree_never_follows_links, remove_tree_stops_at_its_depth,
		lock_file_belongs_to_one, sparse_copy_keeps_holes, run_reports_output_and_status,
		children_get_only_what_is_listed, child_is_invisible_to_the_host_program,
		detached_child_is_nobodys, deathsig_follows_the_parent, json_getters_are_typed,
		log_is_silent_until_asked};
	Suite *s = suite_create("base");
	TCase *c = tcase_create("base");

	tcase_add_checked_fixture(c, setup, teardown);
	tcase_set_timeout(c, 30);
	for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++)
		tcase_add_test(c, tests[i]);
	suite_add_tcase(s, c);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	const int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
