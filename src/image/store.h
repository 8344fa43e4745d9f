/* SPDX-License-Identifier: Apache-2.0 */
#ifndef IMAGE_STORE_H
#define IMAGE_STORE_H

#include "image/images.h"
#include "image/index.h"

/*
 * The inside of the image store, for store.c and import.c.
 *
 *   index.db      SQLite (WAL): images and names
 *   rootfs/HEX.squashfs
 *   blobs/        layers as they were pulled (blobs.h)
 *   tmp/          files of running imports and their locks, each flock'd by its owner: what is not
 *                 locked is left over from a process that died, and removed by the next open
 *
 * A rootfs comes and goes only within a writing transaction of the index: a file without an image
 * is an orphan for whoever holds one.
 */

struct temp_file {
	int fd; /* open for reading and writing, holds the lock */
	char *name;
};

/* A new empty file in tmp/. */
int store_temp(struct image_store *s, struct temp_file *ret, holt_error **reterr);
/* Close it and remove it if it still bears its name. */
void store_temp_done(struct image_store *s, struct temp_file *t);

/* Wait until no other process imports the image with this digest. */
int store_lock_digest(struct image_store *s, const char *digest, const volatile int *cancel,
	struct temp_file *ret, holt_error **reterr);

/* Give a name (or none) to an image that is there already: *ret is NULL where it is not. */
int store_adopt(struct image_store *s, const char *digest, const char *name, struct image **ret,
	holt_error **reterr);

/* Make a complete rootfs file and its image known. */
int store_publish(struct image_store *s, struct temp_file *rootfs, const struct image *img,
	const char *config, const char *name, struct image **ret, holt_error **reterr);

/* The text of an image's configuration, in fresh memory. */
int store_config(struct image_store *s, const char *digest, char **ret, holt_error **reterr);

/* The directory of blobs, borrowed. */
int store_blobs_dir(const struct image_store *s);

/* HOLT_ELIMIT where fewer bytes are free. */
int store_need(struct image_store *s, uint64_t bytes, holt_error **reterr);

/* Free bytes where the images are kept; UINT64_MAX where the file system has no limit. */
int store_free_bytes(struct image_store *s, uint64_t *ret, holt_error **reterr);

#endif
