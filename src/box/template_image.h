/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BOX_TEMPLATE_IMAGE_H
#define BOX_TEMPLATE_IMAGE_H

#include "box/template.h"

/*
 * Templates as their user sees them: of an image of the store. template.c and template_build.c know
 * keys and root file systems only.
 */

/* What is asked for; all is checked and filled in. */
struct template_wish {
	bool bare;
	uint32_t memory_mib;
	uint32_t cpus;
	uint64_t disk_bytes;
	uint64_t boot_timeout_ms;
	const char *accel; /* NULL: $HOLT_ACCEL, else what works */
	holt_cancel *cancel;
	const char *const *directories; /* that a pool's boxes begin with; NULL: none */
	const char *owner; /* of them; NULL: the image's user */
};

/* Make the one of @image, if it is not there. *ret is for template_info_done. */
int template_image_build(struct holt_home *home, const char *image, const struct template_wish *w,
	struct template_info *ret, holt_error **reterr);

/* So many spares of @image shall wait, at most SPARES_MAX; makes its template, of the default shape
 * whatever @w says (NULL: nothing), and waits until they are ready. None at all are those of pools,
 * too. */
int template_image_spares(struct holt_home *home, const char *image, const struct template_wish *w,
	unsigned n, holt_error **reterr);

/* template_list, with the numbers of spares. */
int template_image_list(
	struct holt_home *home, struct template_info **ret, size_t *ret_n, holt_error **reterr);

/* Remove all of the image that @ref means, or the one whose key begins with it. */
int template_image_remove(struct holt_home *home, const char *ref, holt_error **reterr);

/* Remove those that no start can use any more: their root file system belongs to no image, or
 * kernel, agent or QEMU are others now. Then template_prune with @max_bytes, unless that is
 * UINT64_MAX. *ret_n and *ret_bytes tell what went (both may be NULL). */
int template_image_prune(struct holt_home *home, uint64_t max_bytes, size_t *ret_n,
	uint64_t *ret_bytes, holt_error **reterr);

/* image_remove, and the templates of its root file system with the last image that has it. */
int template_image_forget(struct holt_home *home, const char *ref, holt_error **reterr);

#endif
