/* SPDX-License-Identifier: Apache-2.0 */
/* Finding a guest kernel, ordering its modules, packing the initramfs, unpacking the image. All on
 * kernels made here: a header with a release, and ELF files with a .modinfo section. */
#include <check.h>
#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/fsutil.h"
#include "base/mem.h"
#include "base/str.h"
#include "vmm/kernel.h"
#include "vmm/modinfo.h"
#include "vmm/modules.h"
#include "vmm/vmlinux.h"

#define MARKER "~Module signature appended~\n"

static char dir[] = "/tmp/holt-kernel-XXXXXX";

static void setup(void)
{
	strcpy(dir + strlen(dir) - 6, "XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	unsetenv("HOLT_KERNEL");
}

static void teardown(void)
{
	ck_assert_int_eq(fs_remove_tree(AT_FDCWD, dir), 0);
}

/* Write @len bytes to dir/@name, making its directories. */
static void put(const char *name, const void *data, size_t len)
{
	auto_free char *path = str_printf("%s/%s", dir, name);
	auto_free char *parent = str_ndup(path, (size_t)(strrchr(path, '/') - path));
	ck_assert_int_eq(fs_mkdirs(parent), 0);
	ck_assert_int_eq(fs_write_atomic(AT_FDCWD, path, data, len, 0600), 0);
}

static void put_text(const char *name, const char *text)
{
	put(name, text, strlen(text));
}

/* A module file in @buf: ELF header, .modinfo, names, three section headers. Returns its size. */
static size_t make_module(uint8_t buf[1024], const char *depends)
{
	static const char names[] = "\0.modinfo\0.shstrtab";
	char info[256] = "license=GPL";
	size_t info_len = strlen(info) + 1;
	info_len += (size_t)snprintf(info + info_len, 128, "depends=%s", depends) + 1;
	const size_t info_at = sizeof(Elf64_Ehdr);
	const size_t names_at = info_at + info_len;
	const size_t table_at = names_at + sizeof(names);
	const Elf64_Ehdr header = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, 1},
		.e_type = ET_REL,
		.e_machine = EM_X86_64,
		.e_shoff = table_at,
		.e_shentsize = sizeof(Elf64_Shdr),
		.e_shnum = 3,
		.e_shstrndx = 2};
	const Elf64_Shdr table[3] = {[1] = {.sh_name = 1,
					     .sh_type = SHT_PROGBITS,
					     .sh_offset = info_at,
					     .sh_size = info_len},
		[2] = {.sh_name = 10,
			.sh_type = SHT_STRTAB,
			.sh_offset = names_at,
			.sh_size = sizeof(names)}};

	memset(buf, 0, 1024);
	memcpy(buf, &header, sizeof(header));
	memcpy(buf + info_at, info, info_len);
	memcpy(buf + names_at, names, sizeof(names));
	memcpy(buf + table_at, table, sizeof(table));
	return table_at + sizeof(table);
}

static void put_module(const char *release, const char *file, const char *depends)
{
	uint8_t data[1024];
	auto_free char *name = str_printf("lib/modules/%s/kernel/%s", release, file);

	put(name, data, make_module(data, depends));
}

static void put_image(const char *release)
{
	uint8_t image[4096] = {0};
	auto_free char *name = str_printf("boot/vmlinuz-%s", release);

	memcpy(image + 0x202, "HdrS", 4);
	image[0x236] = 1;
	image[0x20e] = 0x00;
	image[0x20f] = 0x04; /* text at 0x600 */
	(void)snprintf((char *)image + 0x600, 128, "%s (builder@host) #1 SMP", release);
	put(name, image, sizeof(image));
}

/* Everything that a usable kernel has; the dependencies are deep, shared, and spelt both ways. */
static void put_kernel(const char *release)
{
	auto_free char *order = str_printf("lib/modules/%s/modules.order", release);
	auto_free char *builtin = str_printf("lib/modules/%s/modules.builtin", release);

	put_image(release);
	put_text(order, "kernel/fs/squashfs.ko\nkernel/fs/overlay.ko\nkernel/v/virtio_net.ko\n"
			"kernel/v/net-failover.ko\nkernel/v/failover.ko\nkernel/v/virtio_blk.ko\n"
			"kernel/v/virtio_console.ko\nkernel/v/virtio_mmio.ko\nkernel/v/virtio.ko\n"
			"kernel/v/virtio_ring.ko\nkernel/v/virtio-rng.ko\n");
	put_text(builtin, "kernel/fs/ext4/ext4.ko\nkernel/fs/jbd2/jbd2.ko\n");
	put_module(release, "fs/squashfs.ko", "");
	put_module(release, "fs/overlay.ko", "jbd2");
	put_module(release, "v/virtio_net.ko", "virtio_ring,virtio,net_failover");
	put_module(release, "v/net-failover.ko", "failover");
	put_module(release, "v/failover.ko", "");
	put_module(release, "v/virtio_blk.ko", "virtio,virtio_ring");
	put_module(release, "v/virtio_console.ko", "virtio,virtio_ring");
	put_module(release, "v/virtio_mmio.ko", "virtio,virtio_ring");
	put_module(release, "v/virtio.ko", "virtio_ring");
	put_module(release, "v/virtio_ring.ko", "");
	put_module(release, "v/virtio-rng.ko", "virtio");
}

static int find(struct kernel *k, holt_error **error)
{
	const char *const near[] = {"/nonexistent", dir, NULL};

	return kernel_find(near, NULL, k, error);
}

START_TEST(modules_come_in_load_order)
{
	static const char *const want[] = {"virtio_ring.ko", "virtio.ko", "virtio_mmio.ko",
		"virtio_console.ko", "virtio_blk.ko", "squashfs.ko", "overlay.ko", "failover.ko",
		"net-failover.ko", "virtio_net.ko", "virtio-rng.ko"};
	struct kernel k = {0};
	auto_error e = NULL;

	put_kernel("6.1.0-test");
	ck_assert_int_eq(find(&k, &e), 0);
	ck_assert_str_eq(k.release, "6.1.0-test");
	ck_assert_uint_eq(strv_len((const char *const *)k.modules), 11);
	/* What is late stands behind all that is not, its dependencies too. */
	ck_assert_uint_lt(k.n_early, 11);
	for (size_t i = 0; k.modules[i]; i++) {
		const bool net = strstr(k.modules[i], "virtio_net") ||
				 strstr(k.modules[i], "failover");
		const bool disk = strstr(k.modules[i], "ext4") ||
				  strstr(k.modules[i], "virtio_blk");
		ck_assert(!net || i >= k.n_early);
		ck_assert(!disk || i < k.n_early);
	}
	for (size_t i = 0; i < 11; i++)
		ck_assert_str_eq(strrchr(k.modules[i], '/') + 1, want[i]);
	kernel_done(&k);
	ck_assert_ptr_null(k.image);
}
END_TEST

START_TEST(newest_usable_kernel_wins)
{
	struct kernel k = {0};
	auto_error e = NULL;

	put_kernel("6.1.0-9");
	put_kernel("6.1.0-10");
	put_image("6.2.0-no-modules");
	ck_assert_int_eq(find(&k, &e), 0);
	ck_assert_str_eq(k.release, "6.1.0-10");
	ck_assert(!k.strip);
	kernel_done(&k);
}
END_TEST

START_TEST(signatures_are_stripped_only_where_the_build_says_so)
{
	struct kernel k = {0};

	put_kernel("6.1.0-t");
	put_text("boot/config-6.1.0-t",
		"CONFIG_MODULE_SIG=y\n# CONFIG_MODULE_SIG_FORCE is not set\n");
	ck_assert_int_eq(find(&k, NULL), 0);
	ck_assert(k.strip);
	kernel_done(&k);
	put_text("boot/config-6.1.0-t", "CONFIG_MODULE_SIG=y\nCONFIG_MODULE_SIG_FORCE=y\n");
	ck_assert_int_eq(find(&k, NULL), 0);
	ck_assert(!k.strip);
	kernel_done(&k);
}
END_TEST

START_TEST(configured_kernel_must_work)
{
	struct kernel k = {0};
	auto_error e = NULL;
	auto_free char *image = str_printf("%s/boot/vmlinuz-6.1.0-t", dir);

	put_kernel("6.1.0-t");
	setenv("HOLT_KERNEL", image, 1);
	ck_assert_int_eq(kernel_find(NULL, NULL, &k, &e), 0);
	ck_assert_str_eq(k.image, image);
	kernel_done(&k);
	setenv("HOLT_KERNEL", dir, 1);
	ck_assert_int_eq(kernel_find(NULL, NULL, &k, &e), 0);
	ck_assert_str_eq(k.image, image);
	kernel_done(&k);

	const char *const near[] = {dir, NULL};
	setenv("HOLT_KERNEL", "/nonexistent/vmlinuz", 1);
	ck_assert_int_eq(kernel_find(near, NULL, &k, &e), -HOLT_ENOT_FOUND);
	ck_assert_str_eq(holt_error_message(e),
		"HOLT_KERNEL is not usable: cannot use kernel '/nonexistent/vmlinuz': "
		"No such file or directory");
	ck_assert_str_eq(holt_error_stage(e), "kernel");
	ck_assert_str_eq(holt_error_object(e), "/nonexistent/vmlinuz");
	ck_assert_str_eq(holt_error_hint(e), "correct HOLT_KERNEL or unset it");
}
END_TEST

START_TEST(named_kernel_is_the_only_one)
{
	struct kernel k = {0};
	auto_error e = NULL;
	auto_free char *image = str_printf("%s/boot/vmlinuz-6.1.0-t", dir);

	put_kernel("6.1.0-t");
	setenv("HOLT_KERNEL", "/nonexistent/vmlinuz", 1);
	ck_assert_int_eq(kernel_find_at(image, NULL, &k, &e), 0);
	ck_assert_str_eq(k.image, image);
	kernel_done(&k);
	ck_assert_int_eq(kernel_find_at(dir, NULL, &k, &e), 0);
	ck_assert_str_eq(k.image, image);
	kernel_done(&k);
	setenv("HOLT_KERNEL", image, 1);
	ck_assert_int_eq(kernel_find_at("/nonexistent", NULL, &k, &e), -HOLT_ENOT_FOUND);
	ck_assert_str_eq(holt_error_message(e),
		"the kernel that was named is not usable: cannot "
		"use kernel '/nonexistent': No such file or directory");
	ck_assert_str_eq(holt_error_object(e), "/nonexistent");
	ck_assert_str_eq(holt_error_stage(e), "kernel");
}
END_TEST

/* Each way in which a kernel can be unusable, with its own text. HOLT_KERNEL keeps the kernels of
 * the machine that runs the tests out of it. */
static void fails(int code, const char *text)
{
	struct kernel k = {0};
	auto_error e = NULL;

	setenv("HOLT_KERNEL", dir, 1);
	ck_assert_int_eq(kernel_find(NULL, NULL, &k, &e), -code);
	ck_assert_msg(strstr(holt_error_message(e), text), "'%s' is not in '%s'", text,
		holt_error_message(e));
	ck_assert_str_eq(holt_error_stage(e), "kernel");
	ck_assert_str_ne(holt_error_hint(e), "");
}

START_TEST(unusable_kernels_say_why)
{
	auto_free char *squashfs = str_printf("%s/lib/modules/6.1.0-t/kernel/fs/squashfs.ko", dir);
	auto_free char *packed = str_printf("%s.xz", squashfs);

	fails(HOLT_ENOT_FOUND, "no kernel image 'vmlinuz-*'");
	put_text("boot/vmlinuz-text", "not a kernel");
	fails(HOLT_EUNSUPPORTED, "is not an x86_64 Linux kernel image");
	ck_assert_int_eq(fs_remove_tree(AT_FDCWD, dir), 0);
	put_image("6.1.0-t");
	fails(HOLT_ENOT_FOUND, "lib/modules/6.1.0-t' is missing");
	put_kernel("6.1.0-t");
	ck_assert_int_eq(rename(squashfs, packed), 0);
	fails(HOLT_EUNSUPPORTED, "squashfs.ko.xz' is compressed");
	ck_assert_int_eq(unlink(packed), 0);
	fails(HOLT_EUNSUPPORTED, "module 'squashfs' is neither in");
	put_text("lib/modules/6.1.0-t/kernel/fs/squashfs.ko", "\x7f"
							      "ELF but not really");
	fails(HOLT_EUNSUPPORTED, "squashfs.ko' is not an x86_64 kernel module");
	put_module("6.1.0-t", "fs/squashfs.ko", "overlay");
	put_module("6.1.0-t", "fs/overlay.ko", "squashfs");
	fails(HOLT_EUNSUPPORTED, "depend on each other in a circle");
	put_module("6.1.0-t", "fs/overlay.ko", "no_such_thing");
	fails(HOLT_EUNSUPPORTED, "module 'no_such_thing' is neither in");
}
END_TEST

START_TEST(cut_modules_are_never_read_beyond)
{
	uint8_t module[1024];
	const size_t len = make_module(module, "a,b");
	bool elf = false;

	ck_assert_str_eq(modinfo_get(module, len, "depends", &elf), "a,b");
	ck_assert(elf);
	ck_assert_str_eq(modinfo_get(module, len, "license", NULL), "GPL");
	ck_assert_ptr_null(modinfo_get(module, len, "depend", NULL));
	for (size_t cut = 0; cut < len; cut++) {
		/* An exact copy, so that a sanitizer sees the end. */
		auto_free uint8_t *copy = mem_dup(module, cut);
		ck_assert_ptr_null(modinfo_get(copy, cut, "depends", NULL));
	}
	for (size_t i = 0; i < len; i++) {
		auto_free uint8_t *copy = mem_dup(module, len);
		copy[i] ^= 0xff;
		const char *value = modinfo_get(copy, len, "depends", NULL);
		ck_assert(!value || (value > (char *)copy && value < (char *)copy + len));
	}
}
END_TEST

START_TEST(signature_is_cut_off_exactly)
{
	uint8_t data[200] = "module";
	const uint8_t info[12] = {[11] = 20};

	ck_assert_uint_eq(module_unsigned_len(data, 100), 100);
	memcpy(data + 100 + 20, info, 12);
	memcpy(data + 100 + 20 + 12, MARKER, strlen(MARKER));
	const size_t len = 100 + 20 + 12 + strlen(MARKER);
	ck_assert_uint_eq(module_unsigned_len(data, len), 100);
	data[100 + 20 + 11] = 121; /* longer than the file: not believed */
	ck_assert_uint_eq(module_unsigned_len(data, len), len);
}
END_TEST

/* The data of one entry of a newc archive, or NULL. */
static const char *cpio_find(
	const char *archive, size_t len, const char *name, size_t *ret_len, unsigned *ret_mode)
{
	for (size_t at = 0; at + 110 < len;) {
		char field[9] = "";
		ck_assert_int_eq(memcmp(archive + at, "070701", 6), 0);
		memcpy(field, archive + at + 14, 8);
		*ret_mode = (unsigned)strtoul(field, NULL, 16);
		memcpy(field, archive + at + 54, 8);
		*ret_len = strtoul(field, NULL, 16);
		memcpy(field, archive + at + 94, 8);
		const size_t name_len = strtoul(field, NULL, 16);
		const char *entry = archive + at + 110;
		const size_t data_at = (at + 110 + name_len + 3) / 4 * 4;
		if (strcmp(entry, name) == 0)
			return archive + data_at;
		at = (data_at + *ret_len + 3) / 4 * 4;
	}
	return NULL;
}

START_TEST(initramfs_holds_agent_and_modules)
{
	struct kernel k = {0};
	auto_free char *cache = str_printf("%s/cache", dir);
	char archive[32768];
	size_t len = 0;
	unsigned mode = 0;
	int fd = FD_NONE;
	int again = FD_NONE;

	put_kernel("6.1.0-t");
	ck_assert_int_eq(find(&k, NULL), 0);
	ck_assert_int_eq(initramfs_open(&k, "agent", 5, cache, &fd, NULL), 0);
	const ssize_t n = fd_read_full(fd, archive, sizeof(archive));
	ck_assert_int_gt(n, 0);
	const char *init = cpio_find(archive, (size_t)n, "init", &len, &mode);
	ck_assert_ptr_nonnull(init);
	ck_assert_uint_eq(len, 5);
	ck_assert_uint_eq(mode, 0100755);
	ck_assert_int_eq(memcmp(init, "agent", 5), 0);
	const char *list = cpio_find(archive, (size_t)n, "modules.list", &len, &mode);
	ck_assert_ptr_nonnull(list);
	ck_assert_int_eq(
		memcmp(list, "/modules/00-virtio_ring.ko\n/modules/01-virtio.ko\n", 49), 0);
	ck_assert_ptr_nonnull(
		cpio_find(archive, (size_t)n, "modules/10-virtio-rng.ko", &len, &mode));
	ck_assert_ptr_nonnull(cpio_find(archive, (size_t)n, "TRAILER!!!", &len, &mode));

	/* The same content is the same file, other content another. */
	struct stat a;
	struct stat b;
	ck_assert_int_eq(initramfs_open(&k, "agent", 5, cache, &again, NULL), 0);
	ck_assert_int_eq(fstat(fd, &a) | fstat(again, &b), 0);
	ck_assert_uint_eq(a.st_ino, b.st_ino);
	close(again);
	ck_assert_int_eq(initramfs_open(&k, "agenT", 5, cache, &again, NULL), 0);
	ck_assert_int_eq(fstat(again, &b), 0);
	ck_assert_uint_ne(a.st_ino, b.st_ino);
	close(again);
	close(fd);
	kernel_done(&k);
}
END_TEST

START_TEST(a_cut_initramfs_in_the_cache_is_replaced)
{
	struct kernel k = {0};
	auto_free char *cache = str_printf("%s/cache", dir);
	struct stat whole;
	struct stat st;
	int fd = FD_NONE;
	char path[64];
	char target[512] = "";

	put_kernel("6.1.0-t");
	ck_assert_int_eq(find(&k, NULL), 0);
	ck_assert_int_eq(initramfs_open(&k, "agent", 5, cache, &fd, NULL), 0);
	ck_assert_int_eq(fstat(fd, &whole), 0);
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	ck_assert_int_gt(readlink(path, target, sizeof(target) - 1), 0);
	close(fd);
	ck_assert_int_eq(truncate(target, 100), 0);
	ck_assert_int_eq(initramfs_open(&k, "agent", 5, cache, &fd, NULL), 0);
	ck_assert_int_eq(fstat(fd, &st), 0);
	ck_assert_int_eq(st.st_size, whole.st_size);
	close(fd);
	kernel_done(&k);
}
END_TEST

/* The inode of the initramfs with this agent; @noted: whether the modules were not looked at. */
static ino_t noted_inode(const char *agent, bool *noted)
{
	const char *const near[] = {dir, NULL};
	auto_free char *cache = str_printf("%s/cache", dir);
	struct kernel k = {0};
	struct stat st;
	int fd = FD_NONE;

	ck_assert_int_eq(kernel_find(near, cache, &k, NULL), 0);
	*noted = k.modules == NULL;
	ck_assert_int_eq(initramfs_open(&k, agent, strlen(agent), cache, &fd, NULL), 0);
	ck_assert_int_eq(fstat(fd, &st), 0);
	close(fd);
	kernel_done(&k);
	return st.st_ino;
}

/* A module with other content, but of the same size and time. */
static void change_module(const char *name)
{
	auto_free char *path = str_printf("%s/%s", dir, name);
	const int fd = open(path, O_WRONLY | O_CLOEXEC);
	struct stat st;

	ck_assert_int_eq(fstat(fd, &st), 0);
	const struct timespec old[2] = {st.st_atim, st.st_mtim};
	ck_assert_int_eq(pwrite(fd, "new", 3, 1000), 3);
	ck_assert_int_eq(futimens(fd, old), 0);
	close(fd);
}

START_TEST(an_initramfs_is_taken_as_it_is_only_while_nothing_has_changed)
{
	static const char module[] = "lib/modules/6.1.0-t/kernel/fs/overlay.ko";
	bool noted = true;

	put_kernel("6.1.0-t");
	const ino_t young = noted_inode("agent", &noted);
	ck_assert(!noted);
	ck_assert_uint_eq(noted_inode("agent", &noted), young);
	ck_assert(!noted); /* it might be written again within the same tick */
	sleep(3);
	ck_assert_uint_eq(noted_inode("agent", &noted), young);
	ck_assert(!noted);
	ck_assert_uint_eq(noted_inode("agent", &noted), young);
	ck_assert(noted);

	const ino_t other = noted_inode("agenT", &noted);
	ck_assert(noted);
	ck_assert_uint_ne(other, young);
	change_module(module);
	const ino_t changed = noted_inode("agenT", &noted);
	ck_assert(!noted);
	ck_assert_uint_ne(changed, other);
	ck_assert_uint_ne(changed, young);
}
END_TEST

START_TEST(lz4_streams_are_unpacked_or_refused)
{
	/* "abc" as literals, then 9 more from 3 back, then "xyz12" as the last literals */
	static const uint8_t good[] = {0x02, 0x21, 0x4c, 0x18, 13, 0, 0, 0, 0x35, 'a', 'b', 'c', 3,
		0, 0x50, 'x', 'y', 'z', '1', '2', 0xff};
	const size_t len = sizeof(good) - 2 + 1;
	char out[64];

	uint8_t stream[sizeof(good)];
	memcpy(stream, good, sizeof(good));
	stream[4] = 12;
	ck_assert_uint_eq(vmlinux_unlz4(stream, len, out, sizeof(out)), 17);
	ck_assert_int_eq(memcmp(out, "abcabcabcabcxyz12", 17), 0);
	ck_assert_uint_eq(vmlinux_unlz4(stream, len, out, 16), 0);
	for (size_t cut = 0; cut < len; cut++) {
		auto_free uint8_t *copy = mem_dup(stream, cut);
		ck_assert_uint_eq(vmlinux_unlz4(copy, cut, out, sizeof(out)), 0);
	}
	stream[12] = 4; /* a match from before the start */
	ck_assert_uint_eq(vmlinux_unlz4(stream, len, out, sizeof(out)), 0);
	stream[12] = 0;
	ck_assert_uint_eq(vmlinux_unlz4(stream, len, out, sizeof(out)), 0);
}
END_TEST

START_TEST(image_that_cannot_be_unpacked_is_given_as_it_is)
{
	struct kernel k = {0};
	auto_free char *cache = str_printf("%s/cache", dir);
	struct stat image;
	struct stat st;
	int fd = FD_NONE;

	put_kernel("6.1.0-t");
	ck_assert_int_eq(find(&k, NULL), 0);
	ck_assert_int_eq(kernel_open(&k, cache, &fd, NULL), 0);
	ck_assert_int_eq(stat(k.image, &image) | fstat(fd, &st), 0);
	ck_assert_uint_eq(st.st_ino, image.st_ino);
	close(fd);
	ck_assert(!vmlinux_bootable("\x7f"
				    "ELF",
		4));
	kernel_done(&k);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {modules_come_in_load_order, newest_usable_kernel_wins,
		signatures_are_stripped_only_where_the_build_says_so, configured_kernel_must_work,
		named_kernel_is_the_only_one, unusable_kernels_say_why,
		cut_modules_are_never_read_beyond, signature_is_cut_off_exactly,
		initramfs_holds_agent_and_modules, a_cut_initramfs_in_the_cache_is_replaced,
		an_initramfs_is_taken_as_it_is_only_while_nothing_has_changed,
		lz4_streams_are_unpacked_or_refused,
		image_that_cannot_be_unpacked_is_given_as_it_is};
	Suite *s = suite_create("kernel");
	TCase *c = tcase_create("kernel");

	tcase_add_checked_fixture(c, setup, teardown);
	tcase_set_timeout(c, 30);
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
		tcase_add_test(c, tests[i]);
	suite_add_tcase(s, c);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	const int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
