/* SPDX-License-Identifier: Apache-2.0 */
#include "builtin_files.h"

#include "builtin.h"
#include "files_content.h"
#include "files_parts.h"
#include "files_target.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "guest_banned.h"

/*
 * Requests about the bytes of files: reading, writing, appending. Called by the loop in files.c.
 *
 * A write finds its target (files_target.c). Where the file can be replaced and the file system can
 * do it, a file without a name is made beside it, gets the content, owner and mode, then a
 * temporary name, and takes the target's place. Where it cannot (an overlay, before Linux 6.10),
 * the content waits until it is complete (files_content.c), is then copied to a file with a
 * temporary name, and that takes the place. Such a name is all that can be left behind, by a
 * process that is killed between two system calls or, in the second case, during the copy; never
 * half a target. What a copy has left behind a later one removes, once it comes to that name.
 *
 * In place, and then only with all of the content at hand, is written: what is no regular file, a
 * file in a directory that the user may not write to, one whose owner he cannot keep, and one that
 * does not give way (a mount point).
 *
 * Appending collects the content, too, and adds it under an exclusive lock of the file (flock), so
 * that appends through this built-in come one after the other, however long; up to CONTENT_HEAD
 * bytes it is one write, which mixes with nobody's. A failure takes back what was added, unless
 * somebody has written behind it.
 */

#define READ_SIZE  (256u * 1024)
#define OPEN_TRIES 100 /* of a file that others keep removing */

/* Reading. */

/* Which lines are wanted, and which one the next byte belongs to. */
struct range {
	uint64_t first; /* 0: everything */
	uint64_t last; /* 0: to the end */
	uint64_t line;
};

static bool range_over(const struct range *r)
{
	return r->last > 0 && r->line > r->last;
}

/* The part of @data that is wanted, *ret bytes long. */
static const uint8_t *range_select(struct range *r, const uint8_t *data, size_t len, size_t *ret)
{
	const uint8_t *const end = data + len;

	*ret = 0;
	for (; r->line < r->first; r->line++) {
		const uint8_t *const lf = memchr(data, '\n', (size_t)(end - data));
		if (!lf)
			return end;
		data = lf + 1;
	}
	const uint8_t *to = r->last > 0 ? data : end;
	while (to < end && !range_over(r)) {
		const uint8_t *const lf = memchr(to, '\n', (size_t)(end - to));
		to = lf ? lf + 1 : end;
		r->line += lf ? 1 : 0;
	}
	*ret = (size_t)(to - data);
	return data;
}

static void send_data(struct files *f, const uint8_t *data, size_t len)
{
	while (len > 0) {
		const size_t n = len < WIRE_DATA_MAX ? len : WIRE_DATA_MAX;
		files_send(f, &(struct wire_msg){.op = WIRE_OP_file_data,
				      .file_data = {.bytes = {data, (uint32_t)n}}});
		data += n;
		len -= n;
	}
}

/* Send what is wanted of @fd. Returns 0 or -errno. */
static int send_file(struct files *f, int fd, const struct wire_file_read *want)
{
	static uint8_t buf[READ_SIZE];
	struct range range = {.first = want->first_line, .last = want->last_line, .line = 1};
	uint64_t sent = 0;

	if (range.first == 0)
		range.last = 0;
	if (range.last > 0 && range.first > range.last)
		return 0;
	while (!range_over(&range)) {
		const ssize_t n = read(fd, buf, sizeof(buf));
		size_t len = 0;
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : 0;
		const uint8_t *const data = range_select(&range, buf, (size_t)n, &len);
		if (want->max_bytes > 0 && len > want->max_bytes - sent)
			return -EFBIG;
		send_data(f, data, len);
		sent += len;
	}
	return 0;
}

static void fail_read(struct files *f, const char *path, int errnum, const char *what)
{
	const struct wire_bytes object = files_bytes(path);

	files_fail(f, WIRE_FILE_FAIL_ERRNO, errnum, "read", &object, "%s", what);
}

static void read_file(struct files *f, const char *path, int fd, const struct wire_file_read *want)
{
	static const char too_large[] = "more bytes than are wanted in";
	struct stat st;

	if (fstat(fd, &st) < 0) {
		fail_read(f, path, errno, "cannot look at");
	} else if (S_ISDIR(st.st_mode)) {
		fail_read(f, path, EISDIR, "cannot read");
	} else if (!S_ISREG(st.st_mode)) {
		fail_read(f, path, EINVAL, "not a regular file:");
	} else if (want->first_line == 0 && want->max_bytes > 0 &&
		   (uint64_t)st.st_size > want->max_bytes) {
		fail_read(f, path, EFBIG, too_large);
	} else {
		files_send_info(f, &st, "");
		const int rc = send_file(f, fd, want);
		if (rc == 0)
			files_done(f, false, 0, 0);
		else
			fail_read(f, path, -rc, rc == -EFBIG ? too_large : "cannot read");
	}
}

void files_op_read(struct files *f, const struct wire_msg *m)
{
	const char *const path = files_path(f, &m->file_read.path);
	/* Neither waits for a fifo nor takes a terminal. */
	const int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

	if (fd < 0) {
		/* A socket, or a device without a driver. */
		fail_read(f, path, errno == ENXIO ? EINVAL : errno,
			errno == ENXIO ? "not a regular file:" : "cannot open");
		return;
	}
	read_file(f, path, fd, &m->file_read);
	(void)close(fd);
}

/* Writing. */

struct write {
	struct files *files;
	uint32_t flags;
	struct target target;
	struct content content;
	bool replace; /* not in place */
	int open_fd; /* of what is no regular file, or -EBADF */
};

/* Returns 0 or -errno: EPERM where the owner cannot be kept. */
static int keep_owner(const struct write *w, int fd)
{
	const struct stat *const old = &w->target.st;
	struct stat st;

	if (!w->target.exists)
		return 0;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (st.st_uid == old->st_uid && st.st_gid == old->st_gid)
		return 0;
	return fchown(fd, old->st_uid, old->st_gid) < 0 ? -EPERM : 0;
}

/* The bits that run a program as somebody else go, as with every write that root does not do. */
static int keep_mode(const struct write *w, int fd)
{
	mode_t mode = w->target.exists ? w->target.st.st_mode & 07777 : 0644;

	if (geteuid() != 0)
		mode &= ~(mode_t)(S_ISUID | S_ISGID);
	return fchmod(fd, mode) < 0 ? -errno : 0;
}

/* Give the file @fd, which has no name, the name @name. Root can do so without /proc. */
static int give_name(const struct write *w, int fd, const char *name)
{
	char path[32];

	if (linkat(fd, "", w->target.dir_fd, name, AT_EMPTY_PATH) == 0)
		return 0;
	if (errno != ENOENT && errno != EPERM)
		return -errno;
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (linkat(AT_FDCWD, path, w->target.dir_fd, name, AT_SYMLINK_FOLLOW) == 0)
		return 0;
	return -errno;
}

static bool can_give_names(void)
{
	return geteuid() == 0 || faccessat(AT_FDCWD, "/proc/self/fd", X_OK, AT_EACCESS) == 0;
}

/* Closing tells errors of some file systems; the file stays open and locked all the same. */
static int close_copy(int fd)
{
	const int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);

	return copy < 0 || close(copy) < 0 ? -errno : 0;
}

/* A file with a temporary name and all of the content. Returns a descriptor or -errno. */
static int fill_named(const struct write *w, char name[CONTENT_NAME_SIZE])
{
	uint64_t written = 0;
	const int fd = content_named(w->target.dir_fd, name);

	if (fd < 0)
		return fd;
	int rc = keep_owner(w, fd);
	if (rc == 0)
		rc = content_copy(&w->content, fd, &written);
	if (rc == 0)
		rc = keep_mode(w, fd);
	if (rc == 0)
		rc = close_copy(fd);
	if (rc == 0)
		return fd;
	(void)unlinkat(w->target.dir_fd, name, 0);
	(void)close(fd);
	return rc;
}

/* Give the complete file a name of its own. Returns a descriptor, to be kept until that name is
 * gone again, or -errno. */
static int name_content(const struct write *w, char name[CONTENT_NAME_SIZE])
{
	int rc = -EEXIST;

	if (w->content.head)
		return fill_named(w, name);
	for (int i = 0; i < CONTENT_NAME_TRIES && rc == -EEXIST; i++) {
		content_make_name(name);
		rc = give_name(w, w->content.fd, name);
	}
	return rc < 0 ? rc : w->content.fd;
}

/* Put the new file into the place of what is there, or where nothing is. */
static int replace(const struct write *w)
{
	const struct target *const t = &w->target;
	const bool exclusive = w->flags & WIRE_WRITE_EXCLUSIVE;
	char name[CONTENT_NAME_SIZE];
	int rc = 0;

	if (!w->content.head) {
		rc = keep_mode(w, w->content.fd);
		if (rc == 0 && !t->exists) {
			rc = give_name(w, w->content.fd, t->name);
			if (rc != -EEXIST || exclusive)
				return rc;
			rc = 0;
		}
	}
	if (rc < 0)
		return rc;
	const int fd = name_content(w, name);
	if (fd < 0)
		return fd;
	if (renameat2(t->dir_fd, name, t->dir_fd, t->name, exclusive ? RENAME_NOREPLACE : 0) < 0) {
		rc = -errno;
		(void)unlinkat(t->dir_fd, name, 0);
	}
	if (fd != w->content.fd)
		(void)close(fd);
	return rc;
}

static int overwrite(const struct write *w)
{
	uint64_t written = 0;
	const int fd = target_open(&w->target, O_TRUNC);

	if (fd < 0)
		return fd;
	int rc = content_copy(&w->content, fd, &written);
	if (close(fd) < 0 && rc == 0)
		rc = -errno;
	return rc;
}

/* Whether an error says that a file cannot give way to another, though it may be written. ENOENT is
 * what /proc says of new names. */
static bool must_stay(int rc)
{
	return rc == -ENOENT || rc == -EACCES || rc == -EPERM || rc == -EROFS || rc == -EBUSY;
}

/* Decide how, before there is any content. Returns 0 or -errno. */
static int prepare_replace(struct write *w)
{
	const struct target *const t = &w->target;
	int fd = can_give_names() ? content_unnamed(t->dir_fd) : -EOPNOTSUPP;
	int rc = 0;

	if (fd == -EOPNOTSUPP) {
		rc = target_may_make(t);
	} else if (fd < 0) {
		rc = fd;
	} else {
		rc = keep_owner(w, fd);
		if (rc == 0)
			w->content.fd = fd;
		else
			(void)close(fd);
	}
	w->replace = rc == 0;
	return t->exists && must_stay(rc) ? 0 : rc;
}

static int commit_write(const struct write *w)
{
	uint64_t written = 0;
	int rc = 0;

	if (w->open_fd >= 0)
		return content_copy(&w->content, w->open_fd, &written);
	if (w->replace) {
		rc = replace(w);
		if (rc == 0 || !w->target.exists || !must_stay(rc))
			return rc;
	}
	return overwrite(w);
}

/* Appending. */

/* Open the file, which may be made, removed or replaced by others meanwhile, and lock it. */
static int open_end(const struct write *w, bool *ret_made)
{
	const bool exclusive = w->flags & WIRE_WRITE_EXCLUSIVE;
	struct stat st;

	for (int i = 0; i < OPEN_TRIES; i++) {
		int fd = exclusive ? -ENOENT : target_open(&w->target, O_APPEND);
		*ret_made = false;
		if (fd == -ENOENT) {
			fd = target_open(&w->target, O_APPEND | O_CREAT | O_EXCL);
			*ret_made = fd >= 0;
		}
		if (fd == -EEXIST && !exclusive)
			continue;
		if (fd < 0)
			return fd;
		/* Where a file system has no locks it is one write all the same. */
		while (flock(fd, LOCK_EX) < 0 && errno == EINTR)
			continue;
		if (fstat(fd, &st) == 0 && st.st_nlink > 0)
			return fd;
		(void)close(fd);
	}
	return -EBUSY;
}

/* Take back what was written behind @start, if nothing else was; and the file that was made for it.
 */
static void take_back(const struct write *w, int fd, uint64_t start, uint64_t written, bool made)
{
	struct stat st;

	if (fstat(fd, &st) < 0 || (uint64_t)st.st_size != start + written)
		return;
	if (written > 0 && ftruncate(fd, (off_t)start) < 0)
		return;
	if (made && start == 0)
		(void)unlinkat(w->target.dir_fd, w->target.name, 0);
}

static int commit_append(const struct write *w)
{
	uint64_t written = 0;
	bool made = false;
	struct stat st;

	if (w->open_fd >= 0)
		return content_copy(&w->content, w->open_fd, &written);
	const int fd = open_end(w, &made);
	if (fd < 0)
		return fd;
	int rc = fstat(fd, &st) < 0 ? -errno : 0;
	if (rc == 0) {
		rc = content_copy(&w->content, fd, &written);
		if (rc < 0)
			take_back(w, fd, (uint64_t)st.st_size, written, made);
	}
	if (close(fd) < 0 && rc == 0)
		rc = -errno;
	return rc;
}

/* Both. */

static int prepare(struct write *w, char *path)
{
	const struct target *const t = &w->target;
	int rc = target_find(&w->target, path, w->flags);

	if (rc < 0)
		return rc;
	if (t->exists && !S_ISREG(t->st.st_mode)) {
		w->open_fd = target_open(t, w->flags & WIRE_WRITE_APPEND ? O_APPEND : 0);
		return w->open_fd < 0 ? w->open_fd : 0;
	}
	if (w->flags & WIRE_WRITE_APPEND)
		return t->exists ? 0 : target_may_make(t);
	return prepare_replace(w);
}

static int write_content(struct write *w, char *path)
{
	int rc = prepare(w, path);

	if (rc == 0)
		rc = content_receive(&w->content, w->files, w->target.dir_fd);
	if (rc < 0 || w->content.aborted)
		return rc;
	return w->flags & WIRE_WRITE_APPEND ? commit_append(w) : commit_write(w);
}

void files_op_write(struct files *f, const struct wire_msg *m)
{
	const char *const path = files_path(f, &m->file_write.path);
	const struct wire_bytes object = files_bytes(path);
	struct write w = {.files = f,
		.flags = m->file_write.flags,
		.target = TARGET_INIT,
		.content = CONTENT_INIT,
		.open_fd = -EBADF};
	const bool append = w.flags & WIRE_WRITE_APPEND;
	const int rc = write_content(&w, files_path(f, &m->file_write.path));

	if (rc < 0)
		files_fail(f, WIRE_FILE_FAIL_ERRNO, -rc, append ? "append" : "write", &object,
			append ? "cannot append to" : "cannot write");
	else if (w.content.aborted)
		files_fail(f, WIRE_FILE_FAIL_ABORTED, ECANCELED, append ? "append" : "write",
			&object, "given up as asked");
	else
		files_done(f, false, 0, 0);
	content_drain(&w.content, f);
	if (w.open_fd >= 0)
		(void)close(w.open_fd);
	content_done(&w.content);
	target_done(&w.target);
}
