/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BOX_ORIGIN_H
#define BOX_ORIGIN_H

#include "box/keeper_start.h"
#include "box/lifecycle.h"
#include "box/template.h"

/* Shape for which templates are made without being asked for. */
#define DEFAULT_MEMORY_MIB 512u
#define DEFAULT_CPUS       1u
#define DEFAULT_DISK_BYTES (UINT64_C(10) << 30)

/*
 * Where the machine of a start comes from: a spare, else a clone of a template where there is one
 * that fits, else a boot. Both locks of the box are held; kernel, initramfs and rootfs are open.
 */
struct origin {
	struct template_want want;
	char key[TEMPLATE_KEY_LEN + 1]; /* empty: it boots */
	unsigned spares; /* how many there shall be of this image */
};

/* Look what is wished and possible. Never fails. */
void origin_look(struct holt_box *b, const struct start_wish *w, const struct keeper_parts *p,
	const struct keeper_spec *spec, struct origin *ret);

/* Take over a spare: 0, or a negative code where there is none. */
int origin_claim(struct holt_box *b, const struct origin *o, const struct keeper_spec *spec,
	struct session **ret, int *ret_owner);

/* Fill @p (memory and state) and @spec for a clone; for the first start of a box give it the
 * template's disk. Never fails: what stands in the way becomes the note of a boot. */
void origin_clone(struct holt_box *b, const struct origin *o, struct keeper_parts *p,
	struct keeper_spec *spec);

/* The start is under way: replace spares that are missing. Takes @p's rootfs. */
void origin_refill(struct holt_box *b, struct origin *o, struct keeper_parts *p);

#endif
