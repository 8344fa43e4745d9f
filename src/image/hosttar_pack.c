/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packing, theory of operation: the tree is walked with a stack of open directories, never by
 * paths, so that a path may be of any length and nothing that is swapped meanwhile leads out of the
 * tree. A name's type is looked at once more on its open descriptor. `path` is the name of the
 * current entry in the stream; every level knows how much of it is its own.
 *
 * The tree may change while it is read: what vanishes is left out, what grows is cut at the size
 * that its header told, and what shrinks is an error, since the copy would have a false end.
 *
 * libarchive writes in blocks of PACK_CHUNK to `sink_write`; an error there is kept in `error`.
 * Thread: the caller's, which waits.
 */
#include "image/hosttar.h"

#include <archive.h>
#include <archive_entry.h>
#include <dirent.h>
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
#include "base/hash.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/str.h"
#include "base/banned.h"

#define PACK_CHUNK    65536
#define LINK_KEY_SIZE (sizeof(dev_t) + sizeof(ino_t))

struct level {
	DIR *dir;
	size_t path_len; /* of the directory itself, with its slash */
};

/* The first name of a file that has several. */
struct link {
	uint8_t key[LINK_KEY_SIZE];
	char *path;
	bool hash_oom;
	UT_hash_handle hh;
};

struct packer {
	const struct hosttar_pipe *out;
	uint32_t flags;
	struct archive *tar;
	struct archive_entry *entry;
	holt_error *error; /* of the sink, more exact than libarchive's */
	bool ended;
	struct buf path;
	struct link *links;
	size_t depth;
	struct level levels[HOSTTAR_DEPTH_MAX];
	uint8_t chunk[PACK_CHUNK];
};

static bool is_cancelled(const struct packer *p)
{
	return cancel_flag_set(p->out->cancel);
}

static la_ssize_t sink_write(struct archive *a, void *user, const void *data, size_t len)
{
	struct packer *p = user;

	if (is_cancelled(p) && !p->error && !p->ended)
		(void)err_make(&p->error, HOLT_ECANCELLED, "the copy was cancelled");
	if (!p->error && !p->ended && p->out->write(p->out->user, data, len, &p->error) == 0)
		return (la_ssize_t)len;
	archive_set_error(a, EIO, "cannot write the stream");
	return ARCHIVE_FATAL;
}

static const char *path_text(const struct packer *p)
{
	return p->path.data ? (const char *)p->path.data : "";
}

/* The current entry's name goes with every error. */
static int fail(const struct packer *p, int r, holt_error **reterr)
{
	err_stage(reterr, "read");
	err_object(reterr, path_text(p));
	return r;
}

static int fail_errno(const struct packer *p, int errnum, const char *what, holt_error **reterr)
{
	return fail(p, err_errno(reterr, errnum, "cannot %s '%s'", what, path_text(p)), reterr);
}

static int fail_tar(struct packer *p, holt_error **reterr)
{
	const char *why = archive_error_string(p->tar);

	if (p->error)
		return err_take(reterr, take_ptr(p->error));
	if (archive_errno(p->tar) == ENOMEM)
		return err_nomem(reterr);
	return fail(p,
		err_make(reterr, HOLT_EIO, "cannot pack '%s': %s", path_text(p),
			why ? why : "unknown reason"),
		reterr);
}

/* Set the path to the first @keep bytes of it and @name. */
static int path_set(struct packer *p, size_t keep, const char *name, holt_error **reterr)
{
	p->path.len = keep;
	const int r = buf_appends(&p->path, name);
	if (r == -EMSGSIZE)
		return fail(p,
			err_make(reterr, HOLT_ELIMIT, "a path has more bytes than the limit of %d",
				HOSTTAR_PATH_MAX),
			reterr);
	return r < 0 ? err_nomem(reterr) : 0;
}

/* The name under which this file is in the stream already, or NULL; then it is remembered. */
static const char *link_find(struct packer *p, const struct stat *st)
{
	uint8_t key[LINK_KEY_SIZE];
	struct link *l;

	memcpy(key, &st->st_dev, sizeof st->st_dev);
	memcpy(key + sizeof st->st_dev, &st->st_ino, sizeof st->st_ino);
	HASH_FIND(hh, p->links, key, sizeof key, l);
	if (l || HASH_COUNT(p->links) >= HOSTTAR_LINKS_MAX)
		return l ? l->path : NULL;
	l = mem_zalloc(sizeof *l);
	char *path = str_dup(path_text(p));
	if (l && path) {
		memcpy(l->key, key, sizeof key);
		l->path = path;
		HASH_ADD(hh, p->links, key, sizeof l->key, l);
		if (!l->hash_oom)
			return NULL;
	}
	/* Without memory for it the file is copied once more. */
	mem_free(l);
	mem_free(path);
	return NULL;
}

static void links_free(struct packer *p)
{
	struct link *l;
	struct link *next;

	HASH_ITER (hh, p->links, l, next) {
		HASH_DELETE(hh, p->links, l);
		mem_free(l->path);
		mem_free(l);
	}
}

static int write_header(struct packer *p, const struct stat *st, const char *symlink,
	const char *hardlink, holt_error **reterr)
{
	const bool owners = (p->flags & HOSTTAR_OWNERS) != 0;
	struct archive_entry *e = archive_entry_clear(p->entry);

	archive_entry_set_pathname(e, path_text(p));
	archive_entry_set_filetype(e, st->st_mode & S_IFMT);
	archive_entry_set_perm(e, st->st_mode & (owners ? 07777 : 0777));
	archive_entry_set_uid(e, owners ? st->st_uid : 0);
	archive_entry_set_gid(e, owners ? st->st_gid : 0);
	archive_entry_set_mtime(e, st->st_mtim.tv_sec, st->st_mtim.tv_nsec);
	archive_entry_set_size(e, S_ISREG(st->st_mode) && !hardlink ? st->st_size : 0);
	if (symlink)
		archive_entry_set_symlink(e, symlink);
	if (hardlink)
		archive_entry_set_hardlink(e, hardlink);
	return archive_write_header(p->tar, e) < ARCHIVE_WARN ? fail_tar(p, reterr) : 0;
}

static int write_data(struct packer *p, int fd, uint64_t size, holt_error **reterr)
{
	while (size > 0) {
		const size_t want = size < PACK_CHUNK ? (size_t)size : PACK_CHUNK;
		const ssize_t n = fd_read_full(fd, p->chunk, want);
		if (n < 0)
			return fail_errno(p, (int)-n, "read", reterr);
		if ((size_t)n < want)
			return fail(p,
				err_make(reterr, HOLT_EIO, "'%s' shrank while it was copied",
					path_text(p)),
				reterr);
		if (archive_write_data(p->tar, p->chunk, want) < 0)
			return fail_tar(p, reterr);
		size -= want;
	}
	return 0;
}

/* For what is beneath the top: gone, or another thing by now, is nothing to copy. */
static bool is_gone(const struct packer *p, int errnum)
{
	return p->depth > 0 && (errnum == ENOENT || errnum == ELOOP || errnum == ENOTDIR);
}

static int pack_file(struct packer *p, int dirfd, const char *name, holt_error **reterr)
{
	struct stat st;
	/* Not blocking, should it be a fifo by now. */
	auto_fd fd = path_open_beneath(dirfd, name, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);

	if (fd < 0)
		return is_gone(p, -fd) ? 0 : fail_errno(p, -fd, "open", reterr);
	if (fstat(fd, &st) < 0)
		return fail_errno(p, errno, "read", reterr);
	if (!S_ISREG(st.st_mode))
		return 0;
	const char *first = st.st_nlink > 1 ? link_find(p, &st) : NULL;
	const int r = write_header(p, &st, NULL, first, reterr);
	return r < 0 || first ? r : write_data(p, fd, (uint64_t)st.st_size, reterr);
}

static int pack_symlink(
	struct packer *p, int dirfd, const char *name, const struct stat *st, holt_error **reterr)
{
	char target[PATH_MAX];
	const ssize_t n = readlinkat(dirfd, name, target, sizeof target - 1);

	if (n < 0)
		return is_gone(p, errno) || errno == EINVAL
			       ? 0
			       : fail_errno(p, errno, "read the link", reterr);
	target[n] = 0;
	return write_header(p, st, target, NULL, reterr);
}

/* Take over @fd as the next level. */
static int level_push(struct packer *p, int fd, holt_error **reterr)
{
	if (p->depth == HOSTTAR_DEPTH_MAX) {
		(void)fd_close(fd);
		const int r = err_make(reterr, HOLT_ELIMIT,
			"directories are more than %d levels deep", HOSTTAR_DEPTH_MAX);
		err_hint(reterr, "copy a part of the tree at a time");
		return fail(p, r, reterr);
	}
	DIR *dir = fdopendir(fd);
	if (!dir) {
		const int errnum = errno;
		(void)fd_close(fd);
		return fail_errno(p, errnum, "read", reterr);
	}
	p->levels[p->depth++] = (struct level){.dir = dir, .path_len = p->path.len};
	return 0;
}

/* @listed: the directory has an entry of its own; otherwise only what is inside. */
static int pack_dir(struct packer *p, int dirfd, const char *name, bool listed, holt_error **reterr)
{
	struct stat st;
	const int fd = path_open_beneath(dirfd, name, O_RDONLY | O_DIRECTORY, 0);
	int r = 0;

	if (fd < 0)
		return is_gone(p, -fd) ? 0 : fail_errno(p, -fd, "open", reterr);
	if (listed) {
		r = fstat(fd, &st) < 0 ? fail_errno(p, errno, "read", reterr)
				       : path_set(p, p->path.len, "/", reterr);
		if (r == 0)
			r = write_header(p, &st, NULL, NULL, reterr);
	} else {
		p->path.len = 0;
	}
	if (r < 0) {
		(void)fd_close(fd);
		return r;
	}
	return level_push(p, fd, reterr);
}

static int pack_entry(struct packer *p, int dirfd, const char *name, holt_error **reterr)
{
	struct stat st;

	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return is_gone(p, errno) ? 0 : fail_errno(p, errno, "read", reterr);
	switch (st.st_mode & S_IFMT) {
	case S_IFREG:
		return pack_file(p, dirfd, name, reterr);
	case S_IFDIR:
		return pack_dir(p, dirfd, name, true, reterr);
	case S_IFLNK:
		return pack_symlink(p, dirfd, name, &st, reterr);
	case S_IFIFO:
		return write_header(p, &st, NULL, NULL, reterr);
	default:
		return 0;
	}
}

/* One name of the deepest directory; at its end, back to the one above. */
static int pack_step(struct packer *p, holt_error **reterr)
{
	const struct level *l = &p->levels[p->depth - 1];

	if (is_cancelled(p))
		return err_make(reterr, HOLT_ECANCELLED, "the copy was cancelled");
	errno = 0;
	const struct dirent *d = readdir(l->dir); /* NOLINT(concurrency-mt-unsafe) own stream */
	if (!d && errno) {
		const int errnum = errno;
		(void)path_set(p, l->path_len, "", NULL);
		return fail_errno(p, errnum, "read", reterr);
	}
	if (!d) {
		(void)closedir(l->dir);
		p->depth--;
		return 0;
	}
	if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
		return 0;
	const int r = path_set(p, l->path_len, d->d_name, reterr);
	return r < 0 ? r : pack_entry(p, dirfd(l->dir), d->d_name, reterr);
}

static int pack_top(
	struct packer *p, int dirfd, const char *name, const char *as, holt_error **reterr)
{
	const int r = path_set(p, 0, as, reterr);

	if (r < 0)
		return r;
	return strcmp(as, ".") == 0 ? pack_dir(p, dirfd, name, false, reterr)
				    : pack_entry(p, dirfd, name, reterr);
}

static int packer_open(struct packer *p, holt_error **reterr)
{
	p->tar = archive_write_new();
	p->entry = archive_entry_new();
	if (!p->tar || !p->entry)
		return err_nomem(reterr);
	(void)archive_write_set_format_pax(p->tar);
	/* Names are bytes, not text in some charset. */
	(void)archive_write_set_format_option(p->tar, "pax", "hdrcharset", "BINARY");
	(void)archive_write_add_filter_none(p->tar);
	(void)archive_write_set_bytes_per_block(p->tar, PACK_CHUNK);
	(void)archive_write_set_bytes_in_last_block(p->tar, 1);
	return archive_write_open(p->tar, p, NULL, sink_write, NULL) != ARCHIVE_OK
		       ? fail_tar(p, reterr)
		       : 0;
}

static void packer_free(struct packer *p)
{
	while (p->depth > 0)
		(void)closedir(p->levels[--p->depth].dir);
	/* After an error nothing more goes out, but only closing frees libarchive's buffer. */
	p->ended = true;
	if (p->tar) {
		(void)archive_write_close(p->tar);
		(void)archive_write_free(p->tar);
	}
	if (p->entry)
		archive_entry_free(p->entry);
	links_free(p);
	buf_done(&p->path);
	holt_error_free(p->error);
	mem_free(p);
}

int hosttar_pack(int dirfd, const char *name, const char *as, uint32_t flags,
	const struct hosttar_pipe *out, holt_error **reterr)
{
	struct packer *p = mem_zalloc(sizeof *p);
	const locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
	int r = 0;

	if (!p || !c_locale) {
		mem_free(p);
		if (c_locale)
			freelocale(c_locale);
		return err_nomem(reterr);
	}
	p->out = out;
	p->flags = flags;
	p->path = BUF_INIT(HOSTTAR_PATH_MAX);
	const locale_t old = uselocale(c_locale);
	r = packer_open(p, reterr);
	if (r == 0)
		r = pack_top(p, dirfd, name, as, reterr);
	while (r == 0 && p->depth > 0)
		r = pack_step(p, reterr);
	if (r == 0 && archive_write_close(p->tar) != ARCHIVE_OK)
		r = fail_tar(p, reterr);
	packer_free(p);
	(void)uselocale(old);
	freelocale(c_locale);
	return r;
}
