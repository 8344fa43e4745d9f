/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast boxes start that do not boot.
 *
 *   clone_hello      from QEMU's start to the agent's first word in a clone of a template
 *                    (hello_us); baseline cold_hello: the same of a box that boots
 *   clone_ready      likewise until commands can run (ready_us); baseline cold_ready
 *   clone_start      holt_box_create and holt_box_start; baseline cold_start
 *   cli_run          the whole process `holt run IMAGE true` with a template; baselines: cli_boot,
 *                    the same with --no-template, and bwrap_true
 *   bwrap_true       busybox `true` of the same image in namespaces of its own by bwrap;
 * podman_true likewise. A program that is not here is reported as not measured unpause_ping
 * holt_box_unpause and holt_box_ping of a paused clone; baseline cold_start start_10, _50    as
 * many starts at once, a thread each, until all run; baseline of the first: cold_10, as many boots
 * at once, measured once
 *
 * Of all of these the first turn is not counted. Everything but parallel starts is on one thread.
 */
#include "clones.h"

#include "baseline.h"

#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PER_ROUND          8 /* clones for each boot */
#define PINGS_PER_ROUND    20
#define TEN                10
#define FIFTY              50
#define TARGET_HELLO       60
#define TARGET_HELLO_P99   120
#define TARGET_CLI         200
#define TARGET_CLI_P99     400
#define TARGET_UNPAUSE     3
#define TARGET_UNPAUSE_P99 15
#define TARGET_TEN         600

static void need(int r, const char *what, holt_error *error)
{
	if (r == 0)
		return;
	(void)fprintf(stderr, "bench: %s: %s\n", what, holt_error_message(error));
	exit(1);
}

/* A box that began otherwise than it should would spoil the figure, so it ends the run. */
static void need_origin(holt_box *box, const char *origin)
{
	const char *text = NULL;
	holt_error *error = NULL;

	need(holt_box_json(box, &text, &error), "cannot inspect a box", error);
	json_t *doc = json_loads(text, 0, NULL);
	const json_t *state = json_object_get(doc, "state");
	const char *is = json_string_value(json_object_get(state, "origin"));
	const char *note = json_string_value(json_object_get(state, "origin_note"));
	if (!is || strcmp(is, origin) != 0) {
		(void)fprintf(stderr, "bench: a box began as '%s' instead of '%s': %s\n",
			is ? is : "?", origin, note ? note : "");
		exit(1);
	}
	json_decref(doc);
}

static void start(const struct clones *c, const char *image, uint32_t flags, holt_box **ret)
{
	holt_start_options options = HOLT_START_OPTIONS_INIT;
	holt_error *error = NULL;

	options.flags = flags;
	need(holt_box_create(c->home, image, NULL, ret, &error), "cannot create a box", error);
	need(holt_box_start(*ret, &options, NULL, &error), "cannot start a box", error);
}

holt_box *clone_start(const struct clones *c, const char *image, uint32_t flags, const char *origin,
	holt_box_info *ret_info)
{
	holt_box_info info = HOLT_BOX_INFO_INIT;
	holt_box *box = NULL;

	start(c, image, flags, &box);
	need_origin(box, origin);
	(void)holt_box_get_info(box, &info);
	if (ret_info)
		*ret_info = info;
	return box;
}

/* ---- one after the other ---- */

struct one {
	double hello_ms;
	double ready_ms;
	double start_ms;
};

static struct one start_once(const struct clones *c, uint32_t flags, const char *origin)
{
	holt_box_info info = HOLT_BOX_INFO_INIT;
	holt_box *box = NULL;
	const double before = now_ms();

	start(c, c->image, flags, &box);
	const double ms = now_ms() - before;
	need_origin(box, origin);
	(void)holt_box_get_info(box, &info);
	holt_box_close(box);
	return (struct one){(double)info.hello_us / 1e3, (double)info.ready_us / 1e3, ms};
}

static void bench_starts(const struct clones *c)
{
	struct record *hello = record_new("clone_hello", "ms", "cold_hello");
	struct record *ready = record_new("clone_ready", "ms", "cold_ready");
	struct record *whole = record_new("clone_start", "ms", "cold_start");
	struct record *const all[] = {hello, ready, whole};

	hello->target_median = TARGET_HELLO;
	hello->target_p99 = TARGET_HELLO_P99;
	(void)start_once(c, 0, "template");
	for (unsigned i = 0; i < c->rounds; i++) {
		const struct one cold = start_once(c, HOLT_START_NO_TEMPLATE, "cold");

		for (int k = 0; k < PER_ROUND; k++) {
			const struct one clone = start_once(c, 0, "template");

			record_pair(hello, clone.hello_ms, cold.hello_ms);
			record_pair(ready, clone.ready_ms, cold.ready_ms);
			record_pair(whole, clone.start_ms, cold.start_ms);
		}
		(void)fprintf(stderr, "clones %u of %u: boot %.0f ms, clone %.0f ms\n", i + 1,
			c->rounds, cold.start_ms, whole->values[whole->n - 1]);
	}
	for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
		record_print(all[i], c->host);
		record_free(all[i]);
	}
}

/* ---- whole programs ---- */

#define WORDS_MAX 24

/* Programs that run `true` of the image's files in namespaces. */
static const struct rival {
	const char *name;
	const char *program;
	const char *words[WORDS_MAX]; /* "ROOTFS" stands for the directory */
} rivals[] = {
	{"bwrap_true", "bwrap",
		{"bwrap", "--unshare-all", "--die-with-parent", "--ro-bind", "ROOTFS", "/", "--dev",
			"/dev", "--proc", "/proc", "--tmpfs", "/tmp", "true"}},
	{"podman_true", "podman",
		{"podman", "run", "--rm", "--network", "none", "--rootfs", "ROOTFS", "true"}},
};

static double rival_run(const struct clones *c, const struct rival *r)
{
	const char *argv[WORDS_MAX + 1] = {NULL};
	double ms = 0;

	for (size_t i = 0; i < WORDS_MAX && r->words[i]; i++)
		argv[i] = strcmp(r->words[i], "ROOTFS") == 0 ? c->rootfs : r->words[i];
	return program_run(argv, NULL, &ms) == 0 ? ms : -1;
}

static double cli(const struct clones *c, const char *option)
{
	const char *const with[] = {c->holt, "run", option, c->image, "true", NULL};
	const char *const without[] = {c->holt, "run", c->image, "true", NULL};
	double ms = 0;

	if (program_run(option ? with : without, NULL, &ms) != 0) {
		(void)fprintf(stderr, "bench: 'holt run' failed\n");
		exit(1);
	}
	return ms;
}

/* Prints the rest; NULL where the program does not work here. */
static struct record *rival_record(const struct clones *c, const struct rival *r)
{
	const char *const where[] = {"sh", "-c", "command -v \"$0\"", r->program, NULL};
	double unused = 0;

	if (program_run(where, NULL, &unused) != 0)
		record_absent(r->name, "not here");
	else if (!c->rootfs || rival_run(c, r) < 0)
		record_absent(r->name, "does not work here");
	else
		return record_new(r->name, "ms", NULL);
	return NULL;
}

static void bench_cli(const struct clones *c)
{
	struct record *boot = record_new("cli_boot", "ms", NULL);
	struct record *run = record_new("cli_run", "ms", "cli_boot");
	struct record *bwrap = rival_record(c, &rivals[0]);
	struct record *against = record_new("cli_run", "ms", rivals[0].name);

	run->target_median = TARGET_CLI;
	run->target_p99 = TARGET_CLI_P99;
	(void)cli(c, NULL);
	for (unsigned i = 0; i < c->rounds; i++) {
		const double boot_ms = cli(c, "--no-template");

		record_add(boot, boot_ms);
		for (int k = 0; k < PER_ROUND; k++) {
			const double ms = cli(c, NULL);

			record_pair(run, ms, boot_ms);
			if (!bwrap)
				continue;
			const double base = rival_run(c, &rivals[0]);
			record_add(bwrap, base);
			record_pair(against, ms, base);
		}
	}
	record_print(boot, c->host);
	record_print(run, c->host);
	if (bwrap) {
		record_print(bwrap, c->host);
		record_print(against, c->host);
	}
	record_free(boot);
	record_free(run);
	record_free(bwrap);
	record_free(against);
}

/* Those besides bwrap are slow, and nothing is compared with them pair by pair. */
static void bench_rivals(const struct clones *c)
{
	for (size_t i = 1; i < sizeof rivals / sizeof rivals[0]; i++) {
		struct record *r = rival_record(c, &rivals[i]);

		for (unsigned k = 0; r && k < c->rounds; k++)
			record_add(r, rival_run(c, &rivals[i]));
		if (r)
			record_print(r, c->host);
		record_free(r);
	}
}

/* ---- a warm box ---- */

static double unpause_ping(holt_box *box)
{
	holt_error *error = NULL;
	uint64_t us = 0;

	need(holt_box_pause(box, &error), "cannot pause a box", error);
	const double before = now_ms();
	need(holt_box_unpause(box, &error), "cannot unpause a box", error);
	need(holt_box_ping(box, 0, &us, &error), "cannot ping a box", error);
	return now_ms() - before;
}

static void bench_unpause(const struct clones *c)
{
	struct record *r = record_new("unpause_ping", "ms", "cold_start");
	const struct one cold = start_once(c, HOLT_START_NO_TEMPLATE, "cold");
	holt_box *box = clone_start(c, c->image, 0, "template", NULL);

	r->target_median = TARGET_UNPAUSE;
	r->target_p99 = TARGET_UNPAUSE_P99;
	(void)unpause_ping(box);
	for (unsigned i = 0; i < c->rounds * PINGS_PER_ROUND; i++)
		record_pair(r, unpause_ping(box), cold.start_ms);
	holt_box_close(box);
	record_print(r, c->host);
	record_free(r);
}

/* ---- many at once ---- */

struct starter {
	const struct clones *c;
	uint32_t flags;
	holt_box *box;
	pthread_t thread;
};

static void *starter_main(void *arg)
{
	struct starter *s = arg;

	start(s->c, s->c->image, s->flags, &s->box);
	return NULL;
}

double clones_start_many(const struct clones *c, uint32_t flags, size_t n, holt_box **ret)
{
	struct starter *s = calloc(n, sizeof *s);
	const double before = now_ms();

	for (size_t i = 0; i < n; i++) {
		s[i] = (struct starter){.c = c, .flags = flags};
		if (pthread_create(&s[i].thread, NULL, starter_main, &s[i]) != 0) {
			(void)fprintf(stderr, "bench: cannot start a thread\n");
			exit(1);
		}
	}
	for (size_t i = 0; i < n; i++)
		(void)pthread_join(s[i].thread, NULL);
	const double ms = now_ms() - before;
	for (size_t i = 0; i < n; i++) {
		need_origin(s[i].box, flags & HOLT_START_NO_TEMPLATE ? "cold" : "template");
		ret[i] = s[i].box;
	}
	free(s);
	return ms;
}

static double start_and_close(const struct clones *c, uint32_t flags, size_t n)
{
	holt_box *boxes[FIFTY] = {NULL};
	const double ms = clones_start_many(c, flags, n, boxes);

	for (size_t i = 0; i < n; i++)
		holt_box_close(boxes[i]);
	return ms;
}

static void bench_parallel(const struct clones *c)
{
	struct record *ten = record_new("start_10", "ms", "cold_10");
	struct record *fifty = record_new("start_50", "ms", NULL);
	const double cold = start_and_close(c, HOLT_START_NO_TEMPLATE, TEN);

	ten->target_median = TARGET_TEN;
	for (unsigned i = 0; i < (c->rounds + 1) / 2; i++)
		record_pair(ten, start_and_close(c, 0, TEN), cold);
	for (unsigned i = 0; i < (c->rounds + 7) / 8; i++)
		record_add(fifty, start_and_close(c, 0, FIFTY));
	record_print(ten, c->host);
	record_print(fifty, c->host);
	record_free(ten);
	record_free(fifty);
}

void bench_clones(const struct clones *c)
{
	bench_starts(c);
	bench_cli(c);
	bench_rivals(c);
	bench_unpause(c);
	bench_parallel(c);
}
