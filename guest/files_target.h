/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GUEST_FILES_TARGET_H
#define GUEST_FILES_TARGET_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

/* Where content goes: the last target of a chain of links, as a name in an open directory. */
struct target {
	int dir_fd; /* -EBADF where there is none */
	char name[NAME_MAX + 1];
	bool slash; /* the path says that it is a directory */
	bool exists;
	struct stat st; /* where it exists */
};

#define TARGET_INIT              \
	(struct target)          \
	{                        \
		.dir_fd = -EBADF \
	}

/* Find it; @flags are WIRE_WRITE_PARENTS and WIRE_WRITE_EXCLUSIVE. @path is cut. Directories are
 * refused (EISDIR), and so are files that the user may not write. Returns 0 or -errno. */
int target_find(struct target *t, char *path, uint32_t flags);
/* Whether a name may be made in its directory. Returns 0 or -errno. */
int target_may_make(const struct target *t);
/* Open it for writing with more @flags of open(), without ever waiting: a fifo that nobody reads
 * is ENXIO. Returns a descriptor, in blocking mode, or -errno. */
int target_open(const struct target *t, int flags);
void target_done(struct target *t);

#endif
