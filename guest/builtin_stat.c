/* SPDX-License-Identifier: Apache-2.0 */
#include "builtin.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "guest_banned.h"

/*
 * path-stat [-L] PATH
 *
 * Writes one record: "TYPE MODE UID GID SIZE MTIME_S MTIME_NS" NUL, RESOLVED NUL, TARGET NUL.
 *
 * TYPE is one of f d l b c p s; MODE are the permission bits in octal, the other numbers are
 * decimal. RESOLVED is the physical absolute path: of the file itself where links are followed,
 * else its parent's and its name. TARGET is what a symbolic link says, and empty for all else.
 *
 * A path that does not exist, but whose parent is a directory, gives "- 0 0 0 0 0 0" with the place
 * where it would be made; with -L and a link that leads nowhere, that is where the link leads. A
 * trailing slash follows links and demands a directory of what is there.
 *
 * Paths are those that the kernel takes at once, so at most PATH_MAX; other built-ins go deeper.
 */

#define LINKS_MAX 40 /* as many as the kernel follows */

static char type_letter(mode_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFREG:
		return 'f';
	case S_IFDIR:
		return 'd';
	case S_IFLNK:
		return 'l';
	case S_IFBLK:
		return 'b';
	case S_IFCHR:
		return 'c';
	case S_IFIFO:
		return 'p';
	default:
		return 's';
	}
}

/* Cut @path at its last slash and give back what stood behind that: "." for the root alone. The cut
 * path keeps a lone "/", and is "." where there was no slash. */
static char *split(char path[PATH_MAX], char name[NAME_MAX + 1])
{
	size_t len = strlen(path);

	while (len > 1 && path[len - 1] == '/')
		path[--len] = 0;
	char *const slash = strrchr(path, '/');
	const char *const last = slash ? slash + 1 : path;
	if (strlen(last) > NAME_MAX) {
		errno = ENAMETOOLONG;
		return NULL;
	}
	memcpy(name, *last ? last : ".", (*last ? strlen(last) : 1) + 1);
	if (!slash)
		memcpy(path, ".", 2);
	else
		slash[slash == path] = 0;
	return name;
}

/* "." and ".." are no names that a parent could hold. */
static bool is_dots(const char *path)
{
	const char *const slash = strrchr(path, '/');
	const char *const last = slash ? slash + 1 : path;

	return !*last || strcmp(last, ".") == 0 || strcmp(last, "..") == 0;
}

/* The physical path of the parent, and the name, into @resolved. Returns 0, or -1 with errno. */
static int resolve_parent(const char *path, char resolved[PATH_MAX + NAME_MAX + 2])
{
	char parent[PATH_MAX];
	char name[NAME_MAX + 1];
	struct stat st;

	memcpy(parent, path, strlen(path) + 1);
	if (!split(parent, name) || !realpath(parent, resolved) || stat(resolved, &st) < 0)
		return -1;
	if (!S_ISDIR(st.st_mode)) {
		errno = ENOTDIR;
		return -1;
	}
	const size_t len = strlen(resolved);
	(void)snprintf(resolved + len, NAME_MAX + 2, "%s%s", len > 1 ? "/" : "", name);
	return 0;
}

/* Replace @path, a symbolic link, by what it says. Returns 0, or -1 with errno. */
static int follow(char path[PATH_MAX])
{
	char target[PATH_MAX];
	char name[NAME_MAX + 1];
	char joined[2 * PATH_MAX];
	const ssize_t n = readlink(path, target, sizeof(target) - 1);

	if (n < 0)
		return -1;
	target[n] = 0;
	if (target[0] != '/') {
		if (!split(path, name))
			return -1;
		(void)snprintf(joined, sizeof(joined), "%s/%s", path, target);
	} else {
		memcpy(joined, target, (size_t)n + 1);
	}
	const size_t len = strlen(joined);
	if (len >= PATH_MAX) {
		errno = ENAMETOOLONG;
		return -1;
	}
	memcpy(path, joined, len + 1);
	return 0;
}

/* Returns 0, or -1 with errno; so do the functions below. */
static int put(const char *numbers, const char *resolved, const char *target)
{
	static char record[128 + PATH_MAX + NAME_MAX + 2 + PATH_MAX + 3];
	const int n = snprintf(
		record, sizeof(record), "%s%c%s%c%s", numbers, 0, resolved, 0, target);
	const int rc = builtin_write(STDOUT_FILENO, record, (size_t)n + 1);

	errno = -rc;
	return rc < 0 ? -1 : 0;
}

static int put_stat(const struct stat *st, const char *resolved, const char *target)
{
	char numbers[128];

	(void)snprintf(numbers, sizeof(numbers), "%c %o %u %u %lld %lld %ld",
		type_letter(st->st_mode), st->st_mode & 07777, st->st_uid, st->st_gid,
		(long long)st->st_size, (long long)st->st_mtim.tv_sec, st->st_mtim.tv_nsec);
	return put(numbers, resolved, target);
}

/* @path does not exist, or is a link that leads nowhere. */
static int stat_missing(char path[PATH_MAX], bool follows)
{
	char resolved[PATH_MAX + NAME_MAX + 2];
	struct stat st;

	for (int i = 0; follows && lstat(path, &st) == 0 && S_ISLNK(st.st_mode); i++) {
		if (i == LINKS_MAX)
			errno = ELOOP;
		if (i == LINKS_MAX || follow(path) < 0)
			return -1;
	}
	return resolve_parent(path, resolved) < 0 ? -1 : put("- 0 0 0 0 0 0", resolved, "");
}

static int stat_path(char path[PATH_MAX], bool follows)
{
	char resolved[PATH_MAX + NAME_MAX + 2];
	char target[PATH_MAX] = "";
	struct stat st;

	follows |= is_dots(path);
	if ((follows ? stat(path, &st) : lstat(path, &st)) < 0) {
		if (errno != ENOENT)
			return -1;
		/* Without the slashes the rest can be asked whether it is a link. */
		for (size_t len = strlen(path); len > 1 && path[len - 1] == '/'; len--)
			path[len - 1] = 0;
		return is_dots(path) ? -1 : stat_missing(path, follows);
	}
	if ((follows ? (realpath(path, resolved) ? 0 : -1) : resolve_parent(path, resolved)) < 0)
		return -1;
	if (S_ISLNK(st.st_mode)) {
		const ssize_t n = readlink(path, target, sizeof(target) - 1);
		if (n < 0)
			return -1;
		target[n] = 0;
	}
	return put_stat(&st, resolved, target);
}

int builtin_path_stat(int argc, char *const *argv)
{
	char path[PATH_MAX];
	const bool follows = argc > 1 && strcmp(argv[1], "-L") == 0;
	const char *arg = argc == 2 + follows ? argv[argc - 1] : NULL;

	if (!arg) {
		(void)builtin_fault(EINVAL, "request", "", "path-stat takes [-L] PATH");
		return 1;
	}
	if (strlen(arg) >= sizeof(path)) {
		(void)builtin_errno(ENAMETOOLONG, "stat", arg, "cannot look at");
		return 1;
	}
	memcpy(path, arg, strlen(arg) + 1);
	errno = *arg ? 0 : ENOENT;
	if (errno == 0 && stat_path(path, follows) == 0)
		return 0;
	(void)builtin_errno(errno, "stat", arg, "cannot look at");
	return 1;
}
