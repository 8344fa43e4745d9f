/* SPDX-License-Identifier: Apache-2.0 */
#include "box/loop.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>

#include "base/fd.h"
#include "base/hash.h"
#include "base/banned.h"

#define UV_PIPES 4 /* as many descriptors as a loop and its first handles take, and some */

struct loop_task {
	void (*fn)(void *arg);
	void *arg;
	bool done;
	struct loop_task *next;
};

struct loop {
	uv_loop_t uv;
	uv_async_t wake;
	pthread_t thread;
	bool started;
	bool stopping;
	pthread_mutex_t lock; /* of everything below */
	pthread_cond_t done;
	struct loop_task *tasks;
	struct loop_kick *kicks;
};

struct loop *loop_new(void)
{
	struct loop *l = mem_zalloc(sizeof *l);

	if (!l)
		return NULL;
	(void)pthread_mutex_init(&l->lock, NULL);
	(void)pthread_cond_init(&l->done, NULL);
	return l;
}

static void run_tasks(struct loop *l)
{
	(void)pthread_mutex_lock(&l->lock);
	while (l->tasks) {
		struct loop_task *t = l->tasks;

		LL_DELETE(l->tasks, t);
		(void)pthread_mutex_unlock(&l->lock);
		t->fn(t->arg);
		(void)pthread_mutex_lock(&l->lock);
		t->done = true;
		(void)pthread_cond_broadcast(&l->done);
	}
	while (l->kicks) {
		struct loop_kick *k = l->kicks;

		LL_DELETE(l->kicks, k);
		k->queued = false;
		(void)pthread_mutex_unlock(&l->lock);
		k->fn(k->arg);
		(void)pthread_mutex_lock(&l->lock);
	}
	const bool stop = l->stopping;
	(void)pthread_mutex_unlock(&l->lock);
	if (stop && !uv_is_closing((uv_handle_t *)&l->wake))
		uv_close((uv_handle_t *)&l->wake, NULL);
}

static void on_wake(uv_async_t *wake)
{
	run_tasks(wake->data);
}

static void *loop_thread(void *arg)
{
	struct loop *l = arg;

	(void)pthread_setname_np(pthread_self(), "holt-loop");
	(void)uv_run(&l->uv, UV_RUN_DEFAULT);
	return NULL;
}

/* libuv aborts where it finds no descriptors for its first loop, so look whether it will. */
static int check_descriptors(void)
{
	int pipes[UV_PIPES][2];
	int n = 0;
	int r = 0;

	while (n < UV_PIPES && (r = fd_pipe(pipes[n])) == 0)
		n++;
	while (n > 0) {
		n--;
		(void)fd_close(pipes[n][0]);
		(void)fd_close(pipes[n][1]);
	}
	return r;
}

static int start_locked(struct loop *l, holt_error **reterr)
{
	sigset_t all;
	sigset_t before;

	int r = check_descriptors();
	if (r == 0)
		r = uv_loop_init(&l->uv);
	if (r < 0)
		return err_errno(reterr, -r, "cannot make an event loop");
	l->wake.data = l;
	r = uv_async_init(&l->uv, &l->wake, on_wake);
	if (r < 0) {
		(void)uv_loop_close(&l->uv);
		return err_errno(reterr, -r, "cannot make an event loop");
	}
	/* The host program's signals are not for this thread. */
	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	r = pthread_create(&l->thread, NULL, loop_thread, l);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (r != 0) {
		uv_close((uv_handle_t *)&l->wake, NULL);
		(void)uv_run(&l->uv, UV_RUN_DEFAULT);
		(void)uv_loop_close(&l->uv);
		return err_errno(reterr, r, "cannot start a thread");
	}
	l->started = true;
	return 0;
}

int loop_start(struct loop *l, holt_error **reterr)
{
	(void)pthread_mutex_lock(&l->lock);
	const int r = l->started ? 0 : start_locked(l, reterr);
	(void)pthread_mutex_unlock(&l->lock);
	return r;
}

uv_loop_t *loop_uv(struct loop *l)
{
	return &l->uv;
}

void loop_call(struct loop *l, void (*fn)(void *arg), void *arg)
{
	struct loop_task task = {.fn = fn, .arg = arg};

	(void)pthread_mutex_lock(&l->lock);
	LL_APPEND(l->tasks, &task);
	(void)uv_async_send(&l->wake);
	while (!task.done)
		(void)pthread_cond_wait(&l->done, &l->lock);
	(void)pthread_mutex_unlock(&l->lock);
}

void loop_kick(struct loop_kick *k)
{
	struct loop *l = k->loop;

	(void)pthread_mutex_lock(&l->lock);
	if (!k->queued) {
		k->queued = true;
		LL_APPEND(l->kicks, k);
		(void)uv_async_send(&l->wake);
	}
	(void)pthread_mutex_unlock(&l->lock);
}

void loop_unkick(struct loop_kick *k)
{
	struct loop *l = k->loop;

	(void)pthread_mutex_lock(&l->lock);
	if (k->queued) {
		LL_DELETE(l->kicks, k);
		k->queued = false;
	}
	(void)pthread_mutex_unlock(&l->lock);
}

void loop_free(struct loop *l)
{
	if (!l)
		return;
	if (l->started) {
		(void)pthread_mutex_lock(&l->lock);
		l->stopping = true;
		(void)uv_async_send(&l->wake);
		(void)pthread_mutex_unlock(&l->lock);
		(void)pthread_join(l->thread, NULL);
		(void)uv_loop_close(&l->uv);
	}
	(void)pthread_cond_destroy(&l->done);
	(void)pthread_mutex_destroy(&l->lock);
	mem_free(l);
}
