/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BOX_CHANNEL_H
#define BOX_CHANNEL_H

#include "base/buf.h"
#include "wire/wire.h"

#include <stdbool.h>
#include <uv.h>

/*
 * One peer on two lanes: frames in, frames out, on a uv loop. The keeper has one towards the guest
 * and one per client; a session has one towards its keeper. Nothing here blocks.
 *
 * Memory: incoming at most one frame and one read per lane; outgoing at most @out_max per lane,
 * more is refused (-ENOBUFS). Order is kept within a lane; control is written before bulk.
 * Threads: the loop's thread only.
 */
struct channel;

struct channel_ops {
	/* One valid frame; slices of @msg are valid during the call. It may close the channel. */
	void (*on_frame)(struct channel *ch, enum wire_lane lane, const struct wire_msg *msg);
	/* The peer is gone (errnum 0: end-of-file; EPROTO: it sent nonsense) and the channel is
	 * being closed. Not called after channel_close. */
	void (*on_lost)(struct channel *ch, int errnum, const char *what);
	/* Everything queued on @lane has been written. May be NULL. */
	void (*on_drain)(struct channel *ch, enum wire_lane lane);
	/* Nothing refers to the channel any more: its memory may go. */
	void (*on_closed)(struct channel *ch);
};

struct channel_lane {
	struct channel *ch;
	enum wire_lane lane;
	int fd;
	uv_poll_t poll;
	int events;
	bool paused;
	size_t need; /* bytes that the frame at the front takes in all */
	struct buf in;
	struct buf out;
	size_t out_off; /* bytes of out that are written */
};

struct channel {
	uv_loop_t *loop;
	enum wire_side side;
	struct channel_lane lanes[2];
	const struct channel_ops *ops;
	void *user;
	int handles;
	bool closing;
};

/* Take over two connected stream sockets (also on failure). Returns 0 or -errno; after a failure,
 * too, @ch belongs to the loop until on_closed (which may be called at once). */
int channel_init(struct channel *ch, uv_loop_t *loop, enum wire_side side, int control_fd,
	int bulk_fd, size_t out_max, const struct channel_ops *ops, void *user)
	__attribute__((warn_unused_result));

/* Queue one frame and try to write it at once. 0, -EMSGSIZE (too large), -ENOBUFS (the queue is
 * full), -ENOMEM, or -EPIPE (closing). */
int channel_send(struct channel *ch, const struct wire_msg *msg)
	__attribute__((warn_unused_result));

/* Queue bytes that already are whole frames of @lane. */
int channel_send_raw(struct channel *ch, enum wire_lane lane, const void *data, size_t len)
	__attribute__((warn_unused_result));

size_t channel_queued(const struct channel *ch, enum wire_lane lane);

/* Stop and go on delivering frames of a lane. */
void channel_pause(struct channel *ch, enum wire_lane lane);
void channel_resume(struct channel *ch, enum wire_lane lane);

/* Write what is queued as far as it goes without waiting, then close; on_closed follows. */
void channel_close(struct channel *ch);

#endif
