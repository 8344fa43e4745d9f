/* SPDX-License-Identifier: Apache-2.0 */
#include "image/tarfile.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <inttypes.h>
#include <locale.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/banned.h"

/*
 * Layers, by two of libarchive's readers in a row: `raw` takes the compression off, `tar` takes the
 * result apart. Between them the stream passes through stream_read, where it
 * is hashed (the diff_id of a layer) and counted; the bytes of the file are hashed in source_read.
 * Without compression both are the same bytes and hashed once.
 * No piece is copied on the way unless libarchive has to join two.
 *
 * libarchive converts names by the locale of the thread. Every call that may do so runs under the C
 * locale (locale_enter / locale_leave): names then are bytes; for PAX headers in UTF-8 it warns
 * that it could not convert, and hands the bytes over unchanged.
 *
 * gzip files of several members and zstd files of several frames are one stream. Skippable frames
 * before the first zstd frame are left out here, since libarchive would not know the file then.
 */

#define SOURCE_CHUNK_BYTES (1u << 20)
#define SPOOL_CHECK_BYTES  (16u << 20) /* written between two looks at the free space */
#define SPOOL_FREE_MIN     (64u << 20) /* bytes that stay free, as ROOTFS_FREE_MIN */

#define ZSTD_MAGIC       0xfd2fb528u
#define ZSTD_SKIP_MAGIC  0x184d2a50u /* the low four bits are free */
#define ZSTD_SKIP_HEADER 8

struct tar_reader {
	struct tar_source src;
	struct tar_watch *watch;
	struct archive *raw;
	struct archive *tar;
	locale_t c_locale;
	uint8_t *chunk;
	uint64_t at; /* bytes of the source read so far */
	uint64_t skip; /* of which libarchive does not get the first ones */
	struct digest_ctx *source_digest;
	struct digest_ctx *stream_digest;
	uint64_t stream_bytes;
	uint64_t stream_nonzero; /* position behind the last byte that is not zero */
	bool stream_eof;
	bool compressed;
	bool end_mark;
	holt_error *error; /* of a callback, more exact than libarchive's */
	struct tar_xattr xattrs[TAR_XATTRS_MAX];
};

static locale_t locale_enter(const struct tar_reader *r)
{
	return uselocale(r->c_locale);
}

static void locale_leave(locale_t old)
{
	(void)uselocale(old);
}

static bool is_cancelled(struct tar_reader *r)
{
	return r->watch && cancel_flag_set(r->watch->cancel);
}

/* Wait until the source has bytes at @at; *len of them at most, and no more than there are. */
static int source_wait(struct tar_reader *r, uint64_t at, size_t *len)
{
	uint64_t have = 0;
	holt_error *error = NULL;

	if (!r->src.wait)
		return 0;
	const int code = r->src.wait(r->src.user, at, &have, &error);
	if (code < 0) {
		if (r->error)
			holt_error_free(error);
		else
			r->error = error;
		return code;
	}
	if (have - at < *len)
		*len = (size_t)(have - at);
	return 0;
}

/* Read the next chunk of the source: its length, 0 at the end, or -1 with r->error. */
static ssize_t source_chunk(struct tar_reader *r, const void **ret)
{
	const uint64_t left = r->src.size - r->at;
	size_t n = left < SOURCE_CHUNK_BYTES ? (size_t)left : SOURCE_CHUNK_BYTES;

	if (is_cancelled(r)) {
		if (!r->error)
			(void)err_make(&r->error, HOLT_ECANCELLED, "the import was cancelled");
		return -1;
	}
	if (r->src.data) {
		*ret = (const uint8_t *)r->src.data + r->src.offset + r->at;
	} else if (n > 0) {
		ssize_t got;
		if (source_wait(r, r->at, &n) < 0)
			return -1;
		do {
			got = pread(r->src.fd, r->chunk, n, (off_t)(r->src.offset + r->at));
		} while (got < 0 && errno == EINTR);
		if (got <= 0) {
			if (!r->error)
				(void)err_errno(&r->error, got < 0 ? errno : EIO,
					"cannot read the archive");
			return -1;
		}
		n = (size_t)got;
		*ret = r->chunk;
	}
	digest_update(r->source_digest, *ret, n);
	r->at += n;
	if (r->watch && n > 0) {
		r->watch->done += n;
		if (r->watch->progress)
			r->watch->progress(r->watch->done, r->watch->total, r->watch->user);
	}
	return (ssize_t)n;
}

static la_ssize_t source_read(struct archive *a, void *user, const void **ret)
{
	struct tar_reader *r = user;

	*ret = NULL;
	for (;;) {
		const uint64_t from = r->at;
		const void *data = NULL;
		const ssize_t n = source_chunk(r, &data);
		if (n < 0) {
			archive_set_error(a, EIO, "cannot read the source");
			return ARCHIVE_FATAL;
		}
		if (n > 0 && r->at <= r->skip)
			continue;
		const size_t drop = from < r->skip ? (size_t)(r->skip - from) : 0;
		*ret = n > 0 ? (const uint8_t *)data + drop : NULL;
		return n - (ssize_t)drop;
	}
}

/* Position behind the last byte that is not zero, 0 where all are. */
static size_t last_nonzero(const uint8_t *data, size_t len)
{
	while (len > 0 && data[len - 1] == 0)
		len--;
	return len;
}

static int fail(struct tar_reader *r, struct archive *a, const char *what, holt_error **reterr)
{
	char text[512];
	const char *why = archive_error_string(a);

	if (r->error) {
		const int code = err_take(reterr, r->error);
		r->error = NULL;
		return code;
	}
	if (archive_errno(a) == ENOMEM)
		return err_nomem(reterr);
	(void)str_escape(text, sizeof text, why ? why : "unknown reason",
		strlen(why ? why : "unknown reason"), false);
	return err_make(reterr, HOLT_EINVALID, "%s: %s", what, text);
}

/* The next piece of the decompressed stream: its length, 0 at the end, -1 with r->error. */
static ssize_t stream_piece(struct tar_reader *r, const void **ret)
{
	const void *data = NULL;
	size_t len = 0;
	la_int64_t offset = 0;

	while (!r->stream_eof && len == 0) {
		const int code = archive_read_data_block(r->raw, &data, &len, &offset);
		if (code == ARCHIVE_EOF) {
			r->stream_eof = true;
			break;
		}
		if (code < ARCHIVE_WARN) {
			if (!r->error)
				(void)fail(r, r->raw, "cannot decompress the archive", &r->error);
			return -1;
		}
	}
	if (r->stream_eof)
		return 0;
	if (r->compressed)
		digest_update(r->stream_digest, data, len);
	const size_t nonzero = last_nonzero(data, len);
	if (nonzero > 0)
		r->stream_nonzero = r->stream_bytes + nonzero;
	r->stream_bytes += len;
	const uint64_t most = r->src.stream_max ? r->src.stream_max : TAR_STREAM_MAX;
	if (r->stream_bytes > most) {
		(void)err_make(&r->error, HOLT_ELIMIT,
			"the archive has more than %" PRIu64 " bytes when decompressed", most);
		return -1;
	}
	*ret = data;
	return (ssize_t)len;
}

static la_ssize_t stream_read(struct archive *a, void *user, const void **ret)
{
	*ret = NULL;
	const ssize_t n = stream_piece(user, ret);

	if (n < 0) {
		archive_set_error(a, EIO, "cannot read the stream");
		return ARCHIVE_FATAL;
	}
	return n;
}

/* Peek at the source without counting. */
static size_t source_peek(struct tar_reader *r, uint64_t at, void *dst, size_t len)
{
	size_t last = 1;

	if (at >= r->src.size || r->src.size - at < len)
		return 0;
	if (r->src.data) {
		memcpy(dst, (const uint8_t *)r->src.data + r->src.offset + at, len);
		return len;
	}
	if (source_wait(r, at + len - 1, &last) < 0)
		return 0;
	return pread(r->src.fd, dst, len, (off_t)(r->src.offset + at)) == (ssize_t)len ? len : 0;
}

static uint32_t le32(const uint8_t *p)
{
	return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static void find_skippable_frames(struct tar_reader *r)
{
	uint8_t head[ZSTD_SKIP_HEADER];
	uint64_t at = 0;

	while (source_peek(r, at, head, sizeof head) > 0 && (le32(head) & ~15u) == ZSTD_SKIP_MAGIC)
		at += ZSTD_SKIP_HEADER + (uint64_t)le32(head + 4);
	if (at > 0 && source_peek(r, at, head, 4) > 0 && le32(head) == ZSTD_MAGIC)
		r->skip = at;
}

static int open_raw(struct tar_reader *r, holt_error **reterr)
{
	struct archive_entry *entry;

	find_skippable_frames(r);
	(void)archive_read_support_filter_gzip(r->raw);
	(void)archive_read_support_filter_zstd(r->raw);
	(void)archive_read_support_filter_xz(r->raw);
	(void)archive_read_support_format_raw(r->raw);
	(void)archive_read_support_format_empty(r->raw);
	if (archive_read_open(r->raw, r, NULL, source_read, NULL) != ARCHIVE_OK)
		return fail(r, r->raw, "cannot read the archive", reterr);
	r->compressed = archive_filter_count(r->raw) > 1;
	const int code = archive_read_next_header(r->raw, &entry);
	if (code == ARCHIVE_EOF)
		r->stream_eof = true;
	else if (code != ARCHIVE_OK)
		return fail(r, r->raw, "cannot read the archive", reterr);
	return 0;
}

static int open_tar(struct tar_reader *r, holt_error **reterr)
{
	(void)archive_read_support_format_tar(r->tar);
	(void)archive_read_support_format_empty(r->tar);
	if (archive_read_open(r->tar, r, NULL, stream_read, NULL) != ARCHIVE_OK)
		return fail(r, r->tar, "it is not a tar archive", reterr);
	return 0;
}

static struct tar_reader *reader_new(const struct tar_source *src, struct tar_watch *watch)
{
	struct tar_reader *r = mem_zalloc(sizeof *r);

	if (!r)
		return NULL;
	r->src = *src;
	r->watch = watch;
	r->c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
	r->raw = archive_read_new();
	r->tar = archive_read_new();
	r->chunk = src->data ? NULL : mem_zalloc(SOURCE_CHUNK_BYTES);
	r->source_digest = digest_new();
	r->stream_digest = digest_new();
	if (r->c_locale && r->raw && r->tar && (src->data || r->chunk) && r->source_digest &&
		r->stream_digest)
		return r;
	tar_close(r);
	return NULL;
}

int tar_open(const struct tar_source *src, struct tar_watch *watch, struct tar_reader **ret,
	holt_error **reterr)
{
	struct tar_reader *r = reader_new(src, watch);

	if (!r)
		return err_nomem(reterr);
	const locale_t old = locale_enter(r);
	int code = open_raw(r, reterr);
	if (code == 0)
		code = open_tar(r, reterr);
	locale_leave(old);
	if (code < 0) {
		tar_close(r);
		return code;
	}
	*ret = r;
	return 0;
}

void tar_close(struct tar_reader *r)
{
	if (!r)
		return;
	if (r->tar)
		(void)archive_read_free(r->tar);
	if (r->raw)
		(void)archive_read_free(r->raw);
	if (r->c_locale)
		freelocale(r->c_locale);
	mem_free(r->chunk);
	digest_free(r->source_digest);
	digest_free(r->stream_digest);
	holt_error_free(r->error);
	mem_free(r);
}

static int read_xattrs(
	struct tar_reader *r, struct archive_entry *entry, size_t *ret_n, holt_error **reterr)
{
	size_t n = 0;
	const char *name;
	const void *value;
	size_t size;

	(void)archive_entry_xattr_reset(entry);
	while (archive_entry_xattr_next(entry, &name, &value, &size) == ARCHIVE_OK) {
		if (n == TAR_XATTRS_MAX)
			return err_make(reterr, HOLT_ELIMIT,
				"an entry has more than %d extended attributes", TAR_XATTRS_MAX);
		if (size > TAR_XATTR_MAX)
			return err_make(reterr, HOLT_ELIMIT,
				"an extended attribute has %zu bytes, more than the limit of %u",
				size, TAR_XATTR_MAX);
		if (name)
			r->xattrs[n++] = (struct tar_xattr){name, value, size};
	}
	*ret_n = n;
	return 0;
}

static bool too_long(const char *s)
{
	return s && strlen(s) > TAR_PATH_MAX;
}

static int convert(struct tar_reader *r, struct archive_entry *entry, struct tar_entry *ret,
	holt_error **reterr)
{
	struct tar_entry e = {
		.path = archive_entry_pathname(entry),
		.hardlink = archive_entry_hardlink(entry),
		.symlink = archive_entry_symlink(entry),
		.mode = archive_entry_filetype(entry) | archive_entry_perm(entry),
		.uid = archive_entry_uid(entry),
		.gid = archive_entry_gid(entry),
		.mtime_s = archive_entry_mtime_is_set(entry) ? archive_entry_mtime(entry) : 0,
		.dev_major = (uint32_t)archive_entry_rdevmajor(entry),
		.dev_minor = (uint32_t)archive_entry_rdevminor(entry),
		.size = archive_entry_size_is_set(entry) ? (uint64_t)archive_entry_size(entry) : 0,
		.xattrs = r->xattrs,
		.acl = archive_entry_acl_types(entry) != 0,
	};

	if (!e.path || !*e.path)
		return err_make(reterr, HOLT_EINVALID, "an entry has no name");
	if (too_long(e.path) || too_long(e.hardlink) || too_long(e.symlink))
		return err_make(reterr, HOLT_ELIMIT, "a path has more bytes than the limit of %d",
			TAR_PATH_MAX);
	if (e.hardlink)
		e.symlink = NULL;
	const int code = read_xattrs(r, entry, &e.n_xattrs, reterr);
	if (code < 0)
		return code;
	*ret = e;
	return 1;
}

static int next_entry(struct tar_reader *r, struct tar_entry *ret, holt_error **reterr)
{
	struct archive_entry *entry;
	const int code = archive_read_next_header(r->tar, &entry);

	if (code == ARCHIVE_EOF) {
		r->end_mark = archive_filter_bytes(r->tar, 0) >
			      archive_read_header_position(r->tar);
		return 0;
	}
	/* A warning is expected for every PAX name that is not ASCII. */
	if (code == ARCHIVE_WARN)
		log_debug("image", "tar warning='%s'", archive_error_string(r->tar));
	else if (code != ARCHIVE_OK)
		return fail(r, r->tar, "the tar archive is damaged", reterr);
	return convert(r, entry, ret, reterr);
}

int tar_next(struct tar_reader *r, struct tar_entry *ret, holt_error **reterr)
{
	const locale_t old = locale_enter(r);
	const int code = next_entry(r, ret, reterr);

	locale_leave(old);
	return code;
}

int tar_data(struct tar_reader *r, const void **ret_data, size_t *ret_len, uint64_t *ret_offset,
	holt_error **reterr)
{
	la_int64_t offset = 0;
	const int code = archive_read_data_block(r->tar, ret_data, ret_len, &offset);

	if (code == ARCHIVE_EOF)
		return 0;
	if (code < ARCHIVE_WARN || offset < 0)
		return fail(r, r->tar, "the tar archive is damaged", reterr);
	*ret_offset = (uint64_t)offset;
	return 1;
}

int tar_data_offset(struct tar_reader *r, uint64_t *ret, holt_error **reterr)
{
	const void *data;
	size_t len;
	uint64_t offset;
	const int code = tar_data(r, &data, &len, &offset, reterr);

	if (code < 0)
		return code;
	/* libarchive consumes a piece only when it is asked for the next one. */
	*ret = (uint64_t)archive_filter_bytes(r->tar, 0);
	return 0;
}

static int drain(struct tar_reader *r, char ret_source[DIGEST_STR_LEN + 1], holt_error **reterr)
{
	const void *data = NULL;
	ssize_t n;

	while ((n = source_chunk(r, &data)) > 0)
		continue;
	if (n < 0)
		return fail(r, r->raw, "cannot read the archive", reterr);
	digest_final(r->source_digest, ret_source);
	return 0;
}

int tar_finish(struct tar_reader *r, char ret_source[DIGEST_STR_LEN + 1],
	char ret_stream[DIGEST_STR_LEN + 1], holt_error **reterr)
{
	const uint64_t end = (uint64_t)archive_filter_bytes(r->tar, 0);
	const void *data;
	ssize_t n;

	while ((n = stream_piece(r, &data)) > 0)
		continue;
	if (n < 0)
		return fail(r, r->raw, "cannot decompress the archive", reterr);
	if (r->stream_nonzero > end)
		return err_make(reterr, HOLT_EINVALID,
			"there is garbage behind the end of the tar archive");
	const uint64_t used = (uint64_t)archive_filter_bytes(r->raw, -1) + r->skip;
	if (r->compressed && used < r->src.size)
		return err_make(reterr, HOLT_EINVALID,
			"there are %" PRIu64 " bytes of garbage behind the compressed data",
			r->src.size - used);
	const int code = drain(r, ret_source, reterr);
	if (code < 0)
		return code;
	if (r->compressed)
		digest_final(r->stream_digest, ret_stream);
	else
		memcpy(ret_stream, ret_source, DIGEST_STR_LEN + 1);
	return 0;
}

int tar_source_digest(
	const struct tar_source *src, char ret[DIGEST_STR_LEN + 1], holt_error **reterr)
{
	struct tar_reader *r = reader_new(src, NULL);

	if (!r)
		return err_nomem(reterr);
	const int code = drain(r, ret, reterr);
	tar_close(r);
	return code;
}

bool tar_has_end_mark(const struct tar_reader *r)
{
	return r->end_mark;
}

uint64_t tar_stream_bytes(const struct tar_reader *r)
{
	return r->stream_bytes;
}

int tar_check_cancel(struct tar_reader *r, holt_error **reterr)
{
	return is_cancelled(r) ? err_make(reterr, HOLT_ECANCELLED, "the import was cancelled") : 0;
}

bool tar_is_compressed(const struct tar_reader *r)
{
	return r->compressed;
}

/* Others on the host go on working when a small file turns out to be a large one. */
static int write_piece(
	int out, const void *data, size_t len, uint64_t *unchecked, holt_error **reterr)
{
	struct statvfs st;
	int r = 0;

	*unchecked += len;
	if (*unchecked >= SPOOL_CHECK_BYTES) {
		*unchecked = 0;
		if (fstatvfs(out, &st) < 0)
			r = -errno;
		else if (st.f_blocks > 0 && (uint64_t)st.f_bavail * st.f_frsize < SPOOL_FREE_MIN)
			r = -ENOSPC;
	}
	if (r == 0)
		r = fd_write_full(out, data, len);
	if (r == 0)
		return 0;
	const int code = err_errno(reterr, -r, "cannot write a temporary file");
	if (r == -ENOSPC)
		err_hint(reterr,
			"free some space where the images are kept, or decompress the archive");
	return code;
}

int tar_decompress(
	const struct tar_source *src, struct tar_watch *watch, int out, holt_error **reterr)
{
	struct tar_reader *r = reader_new(src, watch);

	if (!r)
		return err_nomem(reterr);
	uint64_t unchecked = SPOOL_CHECK_BYTES;
	int code = open_raw(r, reterr);
	while (code == 0) {
		const void *data;
		const ssize_t n = stream_piece(r, &data);
		if (n == 0)
			break;
		if (n < 0) {
			code = fail(r, r->raw, "cannot decompress the archive", reterr);
			break;
		}
		code = write_piece(out, data, (size_t)n, &unchecked, reterr);
	}
	tar_close(r);
	return code;
}
