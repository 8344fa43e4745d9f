/* SPDX-License-Identifier: Apache-2.0 */
#include "files_client.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

/*
 * Writing and appending by the built-in "files", looked at with the file system of the host. Most
 * of it runs a second time where no file without a name can be made.
 */

/* Writing. */

/* From here on the kernel has no files without a name, for this process and its children. */
static void refuse_unnamed_files(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, O_TMPFILE & ~O_DIRECTORY, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EOPNOTSUPP),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = {sizeof(code) / sizeof(code[0]), code};

	ck_assert_int_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	ck_assert_int_eq(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
	ck_assert_int_lt(open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600), 0);
	ck_assert_int_eq(errno, EOPNOTSUPP);
}

/* Tests that run a second time so. */
static void maybe_refuse(int i)
{
	if (i == 1)
		refuse_unnamed_files();
}

static void write_setup(void)
{
	n_workers = 0;
}

START_TEST(write_new)
{
	maybe_refuse(_i);
	files_setup();
	struct worker *const w = worker_start(NULL);
	struct answer a;

	ask_write(w, "new", 0, "abc", 3, &a);
	is_done(&a);
	check_content("new", "abc", 3);
	ck_assert_uint_eq(look("new").st_mode, S_IFREG | 0644);
	ck_assert_uint_eq(look("new").st_uid, geteuid());
	ask_write(w, "empty", 0, "", 0, &a);
	is_done(&a);
	check_content("empty", "", 0);
	/* C-91: nothing over something. */
	ask_write(w, "new", 0, "", 0, &a);
	is_done(&a);
	check_content("new", "", 0);
	ask_write(w, "a/b//c/f", WIRE_WRITE_PARENTS, "abc", 3, &a);
	is_done(&a);
	check_content("a/b/c/f", "abc", 3);
	ck_assert_uint_eq(look("a/b").st_mode, S_IFDIR | 0755);
	ask_write(w, in_base("a/b/../g"), WIRE_WRITE_PARENTS, "abc", 3, &a);
	is_done(&a);
	check_content("a/g", "abc", 3);
	ask_write(w, "no/f", 0, "abc", 3, &a);
	is_failure(&a, ENOENT, "write", "no/f");
	ask_write(w, "new/f", WIRE_WRITE_PARENTS, "abc", 3, &a);
	is_failure(&a, ENOTDIR, "write", "new/f");
	ask_write(w, "new", WIRE_WRITE_EXCLUSIVE, "abc", 3, &a);
	is_failure(&a, EEXIST, "write", "new");
	ask_write(w, "new2", WIRE_WRITE_EXCLUSIVE, "abc", 3, &a);
	is_done(&a);
	check_content("new2", "abc", 3);
	local("ln -s nowhere dangling");
	ask_write(w, "dangling", WIRE_WRITE_EXCLUSIVE, "abc", 3, &a);
	is_failure(&a, EEXIST, "write", "dangling");
	local("[ $(ls -A | wc -l) = 5 ]");
	files_teardown();
}
END_TEST

/* The old file gives way as a whole, to one with its mode. */
START_TEST(write_replaces)
{
	maybe_refuse(_i);
	files_setup();
	struct worker *const w = worker_start(NULL);
	uint8_t *const data = noise(3 * MIB);
	struct answer a;

	local("echo old >f; chmod 2751 f; ln f other; mkdir d; ln -s ../l2 d/l1; ln -s \"$PWD/f\" "
	      "l2; ln -s d/new dangling");
	const struct stat old = look("f");
	const int fd = open(in_base("f"), O_RDONLY | O_CLOEXEC);
	ask_write(w, "d/l1", 0, data, 3 * MIB, &a);
	is_done(&a);
	check_content("f", data, 3 * MIB);
	ck_assert(look("f").st_ino != old.st_ino);
	ck_assert_uint_eq(look("f").st_mode, S_IFREG | (is_root() ? 02751 : 0751));
	ck_assert_uint_eq(look("f").st_gid, old.st_gid);
	check_content("other", "old\n", 4);
	char had[8];
	ck_assert_int_eq(read(fd, had, sizeof(had)), 4);
	(void)close(fd);
	ask_write(w, "dangling", 0, "abc", 3, &a);
	is_done(&a);
	check_content("d/new", "abc", 3);
	ck_assert(S_ISLNK(look("dangling").st_mode) && S_ISLNK(look("d/l1").st_mode));
	local("rm -r d; mkdir d; ln -s x/y/new d/far");
	ask_write(w, "d/far", 0, "abc", 3, &a);
	is_failure(&a, ENOENT, "write", "d/far");
	ask_write(w, "d/far", WIRE_WRITE_PARENTS, "abc", 3, &a);
	is_done(&a);
	check_content("d/x/y/new", "abc", 3);
	local("[ $(ls -A | wc -l) = 5 ] && [ $(ls -A d | wc -l) = 2 ]");
	free(data);
	files_teardown();
}
END_TEST

START_TEST(write_refused)
{
	maybe_refuse(_i);
	files_setup();
	struct worker *const w = worker_of_user();
	uint8_t *const data = noise(3 * MIB);
	struct answer a;
	static const struct {
		const char *path;
		int errnum;
	} cases[] = {
		{"d", EISDIR},
		{"d/", EISDIR},
		{"d/.", EISDIR},
		{"to-d", EISDIR},
		{"/", EISDIR},
		{"new/", EISDIR},
		{"f/", ENOTDIR},
		{"to-f/", ENOTDIR},
		{"loop", ELOOP},
		{"read-only", EACCES},
		{"closed/new", EACCES},
		{"p", ENXIO},
	};

	local("mkdir d closed; echo old >f; ln -s d to-d; ln -s f to-f; ln -s loop loop; echo old "
	      ">read-only; chmod 444 read-only; mkfifo p; chmod 555 closed; chmod 666 f p");
	/* The answer comes before the content, all of which is read, and once. */
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		put_write(w, cases[i].path, 0);
		get_answer(w, &a);
		is_failure(&a, cases[i].errnum, "write", cases[i].path);
		put_content(w, data, i == 0 ? 3 * MIB : 5);
		put_end(w, i % 2);
	}
	char name[600];
	memset(name, 'n', 256);
	name[256] = 0;
	ask_write(w, name, 0, "x", 1, &a);
	is_failure(&a, ENAMETOOLONG, "write", name);
	check_content("f", "old\n", 4);
	check_content("read-only", "old\n", 4);
	local("[ $(ls -A | wc -l) = 8 ]");
	free(data);
	files_teardown();
}
END_TEST

/* A client that gives up has changed nothing. */
START_TEST(write_aborted)
{
	maybe_refuse(_i);
	files_setup();
	struct worker *const w = worker_start(NULL);
	uint8_t *const data = noise(3 * MIB);
	struct answer a;

	local("echo old >f");
	static const char *const paths[] = {"f", "new"};
	for (int i = 0; i < 4; i++) {
		put_write(w, paths[i % 2], i < 2 ? 0 : WIRE_WRITE_APPEND);
		put_content(w, data, 3 * MIB);
		put_end(w, true);
		get_answer(w, &a);
		ck_assert(a.failed);
		ck_assert_uint_eq(a.class, WIRE_FILE_FAIL_ABORTED);
		ck_assert_str_eq(a.object, paths[i % 2]);
	}
	check_content("f", "old\n", 4);
	local("[ $(ls -A | wc -l) = 1 ]");
	free(data);
	files_teardown();
}
END_TEST

/* A user who may write the file, but not make one beside it. */
/* 4 temporary names that are taken: by a file that was left behind, one that is being filled, a
 * link, a directory. Only the first one goes. */
START_TEST(write_removes_what_was_left)
{
	refuse_unnamed_files();
	files_setup();
	struct worker *const w = worker_start(NULL);
	struct answer a;

	put_file(".holt-00000000", "half", 4);
	put_file(".holt-00000001", "half", 4);
	local("ln -s .holt-00000001 .holt-00000002; mkdir .holt-00000003");
	const int fd = open(in_base(".holt-00000001"), O_RDWR | O_CLOEXEC);
	ck_assert_int_eq(flock(fd, LOCK_EX), 0);
	ask_write(w, "f", 0, "abc", 3, &a);
	is_done(&a);
	check_content("f", "abc", 3);
	local("test ! -e .holt-00000000 && test -d .holt-00000003 && test $(ls -A | wc -l) = 4");
	check_content(".holt-00000001", "half", 4);
	(void)close(fd);
	ask_write(w, "f", 0, "abcd", 4, &a);
	is_done(&a);
	check_content("f", "abcd", 4);
	local("test ! -e .holt-00000000 && test $(ls -A | wc -l) = 4");
	ask_write(w, "f", 0, "abc", 3, &a);
	is_done(&a);
	files_teardown();
}
END_TEST

START_TEST(write_in_place)
{
	maybe_refuse(_i);
	files_setup();
	struct worker *const w = worker_of_user();
	uint8_t *const data = noise(3 * MIB);
	struct answer a;

	local("mkdir closed; echo old >closed/f; chmod 666 closed/f; chmod 555 closed");
	const struct stat old = look("closed/f");
	ask_write(w, "closed/f", 0, data, 3 * MIB, &a);
	is_done(&a);
	check_content("closed/f", data, 3 * MIB);
	ck_assert_uint_eq(look("closed/f").st_ino, old.st_ino);
	ask_write(w, "closed/f", 0, "abc", 3, &a);
	is_done(&a);
	check_content("closed/f", "abc", 3);
	put_write(w, "closed/f", 0);
	put_content(w, data, 3 * MIB);
	put_end(w, true);
	get_answer(w, &a);
	ck_assert(a.failed);
	check_content("closed/f", "abc", 3);
	ask_write(w, "/dev/null", 0, data, 3 * MIB, &a);
	is_done(&a);
	ask_write(w, "/dev/full", 0, "x", 1, &a);
	is_failure(&a, ENOSPC, "write", "/dev/full");
	ask_write(w, "/dev/null", WIRE_WRITE_APPEND, "x", 1, &a);
	is_done(&a);
	if (is_root()) {
		/* Neither owner nor group would stay. */
		local("echo old >foreign; chmod 4666 foreign");
		const struct stat st = look("foreign");
		ask_write(w, "foreign", 0, "abc", 3, &a);
		is_done(&a);
		check_content("foreign", "abc", 3);
		ck_assert_uint_eq(look("foreign").st_ino, st.st_ino);
		ck_assert_uint_eq(look("foreign").st_uid, 0);
		ck_assert_uint_eq(look("foreign").st_mode, S_IFREG | 0666);
	}
	free(data);
	files_teardown();
}
END_TEST

START_TEST(write_keeps_owner)
{
	maybe_refuse(_i);
	files_setup();
	struct worker *const w = worker_start(NULL);
	struct answer a;

	if (is_root()) {
		local("echo old >f; chown 7:8 f; chmod 6755 f");
		const struct stat old = look("f");
		ask_write(w, "f", 0, "abc", 3, &a);
		is_done(&a);
		ck_assert(look("f").st_ino != old.st_ino);
		ck_assert_uint_eq(look("f").st_uid, 7);
		ck_assert_uint_eq(look("f").st_gid, 8);
		ck_assert_uint_eq(look("f").st_mode, S_IFREG | 06755);
	}
	/* What the kernel makes up has nothing beside it. */
	ask_write(w, "/proc/self/comm", 0, "by-hand", 7, &a);
	is_done(&a);
	ask_read(w, "/proc/self/comm", (struct wire_file_read){0}, &a);
	ck_assert_uint_eq(a.data.len, 8);
	is_done(&a);
	files_teardown();
}
END_TEST

START_TEST(write_to_fifo)
{
	struct worker *const w = worker_start(NULL);
	struct answer a;
	char had[8] = "";

	ck_assert_int_eq(mkfifo(in_base("p"), 0600), 0);
	const int fd = open(in_base("p"), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	ask_write(w, "p", 0, "abc", 3, &a);
	is_done(&a);
	ck_assert_int_eq(read(fd, had, sizeof(had)), 3);
	/* A reader who leaves does not end the worker. */
	put_write(w, "p", WIRE_WRITE_APPEND);
	put_content(w, "abc", 3);
	put_msg(w,
		&(struct wire_msg){.op = WIRE_OP_file_data, .file_data = {.bytes = text("more")}});
	while (w->run.in_credit < 65536 - 200)
		turn();
	(void)close(fd);
	put_end(w, false);
	get_answer(w, &a);
	ck_assert(a.failed);
	ck_assert(a.errnum == EPIPE || a.errnum == ENXIO);
	ask_stat(w, "p", 0, &a);
	is_done(&a);
}
END_TEST

/* Appending. */

START_TEST(append)
{
	maybe_refuse(_i);
	files_setup();
	struct worker *const w = worker_start(NULL);
	uint8_t *const data = noise(3 * MIB);
	struct answer a;

	ask_write(w, "f", WIRE_WRITE_APPEND, "", 0, &a);
	is_done(&a);
	check_content("f", "", 0);
	ck_assert_uint_eq(look("f").st_mode, S_IFREG | 0644);
	const struct stat old = look("f");
	local("ln -s f link; ln -s made dangling; ln f other");
	ask_write(w, "link", WIRE_WRITE_APPEND, "abc", 3, &a);
	is_done(&a);
	ask_write(w, "f", WIRE_WRITE_APPEND, "", 0, &a);
	is_done(&a);
	ask_write(w, "f", WIRE_WRITE_APPEND, "def", 3, &a);
	is_done(&a);
	check_content("other", "abcdef", 6);
	ck_assert_uint_eq(look("f").st_ino, old.st_ino);
	ask_write(w, "dangling", WIRE_WRITE_APPEND, data, 3 * MIB, &a);
	is_done(&a);
	check_content("made", data, 3 * MIB);
	ask_write(w, "x/y", WIRE_WRITE_APPEND, "abc", 3, &a);
	is_failure(&a, ENOENT, "append", "x/y");
	ask_write(w, "x/y", WIRE_WRITE_APPEND | WIRE_WRITE_PARENTS, "abc", 3, &a);
	is_done(&a);
	check_content("x/y", "abc", 3);
	ask_write(w, "f", WIRE_WRITE_APPEND | WIRE_WRITE_EXCLUSIVE, "abc", 3, &a);
	is_failure(&a, EEXIST, "append", "f");
	ask_write(w, "g", WIRE_WRITE_APPEND | WIRE_WRITE_EXCLUSIVE, "abc", 3, &a);
	is_done(&a);
	check_content("g", "abc", 3);
	ask_write(w, "x", WIRE_WRITE_APPEND, "abc", 3, &a);
	is_failure(&a, EISDIR, "append", "x");
	local("[ $(ls -A | wc -l) = 7 ]");
	free(data);
	files_teardown();
}
END_TEST

/* C-96: four workers, 100 records each, and between them long ones: none is lost, none is torn. */
START_TEST(append_concurrently)
{
	static uint8_t record[4][1000];
	static uint8_t large[4][2 * MIB + 12345];
	struct answer a;
	unsigned seen[4] = {0};
	unsigned larges[4] = {0};

	for (int i = 0; i < 4; i++) {
		memset(record[i], 'a' + i, sizeof(record[i]));
		memset(large[i], 'A' + i, sizeof(large[i]));
		(void)worker_start(NULL);
	}
	for (int n = 0; n < 100; n++) {
		for (int i = 0; i < 4; i++) {
			const bool is_large = n % 50 == 10 * i;
			put_write(&workers[i], "f", WIRE_WRITE_APPEND);
			put_content(&workers[i], is_large ? large[i] : record[i],
				is_large ? sizeof(large[i]) : sizeof(record[i]));
			put_end(&workers[i], false);
		}
		for (int i = 0; i < 4; i++) {
			get_answer(&workers[i], &a);
			is_done(&a);
		}
	}
	const int fd = open(in_base("f"), O_RDONLY | O_CLOEXEC);
	static uint8_t have[2 * MIB + 12345];
	for (uint8_t first = 0; read(fd, &first, 1) == 1;) {
		const bool is_large = first < 'a';
		const int i = first - (is_large ? 'A' : 'a');
		const size_t len = (is_large ? sizeof(large[i]) : sizeof(record[i])) - 1;
		ck_assert_int_eq(read(fd, have, len), (ssize_t)len);
		ck_assert_int_eq(memcmp(have, is_large ? large[i] : record[i], len), 0);
		(is_large ? larges : seen)[i]++;
	}
	(void)close(fd);
	for (int i = 0; i < 4; i++) {
		ck_assert_uint_eq(seen[i], 98);
		ck_assert_uint_eq(larges[i], 2);
	}
}
END_TEST

/* One that does not fit leaves nothing behind, neither bytes nor a file. */
START_TEST(append_that_fails)
{
	struct worker *const w = worker_start(NULL);
	const struct rlimit limit = {5 * MIB / 2, 5 * MIB / 2};
	uint8_t *const data = noise(2 * MIB);
	struct answer a;

	put_file("f", data, MIB);
	ck_assert_int_eq(prlimit((pid_t)w->run.pid, RLIMIT_FSIZE, &limit, NULL), 0);
	ask_write(w, "f", WIRE_WRITE_APPEND, data, 2 * MIB, &a);
	is_failure(&a, EFBIG, "append", "f");
	check_content("f", data, MIB);
	ask_write(w, "f", WIRE_WRITE_APPEND, data + MIB, MIB, &a);
	is_done(&a);
	check_content("f", data, 2 * MIB);
	const struct rlimit none = {0, 0};
	ck_assert_int_eq(prlimit((pid_t)w->run.pid, RLIMIT_FSIZE, &none, NULL), 0);
	ask_write(w, "new", WIRE_WRITE_APPEND, "x", 1, &a);
	is_failure(&a, EFBIG, "append", "new");
	ask_write(w, "new", 0, "x", 1, &a);
	is_failure(&a, EFBIG, "write", "new");
	ask_write(w, "f", 0, "x", 1, &a);
	is_failure(&a, EFBIG, "write", "f");
	check_content("f", data, 2 * MIB);
	local("[ $(ls -A | wc -l) = 1 ]");
	free(data);
}
END_TEST

/* Whoever reads while others write sees one of the contents, whole: 20 rounds. */
START_TEST(write_is_one_step)
{
	struct worker *const w = worker_start(NULL);
	struct worker *const reader = worker_start(NULL);
	uint8_t *const data = noise(MIB + MIB / 2);
	struct answer a;

	put_file("f", data, MIB);
	for (int n = 0; n < 20; n++) {
		put_write(w, "f", 0);
		put_content(w, data + (n % 2 ? 0 : MIB / 2), MIB);
		ask_read(reader, "f", (struct wire_file_read){0}, &a);
		ck_assert_uint_eq(a.data.len, MIB);
		ck_assert(memcmp(a.data.data, data, MIB) == 0 ||
			  memcmp(a.data.data, data + MIB / 2, MIB) == 0);
		is_done(&a);
		put_end(w, false);
		put_msg(reader, &(struct wire_msg){
					.op = WIRE_OP_file_read, .file_read = {.path = text("f")}});
		get_answer(w, &a);
		is_done(&a);
		get_answer(reader, &a);
		ck_assert_uint_eq(a.data.len, MIB);
		ck_assert(memcmp(a.data.data, data, MIB) == 0 ||
			  memcmp(a.data.data, data + MIB / 2, MIB) == 0);
		is_done(&a);
	}
	free(data);
}
END_TEST

int main(void)
{
	TCase *t = tcase_create("written files");
	TCase *twice = tcase_create("with and without files that have no name");

	tcase_set_timeout(t, 60);
	tcase_add_checked_fixture(t, files_setup, files_teardown);
	tcase_add_test(t, write_to_fifo);
	tcase_add_test(t, append_concurrently);
	tcase_add_test(t, append_that_fails);
	tcase_add_test(t, write_is_one_step);
	tcase_set_timeout(twice, 60);
	tcase_add_checked_fixture(twice, write_setup, NULL);
	tcase_add_loop_test(twice, write_new, 0, 2);
	tcase_add_loop_test(twice, write_replaces, 0, 2);
	tcase_add_loop_test(twice, write_refused, 0, 2);
	tcase_add_loop_test(twice, write_aborted, 0, 2);
	tcase_add_test(twice, write_removes_what_was_left);
	tcase_add_loop_test(twice, write_in_place, 0, 2);
	tcase_add_loop_test(twice, write_keeps_owner, 0, 2);
	tcase_add_loop_test(twice, append, 0, 2);
	Suite *s = suite_create("files_write");
	suite_add_tcase(s, t);
	suite_add_tcase(s, twice);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	const int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
