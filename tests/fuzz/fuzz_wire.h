/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_FUZZ_FUZZ_WIRE_H
#define TESTS_FUZZ_FUZZ_WIRE_H

#include "wire/wire.h"

#include <stdlib.h>
#include <string.h>

/*
 * What must hold for any bytes, shared by the two wire fuzzers:
 *  - nothing outside the buffer is read (it is exactly as long as the input, so a sanitizer sees
 * it) and slices of a message lie inside its frame;
 *  - what was decoded encodes to the same bytes;
 *  - a cut frame asks for more, and never for less than is there; feeding a stream in pieces gives
 *    the same messages and the same end as feeding it whole.
 */

#define FUZZ_REQUIRE(cond)       \
	do {                     \
		if (!(cond))     \
			abort(); \
	} while (0)

static inline void fuzz_slice(const uint8_t *frame, size_t used, const uint8_t *data, size_t len)
{
	if (len)
		FUZZ_REQUIRE(data >= frame + WIRE_HEADER_SIZE && len <= used &&
			     data <= frame + used - len);
}

static inline void fuzz_slices(const struct wire_msg *m, const uint8_t *frame, size_t used)
{
#define U8(n)
#define U16(n)
#define U32(n)
#define U64(n)
#define BYTES(n) fuzz_slice(frame, used, f->n.data, f->n.len);
#define STRS(n)                                             \
	fuzz_slice(frame, used, f->n.data, f->n.len);       \
	for (uint32_t pos = 0, i = 0; i <= f->n.count; i++) \
		FUZZ_REQUIRE(!wire_strs_next(&f->n, &pos) == (i == f->n.count));
#define WIRE_OP(name, number, lane, dir, max, ...)      \
	case number: {                                  \
		const struct wire_##name *f = &m->name; \
		(void)f;                                \
		__VA_ARGS__                             \
		break;                                  \
	}
	switch (m->op) {
#include "wire/ops.def"
	default:
		abort();
	}
#undef WIRE_OP
#undef U8
#undef U16
#undef U32
#undef U64
#undef BYTES
#undef STRS
}

static inline void fuzz_again(const struct wire_msg *m, const uint8_t *frame, size_t used)
{
	size_t len = 0;
	uint8_t *copy = malloc(used);

	FUZZ_REQUIRE(copy);
	FUZZ_REQUIRE(wire_size(m) == used);
	FUZZ_REQUIRE(wire_encode(m, copy, used, &len) == WIRE_OK && len == used);
	FUZZ_REQUIRE(memcmp(copy, frame, used) == 0);
	FUZZ_REQUIRE(wire_encode(m, copy, used - 1, &len) == WIRE_NO_SPACE);
	free(copy);
}

/* Decode the front of @buf from a buffer that grows as the decoder asks. */
static inline enum wire_status fuzz_feed(
	enum wire_side side, enum wire_lane lane, const uint8_t *buf, size_t len, size_t *ret_used)
{
	size_t have = 0;
	enum wire_status st = WIRE_MORE;
	struct wire_msg m;

	while (st == WIRE_MORE) {
		uint8_t *part = malloc(have ? have : 1);
		size_t used = 0;
		FUZZ_REQUIRE(part);
		memcpy(part, buf, have);
		st = wire_decode(side, lane, part, have, &m, &used);
		free(part);
		if (st == WIRE_MORE) {
			FUZZ_REQUIRE(used > have && used <= wire_frame_max(side, lane));
			if (used > len)
				break;
		}
		have = used;
		*ret_used = used;
	}
	return st;
}

static inline void fuzz_stream(
	enum wire_side side, enum wire_lane lane, const uint8_t *data, size_t size)
{
	uint8_t *buf = malloc(size ? size : 1);
	enum wire_status st = WIRE_OK;
	size_t pos = 0;

	FUZZ_REQUIRE(buf);
	if (size)
		memcpy(buf, data, size);
	while (st == WIRE_OK) {
		struct wire_msg m;
		size_t used = 0;
		size_t fed = 0;
		st = wire_decode(side, lane, buf + pos, size - pos, &m, &used);
		FUZZ_REQUIRE(fuzz_feed(side, lane, buf + pos, size - pos, &fed) == st);
		if (st != WIRE_OK)
			break;
		FUZZ_REQUIRE(used == fed && used >= WIRE_HEADER_SIZE && used <= size - pos);
		FUZZ_REQUIRE(used <= wire_frame_max(side, lane));
		FUZZ_REQUIRE(wire_lane_of(m.op) == (int)lane);
		fuzz_slices(&m, buf + pos, used);
		fuzz_again(&m, buf + pos, used);
		pos += used;
	}
	free(buf);
}

/* The first byte chooses: bits 0 and 2 the lane, bit 1 which of the two sides reads. */
static inline void fuzz_wire(enum wire_side a, enum wire_side b, const uint8_t *data, size_t size)
{
	if (size == 0)
		return;
	const enum wire_lane lane = data[0] & 4   ? WIRE_FILES
				    : data[0] & 1 ? WIRE_BULK
						  : WIRE_CONTROL;
	fuzz_stream(data[0] & 2 ? b : a, lane, data + 1, size - 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
