/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_PYTHON_CALLS_H
#define BENCH_PYTHON_CALLS_H

#include <holt.h>

#include "record.h"

struct python_calls {
	holt_home *home;
	const char *image;
	const char *python; /* an interpreter that has the package */
	const char *worker; /* bench/python_worker.py */
	unsigned rounds;
	const struct record_host *host;
};

/* What a call costs through Python; exits where one fails. */
void bench_python_calls(const struct python_calls *p);

#endif
