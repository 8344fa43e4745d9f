/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One case: a sandbox, perhaps a box of its own, a fresh directory, and step after step until one
 * fails. A step {"op": "parallel", "threads": N, "times": M, "step": {...}} is done M times by each
 * of N threads at once, in which $N is the number of the thread. With "steps" instead each thread
 * has one of them, in turn, so that different things happen at once.
 */
#include "case.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define THREADS_MAX 16
#define ENV_MAX     16
#define SLACK_MS    500 /* of a real machine, which may have others beside it */

static uint64_t now_ms(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* ---- steps ---- */

static const struct op *find_op(const char *name)
{
	const struct op *const tables[] = {ops_of_files, ops_of_box, ops_of_finding};

	for (size_t i = 0; name && i < sizeof tables / sizeof tables[0]; i++)
		for (const struct op *op = tables[i]; op->name; op++)
			if (strcmp(op->name, name) == 0)
				return op;
	return NULL;
}

static bool step_run(struct run *run, json_t *step)
{
	const char *name = json_string_value(json_object_get(step, "op"));
	json_t *expect = json_object_get(step, "expect");
	const struct op *op = find_op(name);
	uint64_t within_ms = UINT64_MAX;
	char keys[256];

	if (!op)
		return case_fail(run, "bad data: there is no operation '%s'", name ? name : "");
	(void)snprintf(keys, sizeof keys, "op expect within_ms %s", op->keys);
	if (!expect_keys(run, step, name, keys) || !value_uint(run, step, "within_ms", &within_ms))
		return false;
	(void)snprintf(keys, sizeof keys, "error %s", op->expects);
	if (!expect_keys(run, expect, "the expectation", keys))
		return false;
	const uint64_t before = now_ms();
	if (!op->run(run, step, expect))
		return false;
	const uint64_t took = now_ms() - before;
	const uint64_t slack = run->world->is_fake ? 0 : SLACK_MS;
	return took <= slack || took - slack <= within_ms ||
	       case_fail(run, "took %llu ms, not at most %llu", (unsigned long long)took,
		       (unsigned long long)within_ms);
}

struct thread {
	pthread_t id;
	struct run run;
	json_t *step;
	uint64_t times;
	bool ok;
};

static void *thread_main(void *arg)
{
	struct thread *t = arg;

	t->ok = true;
	for (uint64_t i = 0; t->ok && i < t->times; i++)
		t->ok = step_run(&t->run, t->step);
	return NULL;
}

/* What thread @i does; NULL: nothing, which is a mistake. */
static json_t *step_of_thread(json_t *step, size_t i)
{
	json_t *steps = json_object_get(step, "steps");
	const size_t n = json_array_size(steps);

	return n > 0 ? json_array_get(steps, i % n) : json_object_get(step, "step");
}

static bool parallel_run(struct run *run, json_t *step)
{
	struct thread threads[THREADS_MAX];
	uint64_t n = 0;
	uint64_t times = 1;
	bool ok = true;

	if (!expect_keys(run, step, "parallel", "op threads times step steps") ||
		!value_uint(run, step, "threads", &n) || !value_uint(run, step, "times", &times))
		return false;
	if (n < 1 || n > THREADS_MAX || n < json_array_size(json_object_get(step, "steps")) ||
		!step_of_thread(step, 0))
		return case_fail(run, "bad data: 1 to %d threads, each with a step", THREADS_MAX);
	for (unsigned i = 0; i < n; i++) {
		threads[i] = (struct thread){
			.run = *run, .step = step_of_thread(step, i), .times = times};
		threads[i].run.thread = i;
		threads[i].run.memory = NULL;
		if (pthread_create(&threads[i].id, NULL, thread_main, &threads[i]) != 0)
			abort();
	}
	for (unsigned i = 0; i < n; i++) {
		(void)pthread_join(threads[i].id, NULL);
		if (!threads[i].ok)
			ok = case_fail(run, "thread %u: %s", i, threads[i].run.why);
		case_free_all(&threads[i].run);
	}
	return ok;
}

static bool steps_run(struct run *run, json_t *steps)
{
	const size_t n = json_array_size(steps);
	char why[sizeof run->why];

	if (n == 0)
		return case_fail(run, "bad data: no steps");
	for (size_t i = 0; i < n; i++) {
		json_t *step = json_array_get(steps, i);
		const char *name = json_string_value(json_object_get(step, "op"));
		const bool parallel = name && strcmp(name, "parallel") == 0;

		if (parallel ? parallel_run(run, step) : step_run(run, step))
			continue;
		memcpy(why, run->why, sizeof why);
		*run->why = 0;
		return case_fail(run, "step %zu, %s: %.1900s", i + 1, name ? name : "", why);
	}
	return true;
}

/* ---- what is around them ---- */

static void count_terminal(const char *id, const holt_error *error, void *user)
{
	unsigned *calls = user;

	if (id && *id && holt_error_failure(error) == HOLT_FAILURE_TERMINAL)
		(*calls)++;
}

static bool make_dir(struct run *run)
{
	holt_call_options options = HOLT_CALL_OPTIONS_INIT;
	holt_error *error = NULL;

	options.flags = HOLT_MKDIR_PARENTS;
	if (holt_sandbox_make_directory(run->world->sandbox, run->dir, &options, &error) == 0)
		return true;
	(void)case_fail(run, "cannot make '%s': %s", run->dir, holt_error_message(error));
	holt_error_free(error);
	return false;
}

static bool own_box(struct run *run)
{
	holt_error *error = NULL;

	if (holt_box_create(run->world->home, run->world->image, NULL, &run->box, &error) == 0 &&
		holt_box_start(run->box, NULL, NULL, &error) == 0)
		return true;
	(void)case_fail(run, "no box of its own: %s", holt_error_message(error));
	holt_error_free(error);
	return false;
}

/* A sandbox with the options that the case wants. */
static bool own_sandbox(struct run *run, json_t *json)
{
	static const char keys[] = "env user cwd user_data";
	holt_sandbox_options options = HOLT_SANDBOX_OPTIONS_INIT;
	const char *env[ENV_MAX + 2] = {NULL};
	size_t n = 0;
	json_t *list = json_object_get(json, "env");
	holt_error *error = NULL;

	if (!expect_keys(run, json, "a sandbox", keys) ||
		!value_text(run, json, "user", false, &options.user) ||
		!value_text(run, json, "cwd", false, &options.cwd) ||
		!value_text(run, json, "user_data", false, &options.user_data))
		return false;
	if (*run->world->home_env)
		env[n++] = run->world->home_env;
	for (size_t i = 0; i < json_array_size(list) && i < ENV_MAX; i++)
		env[n++] = json_string_value(json_array_get(list, i));
	options.env = n > 0 ? env : NULL;
	if (!options.user_data)
		options.user_data = run->world->user_data;
	options.terminal = count_terminal;
	options.terminal_user = run->terminal_calls;
	if (holt_sandbox_open(run->box, &options, &run->sandbox, &error) == 0)
		return true;
	(void)case_fail(run, "no sandbox of its own: %s", holt_error_message(error));
	holt_error_free(error);
	return false;
}

static bool prepare(struct run *run, json_t *c)
{
	json_t *own = json_object_get(c, "sandbox");
	const char *box = json_string_value(json_object_get(c, "box"));

	if (!expect_keys(run, c, "a case", "name rows needs note sandbox box steps"))
		return false;
	if (box && strcmp(box, "own") != 0)
		return case_fail(run, "bad data: a box is 'own' or none");
	if (!make_dir(run) || (box && !own_box(run)))
		return false;
	return !(own || box) || own_sandbox(run, own);
}

bool case_run(struct run *run, json_t *c)
{
	const struct world *w = run->world;
	unsigned terminal_calls = 0;

	run->box = w->box;
	run->sandbox = w->sandbox;
	run->terminal_calls = &terminal_calls;
	const bool ok = prepare(run, c) && steps_run(run, json_object_get(c, "steps"));
	if (run->sandbox != w->sandbox)
		holt_sandbox_free(run->sandbox);
	if (run->box != w->box)
		holt_box_close(run->box);
	case_free_all(run);
	return ok;
}
