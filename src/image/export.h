/* SPDX-License-Identifier: Apache-2.0 */
#ifndef IMAGE_EXPORT_H
#define IMAGE_EXPORT_H

#include "image/images.h"

/* Write an image as an OCI archive (a tar of a layout) to @fd, which may be a pipe: its root file
 * system as one layer without compression, its configuration as it came but for the layers. The
 * same image gives the same bytes. */
int image_export(struct image_store *s, const char *ref, int fd, const volatile int *cancel,
	holt_error **reterr);

#endif
