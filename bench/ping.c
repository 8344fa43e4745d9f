/* SPDX-License-Identifier: Apache-2.0 */
#include "ping.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PINGS    1000
#define SPAMMERS 4
#define PAUSE_US 2000
#define WAIT_MS  60000
#define BULK     "exec dd if=/dev/zero bs=1M count=1024 2>/dev/null"
#define SMALL    "while :; do echo spam; done"

extern char **environ;

static void die(const char *what, holt_error *error)
{
	(void)fprintf(stderr, "bench: %s: %s\n", what, holt_error_message(error));
	exit(1);
}

static double now_us(void)
{
	struct timespec ts = {0};

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

static void rest(void)
{
	const struct timespec ts = {.tv_nsec = PAUSE_US * 1000L};

	(void)nanosleep(&ts, NULL);
}

static double ping(holt_box *box)
{
	holt_error *error = NULL;
	uint64_t us = 0;

	if (holt_box_ping(box, 0, &us, &error) < 0)
		die("no answer to a ping", error);
	return (double)us;
}

/* ---- the baseline: a byte through `cat` and back, two wake-ups of processes on the host ---- */

struct cat {
	pid_t pid;
	int to;
	int from;
};

static void cat_start(struct cat *c, const char *busybox)
{
	char name[] = "busybox", cat[] = "cat";
	char *const argv[] = {name, cat, NULL};
	posix_spawn_file_actions_t actions;
	int in[2], out[2];

	if (pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0)
		die("no pipes", NULL);
	(void)posix_spawn_file_actions_init(&actions);
	(void)posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
	(void)posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
	if (posix_spawn(&c->pid, busybox, &actions, NULL, argv, environ) != 0)
		die("the host's busybox failed", NULL);
	(void)posix_spawn_file_actions_destroy(&actions);
	(void)close(in[0]);
	(void)close(out[1]);
	c->to = in[1];
	c->from = out[0];
}

static double cat_ping(const struct cat *c)
{
	const double start = now_us();
	char byte = 'x';

	if (write(c->to, &byte, 1) != 1 || read(c->from, &byte, 1) != 1)
		die("the host's cat gives nothing back", NULL);
	return now_us() - start;
}

static void cat_end(const struct cat *c)
{
	(void)close(c->to);
	(void)close(c->from);
	(void)waitpid(c->pid, NULL, 0);
}

/* ---- what flows meanwhile ---- */

struct flow {
	holt_exec *exec;
	pthread_t thread;
	volatile int over;
};

static void *drain(void *arg)
{
	static _Thread_local char waste[65536];
	struct flow *f = arg;
	size_t n = 1;

	while (n > 0 &&
		holt_exec_read(f->exec, HOLT_STDOUT, waste, sizeof waste, WAIT_MS, &n, NULL) == 0)
		continue;
	f->over = 1;
	return NULL;
}

static void flow_start(struct flow *f, holt_box *box, const char *command)
{
	const char *const argv[] = {"/bin/sh", "-c", command, NULL};
	holt_exec_options options = HOLT_EXEC_OPTIONS_INIT;
	holt_error *error = NULL;

	options.argv = argv;
	f->over = 0;
	if (holt_exec_start(box, &options, &f->exec, &error) < 0)
		die("cannot start an exec", error);
	if (pthread_create(&f->thread, NULL, drain, f) != 0)
		die("cannot start a thread", NULL);
}

static void flow_end(struct flow *f)
{
	(void)holt_exec_signal(f->exec, SIGKILL);
	(void)pthread_join(f->thread, NULL);
	holt_exec_free(f->exec);
}

/* ---- the two figures ---- */

static void ping_idle(holt_box *box, const char *busybox, const struct record_host *host)
{
	struct record *r = record_new("ping_idle", "us", "host_cat");
	struct cat cat = {0};

	cat_start(&cat, busybox);
	(void)ping(box);
	for (int i = 0; i < PINGS; i++) {
		const double base = cat_ping(&cat);
		record_pair(r, ping(box), base);
		rest();
	}
	cat_end(&cat);
	record_print(r, host);
	record_free(r);
}

static void ping_under_bulk(holt_box *box, const char *busybox, const struct record_host *host)
{
	struct record *r = record_new("ping_under_bulk", "us", "host_cat");
	struct flow flows[SPAMMERS + 1];
	struct cat cat = {0};

	cat_start(&cat, busybox);
	for (int i = 0; i < SPAMMERS; i++)
		flow_start(&flows[i], box, SMALL);
	flow_start(&flows[SPAMMERS], box, BULK);
	while (!flows[SPAMMERS].over && r->n < RECORD_MAX) {
		const double base = cat_ping(&cat);
		record_pair(r, ping(box), base);
		rest();
	}
	for (int i = SPAMMERS; i >= 0; i--)
		flow_end(&flows[i]);
	cat_end(&cat);
	record_print(r, host);
	record_free(r);
}

void bench_ping(holt_box *box, const char *busybox, const struct record_host *host)
{
	ping_idle(box, busybox, host);
	ping_under_bulk(box, busybox, host);
}
