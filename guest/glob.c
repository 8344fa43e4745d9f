/* SPDX-License-Identifier: Apache-2.0 */
#include "glob.h"

#include "guest_mem.h"

#include <string.h>

#include "guest_banned.h"

/*
 * Matching of names and paths.
 *
 * A pattern is cut at its slashes into segments, each of which is held against one name of the
 * path; GLOB_DEEP stands for any number of names. A '*' in a segment and a "**" in a pattern are
 * the same thing on two levels, and both are matched the same way: go on until something does not
 * fit, then give the last star one more and try again from there. An earlier star never has to give
 * more, since whatever the later one could reach then, it reaches as well by itself. So the work is
 * at most the product of the lengths, however many stars there are, and there is no recursion.
 *
 * Most segments are a plain name or one '*' with text around it, and take one or two comparisons.
 *
 * A character is a UTF-8 sequence, or a byte that is part of none.
 */

/* Beyond Unicode: what a byte counts as that is no UTF-8. */
#define STRAY_BYTE 0x110000u

static bool is_continuation(const char *p, const char *end, int n)
{
	if (end - p < n)
		return false;
	for (int i = 0; i < n; i++)
		if (((uint8_t)p[i] & 0xc0) != 0x80)
			return false;
	return true;
}

/* The character at *@p, which is before @end; moves *@p behind it. */
static uint32_t next_char(const char **p, const char *end)
{
	static const uint32_t smallest[] = {0, 0x80, 0x800, 0x10000};
	const uint8_t c = (uint8_t) * (*p)++;
	const int more = c < 0xc2 || c > 0xf4 ? 0 : c < 0xe0 ? 1 : c < 0xf0 ? 2 : 3;

	if (c < 0x80)
		return c;
	if (more == 0 || !is_continuation(*p, end, more))
		return STRAY_BYTE | c;
	uint32_t value = c & (0x3fu >> more);
	for (int i = 0; i < more; i++)
		value = value << 6 | ((uint8_t)(*p)[i] & 0x3f);
	if (value < smallest[more] || value > 0x10ffff || (value >= 0xd800 && value < 0xe000))
		return STRAY_BYTE | c;
	*p += more;
	return value;
}

/* The ']' of the set whose '[' is at @p, or NULL where that is just a '['. */
static const char *set_end(const struct glob_segment *s, const char *p)
{
	const char *const end = s->text + s->last_close;

	p++;
	if (p < end && *p == '!')
		p++;
	/* One that comes first is a member. */
	if (p < end)
		p++;
	return p < end ? memchr(p, ']', (size_t)(end - p)) : NULL;
}

/* @p to @end are the members, without brackets. */
static bool set_has(const char *p, const char *end, uint32_t c)
{
	const bool negated = p < end && *p == '!';
	bool found = false;

	p += negated;
	while (p < end) {
		const uint32_t low = next_char(&p, end);
		uint32_t high = low;
		if (end - p > 1 && *p == '-') {
			p++;
			high = next_char(&p, end);
		}
		found = found || (c >= low && c <= high);
	}
	return found != negated;
}

/* Hold the element of the segment at *@p against the character at *@name; both are moved. */
static bool take_one(
	const struct glob_segment *s, const char **p, const char **name, const char *name_end)
{
	const uint32_t c = next_char(name, name_end);

	if (**p == '[') {
		const char *const close = set_end(s, *p);
		if (close) {
			const char *const first = *p + 1;
			*p = close + 1;
			return set_has(first, close, c);
		}
	}
	const uint32_t want = next_char(p, s->text + s->len);
	return want == '?' || want == c;
}

static bool general_matches(const struct glob_segment *s, const char *name, size_t len)
{
	const char *const end = s->text + s->len;
	const char *const name_end = name + len;
	const char *p = s->text;
	const char *star = NULL; /* behind the last one */
	const char *given = NULL; /* where what it stands for ends */

	for (;;) {
		if (p < end && *p == '*') {
			star = ++p;
			given = name;
			continue;
		}
		if (name == name_end)
			return p == end;
		if (p < end && take_one(s, &p, &name, name_end))
			continue;
		if (!star || given == name_end)
			return false;
		(void)next_char(&given, name_end);
		name = given;
		p = star;
	}
}

void glob_segment_init(struct glob_segment *ret, const char *text, size_t len)
{
	size_t stars = 0;
	size_t others = 0;

	*ret = (struct glob_segment){.text = text, .len = (uint32_t)len};
	for (size_t i = 0; i < len; i++) {
		if (text[i] == '*' && stars++ == 0)
			ret->head = (uint32_t)i;
		others += text[i] == '?' || text[i] == '[';
		if (text[i] == ']')
			ret->last_close = (uint32_t)i + 1;
	}
	ret->kind = others || stars > 1 ? GLOB_GENERAL : stars ? GLOB_AFFIX : GLOB_EXACT;
}

bool glob_segment_matches(const struct glob_segment *s, const char *name, size_t len)
{
	size_t tail = 0;

	switch (s->kind) {
	case GLOB_EXACT:
		return len == s->len && memcmp(name, s->text, len) == 0;
	case GLOB_AFFIX:
		tail = s->len - s->head - 1;
		return len >= s->head + tail && memcmp(name, s->text, s->head) == 0 &&
		       memcmp(name + len - tail, s->text + s->head + 1, tail) == 0;
	case GLOB_GENERAL:
		return general_matches(s, name, len);
	case GLOB_DEEP:
		break;
	}
	return true;
}

/* Where the segment that begins at @p ends. */
static const char *segment_end(const char *p, const char *end)
{
	const char *const slash = memchr(p, '/', (size_t)(end - p));

	return slash ? slash : end;
}

static void add_segment(struct glob *g, const char *text, size_t len)
{
	struct glob_segment *const s = &g->segments[g->n];

	glob_segment_init(s, text, len);
	if (g->anchored && len == 2 && memcmp(text, "**", 2) == 0) {
		/* Two in a row are one. */
		if (g->n > 0 && s[-1].kind == GLOB_DEEP)
			return;
		s->kind = GLOB_DEEP;
	}
	g->n++;
}

int glob_init(struct glob *g, const char *pattern, size_t len)
{
	const char *const end = pattern + len;
	size_t slashes = 0;

	for (size_t i = 0; i < len; i++)
		slashes += pattern[i] == '/';
	*g = (struct glob){
		.segments = gmem_array(slashes + 1, sizeof(*g->segments)), .anchored = slashes > 0};
	if (!g->segments)
		return -1;
	/* A path from the root never begins with a slash: no segments, which nothing matches. */
	for (const char *p = pattern; p < end && *pattern != '/';) {
		const char *const q = segment_end(p, end);
		if (q > p && !(q == p + 1 && *p == '.'))
			add_segment(g, p, (size_t)(q - p));
		p = q + 1;
	}
	while (g->deep < g->n && g->segments[g->deep].kind != GLOB_DEEP)
		g->deep++;
	return 0;
}

void glob_done(struct glob *g)
{
	gmem_free(g->segments);
	*g = (struct glob){0};
}

static bool path_matches(const struct glob *g, const char *path, const char *end)
{
	size_t i = 0;
	size_t star = 0; /* the segment behind the last "**", 0: none yet */
	const char *given = NULL; /* what it does not stand for begins here */

	/* At the end of the path, @path is one behind @end. */
	for (;;) {
		if (i < g->n && g->segments[i].kind == GLOB_DEEP) {
			star = ++i;
			given = path;
			continue;
		}
		if (path > end || star == g->n)
			return i == g->n;
		const char *const q = segment_end(path, end);
		if (i < g->n && glob_segment_matches(&g->segments[i], path, (size_t)(q - path))) {
			i++;
			path = q + 1;
			continue;
		}
		if (star == 0)
			return false;
		given = segment_end(given, end) + 1;
		path = given;
		i = star;
	}
}

bool glob_matches(const struct glob *g, const char *path, size_t len)
{
	const char *const end = path + len;
	const char *const slash = memrchr(path, '/', len);
	const char *const name = slash ? slash + 1 : path;

	if (g->n == 0 || len == 0)
		return false;
	/* The last segment must match the last name: this is the end for most paths. */
	if (!glob_segment_matches(&g->segments[g->n - 1], name, (size_t)(end - name)))
		return false;
	return !g->anchored || path_matches(g, path, end);
}

bool glob_beneath(const struct glob *g, const char *path, size_t len)
{
	const char *const end = path + len;
	size_t i = 0;

	if (g->n == 0 || !g->anchored)
		return g->n > 0;
	for (const char *p = path; len > 0 && p <= end && i < g->deep; i++) {
		const char *const q = segment_end(p, end);
		if (!glob_segment_matches(&g->segments[i], p, (size_t)(q - p)))
			return false;
		p = q + 1;
		if (q == end)
			return i + 1 < g->n;
	}
	return i < g->n;
}
