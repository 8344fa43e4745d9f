/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_SHELL_WAY_H
#define BENCH_SHELL_WAY_H

#include <holt.h>

#include <stddef.h>
#include <stdint.h>

/*
 * The baseline of sandboxes.c: the same work as clients do it that have nothing but commands, each
 * a `sh -lc` in the box.
 *
 *   writing      `mkdir -p` of the parent, then the content as base64 in pieces of 45,000 bytes:
 *                `printf %s PIECE | base64 -d > FILE`, from the second on with >>
 *   reading      `cat -- FILE`
 *   downloading  the size by `stat`, then `base64 -- FILE`, decoded here
 *   listing, searching   `find` or `grep` to `head`, whose lines are taken apart here
 *
 * Paths have no quotes in them. Every function exits where a command fails.
 */
struct shell_output {
	char *data; /* freed by the caller */
	size_t len;
};

struct shell_output shell_run(holt_box *box, const char *command);
void shell_write(holt_box *box, const char *path, const void *data, size_t len);
struct shell_output shell_read(holt_box *box, const char *path);
struct shell_output shell_download(holt_box *box, const char *path);
/* The number of lines, or of those that end with @suffix. */
size_t shell_count_lines(const struct shell_output *output, const char *suffix);

#endif
