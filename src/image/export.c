/* SPDX-License-Identifier: Apache-2.0 */
#include "image/export.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/digest.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "image/manifest.h"
#include "image/ref.h"
#include "image/rootfs.h"
#include "image/rootfs_tar.h"
#include "image/store.h"
#include "base/banned.h"

/*
 * The layer goes to a temporary file of the store first: a tar has the size of a file, and a layout
 * its digest as a name, in front of its bytes. All else is small and made in memory.
 */

#define SPACE_CHECK_BYTES (16u << 20) /* written between two looks at the free space */
#define COPY_CHUNK        (256u << 10)
#define CANCEL_POLL_MS    100
#define EPOCH             "1970-01-01T00:00:00Z"

struct blob {
	char *text; /* NULL for the layer, which is in the spool */
	struct descriptor d;
};

struct export
{
	struct image_store *store;
	struct image *image;
	const volatile int *cancel;
	struct temp_file spool;
	struct digest_ctx *hash; /* of what goes to the spool */
	uint64_t unchecked;
	int fd;
	bool waits; /* the descriptor may have to be waited for */
	struct blob layer;
	struct blob config;
	struct blob manifest;
	struct blob index;
};

static int cancelled(holt_error **reterr)
{
	return err_make(reterr, HOLT_ECANCELLED, "the export was cancelled");
}

/* --- The layer -------------------------------------------------------------------------------- */

static int check_space(struct export *x, size_t len, holt_error **reterr)
{
	x->unchecked += len;
	if (x->unchecked < SPACE_CHECK_BYTES)
		return 0;
	x->unchecked = 0;
	return store_need(x->store, ROOTFS_FREE_MIN, reterr);
}

static int spool_write(void *user, const void *data, size_t len, holt_error **reterr)
{
	struct export *x = user;
	const int code = check_space(x, len, reterr);

	if (code < 0)
		return code;
	const int r = fd_write_full(x->spool.fd, data, len);
	if (r < 0)
		return err_errno(reterr, -r, "cannot write a temporary file");
	digest_update(x->hash, data, len);
	x->layer.d.size += len;
	return 0;
}

static int make_layer(struct export *x, holt_error **reterr)
{
	const struct tar_sink sink = {.write = spool_write, .user = x};
	struct tar_writer *w = NULL;
	auto_fd rootfs = FD_NONE;
	int code = image_open_rootfs(x->store, x->image, &rootfs, reterr);

	if (code == 0)
		code = store_temp(x->store, &x->spool, reterr);
	if (code < 0)
		return code;
	x->unchecked = SPACE_CHECK_BYTES; /* look before the first byte */
	x->hash = digest_new();
	if (!x->hash)
		return err_nomem(reterr);
	code = tar_writer_new(&sink, &w, reterr);
	if (code == 0)
		code = rootfs_to_tar(rootfs, w, x->cancel, reterr);
	tar_writer_free(w);
	if (code == 0)
		digest_final(x->hash, x->layer.d.digest);
	return code;
}

/* --- The documents ---------------------------------------------------------------------------- */

/* Takes @doc, which may be NULL for want of memory. */
static int seal(struct blob *b, json_t *doc, holt_error **reterr)
{
	b->text = doc ? json_text(doc) : NULL;
	json_decref(doc);
	if (!b->text)
		return err_nomem(reterr);
	b->d.size = strlen(b->text);
	return digest_of(b->text, (size_t)b->d.size, b->d.digest) < 0 ? err_nomem(reterr) : 0;
}

/* What the image came with, the layers aside; what a plain tar lacks is filled in. */
static int make_config(struct export *x, holt_error **reterr)
{
	auto_free char *text = NULL;
	auto_json doc = NULL;
	int code = store_config(x->store, x->image->digest, &text, reterr);

	if (code == 0)
		code = json_parse(
			text, strlen(text), CONFIG_BYTES_MAX, "the configuration", &doc, reterr);
	if (code < 0)
		return code;
	const json_t *created = json_object_get(doc, "created");
	const char *when = json_is_string(created) ? json_string_value(created) : EPOCH;
	json_t *history = json_pack(
		"[{s:s, s:s}]", "created", when, "created_by", "holt image export");
	json_t *rootfs = json_pack("{s:s, s:[s]}", "type", "layers", "diff_ids", x->layer.d.digest);
	/* Both take what they are given, also where it is NULL or they fail. */
	int r = json_object_set_new(doc, "rootfs", rootfs);
	r |= json_object_set_new(doc, "history", history);
	return r ? err_nomem(reterr) : seal(&x->config, json_incref(doc), reterr);
}

static int make_manifest(struct export *x, holt_error **reterr)
{
	return seal(&x->manifest,
		json_pack("{s:i, s:s, s:o, s:[o]}", "schemaVersion", 2, "mediaType", TYPE_MANIFEST,
			"config", descriptor_json(&x->config.d, TYPE_CONFIG), "layers",
			descriptor_json(&x->layer.d, TYPE_LAYER)),
		reterr);
}

/* The whole name besides the tag, which is all that the specification knows. */
static int name_it(const struct image *img, json_t *manifest, holt_error **reterr)
{
	auto_ref ref = {0};

	if (!img->name)
		return 0;
	const int code = ref_parse(img->name, &ref, reterr);
	if (code < 0)
		return code;
	json_t *notes = json_pack("{s:s, s:s}", "io.containerd.image.name", img->name,
		"org.opencontainers.image.ref.name", ref.tag);
	return json_object_set_new(manifest, "annotations", notes) ? err_nomem(reterr) : 0;
}

static int make_index(struct export *x, holt_error **reterr)
{
	const struct image_config *c = &x->image->config;
	auto_json m = descriptor_json(&x->manifest.d, TYPE_MANIFEST);

	if (!m || json_object_set_new(m, "platform",
			  json_pack("{s:s, s:s}", "architecture", c->architecture, "os", c->os)))
		return err_nomem(reterr);
	const int code = name_it(x->image, m, reterr);
	return code < 0 ? code
			: seal(&x->index,
				  json_pack("{s:i, s:s, s:[O]}", "schemaVersion", 2, "mediaType",
					  TYPE_INDEX, "manifests", m),
				  reterr);
}

/* --- The archive ------------------------------------------------------------------------------ */

/* Wait until a pipe takes something, but not beyond the end of the wish for it. */
static int wait_writable(const struct export *x, holt_error **reterr)
{
	struct pollfd p = {.fd = x->fd, .events = POLLOUT};

	for (;;) {
		if (cancel_flag_set(x->cancel))
			return cancelled(reterr);
		const int n = poll(&p, 1, CANCEL_POLL_MS);
		if (n > 0)
			return 0;
		if (n < 0 && errno != EINTR)
			return err_errno(reterr, errno, "cannot wait for the output");
	}
}

static int out_write(void *user, const void *data, size_t len, holt_error **reterr)
{
	const struct export *x = user;
	const uint8_t *p = data;

	while (len > 0) {
		/* A pipe that is ready takes so much without waiting for more room. */
		const size_t n = x->waits && len > PIPE_BUF ? PIPE_BUF : len;
		const int code = x->waits ? wait_writable(x, reterr) : 0;
		if (code < 0)
			return code;
		const ssize_t done = write(x->fd, p, n);
		if (done < 0 && errno != EINTR && errno != EAGAIN)
			return err_errno(reterr, errno, "cannot write the archive");
		p += done > 0 ? done : 0;
		len -= done > 0 ? (size_t)done : 0;
	}
	return 0;
}

static int add_text(struct tar_writer *w, const char *path, const char *text, holt_error **reterr)
{
	int code = tar_writer_file(w, path, strlen(text), reterr);

	if (code == 0)
		code = tar_writer_data(w, text, strlen(text), reterr);
	return code;
}

static int add_spool(const struct export *x, struct tar_writer *w, holt_error **reterr)
{
	auto_free char *chunk = mem_array(COPY_CHUNK, 1);
	int code = chunk ? 0 : err_nomem(reterr);

	for (uint64_t at = 0; code == 0 && at < x->layer.d.size;) {
		if (cancel_flag_set(x->cancel))
			return cancelled(reterr);
		const ssize_t n = pread(x->spool.fd, chunk, COPY_CHUNK, (off_t)at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return err_errno(
				reterr, n < 0 ? errno : EIO, "cannot read a temporary file");
		code = tar_writer_data(w, chunk, (size_t)n, reterr);
		at += (uint64_t)n;
	}
	return code;
}

static int add_blob(
	const struct export *x, struct tar_writer *w, const struct blob *b, holt_error **reterr)
{
	auto_free char *path = str_printf("blobs/sha256/%s", b->d.digest + strlen("sha256:"));

	if (!path)
		return err_nomem(reterr);
	if (b->text)
		return add_text(w, path, b->text, reterr);
	const int code = tar_writer_file(w, path, b->d.size, reterr);
	return code < 0 ? code : add_spool(x, w, reterr);
}

static int write_archive(struct export *x, holt_error **reterr)
{
	const struct tar_sink sink = {.write = out_write, .user = x};
	const struct blob *const blobs[] = {&x->config, &x->manifest, &x->layer};
	struct tar_writer *w = NULL;
	int code = tar_writer_new(&sink, &w, reterr);

	if (code == 0)
		code = add_text(w, "oci-layout", "{\"imageLayoutVersion\":\"1.0.0\"}", reterr);
	if (code == 0)
		code = add_text(w, "index.json", x->index.text, reterr);
	for (size_t i = 0; code == 0 && i < sizeof blobs / sizeof blobs[0]; i++)
		code = add_blob(x, w, blobs[i], reterr);
	if (code == 0)
		code = tar_writer_end(w, reterr);
	tar_writer_free(w);
	return code;
}

static int export(struct export *x, const char *ref, holt_error **reterr)
{
	int code = image_get(x->store, ref, &x->image, reterr);

	if (code == 0)
		code = make_layer(x, reterr);
	if (code == 0)
		code = make_config(x, reterr);
	if (code == 0)
		code = make_manifest(x, reterr);
	if (code == 0)
		code = make_index(x, reterr);
	return code == 0 ? write_archive(x, reterr) : code;
}

int image_export(struct image_store *s, const char *ref, int fd, const volatile int *cancel,
	holt_error **reterr)
{
	struct export x = {.store = s, .cancel = cancel, .spool = {.fd = FD_NONE}, .fd = fd};
	struct stat st;

	if (fstat(fd, &st) < 0)
		return err_errno(reterr, errno, "cannot write the archive");
	x.waits = !S_ISREG(st.st_mode);
	const int code = export(&x, ref, reterr);
	store_temp_done(s, &x.spool);
	digest_free(x.hash);
	mem_free(x.config.text);
	mem_free(x.manifest.text);
	mem_free(x.index.text);
	image_free(x.image);
	if (code < 0) {
		err_stage(reterr, "image export");
		err_object(reterr, ref);
	}
	return code;
}
