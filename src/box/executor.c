/* SPDX-License-Identifier: Apache-2.0 */
#include "box/executor.h"

#include <errno.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/hash.h"
#include "box/session.h"
#include "base/banned.h"

enum job_state { JOB_QUEUED, JOB_RUNNING, JOB_OVER };

struct holt_job {
	struct executor *x;
	struct job_work work;
	holt_cancel *cancel;
	enum job_state state;
	int result;
	holt_error *error;
	int event_fd;
	struct holt_job *prev;
	struct holt_job *next;
};

struct executor {
	pthread_mutex_t lock; /* of everything, and of the jobs' states */
	pthread_cond_t work; /* there is something to do, or no more */
	pthread_cond_t change; /* a job or a thread has ended */
	struct holt_job *queue;
	unsigned n_queued;
	unsigned n_threads;
	unsigned n_idle;
	bool closing;
};

struct executor *executor_new(void)
{
	struct executor *x = mem_zalloc(sizeof *x);

	if (!x)
		return NULL;
	(void)pthread_mutex_init(&x->lock, NULL);
	session_cond_init(&x->work);
	session_cond_init(&x->change);
	return x;
}

void executor_free(struct executor *x)
{
	if (!x)
		return;
	(void)pthread_mutex_lock(&x->lock);
	x->closing = true;
	(void)pthread_cond_broadcast(&x->work);
	while (x->n_threads > 0)
		(void)pthread_cond_wait(&x->change, &x->lock);
	(void)pthread_mutex_unlock(&x->lock);
	(void)pthread_cond_destroy(&x->work);
	(void)pthread_cond_destroy(&x->change);
	(void)pthread_mutex_destroy(&x->lock);
	mem_free(x);
}

static struct timespec time_of(uint64_t deadline_ms)
{
	return (struct timespec){.tv_sec = (time_t)(deadline_ms / 1000),
		.tv_nsec = (long)(deadline_ms % 1000) * 1000000L};
}

static void tell_over_locked(struct holt_job *j)
{
	const uint64_t one = 1;

	j->state = JOB_OVER;
	if (j->event_fd >= 0)
		(void)!write(j->event_fd, &one, sizeof one);
	(void)pthread_cond_broadcast(&j->x->change);
}

/* Run one job, or finish one that was cancelled before its turn. Lock held, but not meanwhile. */
static void run_locked(struct executor *x, struct holt_job *j)
{
	DL_DELETE(x->queue, j);
	x->n_queued--;
	j->state = JOB_RUNNING;
	(void)pthread_mutex_unlock(&x->lock);
	j->result = cancel_fired(j->cancel)
			    ? err_make(&j->error, HOLT_ECANCELLED, "cancelled before its turn")
			    : j->work.run(j->cancel, j->work.user, &j->error);
	if (j->work.done)
		j->work.done(j, j->work.user);
	(void)pthread_mutex_lock(&x->lock);
	tell_over_locked(j);
}

static void *executor_thread(void *arg)
{
	struct executor *x = arg;
	uint64_t idle_since_ms = clock_mono_ms();

	(void)pthread_setname_np(pthread_self(), "holt-job");
	(void)pthread_mutex_lock(&x->lock);
	for (;;) {
		if (x->queue) {
			run_locked(x, x->queue);
			idle_since_ms = clock_mono_ms();
			continue;
		}
		if (x->closing || clock_mono_ms() - idle_since_ms >= EXECUTOR_IDLE_MS)
			break;
		const struct timespec until = time_of(idle_since_ms + EXECUTOR_IDLE_MS);
		x->n_idle++;
		(void)pthread_cond_timedwait(&x->work, &x->lock, &until);
		x->n_idle--;
	}
	x->n_threads--;
	(void)pthread_cond_broadcast(&x->change);
	(void)pthread_mutex_unlock(&x->lock);
	return NULL;
}

/* One more thread where none is free for the job. Without any the job would never run. */
static int need_thread_locked(struct executor *x)
{
	pthread_attr_t attr;
	pthread_t thread;
	sigset_t all;
	sigset_t before;

	if (x->n_idle >= x->n_queued || x->n_threads >= EXECUTOR_THREADS)
		return 0;
	(void)pthread_attr_init(&attr);
	(void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	/* The host program's signals are not for this thread. */
	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	const int r = pthread_create(&thread, &attr, executor_thread, x);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	(void)pthread_attr_destroy(&attr);
	x->n_threads += r == 0;
	return r == 0 || x->n_threads > 0 ? 0 : -r;
}

static int enqueue(struct executor *x, struct holt_job *j, holt_error **reterr)
{
	int r = 0;

	(void)pthread_mutex_lock(&x->lock);
	if (x->n_queued >= EXECUTOR_QUEUE) {
		r = err_make(reterr, HOLT_ELIMIT, "%u jobs wait already", EXECUTOR_QUEUE);
		err_hint(reterr, "wait for some of them first");
	} else {
		DL_APPEND(x->queue, j);
		x->n_queued++;
		r = need_thread_locked(x);
		if (r < 0) {
			DL_DELETE(x->queue, j);
			x->n_queued--;
			r = err_errno(reterr, -r, "cannot start a thread");
		}
	}
	(void)pthread_cond_signal(&x->work);
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
		j->event_fd = eventfd(j->state == JOB_OVER, EFD_CLOEXEC | EFD_NONBLOCK);
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
	/* One that waits need not wait any longer: it goes to the front. */
	(void)pthread_mutex_lock(&x->lock);
	if (j->state == JOB_QUEUED) {
		DL_DELETE(x->queue, j);
		DL_PREPEND(x->queue, j);
	}
	(void)pthread_mutex_unlock(&x->lock);
}

int job_wait(struct holt_job *j, uint64_t timeout_ms, int *ret, holt_error **reterr)
{
	struct executor *x = j->x;
	const uint64_t deadline_ms = session_deadline(timeout_ms);
	const struct timespec until = time_of(deadline_ms);
	int r = 0;

	(void)pthread_mutex_lock(&x->lock);
	while (j->state != JOB_OVER && clock_mono_ms() < deadline_ms) {
		if (deadline_ms == HOLT_FOREVER)
			(void)pthread_cond_wait(&x->change, &x->lock);
		else
			(void)pthread_cond_timedwait(&x->change, &x->lock, &until);
	}
	if (j->state == JOB_OVER) {
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
