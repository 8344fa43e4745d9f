/* SPDX-License-Identifier: Apache-2.0 */
#include "files_target.h"

#include "files_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "guest_banned.h"

/*
 * Finding what a write is about. The kernel follows the links on the way to the last directory; the
 * last name is followed here, link by link, since the file that is to be replaced has to be known
 * as a name in a directory, and since a link that leads nowhere says where a file shall be made.
 *
 * Everything is looked at once. Who changes the names meanwhile gets one of the two results, or a
 * failure.
 */

#define LINKS_MAX 40 /* as many as the kernel follows */

/* Cut @path into the directory and the name, for which "" stands if it can only be a directory.
 * Returns the directory. */
static const char *split(char *path, const char **ret_name, bool *ret_slash)
{
	size_t len = strlen(path);

	*ret_slash = path[len - 1] == '/';
	while (len > 0 && path[len - 1] == '/')
		path[--len] = 0;
	char *const slash = strrchr(path, '/');
	*ret_name = slash ? slash + 1 : path;
	if (strcmp(*ret_name, ".") == 0 || strcmp(*ret_name, "..") == 0)
		*ret_name = "";
	if (!slash)
		return ".";
	*slash = 0;
	return slash == path ? "/" : path;
}

/* Open the directory @dir, beginning at @at, and put it into the place of t->dir_fd. */
static int enter(struct target *t, const char *dir, bool parents)
{
	const int at = t->dir_fd < 0 ? AT_FDCWD : t->dir_fd;
	int fd = openat(at, dir, O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0 && errno == ENOENT && parents) {
		const int rc = files_make_directories(at, dir);
		if (rc < 0)
			return rc;
		fd = openat(at, dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	}
	if (fd < 0)
		return -errno;
	if (t->dir_fd >= 0)
		(void)close(t->dir_fd);
	t->dir_fd = fd;
	return 0;
}

/* One step: the directory and the name of @path, and what is there. */
static int look(struct target *t, char *path, bool parents)
{
	const char *name = NULL;
	bool slash = false;
	/* A link may be empty on some file systems. */
	const char *const dir = *path ? split(path, &name, &slash) : NULL;

	if (!dir)
		return -ENOENT;
	const int rc = enter(t, dir, parents);
	if (rc < 0)
		return rc;
	if (!*name)
		return -EISDIR;
	if (strlen(name) > NAME_MAX)
		return -ENAMETOOLONG;
	memcpy(t->name, name, strlen(name) + 1);
	t->exists = fstatat(t->dir_fd, name, &t->st, AT_SYMLINK_NOFOLLOW) == 0;
	if (!t->exists && errno != ENOENT)
		return -errno;
	t->slash |= slash;
	return 0;
}

static int check(const struct target *t)
{
	if (t->exists ? S_ISDIR(t->st.st_mode) : t->slash)
		return -EISDIR;
	if (!t->exists)
		return 0;
	if (t->slash)
		return -ENOTDIR;
	return faccessat(t->dir_fd, t->name, W_OK, AT_EACCESS) < 0 ? -errno : 0;
}

int target_find(struct target *t, char *path, uint32_t flags)
{
	char link[PATH_MAX];

	for (int i = 0; i <= LINKS_MAX; i++) {
		const int rc = look(t, i == 0 ? path : link, flags & WIRE_WRITE_PARENTS);
		if (rc < 0)
			return rc;
		if (t->exists && flags & WIRE_WRITE_EXCLUSIVE)
			return -EEXIST;
		if (!t->exists || !S_ISLNK(t->st.st_mode))
			return check(t);
		const ssize_t n = readlinkat(t->dir_fd, t->name, link, sizeof(link) - 1);
		if (n < 0)
			return -errno;
		link[n] = 0;
	}
	return -ELOOP;
}

int target_may_make(const struct target *t)
{
	return faccessat(t->dir_fd, ".", W_OK | X_OK, AT_EACCESS) < 0 ? -errno : 0;
}

int target_open(const struct target *t, int flags)
{
	const int fd = openat(
		t->dir_fd, t->name, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | flags, 0644);

	if (fd < 0)
		return -errno;
	/* What takes its time may do so; the time of the request is the host's business. */
	const int now = fcntl(fd, F_GETFL);
	if (now < 0 || fcntl(fd, F_SETFL, now & ~O_NONBLOCK) < 0) {
		const int errnum = errno;
		(void)close(fd);
		return -errnum;
	}
	return fd;
}

void target_done(struct target *t)
{
	if (t->dir_fd >= 0)
		(void)close(t->dir_fd);
	*t = TARGET_INIT;
}
