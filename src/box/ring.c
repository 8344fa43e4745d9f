/* SPDX-License-Identifier: Apache-2.0 */
#include "box/ring.h"

#include <string.h>

#include "base/mem.h"
#include "base/banned.h"

#define RING_FIRST 4096u

/* Larger memory with the same bytes at the places that their positions have in it. */
static void grow(struct ring *r, size_t need)
{
	size_t cap = r->cap ? r->cap : RING_FIRST;

	while (cap < need && cap < r->max)
		cap *= 2;
	if (cap > r->max)
		cap = r->max;
	if (cap <= r->cap)
		return;
	uint8_t *data = mem_array(cap, 1);
	if (!data)
		return;
	for (uint64_t pos = r->tail; pos < r->head;) {
		size_t len = 0;
		const uint8_t *from = ring_peek(r, pos, &len);
		const size_t at = (size_t)(pos % cap);

		if (len > cap - at)
			len = cap - at;
		memcpy(data + at, from, len);
		pos += len;
	}
	mem_free(r->data);
	r->data = data;
	r->cap = cap;
}

void ring_append(struct ring *r, const void *data, size_t len)
{
	const uint8_t *from = data;

	if (r->head - r->tail + len > r->cap)
		grow(r, (size_t)(r->head - r->tail) + len);
	/* More than fits: only its end stays. */
	if (len > r->cap) {
		r->head += len - r->cap;
		r->tail = r->head;
		from += len - r->cap;
		len = r->cap;
	}
	while (len > 0) {
		const size_t at = (size_t)(r->head % r->cap);
		const size_t n = len < r->cap - at ? len : r->cap - at;

		memcpy(r->data + at, from, n);
		r->head += n;
		from += n;
		len -= n;
	}
	if (r->head - r->tail > r->cap)
		r->tail = r->head - r->cap;
}

const uint8_t *ring_peek(const struct ring *r, uint64_t pos, size_t *ret_len)
{
	const size_t at = r->cap ? (size_t)(pos % r->cap) : 0;
	const size_t left = (size_t)(r->head - pos);

	*ret_len = left < r->cap - at ? left : r->cap - at;
	return r->data + at;
}

void ring_done(struct ring *r)
{
	mem_free(r->data);
	*r = RING_INIT(0);
}
