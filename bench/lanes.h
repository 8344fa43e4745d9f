/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_LANES_H
#define BENCH_LANES_H

#include <holt.h>

#include "record.h"

/*
 * The figures of the two lanes, in a box that runs; lanes.c says what each holds. @rounds as in
 * bench.c. Exits where the box fails.
 */
void bench_lanes(holt_box *box, unsigned rounds, const struct record_host *host);

/* One transfer of 64 MiB over a program's stdin or stdout, with an image that has `dd`: MB/s. */
double lanes_to_guest(holt_box *box);
double lanes_from_guest(holt_box *box);

#endif
