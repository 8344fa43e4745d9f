/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GUEST_GLOB_H
#define GUEST_GLOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Glob patterns, as include/holt/search.h tells them. No memory but that of the compiled pattern,
 * no I/O. Texts are borrowed and must stay until glob_done.
 */

enum glob_kind {
	GLOB_EXACT, /* nothing special in it */
	GLOB_AFFIX, /* one '*' and nothing else special */
	GLOB_GENERAL,
	GLOB_DEEP /* "**", of a whole pattern only */
};

/* What one name is held against. */
struct glob_segment {
	const char *text;
	uint32_t len;
	uint32_t head; /* bytes before the '*' of GLOB_AFFIX */
	uint32_t last_close; /* 1 + index of the last ']', 0: none */
	enum glob_kind kind;
};

void glob_segment_init(struct glob_segment *ret, const char *text, size_t len);
bool glob_segment_matches(const struct glob_segment *s, const char *name, size_t len);

struct glob {
	struct glob_segment *segments;
	size_t n;
	size_t deep; /* index of the first GLOB_DEEP, or n */
	bool anchored; /* for the path; else for the last name */
};

/* Returns 0, or -1 without memory. */
int glob_init(struct glob *g, const char *pattern, size_t len);
void glob_done(struct glob *g);

/* Whether a path, relative to the root, matches. An empty one never does. */
bool glob_matches(const struct glob *g, const char *path, size_t len);
/* Whether something beneath a directory may match; the root is "". May say yes for nothing. */
bool glob_beneath(const struct glob *g, const char *path, size_t len);

#endif
