/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_SHELL_WAY_H
#define BENCH_SHELL_WAY_H

#include <holt.h>

/*
 * What sandboxes without an agent of their own do, as a baseline: every operation is a command line
 * for `sh -lc` in the box, content goes in as base64 in arguments and comes out as text. Each call
 * exits where the box fails.
 */

/* The output of one command, which has to succeed (or to print something into a `head`). The caller
 * frees *ret. Returns its length. */
size_t shell_run(holt_box *box, const char *command, char **ret);

/* mkdir -p, then printf | base64 -d in pieces of 45,000 bytes, each a command. */
void shell_write(holt_box *box, const char *path, const void *data, size_t len);
/* cat. */
size_t shell_read(holt_box *box, const char *path, char **ret);
/* The size, then base64, decoded here. */
size_t shell_download(holt_box *box, const char *path, char **ret);
/* find, without the names that are ignored, and its first @max lines. @tests chooses, as "-type f".
 * Returns the number of lines. */
size_t shell_find(
	holt_box *box, const char *root, unsigned max_depth, const char *tests, size_t max);
/* grep -rnI with @flags, and its first @max lines. Returns their number. */
size_t shell_grep(
	holt_box *box, const char *root, const char *flags, const char *pattern, size_t max);

#endif
