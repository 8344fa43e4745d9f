/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_EXECUTOR_H
#define BASE_EXECUTOR_H

#include "base/cancel.h"
#include "base/thread_context.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * Threads that run blocking work: as many as there is work, up to a maximum; each ends after
 * EXECUTOR_IDLE_MS without any. An executor is nobody's in particular: each home has one, and each
 * serializer two. The work is a task, which lies in its owner's memory, or a job, which is a task
 * with a token, a result and an end to wait for (public face: holt/job.h). Both run with the
 * context of whoever started them.
 *
 *   QUEUED --a thread takes it--> RUNNING --returned--> OVER
 *      '------- cancelled, or the executor was closed ---'
 */
#define EXECUTOR_IDLE_MS 5000u

struct executor_options {
	unsigned max_threads;
	unsigned max_jobs; /* that wait for their turn */
	const char *thread_name; /* up to 15 characters */
};

struct executor;
struct holt_job;

enum task_state { TASK_NEW, TASK_QUEUED, TASK_RUNNING, TASK_OVER };

struct executor_task {
	void (*run)(struct executor_task *t);
	/* After run, with the executor's lock held; may be NULL. */
	void (*over_locked)(struct executor_task *t);
	struct context context;
	enum task_state state; /* guarded by the executor */
	bool dropped; /* it was cancelled while it waited */
	bool refused; /* its turn came after the executor was closed */
	struct executor_task *prev;
	struct executor_task *next;
};

struct job_work {
	int (*run)(holt_cancel *cancel, void *user, holt_error **reterr);
	void (*done)(struct holt_job *job, void *user); /* may be NULL */
	void *user;
};

struct executor *executor_new(const struct executor_options *options)
	__attribute__((warn_unused_result));
/* No job is taken any more, and those that wait end with -HOLT_ECLOSED; those that run go on. */
void executor_close(struct executor *x);
/* All jobs must have been freed. Waits for the threads. */
void executor_free(struct executor *x);

/* Between these two there is always a thread, so that executor_put cannot fail. */
int executor_reserve(struct executor *x, holt_error **reterr);
void executor_release(struct executor *x);
/* Queue a task for which a thread was reserved. Never blocks. */
void executor_put(struct executor *x, struct executor_task *t);
/* Take it back: it does not run afterwards. Waits for it where it is running. */
void executor_withdraw(struct executor *x, struct executor_task *t);

int job_start(struct executor *x, const struct job_work *work, struct holt_job **ret,
	holt_error **reterr);
int job_event_fd(struct holt_job *j, int *ret_fd, holt_error **reterr);
void job_cancel(struct holt_job *j);
/* 0 and the result once it is over, else -HOLT_ETIMEOUT. */
int job_wait(struct holt_job *j, uint64_t timeout_ms, int *ret, holt_error **reterr);
void job_free(struct holt_job *j);

#endif
