/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GUEST_FILES_SEARCH_H
#define GUEST_FILES_SEARCH_H

#include "builtin_files.h"
#include "walk.h"

/* What list, glob and grep have in common. */
struct search {
	struct files *files;
	const char *stage;
	struct walk *walk;
	struct ignore ignore;
	uint64_t max;
	uint64_t n; /* results told */
	bool truncated;
};

/* Returns 0; or -1, and then has failed the request. @ignore is borrowed until search_end. */
int search_begin(struct search *s, struct files *f, const char *stage,
	const struct wire_strs *ignore, uint64_t max_results);
void search_end(struct search *s);

/* Fail the request for what the walk failed for. */
void search_walk_failed(struct search *s);
/* Whether one more result is to be told; if not, it is the one that makes the result truncated. */
bool search_counts(struct search *s);

#endif
