/* SPDX-License-Identifier: Apache-2.0 */
/* Empty disks: what is in them, how little they take, many makers at once. */
#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fsutil.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/str.h"
#include "vmm/disk.h"

#define SIZE         (UINT64_C(1) << 30)
#define ROOM_KIB     1024 /* what an empty disk may take */
#define MAKERS       8
#define KILLED_BYTES (32 << 20) /* of data in a disk whose copiers die */
#define KILLED_TIMES 24
#define EXT4_MAGIC   0x438 /* offset of the magic number */

static char dir[] = "/tmp/holt-disk-XXXXXX";
static char cache[64];
static int dirfd_;

static void setup(void)
{
	strcpy(dir + strlen(dir) - 6, "XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	(void)snprintf(cache, sizeof(cache), "%s/cache", dir);
	dirfd_ = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ck_assert_int_ge(dirfd_, 0);
}

static void teardown(void)
{
	close(dirfd_);
	ck_assert_int_eq(fs_remove_tree(AT_FDCWD, dir), 0);
}

static void assert_good(const char *name)
{
	auto_free char *path = str_printf("%s/%s", dir, name);
	const char *const fsck[] = {"e2fsck", "-f", "-n", path, NULL};
	auto_error e = NULL;
	struct stat st;
	uint8_t magic[2] = {0};

	ck_assert_int_eq(fstatat(dirfd_, name, &st, 0), 0);
	ck_assert_uint_eq((uint64_t)st.st_size, SIZE);
	ck_assert_uint_eq(st.st_mode & 07777, 0600);
	ck_assert_int_lt(st.st_blocks / 2, ROOM_KIB);
	const int fd = open(path, O_RDONLY | O_CLOEXEC);
	ck_assert_int_eq(pread(fd, magic, 2, EXT4_MAGIC), 2);
	ck_assert_uint_eq(magic[0], 0x53);
	ck_assert_uint_eq(magic[1], 0xef);
	close(fd);
	const int r = proc_run("/sbin/e2fsck", fsck, 60000, NULL, &e);
	ck_assert_msg(r == 0, "%s", holt_error_message(e));
}

START_TEST(disk_is_sparse_and_clean)
{
	auto_error e = NULL;
	const int r = disk_create(cache, dirfd_, "a", SIZE, &e);

	ck_assert_msg(r == 0, "%s", holt_error_message(e));
	assert_good("a");
	/* The second one is a copy; the first may be written to without it noticing. */
	ck_assert_int_eq(disk_create(cache, dirfd_, "b", SIZE, &e), 0);
	const int fd = openat(dirfd_, "a", O_WRONLY | O_CLOEXEC);
	ck_assert_int_eq(pwrite(fd, "xxxx", 4, EXT4_MAGIC), 4);
	close(fd);
	assert_good("b");
	ck_assert_int_eq(disk_create(cache, dirfd_, "c", SIZE, &e), 0);
	assert_good("c");
}
END_TEST

START_TEST(existing_disk_is_never_overwritten)
{
	auto_error e = NULL;
	struct stat before;
	struct stat after;

	ck_assert_int_eq(disk_create(cache, dirfd_, "a", SIZE, NULL), 0);
	ck_assert_int_eq(fstatat(dirfd_, "a", &before, 0), 0);
	ck_assert_int_eq(disk_create(cache, dirfd_, "a", SIZE, &e), -HOLT_EEXISTS);
	ck_assert_int_eq(fstatat(dirfd_, "a", &after, 0), 0);
	ck_assert_uint_eq(before.st_ino, after.st_ino);
	ck_assert_str_eq(holt_error_message(e), "cannot create disk 'a': File exists");
	ck_assert_str_eq(holt_error_stage(e), "disk");
	ck_assert_str_eq(holt_error_object(e), "a");
}
END_TEST

START_TEST(odd_sizes_are_refused)
{
	static const uint64_t sizes[] = {0, 4096, (UINT64_C(64) << 20) - 4096,
		(UINT64_C(64) << 20) + 1, (UINT64_C(16) << 40) + 4096, UINT64_MAX};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		auto_error e = NULL;
		ck_assert_int_eq(disk_create(cache, dirfd_, "a", sizes[i], &e), -HOLT_EINVALID);
		ck_assert_ptr_nonnull(strstr(holt_error_message(e), "between 64 MiB and 16 TiB"));
		ck_assert_int_ne(faccessat(dirfd_, "a", F_OK, 0), 0);
	}
}
END_TEST

START_TEST(leftover_of_a_killed_maker_is_replaced)
{
	auto_free char *temp = str_printf("%s/disk-%llu.ext4.tmp", cache, (unsigned long long)SIZE);

	ck_assert_int_eq(fs_mkdirs(cache), 0);
	ck_assert_int_eq(fs_write_atomic(AT_FDCWD, temp, "half", 4, 0600), 0);
	ck_assert_int_eq(disk_create(cache, dirfd_, "a", SIZE, NULL), 0);
	assert_good("a");
	ck_assert_int_ne(access(temp, F_OK), 0);
}
END_TEST

START_TEST(half_a_disk_of_a_killed_maker_is_in_nobodys_way)
{
	struct stat st;

	/* What it leaves has another name than a disk. */
	ck_assert_int_eq(fs_write_atomic(dirfd_, "a.tmp", "half", 4, 0600), 0);
	ck_assert_int_eq(disk_create(cache, dirfd_, "a", SIZE, NULL), 0);
	ck_assert_int_eq(fstatat(dirfd_, "a", &st, 0), 0);
	ck_assert_int_eq(st.st_size, SIZE);
	ck_assert_int_lt(fstatat(dirfd_, "a.tmp", &st, 0), 0);
}
END_TEST

START_TEST(many_makers_share_one_cache)
{
	pid_t pids[MAKERS];

	for (int i = 0; i < MAKERS; i++) {
		pids[i] = fork();
		if (pids[i] == 0) {
			char name[16];
			(void)snprintf(name, sizeof(name), "d%d", i);
			_exit(disk_create(cache, dirfd_, name, SIZE, NULL) == 0 ? 0 : 1);
		}
		ck_assert_int_gt(pids[i], 0);
	}
	for (int i = 0; i < MAKERS; i++) {
		int status = -1;
		ck_assert_int_eq(waitpid(pids[i], &status, 0), pids[i]);
		ck_assert_int_eq(status, 0);
	}
	for (int i = 0; i < MAKERS; i++) {
		char name[16];
		(void)snprintf(name, sizeof(name), "d%d", i);
		assert_good(name);
	}
}
END_TEST

static int source_disk(void)
{
	auto_error e = NULL;
	const int r = disk_create(cache, dirfd_, "template", SIZE, &e);

	ck_assert_msg(r == 0, "%s", holt_error_message(e));
	const int fd = openat(dirfd_, "template", O_RDONLY | O_CLOEXEC);
	ck_assert_int_ge(fd, 0);
	return fd;
}

static ino_t inode_of(const char *name)
{
	struct stat st;

	ck_assert_int_eq(fstatat(dirfd_, name, &st, 0), 0);
	return st.st_ino;
}

START_TEST(clone_makes_or_replaces)
{
	auto_error e = NULL;
	const int source = source_disk();

	ck_assert_int_eq(fs_write_atomic(dirfd_, "a.tmp", "half", 4, 0600), 0);
	ck_assert_int_eq(disk_clone(source, dirfd_, "a", &e), 0);
	assert_good("a");
	const ino_t first = inode_of("a");
	ck_assert_int_eq(fs_write_atomic(dirfd_, "b", "another disk", 12, 0600), 0);
	ck_assert_int_eq(disk_clone(source, dirfd_, "b", &e), 0);
	assert_good("b");
	/* Writing to a copy changes neither the source nor another copy. */
	const int fd = openat(dirfd_, "b", O_WRONLY | O_CLOEXEC);
	ck_assert_int_eq(pwrite(fd, "xxxx", 4, EXT4_MAGIC), 4);
	close(fd);
	assert_good("template");
	assert_good("a");
	ck_assert_uint_eq(inode_of("a"), first);
	ck_assert_int_ne(faccessat(dirfd_, "a.tmp", F_OK, 0), 0);
	ck_assert_int_ne(faccessat(dirfd_, "b.tmp", F_OK, 0), 0);
	close(source);
}
END_TEST

static unsigned count_files(void)
{
	DIR *d = opendir(dir);
	unsigned n = 0;

	ck_assert_ptr_nonnull(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

/* K25: whenever a copier dies, its copy is there as a whole or not at all. */
START_TEST(killed_copier_leaves_nothing)
{
	const int source = source_disk();
	auto_free char *data = mem_zalloc(KILLED_BYTES);
	const unsigned before = count_files();
	struct stat st;
	unsigned cut = 0;

	memset(data, 'x', KILLED_BYTES);
	const int full = openat(dirfd_, "template", O_WRONLY | O_CLOEXEC);
	ck_assert_int_eq(pwrite(full, data, KILLED_BYTES, SIZE / 2), KILLED_BYTES);
	close(full);
	for (unsigned i = 0; i < KILLED_TIMES; i++) {
		const pid_t pid = fork();
		if (pid == 0)
			_exit(disk_clone(source, dirfd_, "k", NULL) == 0 ? 0 : 1);
		(void)usleep(i * 500);
		(void)kill(pid, SIGKILL);
		ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
		const bool there = fstatat(dirfd_, "k", &st, 0) == 0;
		ck_assert_uint_eq(count_files(), before + there);
		ck_assert(!there || st.st_blocks * 512 >= KILLED_BYTES);
		if (there)
			ck_assert_int_eq(unlinkat(dirfd_, "k", 0), 0);
		else
			cut++;
	}
	ck_assert_uint_gt(cut, 0);
	close(source);
}
END_TEST

/* In a child with a limit for files that is below the disk's size, but above what is copied first.
 */
static void clone_fails(int source, const char *name)
{
	const pid_t pid = fork();

	if (pid == 0) {
		const struct rlimit lim = {SIZE / 2, SIZE / 2};
		auto_error e = NULL;
		(void)signal(SIGXFSZ, SIG_IGN);
		if (setrlimit(RLIMIT_FSIZE, &lim) < 0)
			_exit(2);
		if (disk_clone(source, dirfd_, name, &e) >= 0)
			_exit(3);
		if (holt_error_errno(e) != EFBIG || strcmp(holt_error_stage(e), "disk") != 0)
			_exit(4);
		_exit(strcmp(holt_error_object(e), name) == 0 ? 0 : 5);
	}
	int status = -1;
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
}

START_TEST(clone_that_fails_changes_nothing)
{
	const int source = source_disk();

	clone_fails(source, "a");
	ck_assert_int_ne(faccessat(dirfd_, "a", F_OK, 0), 0);
	ck_assert_int_eq(disk_clone(source, dirfd_, "a", NULL), 0);
	const ino_t before = inode_of("a");
	clone_fails(source, "a");
	ck_assert_uint_eq(inode_of("a"), before);
	assert_good("a");
	ck_assert_int_ne(faccessat(dirfd_, "a.tmp", F_OK, 0), 0);
	close(source);
}
END_TEST

/* With a full file system: the typed error and its hint, and the space is free again. */
START_TEST(clone_without_space)
{
	auto_free char *mnt = str_printf("%s/small", dir);
	auto_error e = NULL;
	const int source = source_disk();

	ck_assert_int_eq(mkdir(mnt, 0700), 0);
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
		mount("tmpfs", mnt, "tmpfs", 0, "size=64k") < 0) {
		fprintf(stderr, "no tmpfs for this user: only the size limit is tested\n");
		close(source);
		return;
	}
	const int small = open(mnt, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ck_assert_int_eq(disk_clone(source, small, "a", &e), -HOLT_ELIMIT);
	ck_assert_int_eq(holt_error_errno(e), ENOSPC);
	ck_assert_str_ne(holt_error_hint(e), "");
	struct statvfs st;
	ck_assert_int_eq(fstatvfs(small, &st), 0);
	ck_assert_uint_eq(st.f_bfree, st.f_blocks);
	close(small);
	close(source);
	ck_assert_int_eq(umount2(mnt, MNT_DETACH), 0);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {disk_is_sparse_and_clean, existing_disk_is_never_overwritten,
		odd_sizes_are_refused, leftover_of_a_killed_maker_is_replaced,
		half_a_disk_of_a_killed_maker_is_in_nobodys_way, many_makers_share_one_cache,
		clone_makes_or_replaces, killed_copier_leaves_nothing,
		clone_that_fails_changes_nothing, clone_without_space};
	Suite *s = suite_create("disk");
	TCase *c = tcase_create("disk");

	tcase_add_checked_fixture(c, setup, teardown);
	tcase_set_timeout(c, 100);
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
		tcase_add_test(c, tests[i]);
	suite_add_tcase(s, c);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	const int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
