/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GUEST_PATTERN_H
#define GUEST_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * What grep searches for, held against the lines of a text. A line ends with LF, or where the text
 * ends; the LF is not part of it, and nothing else ends one.
 */
struct pattern;

enum pattern_flags {
	PATTERN_LITERAL = 1 << 0,
	PATTERN_CASE = 1 << 1, /* case counts */
	PATTERN_INTERPRET = 1 << 2 /* without PCRE2's compiler, as where there is no memory for it;
				      for tests */
};

enum pattern_result {
	PATTERN_NONE = 0,
	PATTERN_FOUND = 1,
	PATTERN_STEPS = -1, /* the line told needs more work than allowed */
	PATTERN_BROKEN = -2 /* PCRE2 failed in another way, as without memory */
};

/* Why a pattern cannot be compiled. */
struct pattern_fault {
	size_t offset; /* in the pattern */
	char text[128];
};

/* @step_limit bounds the work for one line (0: as
 * PCRE2 has it). Returns NULL
 * with *ret_fault. */
struct pattern *pattern_new(const char *text, size_t len, uint32_t flags, uint32_t step_limit,
	struct pattern_fault *ret_fault);
void pattern_free(struct pattern *p);

/* The text to search from now on: whole lines, of which the last one may lack its LF. Borrowed. */
void pattern_subject(struct pattern *p, const char *text, size_t len);
/* The next line that matches, told by where it begins and ends. */
enum pattern_result pattern_next(struct pattern *p, size_t *ret_start, size_t *ret_end);

#endif
