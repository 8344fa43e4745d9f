/* SPDX-License-Identifier: Apache-2.0 */
#include "builtin_files.h"
#include "guest_mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "guest_banned.h"

/*
 * Removing, one name or a tree. Called by the loop in files.c.
 *
 * The path leads to the directory of the name, through links where there are some. From there on
 * every step opens one name in an open directory and follows no link: whoever puts a link into the
 * place of a directory meanwhile gets the link removed, and nothing behind it. What vanishes by
 * itself is fine, what appears meanwhile is removed too, up to PASSES_MAX times a directory. The
 * first failure ends it; what was removed by then is gone.
 *
 * Limits: DEPTH_MAX directories within each other. Each of them holds a descriptor and, until the
 * process ends, a buffer of directory entries, so 8 MiB at most.
 */

#define DEPTH_MAX   1000
#define DIRENT_SIZE 8192
#define PASSES_MAX  64
#define TRIES_MAX   4 /* with a name that is a directory now and none then */

/* A directory that is being emptied. */
struct level {
	int fd;
	unsigned passes;
	bool again; /* something was removed in this pass */
	size_t pos; /* in entries */
	size_t len;
	char name[NAME_MAX + 1]; /* in the level above */
};

struct tree {
	struct files *files;
	const char *path; /* of its root */
	int at; /* the directory that holds the root */
	size_t depth;
	struct level levels[DEPTH_MAX];
	char *entries[DEPTH_MAX]; /* DIRENT_SIZE each, or NULL; kept for the next of this depth */
};

/* Functions return 0 or -1, and then have answered. */

static int fail(struct files *f, const char *path, int errnum, const char *what)
{
	const struct wire_bytes object = files_bytes(path);

	files_fail(f, WIRE_FILE_FAIL_ERRNO, errnum, "remove", &object, "%s", what);
	return -1;
}

/* The path of @name in the directory on top, as far as it fits. */
static const char *path_of(const struct tree *t, const char *name)
{
	static char path[WIRE_PATH_MAX + 1];
	size_t len = strnlen(t->path, WIRE_PATH_MAX);

	memcpy(path, t->path, len);
	for (size_t i = 1; i <= t->depth; i++) {
		const char *const step = i < t->depth ? t->levels[i].name : name;
		const size_t n = strlen(step);
		if (len + n + 1 > WIRE_PATH_MAX)
			break;
		path[len++] = '/';
		memcpy(path + len, step, n);
		len += n;
	}
	path[len] = 0;
	return path;
}

static int fail_entry(const struct tree *t, const char *name, int errnum)
{
	return fail(t->files, path_of(t, name), errnum, "cannot remove");
}

/* Make the directory @fd, called @name, the one that is emptied next. @fd is consumed. */
static int push(struct tree *t, int fd, const char *name)
{
	if (t->depth == DEPTH_MAX) {
		const struct wire_bytes object = files_bytes(t->path);
		(void)close(fd);
		files_fail(t->files, WIRE_FILE_FAIL_LIMIT, 0, "remove", &object,
			"directories lie more than %d deep", DEPTH_MAX);
		return -1;
	}
	if (!t->entries[t->depth])
		t->entries[t->depth] = gmem_array(DIRENT_SIZE, 1);
	if (!t->entries[t->depth]) {
		(void)close(fd);
		return fail_entry(t, name, ENOMEM);
	}
	struct level *const l = &t->levels[t->depth++];
	*l = (struct level){.fd = fd};
	memcpy(l->name, name, strnlen(name, NAME_MAX));
	return 0;
}

static int parent_of(const struct tree *t)
{
	return t->depth > 0 ? t->levels[t->depth - 1].fd : t->at;
}

static void note_removed(struct tree *t)
{
	if (t->depth > 0)
		t->levels[t->depth - 1].again = true;
}

/* Remove @name if that takes one step, or begin with the directory that it is. @directory is a
 * guess that saves a step. */
static int remove_name(struct tree *t, const char *name, bool directory)
{
	const int at = parent_of(t);
	int errnum = 0;

	for (int i = 0; i < TRIES_MAX; i++, directory = !directory) {
		if (!directory) {
			errnum = unlinkat(at, name, 0) == 0 ? 0 : errno;
			if (errnum != EISDIR)
				break;
			continue;
		}
		const int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd >= 0)
			return push(t, fd, name);
		errnum = errno;
		/* One that may not be read can still be empty. */
		if (errnum == EACCES && unlinkat(at, name, AT_REMOVEDIR) == 0)
			errnum = 0;
		if (errnum != ENOTDIR && errnum != ELOOP)
			break;
	}
	if (errnum != 0 && (errnum != ENOENT || t->depth == 0))
		return fail_entry(t, name, errnum);
	note_removed(t);
	return 0;
}

/* The directory on top has been read to its end: remove it, or read it again. */
static int pop(struct tree *t)
{
	struct level *const l = &t->levels[t->depth - 1];
	const bool again = l->again && l->passes < PASSES_MAX;

	t->depth--;
	if (unlinkat(parent_of(t), l->name, AT_REMOVEDIR) == 0 || errno == ENOENT) {
		(void)close(l->fd);
		note_removed(t);
		return 0;
	}
	/* Reading may skip names when others are removed. */
	const int errnum = errno;
	if ((errnum == ENOTEMPTY || errnum == EEXIST) && again && lseek(l->fd, 0, SEEK_SET) == 0) {
		t->depth++;
		l->passes++;
		l->again = false;
		l->pos = l->len = 0;
		return 0;
	}
	(void)close(l->fd);
	if (errnum != ENOTDIR)
		return fail_entry(t, l->name, errnum);
	/* Something else has taken its place meanwhile. */
	char name[NAME_MAX + 1];
	memcpy(name, l->name, sizeof(name));
	return remove_name(t, name, false);
}

static int step(struct tree *t)
{
	struct level *const l = &t->levels[t->depth - 1];
	char *const entries = t->entries[t->depth - 1];

	if (l->pos == l->len) {
		const ssize_t n = getdents64(l->fd, entries, DIRENT_SIZE);
		if (n < 0 && errno != ENOENT)
			return fail_entry(t, ".", errno);
		if (n <= 0)
			return pop(t);
		l->pos = 0;
		l->len = (size_t)n;
	}
	/* The kernel aligns them. */
	const struct dirent64 *const d = (const void *)(entries + l->pos);
	l->pos += d->d_reclen;
	if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
		return 0;
	return remove_name(t, d->d_name, d->d_type == DT_DIR);
}

static int remove_tree(struct files *f, const char *path, int at, const char *name)
{
	static struct tree tree;
	struct tree *const t = &tree;
	int rc = 0;

	t->files = f;
	t->path = path;
	t->at = at;
	rc = remove_name(t, name, false);
	while (rc == 0 && t->depth > 0)
		rc = step(t);
	while (t->depth > 0)
		(void)close(t->levels[--t->depth].fd);
	return rc;
}

static int remove_one(struct files *f, const char *path, int at, const char *name)
{
	struct stat st;

	if (fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
		unlinkat(at, name, S_ISDIR(st.st_mode) ? AT_REMOVEDIR : 0) < 0)
		return fail(f, path, errno, "cannot remove");
	return 0;
}

/* Open the directory of @path and find the name in it; @path is cut. Slashes behind the name demand
 * a directory. Returns a descriptor or -errno. */
static int open_parent(char *path, char **ret_name)
{
	size_t len = strlen(path);
	const bool directory = path[len - 1] == '/';
	struct stat st;

	while (len > 0 && path[len - 1] == '/')
		path[--len] = 0;
	char *const slash = strrchr(path, '/');
	*ret_name = slash ? slash + 1 : path;
	if (!**ret_name || strcmp(*ret_name, ".") == 0 || strcmp(*ret_name, "..") == 0)
		return -EINVAL;
	if (slash)
		*slash = 0;
	const char *const parent = !slash ? "." : slash == path ? "/" : path;
	const int fd = open(parent, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (directory && fstatat(fd, *ret_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		!S_ISDIR(st.st_mode)) {
		(void)close(fd);
		return -ENOTDIR;
	}
	return fd;
}

static bool is_missing(int at, const char *name)
{
	struct stat st;

	if (at < 0)
		return at == -ENOENT || at == -ENOTDIR;
	return fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT;
}

void files_op_remove(struct files *f, const struct wire_msg *m)
{
	const uint32_t flags = m->file_remove.flags;
	const char *const path = files_path(f, &m->file_remove.path);
	char *name = NULL;
	int rc = 0;
	const int at = open_parent(files_path(f, &m->file_remove.path), &name);

	if (flags & WIRE_REMOVE_FORCE && is_missing(at, name))
		rc = 0;
	else if (at == -EINVAL)
		rc = fail(f, path, EINVAL, "not a name that can be removed:");
	else if (at < 0)
		rc = fail(f, path, -at, "cannot remove");
	else if (flags & WIRE_REMOVE_RECURSIVE)
		rc = remove_tree(f, path, at, name);
	else
		rc = remove_one(f, path, at, name);
	if (at >= 0)
		(void)close(at);
	if (rc == 0)
		files_done(f, false, 0, 0);
}
