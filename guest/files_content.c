/* SPDX-License-Identifier: Apache-2.0 */
#include "files_content.h"

#include "files_parts.h"
#include "guest_mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "guest_banned.h"

/* Content on its way; see files_content.h. */

#define PIECE_SIZE (64u * 1024)
/* Temporary names that are tried first, so that what was left behind is found and removed by
 * whoever comes next. The others are for directories where somebody has taken all of these. */
#define NUMBERED 64

/* Write all of it, and count. Returns 0 or -errno. */
static int write_counted(int fd, const uint8_t *data, size_t len, uint64_t *written)
{
	while (len > 0) {
		const ssize_t n = write(fd, data, len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		data += n;
		len -= (size_t)n;
		*written += (uint64_t)n;
	}
	return 0;
}

int content_unnamed(int dir_fd)
{
	const int fd = openat(dir_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	if (fd >= 0)
		return fd;
	/* What kernels say where a file system has no such files. */
	return errno == EISDIR || errno == EINVAL || errno == ENOENT ? -EOPNOTSUPP : -errno;
}

void content_make_name(char name[CONTENT_NAME_SIZE])
{
	uint32_t number = 0;

	if (getrandom(&number, sizeof(number), GRND_NONBLOCK) < 0)
		number = (uint32_t)getpid();
	(void)snprintf(name, CONTENT_NAME_SIZE, ".holt-%08x", number);
}

/* Remove the file @name if it was left behind; who is about one has it locked. */
static void remove_left(int dir_fd, const char *name)
{
	struct stat st;
	struct stat now;
	const int fd = openat(
		dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

	if (fd < 0)
		return;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && flock(fd, LOCK_EX | LOCK_NB) == 0 &&
		fstatat(dir_fd, name, &now, AT_SYMLINK_NOFOLLOW) == 0 && now.st_dev == st.st_dev &&
		now.st_ino == st.st_ino)
		(void)unlinkat(dir_fd, name, 0);
	(void)close(fd);
}

/* Lock a file that was just made. Fails where another one took it for one that was left behind. */
static bool lock_new(int fd)
{
	struct stat st;

	/* Where a file system has no locks, nothing can be found out, so nothing is removed. */
	return (flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) && fstat(fd, &st) == 0 &&
	       st.st_nlink > 0;
}

int content_named(int dir_fd, char name[CONTENT_NAME_SIZE])
{
	for (unsigned i = 0; i < CONTENT_NAME_TRIES; i++) {
		if (i < NUMBERED)
			(void)snprintf(name, CONTENT_NAME_SIZE, ".holt-%08x", i);
		else
			content_make_name(name);
		const int fd = openat(dir_fd, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		if (fd < 0 && errno != EEXIST)
			return -errno;
		if (fd < 0)
			remove_left(dir_fd, name);
		else if (lock_new(fd))
			return fd;
		else
			(void)close(fd);
	}
	return -EEXIST;
}

/* The same as content_unnamed by making one with a name and taking that away, where there is
 * nothing better: it can not get a name again. */
static int open_nameless(int dir_fd)
{
	char name[CONTENT_NAME_SIZE];
	int fd = content_unnamed(dir_fd);

	if (fd != -EOPNOTSUPP)
		return fd;
	fd = content_named(dir_fd, name);
	if (fd >= 0)
		(void)unlinkat(dir_fd, name, 0);
	return fd;
}

/* Somewhere for the rest; memory comes last, since it is the scarcest. Returns a descriptor or
 * -errno. */
static int open_rest(int dir_fd)
{
	int fd = open_nameless(dir_fd);

	if (fd < 0) {
		const int tmp = open("/tmp", O_PATH | O_DIRECTORY | O_CLOEXEC);
		fd = tmp < 0 ? -errno : open_nameless(tmp);
		if (tmp >= 0)
			(void)close(tmp);
	}
	if (fd < 0)
		fd = memfd_create("content", MFD_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int put(struct content *c, const struct wire_bytes *bytes, int dir_fd)
{
	uint64_t written = 0;

	if (c->fd < 0 && bytes->len <= CONTENT_HEAD - c->head_len) {
		memcpy(c->head + c->head_len, bytes->data, bytes->len);
		c->head_len += bytes->len;
		return 0;
	}
	if (c->fd < 0) {
		c->fd = open_rest(dir_fd);
		if (c->fd < 0)
			return c->fd;
	}
	return write_counted(c->fd, bytes->data, bytes->len, &written);
}

int content_receive(struct content *c, struct files *f, int dir_fd)
{
	struct wire_bytes bytes;

	if (c->fd < 0) {
		c->head = gmem_array(CONTENT_HEAD, 1);
		if (!c->head)
			return -ENOMEM;
	}
	while (files_content(f, &bytes, &c->aborted)) {
		const int rc = put(c, &bytes, dir_fd);
		if (rc < 0)
			return rc;
	}
	c->ended = true;
	return 0;
}

void content_drain(struct content *c, struct files *f)
{
	struct wire_bytes bytes;

	while (!c->ended && files_content(f, &bytes, &c->aborted))
		continue;
	c->ended = true;
}

int content_copy(const struct content *c, int fd, uint64_t *ret_written)
{
	static uint8_t piece[PIECE_SIZE];
	off_t pos = 0;
	ssize_t n = 0;

	*ret_written = 0;
	int rc = write_counted(fd, c->head, c->head_len, ret_written);
	while (rc == 0 && c->fd >= 0 && (n = pread(c->fd, piece, sizeof(piece), pos)) > 0) {
		rc = write_counted(fd, piece, (size_t)n, ret_written);
		pos += n;
	}
	return n < 0 ? -errno : rc;
}

void content_done(struct content *c)
{
	gmem_free(c->head);
	if (c->fd >= 0)
		(void)close(c->fd);
	*c = CONTENT_INIT;
}
