/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The drawing goes into a text of its own and from there to the terminal in one go, so that nothing
 * flickers, and no line is as wide as the terminal, so that none is wrapped. Where there are more
 * layers than rows, those that are done or wait are left out.
 */
#include "pull_progress.h"

#include <stdlib.h>
#include <string.h>

#define LINE_MAX      256
#define BAR_MIN       10
#define BAR_MAX       40
#define NAME_MAX_SEEN 96
#define CLEAR_LINE    "\033[K"

void progress_init(struct pull_progress *p, FILE *out, const char *name, unsigned flags)
{
	memset(p, 0, sizeof *p);
	p->out = out;
	p->name = name;
	p->flags = flags;
	p->rows = 24;
	p->columns = 80;
}

/* ---- what is known ---- */

static struct progress_layer *layer_of(struct pull_progress *p, const holt_pull_event *e)
{
	return e->layer >= 1 && e->layer <= PROGRESS_LAYERS_MAX ? &p->layer[e->layer - 1] : NULL;
}

/* The beginning of a digest, as images are listed. */
static void take_digest(char dst[DIGEST_SHOWN + 1], const char *digest)
{
	const char *hex = strchr(digest, ':');
	char shown[LINE_MAX];

	(void)cli_escape_str(shown, sizeof shown, hex ? hex + 1 : digest);
	(void)snprintf(dst, DIGEST_SHOWN + 1, "%.*s", DIGEST_SHOWN, shown);
}

static void take_layer(struct progress_layer *l, const holt_pull_event *e)
{
	if (!l->seen || e->phase == HOLT_PULL_KEPT)
		l->from_bytes = e->phase == HOLT_PULL_KEPT ? e->total_bytes : e->done_bytes;
	l->seen = 1;
	l->phase = e->phase;
	take_digest(l->digest, e->digest);
	if (e->total_bytes)
		l->total_bytes = e->total_bytes;
	l->done_bytes = e->phase == HOLT_PULL_LOADED || e->phase == HOLT_PULL_KEPT ||
					e->phase == HOLT_PULL_CONVERTED
				? l->total_bytes
				: e->done_bytes;
	if (l->from_bytes > l->done_bytes)
		l->from_bytes = l->done_bytes; /* it had to begin anew */
}

struct sums {
	unsigned converted;
	uint64_t done_bytes;
	uint64_t loaded_bytes; /* by this pull */
	uint64_t total_bytes;
};

static unsigned layers_known(const struct pull_progress *p)
{
	return p->layers < PROGRESS_LAYERS_MAX ? p->layers : PROGRESS_LAYERS_MAX;
}

static struct sums sum_up(const struct pull_progress *p)
{
	struct sums s = {0};

	for (unsigned i = 0; i < layers_known(p); i++) {
		s.converted += p->layer[i].phase == HOLT_PULL_CONVERTED;
		s.done_bytes += p->layer[i].done_bytes;
		s.loaded_bytes += p->layer[i].done_bytes - p->layer[i].from_bytes;
		s.total_bytes += p->layer[i].total_bytes;
	}
	s.total_bytes = p->total_bytes > s.total_bytes ? p->total_bytes : s.total_bytes;
	return s;
}

static void shown_name(const struct pull_progress *p, char name[NAME_MAX_SEEN])
{
	(void)cli_escape_str(name, NAME_MAX_SEEN, p->name);
}

/* ---- in a pipe ---- */

static void tell_layer(const struct pull_progress *p, const holt_pull_event *e)
{
	char done[32], total[32];

	cli_format_bytes(done, sizeof done, e->done_bytes, 1000);
	cli_format_bytes(total, sizeof total, e->total_bytes, 1000);
	if (e->phase == HOLT_PULL_LOADED)
		(void)fprintf(p->out, "layer %u of %u: loaded, %s\n", e->layer, e->layers, total);
	else if (e->phase == HOLT_PULL_KEPT)
		(void)fprintf(p->out, "layer %u of %u: was there before\n", e->layer, e->layers);
	else if (e->phase == HOLT_PULL_RETRY)
		(void)fprintf(p->out, "layer %u of %u: cut off at %s of %s, going on\n", e->layer,
			e->layers, done, total);
}

static void tell_resolved(const struct pull_progress *p, const holt_pull_event *e)
{
	char name[NAME_MAX_SEEN], total[32];

	shown_name(p, name);
	cli_format_bytes(total, sizeof total, e->total_bytes, 1000);
	(void)fprintf(p->out, "pulling %s: %u layer%s, %s\n", name, e->layers,
		e->layers == 1 ? "" : "s", total);
}

static void tell_done(const struct pull_progress *p, const holt_pull_event *e)
{
	const struct sums s = sum_up(p);
	char name[NAME_MAX_SEEN], loaded[32];

	shown_name(p, name);
	cli_format_bytes(loaded, sizeof loaded, s.loaded_bytes, 1000);
	if (e->changed)
		(void)fprintf(p->out, "pulled %s: %s loaded\n", name, loaded);
	else if (!(p->flags & PROGRESS_NEWS))
		(void)fprintf(p->out, "%s is up to date\n", name);
}

/* ---- on a terminal ---- */

static const char *phase_word(const struct progress_layer *l)
{
	switch (l->phase) {
	case HOLT_PULL_LOADING:
		return "loading";
	case HOLT_PULL_RETRY:
		return "again";
	case HOLT_PULL_LOADED:
		return "loaded";
	case HOLT_PULL_KEPT:
		return "kept";
	case HOLT_PULL_CONVERTED:
		return "done";
	default:
		return "waiting";
	}
}

static int in_work(const struct progress_layer *l)
{
	return l->phase == HOLT_PULL_LOADING || l->phase == HOLT_PULL_RETRY;
}

/* "[=====>    ]" of @width columns. */
static void draw_bar(FILE *out, unsigned width, uint64_t done, uint64_t total)
{
	const unsigned inner = width - 2;
	const unsigned full = done >= total ? inner
					    : (unsigned)((double)done / (double)total * inner);

	(void)fputc('[', out);
	for (unsigned i = 0; i < inner; i++)
		(void)fputc(i < full ? '=' : i == full ? '>' : ' ', out);
	(void)fputc(']', out);
}

/* A line, cut where the terminal ends. */
static void put_line(const struct pull_progress *p, FILE *out, char *line)
{
	cli_cut(line, LINE_MAX, p->columns > 1 ? p->columns - 1 : 1);
	(void)fprintf(out, "%s" CLEAR_LINE, line);
}

static void draw_layer(const struct pull_progress *p, FILE *out, unsigned i)
{
	const struct progress_layer *l = &p->layer[i];
	char line[LINE_MAX], done[32], total[32], bytes[72] = "";

	cli_format_bytes(done, sizeof done, l->done_bytes, 1000);
	cli_format_bytes(total, sizeof total, l->total_bytes, 1000);
	if (in_work(l))
		(void)snprintf(bytes, sizeof bytes, "%s of %s", done, total);
	else if (l->total_bytes)
		(void)snprintf(bytes, sizeof bytes, "%s", total);
	(void)snprintf(line, sizeof line, "%3u  %-12s  %-7s  %-20s", i + 1, l->digest,
		phase_word(l), bytes);
	const size_t used = strlen(line) + 2;
	const unsigned room = p->columns > used ? p->columns - (unsigned)used : 0;
	if (!in_work(l) || room < BAR_MIN || l->total_bytes == 0) {
		put_line(p, out, line);
	} else {
		(void)fputs(line, out);
		draw_bar(out, room < BAR_MAX ? room : BAR_MAX, l->done_bytes, l->total_bytes);
		(void)fputs(CLEAR_LINE, out);
	}
	(void)fputc('\n', out);
}

static void draw_total(const struct pull_progress *p, FILE *out, uint64_t now_ms)
{
	const struct sums s = sum_up(p);
	const uint64_t ms = now_ms > p->begun_ms ? now_ms - p->begun_ms : 0;
	char line[LINE_MAX], name[NAME_MAX_SEEN], done[32], total[32], rate[32];

	shown_name(p, name);
	cli_format_bytes(done, sizeof done, s.done_bytes, 1000);
	cli_format_bytes(total, sizeof total, s.total_bytes, 1000);
	cli_format_bytes(rate, sizeof rate,
		ms ? (uint64_t)((double)s.loaded_bytes * 1000 / (double)ms) : 0, 1000);
	(void)snprintf(line, sizeof line, "%u of %u layers done, %s of %s, %s/s: %s", s.converted,
		p->layers, done, total, rate, name);
	put_line(p, out, line);
	(void)fputc('\n', out);
}

/* All layers, or those in work, as far as there are rows. Returns the number of lines. */
static unsigned draw_layers(const struct pull_progress *p, FILE *out)
{
	const unsigned n = layers_known(p);
	const unsigned room = p->rows > 2 ? p->rows - 2 : 0;
	unsigned lines = 0;

	for (unsigned i = 0; i < n && lines < room; i++) {
		if (n > room && !in_work(&p->layer[i]))
			continue;
		draw_layer(p, out, i);
		lines++;
	}
	return lines;
}

static void go_up(FILE *out, unsigned lines)
{
	if (lines)
		(void)fprintf(out, "\033[%uA", lines);
}

static void draw(struct pull_progress *p, uint64_t now_ms)
{
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);

	if (!out)
		return;
	unsigned lines = draw_layers(p, out);
	draw_total(p, out, now_ms);
	lines++;
	const int failed = fclose(out);
	flockfile(p->out);
	if (!failed) {
		go_up(p->out, p->drawn);
		/* Lines of a drawing that had more. */
		(void)fprintf(p->out, "\r%s\033[J", text);
		p->drawn = lines;
		(void)fflush(p->out);
	}
	funlockfile(p->out);
	free(text);
	p->drawn_ms = now_ms;
}

void progress_hide(struct pull_progress *p)
{
	flockfile(p->out);
	if (p->drawn) {
		go_up(p->out, p->drawn);
		(void)fputs("\r\033[J", p->out);
		(void)fflush(p->out);
		p->drawn = 0;
	}
	funlockfile(p->out);
}

/* ---- events ---- */

static void draw_event(struct pull_progress *p, const holt_pull_event *e, uint64_t now_ms)
{
	if (e->phase == HOLT_PULL_DONE) {
		progress_hide(p);
		tell_done(p, e);
		return;
	}
	if (p->drawn && now_ms < p->drawn_ms + PROGRESS_DRAW_MS)
		return;
	draw(p, now_ms);
}

void progress_event(struct pull_progress *p, const holt_pull_event *e, uint64_t now_ms)
{
	struct progress_layer *l = layer_of(p, e);

	p->begun_ms = p->begun_ms ? p->begun_ms : now_ms;
	if (e->phase != HOLT_PULL_DONE && e->layers)
		p->layers = e->layers;
	if (e->phase == HOLT_PULL_RESOLVED)
		p->total_bytes = e->total_bytes;
	if (l)
		take_layer(l, e);
	if (p->flags & PROGRESS_TERMINAL)
		draw_event(p, e, now_ms);
	else if (e->phase == HOLT_PULL_RESOLVED)
		tell_resolved(p, e);
	else if (e->phase == HOLT_PULL_DONE)
		tell_done(p, e);
	else
		tell_layer(p, e);
}
