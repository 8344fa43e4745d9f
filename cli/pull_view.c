/* SPDX-License-Identifier: Apache-2.0 */
#include "pull_view.h"
#include "pull_progress.h"
#include "terminal.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct pull_progress progress; /* one per process: it is large */

static void hide(void)
{
	progress_hide(&progress);
}

static void show(const holt_pull_event *e, void *user)
{
	struct pull_progress *p = user;
	uint16_t rows = 0, columns = 0;

	if ((p->flags & PROGRESS_TERMINAL) && terminal_size(&rows, &columns) == 0) {
		p->rows = rows;
		p->columns = columns;
	}
	progress_event(p, e, cli_now_ns() / 1000000u);
}

/* Whoever reads them wants each of them at once. */
static void print_json(const holt_pull_event *e, void *user)
{
	(void)user;
	(void)printf("{\"event\":\"%s\"", holt_pull_phase_name(e->phase));
	if (e->layer)
		(void)printf(",\"layer\":%u", e->layer);
	(void)printf(",\"layers\":%u,\"digest\":", e->layers);
	cli_json_string(stdout, e->digest, strlen(e->digest), CLI_JSON_TEXT);
	if (e->phase == HOLT_PULL_DONE)
		(void)printf(",\"changed\":%s}\n", e->changed ? "true" : "false");
	else
		(void)printf(",\"done_bytes\":%llu,\"total_bytes\":%llu}\n",
			(unsigned long long)e->done_bytes, (unsigned long long)e->total_bytes);
	(void)fflush(stdout);
}

/* Whether lines can be drawn over others there. */
static int can_draw(void)
{
	const char *term = getenv("TERM");

	return isatty(STDERR_FILENO) && (!term || strcmp(term, "dumb") != 0);
}

int pull_view(holt_home *home, const char *ref, holt_pull_options *o, unsigned flags,
	holt_image **ret, holt_error **reterr)
{
	const int drawn = !(flags & (PULL_VIEW_JSON | PULL_VIEW_QUIET));

	progress_init(&progress, stderr, ref,
		(can_draw() ? PROGRESS_TERMINAL : 0) |
			(flags & PULL_VIEW_NEWS ? PROGRESS_NEWS : 0));
	o->user = &progress;
	o->event = drawn ? show : flags & PULL_VIEW_JSON ? print_json : NULL;
	if (flags & PULL_VIEW_QUIET)
		cli_be_quiet();
	if (drawn)
		cli_before_message(hide);
	const int r = holt_image_pull(home, ref, o, ret, reterr);
	cli_before_message(NULL);
	if (drawn)
		hide();
	return r;
}

int pull_view_have(holt_home *home, const char *ref, int32_t policy, int quiet, holt_cancel *cancel,
	holt_error **reterr)
{
	holt_pull_options o = HOLT_PULL_OPTIONS_INIT;

	o.policy = policy;
	o.cancel = cancel;
	return pull_view(
		home, ref, &o, PULL_VIEW_NEWS | (quiet ? PULL_VIEW_QUIET : 0), NULL, reterr);
}

int pull_view_policy(const char *text, int32_t *ret)
{
	static const struct {
		const char *name;
		int32_t policy;
	} table[] = {{"always", HOLT_PULL_ALWAYS}, {"missing", HOLT_PULL_MISSING},
		{"never", HOLT_PULL_NEVER}};

	for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
		if (strcmp(table[i].name, text) == 0) {
			*ret = table[i].policy;
			return 0;
		}
	}
	return -1;
}
