/* SPDX-License-Identifier: Apache-2.0 */
#ifndef IMAGE_INDEX_H
#define IMAGE_INDEX_H

#include "image/images.h"

#include <stdbool.h>

/*
 * The SQLite index of the image store: which images there are and how they are called. One thread
 * at a time (the store's lock); any number of processes.
 */

#define INDEX_VERSION 1 /* of the schema */

struct index;

int index_open(const char *path, struct index **ret, holt_error **reterr);
void index_close(struct index *x);

/* A writing transaction, taken at once, so that what is decided inside holds until its end. */
int index_begin(struct index *x, holt_error **reterr);
int index_commit(struct index *x, holt_error **reterr);
/* End a transaction without effect; nothing happens where none is open. */
void index_rollback(struct index *x);

/* Put an image (its name is ignored) with the text of its configuration; it may be there. */
int index_put(struct index *x, const struct image *img, const char *config, holt_error **reterr);
/* Let a name mean an image. */
int index_name(struct index *x, const char *name, const char *digest, holt_error **reterr);
int index_unname(struct index *x, const char *name, holt_error **reterr);
/* Remove an image and all its names. */
int index_drop(struct index *x, const char *digest, holt_error **reterr);

/* *ret is NULL where there is none. */
int index_by_name(struct index *x, const char *name, struct image **ret, holt_error **reterr);
/* By the first digits of the digest; *ret_n of all that begin so (2 means: at least 2), *ret only
 * where that is 1. Its name is the first of its names. */
int index_by_digest(
	struct index *x, const char *hex, struct image **ret, unsigned *ret_n, holt_error **reterr);
/* The text of an image's configuration in fresh memory; *ret is NULL where there is no image. */
int index_config(struct index *x, const char *digest, char **ret, holt_error **reterr);
int index_count_names(struct index *x, const char *digest, unsigned *ret, holt_error **reterr);
int index_has_repository(struct index *x, const char *digest, const char *repository, bool *ret,
	holt_error **reterr);
int index_uses_rootfs(struct index *x, const char *rootfs_digest, bool *ret, holt_error **reterr);
/* All names and all images without one, by name. */
int index_list(struct index *x, struct image ***ret, size_t *ret_n, holt_error **reterr);

#endif
