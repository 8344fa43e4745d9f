/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: flat IMAGE BOXES BOOTED
 *
 * For tests (K04): one process that makes and removes many boxes; every BOXES/BOOTED-th is started
 * and runs a program before. A few of each kind come first and fill what is filled once. Prints
 * descriptors, threads, memory in KiB of this process and files of the home, before and after, one
 * line each: "WHAT BEFORE AFTER".
 */
#include "holt.h"

#include <dirent.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WARM_BOXES 6

struct use {
	long fds, threads, memory_kib, files;
};

static long files;

static void die(const char *what, holt_error *error)
{
	(void)fprintf(stderr, "flat: %s: %s: %s\n", what, holt_error_stage(error),
		holt_error_message(error));
	exit(1);
}

static int count_file(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	/* SQLite's, which come and go with their last user. */
	files += !strstr(path, "-wal") && !strstr(path, "-shm");
	return 0;
}

static long count_entries(const char *path)
{
	DIR *dir = opendir(path);
	long n = 0;

	while (dir && readdir(dir))
		n++;
	if (dir)
		(void)closedir(dir);
	return n;
}

static long resident_kib(void)
{
	FILE *f = fopen("/proc/self/statm", "re");
	long pages = 0;

	if (!f || fscanf(f, "%*d %ld", &pages) != 1)
		die("cannot read the size of this process", NULL);
	(void)fclose(f);
	return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static struct use measure(const char *home)
{
	files = 0;
	(void)nftw(home, count_file, 16, FTW_PHYS);
	return (struct use){.fds = count_entries("/proc/self/fd"),
		.threads = count_entries("/proc/self/task"),
		.memory_kib = resident_kib(),
		.files = files};
}

static void run_true(holt_box *box)
{
	static const char *const argv[] = {"true", NULL};
	holt_exec_options options = HOLT_EXEC_OPTIONS_INIT;
	holt_exit result = HOLT_EXIT_INIT;
	holt_error *error = NULL;
	holt_exec *exec = NULL;

	options.argv = argv;
	if (holt_exec_start(box, &options, &exec, &error) < 0 ||
		holt_exec_wait(exec, HOLT_FOREVER, &result, &error) < 0)
		die("exec", error);
	holt_exec_free(exec);
}

/* Half of them go by themselves, half are kept and removed. */
static void one_box(holt_home *home, const char *image, int number, int booted)
{
	holt_box_options options = HOLT_BOX_OPTIONS_INIT;
	holt_error *error = NULL;
	holt_box *box = NULL;
	char name[32];

	(void)snprintf(name, sizeof name, "flat-%d", number);
	options.name = name;
	options.flags = number % 2 ? HOLT_BOX_KEEP : 0;
	if (holt_box_create(home, image, &options, &box, &error) < 0)
		die("create", error);
	if (booted) {
		if (holt_box_start(box, NULL, NULL, &error) < 0)
			die("start", error);
		run_true(box);
	}
	if ((options.flags & HOLT_BOX_KEEP) && holt_box_remove(box, 1, &error) < 0)
		die("remove", error);
	holt_box_close(box);
}

int main(int argc, char **argv)
{
	const char *path = getenv("HOLT_HOME");
	holt_home *home = NULL;
	holt_error *error = NULL;

	const int boxes = argc == 4 ? (int)strtol(argv[2], NULL, 10) : 0;
	const int booted = boxes > 0 ? (int)strtol(argv[3], NULL, 10) : 0;
	if (booted < 1 || booted > boxes || !path) {
		(void)fprintf(stderr, "usage: flat IMAGE BOXES BOOTED\n");
		return 2;
	}
	if (holt_home_open(NULL, &home, &error) < 0)
		die("open", error);
	for (int i = 0; i < WARM_BOXES; i++)
		one_box(home, argv[1], i, i < 2);
	const struct use before = measure(path);
	const int every = boxes / booted;
	for (int i = 0; i < boxes; i++)
		one_box(home, argv[1], i, i % every == every / 2);
	const struct use after = measure(path);
	holt_home_close(home);
	(void)printf("descriptors %ld %ld\nthreads %ld %ld\nmemory_kib %ld %ld\nfiles %ld %ld\n",
		before.fds, after.fds, before.threads, after.threads, before.memory_kib,
		after.memory_kib, before.files, after.files);
	return 0;
}
