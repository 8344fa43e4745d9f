/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/cgroup.h"

#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB (1ull << 20)

/* What execs may have of @available bytes, as the kernel would be told; UINT64_MAX is no limit. */
static uint64_t limit_of(uint64_t available)
{
	char dir[] = "/tmp/test_cgroup.XXXXXX";
	char path[64];
	char text[32] = "";

	ck_assert_ptr_nonnull(mkdtemp(dir));
	(void)snprintf(path, sizeof(path), "%s/memory.max", dir);
	const int file = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	const int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ck_assert(file >= 0 && fd >= 0);
	cgroup_keep_reserve(fd, available);
	const ssize_t n = pread(file, text, sizeof(text) - 1, 0);
	(void)close(file);
	(void)close(fd);
	(void)unlink(path);
	(void)rmdir(dir);
	return n > 0 ? strtoull(text, NULL, 10) : UINT64_MAX;
}

START_TEST(reserve)
{
	/* A sixteenth, in bounds. */
	ck_assert_uint_eq(limit_of(256 * MIB), 240 * MIB);
	ck_assert_uint_eq(limit_of(64 * MIB), 56 * MIB);
	ck_assert_uint_eq(limit_of(4096 * MIB), 4072 * MIB);
}
END_TEST

START_TEST(reserve_of_little)
{
	/* Those that have least need the limit most. */
	ck_assert_uint_eq(limit_of(16 * MIB), 8 * MIB);
	ck_assert_uint_eq(limit_of(12 * MIB), 6 * MIB);
	ck_assert_uint_eq(limit_of(1), 1);
	/* It is not known. */
	ck_assert_uint_eq(limit_of(0), UINT64_MAX);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("cgroup");
	TCase *t = tcase_create("cgroup");

	tcase_add_test(t, reserve);
	tcase_add_test(t, reserve_of_little);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	const int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
