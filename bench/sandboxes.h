/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_SANDBOXES_H
#define BENCH_SANDBOXES_H

#include <holt.h>

#include "record.h"

/*
 * The figures of the sandbox contract, in one box of @image, which has to have sh, the usual
 * programs, GNU grep and python3 (NULL: none here); sandboxes.c says what each holds. @rounds as in
 * bench.c. Exits where the box fails.
 */
void bench_sandboxes(
	holt_home *home, const char *image, unsigned rounds, const struct record_host *host);

#endif
