/* SPDX-License-Identifier: Apache-2.0 */
#include "box/channel.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/banned.h"

/* Bytes asked of one read, and reads per wake-up: what one lane may keep the other waiting for. */
#define CHANNEL_READ  131072u
#define CHANNEL_BURST 4
#define CHANNEL_LAST  64 /* reads of what a peer left behind: more than its sockets hold */

static void lane_event(uv_poll_t *poll, int status, int events);

static void handle_closed(uv_handle_t *handle)
{
	struct channel_lane *l = handle->data;
	struct channel *ch = l->ch;

	l->fd = fd_close(l->fd);
	buf_done(&l->in);
	buf_done(&l->out);
	if (--ch->handles == 0)
		ch->ops->on_closed(ch);
}

/* What channel_init has opened so far goes; libuv needs the memory until it says so. */
static void undo_init(struct channel *ch)
{
	const int opened = ch->handles;

	ch->closing = true;
	for (int i = 0; i < 2; i++) {
		if (i < opened)
			uv_close((uv_handle_t *)&ch->lanes[i].poll, handle_closed);
		else
			ch->lanes[i].fd = fd_close(ch->lanes[i].fd);
	}
	if (opened == 0)
		ch->ops->on_closed(ch);
}

static void lane_watch(struct channel_lane *l)
{
	int events = 0;

	if (l->ch->closing)
		return;
	if (!l->paused)
		events |= UV_READABLE;
	if (l->out.len > l->out_off)
		events |= UV_WRITABLE;
	if (events == l->events)
		return;
	l->events = events;
	if (events)
		(void)uv_poll_start(&l->poll, events, lane_event);
	else
		(void)uv_poll_stop(&l->poll);
}

static void channel_lost(struct channel *ch, int errnum, const char *what)
{
	if (ch->closing)
		return;
	channel_close(ch);
	ch->ops->on_lost(ch, errnum, what);
}

/* Write what the socket takes. Returns 0 or -errno of a dead peer. */
static int lane_write(struct channel_lane *l)
{
	while (l->out_off < l->out.len) {
		const ssize_t n = send(l->fd, l->out.data + l->out_off, l->out.len - l->out_off,
			MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN ? 0 : -errno;
		l->out_off += (size_t)n;
	}
	l->out.len = l->out_off = 0;
	return 0;
}

/* Deliver the whole frames that are there; false when the channel closed meanwhile. */
static bool lane_dispatch(struct channel_lane *l)
{
	struct channel *ch = l->ch;
	size_t off = 0;

	l->need = 0;
	while (!l->paused) {
		struct wire_msg msg;
		size_t used = 0;
		const enum wire_status st = wire_decode(
			ch->side, l->lane, l->in.data + off, l->in.len - off, &msg, &used);

		if (st == WIRE_MORE) {
			l->need = used;
			break;
		}
		if (st != WIRE_OK) {
			channel_lost(ch, EPROTO, wire_status_name(st));
			return false;
		}
		off += used;
		ch->ops->on_frame(ch, l->lane, &msg);
		if (ch->closing)
			return false;
	}
	buf_consume(&l->in, off);
	return true;
}

/* The peer has closed one lane: what it had written to the other before that still counts. */
static void drain_other(struct channel_lane *l)
{
	struct channel_lane *o = &l->ch->lanes[l->lane == WIRE_CONTROL ? WIRE_BULK : WIRE_CONTROL];

	for (int i = 0; i < CHANNEL_LAST && !o->paused && !l->ch->closing; i++) {
		uint8_t *to = buf_reserve(&o->in, CHANNEL_READ);
		const ssize_t n = to ? read(o->fd, to, CHANNEL_READ) : -1;

		if (n <= 0)
			return;
		o->in.len += (size_t)n;
		if (!lane_dispatch(o))
			return;
	}
}

static void lane_read(struct channel_lane *l)
{
	for (int i = 0; i < CHANNEL_BURST && !l->paused; i++) {
		const size_t frame = l->need > l->in.len ? l->need - l->in.len : 0;
		const size_t want = frame > CHANNEL_READ ? frame : CHANNEL_READ;
		uint8_t *to = buf_reserve(&l->in, want);

		if (!to) {
			channel_lost(l->ch, ENOMEM, "no memory for a frame");
			return;
		}
		const ssize_t n = read(l->fd, to, want);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n <= 0) {
			const int errnum = n < 0 ? errno : 0;

			drain_other(l);
			channel_lost(l->ch, errnum, "connection closed");
			return;
		}
		l->in.len += (size_t)n;
		if (!lane_dispatch(l) || (size_t)n < want)
			return;
	}
}

static void lane_event(uv_poll_t *poll, int status, int events)
{
	struct channel_lane *l = poll->data;
	struct channel *ch = l->ch;

	if (ch->closing)
		return;
	/* An error shows as the errno of the next read or write. */
	if (status < 0)
		events = UV_READABLE;
	if (events & UV_WRITABLE) {
		const int r = lane_write(l);
		if (r < 0) {
			channel_lost(ch, -r, "connection closed");
			return;
		}
		if (l->out.len == 0 && ch->ops->on_drain)
			ch->ops->on_drain(ch, l->lane);
	}
	if (!ch->closing && (events & UV_READABLE))
		lane_read(l);
	lane_watch(l);
}

int channel_init(struct channel *ch, uv_loop_t *loop, enum wire_side side, int control_fd,
	int bulk_fd, size_t out_max, const struct channel_ops *ops, void *user)
{
	const int fds[] = {control_fd, bulk_fd};
	int r = 0;

	*ch = (struct channel){.loop = loop, .side = side, .ops = ops, .user = user};
	for (int i = 0; i < 2; i++) {
		struct channel_lane *l = &ch->lanes[i];

		l->ch = ch;
		l->lane = (enum wire_lane)i;
		l->fd = fds[i];
		l->in = BUF_INIT(wire_frame_max(side, l->lane) + CHANNEL_READ);
		l->out = BUF_INIT(out_max);
		l->poll.data = l;
		if (r == 0)
			r = fd_nonblock(fds[i]);
	}
	for (int i = 0; i < 2 && r == 0; i++) {
		r = uv_poll_init(loop, &ch->lanes[i].poll, fds[i]);
		if (r == 0)
			ch->handles++;
	}
	if (r < 0) {
		undo_init(ch);
		return r;
	}
	for (int i = 0; i < 2; i++)
		lane_watch(&ch->lanes[i]);
	return 0;
}

static int lane_reserve(struct channel_lane *l, size_t len, uint8_t **ret)
{
	if (l->ch->closing)
		return -EPIPE;
	if (l->out_off > l->out.len / 2) {
		buf_consume(&l->out, l->out_off);
		l->out_off = 0;
	}
	if (l->out.len + len > l->out.max)
		return -ENOBUFS;
	*ret = buf_reserve(&l->out, len);
	return *ret ? 0 : -ENOMEM;
}

/* A write error is found again by the loop, which then reports the loss. */
static void lane_flush(struct channel_lane *l)
{
	(void)lane_write(l);
	lane_watch(l);
}

int channel_send(struct channel *ch, const struct wire_msg *msg)
{
	const int lane = wire_lane_of(msg->op);
	const size_t size = wire_size(msg);
	size_t len = 0;
	uint8_t *to = NULL;

	if (lane < 0 || size == 0)
		return -EMSGSIZE;
	struct channel_lane *l = &ch->lanes[lane];
	const int r = lane_reserve(l, size, &to);
	if (r < 0)
		return r;
	if (wire_encode(msg, to, size, &len) != WIRE_OK)
		return -EMSGSIZE;
	l->out.len += len;
	lane_flush(l);
	return 0;
}

int channel_send_raw(struct channel *ch, enum wire_lane lane, const void *data, size_t len)
{
	struct channel_lane *l = &ch->lanes[lane];
	uint8_t *to = NULL;
	const int r = lane_reserve(l, len, &to);

	if (r < 0)
		return r;
	if (buf_append(&l->out, data, len) < 0)
		return -ENOMEM;
	lane_flush(l);
	return 0;
}

size_t channel_queued(const struct channel *ch, enum wire_lane lane)
{
	return ch->lanes[lane].out.len - ch->lanes[lane].out_off;
}

void channel_pause(struct channel *ch, enum wire_lane lane)
{
	ch->lanes[lane].paused = true;
	lane_watch(&ch->lanes[lane]);
}

void channel_resume(struct channel *ch, enum wire_lane lane)
{
	struct channel_lane *l = &ch->lanes[lane];

	if (ch->closing || !l->paused)
		return;
	l->paused = false;
	if (lane_dispatch(l))
		lane_watch(l);
}

void channel_close(struct channel *ch)
{
	if (ch->closing)
		return;
	for (int i = 0; i < 2; i++)
		(void)lane_write(&ch->lanes[i]);
	ch->closing = true;
	for (int i = 0; i < 2; i++) {
		(void)uv_poll_stop(&ch->lanes[i].poll);
		uv_close((uv_handle_t *)&ch->lanes[i].poll, handle_closed);
	}
}
