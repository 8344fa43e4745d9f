/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Serializers under 64 threads that do everything at once to a few keys: wait with and without
 * limits, are cancelled by each other, ask without waiting, take, give up and forget at any moment,
 * run functions that wait themselves; and in the midst of each round somebody closes it. Per key
 * there is one holder at any time, and in the end nobody is left. HOLT_LONG asks for a million.
 */
#include <check.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "holt/serializer.h"

#define THREADS   64u
#define KEYS      5u
#define OPS       50000ul
#define OPS_LONG  1000000ul
#define ROUNDS    5ul /* at least; each has a serializer of its own */
#define ROUND_OPS 20000ul

/* What Check does for an assertion that holds is not meant for many threads. */
#define must(what)                           \
	do {                                 \
		if (!(what))                 \
			ck_abort_msg(#what); \
	} while (0)

enum outcome { GOT, TIMED_OUT, CANCELLED, CLOSED, FORGOTTEN, N_OUTCOMES };

struct worker {
	pthread_t thread;
	uint64_t random;
	unsigned long ops;
	unsigned long outcomes[N_OUTCOMES];
	pthread_mutex_t lock; /* of the next: others trigger it */
	holt_cancel *cancel;
};

static struct worker workers[THREADS];
static holt_serializer *s;
static atomic_int holders[KEYS];
static atomic_ulong n_called, n_held;

static unsigned roll(struct worker *w, unsigned n)
{
	w->random ^= w->random << 13;
	w->random ^= w->random >> 7;
	w->random ^= w->random << 17;
	return (unsigned)(w->random >> 33) % n;
}

static void nap_us(long us)
{
	const struct timespec t = {.tv_nsec = us * 1000};

	(void)nanosleep(&t, NULL);
}

/* The critical section. */
static void use(unsigned key, holt_hold *h)
{
	must(atomic_fetch_add(&holders[key], 1) == 0);
	if (atomic_fetch_add(&n_held, 1) % 8 == 0)
		(void)sched_yield();
	must(atomic_fetch_sub(&holders[key], 1) == 1);
	holt_hold_release(h);
}

static enum outcome outcome_of(int r)
{
	must(r == 0 || r == -HOLT_ETIMEOUT || r == -HOLT_ECANCELLED || r == -HOLT_ECLOSED);
	return r == 0                  ? GOT
	       : r == -HOLT_ETIMEOUT   ? TIMED_OUT
	       : r == -HOLT_ECANCELLED ? CANCELLED
				       : CLOSED;
}

/* ---- what a worker does ---- */

static int hold(unsigned key, uint64_t timeout_ms, holt_cancel *cancel)
{
	holt_hold *h = NULL;
	const int r = holt_serializer_hold(s, &key, sizeof key, timeout_ms, cancel, &h, NULL);

	must((r == 0) == (h != NULL));
	if (r == 0)
		use(key, h);
	return r;
}

static int hold_patiently(struct worker *w, unsigned key)
{
	(void)w;
	return hold(key, HOLT_FOREVER, NULL);
}

static int hold_impatiently(struct worker *w, unsigned key)
{
	return hold(key, roll(w, 3), NULL);
}

static void set_cancel(struct worker *w, holt_cancel *cancel)
{
	(void)pthread_mutex_lock(&w->lock);
	w->cancel = cancel;
	(void)pthread_mutex_unlock(&w->lock);
}

static void cancel_somebody(struct worker *w)
{
	struct worker *other = &workers[roll(w, THREADS)];

	(void)pthread_mutex_lock(&other->lock);
	cancel_trigger(other->cancel);
	(void)pthread_mutex_unlock(&other->lock);
}

static int hold_cancellably(struct worker *w, unsigned key)
{
	holt_cancel *cancel = NULL;

	must(cancel_new(&cancel, NULL) == 0);
	set_cancel(w, cancel);
	const int r = hold(key, HOLT_FOREVER, cancel);
	set_cancel(w, NULL);
	cancel_free(cancel);
	return r;
}

static int hold_two(struct worker *w, unsigned key)
{
	const unsigned second = key + 1;
	holt_hold *h = NULL;

	(void)w;
	if (second == KEYS)
		return hold(key, HOLT_FOREVER, NULL);
	const int r = holt_serializer_hold(s, &key, sizeof key, HOLT_FOREVER, NULL, &h, NULL);
	if (r < 0)
		return r;
	const int r2 = hold(second, HOLT_FOREVER, NULL);
	must(r2 == 0 || r2 == -HOLT_ECLOSED);
	use(key, h);
	return r2;
}

static void wait_somehow(struct worker *w, holt_waiter *waiter)
{
	struct pollfd p = {.events = POLLIN};

	switch (roll(w, 4)) {
	case 0:
		break;
	case 1:
		(void)sched_yield();
		break;
	case 2:
		nap_us(roll(w, 300));
		break;
	default:
		must(holt_waiter_event_fd(waiter, &p.fd, NULL) == 0);
		must(poll(&p, 1, (int)roll(w, 3)) >= 0);
		break;
	}
}

/* Gives 1 where the waiter was forgotten. */
static int ask(struct worker *w, unsigned key)
{
	holt_waiter *waiter = NULL;
	holt_hold *h = NULL;
	int r = holt_serializer_hold_start(s, &key, sizeof key, NULL, NULL, &waiter, NULL);

	if (r < 0)
		return r;
	wait_somehow(w, waiter);
	switch (roll(w, 4)) {
	case 0:
		r = 1;
		break;
	case 1:
		holt_waiter_cancel(waiter);
		r = holt_waiter_take(waiter, HOLT_FOREVER, &h, NULL);
		must(r == -HOLT_ECANCELLED || r == -HOLT_ECLOSED);
		break;
	case 2:
		r = holt_waiter_take(waiter, roll(w, 3), &h, NULL);
		break;
	default:
		r = holt_waiter_take(waiter, HOLT_FOREVER, &h, NULL);
		must(r == 0 || r == -HOLT_ECLOSED);
		break;
	}
	if (r == 0)
		use(key, h);
	holt_waiter_free(waiter);
	return r;
}

struct call {
	unsigned key;
	atomic_int calls;
	int result;
};

static void on_done(holt_waiter *waiter, void *user)
{
	struct call *c = user;
	holt_hold *h = NULL;

	c->result = holt_waiter_take(waiter, 0, &h, NULL);
	must(c->result != -HOLT_ETIMEOUT && c->result != -HOLT_EINVALID);
	if (c->result == 0)
		use(c->key, h);
	atomic_fetch_add(&n_called, 1);
	must(atomic_fetch_add(&c->calls, 1) == 0);
}

static int ask_with_callback(struct worker *w, unsigned key)
{
	struct call c = {.key = key};
	holt_waiter *waiter = NULL;
	const bool waits = roll(w, 2);
	int r = holt_serializer_hold_start(s, &key, sizeof key, on_done, &c, &waiter, NULL);

	if (r < 0)
		return r;
	wait_somehow(w, waiter);
	if (roll(w, 3) == 0)
		holt_waiter_cancel(waiter);
	while (waits && atomic_load(&c.calls) == 0)
		nap_us(50);
	holt_waiter_free(waiter);
	return atomic_load(&c.calls) > 0 ? c.result : 1;
}

static int hold_in_job(holt_cancel *cancel, void *user, holt_error **reterr)
{
	(void)reterr;
	return hold(*(const unsigned *)user, HOLT_FOREVER, cancel);
}

static int hold_elsewhere(struct worker *w, unsigned key)
{
	holt_job_options o = HOLT_JOB_OPTIONS_INIT;
	holt_job *j = NULL;
	int r = 0;

	o.run = hold_in_job;
	o.user = &key;
	r = holt_serializer_run(s, &o, &j, NULL);
	if (r < 0)
		return r;
	if (roll(w, 3) == 0)
		holt_job_cancel(j);
	must(holt_job_wait(j, HOLT_FOREVER, &r, NULL) == 0);
	holt_job_free(j);
	return r;
}

static void *work(void *arg)
{
	static int (*const actions[])(struct worker *, unsigned) = {hold_patiently,
		hold_impatiently, hold_cancellably, hold_two, ask, ask, ask_with_callback,
		hold_elsewhere};
	struct worker *w = arg;
	/* One of them closes, sooner or later. */
	const unsigned long closes_at = w == &workers[0] ? w->ops / 2 + roll(w, (unsigned)w->ops)
							 : 2 * w->ops;

	for (unsigned long i = 0; i < w->ops; i++) {
		if (i == closes_at)
			holt_serializer_close(s);
		const int r = actions[roll(w, 8)](w, roll(w, KEYS));
		w->outcomes[r == 1 ? FORGOTTEN : outcome_of(r)]++;
		if (roll(w, 4) == 0)
			cancel_somebody(w);
	}
	return NULL;
}

static void one_round(unsigned long ops, uint64_t seed, unsigned long *outcomes)
{
	must(holt_serializer_new(NULL, &s, NULL) == 0);
	for (unsigned i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){
			.random = (seed + i + 1) * 0x9e3779b97f4a7c15u, .ops = ops / THREADS};
		(void)pthread_mutex_init(&workers[i].lock, NULL);
	}
	for (unsigned i = 0; i < THREADS; i++)
		must(pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0);
	for (unsigned i = 0; i < THREADS; i++) {
		must(pthread_join(workers[i].thread, NULL) == 0);
		for (unsigned k = 0; k < N_OUTCOMES; k++)
			outcomes[k] += workers[i].outcomes[k];
	}
	for (unsigned i = 0; i < THREADS; i++)
		(void)pthread_mutex_destroy(&workers[i].lock);
	ck_assert_uint_eq(holt_serializer_count(s), 0);
	holt_serializer_free(s);
}

/* C-26, C-30, C-31, C-32, C-33, C-35, C-36 */
START_TEST(many_threads_on_few_keys)
{
	const unsigned long wanted = getenv("HOLT_LONG") ? OPS_LONG : OPS;
	const unsigned long rounds = wanted / ROUND_OPS > ROUNDS ? wanted / ROUND_OPS : ROUNDS;
	const uint64_t start_ms = clock_mono_ms();
	unsigned long outcomes[N_OUTCOMES] = {0};

	for (unsigned long i = 0; i < rounds; i++)
		one_round(wanted / rounds, i * 1000 + (uint64_t)getpid(), outcomes);
	printf("%lu rounds, %llu ms: %lu held (%lu uses), %lu timed out, %lu cancelled, %lu "
	       "closed, "
	       "%lu forgotten, %lu callbacks\n",
		rounds, (unsigned long long)(clock_mono_ms() - start_ms), outcomes[GOT],
		atomic_load(&n_held), outcomes[TIMED_OUT], outcomes[CANCELLED], outcomes[CLOSED],
		outcomes[FORGOTTEN], atomic_load(&n_called));
	for (unsigned i = 0; i < N_OUTCOMES; i++)
		ck_assert_uint_gt(outcomes[i], 0);
	ck_assert_uint_gt(atomic_load(&n_called), 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("serializer_stress");
	TCase *c = tcase_create("serializer_stress");

	tcase_set_timeout(c, getenv("HOLT_LONG") ? 600 : 60);
	tcase_add_test(c, many_threads_on_few_keys);
	suite_add_tcase(suite, c);
	SRunner *r = srunner_create(suite);
	srunner_run_all(r, CK_ENV);
	const int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
