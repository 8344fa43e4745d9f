/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: pooltool COMMAND ARGUMENT...
 *
 * A pool of boxes from inside: what a provider does with one, step by step, since no public
 * function does single steps. The home is $HOLT_HOME.
 *
 *   make NAME IMAGE KEEP DIRECTORY...  create and start it, let it go; prints times in us
 *   start NAME                         start it where it is stopped, let it go
 *   run NAME COMMAND                   hold it, run the command in a sandbox, print its stdout
 *   hold NAME MS                       hold it for so long
 *   kill NAME                          destroy it; prints ms
 *   prepare IMAGE MEMORY_MIB SPARES DIRECTORY...  get ready to make boxes of the image
 *   list PREFIX                        NAME STATE KNOWN, a line each
 *   cold N IMAGE DIRECTORY...          make so many boxes, destroy each; prints times in us
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "box/box_pool.h"
#include "holt/home.h"
#include "holt/sandbox.h"

static const holt_call in_time = {.timeout_ms = 120000};
static void *pool;

static holt_pool_holder holder(void)
{
	static char instance[33], label[65];

	snprintf(instance, sizeof instance, "%d", (int)getpid());
	snprintf(label, sizeof label, "process %d (pooltool)", (int)getpid());
	return (holt_pool_holder){.instance = instance,
		.label = label,
		.trace = "",
		.idle_ms = HOLT_FOREVER,
		.pause_after_ms = HOLT_FOREVER};
}

static int fail(int r, holt_error *e)
{
	fprintf(stderr, "%d %s [%s] %s\n", -r, holt_error_message(e), holt_error_stage(e),
		holt_error_object(e) ? holt_error_object(e) : "");
	holt_error_free(e);
	return 1;
}

/* Times of one box: create, start. */
static int make(const char *name, const char *image, int keep, const char *const *directories,
	void **ret, uint64_t us[2], holt_error **reterr)
{
	const holt_pool_shape shape = {.image = image};
	const holt_pool_wish w = {.shape = &shape,
		.user = "u",
		.user_len = 1,
		.fingerprint = "f",
		.directories = directories,
		.keep = keep};
	const holt_pool_holder us_ = holder();
	const uint64_t begin = clock_mono_us();
	int r = box_pool.create(pool, name, &w, ret, reterr);

	us[0] = clock_mono_us() - begin;
	if (r == 0)
		r = box_pool.start(pool, *ret, &us_, &in_time, reterr);
	us[1] = clock_mono_us() - begin - us[0];
	return r;
}

static int cmd_make(char **argv)
{
	union {
		char **in;
		const char *const *out;
	} directories = {.in = argv + 3};
	uint64_t us[2];
	void *b = NULL;
	holt_error *e = NULL;
	const int r = make(argv[0], argv[1], atoi(argv[2]), directories.out, &b, us, &e);

	box_pool.drop(pool, b);
	if (r < 0)
		return fail(r, e);
	printf("create=%llu\nstart=%llu\n", (unsigned long long)us[0], (unsigned long long)us[1]);
	return 0;
}

static int cmd_cold(char **argv)
{
	union {
		char **in;
		const char *const *out;
	} directories = {.in = argv + 2};

	for (int i = 0; i < atoi(argv[0]); i++) {
		uint64_t us[2];
		void *b = NULL;
		holt_error *e = NULL;
		int r = make("pooltool-cold", argv[1], 0, directories.out, &b, us, &e);

		if (r == 0) {
			printf("%llu %llu\n", (unsigned long long)us[0], (unsigned long long)us[1]);
			r = box_pool.destroy(pool, b, "cold", &e);
		}
		box_pool.drop(pool, b);
		if (r < 0)
			return fail(r, e);
	}
	return 0;
}

static int to_stdout(int stream, const void *data, size_t len, void *user)
{
	(void)user;
	return fwrite(data, 1, len, stream == HOLT_STDOUT ? stdout : stderr) != len;
}

static int run(void *b, const char *command, holt_error **reterr)
{
	holt_command_options o = HOLT_COMMAND_OPTIONS_INIT;
	holt_command *c = NULL;
	holt_sandbox *s = NULL;
	holt_exit exit = HOLT_EXIT_INIT;
	int r = box_pool.open(pool, b, NULL, &s, reterr);

	o.output = to_stdout;
	if (r == 0)
		r = holt_sandbox_execute(s, command, &o, &c, reterr);
	if (r == 0)
		(void)holt_command_exit(c, &exit);
	holt_command_free(c);
	holt_sandbox_free(s);
	return r < 0 ? r : exit.code;
}

static int cmd_on(const char *what, char **argv)
{
	const holt_pool_holder us = holder();
	const uint64_t begin = clock_mono_ms();
	void *b = NULL;
	holt_error *e = NULL;
	int r = box_pool.find(pool, argv[0], &b, &e);

	if (r == 0 && strcmp(what, "start") == 0)
		r = box_pool.start(pool, b, &us, &in_time, &e);
	else if (r == 0 && strcmp(what, "kill") == 0)
		r = box_pool.destroy(pool, b, "test", &e);
	else if (r == 0)
		r = box_pool.hold(pool, b, &us, &in_time, &e);
	if (r == 0 && strcmp(what, "kill") == 0)
		printf("%llu\n", (unsigned long long)(clock_mono_ms() - begin));
	if (r == 0 && strcmp(what, "run") == 0)
		r = run(b, argv[1], &e);
	if (r == 0 && strcmp(what, "hold") == 0) {
		puts("held");
		(void)fflush(stdout);
		(void)usleep((useconds_t)atoi(argv[1]) * 1000);
	}
	box_pool.drop(pool, b);
	return r < 0 ? fail(r, e) : r;
}

static int print_entry(const holt_pool_entry *e, void *user)
{
	(void)user;
	printf("%s %s %d\n", e->name,
		(const char *const[]){"making", "active", "warm", "stopped"}[e->state], e->known);
	return 0;
}

static int dispatch(int argc, char **argv)
{
	holt_error *e = NULL;

	if (argc >= 5 && strcmp(argv[1], "make") == 0)
		return cmd_make(argv + 2);
	if (argc >= 4 && strcmp(argv[1], "cold") == 0)
		return cmd_cold(argv + 2);
	if (argc == 3 && strcmp(argv[1], "list") == 0) {
		const int r = box_pool.list(pool, argv[2], print_entry, NULL, &e);
		return r < 0 ? fail(r, e) : 0;
	}
	if (argc >= 5 && strcmp(argv[1], "prepare") == 0) {
		union {
			char **in;
			const char *const *out;
		} directories = {.in = argv + 5};
		const holt_pool_shape s = {.image = argv[2], .memory_mib = (uint32_t)atoi(argv[3])};
		const holt_pool_wish w = {.shape = &s, .directories = directories.out};
		const int r = box_pool.prepare(pool, &w, (uint32_t)atoi(argv[4]), &in_time, &e);
		return r < 0 ? fail(r, e) : 0;
	}
	return argc >= 3 ? cmd_on(argv[1], argv + 2) : 2;
}

int main(int argc, char **argv)
{
	holt_home *home = NULL;
	holt_error *e = NULL;
	int r = holt_home_open(NULL, &home, &e);

	if (r == 0)
		r = box_pool_new(home, &pool, &e);
	if (r < 0)
		return fail(r, e);
	r = dispatch(argc, argv);
	box_pool.close(pool);
	holt_home_close(home);
	return r;
}
