/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the jail costs a start. Clones of one template, in turn by a keeper that jails its QEMU as
 * always and by one that leaves every layer out (tests/weak; the same program, of which only the
 * latter finds a file that says so):
 *
 *   jail_hello   from QEMU's start to the agent's first word (hello_us) with the jail; baseline
 *                free_hello, without
 *   jail_ready   likewise until commands can run (ready_us); baseline free_ready
 *   jail_cost    the difference of the hellos of each pair
 *
 * The time before QEMU's start, in which the keeper finds out what the host offers, is in
 * jail_start: holt_box_create and holt_box_start; baseline free_start. On one thread; the first
 * pair is not counted, and who of a pair comes first changes.
 */
#include "jail_cost.h"

#include "baseline.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define PAIRS_PER_ROUND 8
#define TARGET_COST     20

struct times {
	double hello_ms;
	double ready_ms;
	double start_ms;
};

static struct times start_with(const struct clones *c, const char *keepers, const char *which)
{
	holt_box_info info = HOLT_BOX_INFO_INIT;
	char path[PATH_MAX];

	(void)snprintf(path, sizeof path, "%s/%s/holt-keeper", keepers, which);
	(void)setenv("HOLT_KEEPER", path, 1);
	const double before = now_ms();
	holt_box *box = clone_start(c, c->image, 0, "template", &info);
	const double ms = now_ms() - before;
	holt_box_close(box);
	(void)unsetenv("HOLT_KEEPER");
	return (struct times){(double)info.hello_us / 1e3, (double)info.ready_us / 1e3, ms};
}

void bench_jail(const struct clones *c, const char *keepers)
{
	struct record *hello = record_new("jail_hello", "ms", "free_hello");
	struct record *ready = record_new("jail_ready", "ms", "free_ready");
	struct record *whole = record_new("jail_start", "ms", "free_start");
	struct record *cost = record_new("jail_cost", "ms", NULL);
	struct record *const all[] = {hello, ready, whole, cost};

	cost->target_median = TARGET_COST;
	for (unsigned i = 0; i <= c->rounds * PAIRS_PER_ROUND; i++) {
		static const char *const names[] = {"jailed", "free"};
		struct times t[2];

		for (unsigned k = 0; k < 2; k++) {
			const unsigned which = (i + k) % 2;

			t[which] = start_with(c, keepers, names[which]);
		}
		if (i == 0)
			continue;
		record_pair(hello, t[0].hello_ms, t[1].hello_ms);
		record_pair(ready, t[0].ready_ms, t[1].ready_ms);
		record_pair(whole, t[0].start_ms, t[1].start_ms);
		record_add(cost, t[0].hello_ms - t[1].hello_ms);
	}
	for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
		record_print(all[i], c->host);
		record_free(all[i]);
	}
}
