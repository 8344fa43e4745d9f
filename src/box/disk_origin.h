/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BOX_DISK_ORIGIN_H
#define BOX_DISK_ORIGIN_H

#include <stdbool.h>

/*
 * A file beside a box's disk ("disk.origin") that says: no machine ever had this disk; it is blank,
 * or an untouched copy of the disk of that template. It is written when the disk is complete, and
 * taken away before any machine gets it, which works on a full disk, too. So it is never found
 * beside a disk that has been used, and only a disk that has it may be replaced by a template's. It
 * names the host's boot as well: after a power cut a removed file may be back.
 */
#define DISK_BLANK "blank" /* the generation of a disk that is nobody's copy */

/* In the box's directory @dir: 0 or -errno. */
int disk_origin_write(int dir, const char *generation) __attribute__((warn_unused_result));

/* Whether it is there, of whatever generation, and of this boot. */
bool disk_origin_there(int dir);

/* Take it away. True if it was there and names @generation and this boot. */
bool disk_origin_take(int dir, const char *generation);

#endif
