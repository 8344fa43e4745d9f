/* SPDX-License-Identifier: Apache-2.0 */
#include "ignore.h"

#include "guest_mem.h"

#include <string.h>

#include "guest_banned.h"

/*
 * Patterns are sorted into chains when they come: exact names by first byte (with a mask of their
 * lengths in front, which alone refuses nearly all), "*.log" and its kin by last byte, and the
 * rest, which is tried one after the other. At most WIRE_STRS_MAX patterns.
 */

static uint64_t length_bit(size_t len)
{
	return UINT64_C(1) << (len < 63 ? len : 63);
}

static void chain(struct ignore *ig, uint32_t *head, struct ignore_item *item)
{
	item->next = *head;
	*head = (uint32_t)(item - ig->items) + 1;
}

static void add(struct ignore *ig, const char *pattern)
{
	struct ignore_item *const item = &ig->items[ig->n++];
	struct glob_segment *const s = &item->segment;
	const size_t len = strlen(pattern);

	glob_segment_init(s, pattern, len);
	if (s->kind == GLOB_EXACT) {
		const uint8_t first = (uint8_t)pattern[0];
		ig->lengths[first] |= length_bit(len);
		chain(ig, &ig->by_first[first], item);
	} else if (s->kind == GLOB_AFFIX && s->head + 1 < len) {
		chain(ig, &ig->by_last[(uint8_t)pattern[len - 1]], item);
	} else {
		chain(ig, &ig->others, item);
	}
}

int ignore_init(struct ignore *ig, const struct wire_strs *patterns)
{
	uint32_t pos = 0;

	*ig = (struct ignore){.items = gmem_array(patterns->count + 1, sizeof(*ig->items))};
	if (!ig->items)
		return -1;
	for (const char *s; (s = wire_strs_next(patterns, &pos));)
		add(ig, s);
	return 0;
}

void ignore_done(struct ignore *ig)
{
	gmem_free(ig->items);
	*ig = (struct ignore){0};
}

static bool chain_matches(const struct ignore *ig, uint32_t at, const char *name, size_t len)
{
	for (; at; at = ig->items[at - 1].next)
		if (glob_segment_matches(&ig->items[at - 1].segment, name, len))
			return true;
	return false;
}

bool ignore_matches(const struct ignore *ig, const char *name, size_t len)
{
	if (len == 0)
		return false;
	const uint8_t first = (uint8_t)name[0];
	return ((ig->lengths[first] & length_bit(len)) &&
		       chain_matches(ig, ig->by_first[first], name, len)) ||
	       chain_matches(ig, ig->by_last[(uint8_t)name[len - 1]], name, len) ||
	       chain_matches(ig, ig->others, name, len);
}
