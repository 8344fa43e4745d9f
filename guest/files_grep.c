/* SPDX-License-Identifier: Apache-2.0 */
#include "builtin_files.h"

#include "builtin.h"
#include "files_search.h"
#include "glob.h"
#include "guest_mem.h"
#include "pattern.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "guest_banned.h"

/*
 * The request grep: lines that match, of the regular files beneath a root or of one file.
 *
 * A file is read into one buffer, chunk by chunk; what is searched is the whole lines in it, what
 * is left of the last one goes to the front for the next chunk. CRs before an LF, or before the end
 * of the file, belong to the line's end, and are taken out of the buffer before anything looks at
 * it, so that '$' means the same with both kinds of text files.
 *
 * A NUL among the first BINARY_BYTES makes a file binary; it is not searched. The rest of a file is
 * not searched from a line of more than LINE_MAX_BYTES on. Both are counted as skipped. A file that
 * has vanished or is no regular file any more when it is opened is passed over. One that cannot be
 * read fails the request, as does a line that needs too many steps; what was told before is true.
 *
 * Limits: LINE_MAX_BYTES of memory for the buffer, CHUNK as long as no line needs more. The time is
 * looked at before each chunk.
 */

#define CHUNK          (256u * 1024)
#define LINE_MAX_BYTES (8u * 1024 * 1024) /* HOLT_GREP_LINE_BYTES_MAX */
#define BINARY_BYTES   8192

struct grep {
	struct search search;
	struct pattern *pattern;
	struct glob glob;
	bool filter; /* by glob */
	uint32_t text_max; /* bytes of a line to be sent */
	uint64_t until_ms; /* 0: no end */
	uint64_t searched;
	uint64_t skipped;
	/* The file that is open. */
	int fd;
	const char *path; /* from the root */
	size_t path_len;
	char *buf;
	size_t cap; /* and one byte more */
	size_t len; /* bytes in buf; the first is that of a line */
	uint64_t line; /* the number of that one */
};

/* What to do after a step. */
enum verdict {
	GO_ON,
	FILE_ENDS, /* the next file */
	ENOUGH, /* no more results are wanted */
	FAILED /* the request, which was told */
};

static uint64_t now_ms(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC_COARSE, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static enum verdict fail_file(struct grep *g, int errnum, const char *text)
{
	const struct wire_bytes object = walk_full_path(g->search.walk);

	files_fail(g->search.files, WIRE_FILE_FAIL_ERRNO, errnum, g->search.stage, &object, "%s",
		text);
	return FAILED;
}

static enum verdict check_time(struct grep *g)
{
	if (g->until_ms == 0 || now_ms() < g->until_ms)
		return GO_ON;
	const struct wire_bytes object = walk_full_path(g->search.walk);
	files_fail(g->search.files, WIRE_FILE_FAIL_TIME, 0, g->search.stage, &object,
		"the time for searching is over");
	return FAILED;
}

static uint64_t count_lines(const char *p, const char *end)
{
	uint64_t n = 0;

	while (p < end && (p = memchr(p, '\n', (size_t)(end - p)))) {
		p++;
		n++;
	}
	return n;
}

/* Take the CRs in front of LFs, and at the end, out of @len bytes at @s; returns how many are left.
 */
static size_t drop_crs(char *s, size_t len)
{
	const char *const end = s + len;
	const char *from = s;
	char *to = s;

	for (const char *cr; (cr = memchr(from, '\r', (size_t)(end - from)));) {
		const char *behind = cr;
		while (behind < end && *behind == '\r')
			behind++;
		const bool drop = behind == end || *behind == '\n';
		const size_t n = (size_t)((drop ? cr : behind) - from);
		if (to != from)
			memmove(to, from, n);
		to += n;
		from = behind;
	}
	if (to != from)
		memmove(to, from, (size_t)(end - from));
	return (size_t)(to - s) + (size_t)(end - from);
}

static enum verdict fail_pattern(struct grep *g, enum pattern_result why, uint64_t line)
{
	const struct wire_bytes object = walk_full_path(g->search.walk);
	static char escaped[BUILTIN_ESCAPED_SIZE];

	if (why == PATTERN_BROKEN)
		return fail_file(g, ENOMEM, "cannot search");
	builtin_escape(g->path, escaped);
	files_fail(g->search.files, WIRE_FILE_FAIL_STEPS, 0, g->search.stage, &object,
		"the pattern needs too many steps on line %llu%s%s", (unsigned long long)line,
		*escaped ? " of " : "", escaped);
	return FAILED;
}

static void tell_match(struct grep *g, uint64_t line, const char *text, size_t len)
{
	const uint32_t text_len = len < g->text_max ? (uint32_t)len : g->text_max;

	files_send(g->search.files,
		&(struct wire_msg){.op = WIRE_OP_file_match,
			.file_match = {.line = line,
				.line_len = len,
				.path = {(const uint8_t *)g->path, (uint32_t)g->path_len},
				.text = {(const uint8_t *)text, text_len}}});
}

/* Search the whole lines in the first @len bytes of the buffer. */
static enum verdict search_lines(struct grep *g, size_t len, bool is_last)
{
	const size_t clean = drop_crs(g->buf, len);
	size_t start = 0;
	size_t end = 0;
	size_t counted = 0;
	enum pattern_result rc = PATTERN_NONE;

	/* See pattern.h. Else the text ends in an LF, and behind it more of the file may stand. */
	if (is_last)
		g->buf[clean] = '\n';
	pattern_subject(g->pattern, g->buf, clean);
	while ((rc = pattern_next(g->pattern, &start, &end)) != PATTERN_NONE) {
		g->line += count_lines(g->buf + counted, g->buf + start);
		counted = start;
		if (rc != PATTERN_FOUND)
			return fail_pattern(g, rc, g->line);
		if (!search_counts(&g->search))
			return ENOUGH;
		tell_match(g, g->line, g->buf + start, end - start);
	}
	if (!is_last)
		g->line += count_lines(g->buf + counted, g->buf + clean);
	return GO_ON;
}

/* Read until the buffer is full. *@ret_end tells whether the file ends there. */
static enum verdict fill(struct grep *g, bool *ret_end)
{
	*ret_end = false;
	while (g->len < g->cap) {
		const ssize_t n = read(g->fd, g->buf + g->len, g->cap - g->len);
		if (n < 0 && errno == EINTR)
			continue;
		/* It has become something else. */
		if (n < 0 && (errno == EISDIR || errno == EAGAIN))
			return FILE_ENDS;
		if (n < 0)
			return fail_file(g, errno, "cannot read");
		if (n == 0) {
			*ret_end = true;
			return GO_ON;
		}
		g->len += (size_t)n;
	}
	return GO_ON;
}

/* A line is longer than the buffer. */
static enum verdict grow(struct grep *g)
{
	/* One more, for the LF. */
	const size_t most = LINE_MAX_BYTES + 1;
	const size_t cap = g->cap * 2 < most ? g->cap * 2 : most;

	if (g->cap == most) {
		g->skipped++;
		return FILE_ENDS;
	}
	char *const buf = gmem_resize(g->buf, cap + 1);
	if (!buf)
		return fail_file(g, ENOMEM, "cannot read a long line");
	g->buf = buf;
	g->cap = cap;
	return GO_ON;
}

/* Search what is in the buffer and make room for what comes. */
static enum verdict search_chunk(struct grep *g, bool is_last)
{
	const char *const lf = memrchr(g->buf, '\n', g->len);
	const size_t len = is_last ? g->len : lf ? (size_t)(lf - g->buf) + 1 : 0;

	/* Also at the end of the file, where what is left may be too long by one. */
	if (len == 0 || (!lf && g->len > LINE_MAX_BYTES))
		return is_last && len == 0 ? GO_ON : grow(g);
	const enum verdict v = search_lines(g, len, is_last);
	memmove(g->buf, g->buf + len, g->len - len);
	g->len -= len;
	return v;
}

static enum verdict search_open_file(struct grep *g)
{
	bool is_last = false;
	enum verdict v = check_time(g);

	g->len = 0;
	g->line = 1;
	if (v == GO_ON)
		v = fill(g, &is_last);
	if (v != GO_ON)
		return v;
	if (memchr(g->buf, 0, g->len < BINARY_BYTES ? g->len : BINARY_BYTES)) {
		g->skipped++;
		return FILE_ENDS;
	}
	g->searched++;
	for (;;) {
		v = search_chunk(g, is_last);
		if (v != GO_ON || is_last)
			return v;
		v = check_time(g);
		if (v == GO_ON)
			v = fill(g, &is_last);
		if (v != GO_ON)
			return v;
	}
}

/* @name in the directory @at; the current one of the walk. */
static enum verdict search_file(struct grep *g, int at, const char *name, int follow)
{
	/* If it has become a fifo or a terminal meanwhile, neither waits nor takes it. */
	g->fd = openat(at, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | follow);
	if (g->fd < 0 && follow && (errno == ENOENT || errno == ELOOP || errno == ENXIO))
		return GO_ON;
	if (g->fd < 0)
		return fail_file(g, errno, "cannot read");
	const enum verdict v = search_open_file(g);
	(void)close(g->fd);
	return v == FILE_ENDS ? GO_ON : v;
}

static enum verdict search_entry(struct grep *g, const struct walk_entry *e)
{
	if (!e->directory) {
		if (g->filter && !glob_matches(&g->glob, e->path, e->len))
			return GO_ON;
		g->path = e->path;
		g->path_len = e->len;
		return search_file(g, e->at, e->name, O_NOFOLLOW);
	}
	if (g->filter && !glob_beneath(&g->glob, e->path, e->len))
		return GO_ON;
	if (walk_enter(g->search.walk) == 0)
		return GO_ON;
	search_walk_failed(&g->search);
	return FAILED;
}

static enum verdict search_tree(struct grep *g)
{
	struct walk_entry e;
	enum verdict v = GO_ON;

	walk_pass_over_kernel(g->search.walk);
	int rc = walk_enter(g->search.walk);

	while (rc == 0 && v == GO_ON &&
		(rc = walk_next(g->search.walk, &g->search.ignore, &e)) == 1) {
		rc = 0;
		v = search_entry(g, &e);
	}
	if (rc == 0)
		return v;
	search_walk_failed(&g->search);
	return FAILED;
}

/* The glob is for the name of a root that is a file. */
static enum verdict search_root_file(struct grep *g, const char *root)
{
	const char *const slash = strrchr(root, '/');
	const char *const name = slash ? slash + 1 : root;

	g->path = "";
	g->path_len = 0;
	if (g->filter && !glob_matches(&g->glob, name, strlen(name)))
		return GO_ON;
	return search_file(g, AT_FDCWD, root, 0);
}

static void search_root(struct grep *g, const char *root)
{
	const int kind = walk_start(g->search.walk, root);
	const struct wire_bytes object = walk_full_path(g->search.walk);
	enum verdict v = FAILED;

	if (kind < 0)
		search_walk_failed(&g->search);
	else if (kind == WALK_OTHER)
		files_fail(g->search.files, WIRE_FILE_FAIL_REQUEST, ENOTDIR, g->search.stage,
			&object, "neither a directory nor a regular file");
	else
		v = kind == WALK_FILE ? search_root_file(g, root) : search_tree(g);
	if (v != FAILED)
		files_done(g->search.files, g->search.truncated, g->searched, g->skipped);
}

/* Everything that a search needs. Returns 0; or -1, and then has failed the request. */
static int prepare(struct grep *g, struct files *f, const struct wire_file_grep *r)
{
	const uint32_t flags = (r->flags & WIRE_GREP_LITERAL ? PATTERN_LITERAL : 0) |
			       (r->flags & WIRE_GREP_CASE ? PATTERN_CASE : 0);
	struct pattern_fault why;

	g->filter = r->glob.len > 0;
	g->text_max = r->line_max < WIRE_PATH_MAX ? r->line_max : WIRE_PATH_MAX;
	g->until_ms = r->time_ms > 0 ? now_ms() + r->time_ms : 0;
	g->cap = CHUNK;
	g->buf = gmem_array(g->cap + 1, 1);
	if (!g->buf || glob_init(&g->glob, (const char *)r->glob.data, r->glob.len) < 0) {
		files_fail(f, WIRE_FILE_FAIL_ERRNO, ENOMEM, g->search.stage, NULL, "cannot search");
		return -1;
	}
	g->pattern = pattern_new(
		(const char *)r->pattern.data, r->pattern.len, flags, r->step_limit, &why);
	if (g->pattern)
		return 0;
	files_fail(f, WIRE_FILE_FAIL_PATTERN, 0, g->search.stage, NULL,
		"the pattern cannot be compiled: %s, at byte %zu", why.text, why.offset);
	return -1;
}

void files_op_grep(struct files *f, const struct wire_msg *m)
{
	const struct wire_file_grep *const r = &m->file_grep;
	struct grep g = {0};

	if (search_begin(&g.search, f, "search", &r->ignore, r->max_results) < 0)
		return;
	if (prepare(&g, f, r) == 0)
		search_root(&g, files_path(f, &r->root));
	pattern_free(g.pattern);
	glob_done(&g.glob);
	gmem_free(g.buf);
	search_end(&g.search);
}
