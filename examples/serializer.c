/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One thing at a time per key, from a loop that never waits: three requests want the same key, each
 * tells its end by a descriptor, and the loop has time for something else meanwhile.
 *
 *     cc serializer.c -o serializer $(pkg-config --cflags --libs holt)
 *     ./serializer
 */
#include <holt.h>

#include <poll.h>
#include <stdio.h>

#define REQUESTS   3
#define WORK_TICKS 5

static int loop(holt_waiter **waiters, struct pollfd *fds, holt_error **error)
{
	holt_hold *hold = NULL;
	int served = 0;
	int ticks = 0; /* of whoever has the key */

	while (served < REQUESTS && poll(fds, REQUESTS, 10) >= 0) {
		for (int i = 0; i < REQUESTS && !hold; i++) {
			if (!(fds[i].revents & POLLIN))
				continue;
			if (holt_waiter_take(waiters[i], 0, &hold, error) < 0)
				return 1; /* nothing is held */
			fds[i].fd = -1;
			ticks = 0;
			printf("request %d has the key\n", i);
		}
		if (hold && ++ticks == WORK_TICKS) {
			holt_hold_release(hold); /* the next one is told */
			hold = NULL;
			served++;
		}
	}
	holt_hold_release(hold);
	return served < REQUESTS;
}

int main(void)
{
	static const char key[] = "user 7, thread 1";
	holt_serializer *serializer = NULL;
	holt_waiter *waiters[REQUESTS] = {NULL};
	struct pollfd fds[REQUESTS] = {{0}};
	holt_error *error = NULL;
	int r = holt_serializer_new(NULL, &serializer, &error);

	for (int i = 0; i < REQUESTS && r == 0; i++) {
		fds[i].events = POLLIN;
		r = holt_serializer_hold_start(
			serializer, key, sizeof key - 1, NULL, NULL, &waiters[i], &error);
		if (r == 0)
			r = holt_waiter_event_fd(waiters[i], &fds[i].fd, &error);
	}
	if (r == 0)
		r = loop(waiters, fds, &error);
	if (error)
		(void)fprintf(stderr, "serializer: %s\n", holt_error_message(error));
	for (int i = 0; i < REQUESTS; i++)
		holt_waiter_free(waiters[i]); /* gives up what was not taken */
	holt_serializer_free(serializer);
	holt_error_free(error);
	return r != 0;
}
