/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clients of a keeper: the library process that made it, which comes connected, and any process of
 * the same user that knocks at the socket in the box's directory (keeper.h says how).
 *
 * The directory is closed to other users, and whoever connects must have our user id (or be root).
 * The socket is bound and reached through /proc/self/fd, so that the length of the home's path does
 * not matter.
 */
#include "box/keeper_inside.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/banned.h"

#define CLIENTS_MAX      256u
#define BACKLOG          4096 /* of a keeper that hangs: who wants to kill it must get in, too */
#define CLIENT_QUEUE_MAX (64u << 20) /* bytes waiting for a client that does not read */
#define GUEST_QUEUE_HIGH (4u << 20) /* above this, clients are not read */
#define KNOCK_ROOM       4 /* descriptors: control messages are rounded up, so one more may come */
#define KNOCKS_MAX       32u /* that have connected and said nothing yet */

/* ---- frames ---- */

void client_drop(struct keeper_client *c)
{
	struct keeper *k = c->k;

	if (!c->relay)
		return;
	relay_client_remove(k->relay, c->relay);
	c->relay = NULL;
	pause_client_gone(k, c);
	lease_client_gone(c);
	channel_close(&c->ch);
	if (k->maker == c) {
		k->maker = NULL;
		keeper_orphan(k);
	}
}

static int client_command(
	struct keeper_client *c, const struct wire_msg *msg, const char **ret_what)
{
	struct keeper *k = c->k;

	switch (msg->op) {
	case WIRE_OP_stop:
		keeper_stop(k, WIRE_END_STOPPED,
			msg->stop.signo ? msg->stop.signo : k->spec.stop_signal,
			msg->stop.grace_ms);
		return 0;
	case WIRE_OP_kill:
		keeper_kill(k, c, msg);
		return 0;
	case WIRE_OP_detach:
		k->detached = true;
		return relay_done(c->relay, msg->stream);
	case WIRE_OP_pause:
		pause_ask(k, c, msg);
		return 0;
	case WIRE_OP_hold:
		return lease_hold(k, c, msg);
	case WIRE_OP_unhold:
		return lease_unhold(k, c, msg);
	case WIRE_OP_lease:
		return lease_ask(k, c, msg);
	default:
		/* Before the start nothing else can be done, and nobody should ask. */
		return k->state == KEEPER_BOOTING
			       ? 0
			       : relay_from_client(k->relay, c->relay, msg, ret_what);
	}
}

static void client_frame(struct channel *ch, enum wire_lane lane, const struct wire_msg *msg)
{
	struct keeper_client *c = ch->user;
	struct keeper *k = c->k;
	const char *what = "";

	if (!c->relay)
		return;
	if (client_command(c, msg, &what) < 0)
		client_drop(c);
	else if (k->machine && channel_queued(&k->machine->guest, lane) > GUEST_QUEUE_HIGH)
		channel_pause(ch, lane);
	keeper_settle(k);
}

/* The box goes on without its client: only the owner pipe decides about its end. */
static void client_lost(struct channel *ch, int errnum, const char *what)
{
	struct keeper_client *c = ch->user;

	(void)errnum;
	(void)what;
	client_drop(c);
	keeper_settle(c->k);
}

static void client_drained(struct channel *ch, enum wire_lane lane)
{
	struct keeper_client *c = ch->user;

	if (lane != WIRE_BULK || !c->relay)
		return;
	if (relay_client_drained(c->k->relay, c->relay) < 0)
		client_drop(c);
	keeper_settle(c->k);
}

static void client_closed(struct channel *ch)
{
	struct keeper_client *c = ch->user;

	DL_DELETE(c->k->clients, c);
	c->k->n_clients--;
	mem_free(c);
}

static const struct channel_ops client_ops = {
	.on_frame = client_frame,
	.on_lost = client_lost,
	.on_drain = client_drained,
	.on_closed = client_closed,
};

/* ---- all of them ---- */

void clients_send(struct keeper *k, const struct wire_msg *msg)
{
	struct keeper_client *c;

	DL_FOREACH (k->clients, c) {
		if (c->relay)
			(void)!channel_send(&c->ch, msg);
	}
}

/* One that does not read, and for which more has come than can wait. */
void clients_drop_broken(struct keeper *k)
{
	struct keeper_client *c, *next;

	DL_FOREACH_SAFE (k->clients, c, next) {
		if (c->relay && relay_client_broken(c->relay))
			client_drop(c);
	}
}

void client_send_ready(struct keeper_client *c)
{
	const struct keeper *k = c->k;
	const struct wire_msg ready = {.op = WIRE_OP_ready,
		.ready = {.vmm_us = k->vmm_us,
			.hello_us = k->record.hello_us,
			.ready_us = k->record.ready_us,
			.vmm_pid = (uint32_t)k->record.vmm_pid,
			.attempts = k->attempts,
			.accel = bytes_of(k->record.accel),
			.origin = bytes_of(k->record.origin),
			.note = bytes_of(k->record.note)}};

	(void)!channel_send(&c->ch, &ready);
}

void clients_resume(struct keeper *k, enum wire_lane lane)
{
	struct keeper_client *c;

	DL_FOREACH (k->clients, c) {
		if (c->relay)
			channel_resume(&c->ch, lane);
	}
}

int client_add(struct keeper *k, int control_fd, int bulk_fd)
{
	struct keeper_client *c = mem_zalloc(sizeof *c);
	struct relay_client *relay = c ? relay_client_add(k->relay, &c->ch) : NULL;

	if (!relay) {
		(void)fd_close(control_fd);
		(void)fd_close(bulk_fd);
		mem_free(c);
		return -ENOMEM;
	}
	c->k = k;
	DL_APPEND(k->clients, c);
	k->n_clients++;
	const int r = channel_init(&c->ch, &k->loop, WIRE_AS_KEEPER, control_fd, bulk_fd,
		CLIENT_QUEUE_MAX, &client_ops, c);
	if (r < 0) {
		/* client_closed frees the rest, or has done so. */
		relay_client_remove(k->relay, relay);
		return r;
	}
	c->relay = relay;
	if (k->state == KEEPER_READY || k->state == KEEPER_STOPPING)
		client_send_ready(c);
	return 0;
}

/* ---- the door ---- */

struct keeper_visitor {
	struct keeper *k;
	int fd;
	uv_poll_t poll;
	struct keeper_visitor *prev;
	struct keeper_visitor *next;
};

static void visitor_closed(uv_handle_t *handle)
{
	mem_free(handle->data);
}

static void visitor_end(struct keeper_visitor *v)
{
	DL_DELETE(v->k->visitors, v);
	v->k->n_visitors--;
	(void)uv_poll_stop(&v->poll);
	v->fd = fd_close(v->fd);
	uv_close((uv_handle_t *)&v->poll, visitor_closed);
}

/* The knock and the two or three descriptors that come with it. */
static bool take_knock(int fd, struct keeper_knock *ret, int fds[KNOCK_ROOM])
{
	struct iovec part = {.iov_base = ret, .iov_len = sizeof *ret};
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(KNOCK_ROOM * sizeof(int))];
	} control = {0};
	struct msghdr msg = {.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = control.room,
		.msg_controllen = sizeof control.room};
	const ssize_t n = recvmsg(fd, &msg, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	const struct cmsghdr *c = n < 0 ? NULL : CMSG_FIRSTHDR(&msg);
	size_t n_fds = 0;

	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
		n_fds = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		memcpy(fds, CMSG_DATA(c), n_fds * sizeof(int));
	}
	/* More descriptors are cut by the kernel, which says so. */
	return n == (ssize_t)sizeof *ret && ret->magic == KEEPER_MAGIC && n_fds >= 2 &&
	       n_fds <= KNOCK_FDS && !(msg.msg_flags & MSG_CTRUNC);
}

static bool peer_is_ours(int fd)
{
	struct ucred peer = {.uid = (uid_t)-1};
	socklen_t len = sizeof peer;

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 &&
	       (peer.uid == geteuid() || peer.uid == 0);
}

static enum keeper_verdict judge(
	const struct keeper *k, const struct keeper_knock *knock, bool is_claim)
{
	const uint16_t oldest = is_claim ? KEEPER_PROTOCOL : KEEPER_PROTOCOL_OLDEST;

	if (knock->version < oldest || knock->oldest > KEEPER_PROTOCOL)
		return KEEPER_WRONG_VERSION;
	if (is_claim != (k->state == KEEPER_WAITING))
		return KEEPER_NO_SPARE;
	return k->n_clients >= CLIENTS_MAX ? KEEPER_FULL : KEEPER_WELCOME;
}

static void on_word(uv_poll_t *poll, int status, int events)
{
	struct keeper_visitor *v = poll->data;
	struct keeper *k = v->k;
	struct keeper_knock knock = {0};
	int fds[KNOCK_ROOM] = {FD_NONE, FD_NONE, FD_NONE, FD_NONE};

	(void)status;
	(void)events;
	bool ok = take_knock(v->fd, &knock, fds);
	const struct keeper_answer answer = {.magic = KEEPER_MAGIC,
		.version = KEEPER_PROTOCOL,
		.verdict = (uint16_t)judge(k, &knock, fds[2] >= 0)};
	ok = ok &&
	     send(v->fd, &answer, sizeof answer, MSG_NOSIGNAL | MSG_DONTWAIT) ==
		     (ssize_t)sizeof answer &&
	     answer.verdict == KEEPER_WELCOME;
	visitor_end(v);
	if (ok && fds[2] >= 0) {
		spare_claim(k, fds[2], fds[0], fds[1]);
	} else if (ok) {
		(void)!client_add(k, fds[0], fds[1]);
	} else {
		for (int i = 0; i < KNOCK_ROOM; i++)
			(void)fd_close(fds[i]);
	}
}

static void on_knock(uv_poll_t *poll, int status, int events)
{
	struct keeper *k = poll->data;
	struct keeper_visitor *v = mem_zalloc(sizeof *v);
	auto_fd fd = accept4(k->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	(void)status;
	(void)events;
	if (fd < 0 || !v || !peer_is_ours(fd) || uv_poll_init(&k->loop, &v->poll, fd) < 0) {
		mem_free(v);
		return;
	}
	/* The oldest of those who keep silent makes room. */
	if (k->n_visitors >= KNOCKS_MAX)
		visitor_end(k->visitors);
	v->k = k;
	v->fd = take_fd(fd);
	v->poll.data = v;
	DL_APPEND(k->visitors, v);
	k->n_visitors++;
	(void)uv_poll_start(&v->poll, UV_READABLE | UV_DISCONNECT, on_word);
}

int clients_listen(struct keeper *k)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};

	k->listen_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (k->listen_fd < 0)
		return -errno;
	(void)snprintf(addr.sun_path, sizeof addr.sun_path, "/proc/self/fd/%d/%s", KEEPER_FD_BOX,
		KEEPER_SOCKET);
	/* We hold keeper.lock, so this one is a dead keeper's. */
	(void)unlinkat(KEEPER_FD_BOX, KEEPER_SOCKET, 0);
	if (bind(k->listen_fd, (struct sockaddr *)&addr, sizeof addr) < 0 ||
		listen(k->listen_fd, BACKLOG) < 0)
		return -errno;
	k->listener.data = k;
	if (uv_poll_init(&k->loop, &k->listener, k->listen_fd) < 0 ||
		uv_poll_start(&k->listener, UV_READABLE, on_knock) < 0)
		return -EIO;
	return 0;
}

void clients_unlisten(struct keeper *k)
{
	if (k->listen_fd < 0)
		return;
	while (k->visitors)
		visitor_end(k->visitors);
	(void)unlinkat(KEEPER_FD_BOX, KEEPER_SOCKET, 0);
	uv_close((uv_handle_t *)&k->listener, NULL);
	k->listen_fd = fd_close(k->listen_fd);
}
