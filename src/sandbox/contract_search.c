/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/contract.h"

#include <string.h>

#include "base/buf.h"
#include "sandbox/paths.h"
#include "sandbox/running.h"
#include "sandbox/text.h"
#include "base/banned.h"

/*
 * Listing and searching. The backend walks and matches, leaves out what the ignore list names, and
 * tells paths relative to the root; here the root goes in front again, as the caller wrote it, and
 * lines get their length.
 */

/* A path beneath a root: longer than any that can be opened, shorter than what hurts. */
#define RESULT_PATH_MAX (1u << 20)

/* 201 characters decide about a cut, of four bytes at most; the rest is for CRs at the end. */
#define GREP_LINE_BYTES 1024u

static const char ellipsis[] = "...";

struct searching {
	struct running run;
	const char *root;
	uint64_t left; /* results that may still be handed over */
	uint64_t count;
	bool more; /* than that */
	struct buf path;
	size_t root_len; /* of it, with a slash behind */
	holt_entry_fn entry;
	holt_match_fn match;
	void *user;
};

static int searching_begin(struct searching *s, holt_sandbox *sandbox,
	const struct contract_search *what, const holt_call *call, const char *stage,
	holt_error **reterr)
{
	s->root = what->root;
	s->left = what->max_results;
	s->path = BUF_INIT(RESULT_PATH_MAX);
	int r = buf_appends(&s->path, what->root);
	if (r == 0 && what->root[strlen(what->root) - 1] != '/')
		r = buf_appends(&s->path, "/");
	s->root_len = s->path.len;
	r = r < 0 ? err_nomem(reterr)
		  : running_begin(&s->run, sandbox, call, stage, what->root, reterr);
	if (r < 0)
		buf_done(&s->path);
	return r;
}

static int searching_end(struct searching *s, int r, holt_error *error,
	const holt_search_result *found, holt_search_result *ret, holt_error **reterr)
{
	buf_done(&s->path);
	r = running_end(&s->run, r, error, reterr);
	if (r == 0)
		*ret = (holt_search_result){.struct_size = sizeof *ret,
			.count = s->count,
			.truncated = found->truncated || s->more,
			.searched = found->searched,
			.skipped = found->skipped};
	return r;
}

/* Whether there is room for one more result; its path then is *ret, with its length. 1 ends the
 * operation. */
static int place(
	struct searching *s, const char *relative, size_t len, const char **ret, size_t *ret_len)
{
	if (s->run.stopped || s->run.own)
		return 1;
	if (len == 0) {
		*ret = s->root;
		*ret_len = strlen(s->root);
		return 0;
	}
	s->path.len = s->root_len;
	if (len > s->path.max - s->root_len)
		return running_fail(&s->run, HOLT_ELIMIT, 0, "search in a directory beneath",
			"a path is longer than %u bytes", RESULT_PATH_MAX);
	if (buf_append(&s->path, relative, len) < 0)
		return running_fail_memory(&s->run);
	*ret = (const char *)s->path.data;
	*ret_len = s->path.len;
	return 0;
}

/* The backend keeps to the maximum; one that does not is not believed. */
static bool is_too_many(struct searching *s)
{
	s->more = s->more || s->left == 0;
	if (s->left == 0)
		return true;
	s->left--;
	return false;
}

static int on_entry(const holt_entry *entry, void *user)
{
	struct searching *s = user;
	holt_entry e = *entry;

	if (place(s, entry->path, entry->path_len, &e.path, &e.path_len))
		return 1;
	if (is_too_many(s))
		return 0;
	s->count++;
	return running_stop(&s->run, s->entry(&e, s->user));
}

/* The line as it is handed over: without its end, and 197 characters and "..." of a long one, for
 * which there is room in @cut. */
static void shape_line(holt_match *m, char *cut)
{
	size_t len = m->line_len;

	/* The end of what was cut is not the line's. */
	while (len > 0 && len < GREP_LINE_BYTES &&
		(m->line[len - 1] == '\r' || m->line[len - 1] == '\n'))
		len--;
	m->line_len = len;
	if (text_chars(m->line, len, CONTRACT_LINE_CHARS) == len)
		return;
	const size_t dots = sizeof ellipsis - 1;
	const size_t kept = text_chars(m->line, len, CONTRACT_LINE_CHARS - dots);
	memcpy(cut, m->line, kept);
	memcpy(cut + kept, ellipsis, dots);
	m->line = cut;
	m->line_len = kept + dots;
}

static int on_match(const holt_match *match, void *user)
{
	struct searching *s = user;
	holt_match m = *match;
	char cut[4 * CONTRACT_LINE_CHARS];

	if (place(s, match->path, match->path_len, &m.path, &m.path_len))
		return 1;
	if (is_too_many(s))
		return 0;
	shape_line(&m, cut);
	s->count++;
	return running_stop(&s->run, s->match(&m, s->user));
}

static holt_backend_search request(const struct contract_search *what)
{
	static const char *const nothing[] = {NULL};

	return (holt_backend_search){.root = what->root,
		.ignore = what->all ? nothing : ignore_list(),
		.max_results = what->max_results,
		.flags = what->flags,
		.max_depth = what->max_depth,
		.pattern = what->pattern,
		.glob = what->glob,
		.line_bytes = GREP_LINE_BYTES};
}

/* What list and glob have in common, once all but the path is checked. */
static int find(holt_sandbox *sandbox, const struct contract_search *what, const holt_call *call,
	const char *stage, holt_entry_fn entry, void *user, holt_search_result *ret,
	holt_error **reterr)
{
	const __typeof__(sandbox->backend.list) operation = what->pattern ? sandbox->backend.glob
									  : sandbox->backend.list;
	struct searching s = {.entry = entry, .user = user};
	const holt_backend_search search = request(what);
	holt_search_result found = HOLT_SEARCH_RESULT_INIT;
	holt_error *error = NULL;
	int r = searching_begin(&s, sandbox, what, call, stage, reterr);

	if (r < 0)
		return r;
	r = operation(sandbox->self, &search, on_entry, &s, &s.run.call, &found, &error);
	return searching_end(&s, r, error, &found, ret, reterr);
}

int contract_list(holt_sandbox *sandbox, const struct contract_search *what, const holt_call *call,
	holt_entry_fn entry, void *user, holt_search_result *ret, holt_error **reterr)
{
	const int r = path_check(what->root, reterr);

	return r < 0 ? r : find(sandbox, what, call, "list", entry, user, ret, reterr);
}

int contract_glob(holt_sandbox *sandbox, const struct contract_search *what, const holt_call *call,
	holt_entry_fn entry, void *user, holt_search_result *ret, holt_error **reterr)
{
	int r = path_check(what->root, reterr);

	if (r == 0)
		r = glob_pattern_check(what->pattern, reterr);
	return r < 0 ? r : find(sandbox, what, call, "glob", entry, user, ret, reterr);
}

static int check_grep_pattern(const char *pattern, holt_error **reterr)
{
	const size_t len = strlen(pattern);

	if (len > 0 && len <= CONTRACT_PATTERN_BYTES_MAX)
		return 0;
	(void)err_make(reterr, HOLT_EINVALID, "a pattern has 1 to %u bytes, not %zu",
		CONTRACT_PATTERN_BYTES_MAX, len);
	err_stage(reterr, "pattern");
	err_hint(reterr, "'^' matches every line");
	return -HOLT_EINVALID;
}

int contract_grep(holt_sandbox *sandbox, const struct contract_search *what, const holt_call *call,
	holt_match_fn match, void *user, holt_search_result *ret, holt_error **reterr)
{
	struct searching s = {.match = match, .user = user};
	const holt_backend_search search = request(what);
	holt_search_result found = HOLT_SEARCH_RESULT_INIT;
	holt_error *error = NULL;
	int r = path_check(what->root, reterr);

	if (r == 0)
		r = check_grep_pattern(what->pattern, reterr);
	if (r == 0 && what->glob)
		r = glob_pattern_check(what->glob, reterr);
	if (r == 0)
		r = searching_begin(&s, sandbox, what, call, "grep", reterr);
	if (r < 0)
		return r;
	r = sandbox->backend.grep(
		sandbox->self, &search, on_match, &s, &s.run.call, &found, &error);
	return searching_end(&s, r, error, &found, ret, reterr);
}
