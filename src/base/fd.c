/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fd.h"

#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/banned.h"

int fd_close(int fd)
{
	if (fd >= 0) {
		const int saved = errno;

		(void)close(fd);
		errno = saved;
	}
	return FD_NONE;
}

ssize_t fd_read_full(int fd, void *data, size_t len)
{
	size_t done = 0;

	while (done < len) {
		const ssize_t n = read(fd, (char *)data + done, len - done);
		if (n == 0)
			break;
		if (n > 0)
			done += (size_t)n;
		else if (errno != EINTR)
			return -errno;
	}
	return (ssize_t)done;
}

int fd_write_full(int fd, const void *data, size_t len)
{
	size_t done = 0;

	while (done < len) {
		const ssize_t n = write(fd, (const char *)data + done, len - done);
		if (n >= 0)
			done += (size_t)n;
		else if (errno != EINTR)
			return -errno;
	}
	return 0;
}

ssize_t fd_send(int fd, const void *data, size_t len, int passed)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = {.bytes = {0}};
	/* A message takes pointers to non-const for historic reasons and is only read. */
	union {
		const void *in;
		void *out;
	} base = {.in = data};
	struct iovec iov = {.iov_base = base.out, .iov_len = len};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	if (passed >= 0) {
		msg.msg_control = control.bytes;
		msg.msg_controllen = sizeof control.bytes;
		struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof passed);
		memcpy(CMSG_DATA(c), &passed, sizeof passed);
	}
	const ssize_t n = sendmsg(fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
	return n < 0 ? -errno : n;
}

int fd_nonblock(int fd)
{
	const int flags = fcntl(fd, F_GETFL);

	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
		return -errno;
	return 0;
}

int fd_socketpair(int ret_fds[2])
{
	return socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ret_fds) < 0 ? -errno : 0;
}

int fd_pipe(int ret_fds[2])
{
	return pipe2(ret_fds, O_CLOEXEC) < 0 ? -errno : 0;
}
