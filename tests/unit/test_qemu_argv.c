/* SPDX-License-Identifier: Apache-2.0 */
/* QEMU's command line: golden files, limits, and that both sides mean the same ports. */
#include <check.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fsutil.h"
#include "base/mem.h"
#include "base/str.h"
#include "vmm/qemu_argv.h"
#include "vmm/qemu_facts.h"
#include "wire/wire.h"

#define GOLDEN_MAX 65536

static const struct vm_spec typical = {.memory_mib = 512,
	.cpus = 1,
	.tsc_khz = 2300000,
	.mac = {0x02, 0x68, 0x6f, 0x6c, 0x74, 0x01},
	.kernel_fd = 41,
	.initrd_fd = 42,
	.rootfs_fd = 43,
	.disk_fd = 44,
	.lock_fd = 45,
	.disk_bytes = UINT64_C(10) << 30};

/* One word a line. */
static char *words(const struct vm_spec *spec)
{
	auto_buf text = BUF_INIT(GOLDEN_MAX);
	char **argv = NULL;

	ck_assert_int_eq(qemu_argv_build(spec, &argv, NULL), 0);
	for (size_t i = 0; argv[i]; i++)
		ck_assert_int_eq(buf_printf(&text, "%s\n", argv[i]), 0);
	strv_free(argv);
	return str_dup((char *)text.data);
}

/* With HOLT_GOLDEN_UPDATE=1 the file is written instead of compared. */
static void golden(const char *name, const struct vm_spec *spec)
{
	auto_free char *path = str_printf("%s/%s", GOLDEN_DIR, name);
	auto_free char *text = words(spec);
	auto_free char *want = NULL;

	if (getenv("HOLT_GOLDEN_UPDATE"))
		ck_assert_int_eq(fs_write_atomic(AT_FDCWD, path, text, strlen(text), 0644), 0);
	ck_assert_int_eq(fs_read_file(AT_FDCWD, path, GOLDEN_MAX, &want, NULL), 0);
	ck_assert_str_eq(text, want);
}

START_TEST(command_lines_are_as_written_down)
{
	struct vm_spec spec = typical;

	golden("qemu-tcg.txt", &spec);
	spec.loud = true;
	golden("qemu-loud.txt", &spec);
	spec.loud = false;
	spec.kvm = true;
	spec.cpus = 4;
	spec.memory_mib = 2048;
	golden("qemu-kvm.txt", &spec);
	spec = typical;
	spec.origin = VM_FREEZE;
	golden("qemu-freeze.txt", &spec);
	spec.bare = true;
	golden("qemu-bare.txt", &spec);
	spec.origin = VM_CLONE;
	golden("qemu-clone.txt", &spec);
}
END_TEST

/* A template is found by these words, so they are the same for all boxes of a shape. */
START_TEST(templates_do_not_depend_on_the_box)
{
	static const enum vm_origin origins[] = {VM_FREEZE, VM_CLONE};

	for (size_t i = 0; i < sizeof(origins) / sizeof(origins[0]); i++) {
		struct vm_spec one = typical;
		one.origin = origins[i];
		struct vm_spec other = one;
		other.mac[5] ^= 0xff;
		other.loud = true;
		other.memory_fd = 46;
		other.state_fd = 47;
		other.disk_bytes *= 2;
		auto_free char *a = words(&one);
		auto_free char *b = words(&other);
		ck_assert_str_eq(a, b);
		other.memory_mib++;
		auto_free char *c = words(&other);
		ck_assert_str_ne(a, c);
	}
}
END_TEST

/* What is given up last has its place at the end, in the words of either version. */
START_TEST(chroot_is_said_as_the_version_has_it)
{
	struct vm_spec spec = typical;

	spec.chroot_dir = "/empty";
	auto_free char *old = words(&spec);
	spec.run_with = true;
	auto_free char *newer = words(&spec);
	spec.chroot_dir = NULL;
	auto_free char *none = words(&spec);

	ck_assert_ptr_nonnull(strstr(old, "\n-chroot\n/empty\n"));
	ck_assert_ptr_nonnull(strstr(newer, "\n-run-with\nchroot=/empty\n"));
	ck_assert_ptr_null(strstr(newer, "-chroot"));
	ck_assert_ptr_null(strstr(none, "chroot"));
}
END_TEST

/* Two programs, of which one tells of the option; and the second in the place of the first. */
START_TEST(options_are_read_in_the_program)
{
	char dir[] = "/tmp/holt-qemu-facts-XXXXXX";
	ck_assert_ptr_nonnull(mkdtemp(dir));
	auto_free char *program = str_printf("%s/qemu", dir);
	auto_free char *cache = str_printf("%s/cache", dir);
	static const char old[] = "\x7f"
				  "ELF -chroot dir";
	static const char newer[] = "\x7f"
				    "ELF -run-with [async-teardown=on|off][,chroot=dir]";

	ck_assert_int_eq(setenv("HOLT_QEMU", program, 1), 0);
	ck_assert(!qemu_has_run_with(cache));
	ck_assert_int_eq(fs_write_atomic(AT_FDCWD, program, old, sizeof old, 0700), 0);
	ck_assert(!qemu_has_run_with(cache));
	ck_assert_int_eq(fs_write_atomic(AT_FDCWD, program, newer, sizeof newer, 0700), 0);
	for (int i = 0; i < 2; i++)
		ck_assert(qemu_has_run_with(cache));
	ck_assert(qemu_has_run_with(NULL));
	/* What is known is not read again: nothing but the text is another. */
	auto_free char *known = str_printf("%s/qemu.json", cache);
	auto_free char *text = NULL;
	size_t len = 0;
	ck_assert_int_eq(fs_read_file(AT_FDCWD, known, GOLDEN_MAX, &text, &len), 0);
	char *at = strstr(text, "true");
	ck_assert_ptr_nonnull(at);
	auto_free char *lie = str_printf("%.*sfalse%s", (int)(at - text), text, at + 4);
	ck_assert_int_eq(fs_write_atomic(AT_FDCWD, known, lie, strlen(lie), 0600), 0);
	ck_assert(!qemu_has_run_with(cache));
	(void)unlink(known);
	(void)rmdir(cache);
	(void)unlink(program);
	ck_assert_int_eq(rmdir(dir), 0);
	(void)unsetenv("HOLT_QEMU");
}
END_TEST

START_TEST(shapes_outside_the_limits_are_refused)
{
	static const struct {
		uint32_t memory_mib;
		uint32_t cpus;
		const char *message;
	} bad[] = {
		{127, 1, "127 MiB of memory is not between 128 and 1048576"},
		{1048577, 1, "1048577 MiB of memory is not between 128 and 1048576"},
		{512, 0, "0 cpus is not between 1 and 64"},
		{512, 65, "65 cpus is not between 1 and 64"},
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		auto_error e = NULL;
		char **argv = NULL;
		struct vm_spec spec = typical;
		spec.memory_mib = bad[i].memory_mib;
		spec.cpus = bad[i].cpus;
		ck_assert_int_eq(qemu_argv_build(&spec, &argv, &e), -HOLT_EINVALID);
		ck_assert_ptr_null(argv);
		ck_assert_str_eq(holt_error_message(e), bad[i].message);
		ck_assert_str_ne(holt_error_hint(e), "");
		ck_assert_str_eq(holt_error_stage(e), "vm start");
	}
}
END_TEST

START_TEST(ports_are_those_of_the_wire)
{
	ck_assert_int_eq(QEMU_PORT_CONTROL, WIRE_PORT_CONTROL);
	ck_assert_int_eq(QEMU_PORT_BULK, WIRE_PORT_BULK);
	ck_assert_str_eq(QEMU_BARE_ENV, WIRE_BARE_ENV);
}
END_TEST

START_TEST(the_path_of_the_memory_is_its_descriptor)
{
	auto_free char *path = str_printf("/proc/self/fd/%d", QEMU_FD_MEMORY);

	ck_assert_str_eq(path, QEMU_MEMORY_PATH);
}
END_TEST

START_TEST(unknown_tsc_is_not_claimed)
{
	struct vm_spec spec = typical;

	auto_free char *with = qemu_kernel_cmdline(&spec);
	ck_assert_ptr_nonnull(strstr(with, "tsc_early_khz=2300000"));
	spec.tsc_khz = 0;
	auto_free char *without = qemu_kernel_cmdline(&spec);
	ck_assert_ptr_null(strstr(without, "tsc"));
	ck_assert_uint_lt(strlen(with), 2048); /* what an x86 kernel takes */
}
END_TEST

START_TEST(lack_of_memory_is_an_error)
{
	for (unsigned long nth = 1;; nth++) {
		auto_error e = NULL;
		char **argv = NULL;
		mem_fail_at(nth);
		const int r = qemu_argv_build(&typical, &argv, &e);
		mem_fail_at(0);
		if (r == 0) {
			strv_free(argv);
			ck_assert_uint_gt(nth, 20);
			return;
		}
		ck_assert_int_eq(r, -HOLT_ENO_MEMORY);
		ck_assert_ptr_null(argv);
		ck_assert_uint_lt(nth, 1000);
	}
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {command_lines_are_as_written_down,
		templates_do_not_depend_on_the_box, the_path_of_the_memory_is_its_descriptor,
		shapes_outside_the_limits_are_refused, chroot_is_said_as_the_version_has_it,
		options_are_read_in_the_program, ports_are_those_of_the_wire,
		unknown_tsc_is_not_claimed, lack_of_memory_is_an_error};
	Suite *s = suite_create("qemu_argv");
	TCase *c = tcase_create("qemu_argv");

	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
		tcase_add_test(c, tests[i]);
	suite_add_tcase(s, c);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	const int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
