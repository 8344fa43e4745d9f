/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TICK_FIXTURE_H
#define TICK_FIXTURE_H

/*
 * Whether a loop ticks, on a machine that may be busy with something else: a thread that does
 * nothing but tick runs beside it, and the loop may not be late much more often than that.
 */
#include <check.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"

#define TICK_MS     1
#define TICK_US_MAX 5000u /* one that takes longer is late */

struct ticks {
	unsigned n;
	unsigned late;
};

struct idle_ticker {
	pthread_t thread;
	atomic_int stop;
	struct ticks ticks;
};

static inline void tick_count(struct ticks *t, uint64_t begun_us)
{
	t->n++;
	t->late += clock_mono_us() - begun_us > TICK_US_MAX;
}

static inline void *idle_ticker_run(void *arg)
{
	struct idle_ticker *t = arg;

	while (!atomic_load(&t->stop)) {
		const uint64_t begun_us = clock_mono_us();

		(void)poll(NULL, 0, TICK_MS);
		tick_count(&t->ticks, begun_us);
	}
	return NULL;
}

static inline void idle_ticker_start(struct idle_ticker *t)
{
	*t = (struct idle_ticker){.stop = 0};
	ck_assert_int_eq(pthread_create(&t->thread, NULL, idle_ticker_run, t), 0);
}

/* Stop it, and compare. A loop that waits in one of its calls is late nearly always; this one may
 * be three times as often as the idle one, and one tick in ten. */
static inline void check_ticks(struct idle_ticker *idle, const struct ticks *loop)
{
	atomic_store(&idle->stop, 1);
	ck_assert_int_eq(pthread_join(idle->thread, NULL), 0);
	ck_assert_uint_gt(loop->n, 20);
	ck_assert_msg(
		loop->late * idle->ticks.n <= (3 * idle->ticks.late + idle->ticks.n / 10) * loop->n,
		"%u of %u ticks are late, of an idle thread %u of %u", loop->late, loop->n,
		idle->ticks.late, idle->ticks.n);
}

#endif
