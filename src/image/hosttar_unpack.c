/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unpacking, theory of operation: the stream comes from a guest and may say anything, while the
 * guest, or somebody on the host, changes what is where. Every name is cleaned first (clean_path):
 * relative, no "..", the expected top. Then it is made by its last component alone, in a directory
 * that path.c opened beneath the target, and with O_EXCL or a call that follows nothing.
 *
 * A stream is written depth first, so the directories on the way to the current entry are open on a
 * stack, and get their modes and times when it leaves them: what is made in them would change the
 * times, and their modes might forbid it. An entry elsewhere is reached by its path.
 *
 * Memory: the stack, three paths, one piece of the stream, and what libarchive holds of a header.
 * Thread: the caller's, which waits.
 */
#include "image/hosttar.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <locale.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cancel.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/str.h"
#include "base/banned.h"

#define UNPACK_CHUNK (128u << 10)
/* A piece of zeros from this size on becomes a hole: less than a block would save nothing. */
#define UNPACK_HOLE 4096u

struct attrs {
	mode_t mode;
	uid_t uid;
	gid_t gid;
	struct timespec times[2];
};

struct level {
	int fd;
	size_t path_len; /* of `dirs`, with the slash behind it */
	struct attrs attrs;
};

struct unpacker {
	const struct hosttar_pipe *in;
	uint32_t flags;
	int root;
	const char *top; /* NULL: any */
	struct archive *tar;
	holt_error *error; /* of the source, more exact than libarchive's */
	struct buf path; /* of the current entry, clean */
	struct buf link; /* of its hard link's target */
	struct buf dirs; /* of the deepest level */
	size_t depth;
	struct level levels[HOSTTAR_DEPTH_MAX];
	uint8_t chunk[UNPACK_CHUNK];
};

/* ---- errors ---- */

static const char *path_text(const struct unpacker *u)
{
	return u->path.len > 0 ? (const char *)u->path.data : ".";
}

static int fail(const struct unpacker *u, int r, holt_error **reterr)
{
	err_stage(reterr, "write");
	err_object(reterr, path_text(u));
	return r;
}

static int fail_errno(const struct unpacker *u, int errnum, const char *what, holt_error **reterr)
{
	return fail(u, err_errno(reterr, errnum, "cannot %s '%s'", what, path_text(u)), reterr);
}

/* What hosttar_pack and its like in the guest never write. */
static int refuse(const char *name, const char *why, holt_error **reterr)
{
	const int r = err_make(reterr, HOLT_EPROTOCOL, "the box sent '%s', which %s", name, why);

	err_stage(reterr, "read");
	err_object(reterr, name);
	err_hint(reterr, "something in the box meddles with the copy; do not trust the box");
	return r;
}

static int fail_tar(struct unpacker *u, holt_error **reterr)
{
	const char *why = archive_error_string(u->tar);

	if (u->error)
		return err_take(reterr, take_ptr(u->error));
	if (archive_errno(u->tar) == ENOMEM)
		return err_nomem(reterr);
	const int r = err_make(reterr, HOLT_EPROTOCOL, "what the box sent is damaged: %s",
		why ? why : "unknown reason");
	err_stage(reterr, "read");
	return r;
}

static bool check_cancel(const struct unpacker *u, holt_error **reterr)
{
	if (!cancel_flag_set(u->in->cancel))
		return false;
	(void)err_make(reterr, HOLT_ECANCELLED, "the copy was cancelled");
	return true;
}

static la_ssize_t source_read(struct archive *a, void *user, const void **ret)
{
	struct unpacker *u = user;
	size_t len = 0;

	*ret = u->chunk;
	if (u->error || check_cancel(u, &u->error) ||
		u->in->read(u->in->user, u->chunk, sizeof u->chunk, &len, &u->error) < 0) {
		archive_set_error(a, EIO, "cannot read the stream");
		return ARCHIVE_FATAL;
	}
	return (la_ssize_t)len;
}

/* ---- names ---- */

static int add_component(struct buf *out, const char *name, size_t len, holt_error **reterr)
{
	int r = out->len > 0 ? buf_appends(out, "/") : 0;

	if (r == 0)
		r = buf_append(out, name, len);
	if (r == -EMSGSIZE)
		return err_make(reterr, HOLT_ELIMIT, "a path has more bytes than the limit of %d",
			HOSTTAR_PATH_MAX);
	return r < 0 ? err_nomem(reterr) : 0;
}

/* Put the components of @raw into @out, joined by single slashes; none for "." itself. */
static int clean_path(
	const struct unpacker *u, const char *raw, struct buf *out, holt_error **reterr)
{
	const char *name;
	size_t at = 0;
	size_t len = 0;
	int r = 0;

	out->len = 0;
	if (buf_appends(out, "") < 0)
		return err_nomem(reterr);
	if (!raw || !*raw)
		return refuse("", "is no name", reterr);
	if (*raw == '/')
		return refuse(raw, "is absolute", reterr);
	while (r == 0 && (name = path_next(raw, &at, &len)) != NULL) {
		if (len == 2 && memcmp(name, "..", 2) == 0)
			return refuse(raw, "leads upwards", reterr);
		if (len > NAME_MAX)
			return refuse(raw, "has too long a name in it", reterr);
		if (out->len == 0 && u->top &&
			(len != strlen(u->top) || memcmp(name, u->top, len) != 0))
			return refuse(raw, "was not asked for", reterr);
		r = add_component(out, name, len, reterr);
	}
	if (r == 0 && out->len == 0 && u->top)
		return refuse(raw, "was not asked for", reterr);
	return r;
}

/* ---- attributes ---- */

static int read_attrs(
	const struct unpacker *u, struct archive_entry *e, struct attrs *ret, holt_error **reterr)
{
	const bool owners = (u->flags & HOSTTAR_OWNERS) != 0;
	const la_int64_t uid = archive_entry_uid(e);
	const la_int64_t gid = archive_entry_gid(e);
	const long ns = archive_entry_mtime_nsec(e);

	/* The highest number means "none" to the kernel. */
	if (owners && (uid < 0 || uid >= UINT32_MAX || gid < 0 || gid >= UINT32_MAX))
		return refuse(path_text(u), "has an owner that cannot be", reterr);
	*ret = (struct attrs){.mode = archive_entry_perm(e) & (owners ? 07777 : 0777),
		.uid = (uid_t)uid,
		.gid = (gid_t)gid,
		.times = {{.tv_nsec = UTIME_OMIT},
			{.tv_sec = archive_entry_mtime(e),
				.tv_nsec = ns >= 0 && ns < 1000000000 ? ns : 0}}};
	if (!archive_entry_mtime_is_set(e))
		ret->times[1].tv_nsec = UTIME_OMIT;
	return 0;
}

/* Owner before mode, since a change of owner takes set-id bits away. */
static int set_attrs_fd(const struct unpacker *u, int fd, const struct attrs *a)
{
	if (u->flags & HOSTTAR_OWNERS && fchown(fd, a->uid, a->gid) < 0)
		return -errno;
	return fchmod(fd, a->mode) < 0 || futimens(fd, a->times) < 0 ? -errno : 0;
}

static int set_attrs_at(
	const struct unpacker *u, int dir, const char *name, bool chmod, const struct attrs *a)
{
	const int nofollow = AT_SYMLINK_NOFOLLOW;

	if (u->flags & HOSTTAR_OWNERS && fchownat(dir, name, a->uid, a->gid, nofollow) < 0)
		return -errno;
	if (chmod) {
		auto_fd fd = path_open_beneath(dir, name, O_PATH, 0);
		const int r = fd < 0 ? fd : path_chmod_fd(fd, a->mode);
		if (r < 0)
			return r;
	}
	return utimensat(dir, name, a->times, nofollow) < 0 ? -errno : 0;
}

/* ---- directories ---- */

static int level_pop(struct unpacker *u)
{
	struct level *l = &u->levels[--u->depth];
	const int r = set_attrs_fd(u, l->fd, &l->attrs);

	l->fd = fd_close(l->fd);
	return r;
}

/* Take over @fd, the directory at `path`. */
static int level_push(struct unpacker *u, int fd, const struct attrs *a, holt_error **reterr)
{
	auto_fd own = fd;

	if (u->depth == HOSTTAR_DEPTH_MAX) {
		const int r = err_make(reterr, HOLT_ELIMIT,
			"directories are more than %d levels deep", HOSTTAR_DEPTH_MAX);
		err_hint(reterr, "copy a part of the tree at a time");
		return fail(u, r, reterr);
	}
	u->dirs.len = 0;
	int r = buf_append(&u->dirs, u->path.data, u->path.len);
	if (r == 0)
		r = buf_appends(&u->dirs, "/");
	if (r < 0)
		return err_nomem(reterr);
	u->levels[u->depth++] = (struct level){
		.fd = take_fd(own), .path_len = u->dirs.len, .attrs = *a};
	return 0;
}

/* Leave all levels that are not on the way to `path`. */
static int levels_leave(struct unpacker *u, size_t parent_len, holt_error **reterr)
{
	while (u->depth > 0) {
		const size_t len = u->levels[u->depth - 1].path_len;
		if (len <= parent_len && memcmp(u->dirs.data, u->path.data, len) == 0)
			break;
		const int r = level_pop(u);
		if (r < 0)
			return fail_errno(u, -r, "finish the directory before", reterr);
	}
	return 0;
}

/* Whether an open failed since there is no such directory; a link or file in its place is none. */
static bool is_absent(int fd)
{
	return fd == -ENOENT || fd == -ELOOP || fd == -ENOTDIR;
}

/* The directory for `path`, borrowed, or owned as *ret_own; *ret_name is the last component. */
static int parent_open(struct unpacker *u, int *ret_own, const char **ret_name, holt_error **reterr)
{
	const char *path = path_text(u);
	const char *slash = strrchr(path, '/');
	const size_t parent_len = slash ? (size_t)(slash - path) + 1 : 0;
	const int r = levels_leave(u, parent_len, reterr);

	if (r < 0)
		return r;
	const struct level *l = u->depth > 0 ? &u->levels[u->depth - 1] : NULL;
	const size_t done = l ? l->path_len : 0;
	const int from = l ? l->fd : u->root;
	*ret_name = path + parent_len;
	if (done == parent_len)
		return from;
	const int fd = path_parent_beneath(from, path + done, ret_name);
	if (is_absent(fd))
		return refuse(path, "is in no directory that it sent", reterr);
	if (fd < 0)
		return fail_errno(u, -fd, "open the directory of", reterr);
	*ret_own = fd;
	return fd;
}

/* Make the directory, or find that it is there. */
static int dir_make(
	const struct unpacker *u, int dir, const char *name, bool *ret_fresh, holt_error **reterr)
{
	struct stat st;

	*ret_fresh = mkdirat(dir, name, 0700) == 0;
	if (*ret_fresh)
		return 0;
	if (errno != EEXIST)
		return fail_errno(u, errno, "make the directory", reterr);
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return fail_errno(u, errno, "look at", reterr);
	if (S_ISDIR(st.st_mode))
		return 0;
	return fail(u,
		err_make(reterr, HOLT_EINVALID, "'%s' is a directory in the box and %s here",
			path_text(u), S_ISLNK(st.st_mode) ? "a link" : "a file"),
		reterr);
}

static int dir_open(int dir, const char *name, bool fresh)
{
	const int fd = path_open_beneath(dir, name, O_RDONLY | O_DIRECTORY, 0);

	if (fd != -EACCES || !fresh)
		return fd;
	/* An umask that takes the owner's own rights. */
	auto_fd path_fd = path_open_beneath(dir, name, O_PATH | O_DIRECTORY, 0);
	const int r = path_fd < 0 ? path_fd : path_chmod_fd(path_fd, 0700);
	return r < 0 ? r : path_open_beneath(dir, name, O_RDONLY | O_DIRECTORY, 0);
}

static int make_dir(
	struct unpacker *u, int dir, const char *name, const struct attrs *a, holt_error **reterr)
{
	bool fresh = false;
	const int r = dir_make(u, dir, name, &fresh, reterr);

	if (r < 0)
		return r;
	const int fd = dir_open(dir, name, fresh);
	return fd < 0 ? fail_errno(u, -fd, "open the directory", reterr)
		      : level_push(u, fd, a, reterr);
}

/* ---- everything else ---- */

/* Take away what stands where an entry goes. */
static int clear_way(const struct unpacker *u, int dir, const char *name, holt_error **reterr)
{
	if (unlinkat(dir, name, 0) == 0 || errno == ENOENT)
		return 0;
	if (errno == EISDIR)
		return fail(u,
			err_make(reterr, HOLT_EINVALID,
				"'%s' is a file in the box and a directory here", path_text(u)),
			reterr);
	return fail_errno(u, errno, "replace", reterr);
}

static bool is_zero(const uint8_t *data, size_t len)
{
	return data[0] == 0 && memcmp(data, data + 1, len - 1) == 0;
}

static int write_piece(int fd, const uint8_t *data, size_t len, off_t offset)
{
	if (len >= UNPACK_HOLE && is_zero(data, len))
		return 0;
	while (len > 0) {
		const ssize_t n = pwrite(fd, data, len, offset);
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n > 0) {
			data += n;
			len -= (size_t)n;
			offset += n;
		}
	}
	return 0;
}

/* Pieces come in order; what lies between them, and behind the last, is a hole. */
static int write_data(struct unpacker *u, int fd, la_int64_t size, holt_error **reterr)
{
	for (;;) {
		const void *data = NULL;
		size_t len = 0;
		la_int64_t offset = 0;
		const int code = archive_read_data_block(u->tar, &data, &len, &offset);

		if (code == ARCHIVE_EOF)
			break;
		if (code < ARCHIVE_WARN)
			return fail_tar(u, reterr);
		if (offset < 0 || offset > size || (la_int64_t)len > size - offset)
			return refuse(path_text(u), "is larger than it says", reterr);
		const int r = write_piece(fd, data, len, offset);
		if (r < 0)
			return fail_errno(u, -r, "write", reterr);
	}
	return ftruncate(fd, size) < 0 ? fail_errno(u, errno, "write", reterr) : 0;
}

static int make_file(struct unpacker *u, int dir, const char *name, struct archive_entry *e,
	const struct attrs *a, holt_error **reterr)
{
	int r = clear_way(u, dir, name, reterr);

	if (r < 0)
		return r;
	const int fd = path_open_beneath(dir, name, O_WRONLY | O_CREAT | O_EXCL, 0600);
	if (fd < 0)
		return fail_errno(u, -fd, "make", reterr);
	r = write_data(u, fd, archive_entry_size(e), reterr);
	if (r == 0) {
		const int set = set_attrs_fd(u, fd, a);
		r = set < 0 ? fail_errno(u, -set, "set owner, mode and time of", reterr) : 0;
	}
	/* Some file systems tell of a full disk only now. */
	if (close(fd) < 0 && r == 0)
		r = fail_errno(u, errno, "write", reterr);
	if (r < 0)
		(void)unlinkat(dir, name, 0);
	return r;
}

static int make_special(struct unpacker *u, int dir, const char *name, const char *target,
	const struct attrs *a, holt_error **reterr)
{
	int r = clear_way(u, dir, name, reterr);

	if (r < 0)
		return r;
	r = target ? symlinkat(target, dir, name) : mkfifoat(dir, name, 0600);
	if (r < 0)
		return fail_errno(u, errno, target ? "make the link" : "make the fifo", reterr);
	r = set_attrs_at(u, dir, name, !target, a);
	return r < 0 ? fail_errno(u, -r, "set owner, mode and time of", reterr) : 0;
}

static int make_hardlink(
	struct unpacker *u, int dir, const char *name, const char *raw, holt_error **reterr)
{
	const char *target = NULL;
	int r = clean_path(u, raw, &u->link, reterr);

	if (r < 0)
		return r;
	/* A link to itself: nothing may be taken away for it. */
	if (u->link.len == u->path.len && memcmp(u->link.data, u->path.data, u->path.len) == 0)
		return 0;
	auto_fd from = path_parent_beneath(u->root, (const char *)u->link.data, &target);
	if (is_absent(from))
		return refuse(raw, "is linked to but was not sent", reterr);
	if (from < 0)
		return fail_errno(u, -from, "make the hard link", reterr);
	if (linkat(from, target, dir, name, 0) == 0)
		return 0;
	if (errno == ENOENT)
		return refuse(raw, "is linked to but was not sent", reterr);
	if (errno != EEXIST)
		return fail_errno(u, errno, "make the hard link", reterr);
	r = clear_way(u, dir, name, reterr);
	if (r == 0 && linkat(from, target, dir, name, 0) < 0)
		r = fail_errno(u, errno, "make the hard link", reterr);
	return r;
}

/* ---- the stream ---- */

static int unpack_entry(struct unpacker *u, struct archive_entry *e, holt_error **reterr)
{
	auto_fd own = FD_NONE;
	struct attrs a = {0};
	const char *name = NULL;
	const char *hardlink = archive_entry_hardlink(e);
	int r = clean_path(u, archive_entry_pathname(e), &u->path, reterr);

	if (r < 0 || u->path.len == 0)
		return r;
	const int dir = parent_open(u, &own, &name, reterr);
	if (dir < 0)
		return dir;
	if (hardlink)
		return make_hardlink(u, dir, name, hardlink, reterr);
	r = read_attrs(u, e, &a, reterr);
	if (r < 0)
		return r;
	switch (archive_entry_filetype(e)) {
	case AE_IFREG:
		return make_file(u, dir, name, e, &a, reterr);
	case AE_IFDIR:
		return make_dir(u, dir, name, &a, reterr);
	case AE_IFLNK:
		if (!archive_entry_symlink(e) || !*archive_entry_symlink(e))
			return refuse(path_text(u), "links to nothing", reterr);
		return make_special(u, dir, name, archive_entry_symlink(e), &a, reterr);
	case AE_IFIFO:
		return make_special(u, dir, name, NULL, &a, reterr);
	default:
		return 0;
	}
}

static int unpack_all(struct unpacker *u, holt_error **reterr)
{
	int r = 0;

	if (archive_read_open(u->tar, u, NULL, source_read, NULL) != ARCHIVE_OK)
		return fail_tar(u, reterr);
	while (r == 0) {
		struct archive_entry *e = NULL;
		const int code = archive_read_next_header(u->tar, &e);

		if (code == ARCHIVE_EOF)
			break;
		/* A warning comes with every name that is not ASCII. */
		if (code < ARCHIVE_WARN)
			return fail_tar(u, reterr);
		r = check_cancel(u, reterr) ? -HOLT_ECANCELLED : unpack_entry(u, e, reterr);
	}
	return r;
}

/* The directories that are open yet get their modes also after an error. */
static int finish(struct unpacker *u, int r, holt_error **reterr)
{
	while (u->depth > 0) {
		const int popped = level_pop(u);
		if (popped < 0 && r == 0)
			r = fail_errno(u, -popped, "finish the directories of", reterr);
	}
	return r;
}

static void unpacker_free(struct unpacker *u)
{
	if (u->tar)
		(void)archive_read_free(u->tar);
	buf_done(&u->path);
	buf_done(&u->link);
	buf_done(&u->dirs);
	holt_error_free(u->error);
	mem_free(u);
}

int hosttar_unpack(int dirfd, const char *top, uint32_t flags, const struct hosttar_pipe *in,
	holt_error **reterr)
{
	struct unpacker *u = mem_zalloc(sizeof *u);
	const locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
	int r = -HOLT_ENO_MEMORY;

	if (u && c_locale) {
		*u = (struct unpacker){.in = in,
			.flags = flags,
			.root = dirfd,
			.top = strcmp(top, ".") == 0 ? NULL : top,
			.tar = archive_read_new(),
			.path = BUF_INIT(HOSTTAR_PATH_MAX),
			.link = BUF_INIT(HOSTTAR_PATH_MAX),
			.dirs = BUF_INIT(HOSTTAR_PATH_MAX + 1)};
	}
	if (!u || !c_locale || !u->tar) {
		(void)err_nomem(reterr);
	} else {
		const locale_t old = uselocale(c_locale);
		(void)archive_read_support_format_tar(u->tar);
		(void)archive_read_support_format_empty(u->tar);
		r = finish(u, unpack_all(u, reterr), reterr);
		(void)uselocale(old);
	}
	if (u)
		unpacker_free(u);
	if (c_locale)
		freelocale(c_locale);
	return r;
}
