/* SPDX-License-Identifier: Apache-2.0 */
#include "image/tarwrite.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <locale.h>
#include <string.h>

#include "base/mem.h"
#include "base/banned.h"

/*
 * libarchive converts names by the locale of the thread, so each call into it that may look at one
 * runs under the C locale: names then are bytes, as in tarfile.c.
 */

#define WRITE_CHUNK (256 << 10)

struct tar_writer {
	const struct tar_sink *sink;
	struct archive *tar;
	locale_t c_locale;
	holt_error *error; /* of the sink, more exact than libarchive's */
	int dead; /* swallow what comes */
};

static la_ssize_t sink_write(struct archive *a, void *user, const void *data, size_t len)
{
	struct tar_writer *w = user;

	if (w->dead)
		return (la_ssize_t)len;
	if (w->sink->write(w->sink->user, data, len, w->error ? NULL : &w->error) < 0) {
		archive_set_error(a, EIO, "the sink failed");
		w->dead = 1;
		return -1;
	}
	return (la_ssize_t)len;
}

static int fail(struct tar_writer *w, holt_error **reterr)
{
	w->dead = 1;
	if (w->error)
		return err_take(reterr, take_ptr(w->error));
	if (archive_errno(w->tar) == ENOMEM)
		return err_nomem(reterr);
	const char *text = archive_error_string(w->tar);
	return err_make(reterr, HOLT_EINTERNAL, "cannot write the archive: %s",
		text ? text : "libarchive tells no reason");
}

int tar_writer_new(const struct tar_sink *sink, struct tar_writer **ret, holt_error **reterr)
{
	struct tar_writer *w = mem_zalloc(sizeof *w);

	if (!w)
		return err_nomem(reterr);
	w->sink = sink;
	w->c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
	w->tar = archive_write_new();
	if (!w->c_locale || !w->tar) {
		tar_writer_free(w);
		return err_nomem(reterr);
	}
	(void)archive_write_set_format_pax_restricted(w->tar);
	(void)archive_write_set_format_option(w->tar, NULL, "hdrcharset", "BINARY");
	/* The one form that all readers of layers know. */
	(void)archive_write_set_format_option(w->tar, NULL, "xattrheader", "SCHILY");
	(void)archive_write_add_filter_none(w->tar);
	(void)archive_write_set_bytes_per_block(w->tar, WRITE_CHUNK);
	(void)archive_write_set_bytes_in_last_block(w->tar, 1);
	if (archive_write_open(w->tar, w, NULL, sink_write, NULL) != ARCHIVE_OK) {
		const int code = fail(w, reterr);
		tar_writer_free(w);
		return code;
	}
	*ret = w;
	return 0;
}

void tar_writer_free(struct tar_writer *w)
{
	if (!w)
		return;
	w->dead = 1;
	if (w->tar)
		(void)archive_write_free(w->tar);
	if (w->c_locale)
		freelocale(w->c_locale);
	holt_error_free(w->error);
	mem_free(w);
}

int tar_writer_entry(struct tar_writer *w, struct archive_entry *e, holt_error **reterr)
{
	const locale_t old = uselocale(w->c_locale);
	const int r = archive_write_header(w->tar, e);

	(void)uselocale(old);
	return r < ARCHIVE_WARN || w->error ? fail(w, reterr) : 0;
}

int tar_writer_data(struct tar_writer *w, const void *data, size_t len, holt_error **reterr)
{
	if (len == 0)
		return 0;
	const la_ssize_t n = archive_write_data(w->tar, data, len);
	if (n >= 0 && (size_t)n != len && !w->error)
		return err_make(reterr, HOLT_EINTERNAL,
			"cannot write the archive: there is more data than its header says");
	return n < 0 || w->error ? fail(w, reterr) : 0;
}

int tar_writer_file(struct tar_writer *w, const char *path, uint64_t size, holt_error **reterr)
{
	struct archive_entry *e = archive_entry_new();

	if (!e)
		return err_nomem(reterr);
	archive_entry_set_pathname(e, path);
	archive_entry_set_filetype(e, AE_IFREG);
	archive_entry_set_perm(e, 0644);
	archive_entry_set_mtime(e, 0, 0);
	archive_entry_set_size(e, (la_int64_t)size);
	const int code = tar_writer_entry(w, e, reterr);
	archive_entry_free(e);
	return code;
}

int tar_writer_end(struct tar_writer *w, holt_error **reterr)
{
	const locale_t old = uselocale(w->c_locale);
	const int r = archive_write_close(w->tar);

	(void)uselocale(old);
	return r != ARCHIVE_OK ? fail(w, reterr) : 0;
}
