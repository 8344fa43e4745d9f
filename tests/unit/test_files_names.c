/* SPDX-License-Identifier: Apache-2.0 */
#include "files_client.h"

/*
 * Names: looking, making directories, moving and removing by the built-in "files", looked at with
 * the file system of the host.
 */

static void ask_mkdir(struct worker *w, const char *path, uint32_t flags, struct answer *a)
{
	ask(w,
		&(struct wire_msg){.op = WIRE_OP_file_mkdir,
			.file_mkdir = {.flags = flags, .path = text(path)}},
		a);
}

static void ask_move(
	struct worker *w, const char *from, const char *to, uint32_t flags, struct answer *a)
{
	ask(w,
		&(struct wire_msg){.op = WIRE_OP_file_move,
			.file_move = {.flags = flags, .from = text(from), .to = text(to)}},
		a);
}

static void ask_remove(struct worker *w, const char *path, uint32_t flags, struct answer *a)
{
	ask(w,
		&(struct wire_msg){.op = WIRE_OP_file_remove,
			.file_remove = {.flags = flags, .path = text(path)}},
		a);
}

static bool exists(const char *name)
{
	struct stat st;

	return lstat(in_base(name), &st) == 0;
}

START_TEST(stat_of_every_type)
{
	struct worker *const w = worker_start(NULL);
	struct answer a;
	static const struct {
		const char *path;
		uint32_t flags;
		uint8_t type;
		uint32_t mode;
		const char *target;
	} cases[] = {
		{"f", 0, WIRE_FILE_REGULAR, 06640, ""},
		{"f", WIRE_STAT_FOLLOW, WIRE_FILE_REGULAR, 06640, ""},
		{"d", 0, WIRE_FILE_DIRECTORY, 01750, ""},
		{".", 0, WIRE_FILE_DIRECTORY, 0700, ""},
		{"p", 0, WIRE_FILE_FIFO, 0600, ""},
		{"/dev/null", 0, WIRE_FILE_CHAR, 0666, ""},
		{"l", 0, WIRE_FILE_SYMLINK, 0777, "d/../f"},
		{"l", WIRE_STAT_FOLLOW, WIRE_FILE_REGULAR, 06640, ""},
		{"dangling", 0, WIRE_FILE_SYMLINK, 0777, "no where\n"},
	};

	local("umask 077; printf 12345 >f; chmod 6640 f; mkdir d; chmod 1750 d; mkfifo p; "
	      "ln -s d/../f l; ln -s \"$(printf 'no where\\nx')\" dangling; "
	      "touch -d '1969-12-31 23:59:58.5 UTC' f");
	local("ln -sfn 'no where\n' dangling");
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		ask_stat(w, cases[i].path, cases[i].flags, &a);
		ck_assert_msg(!a.failed, "%s", a.text);
		ck_assert(a.informed);
		ck_assert_uint_eq(a.info.type, cases[i].type);
		ck_assert_uint_eq(a.info.mode, cases[i].mode);
		ck_assert_str_eq(a.target, cases[i].target);
	}
	ask_stat(w, "f", 0, &a);
	ck_assert_uint_eq(a.info.size, 5);
	ck_assert_int_eq((int64_t)a.info.mtime_ns, -1500000000);
	ck_assert_uint_eq(a.info.uid, geteuid());
	ck_assert_uint_eq(a.info.gid, getegid());
	ask_stat(w, "dangling", WIRE_STAT_FOLLOW, &a);
	is_failure(&a, ENOENT, "stat", "dangling");
	ask_stat(w, "f/x", 0, &a);
	is_failure(&a, ENOTDIR, "stat", "f/x");
	ask_stat(w, "missing", 0, &a);
	is_failure(&a, ENOENT, "stat", "missing");
}
END_TEST

START_TEST(make_directories)
{
	struct worker *const w = worker_of_user();
	struct answer a;
	const uint32_t parents = WIRE_MKDIR_PARENTS;

	local("echo x >f; ln -s f to-f; ln -s nowhere dangling; mkdir real closed; ln -s real "
	      "to-real; chmod 555 closed; "
	      "chmod 777 real");
	ask_mkdir(w, "d", 0, &a);
	is_done(&a);
	ask_mkdir(w, "d", 0, &a);
	is_failure(&a, EEXIST, "mkdir", "d");
	ask_mkdir(w, "d", parents, &a);
	is_done(&a);
	ask_mkdir(w, "x/y", 0, &a);
	is_failure(&a, ENOENT, "mkdir", "x/y");
	ask_mkdir(w, "x//y/./z/", parents, &a);
	is_done(&a);
	ask_mkdir(w, in_base("x/2"), parents, &a);
	is_done(&a);
	ask_mkdir(w, "to-real/in", parents, &a);
	is_done(&a);
	ck_assert(exists("x/y/z") && exists("x/2") && exists("real/in"));
	ask_mkdir(w, "/", parents, &a);
	is_done(&a);
	ask_mkdir(w, ".", parents, &a);
	is_done(&a);
	ask_mkdir(w, "to-real", parents, &a);
	is_done(&a);
	static const struct {
		const char *path;
		int errnum;
	} cases[] = {
		{"f", EEXIST},
		{"to-f", EEXIST},
		{"dangling", EEXIST},
		{"f/d", ENOTDIR},
		{"f/d/e", ENOTDIR},
		{"dangling/d/e", ENOTDIR},
		{"closed/d", EACCES},
		{"closed/d/e", EACCES},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		ask_mkdir(w, cases[i].path, parents, &a);
		is_failure(&a, cases[i].errnum, "mkdir", cases[i].path);
	}
	local("[ \"$(stat -c %a x x/y/z d | sort -u)\" = 755 ]");
}
END_TEST

START_TEST(moves)
{
	struct worker *const w = worker_start(NULL);
	struct answer a;

	local("echo f >f; echo g >g; mkdir d d/in e; echo x >e/x; ln -s f l");
	ask_move(w, "f", "g", WIRE_MOVE_NOREPLACE, &a);
	is_failure(&a, EEXIST, "move", "g");
	ask_move(w, "f", "new\nname", WIRE_MOVE_NOREPLACE, &a);
	is_done(&a);
	ask_move(w, "new\nname", "g", 0, &a);
	is_done(&a);
	local("[ $(cat g) = f ] && [ ! -e f ]");
	/* The link itself, and no directory is moved into. */
	ask_move(w, "l", "l2", 0, &a);
	is_done(&a);
	ask_move(w, "g", "e", 0, &a);
	is_failure(&a, EISDIR, "move", "e");
	ask_move(w, "d", "e", 0, &a);
	is_failure(&a, ENOTEMPTY, "move", "e");
	ask_move(w, "d/in", "d/in/deeper", 0, &a);
	is_failure(&a, EINVAL, "move", "d/in");
	ask_move(w, "missing", "g", 0, &a);
	is_failure(&a, ENOENT, "move", "missing");
	ask_move(w, "g", "missing/g", 0, &a);
	is_failure(&a, ENOENT, "move", "missing/g");
	ask_move(w, "e/x", "g/x", 0, &a);
	is_failure(&a, ENOTDIR, "move", "g/x");
	ask_remove(w, "e/x", 0, &a);
	is_done(&a);
	ask_move(w, "d", "e", 0, &a);
	is_done(&a);
	local("[ -d e/in ] && [ ! -e d ] && [ $(readlink l2) = f ]");
	ask_move(w, "g", "/proc/g", 0, &a);
	is_failure(&a, EXDEV, "move", "g");
}
END_TEST

START_TEST(removes_one)
{
	struct worker *const w = worker_start(NULL);
	struct answer a;

	local("mkdir d e e/in; echo x >f; ln -s d l; ln -s nowhere dangling");
	ask_remove(w, "l/", 0, &a);
	is_failure(&a, ENOTDIR, "remove", "l/");
	ask_remove(w, "f/", 0, &a);
	is_failure(&a, ENOTDIR, "remove", "f/");
	ask_remove(w, "e", 0, &a);
	is_failure(&a, ENOTEMPTY, "remove", "e");
	static const char *const gone[] = {"l", "dangling", "f", "d//", "e/in"};
	for (size_t i = 0; i < sizeof(gone) / sizeof(gone[0]); i++) {
		ask_remove(w, gone[i], 0, &a);
		is_done(&a);
		ask_remove(w, gone[i], i % 2 ? WIRE_REMOVE_RECURSIVE : 0, &a);
		is_failure(&a, ENOENT, "remove", gone[i]);
		ask_remove(w, gone[i], WIRE_REMOVE_FORCE, &a);
		is_done(&a);
	}
	ask_remove(w, "no/where", 0, &a);
	is_failure(&a, ENOENT, "remove", "no/where");
	ask_remove(w, "no/where", WIRE_REMOVE_FORCE | WIRE_REMOVE_RECURSIVE, &a);
	is_done(&a);
	/* What is no name in a directory is refused before anything is lost. */
	static const char *const refused[] = {
		"/", "//", ".", "./", "..", "e/.", "e/..", "e/./", "e/../"};
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		ask_remove(w, refused[i], WIRE_REMOVE_FORCE | WIRE_REMOVE_RECURSIVE, &a);
		is_failure(&a, EINVAL, "remove", refused[i]);
	}
	local("[ \"$(ls -A)\" = e ]");
}
END_TEST

START_TEST(removes_trees)
{
	struct worker *const w = worker_start(NULL);
	struct answer a;
	const uint32_t recursive = WIRE_REMOVE_RECURSIVE;

	/* Links out of it, odd names, more names than one read gives, and what may not be written.
	 */
	local("mkdir keep t t/a t/a/b; echo x >keep/f; ln -s ../keep t/l1; ln -s \"$PWD/keep\" "
	      "t/a/l2; mkfifo t/p; echo x >\"t/$(printf 'new\\nline')\"; echo x >t/-rf; "
	      "chmod 400 t/-rf; mkdir t/many; cd t/many; "
	      "seq -f 'a-rather-long-name-of-number-%g' 600 | xargs touch; "
	      "seq -f 'd%g' 600 | xargs mkdir");
	ask_remove(w, "t", 0, &a);
	is_failure(&a, ENOTEMPTY, "remove", "t");
	ask_remove(w, in_base("t/"), recursive, &a);
	is_done(&a);
	ck_assert(!exists("t"));
	local("[ $(cat keep/f) = x ]; ln -s keep l");
	ask_remove(w, "l", recursive, &a);
	is_done(&a);
	local("echo x >f");
	ask_remove(w, "f", recursive, &a);
	is_done(&a);
	local("[ $(cat keep/f) = x ] && [ \"$(ls -A)\" = keep ]");
}
END_TEST

START_TEST(removes_as_far_as_allowed)
{
	struct worker *const w = worker_of_user();
	struct answer a;
	const uint32_t recursive = WIRE_REMOVE_RECURSIVE;

	ask_mkdir(w, "t/closed/in", WIRE_MKDIR_PARENTS, &a);
	is_done(&a);
	ask_mkdir(w, "t/hidden", 0, &a);
	is_done(&a);
	local("chmod 500 t/closed; chmod 000 t/hidden");
	ask_remove(w, "t/closed", recursive, &a);
	is_failure(&a, EACCES, "remove", "t/closed/in");
	/* An empty one needs not be read. */
	ask_remove(w, "t/hidden", recursive, &a);
	is_done(&a);
	ask_mkdir(w, "t/hidden", 0, &a);
	is_done(&a);
	local("echo x >t/hidden/f; chmod 000 t/hidden");
	ask_remove(w, "t/hidden", recursive, &a);
	is_failure(&a, EACCES, "remove", "t/hidden");
	local("chmod 700 t/hidden t/closed");
	ask_remove(w, "t", recursive, &a);
	if (is_root())
		/* Root made the file, in the user's directory. */
		ck_assert(!a.failed || a.errnum == EACCES);
	is_done(&a);
	ck_assert(!exists("t"));
}
END_TEST

/* @n directories within each other; by steps, since their path is longer than one may be. */
static void make_deep(const char *name, int n)
{
	int fd = open(base, O_PATH | O_CLOEXEC);

	for (int i = 0; i < n; i++) {
		const char *const step = i == 0 ? name : "a-step-of-some-length";
		ck_assert_int_eq(mkdirat(fd, step, 0755), 0);
		const int next = openat(fd, step, O_PATH | O_CLOEXEC);
		ck_assert_int_ge(next, 0);
		(void)close(fd);
		fd = next;
	}
	ck_assert_int_eq(mkdirat(fd, "last", 0755), 0);
	(void)close(fd);
}

START_TEST(removes_deep_trees)
{
	struct worker *const w = worker_start(NULL);
	struct answer a;

	make_deep("deep", 999);
	ask_remove(w, "deep", WIRE_REMOVE_RECURSIVE, &a);
	is_done(&a);
	ck_assert(!exists("deep"));
	make_deep("deeper", 1000);
	ask_remove(w, "deeper", WIRE_REMOVE_RECURSIVE, &a);
	ck_assert(a.failed);
	ck_assert_uint_eq(a.class, WIRE_FILE_FAIL_LIMIT);
	ck_assert_str_eq(a.object, "deeper");
	ck_assert(exists("deeper"));
	/* All descriptors were given back, by the time that it has answered again. */
	ask_stat(w, "deeper", 0, &a);
	is_done(&a);
	ck_assert_int_le(count_fds((pid_t)w->run.pid), 6);
}
END_TEST

/* Somebody keeps putting links into the place of directories, and the other way round. */
START_TEST(removes_while_links_are_swapped_in)
{
	struct worker *const w = worker_start(NULL);
	struct answer a;

	local("mkdir keep; cd keep; seq 50 | xargs touch");
	for (int n = 0; n < 10; n++) {
		local("seq -f 't/%g/a' 0 39 | xargs mkdir -p; ln -s ../keep swap");
		const pid_t pid = fork();
		if (pid == 0) {
			char name[32];
			(void)!chdir(base);
			for (int i = 0; i < 40; i++) {
				(void)snprintf(name, sizeof(name), "t/%d", 39 - i);
				(void)renameat2(AT_FDCWD, "swap", AT_FDCWD, name, RENAME_EXCHANGE);
				(void)renameat2(AT_FDCWD, "swap", AT_FDCWD, name, RENAME_EXCHANGE);
			}
			_exit(0);
		}
		ask_remove(w, "t", WIRE_REMOVE_RECURSIVE, &a);
		int status = 0;
		ck_assert_int_eq(waitpid(pid, &status, 0), pid);
		/* A directory may have been put back behind it. */
		ck_assert(!a.failed || a.errnum == ENOTEMPTY);
		local("[ $(ls keep | wc -l) = 50 ] && rm -rf t swap");
	}
}
END_TEST

int main(void)
{
	TCase *t = tcase_create("names of files");

	tcase_set_timeout(t, 60);
	tcase_add_checked_fixture(t, files_setup, files_teardown);
	tcase_add_test(t, stat_of_every_type);
	tcase_add_test(t, make_directories);
	tcase_add_test(t, moves);
	tcase_add_test(t, removes_one);
	tcase_add_test(t, removes_trees);
	tcase_add_test(t, removes_as_far_as_allowed);
	tcase_add_test(t, removes_deep_trees);
	tcase_add_test(t, removes_while_links_are_swapped_in);
	return run_cases("files_names", t);
}
