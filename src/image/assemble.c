/* SPDX-License-Identifier: Apache-2.0 */
#include "image/assemble.h"

#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/digest.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"
#include "image/layer.h"
#include "image/rootfs.h"
#include "image/store.h"
#include "base/banned.h"

/*
 * On the caller's thread, and the compressing threads of the rootfs writer. Nothing of the store
 * changes before store_publish: a failure, a cancel or a kill leaves a temporary file at worst.
 */

/* Changes whenever the same layers would give another file. */
#define ROOTFS_FORMAT "holt-rootfs-1"

/* What a layer may grow to when it is decompressed, so that a bomb ends in time: more than any real
 * content, since deflate cannot do better, and above that what zstd makes of a large file of zeros.
 * All layers together have at most TAR_STREAM_MAX. */
#define STREAM_RATIO_MAX  1100
#define STREAM_BYTES_EASY (UINT64_C(64) << 30)

_Static_assert(MANIFEST_LAYERS_MAX <= LAYER_MAX, "a manifest may list more layers than merge");

static const char plain_config[] = "{\"architecture\":\"amd64\",\"os\":\"linux\"}";

/* What the bytes of a layer must hash to; empty for a plain tar. */
struct layer_facts {
	struct descriptor blob;
	const char *diff_id;
};

struct assembly {
	struct image_store *store;
	struct tar_watch *watch;
	const struct assembly_wish *wish;
	struct layer_facts *layers;
	size_t n_layers;
	bool plain;
	char plain_digest[DIGEST_STR_LEN + 1]; /* of a plain tar, once it was read */
	char plain_diff_id[DIGEST_STR_LEN + 1]; /* of it without its compression */
	uint64_t stream_bytes; /* of all layers so far, decompressed */
	struct temp_file temp; /* the rootfs */
	struct rootfs *rootfs;
	struct tree *tree;
	struct merge *merge;
};

static int mismatch(const char *what, const char *got, const char *expected, holt_error **reterr)
{
	const int code = err_make(
		reterr, HOLT_EINVALID, "%s has the digest %s, expected %s", what, got, expected);

	err_object(reterr, expected);
	err_hint(reterr, "the image is damaged or was altered; copy or export it again");
	return code;
}

/* A damaged layer fails in many ways; that its digest is wrong says more than any of them. */
static int explain(const struct assembly *as, const struct layer_facts *layer,
	const struct tar_source *src, int code, holt_error **reterr)
{
	char digest[DIGEST_STR_LEN + 1];

	if (code != -HOLT_EINVALID || as->plain || tar_source_digest(src, digest, NULL) < 0 ||
		strcmp(digest, layer->blob.digest) == 0)
		return code;
	if (reterr) {
		holt_error_free(*reterr);
		*reterr = NULL;
	}
	return mismatch("a layer", digest, layer->blob.digest, reterr);
}

static int check_digests(struct assembly *as, struct tar_reader *tar,
	const struct layer_facts *layer, holt_error **reterr)
{
	char blob[DIGEST_STR_LEN + 1];
	char stream[DIGEST_STR_LEN + 1];
	const int code = tar_finish(tar, blob, stream, reterr);

	if (code < 0)
		return code;
	if (as->plain) {
		/* Nothing else would show that it was cut between two entries. */
		if (!tar_has_end_mark(tar))
			return err_make(reterr, HOLT_EINVALID,
				"the tar archive stops without its end mark, so it is incomplete");
		memcpy(as->plain_digest, blob, sizeof blob);
		memcpy(as->plain_diff_id, stream, sizeof stream);
		return 0;
	}
	if (strcmp(blob, layer->blob.digest) != 0)
		return mismatch("a layer", blob, layer->blob.digest, reterr);
	if (strcmp(stream, layer->diff_id) != 0)
		return mismatch("a decompressed layer", stream, layer->diff_id, reterr);
	return 0;
}

static uint64_t stream_limit(const struct assembly *as, uint64_t size)
{
	const uint64_t left = TAR_STREAM_MAX - as->stream_bytes;
	const uint64_t most = STREAM_BYTES_EASY + size * STREAM_RATIO_MAX;

	return left < most ? left : most;
}

/* Read one layer, for the first time or (@again) for the targets of hard links. */
static int read_layer(struct assembly *as, size_t at, bool again, holt_error **reterr)
{
	const struct layer_facts *layer = &as->layers[at];
	struct tar_source src = {0};
	struct tar_reader *tar = NULL;
	auto_fd fd = FD_NONE;
	int code = as->wish->open(as->wish->user, at, &src, &fd, reterr);

	if (code < 0)
		return code;
	if (again)
		as->watch->total += src.size;
	else
		src.stream_max = stream_limit(as, src.size);
	code = tar_open(&src, as->watch, &tar, reterr);
	if (code == 0)
		code = again ? merge_rescan(as->merge, tar, (uint32_t)at + 1, reterr)
			     : merge_layer(as->merge, tar, (uint32_t)at + 1, reterr);
	if (code == 0)
		code = check_digests(as, tar, layer, reterr);
	if (tar && !again)
		as->stream_bytes += tar_stream_bytes(tar);
	tar_close(tar);
	code = explain(as, layer, &src, code, reterr);
	if (code < 0 && !as->plain)
		err_wrap(reterr, "layer %zu of %zu", at + 1, as->n_layers);
	return code;
}

static int merge_all(struct assembly *as, holt_error **reterr)
{
	uint32_t from = 0;
	int code = 0;

	for (size_t at = as->n_layers; code == 0 && at-- > 0;)
		code = read_layer(as, at, false, reterr);
	if (code == 0)
		code = merge_resolve(as->merge, &from, reterr);
	while (code == 0 && from > 0) {
		for (size_t at = from; code == 0 && at-- > 0;)
			code = read_layer(as, at, true, reterr);
		if (code == 0)
			code = merge_resolve(as->merge, &from, reterr);
	}
	return code;
}

/* The rootfs is named by what it is made of, all of it verified by now: reading a finished file of
 * gigabytes back only to name it would cost a fifth of the import. */
static int rootfs_key(const struct assembly *as, char ret[DIGEST_STR_LEN + 1], holt_error **reterr)
{
	struct digest_ctx *ctx = digest_new();

	if (!ctx)
		return err_nomem(reterr);
	digest_update(ctx, ROOTFS_FORMAT, sizeof ROOTFS_FORMAT);
	for (size_t i = 0; i < as->n_layers; i++) {
		const struct layer_facts *layer = &as->layers[i];
		digest_update(
			ctx, as->plain ? as->plain_diff_id : layer->diff_id, DIGEST_STR_LEN + 1);
	}
	digest_final(ctx, ret);
	digest_free(ctx);
	return 0;
}

/* Merge the layers into a temporary squashfs. */
static int make_rootfs(struct assembly *as, uint64_t *ret_size, char ret_digest[DIGEST_STR_LEN + 1],
	holt_error **reterr)
{
	int code = store_temp(as->store, &as->temp, reterr);

	if (code == 0)
		code = rootfs_new(as->temp.fd, 0, &as->rootfs, reterr);
	if (code == 0)
		code = tree_new(&as->tree, reterr);
	if (code == 0)
		code = merge_new(as->tree, as->rootfs, &as->merge, reterr);
	if (code == 0)
		code = merge_all(as, reterr);
	if (code == 0)
		code = rootfs_finish(as->rootfs, as->tree, ret_size, reterr);
	if (code < 0)
		return code;
	return rootfs_key(as, ret_digest, reterr);
}

static int list_layers(
	struct assembly *as, const struct manifest *m, char **diff_ids, holt_error **reterr)
{
	const size_t n = strv_len((const char *const *)diff_ids);

	if (n != m->n_layers)
		return err_make(reterr, HOLT_EINVALID,
			"the configuration lists %zu layers, the manifest %zu", n, m->n_layers);
	as->layers = mem_array(n, sizeof *as->layers);
	if (!as->layers)
		return err_nomem(reterr);
	as->n_layers = n;
	for (size_t i = 0; i < n; i++) {
		as->layers[i].blob = m->layers[i];
		as->layers[i].diff_id = diff_ids[i];
		if (m->layers[i].size > TAR_STREAM_MAX - as->watch->total)
			return err_make(reterr, HOLT_ELIMIT,
				"the layers have more than %" PRIu64 " bytes together",
				TAR_STREAM_MAX);
		as->watch->total += m->layers[i].size;
	}
	return 0;
}

static int assemble_plain(struct assembly *as, uint64_t size, holt_error **reterr)
{
	as->layers = mem_zalloc(sizeof *as->layers);
	if (!as->layers)
		return err_nomem(reterr);
	as->n_layers = 1;
	as->watch->total = size;
	return 0;
}

static int finish(struct assembly *as, struct image **ret, holt_error **reterr)
{
	char rootfs_digest[DIGEST_STR_LEN + 1];
	struct image img = {
		.rootfs_digest = rootfs_digest,
		.layers = as->n_layers,
		.created_s = (int64_t)(clock_wall_ns() / 1000000000),
	};
	int code = store_need(as->store, as->watch->total + ROOTFS_FREE_MIN, reterr);

	if (code == 0)
		code = make_rootfs(as, &img.size_bytes, rootfs_digest, reterr);
	if (code < 0)
		return code;
	auto_free char *digest = str_dup(as->plain ? as->plain_digest : as->wish->digest);
	if (!digest)
		return err_nomem(reterr);
	img.digest = digest;
	return store_publish(as->store, &as->temp, &img,
		as->plain ? plain_config : as->wish->config, as->wish->name, ret, reterr);
}

int assemble_image(struct image_store *s, struct tar_watch *watch, const struct assembly_wish *w,
	struct image **ret, holt_error **reterr)
{
	struct assembly as = {.store = s,
		.watch = watch,
		.wish = w,
		.plain = !w->manifest,
		.temp = {.fd = FD_NONE}};
	struct image_config config = {0};
	char **diff_ids = NULL;
	int code = 0;

	if (as.plain) {
		code = assemble_plain(&as, w->plain_size, reterr);
	} else {
		code = config_parse(
			w->config, (size_t)w->manifest->config.size, &config, &diff_ids, reterr);
		if (code == 0)
			code = config_check_platform(&config, reterr);
		if (code == 0)
			code = list_layers(&as, w->manifest, diff_ids, reterr);
	}
	if (code == 0)
		code = finish(&as, ret, reterr);
	rootfs_free(as.rootfs);
	merge_free(as.merge);
	tree_free(as.tree);
	store_temp_done(s, &as.temp);
	mem_free(as.layers);
	config_done(&config);
	strv_free(diff_ids);
	return code;
}
