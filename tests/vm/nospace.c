/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests: preloaded (LD_PRELOAD) into holt, it makes every copy of a template's disk fail
 * half-way for want of space, as a file system does that has just become full.
 */
#include <errno.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PIECES 2 /* that still find space */

__attribute__((visibility("default"))) ssize_t copy_file_range(
	int from, off64_t *in, int to, off64_t *out, size_t len, unsigned flags);

static bool is_template_disk(int fd)
{
	char link[64];
	char path[PATH_MAX];

	(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	const ssize_t len = readlink(link, path, sizeof(path) - 1);
	path[len > 0 ? len : 0] = 0;
	return fnmatch("*/templates/*/disk.raw", path, 0) == 0;
}

ssize_t copy_file_range(int from, off64_t *in, int to, off64_t *out, size_t len, unsigned flags)
{
	static int pieces;

	if (is_template_disk(from) && ++pieces > PIECES) {
		errno = ENOSPC;
		return -1;
	}
	return syscall(SYS_copy_file_range, from, in, to, out, len, flags);
}
