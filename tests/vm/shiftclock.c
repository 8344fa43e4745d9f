/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests (K32): preloaded (LD_PRELOAD) into a keeper and QEMU, it makes them believe that it is
 * an hour ago; the monotonic clocks stay. A machine that they save is thus an hour old at once.
 */
#include <stddef.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SHIFT_S 3600

#define EXPORT __attribute__((visibility("default")))

EXPORT int clock_gettime(clockid_t id, struct timespec *ts)
{
	const int r = (int)syscall(SYS_clock_gettime, id, ts);

	if (r == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE))
		ts->tv_sec -= SHIFT_S;
	return r;
}

EXPORT int gettimeofday(struct timeval *restrict tv, void *restrict zone)
{
	struct timespec ts;

	(void)zone;
	(void)clock_gettime(CLOCK_REALTIME, &ts);
	tv->tv_sec = ts.tv_sec;
	tv->tv_usec = ts.tv_nsec / 1000;
	return 0;
}

EXPORT time_t time(time_t *ret)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_REALTIME, &ts);
	if (ret)
		*ret = ts.tv_sec;
	return ts.tv_sec;
}
