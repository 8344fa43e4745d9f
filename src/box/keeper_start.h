/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BOX_KEEPER_START_H
#define BOX_KEEPER_START_H

#include "box/box_dir.h"
#include "box/box_home.h"
#include "box/keeper.h"

/*
 * Starting a keeper: collect what its machine needs as descriptors, then hand all of it over. The
 * specification follows through the owner pipe, whose write end stays with the caller.
 */
struct keeper_parts {
	int kernel_fd; /* lent by the home, like the next */
	int initrd_fd;
	int rootfs_fd;
	int disk_fd;
	int memory_fd; /* of a template, made or used; else none */
	int state_fd;
	int owner[2]; /* after the start: [1] is the owner's end */
	int control[2]; /* after the start: [0] is the first client's end, as for bulk */
	int bulk[2];
};

#define KEEPER_PARTS_INIT                                                                        \
	((struct keeper_parts){-EBADF, -EBADF, -EBADF, -EBADF, -EBADF, -EBADF, {-EBADF, -EBADF}, \
		{-EBADF, -EBADF}, {-EBADF, -EBADF}})

void keeper_parts_done(struct keeper_parts *p);

/* The accelerator (@want NULL: $HOLT_ACCEL, else what works), into @spec. */
int keeper_choose_accel(
	struct holt_home *home, const char *want, struct keeper_spec *spec, holt_error **reterr);

/* The guest's kernel and initramfs, which the home opens once. */
int keeper_open_kernel(struct holt_home *home, struct keeper_parts *p, holt_error **reterr);

/* Start it for the directory @dir, both locks of which are held; from then on they are the keeper's
 * and its machine's. */
int keeper_start(struct holt_home *home, const struct box_dir *dir, struct keeper_parts *p,
	const struct keeper_spec *spec, holt_error **reterr);

#endif
