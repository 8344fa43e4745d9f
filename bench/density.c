/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What clones cost while they run, in boxes of the default shape.
 *
 *   pss_1, _10, _50       proportional memory of the QEMU of each of so many idle boxes of one
 *                         image; baseline of the first: cold_pss, a box that booted
 *   private_1, _10, _50   of that, what no other process shares
 *   pss_keeper            of the keeper of each of the ten
 *   pss_work, private_work  a QEMU after a workload of bash and python3 in a Debian image;
 *                         baseline idle_pss, idle_private: the same one before
 *   cpu_running, _paused  processor time of the QEMU of an idle box, percent of a core
 *
 * Idle is five seconds after the start, so that what a guest does behind it is over.
 */
#include "clones.h"

#include "baseline.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define IDLE_S          5
#define CPU_S           10
#define MANY_MAX        50
#define WORK_TIMEOUT_MS 120000
#define TARGET_PSS_10   (28 * 1024)
#define TARGET_WORK     (128 * 1024)
#define TARGET_CPU      2

static void need(int r, const char *what, holt_error *error)
{
	if (r == 0)
		return;
	(void)fprintf(stderr, "bench: %s: %s\n", what, error ? holt_error_message(error) : "");
	exit(1);
}

/* ---- memory ---- */

static double pss_of(pid_t pid)
{
	const double kib = pss_kib(pid);

	need(kib < 0, "cannot read the memory of a process", NULL);
	return kib;
}

static double cold_pss(const struct clones *c)
{
	holt_box_info info = HOLT_BOX_INFO_INIT;
	holt_box *box = clone_start(c, c->image, HOLT_START_NO_TEMPLATE, "cold", &info);

	(void)sleep(IDLE_S);
	const double kib = pss_of(info.vmm_pid);
	holt_box_close(box);
	return kib;
}

/* @base, where it is not 0, is what @pss is compared with; @keeper may be NULL. */
static void measure_many(const struct clones *c, size_t n, double base, struct record *pss,
	struct record *private, struct record *keeper)
{
	holt_box *boxes[MANY_MAX] = {NULL};

	(void)clones_start_many(c, 0, n, boxes);
	(void)sleep(IDLE_S);
	for (size_t i = 0; i < n; i++) {
		holt_box_info info = HOLT_BOX_INFO_INIT;

		(void)holt_box_get_info(boxes[i], &info);
		if (base > 0)
			record_pair(pss, pss_of(info.vmm_pid), base);
		else
			record_add(pss, pss_of(info.vmm_pid));
		record_add(private, private_kib(info.vmm_pid));
		if (keeper)
			record_add(keeper, pss_of(info.keeper_pid));
	}
	for (size_t i = 0; i < n; i++)
		holt_box_close(boxes[i]);
}

static void print(const struct clones *c, struct record *r)
{
	record_print(r, c->host);
	record_free(r);
}

static void bench_idle_memory(const struct clones *c)
{
	static const struct {
		size_t n;
		const char *pss;
		const char *private;
	} steps[] = {{1, "pss_1", "private_1"}, {10, "pss_10", "private_10"},
		{MANY_MAX, "pss_50", "private_50"}};

	for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
		struct record *pss = record_new(steps[i].pss, "KiB", i == 0 ? "cold_pss" : NULL);
		struct record *private = record_new(steps[i].private, "KiB", NULL);
		struct record *keeper = i == 1 ? record_new("pss_keeper", "KiB", NULL) : NULL;

		if (i == 1)
			pss->target_median = TARGET_PSS_10;
		measure_many(c, steps[i].n, i == 0 ? cold_pss(c) : 0, pss, private, keeper);
		print(c, pss);
		print(c, private);
		if (keeper)
			print(c, keeper);
	}
}

/* ---- a workload ---- */

/* A few thousand lines, so that the interpreter has seen its ordinary paths. */
static const char python[] =
	"import json, sqlite3\n"
	"db = sqlite3.connect(':memory:')\n"
	"db.execute('create table t (k integer primary key, v text)')\n"
	"for i in range(3000):\n"
	"    d = {'n': i, 'words': ['w%d' % k for k in range(i % 7)], 'f': i / 3}\n"
	"    s = json.dumps(d)\n"
	"    assert json.loads(s) == d\n"
	"    db.execute('insert into t values (?, ?)', (i, s))\n"
	"print(db.execute('select sum(length(v)) from t').fetchone()[0])\n";

static const char shell[] = "n=0; while [ $n -lt 3000 ]; do n=$((n + 1)); s=x$n; done;"
			    " ls -R /etc | wc -l; exec python3 -c \"$0\"";

static void work(holt_box *box)
{
	const char *const argv[] = {"bash", "-c", shell, python, NULL};
	holt_exec_options options = HOLT_EXEC_OPTIONS_INIT;
	holt_exit result = HOLT_EXIT_INIT;
	holt_error *error = NULL;
	holt_exec *exec = NULL;

	options.argv = argv;
	need(holt_exec_start(box, &options, &exec, &error), "cannot start the workload", error);
	need(holt_exec_wait(exec, WORK_TIMEOUT_MS, &result, &error), "the workload did not end",
		error);
	need(result.code, "the workload failed", NULL);
	holt_exec_free(exec);
}

static void bench_work(const struct clones *c)
{
	struct record *pss = record_new("pss_work", "KiB", "idle_pss");
	struct record *private = record_new("private_work", "KiB", "idle_private");

	pss->target_median = TARGET_WORK;
	holt_box_close(clone_start(c, c->debian, 0, "template", NULL));
	for (unsigned i = 0; i < (c->rounds + 3) / 4; i++) {
		holt_box_info info = HOLT_BOX_INFO_INIT;
		holt_box *box = clone_start(c, c->debian, 0, "template", &info);

		(void)sleep(IDLE_S);
		const double idle = pss_of(info.vmm_pid);
		const double idle_private = private_kib(info.vmm_pid);
		work(box);
		record_pair(pss, pss_of(info.vmm_pid), idle);
		record_pair(private, private_kib(info.vmm_pid), idle_private);
		holt_box_close(box);
	}
	print(c, pss);
	print(c, private);
}

/* ---- processor ---- */

/* utime and stime, in ticks. */
static long cpu_ticks(pid_t pid)
{
	char path[64];
	char line[1024] = "";

	(void)snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
	FILE *f = fopen(path, "re");
	if (f) {
		(void)!fgets(line, sizeof line, f);
		(void)fclose(f);
	}
	/* The name may hold anything but ends with the last parenthesis; 11 fields on is utime. */
	char *at = strrchr(line, ')');
	for (int i = 0; at && i < 12; i++)
		at = strchr(at + 1, ' ');
	need(!at, "cannot read the times of a process", NULL);
	const long user = strtol(at, &at, 10);
	return user + strtol(at, NULL, 10);
}

static double cpu_percent(pid_t pid)
{
	const double before = now_ms();
	const long ticks = cpu_ticks(pid);

	(void)sleep(CPU_S);
	const double used_ms = (double)(cpu_ticks(pid) - ticks) * 1e3 /
			       (double)sysconf(_SC_CLK_TCK);
	return 100 * used_ms / (now_ms() - before);
}

static void bench_cpu(const struct clones *c)
{
	struct record *running = record_new("cpu_running", "%", NULL);
	struct record *paused = record_new("cpu_paused", "%", NULL);
	holt_box_info info = HOLT_BOX_INFO_INIT;
	holt_error *error = NULL;
	holt_box *box = clone_start(c, c->image, 0, "template", &info);

	running->target_median = TARGET_CPU;
	(void)sleep(IDLE_S);
	record_add(running, cpu_percent(info.vmm_pid));
	need(holt_box_pause(box, &error), "cannot pause a box", error);
	record_add(paused, cpu_percent(info.vmm_pid));
	holt_box_close(box);
	print(c, running);
	print(c, paused);
}

void bench_density(const struct clones *c)
{
	bench_idle_memory(c);
	if (c->debian)
		bench_work(c);
	else
		record_absent("pss_work", "no Debian image here");
	bench_cpu(c);
}
