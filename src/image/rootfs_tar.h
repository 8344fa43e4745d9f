/* SPDX-License-Identifier: Apache-2.0 */
#ifndef IMAGE_ROOTFS_TAR_H
#define IMAGE_ROOTFS_TAR_H

#include "image/tarwrite.h"

/*
 * The way back: the file tree in a squashfs as a tar stream, as one layer of an image has it. The
 * same squashfs gives the same bytes. Sockets are left out, since tar knows none.
 */

/* @fd: the squashfs, read with pread. The archive is ended, but @w is not freed. */
int rootfs_to_tar(int fd, struct tar_writer *w, const volatile int *cancel, holt_error **reterr);

#endif
