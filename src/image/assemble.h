/* SPDX-License-Identifier: Apache-2.0 */
#ifndef IMAGE_ASSEMBLE_H
#define IMAGE_ASSEMBLE_H

#include "image/images.h"
#include "image/manifest.h"
#include "image/tarfile.h"

/* From the layers of an image, wherever they come from, to the image in the store. */

struct assembly_wish {
	const char *digest; /* of the manifest */
	const struct manifest *manifest; /* NULL: one plain tar, which names itself */
	const char *config; /* its text, verified */
	uint64_t plain_size; /* bytes of the plain tar */
	const char *name; /* reference for the image, or NULL */
	/* Open the layer @at (0 is the base) for reading; may be called again for the same one.
	 * *ret_fd is closed afterwards and may be FD_NONE. */
	int (*open)(
		void *user, size_t at, struct tar_source *ret, int *ret_fd, holt_error **reterr);
	void *user;
};

/* Every digest is checked; layers are read newest first, each from its beginning to its end. The
 * watch's total grows by what is to be read. */
int assemble_image(struct image_store *s, struct tar_watch *watch, const struct assembly_wish *w,
	struct image **ret, holt_error **reterr);

#endif
