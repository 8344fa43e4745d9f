/* SPDX-License-Identifier: Apache-2.0 */
#include "box/box_search.h"

#include <string.h>

#include "base/buf.h"
#include "base/banned.h"

/*
 * The work is the agent's, beside the data. Here is checked that what comes is of the kind that was
 * asked for: as many results as wanted, paths that stay beneath the root whatever is put before
 * them, lines no longer than wanted. Results go on to the caller as they come; nothing is kept.
 */

/* Work for one line of a grep, in steps of PCRE2 (its match limit). Patterns that people write take
 * hundreds; one that tries all ways to cut a line takes billions. */
#define GREP_STEPS 1000000u
/* All patterns of names that are left out. */
#define IGNORE_BYTES_MAX 65536u

struct search {
	const holt_backend_search *what;
	uint16_t op;
	holt_entry_fn entry;
	holt_match_fn match;
	void *user;
	uint64_t count;
	struct wire_file_done done;
};

/* ---- what comes ---- */

/* Segments of a path beneath the root, 0 for the root itself; -1 where it could lead elsewhere. */
static int depth_of(const struct wire_bytes *path)
{
	const char *p = (const char *)path->data;
	size_t left = path->len;
	int depth = 0;

	while (left > 0) {
		const char *slash = memchr(p, '/', left);
		const size_t n = slash ? (size_t)(slash - p) : left;

		if (n == 0 || (n == 1 && p[0] == '.') || (n == 2 && p[0] == '.' && p[1] == '.'))
			return -1;
		depth++;
		if (!slash)
			return depth;
		p += n + 1;
		left -= n + 1;
	}
	/* It is empty, or ends in a slash. */
	return path->len == 0 ? 0 : -1;
}

/* The root comes first and once; a level further than max_depth never. */
static bool listed(const struct search *s, int depth, uint8_t type)
{
	if (depth < 0 || (depth == 0) != (s->count == 0) || (unsigned)depth > s->what->max_depth)
		return false;
	return type == WIRE_FILE_REGULAR || type == WIRE_FILE_DIRECTORY;
}

static bool globbed(const struct search *s, int depth, uint8_t type)
{
	const bool directories = s->what->flags & HOLT_GLOB_DIRECTORIES;

	return depth > 0 &&
	       (type == WIRE_FILE_REGULAR || (directories && type == WIRE_FILE_DIRECTORY));
}

static enum files_verdict give_entry(struct search *s, const struct wire_file_entry *m)
{
	const int depth = depth_of(&m->path);
	const holt_entry entry = {
		.path = (const char *)m->path.data, .path_len = m->path.len, .type = m->type};

	if (s->op == WIRE_OP_file_list ? !listed(s, depth, m->type) : !globbed(s, depth, m->type))
		return FILES_DISORDER;
	s->count++;
	return s->entry(&entry, s->user) == 0 ? FILES_FINE : FILES_ENOUGH;
}

static enum files_verdict give_match(struct search *s, const struct wire_file_match *m)
{
	const holt_match match = {.path = (const char *)m->path.data,
		.path_len = m->path.len,
		.line_number = m->line,
		.line = (const char *)m->text.data,
		.line_len = m->text.len};

	if (depth_of(&m->path) < 0 || m->text.len > s->what->line_bytes)
		return FILES_DISORDER;
	s->count++;
	return s->match(&match, s->user) == 0 ? FILES_FINE : FILES_ENOUGH;
}

static enum files_verdict take_result(void *user, const struct wire_msg *m)
{
	struct search *s = user;
	const bool full = s->count >= s->what->max_results;

	if (m->op == WIRE_OP_file_done) {
		s->done = m->file_done;
		/* More than was wanted there can be only behind all that was. */
		return m->file_done.truncated && !full ? FILES_DISORDER : FILES_FINE;
	}
	if (full)
		return FILES_DISORDER;
	if (m->op == WIRE_OP_file_entry && s->entry)
		return give_entry(s, &m->file_entry);
	if (m->op == WIRE_OP_file_match && s->match)
		return give_match(s, &m->file_match);
	return FILES_DISORDER;
}

/* ---- what is asked ---- */

static int pack(
	const char *const *list, struct buf *out, struct wire_strs *ret, holt_error **reterr)
{
	uint32_t n = 0;

	for (; list && list[n]; n++) {
		if (n >= WIRE_STRS_MAX || buf_append(out, list[n], strlen(list[n]) + 1) < 0)
			return err_make(reterr, HOLT_ELIMIT,
				"the names to leave out have more than %u bytes", IGNORE_BYTES_MAX);
	}
	*ret = (struct wire_strs){.data = out->data, .len = (uint32_t)out->len, .count = n};
	return 0;
}

static int search(struct box_files *f, struct search *s, const struct wire_msg *msg,
	const holt_call *call, holt_search_result *ret, holt_error **reterr)
{
	const struct files_request q = {
		.msg = msg, .path = s->what->root, .take = take_result, .user = s};

	s->op = msg->op;
	const int r = box_files_call(f, &q, call, reterr);
	if (r == 0 && ret)
		*ret = (holt_search_result){.struct_size = sizeof *ret,
			.count = s->count,
			.truncated = s->done.truncated,
			.searched = s->done.searched,
			.skipped = s->done.skipped};
	return r;
}

int box_search_list(struct box_files *f, const holt_backend_search *what, holt_entry_fn entry,
	void *user, const holt_call *call, holt_search_result *ret, holt_error **reterr)
{
	struct search s = {.what = what, .entry = entry, .user = user};
	auto_buf ignore = BUF_INIT(IGNORE_BYTES_MAX);
	struct wire_msg msg = {.op = WIRE_OP_file_list,
		.file_list = {.max_depth = what->max_depth,
			.max_results = what->max_results,
			.root = files_bytes(what->root)}};
	const int r = pack(what->ignore, &ignore, &msg.file_list.ignore, reterr);

	return r < 0 ? r : search(f, &s, &msg, call, ret, reterr);
}

int box_search_glob(struct box_files *f, const holt_backend_search *what, holt_entry_fn entry,
	void *user, const holt_call *call, holt_search_result *ret, holt_error **reterr)
{
	struct search s = {.what = what, .entry = entry, .user = user};
	auto_buf ignore = BUF_INIT(IGNORE_BYTES_MAX);
	struct wire_msg msg = {.op = WIRE_OP_file_glob,
		.file_glob = {.flags = what->flags & HOLT_GLOB_DIRECTORIES ? WIRE_GLOB_DIRS : 0,
			.max_results = what->max_results,
			.root = files_bytes(what->root),
			.pattern = files_bytes(what->pattern)}};
	const int r = pack(what->ignore, &ignore, &msg.file_glob.ignore, reterr);

	return r < 0 ? r : search(f, &s, &msg, call, ret, reterr);
}

int box_search_grep(struct box_files *f, const holt_backend_search *what, holt_match_fn match,
	void *user, const holt_call *call, holt_search_result *ret, holt_error **reterr)
{
	struct search s = {.what = what, .match = match, .user = user};
	auto_buf ignore = BUF_INIT(IGNORE_BYTES_MAX);
	const uint32_t flags = (what->flags & HOLT_GREP_LITERAL ? WIRE_GREP_LITERAL : 0u) |
			       (what->flags & HOLT_GREP_CASE_SENSITIVE ? WIRE_GREP_CASE : 0u);
	struct wire_msg msg = {.op = WIRE_OP_file_grep,
		.file_grep = {.flags = flags,
			.max_results = what->max_results,
			.line_max = what->line_bytes,
			.step_limit = GREP_STEPS,
			.time_ms = call->timeout_ms == HOLT_FOREVER ? 0 : call->timeout_ms,
			.root = files_bytes(what->root),
			.pattern = files_bytes(what->pattern),
			.glob = files_bytes(what->glob)}};
	const int r = pack(what->ignore, &ignore, &msg.file_grep.ignore, reterr);

	return r < 0 ? r : search(f, &s, &msg, call, ret, reterr);
}
