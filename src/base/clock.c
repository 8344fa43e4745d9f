/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"

#include <time.h>

#include "base/banned.h"

static uint64_t clock_ns(clockid_t id)
{
	struct timespec ts;

	(void)clock_gettime(id, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

uint64_t clock_mono_us(void)
{
	return clock_ns(CLOCK_MONOTONIC) / 1000;
}

uint64_t clock_mono_ms(void)
{
	return clock_ns(CLOCK_MONOTONIC) / 1000000;
}

uint64_t clock_wall_ns(void)
{
	return clock_ns(CLOCK_REALTIME);
}
