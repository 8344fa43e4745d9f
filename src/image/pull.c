/* SPDX-License-Identifier: Apache-2.0 */
#include "image/pull.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"
#include "image/assemble.h"
#include "image/loader.h"
#include "image/manifest.h"
#include "image/ref.h"
#include "image/registry.h"
#include "image/rootfs.h"
#include "image/store.h"
#include "base/banned.h"

/*
 * reference -> manifest (through indexes) -> there already? -> lock of its digest -> there by now?
 * -> configuration -> threads load the layers, this one converts -> published under the lock.
 */

#define TICK_MS 100 /* how long a wait lasts at most before events and cancel are looked at */

struct shown {
	enum pull_phase phase;
	uint64_t bytes;
	bool converted;
};

struct pull {
	struct image_store *store;
	const struct image_pull_options *o;
	struct registry *registry;
	struct registry_link *link;
	struct manifest manifest;
	char digest[DIGEST_STR_LEN + 1]; /* of the manifest */
	struct loader *loader;
	struct shown *shown; /* what was told of each layer */
	uint64_t told_ms;
	size_t reading; /* layer that is converted, counted from 0 */
};

static int check_cancel(const struct pull *p, holt_error **reterr)
{
	return cancel_flag_set(p->o->cancel)
		       ? err_make(reterr, HOLT_ECANCELLED, "the pull was cancelled")
		       : 0;
}

/* ---- events ---- */

static void tell(struct pull *p, enum pull_phase phase, size_t at, uint64_t bytes)
{
	const struct pull_event e = {.phase = phase,
		.layer = (unsigned)at + 1,
		.n_layers = (unsigned)p->manifest.n_layers,
		.digest = p->manifest.layers[at].digest,
		.done_bytes = bytes,
		.total_bytes = p->manifest.layers[at].size};

	p->o->event(&e, p->o->user_data);
}

static void tell_image(struct pull *p)
{
	struct pull_event e = {.phase = PULL_RESOLVED,
		.n_layers = (unsigned)p->manifest.n_layers,
		.digest = p->digest};

	for (size_t i = 0; i < p->manifest.n_layers; i++)
		e.total_bytes += p->manifest.layers[i].size;
	if (p->o->event)
		p->o->event(&e, p->o->user_data);
}

/* What has changed since the last time, ten times a second at most. */
static void tell_layers(struct pull *p, bool now)
{
	const uint64_t ms = clock_mono_ms();

	if (!p->o->event || (!now && ms - p->told_ms < TICK_MS))
		return;
	p->told_ms = ms;
	for (size_t i = p->manifest.n_layers; i-- > 0;) {
		struct shown *s = &p->shown[i];
		struct load_state st;
		loader_state(p->loader, i, &st);
		if (st.phase != s->phase || (st.phase == PULL_LOADING && st.have_bytes != s->bytes))
			tell(p, st.phase, i, st.have_bytes);
		s->phase = st.phase;
		s->bytes = st.have_bytes;
	}
}

static void tell_converted(struct pull *p, size_t at)
{
	tell_layers(p, true);
	if (p->o->event && !p->shown[at].converted)
		tell(p, PULL_CONVERTED, at, p->manifest.layers[at].size);
	p->shown[at].converted = true;
}

/* ---- layers, while they arrive ---- */

static int wait_bytes(void *user, uint64_t at, uint64_t *ret_have, holt_error **reterr)
{
	struct pull *p = user;
	struct blob *b = NULL;
	uint64_t have = 0;
	int code = loader_blob(p->loader, p->reading, 0, &b, reterr);

	while (code == 0) {
		auto_error other = NULL;
		code = blob_wait(b, at, TICK_MS, &have, &other);
		/* The loader knows better why. */
		if (code < 0 && loader_done(p->loader, 0, reterr) >= 0)
			return err_take(reterr, take_ptr(other));
		if (code < 0)
			return code;
		tell_layers(p, false);
		code = check_cancel(p, reterr);
		if (have > at)
			break;
	}
	if (code == 0)
		*ret_have = have;
	return code;
}

static int open_layer(
	void *user, size_t at, struct tar_source *ret, int *ret_fd, holt_error **reterr)
{
	struct pull *p = user;
	struct blob *b = NULL;
	int code = 0;

	if (at + 1 < p->manifest.n_layers)
		tell_converted(p, at + 1);
	p->reading = at;
	while (code == 0 && !b) {
		code = loader_blob(p->loader, at, TICK_MS, &b, reterr);
		tell_layers(p, false);
		if (code == 0)
			code = check_cancel(p, reterr);
	}
	if (code < 0)
		return code;
	*ret = (struct tar_source){.fd = blob_fd(b),
		.size = p->manifest.layers[at].size,
		.wait = wait_bytes,
		.user = p};
	*ret_fd = FD_NONE;
	return 0;
}

/* Of the bytes that were read; events go out while a long layer is converted, too. */
static void on_progress(uint64_t done, uint64_t total, void *user)
{
	(void)done;
	(void)total;
	tell_layers(user, false);
}

static int convert(struct pull *p, const char *config, const char *name, struct image **ret,
	holt_error **reterr)
{
	struct tar_watch watch = {.progress = on_progress, .user = p, .cancel = p->o->cancel};
	const struct assembly_wish w = {.digest = p->digest,
		.manifest = &p->manifest,
		.config = config,
		.name = name,
		.open = open_layer,
		.user = p};
	int code = loader_new(p->store, p->registry, p->manifest.layers, p->manifest.n_layers,
		&p->loader, reterr);

	if (code == 0)
		code = assemble_image(p->store, &watch, &w, ret, reterr);
	if (code == 0 && p->manifest.n_layers > 0)
		tell_converted(p, 0);
	return code;
}

/* Once more, with nothing from before, where what was read is not what it should be. */
static int convert_surely(struct pull *p, const char *config, const char *name, struct image **ret,
	holt_error **reterr)
{
	auto_error first = NULL;
	int code = convert(p, config, name, ret, &first);

	if (code == -HOLT_EINVALID && p->loader && loader_discard_old(p->loader) > 0) {
		loader_free(take_ptr(p->loader));
		code = convert(p, config, name, ret, reterr);
	} else if (code < 0) {
		(void)err_take(reterr, take_ptr(first));
	}
	loader_free(take_ptr(p->loader));
	(void)blobs_trim(p->store, BLOBS_BYTES_MAX);
	return code;
}

/* ---- the image ---- */

struct text {
	char *data;
	size_t size; /* what it should have */
	size_t len;
};

static int take_text(void *user, uint64_t at, const void *data, size_t len, holt_error **reterr)
{
	struct text *t = user;

	if (at > t->size || len > t->size - at)
		return err_make(reterr, HOLT_EINVALID, "the registry sends more than it should");
	memcpy(t->data + at, data, len);
	t->len = (size_t)at + len;
	return 0;
}

/* The configuration as one registry or mirror has it. */
static int load_config(struct pull *p, struct text *t, holt_error **reterr)
{
	const struct descriptor *d = &p->manifest.config;
	char digest[DIGEST_STR_LEN + 1];
	int code = -HOLT_EUNAVAILABLE;

	for (unsigned tries = 1; code == -HOLT_EUNAVAILABLE; tries++) {
		auto_error e = NULL;
		t->len = 0;
		code = registry_blob(p->link, d, 0, take_text, t, &e);
		if (code < 0 && (code != -HOLT_EUNAVAILABLE || tries == PULL_TRIES))
			return err_take(reterr, take_ptr(e));
	}
	if (digest_of(t->data, t->len, digest) < 0)
		return err_nomem(reterr);
	if (strcmp(digest, d->digest) == 0)
		return 0;
	code = err_make(reterr, HOLT_EINVALID,
		"the configuration that arrived has the digest %s, expected %s", digest, d->digest);
	err_object(reterr, d->digest);
	return code;
}

static int get_config(struct pull *p, char **ret, holt_error **reterr)
{
	const struct descriptor *d = &p->manifest.config;
	auto_error first = NULL;

	if (d->size > CONFIG_BYTES_MAX)
		return err_make(reterr, HOLT_ELIMIT,
			"the configuration has %" PRIu64 " bytes, more than the limit of %u",
			d->size, CONFIG_BYTES_MAX);
	auto_free char *data = mem_zalloc((size_t)d->size + 1);
	struct text t = {.data = data, .size = (size_t)d->size};
	if (!data)
		return err_nomem(reterr);
	int code = load_config(p, &t, &first);
	if (code == -HOLT_EINVALID && registry_leave_mirrors(p->registry))
		code = load_config(p, &t, reterr);
	else if (code < 0)
		(void)err_take(reterr, take_ptr(first));
	if (code == 0)
		*ret = take_ptr(data);
	return code;
}

/* Before anything is loaded: what is wrong with the image, or with the room for it. */
static int check_image(struct pull *p, const char *config, holt_error **reterr)
{
	struct image_config c = {0};
	char **diff_ids = NULL;
	uint64_t need = ROOTFS_FREE_MIN;
	int code = config_parse(config, (size_t)p->manifest.config.size, &c, &diff_ids, reterr);

	if (code == 0)
		code = config_check_platform(&c, reterr);
	config_done(&c);
	strv_free(diff_ids);
	/* Each layer twice: as it comes, and converted. */
	for (size_t i = 0; i < p->manifest.n_layers; i++)
		need += 2 * (p->manifest.layers[i].size < TAR_STREAM_MAX
					    ? p->manifest.layers[i].size
					    : TAR_STREAM_MAX);
	return code < 0 ? code : store_need(p->store, need, reterr);
}

static int make(struct pull *p, const char *name, struct image **ret, holt_error **reterr)
{
	auto_free char *config = NULL;
	int code = get_config(p, &config, reterr);

	if (code == 0)
		code = check_image(p, config, reterr);
	if (code < 0)
		return code;
	p->shown = mem_array(p->manifest.n_layers ? p->manifest.n_layers : 1, sizeof *p->shown);
	if (!p->shown)
		return err_nomem(reterr);
	for (size_t i = 0; i < p->manifest.n_layers; i++)
		p->shown[i] = (struct shown){.phase = PULL_WAITING};
	tell_image(p);
	return convert_surely(p, config, name, ret, reterr);
}

static bool have_image(struct pull *p, const char *digest)
{
	struct image *img = NULL;

	if (image_get(p->store, digest, &img, NULL) < 0)
		return false;
	image_free(img);
	return true;
}

/* From a tag or digest to the manifest, through indexes within indexes. One that an index leads to
 * is not read where its image is there: a tag that has not changed costs one request. */
static int resolve(struct pull *p, const char *reference, holt_error **reterr)
{
	struct registry_manifest m = {0};
	bool is_index = true;
	int code = registry_manifest(p->link, reference, &m, reterr);

	for (unsigned depth = 0; code == 0; depth++) {
		auto_free char *text = m.text;
		auto_free char *unused = NULL;
		struct descriptor d = {0};

		code = manifest_is_index(text, m.len, &is_index, reterr);
		if (code == 0 && !is_index) {
			memcpy(p->digest, m.digest, sizeof p->digest);
			return manifest_parse(text, m.len, &p->manifest, reterr);
		}
		if (code == 0 && depth == INDEX_DEPTH_MAX)
			code = err_make(reterr, HOLT_ELIMIT,
				"indexes within indexes are deeper than %d", INDEX_DEPTH_MAX);
		if (code == 0)
			code = manifest_pick(text, m.len, &d, &unused, reterr);
		if (code == 0 && have_image(p, d.digest)) {
			memcpy(p->digest, d.digest, sizeof p->digest);
			return 0;
		}
		if (code == 0)
			code = registry_manifest(p->link, d.digest, &m, reterr);
	}
	return code;
}

static int find_or_make(
	struct pull *p, const char *name, struct image **ret, bool *ret_made, holt_error **reterr)
{
	struct temp_file lock = {.fd = FD_NONE};
	int code = store_adopt(p->store, p->digest, name, ret, reterr);

	if (code < 0 || *ret)
		return code;
	code = store_lock_digest(p->store, p->digest, p->o->cancel, &lock, reterr);
	if (code == 0)
		code = store_adopt(p->store, p->digest, name, ret, reterr);
	/* The image has gone meanwhile. */
	if (code == 0 && !*ret && !*p->manifest.config.digest)
		code = resolve(p, p->digest, reterr);
	if (code == 0 && !*ret) {
		code = make(p, name, ret, reterr);
		*ret_made = code == 0;
	}
	store_temp_done(p->store, &lock);
	return code;
}

static int pull(struct pull *p, const struct ref *ref, const char *name, struct image **ret,
	bool *ret_changed, holt_error **reterr)
{
	const struct registry_options ro = {.registries = p->o->registries,
		.insecure = p->o->insecure,
		.ca_file = p->o->ca_file,
		.user = p->o->user,
		.password = p->o->password,
		.cancel = p->o->cancel};
	struct image *before = NULL;
	bool made = false;
	int code = registry_open(ref, &ro, &p->registry, reterr);

	if (code == 0)
		code = registry_link_open(p->registry, p->o->cancel, &p->link, reterr);
	if (code == 0)
		code = resolve(p, ref->digest ? ref->digest : ref->tag, reterr);
	if (code < 0)
		return code;
	if (name)
		(void)image_get(p->store, name, &before, NULL);
	code = find_or_make(p, name, ret, &made, reterr);
	if (code == 0 && ret_changed)
		*ret_changed = made ||
			       (name && (!before || strcmp(before->digest, p->digest) != 0));
	image_free(before);
	return code;
}

/* "a/b:tag", NULL where only a digest says which one. */
static int name_of(const char *text, const struct ref *ref, char **ret, holt_error **reterr)
{
	const char *at = strchr(text, '@');
	const char *slash = strrchr(text, '/');
	const char *tag = strchr(slash ? slash : text, ':');

	*ret = NULL;
	if (at && (!tag || tag > at))
		return 0;
	*ret = str_printf("%s:%s", ref->repository, ref->tag);
	return *ret ? 0 : err_nomem(reterr);
}

int image_pull(struct image_store *s, const char *text, const struct image_pull_options *o,
	struct image **ret, bool *ret_changed, holt_error **reterr)
{
	static const struct image_pull_options none = {0};
	struct pull p = {.store = s, .o = o ? o : &none};
	auto_ref ref = {0};
	auto_free char *name = NULL;
	struct image *img = NULL;
	int code = ref_parse(text, &ref, reterr);

	if (code == 0)
		code = name_of(text, &ref, &name, reterr);
	if (code == 0) {
		code = pull(&p, &ref, name, &img, ret_changed, reterr);
		if (code < 0)
			err_wrap(reterr, "cannot pull '%s'", text);
	}
	loader_free(p.loader);
	registry_link_close(p.link);
	registry_close(p.registry);
	manifest_done(&p.manifest);
	mem_free(p.shown);
	if (code < 0) {
		err_stage(reterr, "pull");
		err_object(reterr, text);
		return code;
	}
	*ret = img;
	return 0;
}
