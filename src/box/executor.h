/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BOX_EXECUTOR_H
#define BOX_EXECUTOR_H

#include "base/cancel.h"

#include <stdint.h>

/*
 * Threads of a home that run blocking work: as many as there is work, up to EXECUTOR_THREADS; each
 * ends after EXECUTOR_IDLE_MS without any. Public face: holt/job.h.
 *
 *   QUEUED --a thread takes it--> RUNNING --returned--> OVER
 *      '------- cancelled -----------------------------'
 */
#define EXECUTOR_THREADS 16u
#define EXECUTOR_QUEUE   4096u
#define EXECUTOR_IDLE_MS 5000u

struct executor;
struct holt_job;

struct job_work {
	int (*run)(holt_cancel *cancel, void *user, holt_error **reterr);
	void (*done)(struct holt_job *job, void *user); /* may be NULL */
	void *user;
};

struct executor *executor_new(void) __attribute__((warn_unused_result));
/* All jobs must have been freed. */
void executor_free(struct executor *x);

int job_start(struct executor *x, const struct job_work *work, struct holt_job **ret,
	holt_error **reterr);
int job_event_fd(struct holt_job *j, int *ret_fd, holt_error **reterr);
void job_cancel(struct holt_job *j);
/* 0 and the result once it is over, else -HOLT_ETIMEOUT. */
int job_wait(struct holt_job *j, uint64_t timeout_ms, int *ret, holt_error **reterr);
void job_free(struct holt_job *j);

#endif
