/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_CLONES_H
#define BENCH_CLONES_H

#include <holt.h>

#include "record.h"

/* What the figures of boxes that do not boot are measured with. */
struct clones {
	holt_home *home;
	const char *image; /* busybox */
	const char *debian; /* an image with bash and python3; NULL: none here */
	const char *holt; /* the command line's path */
	const char *rootfs; /* a directory with the files of @image */
	unsigned rounds;
	const struct record_host *host;
};

/* How fast they start; clones.c says what each figure holds. Exits where a box fails. */
void bench_clones(const struct clones *c);

/* What they cost while they run; density.c. */
void bench_density(const struct clones *c);

/* A new box that runs. @origin is what it has to have begun as ("boot", "template", "spare");
 * *ret_info may be NULL. */
holt_box *clone_start(const struct clones *c, const char *image, uint32_t flags, const char *origin,
	holt_box_info *ret_info);

/* Start @n of them at once, each on a thread of its own. Returns how long it took until all ran,
 * milliseconds. */
double clones_start_many(const struct clones *c, uint32_t flags, size_t n, holt_box **ret);

#endif
