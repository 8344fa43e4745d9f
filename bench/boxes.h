/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_BOXES_H
#define BENCH_BOXES_H

#include <holt.h>

#include "record.h"

/*
 * The figures of boxes that live on; boxes.c says what each holds. @holt is the command line's
 * path. Exits where a box fails.
 */
void bench_boxes(holt_home *home, const char *image, const char *holt, unsigned rounds,
	const struct record_host *host);

#endif
