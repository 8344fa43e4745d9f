/* SPDX-License-Identifier: Apache-2.0 */
#ifndef IMAGE_LAYER_H
#define IMAGE_LAYER_H

#include "image/tarfile.h"
#include "image/rootfs.h"
#include "image/tree.h"

/*
 * Merging the layers of an image into one tree, newest layer first, so that the data of a file
 * that a newer layer replaces is never written. One merge belongs to one thread.
 *
 * Use: merge_layer for layer n, n - 1, ... 1; then merge_resolve; while that says that layers must
 * be read again, merge_rescan for layer *ret_from, ... 1 and merge_resolve once more.
 */

#define LAYER_MAX         512 /* layers of an image */
#define LAYER_ENTRIES_MAX (4u << 20) /* entries in all layers together */

struct merge;

/* Both stay the caller's and outlive the merge. */
int merge_new(struct tree *t, struct rootfs *rootfs, struct merge **ret, holt_error **reterr);
void merge_free(struct merge *m);

/* Take in a layer (its tar_finish is left to the caller). */
int merge_layer(struct merge *m, struct tar_reader *tar, uint32_t layer, holt_error **reterr);

/* Bind hard links and put what lies under a symlink where that leads. *ret_from = 0: the tree is
 * complete; else links are left whose target was replaced or removed by a newer layer: read the
 * layers from *ret_from down again. */
int merge_resolve(struct merge *m, uint32_t *ret_from, holt_error **reterr);
int merge_rescan(struct merge *m, struct tar_reader *tar, uint32_t layer, holt_error **reterr);

/* @path without leading slashes and "." into @dst, which has room for as many bytes; ".." is
 * refused. */
int layer_clean_path(const char *path, char *dst, holt_error **reterr);

#endif
