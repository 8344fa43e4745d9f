/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the cases run on: a box that is there already, a new one, or one of the fake engine, whose
 * guest is the agent as a plain process of this host, so that it has the host's files and programs.
 */
#include "case.h"

#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define IMAGE "contract"

static void die(const char *what, const holt_error *error)
{
	(void)fprintf(stderr, "contract: %s: %s\n", what, holt_error_message(error));
	exit(1);
}

static void open_sandboxes(struct world *w)
{
	const char *const env[] = {w->home_env, NULL};
	holt_sandbox_options options = HOLT_SANDBOX_OPTIONS_INIT;
	holt_error *error = NULL;

	options.env = *w->home_env ? env : NULL;
	/* On a real box what nobody has set is tested. */
	options.user_data = w->is_fake ? w->user_data : NULL;
	if (holt_sandbox_open(w->box, &options, &w->sandbox, &error) != 0)
		die("no sandbox", error);
	options.flags = HOLT_SANDBOX_TEXT;
	if (holt_sandbox_open(w->box, &options, &w->text, &error) != 0)
		die("no sandbox", error);
}

static void make_scratch(struct world *w)
{
	(void)snprintf(w->dir, sizeof w->dir, "/tmp/holt-contract-XXXXXX");
	/* Users of sandboxes on the fake engine have to get in. */
	if (!mkdtemp(w->dir) || chmod(w->dir, 0755) < 0)
		die("no directory in /tmp", NULL);
}

static void has(struct world *w, const char *what)
{
	size_t i = 0;

	while (w->has[i])
		i++;
	w->has[i] = what;
}

/* An image of nothing but a directory; the fake engine does not look at it. */
static void import_image(struct world *w)
{
	holt_image_import_options options = HOLT_IMAGE_IMPORT_OPTIONS_INIT;
	struct run run = {.world = w};
	json_t *entries = json_loads("[[\"dir\", \"tmp\"]]", 0, NULL);
	holt_error *error = NULL;
	char path[sizeof w->dir + 16];
	char data[4096];
	bool owners = false;
	int fd = -1;

	if (!entries || !tar_make(&run, entries, &fd, &owners))
		die(run.why, NULL);
	(void)snprintf(path, sizeof path, "%s/image.tar", w->dir);
	FILE *f = fopen(path, "we");
	for (ssize_t n = 0; f && (n = read(fd, data, sizeof data)) > 0;)
		(void)fwrite(data, 1, (size_t)n, f);
	if (!f || fclose(f) != 0)
		die("cannot write an archive", NULL);
	options.name = IMAGE;
	if (holt_image_import(w->home, path, &options, NULL, &error) != 0)
		die("no image", error);
	(void)close(fd);
	json_decref(entries);
	case_free_all(&run);
}

void world_init_fake(struct world *w)
{
	holt_home_options options = HOLT_HOME_OPTIONS_INIT;
	holt_error *error = NULL;
	char home[sizeof w->dir + 16];

	w->is_fake = true;
	(void)setenv("HOLT_KEEPER", TEST_KEEPER, 1);
	(void)setenv("HOLT_AGENT", TEST_AGENT, 1);
	make_scratch(w);
	(void)snprintf(home, sizeof home, "%s/home", w->dir);
	(void)snprintf(w->cases_dir, sizeof w->cases_dir, "%s/cases", w->dir);
	(void)snprintf(w->user_data, sizeof w->user_data, "%s/user-data", w->dir);
	/* What this host's user has in their profile is no part of any case. */
	(void)snprintf(w->home_env, sizeof w->home_env, "HOME=%s", w->dir);
	options.path = home;
	if (holt_home_open(&options, &w->home, &error) != 0)
		die("no home", error);
	import_image(w);
	w->image = IMAGE;
	if (holt_box_create(w->home, IMAGE, NULL, &w->box, &error) != 0 ||
		holt_box_start(w->box, NULL, NULL, &error) != 0)
		die("no box", error);
	has(w, "shell");
	has(w, "bash");
	has(w, "fake");
	if (geteuid() == 0)
		has(w, "root");
	open_sandboxes(w);
}

void world_init_box(struct world *w, const char *ref)
{
	holt_error *error = NULL;

	make_scratch(w);
	(void)snprintf(w->cases_dir, sizeof w->cases_dir, "/tmp/contract");
	(void)snprintf(w->user_data, sizeof w->user_data, "%s", HOLT_USER_DATA_DEFAULT);
	if (holt_home_open(NULL, &w->home, &error) != 0)
		die("no home", error);
	if (ref && holt_box_get(w->home, ref, &w->box, &error) != 0)
		die("no such box", error);
	if (!ref && (holt_box_create(w->home, w->image, NULL, &w->box, &error) != 0 ||
			    holt_box_start(w->box, NULL, NULL, &error) != 0))
		die("no box", error);
	has(w, "machine");
	has(w, "root");
	open_sandboxes(w);
}

bool world_has(const struct world *w, const char *need)
{
	const bool no = strncmp(need, "no-", 3) == 0;

	for (size_t i = 0; w->has[i]; i++)
		if (strcmp(w->has[i], need + (no ? 3 : 0)) == 0)
			return !no;
	return no;
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

void world_done(struct world *w)
{
	holt_sandbox_free(w->sandbox);
	holt_sandbox_free(w->text);
	holt_box_close(w->box);
	holt_home_close(w->home);
	if (nftw(w->dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS) != 0)
		die("files are left in the directory of the cases", NULL);
}
