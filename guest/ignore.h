/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GUEST_IGNORE_H
#define GUEST_IGNORE_H

#include "glob.h"

#include "wire/wire.h"

/*
 * The names that listing and searching leave out: patterns for one name each. Made to say no
 * quickly, since almost every name is none of them. The list is borrowed.
 */
struct ignore_item {
	struct glob_segment segment;
	uint32_t next; /* 1 + index of the next one of its chain, 0: none */
};

struct ignore {
	struct ignore_item *items;
	uint32_t n;
	uint32_t by_first[256]; /* exact names, by their first byte */
	uint64_t lengths[256]; /* of those: a bit for each length, the last for all from 63 */
	uint32_t by_last[256]; /* of the form head*tail, by the last byte of the tail */
	uint32_t others;
};

/* Returns 0, or -1 without memory. */
int ignore_init(struct ignore *ig, const struct wire_strs *patterns);
void ignore_done(struct ignore *ig);
bool ignore_matches(const struct ignore *ig, const char *name, size_t len);

#endif
