/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a clone's QEMU holds of its template: through no descriptor and no mapping of its it can be
 * written to. QEMU is started with files of zeros: it waits for a state before its first
 * instruction, when all files are open already. As this user and, for root, as "nobody" too.
 */
#include <check.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/fsutil.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/str.h"
#include "vmm/qemu_argv.h"
#include "vmm/vm.h"

#define MEMORY_MIB 128
#define DISK_BYTES (UINT64_C(64) << 20)
#define NOBODY     65534
#define FDS_SEEN   256 /* numbers of descriptors that are looked at */
#define WAIT_MS    60000

static char dir[64];

static int file(const char *name, uint64_t size, mode_t mode, int flags)
{
	auto_free char *path = str_printf("%s/%s", dir, name);
	const int made = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	ck_assert_int_ge(made, 0);
	ck_assert_int_eq(ftruncate(made, (off_t)size), 0);
	ck_assert_int_eq(fchmod(made, mode), 0);
	close(made);
	const int fd = open(path, flags | O_CLOEXEC);
	ck_assert_int_ge(fd, 0);
	return fd;
}

static struct vm_spec clone_spec(void)
{
	return (struct vm_spec){.origin = VM_CLONE,
		.memory_mib = MEMORY_MIB,
		.cpus = 1,
		.kernel_fd = FD_NONE,
		.initrd_fd = FD_NONE,
		.rootfs_fd = file("rootfs", DISK_BYTES, 0400, O_RDONLY),
		.disk_fd = file("disk", DISK_BYTES, 0600, O_RDWR),
		.lock_fd = file("lock", 0, 0600, O_RDWR),
		.memory_fd = file("memory", (uint64_t)MEMORY_MIB << 20, 0400, O_RDONLY),
		.state_fd = file("state", 4096, 0400, O_RDONLY),
		.disk_bytes = DISK_BYTES};
}

static void spec_done(const struct vm_spec *spec)
{
	const int fds[] = {
		spec->rootfs_fd, spec->disk_fd, spec->lock_fd, spec->memory_fd, spec->state_fd};

	for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++)
		(void)fd_close(fds[i]);
}

/* Answers come from QEMU's main loop, so after that the machine is complete. */
static void await_machine(const struct vm *vm)
{
	static const char ask[] = "{\"execute\":\"qmp_capabilities\"}\n"
				  "{\"execute\":\"query-status\",\"id\":7}\n";
	char text[8192] = "";
	size_t len = 0;

	ck_assert_int_eq(fd_write_full(vm->qmp_fd, ask, sizeof ask - 1), 0);
	while (!strstr(text, "\"id\": 7")) {
		struct pollfd p = {.fd = vm->qmp_fd, .events = POLLIN};
		ck_assert_int_eq(poll(&p, 1, WAIT_MS), 1);
		const ssize_t n = read(vm->qmp_fd, text + len, sizeof text - 1 - len);
		ck_assert_msg(n > 0, "QEMU ended: %zd, '%s'", n, text);
		len += (size_t)n;
	}
	ck_assert_ptr_nonnull(strstr(text, "\"inmigrate\""));
}

static bool same_file(int fd, int other)
{
	struct stat a;
	struct stat b;

	ck_assert_int_eq(fstat(fd, &a), 0);
	ck_assert_int_eq(fstat(other, &b), 0);
	return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/* Whoever has taken over QEMU has these descriptors; try to alter the file by each. */
static unsigned attack(const struct vm *vm, int target)
{
	unsigned found = 0;

	for (int nr = 0; nr < FDS_SEEN; nr++) {
		auto_fd fd = (int)syscall(SYS_pidfd_getfd, vm->proc.pidfd, nr, 0u);
		if (fd < 0) {
			ck_assert_int_eq(errno, EBADF);
			continue;
		}
		if (!same_file(fd, target))
			continue;
		found++;
		ck_assert_int_eq(fcntl(fd, F_GETFL) & O_ACCMODE, O_RDONLY);
		ck_assert_int_lt(pwrite(fd, "x", 1, 0), 0);
		ck_assert_int_lt(ftruncate(fd, 0), 0);
		ck_assert_int_lt(
			fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), 0);
		ck_assert_ptr_eq(mmap(NULL, 4096, PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
	}
	return found;
}

/* Its mappings of the file: private, and one of them writable, which is the guest's memory. */
static void assert_mappings(const struct vm *vm, int target)
{
	auto_free char *path = str_printf("/proc/%d/maps", (int)vm->proc.pid);
	FILE *maps = fopen(path, "re");
	char line[512];
	unsigned private = 0;
	struct stat st;

	ck_assert_ptr_nonnull(maps);
	ck_assert_int_eq(fstat(target, &st), 0);
	while (fgets(line, sizeof line, maps)) {
		char perms[8];
		unsigned long inode = 0;
		ck_assert_int_eq(sscanf(line, "%*s %7s %*s %*s %lu", perms, &inode), 2);
		if (inode != st.st_ino || !strstr(line, dir))
			continue;
		ck_assert_int_eq(perms[3], 'p');
		private += perms[1] == 'w';
	}
	(void)fclose(maps);
	ck_assert_uint_eq(private, 1);
}

static void check_clone(void)
{
	const struct vm_spec spec = clone_spec();
	struct vm vm = VM_INIT;
	auto_error e = NULL;
	const int r = vm_engine_qemu.start(&spec, &vm, &e);

	ck_assert_msg(r == 0, "%s", holt_error_message(e));
	await_machine(&vm);
	ck_assert_uint_ge(attack(&vm, spec.memory_fd), 1);
	ck_assert_uint_eq(attack(&vm, spec.state_fd), 1);
	assert_mappings(&vm, spec.memory_fd);
	/* What made it open the memory so is loaded, or the file of mode 0400 could not be mapped,
	 * and gone from the descriptors. */
	auto_fd shim = open(SHIM, O_RDONLY | O_CLOEXEC);
	ck_assert_int_ge(shim, 0);
	ck_assert_uint_eq(attack(&vm, shim), 0);
	vm_kill(&vm, NULL);
	spec_done(&spec);
}

static void setup(void)
{
	(void)snprintf(dir, sizeof dir, "/tmp/holt-qemu-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void teardown(void)
{
	ck_assert_int_eq(fs_remove_tree(AT_FDCWD, dir), 0);
}

START_TEST(clone_cannot_write_its_template)
{
	check_clone();
}
END_TEST

START_TEST(nor_can_one_of_an_ordinary_user)
{
	if (geteuid() != 0)
		return; /* the test before was that */
	ck_assert_int_eq(chown(dir, NOBODY, NOBODY), 0);
	ck_assert_int_eq(setgroups(0, NULL), 0);
	ck_assert_int_eq(setresgid(NOBODY, NOBODY, NOBODY), 0);
	ck_assert_int_eq(setresuid(NOBODY, NOBODY, NOBODY), 0);
	check_clone();
}
END_TEST

/* The typed errors of @spec. */
static void assert_refused(const struct vm_spec *spec, int code, const char *word)
{
	struct vm vm = VM_INIT;
	auto_error e = NULL;

	ck_assert_int_eq(vm_engine_qemu.start(spec, &vm, &e), -code);
	ck_assert_ptr_nonnull(strstr(holt_error_message(e), word));
	ck_assert_str_eq(holt_error_stage(e), "vm start");
	ck_assert_int_eq(vm.proc.pid, 0);
}

START_TEST(files_that_do_not_fit_are_refused)
{
	const struct vm_spec good = clone_spec();
	struct vm_spec bad = good;

	bad.memory_mib++;
	assert_refused(
		&bad, HOLT_EIO, "template's memory has 134217728 bytes instead of 135266304");
	bad = good;
	bad.memory_fd = file("writable", (uint64_t)MEMORY_MIB << 20, 0600, O_RDWR);
	assert_refused(&bad, HOLT_EINTERNAL, "reading only");
	close(bad.memory_fd);
	bad = good;
	bad.state_fd = FD_NONE;
	assert_refused(&bad, HOLT_EINTERNAL, "reading only");
	spec_done(&good);
}
END_TEST

/* The only test in a copy of this program that has nothing beside it. */
START_TEST(without_shim)
{
	const struct vm_spec spec = clone_spec();

	assert_refused(&spec, HOLT_ENOT_FOUND, "cannot open 'holt-open.so'");
	spec_done(&spec);
}
END_TEST

START_TEST(missing_shim_is_a_typed_error)
{
	auto_free char *copy = str_printf("%s/copy", dir);
	const char *const argv[] = {copy, "without-shim", NULL};
	auto_error e = NULL;
	auto_fd self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	const int fd = open(copy, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0700);

	ck_assert_int_eq(fs_copy_sparse(self, fd), 0);
	close(fd);
	const int r = proc_run(copy, argv, WAIT_MS, NULL, &e);
	ck_assert_msg(r == 0, "%s", holt_error_message(e));
}
END_TEST

int main(int argc, char **argv)
{
	const TTest *const tests[] = {clone_cannot_write_its_template,
		nor_can_one_of_an_ordinary_user, missing_shim_is_a_typed_error,
		files_that_do_not_fit_are_refused};
	const TTest *const of_copy[] = {without_shim};
	const bool copy = argc == 2 && strcmp(argv[1], "without-shim") == 0;
	const TTest *const *run = copy ? of_copy : tests;
	const size_t n = copy ? 1 : sizeof(tests) / sizeof(tests[0]);
	Suite *s = suite_create("qemu");
	TCase *c = tcase_create("qemu");

	tcase_add_checked_fixture(c, setup, teardown);
	tcase_set_timeout(c, 100);
	for (size_t i = 0; i < n; i++)
		tcase_add_test(c, run[i]);
	suite_add_tcase(s, c);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	const int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
