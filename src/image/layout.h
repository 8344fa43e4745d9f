/* SPDX-License-Identifier: Apache-2.0 */
#ifndef IMAGE_LAYOUT_H
#define IMAGE_LAYOUT_H

#include "image/tarfile.h"
#include "image/manifest.h"

/*
 * An OCI image layout (index.json, oci-layout, blobs/sha256/...) in a directory or in a tar file
 * without compression, where blobs are read in place. One thread at a time.
 */

#define LAYOUT_BLOBS_MAX 65536 /* blobs that are looked at in a tar */

struct layout;

int layout_open_dir(const char *path, struct layout **ret, holt_error **reterr);
/* @fd stays the caller's and outlives the layout. *ret is NULL where the tar is not a layout. */
int layout_open_tar(const struct tar_source *src, struct tar_watch *watch, struct layout **ret,
	holt_error **reterr);
void layout_close(struct layout *l);

/* Whether a path in a tar is one that layouts have; said of the first file, it tells whether it is
 * worth looking at the others. */
bool layout_has_path(const char *path);

/* The text of index.json, in fresh memory. */
int layout_read_index(struct layout *l, char **ret, size_t *ret_len, holt_error **reterr);
/* A whole blob of at most @max bytes in fresh memory, size and digest verified. */
int layout_read_blob(
	struct layout *l, const struct descriptor *d, size_t max, char **ret, holt_error **reterr);
/* Open a blob for reading; its size is verified, its digest is not. Close *ret_fd afterwards (it
 * may be FD_NONE). */
int layout_open_blob(struct layout *l, const struct descriptor *d, struct tar_source *ret,
	int *ret_fd, holt_error **reterr);

#endif
