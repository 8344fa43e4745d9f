/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store of templates without machines: made-up files are sealed as those of a machine are, and
 * then looked for, spoiled, listed, pruned. What machines have to do with it is in
 * tests/vm/template.bats.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/fsutil.h"
#include "box/disk_origin.h"
#include "box/template_files.h"
#include "box/template_image.h"

#define MEMORY_BYTES 65536
#define NS_PER_S     1000000000

static char root[64];
static struct holt_home *home;
static const char *const digest =
	"sha256:00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

static void setup(void)
{
	strcpy(root, "/tmp/holt-templates-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(root));
	ck_assert_int_eq(home_open(&(struct home_wish){.path = root}, &home, NULL), 0);
}

static void teardown(void)
{
	home_close(home);
	ck_assert_int_eq(fs_remove_tree(AT_FDCWD, root), 0);
}

/* ---- making them up ---- */

static void put(int dir, const char *name, size_t len)
{
	char block[4096];
	const int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	ck_assert_int_ge(fd, 0);
	memset(block, 'm', sizeof block);
	for (; len > 0; len -= len < sizeof block ? len : sizeof block)
		ck_assert_int_gt(write(fd, block, len < sizeof block ? len : sizeof block), 0);
	close(fd);
}

static int open_key(const char *key)
{
	const int fd = openat(home->templates_fd, key, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	ck_assert_int_ge(fd, 0);
	return fd;
}

/* "n" many times is the key of template @n; the higher, the later used. */
static const char *key_of(char n)
{
	static char key[TEMPLATE_KEY_LEN + 1];

	memset(key, n, TEMPLATE_KEY_LEN);
	return key;
}

static void make(char n, bool bare)
{
	const struct template_want w = {.image = "demo",
		.rootfs_digest = digest,
		.bare = bare,
		.memory_mib = 512,
		.cpus = 1,
		.disk_bytes = 1 << 30};
	const struct timespec times[2] = {{.tv_sec = 1000 + n}, {.tv_sec = 1000 + n}};

	ck_assert_int_eq(mkdirat(home->templates_fd, key_of(n), 0700), 0);
	const int dir = open_key(key_of(n));
	put(dir, TEMPLATE_MEMORY, MEMORY_BYTES);
	put(dir, TEMPLATE_STATE, 5000);
	if (!bare)
		put(dir, TEMPLATE_DISK, 8192);
	ck_assert_int_eq(template_files_seal(dir, &w, 1234), 0);
	ck_assert_int_eq(utimensat(dir, TEMPLATE_FACTS, times, 0), 0);
	close(dir);
}

static bool is_there(char n)
{
	return faccessat(home->templates_fd, key_of(n), F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* ---- opening ---- */

START_TEST(what_is_sealed_is_opened)
{
	struct template t = TEMPLATE_INIT;
	struct template_info *list = NULL;
	struct stat st;
	size_t n = 0;

	make('1', false);
	ck_assert_int_eq(template_open(home, key_of('1'), &t, NULL), 0);
	ck_assert_str_eq(t.key, key_of('1'));
	ck_assert_uint_eq(strlen(t.generation), 32);
	ck_assert_int_eq(fstat(t.memory_fd, &st), 0);
	ck_assert_int_eq(st.st_mode & 0777, 0400);
	ck_assert_int_eq(fcntl(t.memory_fd, F_GETFL) & O_ACCMODE, O_RDONLY);
	ck_assert_int_ge(t.state_fd, 0);
	ck_assert_int_ge(t.disk_fd, 0);
	template_done(&t);

	ck_assert_int_eq(template_list(home, &list, &n, NULL), 0);
	ck_assert_uint_eq(n, 1);
	ck_assert_str_eq(list[0].image, "demo");
	ck_assert_str_eq(list[0].rootfs_digest, digest);
	ck_assert_uint_eq(list[0].memory_mib, 512);
	ck_assert_uint_eq(list[0].build_ms, 1234);
	ck_assert_uint_ge(list[0].size_bytes, MEMORY_BYTES);
	/* Opening is a use. */
	ck_assert_int_gt(list[0].used_ns, INT64_C(1700000000) * NS_PER_S);
	template_list_free(list, n);
}
END_TEST

START_TEST(a_bare_one_has_no_disk)
{
	struct template t = TEMPLATE_INIT;

	make('1', true);
	ck_assert_int_eq(template_open(home, key_of('1'), &t, NULL), 0);
	ck_assert_int_lt(t.disk_fd, 0);
	template_done(&t);
}
END_TEST

static void cut_memory(int dir)
{
	ck_assert_int_eq(fchmodat(dir, TEMPLATE_MEMORY, 0600, 0), 0);
	const int fd = openat(dir, TEMPLATE_MEMORY, O_WRONLY | O_CLOEXEC);
	ck_assert_int_eq(ftruncate(fd, MEMORY_BYTES - 1), 0);
	close(fd);
}

static void change(int dir, const char *name, bool keep_times)
{
	struct stat st;

	ck_assert_int_eq(fchmodat(dir, name, 0600, 0), 0);
	const int fd = openat(dir, name, O_WRONLY | O_CLOEXEC);
	ck_assert_int_eq(fstat(fd, &st), 0);
	ck_assert_int_eq(pwrite(fd, "X", 1, 4000), 1);
	const struct timespec times[2] = {st.st_atim, st.st_mtim};
	if (keep_times)
		ck_assert_int_eq(futimens(fd, times), 0);
	close(fd);
}

static void change_memory(int dir)
{
	change(dir, TEMPLATE_MEMORY, false);
}

static void change_state(int dir)
{
	change(dir, TEMPLATE_STATE, true);
}

static void change_disk(int dir)
{
	change(dir, TEMPLATE_DISK, false);
}

static void lose_disk(int dir)
{
	ck_assert_int_eq(unlinkat(dir, TEMPLATE_DISK, 0), 0);
}

static void link_memory(int dir)
{
	ck_assert_int_eq(renameat(dir, TEMPLATE_MEMORY, dir, "elsewhere"), 0);
	ck_assert_int_eq(symlinkat("elsewhere", dir, TEMPLATE_MEMORY), 0);
}

static void write_facts(int dir, const char *text)
{
	ck_assert_int_eq(fs_replace(dir, TEMPLATE_FACTS, text, strlen(text), 0600), 0);
}

static void facts_of_noise(int dir)
{
	write_facts(dir, "\xff\xfe{");
}

static void facts_of_nothing(int dir)
{
	write_facts(dir, "");
}

static void facts_of_little(int dir)
{
	write_facts(dir, "{\"format\": \"" TEMPLATE_FORMAT "\", \"bare\": true}");
}

static void facts_of_the_future(int dir)
{
	char *text = NULL;

	ck_assert_int_eq(fs_read_file(dir, TEMPLATE_FACTS, 16384, &text, NULL), 0);
	char *format = strstr(text, "\"format\":\"" TEMPLATE_FORMAT "\"");
	ck_assert_ptr_nonnull(format);
	format[strlen("\"format\":\"")] = '9';
	write_facts(dir, text);
	free(text);
}

static void lose_facts(int dir)
{
	ck_assert_int_eq(unlinkat(dir, TEMPLATE_FACTS, 0), 0);
}

static void (*const spoilers[])(int dir) = {cut_memory, change_memory, change_state, change_disk,
	lose_disk, link_memory, facts_of_noise, facts_of_nothing, facts_of_little,
	facts_of_the_future, lose_facts};

START_TEST(what_is_not_as_it_was_made_is_removed)
{
	struct template t = TEMPLATE_INIT;
	auto_error error = NULL;

	make('1', false);
	const int dir = open_key(key_of('1'));
	spoilers[_i](dir);
	close(dir);
	ck_assert_int_eq(template_open(home, key_of('1'), &t, &error), -HOLT_ENOT_FOUND);
	ck_assert_int_lt(t.memory_fd, 0);
	ck_assert(!is_there('1'));
}
END_TEST

/* ---- keys ---- */

static void check_other(const struct template_want *w, const char *first)
{
	char key[TEMPLATE_KEY_LEN + 1];

	ck_assert_int_eq(template_key(w, key, NULL), 0);
	ck_assert_str_ne(key, first);
}

static struct keeper_directories some_directories(const char *owner)
{
	struct keeper_directories d = {.n = 2, .len = 6, .paths = "/a\0/b"};

	(void)snprintf(d.owner, sizeof d.owner, "%s", owner);
	return d;
}

/* What is stored with one is enough to tell whether a start of today would look for it. */
START_TEST(the_key_of_a_described_one_is_its_own)
{
	struct template_want w = {.image = "demo",
		.rootfs_digest = digest,
		.memory_mib = 512,
		.cpus = 1,
		.disk_bytes = 1 << 30,
		.directories = some_directories("me")};
	struct template_facts f = {0};
	char key[TEMPLATE_KEY_LEN + 1];
	char again[TEMPLATE_KEY_LEN + 1];

	put(home->fd, "kernel", 100);
	auto_fd kernel = openat(home->fd, "kernel", O_RDONLY | O_CLOEXEC);
	w.kernel_fd = w.initrd_fd = kernel;
	ck_assert_int_eq(template_key(&w, key, NULL), 0);
	make('1', false);
	const int dir = open_key(key_of('1'));
	ck_assert_int_eq(template_facts_read(dir, &f), 0);
	ck_assert_str_eq(f.info.directories, "");
	template_facts_done(&f);
	ck_assert_int_eq(template_files_seal(dir, &w, 1), 0);
	ck_assert_int_eq(template_facts_read(dir, &f), 0);
	close(dir);
	w.directories.n = 0;
	ck_assert_int_eq(template_key_again(&w, f.info.directories, again, NULL), 0);
	ck_assert_str_eq(again, key);
	template_facts_done(&f);
}
END_TEST

START_TEST(whatever_a_machine_is_made_of_is_in_its_key)
{
	char key[TEMPLATE_KEY_LEN + 1];
	char again[TEMPLATE_KEY_LEN + 1];

	put(home->fd, "kernel", 100);
	put(home->fd, "other", 100);
	auto_fd kernel = openat(home->fd, "kernel", O_RDONLY | O_CLOEXEC);
	auto_fd other = openat(home->fd, "other", O_RDONLY | O_CLOEXEC);
	const struct template_want base = {.image = "demo",
		.rootfs_digest = digest,
		.memory_mib = 512,
		.cpus = 1,
		.disk_bytes = 1 << 30,
		.kernel_fd = kernel,
		.initrd_fd = kernel};
	struct template_want w = base;

	ck_assert_int_eq(template_key(&base, key, NULL), 0);
	/* How an image is called does not matter. */
	w.image = "another name";
	ck_assert_int_eq(template_key(&w, again, NULL), 0);
	ck_assert_str_eq(key, again);
	w = base, w.bare = true;
	check_other(&w, key);
	w = base, w.memory_mib = 513;
	check_other(&w, key);
	w = base, w.cpus = 2;
	check_other(&w, key);
	w = base, w.disk_bytes++;
	check_other(&w, key);
	w = base, w.kvm = true;
	check_other(&w, key);
	w = base, w.kernel_fd = other;
	check_other(&w, key);
	w = base, w.initrd_fd = other;
	check_other(&w, key);
	w = base, w.rootfs_digest = "sha256:0";
	check_other(&w, key);
	w = base, w.directories = some_directories("me");
	check_other(&w, key);
	ck_assert_int_eq(template_key(&w, again, NULL), 0);
	w.directories = some_directories("you");
	check_other(&w, again);
	w = base, w.directories = some_directories("me"), w.directories.paths[1] = 'x';
	check_other(&w, again);
}
END_TEST

/* ---- removing ---- */

START_TEST(those_used_longest_ago_go_first)
{
	size_t n = 0;
	uint64_t bytes = 0;

	make('2', true);
	make('1', false);
	make('3', true);
	ck_assert_int_eq(template_prune(home, UINT64_MAX, &n, &bytes, NULL), 0);
	ck_assert_uint_eq(n, 0);
	/* Room for two. */
	ck_assert_int_eq(template_prune(home, (uint64_t)MEMORY_BYTES * 3 - 1, &n, &bytes, NULL), 0);
	ck_assert_uint_eq(n, 1);
	ck_assert_uint_ge(bytes, MEMORY_BYTES);
	ck_assert(!is_there('1') && is_there('2') && is_there('3'));
	/* The one used last stays with any budget of the home, not with any that is asked for. */
	home->template_bytes = 1;
	template_keep_budget(home);
	ck_assert(!is_there('2') && is_there('3'));
	ck_assert_int_eq(template_prune(home, 0, &n, NULL, NULL), 0);
	ck_assert_uint_eq(n, 1);
	ck_assert(!is_there('3'));
}
END_TEST

START_TEST(one_is_removed_by_the_beginning_of_its_key)
{
	auto_error none = NULL;
	auto_error many = NULL;

	make('a', true);
	ck_assert_int_eq(template_image_remove(home, "abcd", &none), -HOLT_ENOT_FOUND);
	ck_assert_str_ne(holt_error_hint(none), "");
	/* Too short to be meant. */
	ck_assert_int_eq(template_image_remove(home, "aaa", NULL), -HOLT_ENOT_FOUND);
	ck_assert_int_eq(mkdirat(home->templates_fd, "aaaabbbbaaaabbbbaaaabbbbaaaabbbb", 0700), 0);
	const int from = open_key(key_of('a'));
	const int to = open_key("aaaabbbbaaaabbbbaaaabbbbaaaabbbb");
	ck_assert_int_eq(linkat(from, TEMPLATE_FACTS, to, TEMPLATE_FACTS, 0), 0);
	close(from);
	close(to);
	ck_assert_int_eq(template_image_remove(home, "aaaa", &many), -HOLT_EINVALID);
	ck_assert_int_eq(template_image_remove(home, "aaaab", NULL), 0);
	ck_assert(is_there('a'));
	ck_assert_int_eq(template_image_remove(home, "aaaa", NULL), 0);
	ck_assert(!is_there('a'));
}
END_TEST

START_TEST(without_an_image_one_is_of_no_use)
{
	size_t n = 0;

	make('1', true);
	ck_assert_int_eq(template_image_prune(home, UINT64_MAX, &n, NULL, NULL), 0);
	ck_assert_uint_eq(n, 1);
	ck_assert(!is_there('1'));
}
END_TEST

START_TEST(the_next_open_removes_what_a_killed_maker_left)
{
	make('1', true);
	ck_assert_int_eq(mkdirat(home->templates_fd, "0123456789abcdef", 0700), 0);
	ck_assert_int_eq(mkdirat(home->templates_fd, "0123456789abcdee.gone", 0700), 0);
	home_close(home);
	ck_assert_int_eq(home_open(&(struct home_wish){.path = root}, &home, NULL), 0);
	ck_assert(is_there('1'));
	ck_assert_int_lt(faccessat(home->templates_fd, "0123456789abcdef", F_OK, 0), 0);
	ck_assert_int_lt(faccessat(home->templates_fd, "0123456789abcdee.gone", F_OK, 0), 0);
}
END_TEST

/* ---- the budget and the disk's note ---- */

START_TEST(the_budget_is_told_by_option_variable_or_default)
{
	uint64_t bytes = 0;
	auto_error error = NULL;

	unsetenv("HOLT_TEMPLATE_BYTES");
	ck_assert_int_eq(home_template_bytes(0, &bytes, NULL), 0);
	ck_assert_uint_eq(bytes, UINT64_C(8) << 30);
	setenv("HOLT_TEMPLATE_BYTES", "4096", 1);
	ck_assert_int_eq(home_template_bytes(0, &bytes, NULL), 0);
	ck_assert_uint_eq(bytes, 4096);
	ck_assert_int_eq(home_template_bytes(7, &bytes, NULL), 0);
	ck_assert_uint_eq(bytes, 7);
	setenv("HOLT_TEMPLATE_BYTES", "2g", 1);
	ck_assert_int_eq(home_template_bytes(0, &bytes, NULL), 0);
	ck_assert_uint_eq(bytes, UINT64_C(2) << 30);
	ck_assert_int_eq(home_template_bytes(7, &bytes, NULL), 0);
	setenv("HOLT_TEMPLATE_BYTES", "8gb", 1);
	ck_assert_int_eq(home_template_bytes(0, &bytes, &error), -HOLT_EINVALID);
	ck_assert_str_ne(holt_error_hint(error), "");
	ck_assert_uint_eq(bytes, 7);
	unsetenv("HOLT_TEMPLATE_BYTES");
}
END_TEST

START_TEST(a_disk_is_untouched_only_with_a_note_of_this_boot)
{
	const char *const old = "0123 01234567-89ab-cdef-0123-456789abcdef";

	ck_assert(!disk_origin_untouched(home->fd));
	ck_assert_int_eq(disk_origin_write(home->fd, DISK_EMPTY), 0);
	ck_assert(disk_origin_untouched(home->fd));
	/* An empty one is no copy of a template's. */
	ck_assert(!disk_origin_take(home->fd, "0123"));
	ck_assert(!disk_origin_untouched(home->fd));
	ck_assert_int_eq(disk_origin_write(home->fd, "0123"), 0);
	ck_assert(disk_origin_untouched(home->fd));
	ck_assert(disk_origin_take(home->fd, "0123"));
	ck_assert(!disk_origin_take(home->fd, "0123"));
	/* After a power cut a note that was taken away may be back. */
	ck_assert_int_eq(fs_replace(home->fd, "disk.origin", old, strlen(old), 0600), 0);
	ck_assert(!disk_origin_untouched(home->fd));
	ck_assert(!disk_origin_take(home->fd, "0123"));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("template");
	TCase *tc = tcase_create("store");

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, what_is_sealed_is_opened);
	tcase_add_test(tc, a_bare_one_has_no_disk);
	tcase_add_loop_test(tc, what_is_not_as_it_was_made_is_removed, 0,
		(int)(sizeof spoilers / sizeof spoilers[0]));
	tcase_add_test(tc, the_key_of_a_described_one_is_its_own);
	tcase_add_test(tc, whatever_a_machine_is_made_of_is_in_its_key);
	tcase_add_test(tc, those_used_longest_ago_go_first);
	tcase_add_test(tc, one_is_removed_by_the_beginning_of_its_key);
	tcase_add_test(tc, without_an_image_one_is_of_no_use);
	tcase_add_test(tc, the_next_open_removes_what_a_killed_maker_left);
	tcase_add_test(tc, the_budget_is_told_by_option_variable_or_default);
	tcase_add_test(tc, a_disk_is_untouched_only_with_a_note_of_this_boot);
	suite_add_tcase(s, tc);
	SRunner *sr = srunner_create(s);
	srunner_run_all(sr, CK_ENV);
	const int failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed != 0;
}
