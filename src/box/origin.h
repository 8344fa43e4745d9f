/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BOX_ORIGIN_H
#define BOX_ORIGIN_H

#include "box/keeper_start.h"
#include "box/lifecycle.h"

/* Shape for which templates are made without being asked for. */
#define DEFAULT_MEMORY_MIB 512u
#define DEFAULT_CPUS       1u
#define DEFAULT_DISK_BYTES (UINT64_C(10) << 30)

/*
 * Where the machine of a start comes from: a clone of a template where there is one that fits, else
 * a boot. Fills @p (memory and state) and @spec; for the first start of a box it gives it the
 * template's disk. Both locks of the box are held; kernel, initramfs and rootfs are open. Never
 * fails: what stands in the way of a clone becomes the note of a boot.
 */
void origin_choose(struct holt_box *b, const struct start_wish *w, struct keeper_parts *p,
	struct keeper_spec *spec);

#endif
