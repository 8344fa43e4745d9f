/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_PULLS_H
#define BENCH_PULLS_H

#include "record.h"

struct pulls {
	const char *holt; /* the CLI */
	const char *image; /* that of @registries, in the home, where a template of it is made */
	const char *registries; /* a directory; bench/images says what is in it */
	const char *dir; /* for scratch files */
	unsigned rounds;
	const struct record_host *host;
};

/* pulls.c says what each figure holds. */
void bench_pulls(const struct pulls *p);

#endif
