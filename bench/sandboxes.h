/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_SANDBOXES_H
#define BENCH_SANDBOXES_H

#include <holt.h>

#include "record.h"

/*
 * The figures of sandboxes; sandboxes.c says what each holds. @image needs the usual programs, GNU
 * grep and python3. @rounds as in bench.c. Exits where the box fails.
 */
void bench_sandboxes(
	holt_home *home, const char *image, unsigned rounds, const struct record_host *host);

#endif
