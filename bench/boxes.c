/* SPDX-License-Identifier: Apache-2.0 */
/*
 *   box_create     holt_box_create: directory, disk, index entry; baseline box_remove, its opposite
 *   box_start      holt_box_start of a stopped box without a program, until commands can run, from
 *                  a bare template; baseline box_boot: the same without
 *   box_stop       holt_box_stop of an idle box: flush, power off, record
 *   ps_200         `holt ps -a` with 200 stopped boxes, the whole process; baseline: `holt version`
 */
#include "boxes.h"

#include "baseline.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define MANY        200
#define MANY_ROUNDS 30
#define PER_ROUND   4 /* starts for each boot */

#define TARGET_START     300
#define TARGET_START_P99 600

static void need(int r, const char *what, holt_error *error)
{
	if (r == 0)
		return;
	(void)fprintf(stderr, "bench: %s: %s\n", what, holt_error_message(error));
	exit(1);
}

static holt_box *create_kept(holt_home *home, const char *image)
{
	holt_box_options options = HOLT_BOX_OPTIONS_INIT;
	holt_error *error = NULL;
	holt_box *box = NULL;

	options.flags = HOLT_BOX_KEEP;
	need(holt_box_create(home, image, &options, &box, &error), "cannot create a box", error);
	return box;
}

static void remove_box(holt_box *box)
{
	holt_error *error = NULL;

	need(holt_box_remove(box, 1, &error), "cannot remove a box", error);
	holt_box_close(box);
}

static double start_ms(holt_box *box, uint32_t flags)
{
	holt_start_options options = HOLT_START_OPTIONS_INIT;
	holt_error *error = NULL;
	const double before = now_ms();

	options.flags = flags;
	need(holt_box_start(box, &options, NULL, &error), "cannot start a box", error);
	return now_ms() - before;
}

static double stop_ms(holt_box *box)
{
	holt_error *error = NULL;
	const double before = now_ms();

	need(holt_box_stop(box, HOLT_NO_GRACE, &error), "cannot stop a box", error);
	return now_ms() - before;
}

static void bench_start_stop(
	holt_home *home, const char *image, unsigned rounds, const struct record_host *host)
{
	struct record *start = record_new("box_start", "ms", "box_boot");
	struct record *stop = record_new("box_stop", "ms", NULL);
	holt_box *box = create_kept(home, image);

	start->target_median = TARGET_START;
	start->target_p99 = TARGET_START_P99;
	/* The first one begins as a full clone, the second one makes the bare template. */
	for (int i = 0; i < 2; i++) {
		(void)start_ms(box, 0);
		(void)stop_ms(box);
	}
	for (unsigned i = 0; i < rounds; i++) {
		const double boot = start_ms(box, HOLT_START_NO_TEMPLATE);

		record_add(stop, stop_ms(box));
		for (int k = 0; k < PER_ROUND; k++) {
			record_pair(start, start_ms(box, 0), boot);
			record_add(stop, stop_ms(box));
		}
	}
	remove_box(box);
	record_print(start, host);
	record_print(stop, host);
	record_free(start);
	record_free(stop);
}

static void bench_create(holt_home *home, const char *image, const struct record_host *host)
{
	struct record *create = record_new("box_create", "ms", "box_remove");

	for (int i = 0; i < MANY; i++) {
		const double before = now_ms();
		holt_box *box = create_kept(home, image);
		const double between = now_ms();

		remove_box(box);
		record_pair(create, between - before, now_ms() - between);
	}
	record_print(create, host);
	record_free(create);
}

static void bench_many(
	holt_home *home, const char *image, const char *holt, const struct record_host *host)
{
	const char *const ps[] = {holt, "ps", "-a", NULL};
	const char *const version[] = {holt, "version", NULL};
	struct record *list = record_new("ps_200", "ms", "holt_version");
	holt_box *boxes[MANY];

	for (int i = 0; i < MANY; i++)
		boxes[i] = create_kept(home, image);
	for (int i = 0; i < MANY_ROUNDS; i++) {
		double base = 0;
		double ms = 0;

		if (program_run(version, NULL, &base) != 0 || program_run(ps, NULL, &ms) != 0) {
			(void)fprintf(stderr, "bench: 'holt ps' failed\n");
			exit(1);
		}
		record_pair(list, ms, base);
	}
	for (int i = 0; i < MANY; i++)
		remove_box(boxes[i]);
	record_print(list, host);
	record_free(list);
}

void bench_boxes(holt_home *home, const char *image, const char *holt, unsigned rounds,
	const struct record_host *host)
{
	bench_create(home, image, host);
	bench_start_stop(home, image, rounds, host);
	bench_many(home, image, holt, host);
}
