/* SPDX-License-Identifier: Apache-2.0 */
/*
 *   acquire_known_500   a warm acquire, with a sign of life of the guest in it, in a pool that
 * knows 500 threads besides; baseline acquire_known_1: the same before they came
 *
 * The 500 are real: each thread had a turn in a box, which was then stopped for being idle
 * (on_idle: stop) and whose disk waits for it. To have made them takes some minutes.
 */
#include "agent_turns.h"

#include "baseline.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define KNOWN           500
#define PER_ROUND       20
#define POOL            "bench-known"
#define TARGET_KNOWN    1.2
#define STOP_TIMEOUT_MS 120000
#define POLL_US         100000
/* Few enough to have memory for all that wait for their idle time at once. */
#define ALIVE_MAX 20

static double acquire_ms(holt_provider *p)
{
	char id[HOLT_SANDBOX_ID_MAX + 1];
	const double start = now_ms();

	turns_acquire(p, 0, id);
	const double ms = now_ms() - start;
	turns_release(p, id);
	return ms;
}

static holt_provider_stats stats_of(holt_provider *p)
{
	holt_provider_stats s = HOLT_PROVIDER_STATS_INIT;
	holt_error *error = NULL;

	if (holt_provider_get_stats(p, &s, &error) < 0) {
		(void)fprintf(stderr, "bench: cannot count: %s\n", holt_error_message(error));
		exit(1);
	}
	return s;
}

/* Until no more than @n are alive. */
static void await_alive(holt_provider *p, unsigned n)
{
	const double end = now_ms() + STOP_TIMEOUT_MS;

	while (stats_of(p).warm > n) {
		if (now_ms() > end) {
			(void)fprintf(stderr, "bench: idle sandboxes are not stopped\n");
			exit(1);
		}
		(void)usleep(POLL_US);
	}
}

static void make_known(const struct turns *t)
{
	holt_provider *p = turns_open(
		t, POOL, t->image, "  replicas: 10000\n  idle_timeout: 1\n  on_idle: stop\n");

	for (unsigned i = 1; i <= KNOWN; i++) {
		char id[HOLT_SANDBOX_ID_MAX + 1];

		turns_acquire(p, i, id);
		turns_release(p, id);
		await_alive(p, ALIVE_MAX);
		if (i % 100 == 0)
			(void)fprintf(stderr, "known threads: %u of %u\n", i, KNOWN);
	}
	/* The one of the measured thread is not idle that soon. */
	await_alive(p, 1);
	holt_provider_free(p);
}

void bench_known_threads(const struct turns *t)
{
	struct record *one = record_new("acquire_known_1", "ms", NULL);
	struct record *many = record_new("acquire_known_500", "ms", "acquire_known_1");
	holt_provider *p = turns_open(t, POOL, t->image, "  replicas: 10000\n  on_idle: stop\n");
	const unsigned n = t->rounds * PER_ROUND;

	many->target = TARGET_KNOWN;
	for (unsigned i = 0; i <= n; i++) {
		const double ms = acquire_ms(p);

		if (i > 0)
			record_add(one, ms);
	}
	make_known(t);
	(void)acquire_ms(p);
	for (unsigned i = 0; i < n; i++)
		record_pair(many, acquire_ms(p), one->values[i]);
	record_print(one, t->host);
	record_print(many, t->host);
	record_free(one);
	record_free(many);
	const unsigned stopped = stats_of(p).stopped;
	if (stopped != KNOWN) {
		(void)fprintf(stderr, "bench: %u known threads instead of %u\n", stopped, KNOWN);
		exit(1);
	}
	turns_close(p);
}
