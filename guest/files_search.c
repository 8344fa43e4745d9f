/* SPDX-License-Identifier: Apache-2.0 */
#include "files_search.h"

#include "glob.h"
#include "guest_mem.h"

#include <errno.h>

#include "guest_banned.h"

/*
 * Requests that tell names: list and glob.
 *
 * Entries go out as the walk meets them, so that memory does not depend on how many there are. One
 * more than wanted is looked for, which makes truncated exact; then the walk ends. A failure may
 * come after entries, which were true.
 */

int search_begin(struct search *s, struct files *f, const char *stage,
	const struct wire_strs *ignore, uint64_t max_results)
{
	*s = (struct search){.files = f, .stage = stage, .max = max_results, .walk = walk_new()};
	if (s->walk && ignore_init(&s->ignore, ignore) == 0)
		return 0;
	files_fail(f, WIRE_FILE_FAIL_ERRNO, ENOMEM, stage, NULL, "cannot search");
	search_end(s);
	return -1;
}

void search_end(struct search *s)
{
	walk_free(s->walk);
	ignore_done(&s->ignore);
}

void search_walk_failed(struct search *s)
{
	const struct walk_fault *const w = walk_fault(s->walk);

	files_fail(s->files, w->class_, w->errnum, s->stage, &w->object, "%s", w->text);
}

bool search_counts(struct search *s)
{
	s->truncated = s->n == s->max;
	s->n += !s->truncated;
	return !s->truncated;
}

/* Returns false where it is one too many. */
static bool tell(struct search *s, bool directory, const char *path, size_t len)
{
	if (!search_counts(s))
		return false;
	files_send(s->files,
		&(struct wire_msg){.op = WIRE_OP_file_entry,
			.file_entry = {.type = directory ? WIRE_FILE_DIRECTORY : WIRE_FILE_REGULAR,
				.path = {(const uint8_t *)path, (uint32_t)len}}});
	return true;
}

/* What is beneath the root, down to @max_depth. Returns 0, or -1 after a fault of the walk. */
static int list_beneath(struct search *s, uint32_t max_depth)
{
	struct walk_entry e;
	int rc = max_depth > 0 ? walk_enter(s->walk) : 0;

	while (rc == 0 && (rc = walk_next(s->walk, &s->ignore, &e)) == 1) {
		rc = 0;
		if (!tell(s, e.directory, e.path, e.len))
			return 0;
		if (e.directory && e.depth < max_depth)
			rc = walk_enter(s->walk);
	}
	return rc;
}

static void list(struct search *s, const char *root, uint32_t max_depth)
{
	const int kind = walk_start(s->walk, root);
	const struct wire_bytes object = walk_full_path(s->walk);

	if (kind == WALK_OTHER) {
		files_fail(s->files, WIRE_FILE_FAIL_REQUEST, ENOTDIR, s->stage, &object,
			"neither a directory nor a regular file");
		return;
	}
	if (kind < 0 || (tell(s, kind == WALK_DIRECTORY, "", 0) && kind == WALK_DIRECTORY &&
				list_beneath(s, max_depth) < 0)) {
		search_walk_failed(s);
		return;
	}
	files_done(s->files, s->truncated, 0, 0);
}

void files_op_list(struct files *f, const struct wire_msg *m)
{
	const struct wire_file_list *const r = &m->file_list;
	struct search s;

	if (search_begin(&s, f, "list", &r->ignore, r->max_results) < 0)
		return;
	list(&s, files_path(f, &r->root), r->max_depth);
	search_end(&s);
}

/* As list_beneath. */
static int find_beneath(struct search *s, const struct glob *g, bool directories)
{
	struct walk_entry e;
	walk_pass_over_kernel(s->walk);
	int rc = glob_beneath(g, "", 0) ? walk_enter(s->walk) : 0;

	while (rc == 0 && (rc = walk_next(s->walk, &s->ignore, &e)) == 1) {
		rc = 0;
		if ((!e.directory || directories) && glob_matches(g, e.path, e.len) &&
			!tell(s, e.directory, e.path, e.len))
			return 0;
		if (e.directory && glob_beneath(g, e.path, e.len))
			rc = walk_enter(s->walk);
	}
	return rc;
}

static void find(struct search *s, const char *root, const struct glob *g, bool directories)
{
	const int kind = walk_start(s->walk, root);

	/* Beneath what is no directory there is nothing. */
	if (kind < 0 || (kind == WALK_DIRECTORY && find_beneath(s, g, directories) < 0))
		search_walk_failed(s);
	else
		files_done(s->files, s->truncated, 0, 0);
}

void files_op_glob(struct files *f, const struct wire_msg *m)
{
	const struct wire_file_glob *const r = &m->file_glob;
	const struct wire_bytes pattern = r->pattern;
	struct glob g;
	struct search s;

	if (search_begin(&s, f, "search", &r->ignore, r->max_results) < 0)
		return;
	if (glob_init(&g, (const char *)pattern.data, pattern.len) == 0)
		find(&s, files_path(f, &r->root), &g, r->flags & WIRE_GLOB_DIRS);
	else
		files_fail(f, WIRE_FILE_FAIL_ERRNO, ENOMEM, s.stage, NULL, "cannot search");
	glob_done(&g);
	search_end(&s);
}
