/* SPDX-License-Identifier: Apache-2.0 */
#include "image/images.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/digest.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"
#include "image/layer.h"
#include "image/layout.h"
#include "image/manifest.h"
#include "image/ref.h"
#include "image/rootfs.h"
#include "image/store.h"
#include "base/banned.h"

/*
 * From a path to an image in the store, on the caller's thread (and the compressing threads of the
 * rootfs writer). Nothing of the store changes before store_publish: a failure, a cancel or a kill
 * leaves a temporary file at worst.
 *
 * Sources: a layout directory; a layout in a tar (compressed: decompressed to a temporary file
 * first, since its blobs are read in the order of the layers); a tar of a root file system, which
 * counts as one layer.
 */

/* Changes whenever the same layers would give another file. */
#define ROOTFS_FORMAT "holt-rootfs-1"

_Static_assert(MANIFEST_LAYERS_MAX <= LAYER_MAX, "a manifest may list more layers than merge");

static const char plain_config[] = "{\"architecture\":\"amd64\",\"os\":\"linux\"}";

/* A layer to merge: where it is, and what its bytes must hash to (NULL: not known). */
struct layer_source {
	struct descriptor blob;
	const char *diff_id;
	struct tar_source tar; /* of a plain tar */
	bool plain;
};

struct import {
	struct image_store *store;
	struct tar_watch watch;
	struct layout *layout; /* NULL for a plain tar */
	struct layer_source *layers;
	size_t n_layers;
	char plain_digest[DIGEST_STR_LEN + 1]; /* of a plain tar, once it was read */
	char plain_diff_id[DIGEST_STR_LEN + 1]; /* of it without its compression */
	struct temp_file temp; /* the rootfs */
	struct rootfs *rootfs;
	struct tree *tree;
	struct merge *merge;
};

/* --- Layers to a rootfs ----------------------------------------------------------------------- */

static int mismatch(const char *what, const char *got, const char *expected, holt_error **reterr)
{
	const int code = err_make(
		reterr, HOLT_EINVALID, "%s has the digest %s, expected %s", what, got, expected);

	err_object(reterr, expected);
	err_hint(reterr, "the image is damaged or was altered; copy or export it again");
	return code;
}

/* A damaged layer fails in many ways; that its digest is wrong says more than any of them. */
static int explain(const struct layer_source *layer, const struct tar_source *src, int code,
	holt_error **reterr)
{
	char digest[DIGEST_STR_LEN + 1];

	if (code != -HOLT_EINVALID || layer->plain || tar_source_digest(src, digest, NULL) < 0 ||
		strcmp(digest, layer->blob.digest) == 0)
		return code;
	if (reterr) {
		holt_error_free(*reterr);
		*reterr = NULL;
	}
	return mismatch("a layer", digest, layer->blob.digest, reterr);
}

static int check_digests(struct import *im, struct tar_reader *tar,
	const struct layer_source *layer, holt_error **reterr)
{
	char blob[DIGEST_STR_LEN + 1];
	char stream[DIGEST_STR_LEN + 1];
	const int code = tar_finish(tar, blob, stream, reterr);

	if (code < 0)
		return code;
	if (layer->plain) {
		/* Nothing else would show that it was cut between two entries. */
		if (!tar_has_end_mark(tar))
			return err_make(reterr, HOLT_EINVALID,
				"the tar archive stops without its end mark, so it is incomplete");
		memcpy(im->plain_digest, blob, sizeof blob);
		memcpy(im->plain_diff_id, stream, sizeof stream);
		return 0;
	}
	if (strcmp(blob, layer->blob.digest) != 0)
		return mismatch("a layer", blob, layer->blob.digest, reterr);
	if (strcmp(stream, layer->diff_id) != 0)
		return mismatch("a decompressed layer", stream, layer->diff_id, reterr);
	return 0;
}

/* Read one layer, for the first time or (@again) for the targets of hard links. */
static int read_layer(struct import *im, size_t at, bool again, holt_error **reterr)
{
	const struct layer_source *layer = &im->layers[at];
	struct tar_source src = layer->tar;
	struct tar_reader *tar = NULL;
	auto_fd fd = FD_NONE;
	int code = 0;

	if (!layer->plain)
		code = layout_open_blob(im->layout, &layer->blob, &src, &fd, reterr);
	if (code < 0)
		return code;
	if (again)
		im->watch.total += src.size;
	code = tar_open(&src, &im->watch, &tar, reterr);
	if (code == 0)
		code = again ? merge_rescan(im->merge, tar, (uint32_t)at + 1, reterr)
			     : merge_layer(im->merge, tar, (uint32_t)at + 1, reterr);
	if (code == 0)
		code = check_digests(im, tar, layer, reterr);
	tar_close(tar);
	code = explain(layer, &src, code, reterr);
	if (code < 0 && !layer->plain)
		err_wrap(reterr, "layer %zu of %zu", at + 1, im->n_layers);
	return code;
}

static int merge_all(struct import *im, holt_error **reterr)
{
	uint32_t from = 0;
	int code = 0;

	for (size_t at = im->n_layers; code == 0 && at-- > 0;)
		code = read_layer(im, at, false, reterr);
	if (code == 0)
		code = merge_resolve(im->merge, &from, reterr);
	while (code == 0 && from > 0) {
		for (size_t at = from; code == 0 && at-- > 0;)
			code = read_layer(im, at, true, reterr);
		if (code == 0)
			code = merge_resolve(im->merge, &from, reterr);
	}
	return code;
}

/* The rootfs is named by what it is made of, all of it verified by now: reading a finished file of
 * gigabytes back only to name it would cost a fifth of the import. */
static int rootfs_key(const struct import *im, char ret[DIGEST_STR_LEN + 1], holt_error **reterr)
{
	struct digest_ctx *ctx = digest_new();

	if (!ctx)
		return err_nomem(reterr);
	digest_update(ctx, ROOTFS_FORMAT, sizeof ROOTFS_FORMAT);
	for (size_t i = 0; i < im->n_layers; i++) {
		const struct layer_source *layer = &im->layers[i];
		digest_update(
			ctx, layer->plain ? im->plain_diff_id : layer->diff_id, DIGEST_STR_LEN + 1);
	}
	digest_final(ctx, ret);
	digest_free(ctx);
	return 0;
}

/* Merge the layers into a temporary squashfs. */
static int make_rootfs(struct import *im, uint64_t *ret_size, char ret_digest[DIGEST_STR_LEN + 1],
	holt_error **reterr)
{
	int code = store_temp(im->store, &im->temp, reterr);

	if (code == 0)
		code = rootfs_new(im->temp.fd, 0, &im->rootfs, reterr);
	if (code == 0)
		code = tree_new(&im->tree, reterr);
	if (code == 0)
		code = merge_new(im->tree, im->rootfs, &im->merge, reterr);
	if (code == 0)
		code = merge_all(im, reterr);
	if (code == 0)
		code = rootfs_finish(im->rootfs, im->tree, ret_size, reterr);
	if (code < 0)
		return code;
	return rootfs_key(im, ret_digest, reterr);
}

/* Make the image @digest (NULL: that of the plain tar) and publish it. */
static int make_image(struct import *im, char *digest, const char *config, const char *name,
	struct image **ret, holt_error **reterr)
{
	char rootfs_digest[DIGEST_STR_LEN + 1];
	struct image img = {
		.rootfs_digest = rootfs_digest,
		.layers = im->n_layers,
		.created_s = (int64_t)(clock_wall_ns() / 1000000000),
	};
	const int code = make_rootfs(im, &img.size_bytes, rootfs_digest, reterr);

	if (code < 0)
		return code;
	img.digest = digest ? digest : im->plain_digest;
	return store_publish(im->store, &im->temp, &img, config, name, ret, reterr);
}

static int check_space(struct import *im, holt_error **reterr)
{
	uint64_t free_bytes = 0;
	const int code = store_free_bytes(im->store, &free_bytes, reterr);

	if (code < 0 || free_bytes >= im->watch.total + ROOTFS_FREE_MIN)
		return code;
	(void)err_make(reterr, HOLT_ELIMIT,
		"there are %" PRIu64 " MiB free for an image of %" PRIu64 " MiB", free_bytes >> 20,
		im->watch.total >> 20);
	err_hint(reterr, "free some space where the images are kept");
	return -HOLT_ELIMIT;
}

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

static int list_layers(
	struct import *im, const struct manifest *m, char **diff_ids, holt_error **reterr)
{
	const size_t n = strv_len((const char *const *)diff_ids);

	if (n != m->n_layers)
		return err_make(reterr, HOLT_EINVALID,
			"the configuration lists %zu layers, the manifest %zu", n, m->n_layers);
	im->layers = mem_array(n, sizeof *im->layers);
	if (!im->layers)
		return err_nomem(reterr);
	im->n_layers = n;
	for (size_t i = 0; i < n; i++) {
		im->layers[i].blob = m->layers[i];
		im->layers[i].diff_id = diff_ids[i];
		if (m->layers[i].size > TAR_STREAM_MAX - im->watch.total)
			return err_make(reterr, HOLT_ELIMIT,
				"the layers have more than %" PRIu64 " bytes together",
				TAR_STREAM_MAX);
		im->watch.total += m->layers[i].size;
	}
	return 0;
}

static int import_manifest(struct import *im, struct descriptor *d, const struct manifest *m,
	const char *name, struct image **ret, holt_error **reterr)
{
	struct image_config config = {0};
	char **diff_ids = NULL;
	auto_free char *text = NULL;
	int code = layout_read_blob(im->layout, &m->config, CONFIG_BYTES_MAX, &text, reterr);

	if (code == 0)
		code = config_parse(text, (size_t)m->config.size, &config, &diff_ids, reterr);
	if (code == 0)
		code = config_check_platform(&config, reterr);
	if (code == 0)
		code = list_layers(im, m, diff_ids, reterr);
	if (code == 0)
		code = check_space(im, reterr);
	if (code == 0)
		code = make_image(im, d->digest, text, name, ret, reterr);
	config_done(&config);
	strv_free(diff_ids);
	return code;
}

static int import_layout(
	struct import *im, const char *given, struct image **ret, holt_error **reterr)
{
	auto_free char *text = NULL;
	auto_free char *own_name = NULL;
	struct descriptor d;
	struct manifest m = {0};
	struct temp_file lock = {.fd = FD_NONE};
	int code = find_manifest(im, &d, &text, &own_name, reterr);

	if (code == 0)
		code = manifest_parse(text, (size_t)d.size, &m, reterr);
	if (code == 0)
		code = store_lock_digest(im->store, d.digest, im->watch.cancel, &lock, reterr);
	const char *name = given ? given : own_name;
	if (code == 0)
		code = store_adopt(im->store, d.digest, name, ret, reterr);
	if (code == 0 && !*ret)
		code = import_manifest(im, &d, &m, name, ret, reterr);
	store_temp_done(im->store, &lock);
	manifest_done(&m);
	return code;
}

/* --- Tar files -------------------------------------------------------------------------------- */

static int import_plain(struct import *im, const struct tar_source *src, const char *name,
	struct image **ret, holt_error **reterr)
{
	im->layers = mem_zalloc(sizeof *im->layers);
	if (!im->layers)
		return err_nomem(reterr);
	im->n_layers = 1;
	im->layers[0] = (struct layer_source){.tar = *src, .plain = true};
	im->watch.total = src->size;
	const int code = check_space(im, reterr);
	return code < 0 ? code : make_image(im, NULL, plain_config, name, ret, reterr);
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
		*ret_layout = code == 0 && layout_has_path(path);
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
	if (code == 0)
		code = im->layout ? import_layout(im, name, ret, reterr)
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

static void import_done(struct import *im)
{
	rootfs_free(im->rootfs);
	merge_free(im->merge);
	tree_free(im->tree);
	store_temp_done(im->store, &im->temp);
	layout_close(im->layout);
	mem_free(im->layers);
}

int image_import(struct image_store *s, const char *path, const struct image_import_options *o,
	struct image **ret, holt_error **reterr)
{
	struct import im = {
		.store = s,
		.watch = {.progress = o ? o->progress : NULL,
			.user = o ? o->user : NULL,
			.cancel = o ? o->cancel : NULL},
		.temp = {.fd = FD_NONE},
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
	import_done(&im);
	if (code < 0) {
		err_stage(reterr, "image import");
		err_object(reterr, path);
		return code;
	}
	*ret = img;
	return 0;
}
