/* SPDX-License-Identifier: Apache-2.0 */
#ifndef IMAGE_IMAGES_H
#define IMAGE_IMAGES_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The local image store beneath a directory (the home's "images"): content-addressed rootfs files
 * (squashfs) and image configurations, and an SQLite index (WAL) of images and references. Any
 * number of processes use it at once; kill -9 at any point leaves at worst a temporary file that
 * the next open removes.
 */
struct image_store;

struct image_config {
	char **env; /* NULL-terminated lists; NULL where the image has none */
	char **entrypoint;
	char **cmd;
	char *working_dir; /* NULL where the image has none */
	char *user;
	char *architecture;
	char *os;
	char *stop_signal;
};

struct image {
	char *digest; /* "sha256:..." of the manifest (of the tar for a plain rootfs tar) */
	char *rootfs_digest; /* names the squashfs file: a hash of the format and the layers'
				diff_ids */
	char *name; /* one reference, or NULL for an unnamed image */
	uint64_t size_bytes; /* of the rootfs */
	uint64_t layers;
	int64_t created_s; /* import time, seconds since 1970 */
	struct image_config config;
};

int image_store_open(const char *dir, struct image_store **ret, holt_error **reterr);
void image_store_close(struct image_store *s);

struct image_import_options {
	const char *name; /* reference to give it; NULL: the name in the layout, else none */
	/* Progress: bytes read so far of total (0 = unknown); may be NULL. */
	void (*progress)(uint64_t done, uint64_t total, void *user);
	void *user;
	const volatile int
		*cancel; /* non-zero stops the import with HOLT_ECANCELLED; may be NULL */
};

/* Import an OCI layout directory, an OCI layout in a tar file, what docker save wrote (of several
 * images the one that is called so), or a plain rootfs tar (also
 * compressed; "-" is not known here). Idempotent: the same content gives the same digests. */
int image_import(struct image_store *s, const char *path, const struct image_import_options *o,
	struct image **ret, holt_error **reterr);

/* Find by reference ("demo" = "demo:latest"), by "sha256:..." or by a unique digest prefix of at
 * least 4 hex digits. Not found: HOLT_ENOT_FOUND with a hint. */
int image_get(struct image_store *s, const char *ref, struct image **ret, holt_error **reterr);

/* All references (and unnamed images), sorted by name: a fresh array of *ret_n images. */
int image_list(struct image_store *s, struct image ***ret, size_t *ret_n, holt_error **reterr);

/* Let the reference @name mean the image that @ref finds; it moves from another image, which stays.
 * A @name with a digest is refused. */
int image_tag(struct image_store *s, const char *ref, const char *name, holt_error **reterr);

/* Remove a reference; the image and its rootfs go with the last one. A rootfs that a running box
 * has open stays readable there. */
int image_remove(struct image_store *s, const char *ref, holt_error **reterr);

/* How it was made, newest step first, a line each: {"created", "created_by", "comment",
 * "empty_layer"}, as its configuration has it; fresh memory. */
int image_history(struct image_store *s, const char *digest, char **ret, holt_error **reterr);

/* Remove an image with all its names; one that is not there is fine. */
int image_drop(struct image_store *s, const char *digest, holt_error **reterr);

/* What a rootfs takes of the disk, and who needs it. */
struct rootfs_use {
	uint64_t bytes;
	bool linked; /* a box has it, too */
	int64_t used_ns; /* since 1970: when a box took it last, or it was made */
};
int image_rootfs_use(struct image_store *s, const char *rootfs_digest, struct rootfs_use *ret,
	holt_error **reterr);

/* Open the rootfs of an image for reading. */
int image_open_rootfs(
	struct image_store *s, const struct image *img, int *ret_fd, holt_error **reterr);

/* Give the rootfs another name in @dirfd: a hard link, or a copy on another file system. It then
 * outlives the image. */
int image_link_rootfs(struct image_store *s, const struct image *img, int dirfd, const char *name,
	holt_error **reterr);

void image_free(struct image *img);
void image_list_free(struct image **list, size_t n);

#endif
