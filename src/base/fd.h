/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_FD_H
#define BASE_FD_H

#include <errno.h>
#include <stddef.h>
#include <sys/types.h>

#define FD_NONE (-EBADF)

/* Close a descriptor if it is one; keeps errno; returns FD_NONE. */
int fd_close(int fd);

static inline void fd_closep(const int *fd)
{
	(void)fd_close(*fd);
}
#define auto_fd __attribute__((cleanup(fd_closep))) int

#define take_fd(fd)                \
	({                         \
		int taken_ = (fd); \
		(fd) = FD_NONE;    \
		taken_;            \
	})

/* Loop over EINTR and short counts. fd_read_full returns the count (less only at end-of-file) or
 * -errno; fd_write_full returns 0 or -errno. */
ssize_t fd_read_full(int fd, void *data, size_t len) __attribute__((warn_unused_result));
int fd_write_full(int fd, const void *data, size_t len) __attribute__((warn_unused_result));

/* Send without waiting on a socket; @passed goes with the first byte, unless it is negative.
 * Returns the count or -errno. */
ssize_t fd_send(int fd, const void *data, size_t len, int passed)
	__attribute__((warn_unused_result));

int fd_nonblock(int fd) __attribute__((warn_unused_result));
/* A connected pair of stream sockets, close-on-exec. */
int fd_socketpair(int ret_fds[2]) __attribute__((warn_unused_result));
int fd_pipe(int ret_fds[2]) __attribute__((warn_unused_result));

#endif
