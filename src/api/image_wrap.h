/* SPDX-License-Identifier: Apache-2.0 */
#ifndef API_IMAGE_WRAP_H
#define API_IMAGE_WRAP_H

#include "holt/image.h"
#include "image/images.h"

/* The public object of an image, which it takes, also where it fails (NULL: no memory). */
holt_image *api_image_wrap(struct image *image);

#endif
