/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opening beneath a directory. openat2 does it in one call, safely against everything that happens
 * meanwhile. Where it is missing (Linux before 5.6) or forbidden (older seccomp filters answer
 * EPERM), and for paths longer than one call takes, the path is walked: each component is opened
 * from the descriptor of the one before with O_NOFOLLOW, so that a symbolic link is an error
 * whenever it was put there. ".." is refused in both, since the walk could not undo it safely.
 */
#include "base/path.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/banned.h"

#define PATH_STEP_FLAGS (O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

static atomic_bool force_walk;

void path_force_walk(bool on)
{
	atomic_store(&force_walk, on);
}

const char *path_next(const char *path, size_t *at, size_t *ret_len)
{
	size_t i = *at;

	for (;;) {
		while (path[i] == '/')
			i++;
		const size_t len = strcspn(path + i, "/");
		if (len == 0)
			return NULL;
		*at = i + len;
		*ret_len = len;
		if (len > 1 || path[i] != '.')
			return path + i;
		i += len;
	}
}

static int check(const char *path)
{
	const char *name;
	size_t at = 0;
	size_t len;

	if (!*path)
		return -ENOENT;
	if (*path == '/')
		return -EXDEV;
	while ((name = path_next(path, &at, &len)) != NULL) {
		if (len == 2 && memcmp(name, "..", 2) == 0)
			return -EXDEV;
		if (len > NAME_MAX)
			return -ENAMETOOLONG;
	}
	return 0;
}

/* One component; @dir with O_PATH is enough. */
static int open_step(int dir, const char *name, size_t len, int flags, mode_t mode)
{
	char step[NAME_MAX + 1];

	memcpy(step, name, len);
	step[len] = 0;
	const int fd = openat(dir, step, flags | O_NOFOLLOW | O_CLOEXEC, mode);
	return fd < 0 ? -errno : fd;
}

/* An O_PATH descriptor of a symbolic link must be asked for, as with openat2. */
static int refuse_link(int fd, int asked)
{
	struct stat st;

	if (!(asked & O_PATH) || asked & O_NOFOLLOW)
		return fd;
	if (fstat(fd, &st) == 0 && !S_ISLNK(st.st_mode))
		return fd;
	(void)fd_close(fd);
	return -ELOOP;
}

static int open_walking(int root, const char *path, int flags, mode_t mode)
{
	auto_fd at_dir = FD_NONE;
	size_t at = 0;
	size_t len = 0;
	const char *name = path_next(path, &at, &len);
	int dir = root;

	if (!name)
		return open_step(root, ".", 1, flags, mode);
	for (;;) {
		size_t next_len = 0;
		const char *next = path_next(path, &at, &next_len);
		if (!next) {
			/* A slash or "." at the end asks for a directory. */
			const int more = name[len] ? O_DIRECTORY : 0;
			const int fd = open_step(dir, name, len, flags | more, mode);
			return fd < 0 ? fd : refuse_link(fd, flags);
		}
		const int fd = open_step(dir, name, len, PATH_STEP_FLAGS, 0);
		if (fd < 0)
			return fd;
		(void)fd_close(at_dir);
		dir = at_dir = fd;
		name = next;
		len = next_len;
	}
}

int path_open_beneath(int root, const char *path, int flags, mode_t mode)
{
	const struct open_how how = {.flags = (unsigned)(flags | O_CLOEXEC),
		.mode = flags & O_CREAT ? mode : 0,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
	const int r = check(path);

	if (r < 0)
		return r;
	if (strlen(path) >= PATH_MAX || atomic_load(&force_walk))
		return open_walking(root, path, flags, mode);
	const long fd = syscall(SYS_openat2, root, path, &how, sizeof how);
	if (fd >= 0)
		return (int)fd;
	if (errno == ENOSYS || errno == EPERM)
		return open_walking(root, path, flags, mode);
	/* The path itself does not leave: somebody moved it out of the root just now. */
	return errno == EXDEV ? -ENOENT : -errno;
}

int path_parent_beneath(int root, const char *path, const char **ret_name)
{
	const size_t len = strlen(path);
	size_t end = len;

	while (end > 0 && path[end - 1] == '/')
		end--;
	size_t start = end;
	while (start > 0 && path[start - 1] != '/')
		start--;
	if (end == start || (end - start == 1 && path[start] == '.') ||
		(end - start == 2 && memcmp(path + start, "..", 2) == 0))
		return len == 0 ? -ENOENT : -EXDEV;
	auto_free char *parent = start ? str_ndup(path, start) : str_dup(".");
	if (!parent)
		return -ENOMEM;
	const int fd = path_open_beneath(root, parent, PATH_STEP_FLAGS, 0);
	if (fd >= 0)
		*ret_name = path + start;
	return fd;
}

int path_mkdir_beneath(int root, const char *path, mode_t mode)
{
	const char *name;
	auto_fd dir = path_parent_beneath(root, path, &name);

	if (dir < 0)
		return dir;
	return mkdirat(dir, name, mode) < 0 ? -errno : 0;
}

int path_chmod_fd(int fd, mode_t mode)
{
	char self[40];

	(void)snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
	return chmod(self, mode) < 0 ? -errno : 0;
}
