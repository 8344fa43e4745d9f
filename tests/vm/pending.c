/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: pending BOX BIG-FILE OUT-FILE
 *
 * For tests (K26): begins every operation that can be pending in a running box, each in a thread of
 * its own, stops the box's QEMU so that none of them can end, and kills it. The box has a large
 * /big. One line for each operation: "NAME code=CODE ms=N", with the time from the kill on. Exit
 * status 1 where something was not pending any more, or could not begin.
 */
#include "holt.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define BEGIN_MS   700 /* for the operations to be on their way */
#define STOPPED_MS 300 /* for those that are answered at once */

struct pending {
	holt_box *box;
	const char *big, *out;
	holt_exec *waiting, *reading, *writing;
};

struct operation {
	const char *name;
	int (*run)(struct pending *, holt_error **);
	int is_quick; /* begins when QEMU is stopped */
	pthread_t thread;
	atomic_int over;
	int code;
	double ended_ms;
	holt_error *error;
};

static struct pending pending;

static double now_ms(void)
{
	struct timespec ts = {0};

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec / 1e6;
}

static void nap_ms(long ms)
{
	const struct timespec ts = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

	(void)nanosleep(&ts, NULL);
}

static int run_exec_wait(struct pending *p, holt_error **reterr)
{
	holt_exit result = HOLT_EXIT_INIT;

	return holt_exec_wait(p->waiting, HOLT_FOREVER, &result, reterr);
}

static int run_exec_read(struct pending *p, holt_error **reterr)
{
	char byte;
	size_t len = 0;

	return holt_exec_read(p->reading, HOLT_STDOUT, &byte, 1, HOLT_FOREVER, &len, reterr);
}

static int run_exec_write(struct pending *p, holt_error **reterr)
{
	static const char zeros[65536];
	size_t len = 0;
	int r = 0;

	while (r == 0)
		r = holt_exec_write(p->writing, zeros, sizeof zeros, HOLT_FOREVER, &len, reterr);
	return r;
}

static int run_copy_in(struct pending *p, holt_error **reterr)
{
	return holt_copy_in(p->box, p->big, "/copy", 0, NULL, reterr);
}

static int run_copy_out(struct pending *p, holt_error **reterr)
{
	return holt_copy_out(p->box, "/big", p->out, 0, NULL, reterr);
}

/* Not a failure: it is what was waited for. */
static int run_box_wait(struct pending *p, holt_error **reterr)
{
	holt_box_info info = HOLT_BOX_INFO_INIT;
	const int r = holt_box_wait(p->box, HOLT_FOREVER, NULL, &info, reterr);

	return r == 0 && info.end_reason != HOLT_END_CRASHED ? -HOLT_EINTERNAL : r;
}

static int run_ping(struct pending *p, holt_error **reterr)
{
	return holt_box_ping(p->box, HOLT_FOREVER, NULL, reterr);
}

static int run_stats(struct pending *p, holt_error **reterr)
{
	holt_box_stats stats = HOLT_BOX_STATS_INIT;

	return holt_box_get_stats(p->box, &stats, reterr);
}

static int run_exec_start(struct pending *p, holt_error **reterr)
{
	static const char *const argv[] = {"true", NULL};
	holt_exec_options options = HOLT_EXEC_OPTIONS_INIT;
	holt_exec *exec = NULL;

	options.argv = argv;
	const int r = holt_exec_start(p->box, &options, &exec, reterr);
	holt_exec_free(exec);
	return r;
}

static struct operation operations[] = {
	{.name = "exec-wait", .run = run_exec_wait},
	{.name = "exec-read", .run = run_exec_read},
	{.name = "exec-write", .run = run_exec_write},
	{.name = "copy-in", .run = run_copy_in},
	{.name = "copy-out", .run = run_copy_out},
	{.name = "box-wait", .run = run_box_wait},
	{.name = "ping", .run = run_ping, .is_quick = 1},
	{.name = "stats", .run = run_stats, .is_quick = 1},
	{.name = "exec-start", .run = run_exec_start, .is_quick = 1},
};

#define N_OPERATIONS (sizeof operations / sizeof operations[0])

static void *operate(void *arg)
{
	struct operation *o = arg;

	o->code = -o->run(&pending, &o->error);
	o->ended_ms = now_ms();
	atomic_store(&o->over, 1);
	return NULL;
}

static int begin(int is_quick)
{
	for (size_t i = 0; i < N_OPERATIONS; i++) {
		struct operation *o = &operations[i];

		if (o->is_quick == is_quick && pthread_create(&o->thread, NULL, operate, o) != 0)
			return -1;
	}
	return 0;
}

static holt_exec *start(holt_box *box, uint32_t flags)
{
	static const char *const argv[] = {"sleep", "100000", NULL};
	holt_exec_options options = HOLT_EXEC_OPTIONS_INIT;
	holt_error *error = NULL;
	holt_exec *exec = NULL;

	options.argv = argv;
	options.flags = flags;
	if (holt_exec_start(box, &options, &exec, &error) < 0) {
		(void)fprintf(stderr, "pending: %s\n", holt_error_message(error));
		exit(2);
	}
	return exec;
}

static int report(double killed_ms)
{
	int status = 0;

	for (size_t i = 0; i < N_OPERATIONS; i++) {
		struct operation *o = &operations[i];

		(void)pthread_join(o->thread, NULL);
		(void)printf("%s code=%s ms=%.0f\n", o->name, holt_code_name(o->code),
			o->ended_ms - killed_ms);
		if (o->ended_ms < killed_ms) {
			(void)fprintf(stderr, "pending: '%s' was over before: %s\n", o->name,
				holt_error_message(o->error));
			status = 1;
		}
		holt_error_free(o->error);
	}
	return status;
}

int main(int argc, char **argv)
{
	holt_box_info info = HOLT_BOX_INFO_INIT;
	holt_error *error = NULL;
	holt_home *home = NULL;

	if (argc != 4)
		return 2;
	pending.big = argv[2];
	pending.out = argv[3];
	if (holt_home_open(NULL, &home, &error) < 0 ||
		holt_box_get(home, argv[1], &pending.box, &error) < 0 ||
		holt_box_get_info(pending.box, &info) < 0 || info.vmm_pid <= 0) {
		(void)fprintf(stderr, "pending: %s\n", holt_error_message(error));
		return 2;
	}
	pending.waiting = start(pending.box, 0);
	pending.reading = start(pending.box, 0);
	pending.writing = start(pending.box, HOLT_EXEC_STDIN);
	int r = begin(0);
	nap_ms(BEGIN_MS);
	(void)kill(info.vmm_pid, SIGSTOP);
	if (r == 0)
		r = begin(1);
	nap_ms(STOPPED_MS);
	const double killed_ms = now_ms();
	(void)kill(info.vmm_pid, SIGKILL);
	r = r < 0 ? 1 : report(killed_ms);
	holt_exec_free(pending.waiting);
	holt_exec_free(pending.reading);
	holt_exec_free(pending.writing);
	holt_box_close(pending.box);
	holt_home_close(home);
	return r;
}
