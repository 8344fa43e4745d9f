/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BOX_DISK_ORIGIN_H
#define BOX_DISK_ORIGIN_H

#include <stdbool.h>

/*
 * A file beside a box's disk ("disk.origin") that says: this disk is an untouched copy of the disk
 * of that template. It is written when the copy is complete, and taken away before any machine gets
 * the disk, so that nobody finds it beside a disk that has been used. It names the host's boot as
 * well: after a power cut a removed file may be back.
 */

/* In the box's directory @dir: 0 or -errno. */
int disk_origin_write(int dir, const char *generation) __attribute__((warn_unused_result));

/* Take it away. True if it was there and names @generation and this boot. */
bool disk_origin_take(int dir, const char *generation);

#endif
