/* SPDX-License-Identifier: Apache-2.0 */
/* Exports of images: what comes back from one, and what a failed one leaves. */
#include "image_fixture.h"

#include "base/fd.h"
#include "base/fsutil.h"
#include "base/mem.h"
#include "base/str.h"
#include "image/export.h"

#include <dirent.h>
#include <signal.h>

static char dir[] = "/tmp/holt-export-XXXXXX";
static struct image_store *store;

static char *in_dir(const char *name)
{
	char *path = str_printf("%s/%s", dir, name);

	ck_assert_ptr_nonnull(path);
	return path;
}

static void setup(void)
{
	auto_error error = NULL;

	memcpy(dir + strlen(dir) - 6, "XXXXXX", 6);
	ck_assert_ptr_nonnull(mkdtemp(dir));
	auto_free char *path = in_dir("images");
	ck_assert_msg(image_store_open(path, &store, &error) == 0, "%s", holt_error_message(error));
}

static void teardown(void)
{
	image_store_close(store);
	ck_assert_int_eq(fs_remove_tree(AT_FDCWD, dir), 0);
}

static void write_file(const char *path, const void *data, size_t len)
{
	auto_fd fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(fd_write_full(fd, data, len), 0);
}

/* Import a file of the directory; the image is freed by the caller. */
static struct image *import(const char *name, const char *ref)
{
	auto_free char *path = in_dir(name);
	const struct image_import_options o = {.name = ref};
	auto_error error = NULL;
	struct image *img = NULL;

	ck_assert_msg(
		image_import(store, path, &o, &img, &error) == 0, "%s", holt_error_message(error));
	return img;
}

static struct image *import_entries(const struct ent *e, const char *ref)
{
	struct tarbuf b = fixture_tar(e, NULL);
	auto_free char *path = in_dir("in.tar");

	write_file(path, b.data, b.len);
	free(b.data);
	return import("in.tar", ref);
}

static void export_to(const char *ref, const char *name)
{
	auto_free char *path = in_dir(name);
	auto_fd fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	auto_error error = NULL;

	ck_assert_int_ge(fd, 0);
	ck_assert_msg(
		image_export(store, ref, fd, NULL, &error) == 0, "%s", holt_error_message(error));
}

static char *list(const struct image *img)
{
	auto_error error = NULL;
	auto_fd fd = FD_NONE;

	ck_assert_msg(
		image_open_rootfs(store, img, &fd, &error) == 0, "%s", holt_error_message(error));
	return fixture_list(fd);
}

static unsigned count_temp(void)
{
	auto_free char *path = in_dir("images/tmp");
	DIR *d = opendir(path);
	unsigned n = 0;

	ck_assert_ptr_nonnull(d);
	for (const struct dirent *e; (e = readdir(d));)
		n += e->d_name[0] != '.';
	(void)closedir(d);
	return n;
}

static char *read_all(const char *name, size_t *ret_len)
{
	auto_free char *path = in_dir(name);
	char *data = NULL;

	ck_assert_int_eq(fs_read_file(AT_FDCWD, path, 64 << 20, &data, ret_len), 0);
	return data;
}

/* Export, import again: the same files. */
static void expect_return(const struct ent *e)
{
	struct image *first = import_entries(e, "first");

	export_to("first", "out.tar");
	struct image *second = import("out.tar", "second");
	char *a = list(first);
	char *b = list(second);
	ck_assert_str_eq(a, b);
	ck_assert_str_eq(second->name, "second:latest");
	ck_assert_uint_eq(count_temp(), 0);
	free(a);
	free(b);
	image_free(first);
	image_free(second);
}

static char *long_path(char *dst, size_t len)
{
	for (size_t i = 0; i < len; i++)
		dst[i] = i % 201 == 200 ? '/' : (char)('a' + i / 201 % 26);
	dst[len] = 0;
	return dst;
}

START_TEST(every_kind_of_entry_comes_back)
{
	char far[2001];
	char target[4001] = "";

	expect_return(LAYER(
		{.type = 'd', .path = "./", .mode = 0750, .uid = 3, .gid = 4, .mtime_s = 12345},
		ENT_DIR("bin"), {.type = 'f', .path = "bin/sh", .text = "shell", .mode = 04755},
		ENT_HARD("bin/ash", "bin/sh"), ENT_HARD("zz", "bin/sh"), ENT_FILE("empty", ""),
		ENT_LINK("link", "bin/sh"), ENT_HARD("link2", "link"),
		ENT_LINK("dangling", "../no\377where"),
		{.type = 'c', .path = "null", .mode = 0666, .major = 1, .minor = 3},
		ENT_HARD("null2", "null"),
		{.type = 'b', .path = "disk", .mode = 0660, .major = 259, .minor = 70000},
		{.type = 'p', .path = "fifo", .mode = 01600}, ENT_HARD("fifo2", "fifo"),
		{.type = 'f',
			.path = "owned",
			.text = "x",
			.mode = 07777,
			.uid = 4294967294,
			.gid = 2097152,
			.mtime_s = 4294967295},
		{.type = 'd', .path = "attr", .mode = 01777, .xattr = "user.a", .value = "b=c\n"},
		{.type = 'f',
			.path = "attr/cap",
			.text = "y",
			.xattr = "security.capability",
			.value = "\001\377"},
		{.type = 'p', .path = "attr/fifo", .xattr = "trusted.t", .value = ""},
		ENT_FILE("\377\376 bytes\n", "bytes"), ENT_FILE("gr\303\274n", "utf-8"),
		ENT_FILE(long_path(far, 2000), "far"),
		ENT_LINK("longlink", memset(target, 't', 4000))));
}
END_TEST

START_TEST(a_file_of_several_blocks_comes_back_with_its_bytes)
{
	const size_t len = (3 << 20) + 777;
	char *data = malloc(len + 1);
	struct image *img;
	size_t n = 0;

	ck_assert_ptr_nonnull(data);
	for (size_t i = 0; i < len; i++)
		data[i] = (char)('!' + (i * 2654435761u >> 13) % 90);
	data[len] = 0;
	img = import_entries(LAYER(ENT_FILE("big", data)), "big");
	export_to("big", "out.tar");
	auto_free char *tar = read_all("out.tar", &n);
	ck_assert_ptr_nonnull(memmem(tar, n, data, len));
	image_free(img);
	free(data);
}
END_TEST

START_TEST(the_same_image_gives_the_same_bytes_under_its_name)
{
	size_t n = 0;
	size_t m = 0;
	struct image *img = import_entries(
		LAYER(ENT_DIR("d"), ENT_FILE("d/f", "x")), "r.example/a:v1");

	export_to("r.example/a:v1", "one.tar");
	export_to("r.example/a:v1", "two.tar");
	auto_free char *one = read_all("one.tar", &n);
	auto_free char *two = read_all("two.tar", &m);
	ck_assert_uint_eq(n, m);
	ck_assert_mem_eq(one, two, n);
	ck_assert_ptr_nonnull(memmem(one, n, "\"org.opencontainers.image.ref.name\":\"v1\"", 40));
	struct image *again = import("one.tar", NULL);
	ck_assert_str_eq(again->name, "r.example/a:v1");
	ck_assert_uint_eq(again->layers, 1);
	/* What is exported from the export is the export. */
	export_to(again->digest, "three.tar");
	auto_free char *three = read_all("three.tar", &m);
	ck_assert_uint_eq(n, m);
	ck_assert_mem_eq(one, three, n);
	image_free(again);
	image_free(img);
}
END_TEST

static void expect_failure(const char *ref, int fd, const volatile int *cancel, int code)
{
	auto_error error = NULL;

	ck_assert_int_eq(image_export(store, ref, fd, cancel, &error), -code);
	ck_assert_int_eq(holt_error_code(error), code);
	ck_assert_uint_eq(count_temp(), 0);
}

START_TEST(a_failed_export_leaves_nothing_in_the_store)
{
	const volatile int yes = 1;
	int fds[2];
	struct image *img = import_entries(LAYER(ENT_FILE("f", "x")), "a");
	auto_fd full = open("/dev/full", O_WRONLY | O_CLOEXEC);

	(void)signal(SIGPIPE, SIG_IGN);
	ck_assert_int_eq(fd_pipe(fds), 0);
	expect_failure("none", fds[1], NULL, HOLT_ENOT_FOUND);
	expect_failure("a", fds[1], &yes, HOLT_ECANCELLED);
	expect_failure("a", FD_NONE, NULL, err_code_of_errno(EBADF));
	expect_failure("a", full, NULL, err_code_of_errno(ENOSPC));
	close(fds[0]);
	expect_failure("a", fds[1], NULL, err_code_of_errno(EPIPE));
	close(fds[1]);
	image_free(img);
}
END_TEST

/* Wherever the rootfs is damaged, there is an error or an archive, and never a crash. */
START_TEST(damaged_rootfs)
{
	struct image *img = import_entries(
		LAYER(ENT_DIR("d"), ENT_FILE("d/f", "text of a file"), ENT_HARD("g", "d/f"),
			ENT_LINK("l", "d"),
			{.type = 'f', .path = "x", .text = "y", .xattr = "user.a", .value = "b"}),
		"a");
	auto_free char *path = str_printf(
		"%s/images/rootfs/%s.squashfs", dir, img->rootfs_digest + strlen("sha256:"));
	auto_fd null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	unsigned failed = 0;

	ck_assert_int_eq(chmod(path, 0600), 0);
	auto_fd fd = open(path, O_RDWR | O_CLOEXEC);
	ck_assert_int_ge(fd, 0);
	for (off_t at = 0; at < 600; at++) {
		uint8_t was = 0;
		ck_assert_int_eq(pread(fd, &was, 1, at), 1);
		const uint8_t spoilt = was ^ 0xff;
		ck_assert_int_eq(pwrite(fd, &spoilt, 1, at), 1);
		failed += image_export(store, "a", null, NULL, NULL) < 0;
		ck_assert_int_eq(pwrite(fd, &was, 1, at), 1);
	}
	ck_assert_uint_gt(failed, 20);
	ck_assert_uint_eq(count_temp(), 0);
	image_free(img);
}
END_TEST

START_TEST(memory_that_runs_out)
{
	struct image *img = import_entries(
		LAYER(ENT_DIR("d"), ENT_FILE("d/f", "x"), ENT_HARD("g", "d/f")), "a");
	auto_fd null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	int code = -1;

	for (unsigned long nth = 1; code < 0; nth++) {
		auto_error error = NULL;
		mem_fail_at(nth);
		code = image_export(store, "a", null, NULL, &error);
		mem_fail_at(0);
		ck_assert(code == 0 || code == -HOLT_ENO_MEMORY);
		ck_assert_uint_lt(nth, 10000);
	}
	ck_assert_uint_eq(count_temp(), 0);
	image_free(img);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {every_kind_of_entry_comes_back,
		a_file_of_several_blocks_comes_back_with_its_bytes,
		the_same_image_gives_the_same_bytes_under_its_name,
		a_failed_export_leaves_nothing_in_the_store, damaged_rootfs, memory_that_runs_out};

	return fixture_run("export", tests, sizeof tests / sizeof tests[0], setup, teardown, 120);
}
