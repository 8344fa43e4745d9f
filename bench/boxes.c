/* SPDX-License-Identifier: Apache-2.0 */
/*
 *   box_create     holt_box_create: directory, disk, index entry; baseline box_remove, its opposite
 *   box_start      holt_box_start of a stopped box without a program, until commands can run
 *   box_stop       holt_box_stop of an idle box: flush, power off, record
 *   ps_200         `holt ps -a` with 200 stopped boxes, the whole process; baseline: `holt version`
 *   pss_10_boxes   QEMU and keeper of each of ten idle boxes of one image, two seconds idle
 */
#include "boxes.h"

#include "baseline.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define MANY        200
#define MANY_ROUNDS 30
#define TEN         10
#define IDLE_S      2

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

static void bench_start_stop(
	holt_home *home, const char *image, unsigned rounds, const struct record_host *host)
{
	struct record *start = record_new("box_start", "ms", NULL);
	struct record *stop = record_new("box_stop", "ms", NULL);
	holt_box *box = create_kept(home, image);

	for (unsigned i = 0; i < rounds; i++) {
		holt_error *error = NULL;
		const double before = now_ms();

		need(holt_box_start(box, NULL, NULL, &error), "cannot start a box", error);
		const double between = now_ms();
		need(holt_box_stop(box, HOLT_NO_GRACE, &error), "cannot stop a box", error);
		record_add(start, between - before);
		record_add(stop, now_ms() - between);
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

static void bench_ten(holt_home *home, const char *image, const struct record_host *host)
{
	struct record *r = record_new("pss_10_boxes", "KiB", NULL);
	holt_box *boxes[TEN];

	for (int i = 0; i < TEN; i++) {
		holt_error *error = NULL;

		need(holt_box_create(home, image, NULL, &boxes[i], &error), "cannot create a box",
			error);
		need(holt_box_start(boxes[i], NULL, NULL, &error), "cannot start a box", error);
	}
	(void)sleep(IDLE_S);
	for (int i = 0; i < TEN; i++) {
		holt_box_info info = HOLT_BOX_INFO_INIT;

		(void)holt_box_get_info(boxes[i], &info);
		record_add(r, pss_kib(info.vmm_pid) + pss_kib(info.keeper_pid));
	}
	for (int i = 0; i < TEN; i++)
		holt_box_close(boxes[i]);
	record_print(r, host);
	record_free(r);
}

void bench_boxes(holt_home *home, const char *image, const char *holt, unsigned rounds,
	const struct record_host *host)
{
	bench_create(home, image, host);
	bench_start_stop(home, image, rounds, host);
	bench_many(home, image, holt, host);
	bench_ten(home, image, host);
}
