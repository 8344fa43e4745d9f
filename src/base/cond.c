/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cond.h"

#include <time.h>

#include "base/clock.h"
#include "holt/base.h"
#include "base/banned.h"

void cond_init(pthread_cond_t *cond)
{
	pthread_condattr_t attr;

	(void)pthread_condattr_init(&attr);
	(void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	(void)pthread_cond_init(cond, &attr);
	(void)pthread_condattr_destroy(&attr);
}

uint64_t cond_deadline(uint64_t timeout_ms)
{
	const uint64_t now = clock_mono_ms();

	return timeout_ms >= HOLT_FOREVER - now ? HOLT_FOREVER : now + timeout_ms;
}

bool cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t deadline_ms)
{
	if (deadline_ms == HOLT_FOREVER) {
		(void)pthread_cond_wait(cond, lock);
		return true;
	}
	if (clock_mono_ms() >= deadline_ms)
		return false;
	const struct timespec until = {.tv_sec = (time_t)(deadline_ms / 1000),
		.tv_nsec = (long)(deadline_ms % 1000) * 1000000L};
	(void)pthread_cond_timedwait(cond, lock, &until);
	return true;
}
