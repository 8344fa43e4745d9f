/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GUEST_LANE_H
#define GUEST_LANE_H

#include "wire/wire.h"

#include <stdbool.h>

/*
 * One port to the host with a bounded buffer in each direction. Descriptors are non-blocking and
 * watched edge-triggered: @readable and @writable stay set until a call says EAGAIN.
 *
 * Whoever sends checks lane_room first; a frame that does not fit is a bug of the caller.
 */
struct lane {
	int fd;
	enum wire_lane kind;
	bool readable;
	bool writable;
	bool live; /* something was read: from now on end-of-file is the end */
	uint8_t *in; /* in_head..in_tail hold what is not decoded yet */
	size_t in_head;
	size_t in_tail;
	size_t in_cap;
	size_t in_need; /* bytes of the frame at the front, as far as known */
	size_t in_base; /* the capacity to return to after a large frame */
	uint8_t *out; /* out_head..out_tail wait to be written */
	size_t out_head;
	size_t out_tail;
	size_t out_cap;
};

/* Returns 0 or -ENOMEM. Takes @fd. */
int lane_init(struct lane *l, enum wire_lane kind, int fd, size_t in_cap, size_t out_cap);
void lane_done(struct lane *l);
/* Whoever is at the other end may go and another come; until that one has said something, the end
 * of the stream is none. Not so for @sockets, which end once. */
void lane_rest(struct lane *l, bool sockets);

/* Read until the frame at the front is whole, or nothing is left to read: 0, or -errno; -EPIPE for
 * the end of the stream. What is read beyond that frame is little, since a port gives 4 KiB at a
 * time; so next to nothing of the input is ever moved to make way. */
int lane_fill(struct lane *l);
/* Is there anything that lane_next has not taken? */
bool lane_has_input(const struct lane *l);
/* Decode the next frame; slices in *ret_msg live until the next lane_fill. */
enum wire_status lane_next(struct lane *l, struct wire_msg *ret_msg);

/* Bytes that may be queued now. */
size_t lane_room(struct lane *l);
void lane_send(struct lane *l, const struct wire_msg *msg);
/* For data frames: where their bytes go, if lane_room allows WIRE_DATA_PREFIX + WIRE_DATA_MAX;
 * lane_send then finds them in place. */
uint8_t *lane_data_place(struct lane *l);
/* Write what is queued as far as the port takes it: 0 or -errno. */
int lane_flush(struct lane *l);

#endif
