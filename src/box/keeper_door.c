/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client's side of the way to a keeper (keeper.h): connect to the socket in the box's
 * directory, send the far ends of two socket pairs, read the verdict. The keeper must be of our
 * user or root.
 */
#include "box/lifecycle.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "box/keeper.h"
#include "base/banned.h"

#define KILL_WAIT_MS  1000 /* for room in the queue of a keeper that hangs */
#define CLAIM_WAIT_MS 500 /* for a spare's keeper to answer */

/* A connection to the door: a descriptor or -errno. */
static int door_connect(int boxes, const char *id, uint64_t timeout_ms)
{
	/* A time of 0 would be without limit. */
	const uint64_t ms = timeout_ms > DOOR_WAIT_MS ? DOOR_WAIT_MS : timeout_ms + 1;
	const struct timeval wait = {
		.tv_sec = (time_t)(ms / 1000), .tv_usec = (suseconds_t)(ms % 1000 * 1000)};
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	auto_fd dir = openat(boxes, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	auto_fd fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (dir < 0 || fd < 0)
		return -errno;
	(void)snprintf(
		addr.sun_path, sizeof addr.sun_path, "/proc/self/fd/%d/%s", dir, KEEPER_SOCKET);
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait);
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
	if (connect(fd, (struct sockaddr *)&addr, sizeof addr) < 0)
		return -errno;
	return take_fd(fd);
}

static int peer_of(int fd, struct ucred *ret)
{
	socklen_t len = sizeof *ret;

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, ret, &len) < 0 ? -errno : 0;
}

static int send_knock(int fd, const int *fds, size_t n)
{
	const bool claim = n == KNOCK_FDS;
	struct keeper_knock knock = {.magic = KEEPER_MAGIC,
		.version = KEEPER_PROTOCOL,
		.oldest = claim ? KEEPER_PROTOCOL : KEEPER_PROTOCOL_OLDEST};
	struct iovec part = {.iov_base = &knock, .iov_len = sizeof knock};
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(KNOCK_FDS * sizeof(int))];
	} control = {0};
	struct msghdr msg = {.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = control.room,
		.msg_controllen = CMSG_SPACE(n * sizeof(int))};
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(n * sizeof(int));
	memcpy(CMSG_DATA(c), fds, n * sizeof(int));
	return sendmsg(fd, &msg, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

static int hangs(const char *id, holt_error **reterr)
{
	const int r = err_make(reterr, HOLT_ETIMEOUT, "the box's keeper does not answer");

	err_hint(reterr, "end the box with 'holt kill %s'", id);
	return r;
}

static int read_answer(int fd, const char *id, uint16_t *ret_version, holt_error **reterr)
{
	struct keeper_answer answer = {0};
	const ssize_t n = recv(fd, &answer, sizeof answer, 0);

	if (n < 0 && errno == EAGAIN)
		return hangs(id, reterr);
	if (n != (ssize_t)sizeof answer || answer.magic != KEEPER_MAGIC)
		return err_make(reterr, HOLT_ECLOSED, "the box is just ending");
	if (answer.verdict == KEEPER_WRONG_VERSION) {
		const int r = err_make(reterr, HOLT_EUNSUPPORTED,
			"the box's keeper speaks protocol %u, this version of holt %u to %u",
			answer.version, KEEPER_PROTOCOL_OLDEST, KEEPER_PROTOCOL);
		err_hint(reterr, "use the version of holt that started the box, or restart it");
		return r;
	}
	if (answer.verdict == KEEPER_NO_SPARE)
		return err_make(reterr, HOLT_EBUSY, "another process has claimed it");
	if (answer.verdict != KEEPER_WELCOME)
		return err_make(reterr, HOLT_ELIMIT, "the box has as many clients as it can");
	*ret_version = answer.version;
	return 0;
}

/* Connect, and send what is in @owner (FD_NONE: nothing) besides two fresh lanes. */
static int knock(int boxes, const char *id, uint64_t timeout_ms, int owner, struct loop *loop,
	struct session **ret, holt_error **reterr)
{
	int control[2] = {FD_NONE, FD_NONE};
	int bulk[2] = {FD_NONE, FD_NONE};
	struct ucred peer = {0};
	uint16_t version = 0;
	auto_fd fd = door_connect(boxes, id, timeout_ms);

	if (fd == -ENOENT || fd == -ECONNREFUSED)
		return err_make(reterr, HOLT_ECLOSED, "the box does not run");
	if (fd == -EAGAIN)
		return hangs(id, reterr);
	if (fd < 0)
		return err_errno(reterr, -fd, "cannot connect to the box's keeper");
	if (peer_of(fd, &peer) < 0 || (peer.uid != geteuid() && peer.uid != 0))
		return err_make(reterr, HOLT_EDENIED,
			"the box's keeper belongs to user %u, not to %u", peer.uid, geteuid());
	int r = fd_socketpair(control);
	if (r == 0)
		r = fd_socketpair(bulk);
	if (r == 0)
		r = send_knock(fd, (const int[]){control[1], bulk[1], owner},
			owner < 0 ? KNOCK_FDS - 1 : KNOCK_FDS);
	r = r < 0 ? err_errno(reterr, -r, "cannot reach the box's keeper")
		  : read_answer(fd, id, &version, reterr);
	if (r == 0)
		r = session_open(loop, take_fd(control[0]), take_fd(bulk[0]), id, ret, reterr);
	if (r == 0)
		session_set_protocol(*ret, version);
	for (int i = 0; i < 2; i++) {
		(void)fd_close(control[i]);
		(void)fd_close(bulk[i]);
	}
	return r;
}

int door_knock(int boxes, const char *id, uint64_t timeout_ms, struct loop *loop,
	struct session **ret, holt_error **reterr)
{
	return knock(boxes, id, timeout_ms, FD_NONE, loop, ret, reterr);
}

int door_claim(int spares, const char *id, const struct keeper_spec *spec, struct loop *loop,
	struct session **ret, int *ret_owner, holt_error **reterr)
{
	int owner[2] = {FD_NONE, FD_NONE};
	int r = fd_pipe(owner);

	/* The pipe takes all of it before anybody reads. */
	r = r < 0 ? err_errno(reterr, -r, "cannot make the owner's pipe")
		  : keeper_spec_write(spec, owner[1], reterr);
	if (r == 0)
		r = knock(spares, id, CLAIM_WAIT_MS, owner[0], loop, ret, reterr);
	(void)fd_close(owner[0]);
	if (r == 0)
		*ret_owner = owner[1];
	else
		(void)fd_close(owner[1]);
	return r;
}

/*
 * Kill a keeper that does not do it itself. Who listens tells its process id; a descriptor of that
 * process is certain to be its only if it still listens after the descriptor was made.
 */
int door_kill(int boxes, const char *id)
{
	struct ucred first = {0};
	struct ucred second = {0};
	auto_fd fd = door_connect(boxes, id, KILL_WAIT_MS);
	int r = fd < 0 ? fd : peer_of(fd, &first);

	if (r < 0)
		return r;
	auto_fd pidfd = (int)syscall(SYS_pidfd_open, first.pid, 0);
	if (pidfd < 0)
		return -errno;
	auto_fd again = door_connect(boxes, id, KILL_WAIT_MS);
	r = again < 0 ? again : peer_of(again, &second);
	if (r == 0 && first.pid != second.pid)
		r = -ESRCH;
	if (r == 0 && syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0) < 0)
		r = -errno;
	return r;
}
