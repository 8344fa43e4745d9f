/* SPDX-License-Identifier: Apache-2.0 */
#ifndef IMAGE_ROOTFS_H
#define IMAGE_ROOTFS_H

#include "image/tarfile.h"
#include "image/tree.h"

/*
 * Writing one squashfs image (lz4) to an open, empty file. File data comes first, in any order of
 * files; rootfs_finish then writes the tree. One writer belongs to one thread; worker threads
 * compress behind it. The result depends only on the calls, not on the number of workers.
 */

#define ROOTFS_NO_XATTR    0xffffffffu
#define ROOTFS_SYMLINK_MAX 4095 /* bytes of a symlink's target, as in Linux */
#define ROOTFS_FREE_MIN    (64u << 20) /* bytes that stay free on the host's file system */
#define ROOTFS_WORKERS_MAX 8
#define ROOTFS_FILE_MAX    (UINT64_C(1) << 40) /* bytes of one file, holes included */
/* Bytes of all files, holes included: every block of one, also a hole, costs memory and time. */
#define ROOTFS_BYTES_MAX  (UINT64_C(2) << 40)
#define ROOTFS_XATTRS_MAX (256u << 20) /* bytes of all extended attributes with their names */

struct rootfs;

/* @workers: threads that compress; 0 = one for each processor that this thread may use. */
int rootfs_new(int fd, unsigned workers, struct rootfs **ret, holt_error **reterr);
void rootfs_free(struct rootfs *r);

/* One file after the other: begin, any number of writes and holes in order that make @size bytes
 * together, end. @ret belongs to the writer. */
int rootfs_file_begin(
	struct rootfs *r, uint64_t size, struct rootfs_file **ret, holt_error **reterr);
int rootfs_file_write(struct rootfs *r, const void *data, size_t len, holt_error **reterr);
int rootfs_file_hole(struct rootfs *r, uint64_t len, holt_error **reterr);
int rootfs_file_end(struct rootfs *r, holt_error **reterr);

/* Store a set of extended attributes; POSIX ACLs and namespaces that squashfs does not know are
 * left out. *ret_dropped is the name of one that was, or NULL. */
int rootfs_xattrs(struct rootfs *r, const struct tar_xattr *list, size_t n, uint32_t *ret,
	const char **ret_dropped, holt_error **reterr);

/* Write the tree (no TREE_LINK may be left in it) and complete the image. */
int rootfs_finish(struct rootfs *r, struct tree *t, uint64_t *ret_size, holt_error **reterr);

#endif
