/* SPDX-License-Identifier: Apache-2.0 */
#include "builtin.h"

#include "guest_mem.h"
#include "tar_read.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "guest_banned.h"

/*
 * tar-in [-a] DIR
 *
 * Unpacks the archive on stdin beneath the directory DIR (which may be a link to one), and reads
 * stdin to its end. Mode and time come from the archive; owner and group with -a too, else they are
 * those that this process runs as. What was unpacked before a failure stays.
 *
 * Where a name leads: leading slashes go, "." and empty components too, ".." is refused. Every step
 * opens one component in an open directory and follows no link, so that nothing outside of DIR is
 * ever written, whatever the archive holds and whoever else works in DIR; a link in the way is
 * ENOTDIR. Directories that an archive does not list are made, 0755.
 *
 * What is there already: a directory takes in a directory, and gets its mode, owner and time; all
 * else gives way to anything but a directory (EEXIST), and a directory to nothing else (EISDIR).
 * The old file is unlinked first: it is never written to, neither is what it links to. DIR itself
 * stays as it is, even where the archive has an entry for it.
 *
 * Directories get mode and time behind their contents, since a file that is made in them would
 * change the one and might be refused by the other. LATER_MAX of them are remembered; when there
 * are more, those are settled and the list begins anew, and then a file that comes late may change
 * the time of its directory.
 *
 * Not unpacked: extended attributes, sparse files of GNU tar's kinds (an error), unknown types (an
 * error).
 */

#define LATER_MAX   65536
#define LATER_BYTES (16u * 1024 * 1024) /* of their names */

/* A directory to be settled. */
struct later {
	size_t path; /* in later_paths */
	uint32_t mode;
	uint32_t mtime_ns;
	int64_t mtime_s;
};

struct unpack {
	struct tar_reader tar;
	bool keep_owner;
	int root_fd;
	/* The directory of the last entry: the next one is mostly there, or beneath. */
	int parent_fd;
	size_t parent_len;
	char parent[TAR_NAME_MAX + 1];
	char path[TAR_NAME_MAX + 1]; /* of the current entry, in the plain form */
	char target[TAR_NAME_MAX + 1]; /* of a hard link, too */
	struct later *later;
	size_t n_later;
	char *later_paths;
	size_t later_paths_len;
};

/* Functions return 0 (or a descriptor) or -1, and then have told why. */

static int fail(const char *path, int errnum, const char *what)
{
	return builtin_errno(errnum, "unpack", path, what);
}

/* Bring a name of the archive into the plain form "a/b/c"; DIR itself is "". */
static int plain_path(const char *name, char dst[TAR_NAME_MAX + 1])
{
	size_t len = 0;

	if (!*name)
		return builtin_fault(EINVAL, "archive", "", "an entry of the archive has no name");
	if (strlen(name) > TAR_NAME_MAX)
		return fail(name, ENAMETOOLONG, "cannot make");
	for (const char *next = name; *next;) {
		const char *const s = next + strspn(next, "/");
		const size_t n = strcspn(s, "/");
		next = s + n;
		if (n == 2 && memcmp(s, "..", 2) == 0)
			return builtin_fault(
				EINVAL, "archive", name, "a name in the archive leads upwards");
		if (n == 0 || (n == 1 && *s == '.'))
			continue;
		if (len > 0)
			dst[len++] = '/';
		memcpy(dst + len, s, n);
		len += n;
	}
	dst[len] = 0;
	return 0;
}

static const char *base_name(const char *path)
{
	const char *const slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* Open the directory @name in @at, and make it if it is missing. Returns a descriptor or -errno. */
static int enter(int at, const char *name)
{
	const int flags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
	int fd = openat(at, name, flags);

	if (fd < 0 && errno == ENOENT) {
		if (mkdirat(at, name, 0755) < 0 && errno != EEXIST)
			return -errno;
		fd = openat(at, name, flags);
	}
	return fd < 0 ? -errno : fd;
}

static void leave_parent(struct unpack *u)
{
	if (u->parent_fd != u->root_fd)
		(void)close(u->parent_fd);
	u->parent_fd = u->root_fd;
	u->parent_len = 0;
}

/* The directory that holds @path, which is in the plain form, not "", and only borrowed for
 * writing. The descriptor belongs to @u and is good until the next call. */
static int open_parent(struct unpack *u, char *path)
{
	const size_t len = strlen(path) - strlen(base_name(path)); /* with the slash */

	if (u->parent_len > len || memcmp(u->parent, path, u->parent_len) != 0)
		leave_parent(u);
	while (u->parent_len < len) {
		char *const slash = strchr(path + u->parent_len, '/');
		*slash = 0;
		const int fd = enter(u->parent_fd, path + u->parent_len);
		if (fd < 0)
			return fail(path, -fd, "cannot enter");
		*slash = '/';
		const size_t entered = (size_t)(slash + 1 - path);
		leave_parent(u);
		u->parent_fd = fd;
		u->parent_len = entered;
		memcpy(u->parent, path, entered);
	}
	return u->parent_fd;
}

/* Give an entry that is not a directory or file its owner and time. */
static int dress(const struct unpack *u, int at, const struct tar_entry *e)
{
	const char *const name = base_name(u->path);
	const struct timespec times[2] = {
		{.tv_nsec = UTIME_OMIT}, {.tv_sec = e->mtime_s, .tv_nsec = e->mtime_ns}};

	if (fchownat(at, name, (uid_t)e->uid, (gid_t)e->gid, AT_SYMLINK_NOFOLLOW) < 0)
		return fail(u->path, errno, "cannot set the owner of");
	if (utimensat(at, name, times, AT_SYMLINK_NOFOLLOW) < 0)
		return fail(u->path, errno, "cannot set the time of");
	return 0;
}

/* Mode and time of what is open; the mode comes last but for the time, since a change of the owner
 * takes its special bits. */
static int dress_fd(int fd, const char *path, uint32_t mode, int64_t mtime_s, uint32_t mtime_ns)
{
	const struct timespec times[2] = {
		{.tv_nsec = UTIME_OMIT}, {.tv_sec = mtime_s, .tv_nsec = mtime_ns}};

	if (fchmod(fd, mode) < 0)
		return fail(path, errno, "cannot set the mode of");
	if (futimens(fd, times) < 0)
		return fail(path, errno, "cannot set the time of");
	return 0;
}

static int settle(struct unpack *u, const struct later *l)
{
	char *const path = u->later_paths + l->path;
	const int at = open_parent(u, path);

	if (at < 0)
		return -1;
	const int fd = openat(at, base_name(path), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return fail(path, errno, "cannot open");
	const int rc = dress_fd(fd, path, l->mode, l->mtime_s, l->mtime_ns);
	(void)close(fd);
	return rc;
}

/* From the last to the first, so that a directory comes before those that it lies in. */
static int settle_all(struct unpack *u)
{
	while (u->n_later > 0)
		if (settle(u, &u->later[--u->n_later]) < 0)
			return -1;
	u->later_paths_len = 0;
	return 0;
}

static int remember(struct unpack *u, const struct tar_entry *e)
{
	const size_t len = strlen(u->path) + 1;

	if (u->n_later == LATER_MAX || len > LATER_BYTES - u->later_paths_len) {
		if (settle_all(u) < 0)
			return -1;
	}
	u->later[u->n_later++] = (struct later){.path = u->later_paths_len,
		.mode = e->mode,
		.mtime_s = e->mtime_s,
		.mtime_ns = e->mtime_ns};
	memcpy(u->later_paths + u->later_paths_len, u->path, len);
	u->later_paths_len += len;
	return 0;
}

static int unpack_directory(struct unpack *u, int at, const struct tar_entry *e)
{
	const char *const name = base_name(u->path);
	struct stat st;

	/* Ours to work in until it is settled. */
	if (mkdirat(at, name, 0700) < 0) {
		if (errno != EEXIST || fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			return fail(u->path, errno, "cannot make the directory");
		if (!S_ISDIR(st.st_mode))
			return fail(u->path, EEXIST, "cannot make the directory");
	}
	if (fchownat(at, name, (uid_t)e->uid, (gid_t)e->gid, AT_SYMLINK_NOFOLLOW) < 0)
		return fail(u->path, errno, "cannot set the owner of");
	return remember(u, e);
}

/* Remove what stands where something else than a directory is to be made. */
static int make_room(const struct unpack *u, int at)
{
	const char *const name = base_name(u->path);
	struct stat st;

	if (fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : fail(u->path, errno, "cannot make");
	if (S_ISDIR(st.st_mode))
		return fail(u->path, EISDIR, "cannot replace the directory");
	if (unlinkat(at, name, 0) < 0 && errno != ENOENT)
		return fail(u->path, errno, "cannot replace");
	return 0;
}

static int fault_archive(const struct unpack *u, int errnum)
{
	return builtin_fault(errnum, "archive", u->path, u->tar.fault);
}

static int write_data(struct unpack *u, int fd)
{
	const uint8_t *data = NULL;
	size_t len = 0;
	int rc = 0;

	while ((rc = tar_data(&u->tar, &data, &len)) > 0) {
		const int written = builtin_write(fd, data, len);
		if (written < 0)
			return fail(u->path, -written, "cannot write");
	}
	return rc < 0 ? fault_archive(u, -rc) : 0;
}

static int unpack_file(struct unpack *u, int at, const struct tar_entry *e)
{
	const char *const name = base_name(u->path);
	const int fd = openat(at, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	int rc = 0;

	if (fd < 0)
		return fail(u->path, errno, "cannot make");
	rc = write_data(u, fd);
	if (rc == 0 && fchown(fd, (uid_t)e->uid, (gid_t)e->gid) < 0)
		rc = fail(u->path, errno, "cannot set the owner of");
	if (rc == 0)
		rc = dress_fd(fd, u->path, e->mode, e->mtime_s, e->mtime_ns);
	if (close(fd) < 0 && rc == 0)
		rc = fail(u->path, errno, "cannot write");
	return rc;
}

static int unpack_symlink(struct unpack *u, int at, const struct tar_entry *e)
{
	if (symlinkat(e->link, at, base_name(u->path)) < 0)
		return fail(u->path, errno, "cannot make the link");
	return dress(u, at, e);
}

static int unpack_node(struct unpack *u, int at, const struct tar_entry *e)
{
	const mode_t type = e->type == TAR_FIFO ? S_IFIFO : e->type == TAR_CHAR ? S_IFCHR : S_IFBLK;
	const dev_t dev = e->type == TAR_FIFO ? 0 : makedev(e->dev_major, e->dev_minor);

	if (mknodat(at, base_name(u->path), type | e->mode, dev) < 0)
		return fail(u->path, errno, "cannot make");
	return dress(u, at, e);
}

/* A hard link leads to what was unpacked before, or was there. Owner and all else are that one's.
 */
static int unpack_hard_link(struct unpack *u, const struct tar_entry *e)
{
	struct stat old;
	struct stat new;

	if (plain_path(e->link, u->target) < 0)
		return -1;
	if (!*u->target)
		return fail(u->path, EPERM, "cannot make the link");
	const int borrowed = open_parent(u, u->target);
	if (borrowed < 0)
		return -1;
	/* The place for parents holds only one. */
	const int from = fcntl(borrowed, F_DUPFD_CLOEXEC, 0);
	if (from < 0)
		return fail(u->path, errno, "cannot make the link");
	const int at = open_parent(u, u->path);
	int rc = at < 0 ? -1 : 0;
	if (rc == 0 && fstatat(from, base_name(u->target), &old, AT_SYMLINK_NOFOLLOW) < 0)
		rc = fail(u->target, errno, "cannot link to");
	/* A link to itself must not lose the file. */
	const bool same = rc == 0 &&
			  fstatat(at, base_name(u->path), &new, AT_SYMLINK_NOFOLLOW) == 0 &&
			  old.st_dev == new.st_dev &&old.st_ino == new.st_ino;
	if (rc == 0 && !same)
		rc = make_room(u, at);
	if (rc == 0 && !same && linkat(from, base_name(u->target), at, base_name(u->path), 0) < 0)
		rc = fail(u->path, errno, "cannot make the link");
	(void)close(from);
	return rc;
}

static int unpack_other(struct unpack *u, int at, const struct tar_entry *e)
{
	if (make_room(u, at) < 0)
		return -1;
	switch (e->type) {
	case TAR_FILE:
		return unpack_file(u, at, e);
	case TAR_SYMLINK:
		return unpack_symlink(u, at, e);
	default:
		return unpack_node(u, at, e);
	}
}

static int set_owner(const struct unpack *u, struct tar_entry *e)
{
	if (!u->keep_owner) {
		e->uid = geteuid();
		e->gid = getegid();
	}
	/* The highest number means "leave it". */
	if (e->uid >= UINT32_MAX || e->gid >= UINT32_MAX)
		return builtin_fault(EINVAL, "archive", u->path, "an owner is no number of a user");
	return 0;
}

static int unpack_entry(struct unpack *u, struct tar_entry *e)
{
	if (plain_path(e->name, u->path) < 0)
		return -1;
	if (e->type < TAR_FILE || e->type > TAR_FIFO)
		return builtin_fault(EOPNOTSUPP, "archive", u->path,
			"an entry of the archive is of unknown type");
	if (!*u->path)
		return e->type == TAR_DIR ? 0 : fail("/", EISDIR, "cannot replace the directory");
	if (set_owner(u, e) < 0)
		return -1;
	if (e->type == TAR_HARD_LINK)
		return unpack_hard_link(u, e);
	const int at = open_parent(u, u->path);
	if (at < 0)
		return -1;
	return e->type == TAR_DIR ? unpack_directory(u, at, e) : unpack_other(u, at, e);
}

static int unpack(struct unpack *u)
{
	struct tar_entry e;
	int rc = 0;

	while ((rc = tar_next(&u->tar, &e)) > 0)
		if (unpack_entry(u, &e) < 0)
			return -1;
	/* The last name tells how far it came. */
	if (rc == 0)
		rc = tar_drain(&u->tar);
	return rc < 0 ? fault_archive(u, -rc) : settle_all(u);
}

int builtin_tar_in(int argc, char *const *argv)
{
	const bool keep_owner = argc > 1 && strcmp(argv[1], "-a") == 0;

	if (argc != 2 + keep_owner) {
		(void)builtin_fault(EINVAL, "request", "", "tar-in takes [-a] DIR");
		return 1;
	}
	const char *const dir = argv[argc - 1];
	const int fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0) {
		(void)builtin_errno(errno, "unpack", dir, "cannot open");
		return 1;
	}
	struct unpack *const u = gmem_zalloc(sizeof(*u));
	if (u) {
		u->keep_owner = keep_owner;
		u->root_fd = u->parent_fd = fd;
		u->later = gmem_array(LATER_MAX, sizeof(*u->later));
		u->later_paths = gmem_array(LATER_BYTES, 1);
	}
	if (!u || !u->later || !u->later_paths || tar_reader_init(&u->tar, STDIN_FILENO) < 0) {
		(void)builtin_fault(ENOMEM, "unpack", "", "no memory to unpack");
		return 1;
	}
	(void)umask(0);
	return unpack(u) < 0;
}
