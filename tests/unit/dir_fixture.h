/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_DIR_FIXTURE_H
#define TESTS_DIR_FIXTURE_H

/* A directory of its own for every test. */
#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fsutil.h"

static char dir[64];
static int dir_fd;

static void setup(void)
{
	snprintf(dir, sizeof dir, "/tmp/holt-parts-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ck_assert_int_ge(dir_fd, 0);
}

static void teardown(void)
{
	close(dir_fd);
	ck_assert_int_eq(fs_remove_tree(AT_FDCWD, dir), 0);
}

static inline char *in_dir(const char *name)
{
	static char path[128];

	snprintf(path, sizeof path, "%s/%s", dir, name);
	return path;
}

static inline void put_file(int at, const char *name, const void *data, size_t len)
{
	const int fd = openat(at, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, data, len), (ssize_t)len);
	close(fd);
}

#endif
