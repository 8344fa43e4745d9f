/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BOX_IMAGE_SPACE_H
#define BOX_IMAGE_SPACE_H

#include "box/box_home.h"
#include "image/images.h"

/*
 * What images take of the disk, and which may go: those that neither a box nor a template needs. A
 * box has its rootfs by a hard link, which the link count tells; templates tell their rootfs.
 * Whatever becomes busy while it goes loses nothing: a box has its link, and a template is made
 * anew from an image that is pulled again.
 */
struct image_prune_wish {
	bool all; /* also those with a name */
	bool dry_run;
	uint64_t max_bytes; /* instead: those used longest ago, until images and blobs take no more;
			       UINT64_MAX: no such limit */
	const char *keep; /* digest of one that stays, or NULL */
	/* Told of each that goes, @name being one of its names or ""; may be NULL. */
	void (*gone)(const char *name, const char *digest, uint64_t bytes, void *user);
	void *user;
};

/* Blobs that nobody uses go, with a limit only as far as it demands. *ret_bytes: what went, or
 * would go; may be NULL. */
int image_space_prune(struct holt_home *home, const struct image_prune_wish *w, uint64_t *ret_bytes,
	holt_error **reterr);

/* The home's own limit, for who has just made the image @digest. */
void image_space_keep_budget(struct holt_home *home, const char *digest);

/* What a kind of things takes. */
struct space_use {
	size_t n;
	size_t n_active;
	uint64_t bytes;
	uint64_t free_bytes; /* of those that are not active */
};

struct home_use {
	struct space_use images;
	struct space_use blobs;
	struct space_use templates;
	struct space_use boxes; /* their disks and logs; active: those that run */
};

int home_use(struct holt_home *home, struct home_use *ret, holt_error **reterr);

#endif
