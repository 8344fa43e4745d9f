/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_FSUTIL_H
#define BASE_FSUTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* File-system helpers. All return 0 or -errno unless said otherwise; all descriptors are
 * close-on-exec. @dirfd may be AT_FDCWD. */

/* Make every missing directory of @path with mode 0700. */
int fs_mkdirs(const char *path) __attribute__((warn_unused_result));

/* Write a whole file so that it is there entirely or not at all, also after a power cut:
 * temporary file beside it, fsync, rename, fsync of the directory. */
int fs_write_atomic(int dirfd, const char *name, const void *data, size_t len, mode_t mode)
	__attribute__((warn_unused_result));

/* The same without waiting for the disk, by one writer at a time: after a power cut the file may be
 * the old one or empty. */
int fs_replace(int dirfd, const char *name, const void *data, size_t len, mode_t mode)
	__attribute__((warn_unused_result));

/* Open a new file that will be called @name, for reading and writing; it has no name yet, so that
 * kill -9 leaves nothing, or is called @temp where the file system cannot do that. */
int fs_open_nameless(int dirfd, const char *name, const char *temp, mode_t mode, bool *ret_named)
	__attribute__((warn_unused_result));
/* Give a file without a name one, which must be free. */
int fs_give_name(int fd, int dirfd, const char *name) __attribute__((warn_unused_result));

/* Read a whole file of at most @max bytes into fresh memory with a NUL behind it (-EFBIG if
 * larger). */
int fs_read_file(int dirfd, const char *name, size_t max, char **ret_data, size_t *ret_len)
	__attribute__((warn_unused_result));

/* Remove a file or a directory tree; symlinks are removed, never followed; a missing one is fine.
 * At most 64 levels deep (-ELOOP beyond). */
int fs_remove_tree(int dirfd, const char *name) __attribute__((warn_unused_result));

int fs_sync_dir(int dirfd) __attribute__((warn_unused_result));

/* Whether @name stands for the open file or directory @fd, and not for another that has taken its
 * place. A symlink is never followed. */
bool fs_is_named(int fd, int dirfd, const char *name);

/* Rename and make the rename durable. */
int fs_publish(int olddir, const char *oldname, int newdir, const char *newname)
	__attribute__((warn_unused_result));

/* Take an exclusive flock without waiting: 0, -EWOULDBLOCK if held elsewhere, or -errno. */
int fs_trylock(int fd) __attribute__((warn_unused_result));
/* Take an exclusive flock, waiting without limit (retries EINTR). */
int fs_lock(int fd) __attribute__((warn_unused_result));
/* Open (create with mode 0600) a lock file and try or wait for the lock; returns the descriptor
 * that holds it or -errno. The lock is known to be on the file that now bears the name, so that a
 * lock file may be removed by its holder. */
int fs_open_lock(int dirfd, const char *name, bool wait) __attribute__((warn_unused_result));

/* Copy @src to @dst (both open, regular) keeping holes: FICLONE, else data ranges by
 * copy_file_range or read/write. */
int fs_copy_sparse(int src, int dst) __attribute__((warn_unused_result));

/* Free bytes for an unprivileged writer on the file system of @path. */
int fs_free_bytes(const char *path, uint64_t *ret) __attribute__((warn_unused_result));

#endif
