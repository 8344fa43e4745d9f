/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_MANY_BOXES_H
#define BENCH_MANY_BOXES_H

#include "record.h"

/* Measure in fresh homes below @dir, with an image from the tar @layer; prints one figure. */
void bench_many_boxes(
	const char *dir, const char *layer, unsigned rounds, const struct record_host *host);

#endif
