/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BOX_DISK_ORIGIN_H
#define BOX_DISK_ORIGIN_H

#include <stdbool.h>

/*
 * A file beside a box's disk ("disk.origin") that says: no machine has had this disk, which is
 * empty or a copy of the disk of that template. It is written when the disk is complete, and taken
 * away before any machine gets it, so that nobody finds it beside a disk that has been used. It
 * names the host's boot as well: after a power cut a removed file may be back.
 */
#define DISK_EMPTY "empty" /* instead of a template's generation */

/* In the box's directory @dir: 0 or -errno. */
int disk_origin_write(int dir, const char *generation) __attribute__((warn_unused_result));

/* Whether it is there, of this boot: the disk may be replaced, nothing is on it. Without it nobody
 * knows, and the disk is taken for one with data. */
bool disk_origin_untouched(int dir);

/* Take it away. True if it was there and names @generation and this boot. */
bool disk_origin_take(int dir, const char *generation);

#endif
