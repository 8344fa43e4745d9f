/* SPDX-License-Identifier: Apache-2.0 */
#ifndef IMAGE_TARWRITE_H
#define IMAGE_TARWRITE_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

/*
 * Writing a tar stream whose bytes depend on the entries alone: PAX headers only where ustar does
 * not do, names as bytes. One writer belongs to one thread.
 */

struct tar_sink {
	int (*write)(void *user, const void *data, size_t len, holt_error **reterr);
	void *user;
};

struct archive_entry;
struct tar_writer;

/* @sink outlives the writer. */
int tar_writer_new(const struct tar_sink *sink, struct tar_writer **ret, holt_error **reterr);
/* Without tar_writer_end before it, nothing more goes to the sink. */
void tar_writer_free(struct tar_writer *w);

/* The header of an entry of libarchive; its data follow, as many bytes as it says. Names in it are
 * set under the C locale, as in tar_writer_enter. */
int tar_writer_entry(struct tar_writer *w, struct archive_entry *e, holt_error **reterr);
int tar_writer_data(struct tar_writer *w, const void *data, size_t len, holt_error **reterr);
/* The header of a plain file of nobody in particular, from 1970. */
int tar_writer_file(struct tar_writer *w, const char *path, uint64_t size, holt_error **reterr);
/* Write the end of the archive. */
int tar_writer_end(struct tar_writer *w, holt_error **reterr);

#endif
