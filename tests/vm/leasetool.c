/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: leasetool BOX STEP...
 *
 * For tests: holds a box of a pool as a provider does. Steps, each one argument:
 *
 *   "hold WHO WAIT_MS IDLE_MS PAUSE_MS [stop]"   times may be "never"; with "stop" a kept box is
 *                                                stopped when nobody uses it
 *   park
 *   "lease MS"
 *   ping
 *   "turns N"    N times hold, ping, park; tells how long hold and ping took together
 *   stay         until it is killed
 *
 * Each step that works prints "STEP ok us=N", the turns "turns p50_us=N p99_us=N". One that does
 * not prints "STEP CODE OBJECT: MESSAGE" and is the end, with status 1.
 */
#include "box/box_home.h"
#include "box/box_lease.h"
#include "box/lifecycle.h"

#include "base/clock.h"
#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WAIT_MS   30000u
#define TURNS_MAX 10000

static uint64_t time_of(const char *word)
{
	return strcmp(word, "never") == 0 ? HOLT_FOREVER : strtoull(word, NULL, 10);
}

static int hold(struct holt_box *b, const char *words, holt_error **reterr)
{
	char who[33], wait[21], idle[21], pause_after[21], stop[5] = "";
	const int n = sscanf(words, "%32s %20s %20s %20s %4s", who, wait, idle, pause_after, stop);
	const struct lease_wish w = {.holder = who,
		.label = who,
		.trace = "leasetool",
		.idle_ms = n >= 3 ? time_of(idle) : 0,
		.pause_after_ms = n >= 4 ? time_of(pause_after) : 0,
		.stop_when_idle = strcmp(stop, "stop") == 0};

	if (n < 4)
		return err_make(reterr, HOLT_EINVALID, "hold needs a name and three times");
	return box_hold(b, &w, time_of(wait), NULL, reterr);
}

static int by_size(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static int turns(struct holt_box *b, int n, holt_error **reterr)
{
	static uint64_t took_us[TURNS_MAX];
	int r = n > 0 && n <= TURNS_MAX ? 0 : err_make(reterr, HOLT_EINVALID, "too many turns");

	for (int i = 0; i < n && r == 0; i++) {
		const uint64_t start_us = clock_mono_us();

		r = hold(b, "turns 0 never never", reterr);
		if (r == 0)
			r = box_ping(b, WAIT_MS, NULL, reterr);
		took_us[i] = clock_mono_us() - start_us;
		if (r == 0)
			r = box_park(b, reterr);
	}
	if (r < 0)
		return r;
	qsort(took_us, (size_t)n, sizeof took_us[0], by_size);
	(void)printf("turns p50_us=%llu p99_us=%llu\n", (unsigned long long)took_us[n / 2],
		(unsigned long long)took_us[n * 99 / 100]);
	return 0;
}

static int run(struct holt_box *b, const char *step, holt_error **reterr)
{
	if (strncmp(step, "hold ", 5) == 0)
		return hold(b, step + 5, reterr);
	if (strcmp(step, "park") == 0)
		return box_park(b, reterr);
	if (strncmp(step, "lease ", 6) == 0)
		return box_lease(b, time_of(step + 6), WAIT_MS, reterr);
	if (strcmp(step, "ping") == 0)
		return box_ping(b, WAIT_MS, NULL, reterr);
	if (strncmp(step, "turns ", 6) == 0)
		return turns(b, atoi(step + 6), reterr);
	while (strcmp(step, "stay") == 0)
		(void)pause();
	return err_make(reterr, HOLT_EINVALID, "no such step");
}

static int run_all(struct holt_box *b, char *const *steps)
{
	int r = 0;

	for (; *steps && r == 0; steps++) {
		auto_error error = NULL;
		const uint64_t start_us = clock_mono_us();
		const int name_len = (int)strcspn(*steps, " ");

		r = run(b, *steps, &error);
		if (r < 0)
			(void)printf("%.*s %s %s: %s\n", name_len, *steps,
				holt_code_name(holt_error_code(error)), holt_error_object(error),
				holt_error_message(error));
		else
			(void)printf("%.*s ok us=%llu\n", name_len, *steps,
				(unsigned long long)(clock_mono_us() - start_us));
		(void)fflush(stdout);
	}
	return r;
}

int main(int argc, char **argv)
{
	struct holt_home *home = NULL;
	struct holt_box *b = NULL;
	auto_error error = NULL;
	int r = argc >= 3 ? home_open(&(struct home_wish){0}, &home, &error) : -HOLT_EINVALID;

	if (r == 0)
		r = box_get(home, argv[1], &b, &error);
	if (r < 0)
		(void)fprintf(stderr, "leasetool: %s\n", holt_error_message(error));
	else
		r = run_all(b, argv + 2);
	box_close(b);
	home_close(home);
	return r < 0;
}
