/* SPDX-License-Identifier: Apache-2.0 */
#include "walk.h"

#include "guest_mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "guest_banned.h"

/*
 * Walks through trees.
 *
 * An entry comes before what is beneath it. The root may be reached through symbolic links;
 * beneath it each step opens one name in an open directory and follows none, and links and special
 * files are not told of at all. The tree may change meanwhile: a directory that has vanished or
 * become something else is passed over. One that cannot be read is a failure, since a result with a
 * hole in it would look like a whole one.
 *
 * Limits: WALK_DEPTH_MAX directories within each other, each with a descriptor (files.c raises the
 * soft limit for that) and DIRENTS_SIZE bytes for its entries, and a path from the root of
 * WIRE_PATH_MAX bytes. Paths beneath the root never go to the kernel.
 *
 * Names are read with getdents64 itself: it tells types, and needs no state that is allocated and
 * freed for each directory.
 */

#define DIRENTS_SIZE 16384

/* A directory that is being read. */
struct level {
	int fd;
	size_t path_len; /* of its path from the root, with a slash at the end unless empty */
	size_t pos; /* in entries */
	size_t len;
	char *entries; /* DIRENTS_SIZE; kept for the next directory of this depth */
};

struct walk {
	struct level levels[WALK_DEPTH_MAX];
	size_t depth; /* levels in use */
	bool no_kernel; /* what the kernel makes up is passed over */
	struct walk_fault fault;
	size_t root_len; /* the path from the root begins behind it */
	size_t len; /* of the current entry's path from the root */
	/* The root, a slash, the path from the root, a NUL. */
	char path[WIRE_PATH_MAX + 1 + WIRE_PATH_MAX + 1];
};

struct walk *walk_new(void)
{
	return gmem_zalloc(sizeof(struct walk));
}

static void pop(struct walk *w)
{
	(void)close(w->levels[--w->depth].fd);
}

void walk_free(struct walk *w)
{
	if (!w)
		return;
	while (w->depth > 0)
		pop(w);
	for (size_t i = 0; i < WALK_DEPTH_MAX && w->levels[i].entries; i++)
		gmem_free(w->levels[i].entries);
	gmem_free(w);
}

const struct walk_fault *walk_fault(const struct walk *w)
{
	return &w->fault;
}

struct wire_bytes walk_full_path(const struct walk *w)
{
	/* Without the slash behind the root where that is all. */
	const size_t len = w->len ? w->root_len + w->len : w->root_len - (w->root_len > 1);

	return (struct wire_bytes){(const uint8_t *)w->path, (uint32_t)len};
}

static int fail(struct walk *w, enum wire_file_failure class, int errnum, const char *text)
{
	w->fault = (struct walk_fault){
		.class_ = class, .errnum = errnum, .text = text, .object = walk_full_path(w)};
	return -1;
}

int walk_start(struct walk *w, const char *root)
{
	const size_t len = strlen(root);
	struct stat st;

	memcpy(w->path, root, len);
	w->root_len = len;
	if (len == 0 || root[len - 1] != '/')
		w->path[w->root_len++] = '/';
	w->len = 0;
	if (stat(root, &st) < 0)
		return fail(w, WIRE_FILE_FAIL_ERRNO, errno, "cannot look at the file");
	return S_ISDIR(st.st_mode) ? WALK_DIRECTORY : S_ISREG(st.st_mode) ? WALK_FILE : WALK_OTHER;
}

/* Whether an error says that an entry is not there any more, or not as it was. */
static bool is_gone(int errnum)
{
	return errnum == ENOENT || errnum == ENOTDIR || errnum == ELOOP;
}

/* Begin with the directory @fd, which is consumed. */
static int push(struct walk *w, int fd)
{
	struct level *const l = &w->levels[w->depth];

	if (!l->entries)
		l->entries = gmem_array(DIRENTS_SIZE, 1);
	if (!l->entries) {
		(void)close(fd);
		return fail(w, WIRE_FILE_FAIL_ERRNO, ENOMEM, "cannot read the directory");
	}
	*l = (struct level){.fd = fd, .path_len = w->len, .entries = l->entries};
	if (w->len > 0) {
		w->path[w->root_len + w->len] = '/';
		l->path_len++;
	}
	w->depth++;
	return 0;
}

static bool is_kernels(int fd)
{
	struct statfs fs;

	if (fstatfs(fd, &fs) < 0)
		return false;
	return fs.f_type == PROC_SUPER_MAGIC || fs.f_type == SYSFS_MAGIC ||
	       fs.f_type == CGROUP2_SUPER_MAGIC || fs.f_type == CGROUP_SUPER_MAGIC;
}

void walk_pass_over_kernel(struct walk *w)
{
	w->no_kernel = true;
}

static int enter_root(struct walk *w)
{
	w->path[w->root_len] = 0; /* what comes behind the slash does not matter */
	const int fd = open(w->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return fail(w, WIRE_FILE_FAIL_ERRNO, errno, "cannot read the directory");
	w->no_kernel = w->no_kernel && !is_kernels(fd);
	return push(w, fd);
}

int walk_enter(struct walk *w)
{
	if (w->depth == 0)
		return enter_root(w);
	if (w->depth == WALK_DEPTH_MAX)
		return fail(w, WIRE_FILE_FAIL_LIMIT, 0, "directories lie more than 1000 deep");
	const struct level *const above = &w->levels[w->depth - 1];
	const int fd = openat(above->fd, w->path + w->root_len + above->path_len,
		O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0 && w->no_kernel && is_kernels(fd))
		return close(fd);
	if (fd >= 0)
		return push(w, fd);
	if (is_gone(errno))
		return 0;
	return fail(w, WIRE_FILE_FAIL_ERRNO, errno, "cannot read the directory");
}

/* The next entry of a directory: 1, 0 at its end, -1 with errno. */
static int level_next(struct level *l, const struct dirent64 **ret)
{
	if (l->pos == l->len) {
		const ssize_t n = getdents64(l->fd, l->entries, DIRENTS_SIZE);
		if (n <= 0)
			return n < 0 && errno != ENOENT ? -1 : 0;
		l->pos = 0;
		l->len = (size_t)n;
	}
	/* The kernel has aligned them. */
	const void *const at = l->entries + l->pos;
	*ret = at;
	l->pos += (*ret)->d_reclen;
	return 1;
}

/* DT_REG, DT_DIR, whatever else is left out, or -1 with errno. */
static int entry_type(const struct level *l, const struct dirent64 *d)
{
	struct stat st;

	if (d->d_type != DT_UNKNOWN)
		return d->d_type;
	if (fstatat(l->fd, d->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return is_gone(errno) ? DT_UNKNOWN : -1;
	return IFTODT(st.st_mode);
}

/* The directory itself is concerned. */
static int fail_level(struct walk *w, const struct level *l, enum wire_file_failure class,
	int errnum, const char *text)
{
	w->len = l->path_len ? l->path_len - 1 : 0;
	return fail(w, class, errnum, text);
}

static bool is_dots(const char *name)
{
	return name[0] == '.' && (name[1] == 0 || (name[1] == '.' && name[2] == 0));
}

/* Whether the entry is told of; then it is the current one. Returns 1, 0, or -1. */
static int take(struct walk *w, const struct level *l, const struct dirent64 *d,
	const struct ignore *ignore, struct walk_entry *ret)
{
	const size_t name_len = strlen(d->d_name);

	if (is_dots(d->d_name) || ignore_matches(ignore, d->d_name, name_len))
		return 0;
	const int type = entry_type(l, d);
	if (type < 0)
		return fail_level(w, l, WIRE_FILE_FAIL_ERRNO, errno, "cannot search the directory");
	if (type != DT_REG && type != DT_DIR)
		return 0;
	if (l->path_len + name_len > WIRE_PATH_MAX)
		return fail_level(
			w, l, WIRE_FILE_FAIL_LIMIT, 0, "a path is longer than 65535 bytes");
	char *const path = w->path + w->root_len;
	memcpy(path + l->path_len, d->d_name, name_len + 1);
	w->len = l->path_len + name_len;
	*ret = (struct walk_entry){.path = path,
		.len = w->len,
		.name = path + l->path_len,
		.at = l->fd,
		.depth = (uint32_t)w->depth,
		.directory = type == DT_DIR};
	return 1;
}

int walk_next(struct walk *w, const struct ignore *ignore, struct walk_entry *ret)
{
	while (w->depth > 0) {
		struct level *const l = &w->levels[w->depth - 1];
		const struct dirent64 *d = NULL;
		int rc = level_next(l, &d);
		if (rc < 0)
			return fail_level(
				w, l, WIRE_FILE_FAIL_ERRNO, errno, "cannot read the directory");
		if (rc == 0) {
			pop(w);
			continue;
		}
		rc = take(w, l, d, ignore, ret);
		if (rc != 0)
			return rc;
	}
	return 0;
}
