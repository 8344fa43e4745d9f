/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RELAY_FIXTURE_H
#define RELAY_FIXTURE_H

/*
 * A relay between two peers that the tests play themselves: frames are put in by from_client and
 * from_guest, and taken out, as the other side would receive them, by next.
 */
#include <check.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "box/relay.h"

/* One channel with the raw ends of its lanes. */
struct peer {
	struct channel ch;
	int ends[2];
	int closed;
};

/* Bytes that may wait for a peer, beyond what its socket takes. */
#define PEER_QUEUE (1u << 20)

static uv_loop_t loop;
static struct relay *relay;
static struct peer guest, client;
static struct relay_client *rc;
static const char *what;
static struct relay_hooks hooks; /* to be set before setup */

static void on_frame(struct channel *ch, enum wire_lane lane, const struct wire_msg *msg)
{
	(void)ch;
	(void)lane;
	(void)msg;
}

static void on_lost(struct channel *ch, int errnum, const char *text)
{
	(void)ch;
	(void)errnum;
	(void)text;
}

static void on_closed(struct channel *ch)
{
	((struct peer *)ch->user)->closed = 1;
}

static int drained; /* what relay_client_drained said last */

static void on_drain(struct channel *ch, enum wire_lane lane)
{
	if (lane == WIRE_BULK && ch->user == &client && rc)
		drained = relay_client_drained(relay, rc);
}

static const struct channel_ops ops = {
	.on_frame = on_frame, .on_lost = on_lost, .on_drain = on_drain, .on_closed = on_closed};

static void peer_open(struct peer *p, enum wire_side side)
{
	int control[2], bulk[2];

	ck_assert_int_eq(fd_socketpair(control), 0);
	ck_assert_int_eq(fd_socketpair(bulk), 0);
	p->closed = 0;
	p->ends[0] = control[1];
	p->ends[1] = bulk[1];
	ck_assert_int_eq(
		channel_init(&p->ch, &loop, side, control[0], bulk[0], PEER_QUEUE, &ops, p), 0);
}

static void setup(void)
{
	ck_assert_int_eq(uv_loop_init(&loop), 0);
	relay = relay_new(&hooks);
	peer_open(&guest, WIRE_AS_HOST);
	peer_open(&client, WIRE_AS_KEEPER);
	relay_set_guest(relay, &guest.ch);
	rc = relay_client_add(relay, &client.ch);
	ck_assert_ptr_nonnull(rc);
}

static void teardown(void)
{
	relay_client_remove(relay, rc);
	relay_free(relay);
	channel_close(&guest.ch);
	channel_close(&client.ch);
	uv_run(&loop, UV_RUN_DEFAULT);
	ck_assert(guest.closed && client.closed);
	ck_assert_int_eq(uv_loop_close(&loop), 0);
	for (int i = 0; i < 2; i++) {
		close(guest.ends[i]);
		close(client.ends[i]);
	}
}

/* The next frame that the peer would receive on @lane, if there is one; its slices live until the
 * next call. */
static bool try_next(struct peer *p, enum wire_side as, enum wire_lane lane, struct wire_msg *ret)
{
	static uint8_t buf[2 * WIRE_DATA_MAX];
	size_t have = 0, used = WIRE_HEADER_SIZE;
	enum wire_status st = WIRE_MORE;

	while (st == WIRE_MORE) {
		ck_assert_uint_le(used, sizeof buf);
		ssize_t n = recv(p->ends[lane], buf + have, used - have, MSG_DONTWAIT);
		if (n < 0) {
			/* What has waited for room in the socket. */
			(void)uv_run(&loop, UV_RUN_NOWAIT);
			n = recv(p->ends[lane], buf + have, used - have, MSG_DONTWAIT);
		}
		if (n < 0 && have == 0)
			return false;
		ck_assert_msg(n > 0, "a frame is cut");
		have += (size_t)n;
		st = wire_decode(as, lane, buf, have, ret, &used);
	}
	ck_assert_int_eq(st, WIRE_OK);
	return true;
}

static struct wire_msg next(struct peer *p, enum wire_side as, enum wire_lane lane)
{
	struct wire_msg msg = {0};

	ck_assert_msg(try_next(p, as, lane, &msg), "a frame was expected");
	return msg;
}

static void nothing(const struct peer *p)
{
	char c;

	for (int i = 0; i < 2; i++)
		ck_assert_int_lt(recv(p->ends[i], &c, 1, MSG_DONTWAIT), 0);
}

static int from_client(struct wire_msg msg)
{
	return relay_from_client(relay, rc, &msg, &what);
}

static int from_guest(struct wire_msg msg)
{
	return relay_from_guest(relay, &msg, &what);
}

static const struct wire_strs argv_true = {(const uint8_t *)"true", 5, 1};

/* Start stream @id of the client; returns the guest's number for it. */
static uint32_t start(uint32_t id, uint32_t credit)
{
	ck_assert_int_eq(from_client((struct wire_msg){.op = WIRE_OP_exec,
				 .stream = id,
				 .exec = {.out_credit = credit, .argv = argv_true}}),
		0);
	const struct wire_msg msg = next(&guest, WIRE_AS_GUEST, WIRE_CONTROL);
	ck_assert_int_eq(msg.op, WIRE_OP_exec);
	return msg.stream;
}

static struct wire_msg data(uint32_t stream, uint8_t channel, uint32_t len)
{
	static const uint8_t zeros[WIRE_DATA_MAX];

	return (struct wire_msg){.op = WIRE_OP_data,
		.stream = stream,
		.data = {.channel = channel, .bytes = {zeros, len}}};
}

static struct wire_msg started(uint32_t stream, uint32_t credit)
{
	return (struct wire_msg){.op = WIRE_OP_started,
		.stream = stream,
		.started = {.pid = 5, .in_credit = credit}};
}

static struct wire_msg credit(uint32_t stream, uint8_t channel, uint32_t bytes)
{
	return (struct wire_msg){.op = WIRE_OP_credit,
		.stream = stream,
		.credit = {.channel = channel, .bytes = bytes}};
}

static struct wire_msg plain(uint16_t op, uint32_t stream)
{
	return (struct wire_msg){.op = op, .stream = stream};
}

#endif
