/* SPDX-License-Identifier: Apache-2.0 */
#include "image/images.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"
#include "image/assemble.h"
#include "image/docker_archive.h"
#include "image/layer.h"
#include "image/layout.h"
#include "image/manifest.h"
#include "image/ref.h"
#include "image/store.h"
#include "base/banned.h"

/*
 * From a path to an image in the store; what follows from the layers is in assemble.c.
 *
 * Sources: a layout directory; a layout in a tar (compressed: decompressed to a temporary file
 * first, since its blobs are read in the order of the layers); what docker save writes, in the same
 * way; a tar of a root file system, which
 * counts as one layer.
 */

struct import {
	struct image_store *store;
	struct tar_watch watch;
	struct layout *layout; /* NULL for tars of other kinds */
	struct docker_archive *docker; /* NULL but for what docker saved */
	struct docker_image docker_image;
	struct manifest manifest; /* of a layout */
};

/* --- Layouts ---------------------------------------------------------------------------------- */

/* From index.json to a manifest, through indexes within indexes. */
static int find_manifest(struct import *im, struct descriptor *ret, char **ret_text,
	char **ret_name, holt_error **reterr)
{
	auto_free char *text = NULL;
	auto_free char *name = NULL;
	struct descriptor d = {0};
	size_t len = 0;
	bool is_index = true;
	int code = layout_read_index(im->layout, &text, &len, reterr);

	for (unsigned depth = 0; code == 0 && is_index; depth++) {
		char *inner = NULL;
		if (depth == INDEX_DEPTH_MAX)
			return err_make(reterr, HOLT_ELIMIT,
				"indexes within indexes are deeper than %d", INDEX_DEPTH_MAX);
		code = manifest_pick(text, len, &d, &inner, reterr);
		if (code < 0)
			break;
		if (name)
			mem_free(inner);
		else
			name = inner;
		mem_free(take_ptr(text));
		code = layout_read_blob(im->layout, &d, MANIFEST_BYTES_MAX, &text, reterr);
		len = (size_t)d.size;
		if (code == 0)
			code = manifest_is_index(text, len, &is_index, reterr);
	}
	if (code < 0)
		return code;
	*ret = d;
	*ret_text = take_ptr(text);
	*ret_name = take_ptr(name);
	return 0;
}

static int open_in_layout(
	void *user, size_t at, struct tar_source *ret, int *ret_fd, holt_error **reterr)
{
	const struct import *im = user;

	return layout_open_blob(im->layout, &im->manifest.layers[at], ret, ret_fd, reterr);
}

static int import_manifest(struct import *im, const struct descriptor *d, const char *name,
	struct image **ret, holt_error **reterr)
{
	auto_free char *text = NULL;
	const int code = layout_read_blob(
		im->layout, &im->manifest.config, CONFIG_BYTES_MAX, &text, reterr);
	const struct assembly_wish w = {.digest = d->digest,
		.manifest = &im->manifest,
		.config = text,
		.name = name,
		.open = open_in_layout,
		.user = im};

	return code < 0 ? code : assemble_image(im->store, &im->watch, &w, ret, reterr);
}

static int import_layout(
	struct import *im, const char *given, struct image **ret, holt_error **reterr)
{
	auto_free char *text = NULL;
	auto_free char *own_name = NULL;
	struct descriptor d;
	struct temp_file lock = {.fd = FD_NONE};
	int code = find_manifest(im, &d, &text, &own_name, reterr);

	if (code == 0)
		code = manifest_parse(text, (size_t)d.size, &im->manifest, reterr);
	if (code == 0)
		code = store_lock_digest(im->store, d.digest, im->watch.cancel, &lock, reterr);
	const char *name = given ? given : own_name;
	if (code == 0)
		code = store_adopt(im->store, d.digest, name, ret, reterr);
	if (code == 0 && !*ret)
		code = import_manifest(im, &d, name, ret, reterr);
	store_temp_done(im->store, &lock);
	return code;
}

/* --- What docker saved ------------------------------------------------------------------------ */

static int open_in_docker(
	void *user, size_t at, struct tar_source *ret, int *ret_fd, holt_error **reterr)
{
	const struct import *im = user;

	(void)reterr;
	docker_archive_layer(im->docker, at, ret);
	*ret_fd = FD_NONE;
	return 0;
}

static int import_docker(
	struct import *im, const char *given, struct image **ret, holt_error **reterr)
{
	struct docker_image *d = &im->docker_image;
	struct temp_file lock = {.fd = FD_NONE};
	int code = docker_archive_pick(im->docker, given, d, reterr);
	const char *name = given ? given : code == 0 && d->names ? d->names[0] : NULL;
	const struct assembly_wish w = {.digest = d->digest,
		.manifest = &d->manifest,
		.config = d->config,
		.name = name,
		.open = open_in_docker,
		.user = im};

	if (code == 0)
		code = store_lock_digest(im->store, d->digest, im->watch.cancel, &lock, reterr);
	if (code == 0)
		code = store_adopt(im->store, d->digest, name, ret, reterr);
	if (code == 0 && !*ret)
		code = assemble_image(im->store, &im->watch, &w, ret, reterr);
	/* Its further names; the image that is given back bears the first. */
	for (size_t i = 1; code == 0 && !given && name && d->names[i]; i++) {
		struct image *again = NULL;
		code = store_adopt(im->store, d->digest, d->names[i], &again, reterr);
		image_free(again);
	}
	store_temp_done(im->store, &lock);
	return code;
}

/* --- Tar files -------------------------------------------------------------------------------- */

static int open_plain(
	void *user, size_t at, struct tar_source *ret, int *ret_fd, holt_error **reterr)
{
	(void)at;
	(void)reterr;
	*ret = *(const struct tar_source *)user;
	*ret_fd = FD_NONE;
	return 0;
}

static int import_plain(struct import *im, struct tar_source *src, const char *name,
	struct image **ret, holt_error **reterr)
{
	const struct assembly_wish w = {
		.plain_size = src->size, .name = name, .open = open_plain, .user = src};

	return assemble_image(im->store, &im->watch, &w, ret, reterr);
}

/* What a look at the first file says. */
static int sniff(
	const struct tar_source *src, bool *ret_layout, bool *ret_compressed, holt_error **reterr)
{
	char path[TAR_PATH_MAX + 1];
	struct tar_reader *tar = NULL;
	struct tar_entry e;
	int code = tar_open(src, NULL, &tar, reterr);

	*ret_layout = false;
	if (code < 0)
		return code;
	*ret_compressed = tar_is_compressed(tar);
	while ((code = tar_next(tar, &e, reterr)) > 0) {
		code = layer_clean_path(e.path, path, reterr);
		if (code == 0 && !path[0])
			continue;
		*ret_layout = code == 0 && (layout_has_path(path) || docker_archive_has_path(path));
		break;
	}
	tar_close(tar);
	return code;
}

static int import_file(struct import *im, int fd, uint64_t size, const char *name,
	struct image **ret, holt_error **reterr)
{
	struct tar_source src = {.fd = fd, .size = size};
	struct temp_file spool = {.fd = FD_NONE};
	bool maybe_layout = false;
	bool compressed = false;
	struct stat st;
	int code = sniff(&src, &maybe_layout, &compressed, reterr);

	if (code == 0 && maybe_layout && compressed) {
		code = store_temp(im->store, &spool, reterr);
		if (code == 0)
			code = tar_decompress(&src, &im->watch, spool.fd, reterr);
		if (code == 0 && fstat(spool.fd, &st) < 0)
			code = err_errno(reterr, errno, "cannot read a temporary file");
		if (code == 0)
			src = (struct tar_source){.fd = spool.fd, .size = (uint64_t)st.st_size};
		im->watch.done = 0;
	}
	if (code == 0 && maybe_layout)
		code = layout_open_tar(&src, &im->watch, &im->layout, reterr);
	if (code == 0 && maybe_layout && !im->layout)
		code = docker_archive_open(&src, &im->watch, &im->docker, reterr);
	if (code == 0)
		code = im->layout   ? import_layout(im, name, ret, reterr)
		       : im->docker ? import_docker(im, name, ret, reterr)
				    : import_plain(im, &src, name, ret, reterr);
	store_temp_done(im->store, &spool);
	return code;
}

/* --- The whole -------------------------------------------------------------------------------- */

static int import_path(struct import *im, const char *path, const char *name, struct image **ret,
	holt_error **reterr)
{
	struct stat st;
	/* Not to hang on a FIFO. */
	auto_fd fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_errno(reterr, errno, "cannot open it");
	if (S_ISDIR(st.st_mode)) {
		const int code = layout_open_dir(path, &im->layout, reterr);
		return code < 0 ? code : import_layout(im, name, ret, reterr);
	}
	if (!S_ISREG(st.st_mode))
		return err_make(reterr, HOLT_EINVALID, "it is neither a file nor a directory");
	return import_file(im, fd, (uint64_t)st.st_size, name, ret, reterr);
}

int image_import(struct image_store *s, const char *path, const struct image_import_options *o,
	struct image **ret, holt_error **reterr)
{
	struct import im = {
		.store = s,
		.watch = {.progress = o ? o->progress : NULL,
			.user = o ? o->user : NULL,
			.cancel = o ? o->cancel : NULL},
	};
	auto_free char *name = NULL;
	struct image *img = NULL;
	char shown[512];
	int code = 0;

	if (o && o->name)
		code = ref_normalise(o->name, &name, reterr);
	if (code == 0) {
		code = import_path(&im, path, name, &img, reterr);
		if (code < 0) {
			(void)str_escape(shown, sizeof shown, path, strlen(path), false);
			err_wrap(reterr, "cannot import '%s'", shown);
		}
	}
	layout_close(im.layout);
	docker_archive_close(im.docker);
	docker_image_done(&im.docker_image);
	manifest_done(&im.manifest);
	if (code < 0) {
		err_stage(reterr, "image import");
		err_object(reterr, path);
		return code;
	}
	*ret = img;
	return 0;
}
