/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: race CASE PROCESSES ROUNDS IMAGE LAYOUT
 *
 * For tests (K27): several processes do the same in one home at the same moment. Each has opened
 * the home by itself before; a barrier in shared memory lets them go together. Process 0 prepares a
 * round and judges it afterwards by the codes of all and by what a listing shows.
 *
 *   open     a home that does not exist yet: all open it
 *   create   a box of one name: one makes it, the others get HOLT_EEXISTS
 *   rename   each its own box to one name: one gets it, the others HOLT_EEXISTS
 *   remove   the same box: it is gone, the others find it in use, not there, or done
 *   locked   half of them remove a box, the others take its locks as a start does: no one ever
 *            sees half a box
 *   import   the same image under one name: all have it, it is there once
 *   list     one makes, renames and removes boxes, the others list: every row is whole
 *   start    the same box: one starts it, the others get HOLT_EBUSY (boots a machine)
 *
 * Prints one line; exit status 1 with what was seen when a round is not as it should be.
 */
#include "holt.h"

#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROCESSES_MAX 16
#define LISTINGS      20 /* of one process in one round */
#define LIMIT_S       600

struct shared {
	pthread_barrier_t barrier;
	int codes[PROCESSES_MAX];
};

struct race {
	struct shared *shared;
	int processes, rounds, self, round;
	const char *image, *layout;
	char path[4096]; /* of the home */
	holt_home *home;
};

struct race_case {
	const char *name;
	void (*prepare)(struct race *);
	int (*act)(struct race *);
	void (*judge)(struct race *);
};

__attribute__((format(printf, 2, 3), noreturn)) static void die(
	const struct race *r, const char *fmt, ...)
{
	va_list ap;

	(void)fprintf(stderr, "race: round %d, process %d: ", r->round, r->self);
	va_start(ap, fmt);
	(void)vfprintf(stderr, fmt, ap);
	va_end(ap);
	(void)fprintf(stderr, "\ncodes:");
	for (int i = 0; i < r->processes; i++)
		(void)fprintf(stderr, " %s", holt_code_name(r->shared->codes[i]));
	(void)fprintf(stderr, "\n");
	exit(1);
}

/* What may come of a race that was lost. */
static bool allowed(int code)
{
	return code == HOLT_OK || code == HOLT_EEXISTS || code == HOLT_ENOT_FOUND ||
	       code == HOLT_EBUSY || code == HOLT_ECANCELLED;
}

/* The code of a call, as a positive number; its error is told where it is none of those allowed. */
static int code_of(const struct race *r, int code, holt_error *error)
{
	if (!allowed(-code) || strstr(holt_error_hint(error), "damaged"))
		die(r, "%s at '%s' of '%s': %s", holt_code_name(-code), holt_error_stage(error),
			holt_error_object(error), holt_error_message(error));
	holt_error_free(error);
	return -code;
}

static void must(const struct race *r, int code, holt_error *error)
{
	if (code_of(r, code, error) != HOLT_OK)
		die(r, "should not fail: %s", holt_code_name(-code));
}

/* How many have won; a loser's code is one of two. */
static int winners(const struct race *r, int others, int or_others)
{
	int n = 0;

	for (int i = 0; i < r->processes; i++) {
		const int code = r->shared->codes[i];

		if (code == HOLT_OK)
			n++;
		else if (code != others && code != or_others)
			die(r, "a loser has another code than %s", holt_code_name(others));
	}
	return n;
}

static void one_wins(const struct race *r, int others)
{
	if (winners(r, others, others) != 1)
		die(r, "not exactly one has won");
}

static int make_box(const struct race *r, const char *name)
{
	holt_box_options options = HOLT_BOX_OPTIONS_INIT;
	holt_error *error = NULL;
	holt_box *box = NULL;

	options.name = name;
	options.flags = HOLT_BOX_KEEP;
	const int code = holt_box_create(r->home, r->image, &options, &box, &error);
	holt_box_close(box);
	return code_of(r, code, error);
}

static int remove_box(const struct race *r, const char *name, int force)
{
	holt_error *error = NULL;
	holt_box *box = NULL;
	int code = holt_box_get(r->home, name, &box, &error);

	if (code == 0)
		code = holt_box_remove(box, force, &error);
	holt_box_close(box);
	return code_of(r, code, error);
}

/* How many boxes there are, and how many of them have this name; every row has to be whole. */
static size_t count_boxes(const struct race *r, const char *name, size_t *ret_named)
{
	holt_error *error = NULL;
	holt_box **boxes = NULL;
	size_t n = 0;

	must(r, holt_box_list(r->home, &boxes, &n, &error), error);
	*ret_named = 0;
	for (size_t i = 0; i < n; i++) {
		holt_box_info info = HOLT_BOX_INFO_INIT;
		const char *json = NULL;

		must(r, holt_box_get_info(boxes[i], &info), NULL);
		must(r, holt_box_json(boxes[i], &json, &error), error);
		if (strlen(holt_box_id(boxes[i])) != 16 || !*holt_box_image(boxes[i]) ||
			!holt_box_name(boxes[i]) || info.disk_bytes == 0 ||
			(info.state == HOLT_BOX_EXITED && info.end_reason == HOLT_END_LOST))
			die(r, "a row is not whole: %s", json);
		*ret_named += strcmp(holt_box_name(boxes[i]), name) == 0;
	}
	holt_box_list_free(boxes, n);
	return n;
}

static void expect_boxes(const struct race *r, size_t all, const char *name, size_t named)
{
	size_t found = 0;
	const size_t n = count_boxes(r, name, &found);

	if (n != all || found != named)
		die(r, "%zu boxes, %zu called '%s', not %zu and %zu", n, found, name, all, named);
}

static void prepare_none(struct race *r)
{
	(void)r;
}

/* ---- open ---- */

static void open_home(struct race *r, const char *path)
{
	holt_home_options options = HOLT_HOME_OPTIONS_INIT;
	holt_error *error = NULL;

	options.path = path;
	must(r, holt_home_open(&options, &r->home, &error), error);
}

static int act_open(struct race *r)
{
	char path[sizeof r->path + 40];

	holt_home_close(r->home);
	(void)snprintf(path, sizeof path, "%s/new-%d/%d", r->path, r->processes, r->round);
	open_home(r, path);
	return HOLT_OK;
}

static void judge_open(struct race *r)
{
	expect_boxes(r, 0, "", 0);
}

/* ---- create, rename, remove ---- */

static int act_create(struct race *r)
{
	return make_box(r, "same");
}

static void judge_create(struct race *r)
{
	one_wins(r, HOLT_EEXISTS);
	expect_boxes(r, 1, "same", 1);
	if (remove_box(r, "same", 0) != HOLT_OK)
		die(r, "cannot remove it");
}

static void prepare_rename(struct race *r)
{
	char name[16];

	for (int i = 0; i < r->processes; i++) {
		(void)snprintf(name, sizeof name, "own-%d", i);
		if (make_box(r, name) != HOLT_OK)
			die(r, "cannot make '%s'", name);
	}
}

static int act_rename(struct race *r)
{
	holt_error *error = NULL;
	holt_box *box = NULL;
	char name[16];

	(void)snprintf(name, sizeof name, "own-%d", r->self);
	must(r, holt_box_get(r->home, name, &box, &error), error);
	const int code = holt_box_rename(box, "same", &error);
	holt_box_close(box);
	return code_of(r, code, error);
}

static void judge_rename(struct race *r)
{
	char name[16];

	one_wins(r, HOLT_EEXISTS);
	expect_boxes(r, (size_t)r->processes, "same", 1);
	for (int i = 0; i < r->processes; i++) {
		const int lost = r->shared->codes[i] == HOLT_EEXISTS;

		(void)snprintf(name, sizeof name, "own-%d", i);
		if (remove_box(r, lost ? name : "same", 0) != HOLT_OK)
			die(r, "cannot remove '%s'", name);
	}
	expect_boxes(r, 0, "same", 0);
}

static void prepare_one(struct race *r)
{
	if (make_box(r, "same") != HOLT_OK)
		die(r, "cannot make the box");
}

static int act_remove(struct race *r)
{
	return remove_box(r, "same", 0);
}

static void judge_remove(struct race *r)
{
	if (winners(r, HOLT_ENOT_FOUND, HOLT_EBUSY) < 1)
		die(r, "nobody has removed it");
	expect_boxes(r, 0, "same", 0);
}

/* ---- locked ---- */

/* All of a start but the keeper. */
static int cancelled_start(struct race *r)
{
	holt_start_options options = HOLT_START_OPTIONS_INIT;
	holt_error *error = NULL;
	holt_box *box = NULL;
	int code = holt_box_get(r->home, "same", &box, &error);

	if (code == 0) {
		must(r, holt_cancel_new(&options.cancel, NULL), NULL);
		holt_cancel_trigger(options.cancel);
		code = holt_box_start(box, &options, NULL, &error);
		holt_cancel_free(options.cancel);
	}
	holt_box_close(box);
	return code_of(r, code, error);
}

static int act_locked(struct race *r)
{
	return r->self % 2 ? cancelled_start(r) : remove_box(r, "same", 0);
}

/* Whoever comes second finds the box in use or gone; where all removers came second, it stays. */
static void judge_locked(struct race *r)
{
	int removed = 0;

	for (int i = 0; i < r->processes; i++) {
		const int code = r->shared->codes[i];

		removed += code == HOLT_OK;
		if (code != HOLT_ENOT_FOUND && code != HOLT_EBUSY &&
			code != (i % 2 ? HOLT_ECANCELLED : HOLT_OK))
			die(r, "process %d has a wrong code", i);
	}
	if (!removed && remove_box(r, "same", 0) != HOLT_OK)
		die(r, "cannot remove it");
	expect_boxes(r, 0, "same", 0);
}

/* ---- import ---- */

static int act_import(struct race *r)
{
	holt_image_import_options options = HOLT_IMAGE_IMPORT_OPTIONS_INIT;
	holt_error *error = NULL;

	options.name = "race";
	return code_of(r, holt_image_import(r->home, r->layout, &options, NULL, &error), error);
}

static void judge_import(struct race *r)
{
	holt_error *error = NULL;
	holt_image **images = NULL;
	size_t n = 0;
	size_t named = 0;

	if (winners(r, HOLT_OK, HOLT_OK) != r->processes)
		die(r, "not everybody has the image");
	must(r, holt_image_list(r->home, &images, &n, &error), error);
	for (size_t i = 0; i < n; i++)
		named += strstr(holt_image_name(images[i]), "race") != NULL;
	holt_image_list_free(images, n);
	if (named != 1)
		die(r, "the image is there %zu times", named);
	must(r, holt_image_remove(r->home, "race", &error), error);
}

/* ---- list ---- */

static int act_list(struct race *r)
{
	holt_error *error = NULL;
	holt_box *box = NULL;
	size_t named = 0;

	for (int i = 0; r->self > 0 && i < LISTINGS; i++) {
		if (count_boxes(r, "renamed", &named) > 1 || named > 1)
			die(r, "more boxes than there can be");
	}
	if (r->self > 0)
		return HOLT_OK;
	for (int i = 0; i < LISTINGS / 4; i++) {
		if (make_box(r, "same") != HOLT_OK)
			die(r, "cannot make a box");
		must(r, holt_box_get(r->home, "same", &box, &error), error);
		must(r, holt_box_rename(box, "renamed", &error), error);
		must(r, holt_box_remove(box, 0, &error), error);
		holt_box_close(box);
		box = NULL;
	}
	return HOLT_OK;
}

static void judge_list(struct race *r)
{
	expect_boxes(r, 0, "same", 0);
}

/* ---- start ---- */

static int act_start(struct race *r)
{
	holt_start_options options = HOLT_START_OPTIONS_INIT;
	holt_error *error = NULL;
	holt_box *box = NULL;

	options.flags = HOLT_START_DETACHED;
	must(r, holt_box_get(r->home, "same", &box, &error), error);
	const int code = holt_box_start(box, &options, NULL, &error);
	holt_box_close(box);
	return code_of(r, code, error);
}

static void judge_start(struct race *r)
{
	holt_box_info info = HOLT_BOX_INFO_INIT;
	holt_error *error = NULL;
	holt_box *box = NULL;

	one_wins(r, HOLT_EBUSY);
	must(r, holt_box_get(r->home, "same", &box, &error), error);
	must(r, holt_box_get_info(box, &info), NULL);
	holt_box_close(box);
	if (info.state != HOLT_BOX_RUNNING || info.keeper_pid == 0)
		die(r, "the box is %s", holt_box_state_name(info.state));
	if (remove_box(r, "same", 1) != HOLT_OK)
		die(r, "cannot remove it");
	expect_boxes(r, 0, "same", 0);
}

static const struct race_case cases[] = {
	{"open", prepare_none, act_open, judge_open},
	{"create", prepare_none, act_create, judge_create},
	{"rename", prepare_rename, act_rename, judge_rename},
	{"remove", prepare_one, act_remove, judge_remove},
	{"locked", prepare_one, act_locked, judge_locked},
	{"import", prepare_none, act_import, judge_import},
	{"list", prepare_none, act_list, judge_list},
	{"start", prepare_one, act_start, judge_start},
};

static void meet(const struct race *r)
{
	(void)pthread_barrier_wait(&r->shared->barrier);
}

static void run(struct race *r, const struct race_case *c)
{
	(void)alarm(LIMIT_S);
	for (r->round = 0; r->round < r->rounds; r->round++) {
		open_home(r, r->path);
		if (r->self == 0)
			c->prepare(r);
		meet(r);
		r->shared->codes[r->self] = c->act(r);
		meet(r);
		if (r->self == 0)
			c->judge(r);
		holt_home_close(r->home);
		r->home = NULL;
		meet(r);
	}
}

static int init_shared(struct race *r)
{
	pthread_barrierattr_t attr;

	r->shared = mmap(
		NULL, sizeof *r->shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (r->shared == MAP_FAILED)
		return -1;
	(void)pthread_barrierattr_init(&attr);
	(void)pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	return pthread_barrier_init(&r->shared->barrier, &attr, (unsigned)r->processes) ? -1 : 0;
}

/* The first one that fails ends them all, since the others would wait for it. */
static int wait_all(pid_t *pids, int n)
{
	int failed = 0;
	int status = 0;
	pid_t pid;

	while ((pid = wait(&status)) > 0) {
		for (int i = 0; i < n; i++) {
			if (pids[i] == pid)
				pids[i] = 0;
			else if (status != 0 && !failed && pids[i])
				(void)kill(pids[i], SIGKILL);
		}
		failed |= status != 0;
	}
	return failed;
}

int main(int argc, char **argv)
{
	struct race r = {0};
	const struct race_case *c = NULL;
	pid_t pids[PROCESSES_MAX];

	for (size_t i = 0; argc == 6 && i < sizeof cases / sizeof cases[0]; i++) {
		if (strcmp(cases[i].name, argv[1]) == 0)
			c = &cases[i];
	}
	r.processes = c ? (int)strtol(argv[2], NULL, 10) : 0;
	if (r.processes < 2 || r.processes > PROCESSES_MAX || !getenv("HOLT_HOME")) {
		(void)fprintf(stderr, "usage: race CASE PROCESSES ROUNDS IMAGE LAYOUT\n");
		return 2;
	}
	r.rounds = (int)strtol(argv[3], NULL, 10);
	r.image = argv[4];
	r.layout = argv[5];
	(void)snprintf(r.path, sizeof r.path, "%s", getenv("HOLT_HOME"));
	if (init_shared(&r) < 0)
		return 2;
	for (r.self = 0; r.self < r.processes; r.self++) {
		pids[r.self] = fork();
		if (pids[r.self] == 0) {
			run(&r, c);
			exit(0);
		}
	}
	if (wait_all(pids, r.processes))
		return 1;
	(void)printf("%s: %d processes, %d rounds\n", c->name, r.processes, r.rounds);
	return 0;
}
