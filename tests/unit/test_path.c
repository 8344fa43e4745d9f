/* SPDX-License-Identifier: Apache-2.0 */
/* Opening beneath a directory (K08): by openat2 and by walking, against links and against a race.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/fsutil.h"
#include "base/path.h"

#define RACE_SWAPS 10000

static char dir[64];
static int top; /* holds root/ and outside/ */
static int root;

static void write_file(int at, const char *name, const char *text)
{
	const int fd = openat(at, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(fd_write_full(fd, text, strlen(text)), 0);
	close(fd);
}

static void setup(void)
{
	snprintf(dir, sizeof dir, "/tmp/holt-path-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	top = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ck_assert_int_eq(mkdirat(top, "root", 0700), 0);
	ck_assert_int_eq(mkdirat(top, "outside", 0700), 0);
	root = openat(top, "root", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ck_assert_int_ge(root, 0);
	ck_assert_int_eq(mkdirat(root, "a", 0700), 0);
	ck_assert_int_eq(mkdirat(root, "a/b", 0700), 0);
	write_file(root, "a/b/file", "inside");
	write_file(top, "outside/file", "outside");
	ck_assert_int_eq(symlinkat("a", root, "to-dir"), 0);
	ck_assert_int_eq(symlinkat("../outside", root, "out"), 0);
	ck_assert_int_eq(symlinkat("/etc", root, "abs"), 0);
	ck_assert_int_eq(symlinkat("a/b/file", root, "to-file"), 0);
	ck_assert_int_eq(symlinkat("nowhere", root, "dangling"), 0);
}

static void teardown(void)
{
	path_force_walk(false);
	close(root);
	close(top);
	ck_assert_int_eq(fs_remove_tree(AT_FDCWD, dir), 0);
}

/* Open and close: 0 or -errno. */
static int try_open(const char *path, int flags)
{
	const int fd = path_open_beneath(root, path, flags, 0600);

	if (fd < 0)
		return fd;
	ck_assert_int_eq(fcntl(fd, F_GETFD), FD_CLOEXEC);
	close(fd);
	return 0;
}

START_TEST(opens_and_refuses)
{
	static const struct {
		const char *path;
		int flags;
		int want;
		int or_else; /* what the other way may say as well */
	} cases[] = {
		{"a/b/file", O_RDONLY, 0, 0},
		{"a//b/./file", O_RDONLY, 0, 0},
		{"./a", O_RDONLY | O_DIRECTORY, 0, 0},
		{".", O_RDONLY | O_DIRECTORY, 0, 0},
		{"a/b/", O_RDONLY, 0, 0},
		{"a/b/.", O_RDONLY, 0, 0},
		{"a/b/file/", O_RDONLY, -ENOTDIR, 0},
		{"a/b/file/x", O_RDONLY, -ENOTDIR, 0},
		{"a/none", O_RDONLY, -ENOENT, 0},
		{"", O_RDONLY, -ENOENT, 0},
		{"a/new", O_WRONLY | O_CREAT | O_EXCL, 0, 0},
		{"a/b/file", O_WRONLY | O_CREAT | O_EXCL, -EEXIST, 0},
		{"/etc/passwd", O_RDONLY, -EXDEV, 0},
		{"..", O_RDONLY, -EXDEV, 0},
		{"a/../a", O_RDONLY, -EXDEV, 0},
		{"../outside/file", O_RDONLY, -EXDEV, 0},
		{"out", O_RDONLY, -ELOOP, 0},
		{"out", O_RDONLY | O_DIRECTORY, -ELOOP, -ENOTDIR},
		{"out/file", O_RDONLY, -ELOOP, -ENOTDIR},
		{"abs/passwd", O_RDONLY, -ELOOP, -ENOTDIR},
		{"to-dir/b/file", O_RDONLY, -ELOOP, -ENOTDIR},
		{"to-file", O_RDONLY, -ELOOP, 0},
		{"to-file", O_WRONLY | O_TRUNC, -ELOOP, 0},
		{"to-file", O_PATH, -ELOOP, 0},
		{"to-file", O_PATH | O_NOFOLLOW, 0, 0},
		{"dangling", O_WRONLY | O_CREAT, -ELOOP, 0},
		{"out/new", O_WRONLY | O_CREAT | O_EXCL, -ELOOP, -ENOTDIR},
	};

	path_force_walk(_i);
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		const int r = try_open(cases[i].path, cases[i].flags);
		ck_assert_msg(r == cases[i].want || (cases[i].or_else && r == cases[i].or_else),
			"'%s' with %x: %d instead of %d", cases[i].path, (unsigned)cases[i].flags,
			r, cases[i].want);
	}
	ck_assert_int_ne(faccessat(top, "outside/new", F_OK, 0), 0);
	ck_assert_int_ne(faccessat(root, "nowhere", F_OK, 0), 0);
}
END_TEST

START_TEST(the_kernel_is_asked_and_the_walk_is_tested)
{
	/* Without openat2 both rounds of every test are the walk, which is worth knowing. */
	const long r = syscall(SYS_openat2, -1, "x", NULL, 0);

	ck_assert_int_eq(r, -1);
	if (errno == ENOSYS || errno == EPERM)
		fprintf(stderr, "note: no openat2 here\n");
	else
		ck_assert_int_eq(errno, EINVAL);
}
END_TEST

START_TEST(parents_and_directories)
{
	const char *name = NULL;

	path_force_walk(_i);
	int fd = path_parent_beneath(root, "a/b/new", &name);
	ck_assert_int_ge(fd, 0);
	ck_assert_str_eq(name, "new");
	ck_assert_int_eq(faccessat(fd, "file", F_OK, 0), 0);
	close(fd);
	fd = path_parent_beneath(root, "new", &name);
	ck_assert_int_ge(fd, 0);
	close(fd);
	ck_assert_int_eq(path_parent_beneath(root, ".", &name), -EXDEV);
	ck_assert_int_eq(path_parent_beneath(root, "a/..", &name), -EXDEV);
	ck_assert_int_eq(path_parent_beneath(root, "", &name), -ENOENT);
	ck_assert_int_eq(path_parent_beneath(root, "/", &name), -EXDEV);
	ck_assert_int_lt(path_parent_beneath(root, "out/x", &name), 0);

	ck_assert_int_eq(path_mkdir_beneath(root, "a/made", 0700), 0);
	ck_assert_int_eq(path_mkdir_beneath(root, "a/made/deeper/", 0700), 0);
	ck_assert_int_eq(path_mkdir_beneath(root, "a/made", 0700), -EEXIST);
	ck_assert_int_eq(path_mkdir_beneath(root, "none/made", 0700), -ENOENT);
	ck_assert_int_lt(path_mkdir_beneath(root, "out/made", 0700), 0);
	ck_assert_int_ne(faccessat(top, "outside/made", F_OK, 0), 0);
}
END_TEST

START_TEST(paths_longer_than_one_call_takes)
{
	enum { LEVELS = 40, STEP = 201 };
	static char path[LEVELS * STEP + 8];
	size_t len = 0;

	path_force_walk(_i);
	for (int i = 0; i < LEVELS; i++) {
		memset(path + len, 'd', STEP - 1);
		path[len + STEP - 1] = 0;
		ck_assert_int_eq(path_mkdir_beneath(root, path, 0700), 0);
		len += STEP;
		path[len - 1] = '/';
	}
	ck_assert_uint_gt(len, PATH_MAX);
	memcpy(path + len, "file", 5);
	ck_assert_int_eq(try_open(path, O_WRONLY | O_CREAT | O_EXCL), 0);
	ck_assert_int_eq(try_open(path, O_RDONLY), 0);
}
END_TEST

START_TEST(names_longer_than_a_name)
{
	static char name[NAME_MAX + 2];

	path_force_walk(_i);
	memset(name, 'n', NAME_MAX + 1);
	ck_assert_int_eq(try_open(name, O_RDONLY), -ENAMETOOLONG);
}
END_TEST

START_TEST(components)
{
	static const char path[] = ".//a/./bc/.d/.";
	size_t at = 0;
	size_t len;

	ck_assert_mem_eq(path_next(path, &at, &len), "a/", 2);
	ck_assert_uint_eq(len, 1);
	ck_assert_mem_eq(path_next(path, &at, &len), "bc/", 3);
	ck_assert_uint_eq(len, 2);
	ck_assert_mem_eq(path_next(path, &at, &len), ".d/", 3);
	ck_assert_ptr_null(path_next(path, &at, &len));
}
END_TEST

START_TEST(mode_of_a_path_descriptor)
{
	struct stat st;
	const int fd = path_open_beneath(root, "a/b/file", O_PATH, 0);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(path_chmod_fd(fd, 0440), 0);
	ck_assert_int_eq(fstat(fd, &st), 0);
	ck_assert_int_eq(st.st_mode & 07777, 0440);
	close(fd);
}
END_TEST

static atomic_bool stop_swapping;
static atomic_int swaps;

/* "a/b" is now a directory, now a link to the outside. */
static void *swap(void *arg)
{
	(void)arg;
	while (!atomic_load(&stop_swapping)) {
		if (renameat(root, "a/b", root, "a/real") < 0 ||
			renameat(root, "evil", root, "a/b") < 0 ||
			renameat(root, "a/b", root, "evil") < 0 ||
			renameat(root, "a/real", root, "a/b") < 0)
			return arg;
		atomic_fetch_add(&swaps, 1);
	}
	return NULL;
}

START_TEST(k08_race_of_directory_and_link)
{
	pthread_t thread;
	int inside = 0;
	void *failed;
	char text[16];

	path_force_walk(_i);
	atomic_store(&stop_swapping, false);
	atomic_store(&swaps, 0);
	ck_assert_int_eq(symlinkat("../outside", root, "evil"), 0);
	ck_assert_int_eq(pthread_create(&thread, NULL, swap, &top), 0);
	for (int i = 0; atomic_load(&swaps) < RACE_SWAPS; i++) {
		const int fd = path_open_beneath(root, "a/b/file", O_RDONLY, 0);
		if (fd >= 0) {
			ck_assert_int_eq(fd_read_full(fd, text, sizeof text), 6);
			ck_assert_mem_eq(text, "inside", 6);
			inside++;
			close(fd);
		}
		const int made = path_open_beneath(root, "a/b/new", O_WRONLY | O_CREAT, 0600);
		if (made >= 0)
			close(made);
	}
	atomic_store(&stop_swapping, true);
	ck_assert_int_eq(pthread_join(thread, &failed), 0);
	ck_assert_ptr_null(failed);
	ck_assert_int_gt(inside, 0);
	ck_assert_int_ne(faccessat(top, "outside/new", F_OK, 0), 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("path");
	TCase *tc = tcase_create("path");

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_set_timeout(tc, 60);
	/* Twice: by openat2 and by walking. */
	tcase_add_loop_test(tc, opens_and_refuses, 0, 2);
	tcase_add_test(tc, the_kernel_is_asked_and_the_walk_is_tested);
	tcase_add_loop_test(tc, parents_and_directories, 0, 2);
	tcase_add_loop_test(tc, paths_longer_than_one_call_takes, 0, 2);
	tcase_add_loop_test(tc, names_longer_than_a_name, 0, 2);
	tcase_add_test(tc, components);
	tcase_add_test(tc, mode_of_a_path_descriptor);
	tcase_add_loop_test(tc, k08_race_of_directory_and_link, 0, 2);
	suite_add_tcase(s, tc);
	SRunner *sr = srunner_create(s);
	srunner_run_all(sr, CK_NORMAL);
	const int failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
