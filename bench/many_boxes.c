/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a home costs that has many boxes: 1,000 stopped ones, made once through the public API with
 * the smallest disk. Before each measured open 50 directories appear that a killed process could
 * have left, which the open repairs.
 */
#include "many_boxes.h"

#include <holt.h>

#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "baseline.h"

#define BOXES     1000
#define HALF_MADE 50
/* Disks are not what is measured. */
#define DISK_BYTES HOLT_DISK_BYTES_MIN

static void die(const char *what, holt_error *error)
{
	(void)fprintf(stderr, "bench: %s: %s: %s\n", what, holt_code_name(holt_error_code(error)),
		holt_error_message(error));
	exit(1);
}

static holt_home *open_home(const char *path)
{
	holt_home_options options = HOLT_HOME_OPTIONS_INIT;
	holt_error *error = NULL;
	holt_home *home = NULL;

	options.path = path;
	if (holt_home_open(&options, &home, &error) < 0)
		die("cannot open a home", error);
	return home;
}

static void make_boxes(const char *path, const char *layer, unsigned n)
{
	holt_image_import_options import = HOLT_IMAGE_IMPORT_OPTIONS_INIT;
	holt_box_options options = HOLT_BOX_OPTIONS_INIT;
	holt_error *error = NULL;
	holt_home *home = open_home(path);
	char name[32];

	import.name = "many";
	options.flags = HOLT_BOX_KEEP;
	options.disk_bytes = DISK_BYTES;
	options.name = name;
	if (holt_image_import(home, layer, &import, NULL, &error) < 0)
		die("cannot import the layer", error);
	for (unsigned i = 0; i < n; i++) {
		holt_box *box = NULL;

		(void)snprintf(name, sizeof name, "box-%u", i);
		if (holt_box_create(home, "many", &options, &box, &error) < 0)
			die("cannot make a box", error);
		holt_box_close(box);
	}
	holt_home_close(home);
}

static double open_ms(const char *path)
{
	const double start = now_ms();
	holt_home *home = open_home(path);
	const double ms = now_ms() - start;

	holt_home_close(home);
	return ms;
}

static void leave_half_made(const char *path)
{
	char name[PATH_MAX + 32];

	for (unsigned i = 0; i < HALF_MADE; i++) {
		(void)snprintf(name, sizeof name, "%s/boxes/%016x", path, i);
		if (mkdir(name, 0700) < 0)
			die("cannot make a directory", NULL);
	}
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

void bench_many_boxes(
	const char *dir, const char *layer, unsigned rounds, const struct record_host *host)
{
	struct record *r = record_new("home_open_1000", "ms", "home_open_0");
	char many[PATH_MAX];
	char none[PATH_MAX];

	(void)snprintf(many, sizeof many, "%s/home-1000", dir);
	(void)snprintf(none, sizeof none, "%s/home-0", dir);
	make_boxes(none, layer, 0);
	make_boxes(many, layer, BOXES);
	(void)open_ms(none);
	(void)open_ms(many);
	for (unsigned i = 0; i < rounds; i++) {
		const double base = open_ms(none);

		leave_half_made(many);
		record_pair(r, open_ms(many), base);
	}
	record_print(r, host);
	record_free(r);
	(void)nftw(many, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
	(void)nftw(none, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}
