/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_PATH_H
#define BASE_PATH_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/*
 * The only place that opens paths beneath a directory that somebody else may be changing. No call
 * follows a symbolic link, on the way or at the end, and none leaves the directory. Paths are
 * relative, of any length; an absolute one and ".." are refused. All return 0 or a descriptor
 * (close-on-exec), or -errno:
 *
 *   -EXDEV     the path is absolute or has ".."
 *   -ELOOP, -ENOTDIR   a symbolic link or a file stands on the way, or a link at the end
 *   -ENOENT    something is missing, or the path is empty
 */

/* Open @path beneath @root; @mode counts with O_CREAT. */
int path_open_beneath(int root, const char *path, int flags, mode_t mode)
	__attribute__((warn_unused_result));

/* Open the directory that holds the last component of @path (O_PATH), and tell where in @path that
 * component begins. -EXDEV where there is none ("." or "a/."). */
int path_parent_beneath(int root, const char *path, const char **ret_name)
	__attribute__((warn_unused_result));

/* Make the directory @path; its parent must be there. */
int path_mkdir_beneath(int root, const char *path, mode_t mode) __attribute__((warn_unused_result));

/* Set the mode of what @fd is, which may be open with O_PATH. */
int path_chmod_fd(int fd, mode_t mode) __attribute__((warn_unused_result));

/* Where the component behind the slashes and "." at *at begins; *at then is its end, and *ret_len
 * its length. NULL behind the last one. */
const char *path_next(const char *path, size_t *at, size_t *ret_len);

/* For tests: behave as on a kernel without openat2. */
void path_force_walk(bool on);

#endif
