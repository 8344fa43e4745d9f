/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GUEST_FILES_PARTS_H
#define GUEST_FILES_PARTS_H

#include "files.h"

#include <sys/stat.h>

/* files_names.c */
/* @target is what a symbolic link says, else "". */
void files_send_info(struct files *f, const struct stat *st, const char *target);
/* Make the directory @path with those above; one that is there is fine. @path is borrowed for
 * writing. Returns 0 or -errno. */
int files_make_directories(char *path);

#endif
