/* SPDX-License-Identifier: Apache-2.0 */
#ifndef API_JOB_OPTIONS_H
#define API_JOB_OPTIONS_H

#include "holt/job.h"

#include "base/executor.h"

/* holt_job_options, read and checked; NULL is none. */
int api_job_read(const holt_job_options *options, struct job_work *ret, holt_error **reterr);

#endif
