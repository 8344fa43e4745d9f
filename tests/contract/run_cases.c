/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: run_cases (--fake | --image IMAGE [--box NAME]) [--has WORD]... [--only TEXT] [--least N]
 *                  FILE...
 *
 * Runs the contract cases of the files (README.md describes them) on the fake engine, in a new box
 * of $HOLT_HOME or in one that runs there and was made from that image, and tells the results as
 * TAP.
 * --has says what is in the image: shell, bash. What a case needs and is not there is counted at
 * the end, with the number of cases; where none runs, or there are less than --least in the files,
 * that is a failure. --only selects by a part of the name or by a row. Uses the public functions
 * only.
 */
#include "case.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#define N_WORDS 7

struct tally {
	unsigned all; /* in the files */
	unsigned ran;
	unsigned failed;
	struct {
		const char *need;
		unsigned n;
	} without[N_WORDS];
};

/* Words that cases may use; "no-" in front turns them round. */
static const char *const words[N_WORDS] = {
	"bash", "fake", "machine", "no-bash", "no-shell", "root", "shell"};

/* The first need that is not there, or a word that nobody knows; NULL where nothing is missing. */
static const char *missing_need(const struct world *w, json_t *c, bool *ret_known)
{
	json_t *needs = json_object_get(c, "needs");

	for (size_t i = 0; i < json_array_size(needs); i++) {
		const char *need = json_string_value(json_array_get(needs, i));
		size_t k = 0;

		while (need && k < N_WORDS && strcmp(words[k], need) != 0)
			k++;
		*ret_known = need && k < N_WORDS;
		if (!*ret_known || !world_has(w, need))
			return *ret_known ? words[k] : "?";
	}
	return NULL;
}

static void count_without(struct tally *t, const char *need)
{
	size_t i = 0;

	while (i < N_WORDS - 1 && t->without[i].need && t->without[i].need != need)
		i++;
	t->without[i].need = need;
	t->without[i].n++;
}

static bool is_selected(json_t *c, const char *only)
{
	const char *name = json_string_value(json_object_get(c, "name"));
	json_t *rows = json_object_get(c, "rows");

	if (!only || (name && strstr(name, only)))
		return true;
	for (size_t i = 0; i < json_array_size(rows); i++)
		if (strcmp(json_string_value(json_array_get(rows, i)), only) == 0)
			return true;
	return false;
}

/* A case names itself and the rows that it proves, as TAP has it. */
static void print_result(struct tally *t, json_t *c, const char *name, bool ok, const char *why)
{
	json_t *rows = json_object_get(c, "rows");

	(void)printf("%sok %u -", ok ? "" : "not ", t->ran);
	for (size_t i = 0; i < json_array_size(rows); i++)
		(void)printf(" %s", json_string_value(json_array_get(rows, i)));
	(void)printf(": %s\n", name);
	if (!ok)
		(void)printf("# %s\n", why);
	(void)fflush(stdout);
}

static void run_one(const struct world *w, json_t *c, struct tally *t)
{
	static struct run run;
	const char *name = json_string_value(json_object_get(c, "name"));
	bool known = true;
	const char *missing = missing_need(w, c, &known);

	if (missing && known) {
		count_without(t, missing);
		return;
	}
	run = (struct run){.world = w};
	t->ran++;
	(void)snprintf(run.dir, sizeof run.dir, "%s/%u", w->cases_dir, t->all);
	bool ok = known ? case_run(&run, c) : case_fail(&run, "bad data: an unknown need");
	if (!name || !json_array_size(json_object_get(c, "rows"))) {
		ok = false;
		(void)case_fail(&run, "bad data: a case has a name and rows");
	}
	t->failed += !ok;
	print_result(t, c, name ? name : "?", ok, run.why);
}

static json_t *load(const char *path)
{
	json_error_t error;
	json_t *cases = json_load_file(path, JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, &error);

	if (!json_is_array(cases)) {
		(void)fprintf(stderr, "contract: %s:%d: %s\n", path, error.line, error.text);
		exit(1);
	}
	return cases;
}

/* No two cases have one name. */
static bool is_new(json_t *names, json_t *c)
{
	const char *name = json_string_value(json_object_get(c, "name"));

	if (name && json_object_get(names, name)) {
		(void)printf("# two cases are called '%s'\n", name);
		return false;
	}
	return !name || json_object_set_new(names, name, json_true()) == 0;
}

static void run_file(
	const struct world *w, const char *path, const char *only, json_t *names, struct tally *t)
{
	json_t *cases = load(path);

	for (size_t i = 0; i < json_array_size(cases); i++) {
		json_t *c = json_array_get(cases, i);

		t->all++;
		t->failed += !is_new(names, c);
		if (is_selected(c, only))
			run_one(w, c, t);
	}
	json_decref(cases);
}

static int summary(const struct tally *t, unsigned least)
{
	(void)printf("1..%u\n# %u of %u cases ran", t->ran, t->ran, t->all);
	for (size_t i = 0; i < N_WORDS && t->without[i].need; i++)
		(void)printf(", %u need '%s'", t->without[i].n, t->without[i].need);
	(void)printf("; %u failed\n", t->failed);
	if (t->ran == 0 || t->all < least)
		(void)printf("# that is too few: at least 1 has to run, and %u have to be there\n",
			least);
	return t->failed > 0 || t->ran == 0 || t->all < least;
}

static int usage(void)
{
	(void)fprintf(stderr,
		"usage: run_cases (--fake | --image IMAGE [--box NAME]) [--has WORD]... "
		"[--only TEXT] [--least N] FILE...\n");
	return 2;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {{"box", required_argument, NULL, 'b'},
		{"fake", no_argument, NULL, 'f'}, {"has", required_argument, NULL, 'h'},
		{"image", required_argument, NULL, 'i'}, {"least", required_argument, NULL, 'l'},
		{"only", required_argument, NULL, 'o'}, {0}};
	static struct world w;
	struct tally t = {0};
	const char *only = NULL;
	const char *box = NULL;
	bool fake = false;
	size_t n_has = 0;
	unsigned least = 0;
	int c = 0;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 'b')
			box = optarg;
		else if (c == 'f')
			fake = true;
		else if (c == 'h' && n_has < 4)
			w.has[n_has++] = optarg;
		else if (c == 'i')
			w.image = optarg;
		else if (c == 'l')
			least = (unsigned)strtoul(optarg, NULL, 10);
		else if (c == 'o')
			only = optarg;
		else
			return usage();
	}
	if (optind == argc || fake == (w.image != NULL) || (fake && box))
		return usage();
	json_t *names = json_object();
	if (fake)
		world_init_fake(&w);
	else
		world_init_box(&w, box);
	for (int i = optind; i < argc; i++)
		run_file(&w, argv[i], only, names, &t);
	world_done(&w);
	json_decref(names);
	return summary(&t, least);
}
