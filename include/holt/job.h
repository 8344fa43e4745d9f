/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOLT_JOB_H
#define HOLT_JOB_H

/*
 * Jobs: any blocking call of this library, asynchronously. A job is a function that runs on one of
 * the home's threads; its end is a callback, a descriptor to poll, or both. At most
 * HOLT_JOBS_RUNNING run at once, up to HOLT_JOBS_MAX more wait their turn.
 *
 *   static int stop_it(holt_cancel *cancel, void *box, holt_error **reterr)
 *   {
 *           return holt_box_stop(box, 0, reterr);
 *   }
 *   ...
 *   holt_job_options options = HOLT_JOB_OPTIONS_INIT;
 *   options.run = stop_it;
 *   options.user = box;
 *   holt_job_start(home, &options, &job, &error);
 */

#include "home.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct holt_job holt_job;

#define HOLT_JOBS_RUNNING 16u
#define HOLT_JOBS_MAX     4096u

typedef struct holt_job_options {
	size_t struct_size; /* set by HOLT_JOB_OPTIONS_INIT */
	/* The work; must not be NULL. @cancel fires with holt_job_cancel: hand it to calls that
	 * take one. What it returns, and the error it sets, come out of holt_job_wait. */
	int (*run)(holt_cancel *cancel, void *user, holt_error **reterr);
	/* Called once, on the same thread, when run has returned, or when the job was cancelled
	 * before its turn; may be NULL. It must not free the job. */
	void (*done)(holt_job *job, void *user);
	void *user; /* for both */
} holt_job_options;

#define HOLT_JOB_OPTIONS_INIT                              \
	{                                                  \
		sizeof(holt_job_options), NULL, NULL, NULL \
	}

/**
 * holt_job_start - run a function on a thread of the home.
 * @home: an open home; must not be NULL.
 * @options: must not be NULL.
 * @ret: receives the job; must not be NULL.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * Returns: 0; -HOLT_EINVALID; -HOLT_ELIMIT where HOLT_JOBS_MAX wait already, or where no thread can
 * be started; -HOLT_ENO_MEMORY.
 * Ownership: the caller frees *@ret with holt_job_free, before the home is closed.
 * Threads: any thread.
 * Blocks: never.
 * Since: 0.1
 */
HOLT_API int holt_job_start(
	holt_home *home, const holt_job_options *options, holt_job **ret, holt_error **reterr);

/**
 * holt_job_event_fd - get a descriptor that tells the end of a job.
 * @job: a job; must not be NULL.
 * @ret_fd: receives an eventfd that is readable from the job's end on; must not be NULL.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * Returns: 0; -HOLT_EINVALID, -HOLT_ELIMIT.
 * Ownership: the descriptor belongs to @job and is closed by holt_job_free.
 * Threads: any thread.
 * Blocks: never.
 * Since: 0.1
 */
HOLT_API int holt_job_event_fd(holt_job *job, int *ret_fd, holt_error **reterr);

/**
 * holt_job_cancel - ask a job to end.
 * @job: a job; must not be NULL. One that has ended is fine.
 *
 * A job that waits for its turn ends at once with -HOLT_ECANCELLED; the token of one that runs
 * fires.
 *
 * Returns: nothing.
 * Ownership: nothing changes hands.
 * Threads: any thread.
 * Blocks: never.
 * Since: 0.1
 */
HOLT_API void holt_job_cancel(holt_job *job);

/**
 * holt_job_wait - wait for the end of a job, and take its result.
 * @job: a job; must not be NULL.
 * @timeout_ms: how long to wait; 0 only looks, HOLT_FOREVER has no limit.
 * @ret: receives what the function returned, -HOLT_ECANCELLED for one that never ran; must not be
 * NULL.
 * @reterr: receives the function's error, the first time; may be NULL, must point to NULL.
 *
 * Returns: 0 where the job has ended; -HOLT_ETIMEOUT (no error is set) where it has not;
 * -HOLT_EINVALID.
 * Ownership: the caller frees the error.
 * Threads: any thread.
 * Blocks: at most @timeout_ms.
 * Since: 0.1
 */
HOLT_API int holt_job_wait(holt_job *job, uint64_t timeout_ms, int *ret, holt_error **reterr);

/**
 * holt_job_free - forget a job; cancels it and waits for its end where it has not ended.
 * @job: a job, or NULL. Not from its own functions.
 *
 * Returns: nothing.
 * Ownership: consumes @job.
 * Threads: any thread, while no other call uses @job.
 * Blocks: until its function has returned.
 * Since: 0.1
 */
HOLT_API void holt_job_free(holt_job *job);

#ifdef __cplusplus
}
#endif
#endif
