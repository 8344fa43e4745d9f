/* SPDX-License-Identifier: Apache-2.0 */
#include "image/layout.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/fsutil.h"
#include "base/mem.h"
#include "base/str.h"
#include "image/layer.h"
#include "base/banned.h"

#define BLOB_DIR "blobs/sha256/"

struct member {
	char hex[DIGEST_HEX_LEN + 1];
	uint64_t offset;
	uint64_t size;
};

struct layout {
	int dir; /* FD_NONE for a tar */
	struct tar_source tar; /* unused for a directory */
	struct member *blobs;
	size_t n_blobs;
	size_t blobs_cap;
	struct member index;
	bool has_index;
	bool has_mark; /* the file "oci-layout" */
};

static int not_a_layout(const char *missing, holt_error **reterr)
{
	const int code = err_make(
		reterr, HOLT_EINVALID, "it is not an OCI image layout: '%s' is missing", missing);

	err_hint(reterr, "give an OCI layout directory, the same in a tar file, or a tar of a root "
			 "file system; skopeo copy docker-daemon:NAME oci:DIR makes a layout");
	return code;
}

static struct layout *layout_new(void)
{
	struct layout *l = mem_zalloc(sizeof *l);

	if (l)
		l->dir = FD_NONE;
	return l;
}

void layout_close(struct layout *l)
{
	if (!l)
		return;
	(void)fd_close(l->dir);
	mem_free(l->blobs);
	mem_free(l);
}

int layout_open_dir(const char *path, struct layout **ret, holt_error **reterr)
{
	static const char *const needed[] = {"oci-layout", "index.json", "blobs/sha256"};
	struct layout *l = layout_new();
	int code = 0;

	if (!l)
		return err_nomem(reterr);
	l->dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (l->dir < 0)
		code = err_errno(reterr, errno, "cannot open the directory");
	for (size_t i = 0; code == 0 && i < sizeof needed / sizeof *needed; i++) {
		if (faccessat(l->dir, needed[i], F_OK, 0) == 0)
			continue;
		code = errno == ENOENT ? not_a_layout(needed[i], reterr)
				       : err_errno(reterr, errno, "cannot read '%s'", needed[i]);
	}
	if (code < 0) {
		layout_close(l);
		return code;
	}
	*ret = l;
	return 0;
}

/* --- In a tar --------------------------------------------------------------------------------- */

bool layout_has_path(const char *path)
{
	static const char *const files[] = {
		"oci-layout", "index.json", "manifest.json", "repositories"};

	if (strcmp(path, "blobs") == 0 || str_starts(path, "blobs/"))
		return true;
	for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
		if (strcmp(path, files[i]) == 0)
			return true;
	}
	return false;
}

static int add_blob(
	struct layout *l, const char *hex, uint64_t offset, uint64_t size, holt_error **reterr)
{
	if (l->n_blobs == LAYOUT_BLOBS_MAX)
		return err_make(
			reterr, HOLT_ELIMIT, "the layout has more than %d blobs", LAYOUT_BLOBS_MAX);
	if (l->n_blobs == l->blobs_cap) {
		const size_t cap = l->blobs_cap ? 2 * l->blobs_cap : 64;
		struct member *blobs = mem_resize(l->blobs, cap, sizeof *blobs);
		if (!blobs)
			return err_nomem(reterr);
		l->blobs = blobs;
		l->blobs_cap = cap;
	}
	struct member *b = &l->blobs[l->n_blobs++];
	*b = (struct member){.offset = offset, .size = size};
	memcpy(b->hex, hex, DIGEST_HEX_LEN);
	return 0;
}

static int add_member(
	struct layout *l, struct tar_reader *tar, const struct tar_entry *e, holt_error **reterr)
{
	char path[TAR_PATH_MAX + 1];
	uint64_t offset = 0;
	int code = layer_clean_path(e->path, path, reterr);

	if (code < 0 || e->hardlink || !S_ISREG(e->mode))
		return code;
	if (strcmp(path, "oci-layout") == 0)
		l->has_mark = true;
	const bool is_index = strcmp(path, "index.json") == 0;
	const bool is_blob = str_starts(path, BLOB_DIR) &&
			     strlen(path) == strlen(BLOB_DIR) + DIGEST_HEX_LEN;
	if (!is_index && !is_blob)
		return 0;
	if (e->size > 0)
		code = tar_data_offset(tar, &offset, reterr);
	if (code < 0)
		return code;
	if (is_blob)
		return add_blob(l, path + strlen(BLOB_DIR), offset, e->size, reterr);
	l->index = (struct member){.offset = offset, .size = e->size};
	l->has_index = true;
	return 0;
}

int layout_open_tar(const struct tar_source *src, struct tar_watch *watch, struct layout **ret,
	holt_error **reterr)
{
	struct tar_watch quiet = {.cancel = watch->cancel};
	struct tar_reader *tar = NULL;
	struct tar_entry e;
	struct layout *l = layout_new();

	if (!l)
		return err_nomem(reterr);
	l->tar = *src;
	int code = tar_open(src, &quiet, &tar, reterr);
	while (code == 0 && (code = tar_next(tar, &e, reterr)) > 0)
		code = add_member(l, tar, &e, reterr);
	tar_close(tar);
	if (code < 0 || !l->has_mark || !l->has_index) {
		layout_close(l);
		l = NULL;
	}
	if (code == 0)
		*ret = l;
	return code;
}

/* --- Both ------------------------------------------------------------------------------------- */

int layout_read_index(struct layout *l, char **ret, size_t *ret_len, holt_error **reterr)
{
	if (l->dir >= 0) {
		const int r = fs_read_file(l->dir, "index.json", MANIFEST_BYTES_MAX, ret, ret_len);
		return r < 0 ? err_errno(reterr, -r, "cannot read 'index.json'") : 0;
	}
	if (l->index.size > MANIFEST_BYTES_MAX)
		return err_make(reterr, HOLT_ELIMIT, "'index.json' has more than %u bytes",
			MANIFEST_BYTES_MAX);
	const size_t len = (size_t)l->index.size;
	auto_free char *data = mem_zalloc(len + 1);
	if (!data)
		return err_nomem(reterr);
	const ssize_t n = pread(l->tar.fd, data, len, (off_t)(l->tar.offset + l->index.offset));
	if (n != (ssize_t)len)
		return err_errno(reterr, n < 0 ? errno : EIO, "cannot read 'index.json'");
	*ret = take_ptr(data);
	*ret_len = len;
	return 0;
}

static int blob_missing(const struct descriptor *d, holt_error **reterr)
{
	const int code = err_make(
		reterr, HOLT_EINVALID, "the layout does not hold the blob %s", d->digest);

	err_object(reterr, d->digest);
	err_hint(reterr, "the layout is incomplete; copy or export the image again");
	return code;
}

static int check_size(const struct descriptor *d, uint64_t size, holt_error **reterr)
{
	if (size == d->size)
		return 0;
	const int code = err_make(reterr, HOLT_EINVALID,
		"the blob %s has %" PRIu64 " bytes, expected %" PRIu64, d->digest, size, d->size);
	err_object(reterr, d->digest);
	err_hint(reterr, "the layout is damaged; copy or export the image again");
	return code;
}

static int open_in_dir(struct layout *l, const struct descriptor *d, struct tar_source *ret,
	int *ret_fd, holt_error **reterr)
{
	auto_free char *path = str_printf(BLOB_DIR "%s", d->digest + 7);
	struct stat st;

	if (!path)
		return err_nomem(reterr);
	/* A FIFO in its place must not hang the import. */
	auto_fd fd = openat(l->dir, path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT)
		return blob_missing(d, reterr);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_errno(reterr, errno, "cannot open '%s'", path);
	if (!S_ISREG(st.st_mode))
		return err_make(reterr, HOLT_EINVALID, "'%s' is not a regular file", path);
	const int code = check_size(d, (uint64_t)st.st_size, reterr);
	if (code < 0)
		return code;
	*ret = (struct tar_source){.fd = fd, .size = d->size};
	*ret_fd = take_fd(fd);
	return 0;
}

int layout_open_blob(struct layout *l, const struct descriptor *d, struct tar_source *ret,
	int *ret_fd, holt_error **reterr)
{
	if (l->dir >= 0)
		return open_in_dir(l, d, ret, ret_fd, reterr);
	for (size_t i = 0; i < l->n_blobs; i++) {
		const struct member *b = &l->blobs[i];
		if (memcmp(b->hex, d->digest + 7, DIGEST_HEX_LEN) != 0)
			continue;
		const int code = check_size(d, b->size, reterr);
		if (code < 0)
			return code;
		*ret = (struct tar_source){
			.fd = l->tar.fd, .offset = l->tar.offset + b->offset, .size = b->size};
		*ret_fd = FD_NONE;
		return 0;
	}
	return blob_missing(d, reterr);
}

int layout_read_blob(
	struct layout *l, const struct descriptor *d, size_t max, char **ret, holt_error **reterr)
{
	struct tar_source src = {0};
	char digest[DIGEST_STR_LEN + 1];
	auto_fd fd = FD_NONE;

	if (d->size > max)
		return err_make(reterr, HOLT_ELIMIT,
			"the blob %s has %" PRIu64 " bytes, more than the limit of %zu", d->digest,
			d->size, max);
	int code = layout_open_blob(l, d, &src, &fd, reterr);
	if (code < 0)
		return code;
	const size_t len = (size_t)d->size;
	auto_free char *data = mem_zalloc(len + 1);
	if (!data)
		return err_nomem(reterr);
	size_t at = 0;
	while (at < len) {
		const ssize_t n = pread(src.fd, data + at, len - at, (off_t)(src.offset + at));
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return err_errno(
				reterr, n < 0 ? errno : EIO, "cannot read the blob %s", d->digest);
		at += (size_t)n;
	}
	if (digest_of(data, len, digest) < 0)
		return err_nomem(reterr);
	if (strcmp(digest, d->digest) != 0) {
		code = err_make(reterr, HOLT_EINVALID, "a blob has the digest %s, expected %s",
			digest, d->digest);
		err_object(reterr, d->digest);
		err_hint(reterr, "the layout is damaged; copy or export the image again");
		return code;
	}
	*ret = take_ptr(data);
	return 0;
}
