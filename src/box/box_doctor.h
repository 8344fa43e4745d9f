/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BOX_BOX_DOCTOR_H
#define BOX_BOX_DOCTOR_H

#include "base/err.h"

#include <stddef.h>

/* Looking at the host: one row per check, and all of it as JSON. Public face: holt/doctor.h. */
#define DOCTOR_CHECKS_MAX 24

/* As enum holt_check_status. */
enum doctor_status { DOCTOR_OK, DOCTOR_WARN, DOCTOR_FAIL };

struct doctor_check {
	const char *name; /* static */
	int status; /* enum doctor_status */
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
