/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/tar_links.h"
#include "guest/tar_read.h"

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* The agent's tar headers and its table of hard links, without an agent. */

static void check_encoded(const struct tar_entry *e, size_t want_len)
{
	static uint8_t buf[TAR_HEAD_MAX];
	struct tar_reader r;
	struct tar_entry got;
	const size_t len = tar_encode(e, buf, sizeof(buf));
	const int fd = memfd_create("tar", MFD_CLOEXEC);

	ck_assert_uint_eq(len, want_len);
	ck_assert_int_eq(write(fd, buf, len), (ssize_t)len);
	(void)lseek(fd, 0, SEEK_SET);
	ck_assert_int_eq(tar_reader_init(&r, fd), 0);
	ck_assert_int_eq(tar_next(&r, &got), 1);
	ck_assert_str_eq(got.name, e->name);
	ck_assert_str_eq(got.link, e->link);
	ck_assert_int_eq(got.type, e->type);
	ck_assert_uint_eq(got.mode, e->mode);
	ck_assert_uint_eq(got.uid, e->uid);
	ck_assert_uint_eq(got.gid, e->gid);
	ck_assert_uint_eq(got.size, e->size);
	ck_assert_int_eq(got.mtime_s, e->mtime_s);
	ck_assert_uint_eq(got.mtime_ns, e->mtime_ns);
	tar_reader_done(&r);
	(void)close(fd);
}

START_TEST(numbers_round_trip)
{
	struct tar_entry e = {.type = TAR_FILE, .name = "n", .link = "", .mode = 07777};

	e.uid = e.gid = (1u << 21) - 1;
	e.size = (UINT64_C(1) << 33) - 1;
	e.mtime_s = (INT64_C(1) << 33) - 1;
	check_encoded(&e, TAR_BLOCK);
	e.uid = e.gid = 1u << 21;
	check_encoded(&e, 3 * TAR_BLOCK);
	e.uid = e.gid = UINT32_MAX - 1;
	e.size = UINT64_C(1) << 33;
	e.mtime_s++;
	check_encoded(&e, 3 * TAR_BLOCK);
	e.size = INT64_MAX - 10;
	e.mtime_s = -1;
	e.mtime_ns = 1;
	check_encoded(&e, 3 * TAR_BLOCK);
	e.mtime_s = -62135596800;
	e.mtime_ns = 0;
	check_encoded(&e, 3 * TAR_BLOCK);
}
END_TEST

START_TEST(name_lengths_round_trip)
{
	static char name[TAR_NAME_MAX + 2];
	struct tar_entry e = {.type = TAR_SYMLINK, .name = name, .link = name};

	for (size_t len = 1; len < 400; len++) {
		memset(name, 'a', len);
		name[len] = 0;
		check_encoded(&e, len <= 100 ? TAR_BLOCK : (len <= 244 ? 3 : 4) * TAR_BLOCK);
		if (len > 2) {
			e.link = "";
			name[len / 2] = '/';
			check_encoded(&e, len <= 202 ? TAR_BLOCK : 3 * TAR_BLOCK);
			e.link = name;
		}
		/* Digits of the records' own lengths change their lengths. */
	}
	memset(name, '\xff', TAR_NAME_MAX);
	name[TAR_NAME_MAX] = 0;
	check_encoded(&e, TAR_HEAD_MAX - TAR_BLOCK);
	name[TAR_NAME_MAX] = 'a';
	static uint8_t buf[TAR_HEAD_MAX];
	ck_assert_uint_eq(tar_encode(&e, buf, sizeof(buf)), 0);
	name[1000] = 0;
	ck_assert_uint_eq(tar_encode(&e, buf, 2048), 0);
	ck_assert_uint_eq(tar_encode(&e, buf, 100), 0);
}
END_TEST

START_TEST(links_are_bounded)
{
	static char name[1024];
	struct tar_links l = {0};

	ck_assert_ptr_null(tar_links_seen(&l, 1, 1, "first"));
	ck_assert_ptr_null(tar_links_seen(&l, 2, 1, "second"));
	ck_assert_str_eq(tar_links_seen(&l, 1, 1, "other"), "first");
	/* Full of files: what was remembered is, all else is not. */
	for (uint64_t ino = 0; ino < TAR_LINKS_MAX + 100; ino++)
		ck_assert_ptr_null(tar_links_seen(&l, 3, ino, "x"));
	ck_assert_uint_eq(l.n, TAR_LINKS_MAX);
	ck_assert_str_eq(tar_links_seen(&l, 3, 0, "y"), "x");
	ck_assert_str_eq(tar_links_seen(&l, 2, 1, "y"), "second");
	ck_assert_ptr_null(tar_links_seen(&l, 3, TAR_LINKS_MAX + 99, "y"));
	free(l.slots);
	free(l.names);

	/* Full of names. */
	l = (struct tar_links){0};
	memset(name, 'n', sizeof(name) - 1);
	for (uint64_t ino = 0; ino < 20000; ino++)
		ck_assert_ptr_null(tar_links_seen(&l, 1, ino, name));
	ck_assert_uint_eq(l.n, TAR_LINKS_BYTES / sizeof(name));
	ck_assert_uint_eq(l.names_cap, TAR_LINKS_BYTES);
	ck_assert_str_eq(tar_links_seen(&l, 1, 0, "y"), name);
	free(l.slots);
	free(l.names);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("tar format");
	TCase *t = tcase_create("format");

	tcase_add_test(t, numbers_round_trip);
	tcase_add_test(t, name_lengths_round_trip);
	tcase_add_test(t, links_are_bounded);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	const int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
