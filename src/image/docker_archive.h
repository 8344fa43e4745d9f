/* SPDX-License-Identifier: Apache-2.0 */
#ifndef IMAGE_DOCKER_ARCHIVE_H
#define IMAGE_DOCKER_ARCHIVE_H

#include "image/manifest.h"
#include "image/tarfile.h"

/*
 * What docker save writes: a tar with manifest.json, which names a configuration and layers for
 * each image; read in place from a file without compression. One thread at a time.
 */

#define DOCKER_MEMBERS_MAX 65536 /* files that are looked at in a tar */
#define DOCKER_NAMES_MAX   (16u << 20) /* bytes of their names together */
#define DOCKER_IMAGES_MAX  4096
#define DOCKER_LINKS_MAX   8 /* symbolic links in a row */

struct docker_archive;

/* The image that is chosen; its digest is that of a manifest made up from the digests of its
 * configuration and layers, always in the same way. */
struct docker_image {
	char digest[DIGEST_STR_LEN + 1];
	struct manifest manifest;
	char *config;
	char **names; /* references, complete; NULL-terminated */
};

/* Whether the first path in a tar is one such archives begin with. */
bool docker_archive_has_path(const char *path);

/* @src->fd stays the caller's and outlives the archive. *ret is NULL where the tar is none. */
int docker_archive_open(const struct tar_source *src, struct tar_watch *watch,
	struct docker_archive **ret, holt_error **reterr);
void docker_archive_close(struct docker_archive *a);

/* Choose the only image, or that of several which is called @name (complete, or NULL). */
int docker_archive_pick(
	struct docker_archive *a, const char *name, struct docker_image *ret, holt_error **reterr);
void docker_image_done(struct docker_image *img);

/* Where the layer @at of the image that was picked lies. */
void docker_archive_layer(const struct docker_archive *a, size_t at, struct tar_source *ret);

#endif
