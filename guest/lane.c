/* SPDX-License-Identifier: Apache-2.0 */
#include "lane.h"

#include "guest_mem.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "guest_banned.h"

int lane_init(struct lane *l, enum wire_lane kind, int fd, size_t in_cap, size_t out_cap)
{
	*l = (struct lane){
		.fd = fd,
		.kind = kind,
		.readable = true,
		.writable = true,
		.in = gmem_array(in_cap, 1),
		.in_cap = in_cap,
		.in_base = in_cap,
		.in_need = WIRE_HEADER_SIZE,
		.out = gmem_array(out_cap, 1),
		.out_cap = out_cap,
	};
	return l->in && l->out ? 0 : -ENOMEM;
}

void lane_done(struct lane *l)
{
	if (l->fd >= 0)
		(void)close(l->fd);
	gmem_free(l->in);
	gmem_free(l->out);
	*l = (struct lane){.fd = -EBADF};
}

void lane_rest(struct lane *l, bool sockets)
{
	l->live = sockets;
}

int lane_fill(struct lane *l)
{
	while (l->readable && l->in_tail - l->in_head < l->in_need && l->in_tail < l->in_cap) {
		const ssize_t n = read(l->fd, l->in + l->in_tail, l->in_cap - l->in_tail);
		if (n > 0) {
			l->in_tail += (size_t)n;
			l->live = true;
		} else if (n < 0 && errno == EINTR) {
			continue;
		} else if (n < 0 && errno == EAGAIN) {
			l->readable = false;
		} else {
			/* A virtio port reads as ended until the host has opened its side. */
			l->readable = false;
			if (l->live || n < 0)
				return n < 0 ? -errno : -EPIPE;
		}
	}
	return 0;
}

/* Make room for a frame of @need bytes at the front. */
static enum wire_status make_way(struct lane *l, size_t need)
{
	const size_t len = l->in_tail - l->in_head;

	if (l->in_head > 0 && len > 0)
		memmove(l->in, l->in + l->in_head, len);
	l->in_head = 0;
	l->in_tail = len;

	const size_t cap = need > l->in_base ? need : l->in_base;
	if (cap > l->in_cap || (len == 0 && cap < l->in_cap)) {
		uint8_t *in = gmem_resize(l->in, cap);
		if (!in)
			return WIRE_NO_SPACE;
		l->in = in;
		l->in_cap = cap;
	}
	return WIRE_MORE;
}

bool lane_has_input(const struct lane *l)
{
	return l->in_tail > l->in_head;
}

enum wire_status lane_next(struct lane *l, struct wire_msg *ret_msg)
{
	size_t used = 0;
	const enum wire_status st = wire_decode(WIRE_AS_GUEST, l->kind, l->in + l->in_head,
		l->in_tail - l->in_head, ret_msg, &used);

	l->in_need = st == WIRE_MORE ? used : WIRE_HEADER_SIZE;
	if (st == WIRE_OK)
		l->in_head += used;
	if (st == WIRE_MORE)
		return make_way(l, used);
	return st;
}

size_t lane_room(struct lane *l)
{
	if (l->out_head == l->out_tail)
		l->out_head = l->out_tail = 0;
	return l->out_cap - (l->out_tail - l->out_head);
}

static void compact(struct lane *l, size_t need)
{
	const size_t len = l->out_tail - l->out_head;

	if (l->out_cap - l->out_tail >= need)
		return;
	memmove(l->out, l->out + l->out_head, len);
	l->out_head = 0;
	l->out_tail = len;
}

void lane_send(struct lane *l, const struct wire_msg *msg)
{
	size_t len = 0;

	assert(wire_lane_of(msg->op) == (int)l->kind);
	compact(l, wire_size(msg));
	const enum wire_status st = wire_encode(
		msg, l->out + l->out_tail, l->out_cap - l->out_tail, &len);
	assert(st == WIRE_OK);
	(void)st;
	l->out_tail += len;
}

uint8_t *lane_data_place(struct lane *l)
{
	compact(l, WIRE_DATA_PREFIX + WIRE_DATA_MAX);
	assert(l->out_cap - l->out_tail >= WIRE_DATA_PREFIX + WIRE_DATA_MAX);
	return l->out + l->out_tail + WIRE_DATA_PREFIX;
}

int lane_flush(struct lane *l)
{
	while (l->writable && l->out_head < l->out_tail) {
		const ssize_t n = write(l->fd, l->out + l->out_head, l->out_tail - l->out_head);
		if (n > 0)
			l->out_head += (size_t)n;
		else if (n < 0 && errno == EINTR)
			continue;
		else if (n == 0 || errno == EAGAIN) /* a virtio port says 0 for a full ring */
			l->writable = false;
		else
			return -errno;
	}
	return 0;
}
