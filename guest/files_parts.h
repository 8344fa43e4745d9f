/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GUEST_FILES_PARTS_H
#define GUEST_FILES_PARTS_H

#include "builtin_files.h"

#include <sys/stat.h>

/* What the parts of the built-in "files" share. */

/* files.c: the next piece of a request's content. Returns false at its end, and then tells whether
 * it is to be forgotten. The bytes are good until the next call. */
bool files_content(struct files *f, struct wire_bytes *ret, bool *ret_aborted);

/* files_names.c */
/* @target is what a symbolic link says, else "". */
void files_send_info(struct files *f, const struct stat *st, const char *target);
/* Make the directory @path, which begins at @at, with those above; one that is there is fine.
 * Returns 0 or -errno. */
int files_make_directories(int at, const char *path);

#endif
