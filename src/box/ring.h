/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BOX_RING_H
#define BOX_RING_H

#include <stddef.h>
#include <stdint.h>

/*
 * The newest bytes of a stream, addressed by their position from its beginning: tail..head are
 * there. Memory grows with what comes, up to @max.
 */
struct ring {
	uint8_t *data;
	size_t cap;
	size_t max;
	uint64_t head; /* bytes that ever came */
	uint64_t tail; /* the oldest that is kept */
};

#define RING_INIT(max_) ((struct ring){.max = (max_)})

/* Add bytes; the oldest go. Without memory for more the ring stays as large as it is, and with none
 * at all the bytes are lost. */
void ring_append(struct ring *r, const void *data, size_t len);
/* The longest contiguous piece from @pos (tail..head) on. */
const uint8_t *ring_peek(const struct ring *r, uint64_t pos, size_t *ret_len);
void ring_done(struct ring *r);

#endif
