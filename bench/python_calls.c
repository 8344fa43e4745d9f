/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a call costs through the Python package against the same call in C, on one detached box that
 * both have open, one call after the other in turn:
 *
 *   python_ping    holt_box_ping and Box.ping
 *   python_true    holt_sandbox_execute and Sandbox.execute of "true"
 *   python_write   holt_sandbox_write and Sandbox.update_file of 1,000,000 bytes
 *   python_*_more  the difference of each pair
 *
 * The Python calls are made on its main thread, which is the slower one (docs/python.md), and are
 * timed in Python. The worker reads the name of a call a line and answers with its milliseconds.
 */
#include "python_calls.h"

#include "baseline.h"

#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CALLS_PER_ROUND 40
#define WARM_CALLS      10
#define WRITE_BYTES     1000000
#define TARGET_MORE_MS  0.15

extern char **environ;

struct worker {
	pid_t pid;
	FILE *to;
	FILE *from;
};

struct called {
	holt_box *box;
	holt_sandbox *sandbox;
	void *data;
};

static void die(const char *what, holt_error *error)
{
	(void)fprintf(stderr, "bench: python: %s: %s\n", what,
		error ? holt_error_message(error) : "failed");
	exit(1);
}

static struct worker worker_start(const struct python_calls *p, const char *box)
{
	char *const argv[] = {(char *)(uintptr_t)p->python, (char *)(uintptr_t)p->worker,
		(char *)(uintptr_t)box, NULL};
	posix_spawn_file_actions_t actions;
	struct worker w = {0};
	int in[2];
	int out[2];

	if (pipe(in) < 0 || pipe(out) < 0)
		die("no pipes", NULL);
	(void)posix_spawn_file_actions_init(&actions);
	(void)posix_spawn_file_actions_adddup2(&actions, in[0], 0);
	(void)posix_spawn_file_actions_adddup2(&actions, out[1], 1);
	(void)posix_spawn_file_actions_addclose(&actions, in[1]);
	(void)posix_spawn_file_actions_addclose(&actions, out[0]);
	if (posix_spawnp(&w.pid, p->python, &actions, NULL, argv, environ) != 0)
		die("cannot start it", NULL);
	(void)posix_spawn_file_actions_destroy(&actions);
	(void)close(in[0]);
	(void)close(out[1]);
	w.to = fdopen(in[1], "w");
	w.from = fdopen(out[0], "r");
	if (!w.to || !w.from)
		die("no streams", NULL);
	return w;
}

static double worker_call(struct worker *w, const char *name)
{
	char line[64];
	double ms = 0;

	if (fprintf(w->to, "%s\n", name) < 0 || fflush(w->to) != 0 ||
		!fgets(line, sizeof line, w->from) || sscanf(line, "%lf", &ms) != 1)
		die(name, NULL);
	return ms;
}

static void worker_end(struct worker *w)
{
	int status = 0;

	(void)fclose(w->to);
	(void)fclose(w->from);
	if (waitpid(w->pid, &status, 0) < 0 || status != 0)
		die("it did not end well", NULL);
}

static void c_ping(struct called *c)
{
	holt_error *error = NULL;
	uint64_t us = 0;

	if (holt_box_ping(c->box, 5000, &us, &error) < 0)
		die("ping", error);
}

static void c_true(struct called *c)
{
	holt_command *command = NULL;
	holt_error *error = NULL;

	if (holt_sandbox_execute(c->sandbox, "true", NULL, &command, &error) < 0)
		die("true", error);
	holt_command_free(command);
}

static void c_write(struct called *c)
{
	holt_error *error = NULL;

	if (holt_sandbox_write(c->sandbox, "/tmp/c", c->data, WRITE_BYTES, NULL, &error) < 0)
		die("write", error);
}

static void compare(const struct python_calls *p, struct worker *w, struct called *c,
	const char *name, void (*call)(struct called *))
{
	char figure[32];
	char more[40];
	char base[32];

	(void)snprintf(figure, sizeof figure, "python_%s", name);
	(void)snprintf(more, sizeof more, "python_%s_more", name);
	(void)snprintf(base, sizeof base, "c_%s", name);
	struct record *both = record_new(figure, "ms", base);
	struct record *cost = record_new(more, "ms", NULL);

	cost->target_median = TARGET_MORE_MS;
	for (unsigned i = 0; i < WARM_CALLS + p->rounds * CALLS_PER_ROUND; i++) {
		double ms[2] = {0};

		/* Who comes first changes. */
		for (unsigned k = 0; k < 2; k++) {
			if ((i + k) % 2 == 0) {
				ms[0] = worker_call(w, name);
				continue;
			}
			const double before = now_ms();
			call(c);
			ms[1] = now_ms() - before;
		}
		if (i < WARM_CALLS)
			continue;
		record_pair(both, ms[0], ms[1]);
		record_add(cost, ms[0] - ms[1]);
	}
	record_print(both, p->host);
	record_print(cost, p->host);
	record_free(both);
	record_free(cost);
}

void bench_python_calls(const struct python_calls *p)
{
	holt_start_options how = HOLT_START_OPTIONS_INIT;
	holt_error *error = NULL;
	struct called c = {.data = calloc(1, WRITE_BYTES)};

	how.flags = HOLT_START_DETACHED;
	if (!c.data || holt_box_create(p->home, p->image, NULL, &c.box, &error) < 0 ||
		holt_box_start(c.box, &how, NULL, &error) < 0 ||
		holt_sandbox_open(c.box, NULL, &c.sandbox, &error) < 0)
		die("no box", error);
	struct worker w = worker_start(p, holt_box_id(c.box));
	compare(p, &w, &c, "ping", c_ping);
	compare(p, &w, &c, "true", c_true);
	compare(p, &w, &c, "write", c_write);
	worker_end(&w);
	holt_sandbox_free(c.sandbox);
	if (holt_box_remove(c.box, 1, &error) < 0)
		die("remove", error);
	holt_box_close(c.box);
	free(c.data);
}
