/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BOX_DOCTOR_H
#define BOX_DOCTOR_H

#include "base/err.h"

#include <stddef.h>

/* Looking at the host: one row per check, and all of it as JSON. Public face: holt/doctor.h. */
#define DOCTOR_CHECKS_MAX 24

struct doctor_check {
	const char *name; /* static */
	int status; /* HOLT_CHECK_ */
	char *text;
	char *advice;
};

struct holt_doctor {
	struct doctor_check checks[DOCTOR_CHECKS_MAX];
	size_t n;
	char *json;
};

int doctor_run(const char *home, struct holt_doctor **ret, holt_error **reterr);
void doctor_free(struct holt_doctor *d);

#endif
