/* SPDX-License-Identifier: Apache-2.0 */
#include "base/executor.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cond.h"
#include "base/fd.h"
#include "base/hash.h"
#include "base/banned.h"

#define THREAD_NAME_MAX 15u /* the kernel's */

struct holt_job {
	struct executor_task task;
	struct executor *x;
	struct job_work work;
	holt_cancel *cancel;
	int result;
	holt_error *error;
	int event_fd;
};

struct executor {
	pthread_mutex_t lock; /* of everything, and of the tasks' states */
	pthread_cond_t work; /* there is something to do, or no more */
	pthread_cond_t change; /* a task or a thread has ended */
	struct executor_task *queue;
	unsigned max_threads;
	unsigned max_jobs;
	char thread_name[THREAD_NAME_MAX + 1];
	unsigned n_queued;
	unsigned n_threads; /* max_threads, and one to end what will not run */
	unsigned n_idle;
	unsigned n_running;
	unsigned n_reserved;
	bool closed; /* no job begins any more */
	bool ending; /* threads without work end at once */
};

struct executor *executor_new(const struct executor_options *options)
{
	struct executor *x = mem_zalloc(sizeof *x);

	if (!x)
		return NULL;
	x->max_threads = options->max_threads;
	x->max_jobs = options->max_jobs;
	(void)snprintf(x->thread_name, sizeof x->thread_name, "%s", options->thread_name);
	(void)pthread_mutex_init(&x->lock, NULL);
	cond_init(&x->work);
	cond_init(&x->change);
	return x;
}

void executor_free(struct executor *x)
{
	if (!x)
		return;
	(void)pthread_mutex_lock(&x->lock);
	x->ending = true;
	(void)pthread_cond_broadcast(&x->work);
	while (x->n_threads > 0)
		(void)pthread_cond_wait(&x->change, &x->lock);
	(void)pthread_mutex_unlock(&x->lock);
	(void)pthread_cond_destroy(&x->work);
	(void)pthread_cond_destroy(&x->change);
	(void)pthread_mutex_destroy(&x->lock);
	mem_free(x);
}

/* ---- threads ---- */

/* What will only be told that it is over needs no turn. Those are first in the queue. */
static struct executor_task *next_locked(const struct executor *x)
{
	const bool has_turn = x->n_running < x->max_threads || x->closed;

	return x->queue && (has_turn || x->queue->dropped) ? x->queue : NULL;
}

/* Lock held, but not while it runs. Whoever waits for its end may free it from then on. */
static void run_locked(struct executor *x, struct executor_task *t)
{
	static const struct context none;

	DL_DELETE(x->queue, t);
	x->n_queued--;
	x->n_running++;
	t->state = TASK_RUNNING;
	t->refused = x->closed;
	(void)pthread_mutex_unlock(&x->lock);
	context_set(&t->context);
	t->run(t);
	context_set(&none);
	(void)pthread_mutex_lock(&x->lock);
	x->n_running--;
	t->state = TASK_OVER;
	if (t->over_locked)
		t->over_locked(t);
	(void)pthread_cond_broadcast(&x->change);
}

/* False where the time without work is over. The last thread stays while one is reserved. */
static bool await_work_locked(struct executor *x, uint64_t idle_since_ms)
{
	if (x->ending)
		return false;
	const bool stays = x->n_reserved > 0 && x->n_threads == 1;
	x->n_idle++;
	const bool waited = cond_wait(
		&x->work, &x->lock, stays ? HOLT_FOREVER : idle_since_ms + EXECUTOR_IDLE_MS);
	x->n_idle--;
	return waited;
}

static void *executor_thread(void *arg)
{
	struct executor *x = arg;
	uint64_t idle_since_ms = clock_mono_ms();

	(void)pthread_setname_np(pthread_self(), x->thread_name);
	(void)pthread_mutex_lock(&x->lock);
	for (;;) {
		struct executor_task *t = next_locked(x);

		if (t) {
			run_locked(x, t);
			idle_since_ms = clock_mono_ms();
		} else if (!await_work_locked(x, idle_since_ms)) {
			break;
		}
	}
	x->n_threads--;
	(void)pthread_cond_broadcast(&x->change);
	(void)pthread_mutex_unlock(&x->lock);
	return NULL;
}

static int start_thread_locked(struct executor *x)
{
	pthread_attr_t attr;
	pthread_t thread;
	sigset_t all;
	sigset_t before;

	(void)pthread_attr_init(&attr);
	(void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	/* The host program's signals are not for this thread. */
	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	const int r = pthread_create(&thread, &attr, executor_thread, x);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	(void)pthread_attr_destroy(&attr);
	x->n_threads += r == 0;
	return -r;
}

/* Whatever the reason, there are too many already. */
static int thread_error(int errnum, holt_error **reterr)
{
	char reason[128];
	const char *why = strerror_r(errnum, reason, sizeof reason);

	(void)err_make(reterr, HOLT_ELIMIT, "cannot start a thread: %s", why);
	err_set_errno(reterr, errnum);
	return -HOLT_ELIMIT;
}

/* One more thread where none is free for what waits. Without any it would never run. */
static int need_thread_locked(struct executor *x, unsigned max_threads)
{
	if (x->n_idle >= x->n_queued || x->n_threads >= max_threads)
		return 0;
	const int r = start_thread_locked(x);
	return x->n_threads > 0 ? 0 : r;
}

/* What waits and will not run is told at once, also where each thread is busy for long: one more
 * for that. Where there can be none, the others do it in their time. */
static void need_ending_locked(struct executor *x)
{
	(void)need_thread_locked(x, x->max_threads + 1);
	(void)pthread_cond_broadcast(&x->work);
}

/* ---- tasks ---- */

static int put_locked(struct executor *x, struct executor_task *t)
{
	t->state = TASK_QUEUED;
	DL_APPEND(x->queue, t);
	x->n_queued++;
	const int r = need_thread_locked(x, x->max_threads);
	if (r < 0) {
		DL_DELETE(x->queue, t);
		x->n_queued--;
		t->state = TASK_NEW;
	}
	(void)pthread_cond_signal(&x->work);
	return r;
}

void executor_close(struct executor *x)
{
	(void)pthread_mutex_lock(&x->lock);
	x->closed = true;
	need_ending_locked(x);
	(void)pthread_mutex_unlock(&x->lock);
}

int executor_reserve(struct executor *x, holt_error **reterr)
{
	int r = 0;

	(void)pthread_mutex_lock(&x->lock);
	if (x->n_threads == 0)
		r = start_thread_locked(x);
	x->n_reserved += r == 0;
	(void)pthread_mutex_unlock(&x->lock);
	return r < 0 ? thread_error(-r, reterr) : 0;
}

void executor_release(struct executor *x)
{
	(void)pthread_mutex_lock(&x->lock);
	if (--x->n_reserved == 0)
		(void)pthread_cond_broadcast(&x->work); /* the last one may end */
	(void)pthread_mutex_unlock(&x->lock);
}

void executor_put(struct executor *x, struct executor_task *t)
{
	(void)pthread_mutex_lock(&x->lock);
	(void)put_locked(x, t); /* a thread is there */
	(void)pthread_mutex_unlock(&x->lock);
}

void executor_withdraw(struct executor *x, struct executor_task *t)
{
	(void)pthread_mutex_lock(&x->lock);
	if (t->state == TASK_QUEUED) {
		DL_DELETE(x->queue, t);
		x->n_queued--;
		t->state = TASK_OVER;
	}
	while (t->state == TASK_RUNNING)
		(void)pthread_cond_wait(&x->change, &x->lock);
	(void)pthread_mutex_unlock(&x->lock);
}

/* ---- jobs ---- */

static struct holt_job *job_of(struct executor_task *t)
{
	return (struct holt_job *)t; /* its first member */
}

/* Also finishes one that was cancelled, or whose executor was closed, before its turn. */
static void job_run(struct executor_task *t)
{
	struct holt_job *j = job_of(t);

	if (cancel_fired(j->cancel))
		j->result = err_make(&j->error, HOLT_ECANCELLED, "cancelled before its turn");
	else if (t->refused)
		j->result = err_make(&j->error, HOLT_ECLOSED, "closed before its turn");
	else
		j->result = j->work.run(j->cancel, j->work.user, &j->error);
	if (!j->work.done)
		return;
	context_set(&t->context); /* whatever the function has set */
	j->work.done(j, j->work.user);
}

static void job_over_locked(struct executor_task *t)
{
	const uint64_t one = 1;
	const int fd = job_of(t)->event_fd;

	if (fd >= 0)
		(void)!write(fd, &one, sizeof one);
}

static int enqueue(struct executor *x, struct holt_job *j, holt_error **reterr)
{
	int r = 0;

	(void)pthread_mutex_lock(&x->lock);
	if (x->closed) {
		r = err_make(reterr, HOLT_ECLOSED, "cannot start a job: closed");
	} else if (x->n_queued >= x->max_jobs) {
		r = err_make(reterr, HOLT_ELIMIT, "%u jobs wait already", x->max_jobs);
		err_hint(reterr, "wait for some of them first");
	} else {
		r = put_locked(x, &j->task);
		if (r < 0)
			r = thread_error(-r, reterr);
	}
	(void)pthread_mutex_unlock(&x->lock);
	return r;
}

int job_start(
	struct executor *x, const struct job_work *work, struct holt_job **ret, holt_error **reterr)
{
	struct holt_job *j = mem_zalloc(sizeof *j);

	if (!j)
		return err_nomem(reterr);
	j->x = x;
	j->work = *work;
	j->event_fd = FD_NONE;
	j->task.run = job_run;
	j->task.over_locked = job_over_locked;
	context_get(&j->task.context);
	int r = cancel_new(&j->cancel, reterr);
	if (r == 0) {
		/* Before it can end: its own done may look at it. */
		*ret = j;
		r = enqueue(x, j, reterr);
	}
	if (r < 0) {
		*ret = NULL;
		cancel_free(j->cancel);
		mem_free(j);
	}
	return r;
}

int job_event_fd(struct holt_job *j, int *ret_fd, holt_error **reterr)
{
	int r = 0;

	(void)pthread_mutex_lock(&j->x->lock);
	if (j->event_fd < 0) {
		j->event_fd = eventfd(j->task.state == TASK_OVER, EFD_CLOEXEC | EFD_NONBLOCK);
		r = j->event_fd < 0 ? -errno : 0;
	}
	*ret_fd = j->event_fd;
	(void)pthread_mutex_unlock(&j->x->lock);
	return r < 0 ? err_errno(reterr, -r, "cannot make an eventfd") : 0;
}

void job_cancel(struct holt_job *j)
{
	struct executor *x = j->x;

	cancel_trigger(j->cancel);
	(void)pthread_mutex_lock(&x->lock);
	if (j->task.state == TASK_QUEUED && !j->task.dropped) {
		j->task.dropped = true;
		DL_DELETE(x->queue, &j->task);
		DL_PREPEND(x->queue, &j->task);
		need_ending_locked(x);
	}
	(void)pthread_mutex_unlock(&x->lock);
}

int job_wait(struct holt_job *j, uint64_t timeout_ms, int *ret, holt_error **reterr)
{
	struct executor *x = j->x;
	const uint64_t deadline_ms = cond_deadline(timeout_ms);
	int r = 0;

	(void)pthread_mutex_lock(&x->lock);
	while (j->task.state != TASK_OVER && cond_wait(&x->change, &x->lock, deadline_ms))
		continue;
	if (j->task.state == TASK_OVER) {
		*ret = j->result;
		if (j->error)
			(void)err_take(reterr, take_ptr(j->error));
	} else {
		r = -HOLT_ETIMEOUT;
	}
	(void)pthread_mutex_unlock(&x->lock);
	return r;
}

void job_free(struct holt_job *j)
{
	int unused = 0;

	if (!j)
		return;
	job_cancel(j);
	(void)job_wait(j, HOLT_FOREVER, &unused, NULL);
	(void)fd_close(j->event_fd);
	cancel_free(j->cancel);
	holt_error_free(j->error);
	mem_free(j);
}
