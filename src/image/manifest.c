/* SPDX-License-Identifier: Apache-2.0 */
#include "image/manifest.h"

#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "image/ref.h"
#include "base/banned.h"

/*
 * What is not needed is not read: media types are only asked where the structure leaves a doubt,
 * since many tools leave them out or get them wrong. Everything that is needed must have its type
 * and be in its limits.
 */

#define PLATFORM_OS   "linux"
#define PLATFORM_ARCH "amd64"

static int get_object(
	const json_t *obj, const char *key, bool required, const json_t **ret, holt_error **reterr)
{
	const json_t *value = json_object_get(obj, key);

	if (json_is_null(value))
		value = NULL;
	if (value && !json_is_object(value))
		return err_make(reterr, HOLT_EINVALID, "'%s' is not an object", key);
	if (!value && required)
		return err_make(reterr, HOLT_EINVALID, "'%s' is missing", key);
	*ret = value;
	return 0;
}

static int get_array(
	const json_t *obj, const char *key, size_t max, const json_t **ret, holt_error **reterr)
{
	const json_t *value = json_object_get(obj, key);

	if (!value || json_is_null(value))
		return err_make(reterr, HOLT_EINVALID, "'%s' is missing", key);
	if (!json_is_array(value))
		return err_make(reterr, HOLT_EINVALID, "'%s' is not a list", key);
	if (json_array_size(value) > max)
		return err_make(reterr, HOLT_ELIMIT,
			"'%s' has %zu items, more than the limit of %zu", key,
			json_array_size(value), max);
	*ret = value;
	return 0;
}

static int parse_descriptor(const json_t *obj, struct descriptor *ret, holt_error **reterr)
{
	const char *digest = NULL;
	int64_t size = -1;
	int code;

	if (!json_is_object(obj))
		return err_make(reterr, HOLT_EINVALID, "a descriptor is not an object");
	code = json_get_str(obj, "digest", &digest, reterr);
	if (code == 0)
		code = json_get_int(obj, "size", 0, INT64_MAX, &size, reterr);
	if (code < 0)
		return code;
	if (!digest || size < 0)
		return err_make(reterr, HOLT_EINVALID, "a descriptor lacks its digest or size");
	if (!digest_valid(digest))
		return err_make(reterr, HOLT_EINVALID,
			"a digest is not sha256: and 64 lower-case hex digits");
	memcpy(ret->digest, digest, sizeof ret->digest);
	ret->size = (uint64_t)size;
	return 0;
}

/* --- Index ------------------------------------------------------------------------------------ */

json_t *descriptor_json(const struct descriptor *d, const char *type)
{
	return json_pack("{s:s, s:s, s:I}", "mediaType", type, "digest", d->digest, "size",
		(json_int_t)d->size);
}

int manifest_is_index(const char *data, size_t len, bool *ret, holt_error **reterr)
{
	auto_json doc = NULL;
	const int code = json_parse(data, len, MANIFEST_BYTES_MAX, "the manifest", &doc, reterr);

	if (code < 0)
		return code;
	const bool manifests = json_is_array(json_object_get(doc, "manifests"));
	const bool layers = json_is_array(json_object_get(doc, "layers"));
	/* Both would be read differently by different tools. */
	if (manifests == layers)
		return err_make(reterr, HOLT_EINVALID,
			"the document must have either 'manifests' or 'layers'");
	*ret = manifests;
	return 0;
}

enum match { MATCH_NO, MATCH_UNKNOWN, MATCH_YES };

static int match_platform(const json_t *entry, enum match *ret, holt_error **reterr)
{
	const json_t *platform = NULL;
	const char *os = NULL;
	const char *arch = NULL;
	int code = get_object(entry, "platform", false, &platform, reterr);

	if (code == 0 && platform)
		code = json_get_str(platform, "os", &os, reterr);
	if (code == 0 && platform)
		code = json_get_str(platform, "architecture", &arch, reterr);
	if (code < 0)
		return code;
	if (!os && !arch)
		*ret = MATCH_UNKNOWN;
	else if (os && arch && strcmp(os, PLATFORM_OS) == 0 && strcmp(arch, PLATFORM_ARCH) == 0)
		*ret = MATCH_YES;
	else
		*ret = MATCH_NO;
	return 0;
}

/* A full name, or NULL: a bare tag ("latest"), which the specification allows too, names nothing
 * when it leaves its layout. */
static int entry_name(const json_t *entry, char **ret, holt_error **reterr)
{
	static const char *const keys[] = {
		"io.containerd.image.name", "org.opencontainers.image.ref.name"};
	const json_t *notes = NULL;
	int code = get_object(entry, "annotations", false, &notes, reterr);

	*ret = NULL;
	for (size_t i = 0; code == 0 && notes && !*ret && i < 2; i++) {
		const char *text = NULL;
		code = json_get_str(notes, keys[i], &text, reterr);
		if (code == 0 && text && (strchr(text, ':') || strchr(text, '/')))
			(void)ref_normalise(text, ret, NULL);
	}
	return code;
}

static int no_platform(size_t n, holt_error **reterr)
{
	const int code = err_make(reterr, HOLT_EUNSUPPORTED,
		"none of its %zu manifests is for " PLATFORM_OS "/" PLATFORM_ARCH, n);

	err_hint(reterr, "build or pull the image for --platform " PLATFORM_OS "/" PLATFORM_ARCH);
	return code;
}

int manifest_pick(
	const char *data, size_t len, struct descriptor *ret, char **ret_name, holt_error **reterr)
{
	auto_json doc = NULL;
	const json_t *list = NULL;
	int code = json_parse(data, len, MANIFEST_BYTES_MAX, "the index", &doc, reterr);

	if (code == 0)
		code = get_array(doc, "manifests", INDEX_ENTRIES_MAX, &list, reterr);
	if (code < 0)
		return code;
	enum match best = MATCH_NO;
	const json_t *best_entry = NULL;
	struct descriptor best_desc = {0};
	bool several = false;
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *entry = json_array_get(list, i);
		struct descriptor d;
		enum match match = MATCH_NO;
		code = parse_descriptor(entry, &d, reterr);
		if (code == 0)
			code = match_platform(entry, &match, reterr);
		if (code < 0)
			return code;
		if (match == MATCH_NO || match < best)
			continue;
		several = match == best && (several || strcmp(d.digest, best_desc.digest) != 0);
		/* The first of equals stays, so that its name does. */
		if (match > best) {
			best = match;
			best_entry = entry;
			best_desc = d;
		}
	}
	if (!best_entry)
		return no_platform(json_array_size(list), reterr);
	if (several) {
		code = err_make(reterr, HOLT_EINVALID, "it holds several images for this platform");
		err_hint(reterr, "copy one of them into a layout of its own, for example with "
				 "skopeo copy oci:DIR:TAG oci:NEWDIR");
		return code;
	}
	code = entry_name(best_entry, ret_name, reterr);
	if (code == 0)
		*ret = best_desc;
	return code;
}

/* --- Manifest --------------------------------------------------------------------------------- */

int manifest_parse(const char *data, size_t len, struct manifest *ret, holt_error **reterr)
{
	auto_json doc = NULL;
	const json_t *config = NULL;
	const json_t *layers = NULL;
	struct manifest m = {0};
	int code = json_parse(data, len, MANIFEST_BYTES_MAX, "the manifest", &doc, reterr);

	if (code == 0)
		code = get_object(doc, "config", true, &config, reterr);
	if (code == 0)
		code = parse_descriptor(config, &m.config, reterr);
	if (code == 0 && m.config.size > CONFIG_BYTES_MAX)
		code = err_make(reterr, HOLT_ELIMIT, "the configuration has more than %u bytes",
			CONFIG_BYTES_MAX);
	if (code == 0)
		code = get_array(doc, "layers", MANIFEST_LAYERS_MAX, &layers, reterr);
	if (code < 0)
		return code;
	m.n_layers = json_array_size(layers);
	m.layers = mem_array(m.n_layers, sizeof *m.layers);
	if (!m.layers)
		return err_nomem(reterr);
	for (size_t i = 0; code == 0 && i < m.n_layers; i++) {
		const json_t *layer = json_array_get(layers, i);
		const char *type = NULL;
		code = parse_descriptor(layer, &m.layers[i], reterr);
		if (code == 0)
			code = json_get_str(layer, "mediaType", &type, reterr);
		if (code == 0 && type && str_ends(type, "+encrypted"))
			code = err_make(reterr, HOLT_EUNSUPPORTED, "layer %zu is encrypted", i + 1);
	}
	if (code < 0) {
		manifest_done(&m);
		return code;
	}
	*ret = m;
	return 0;
}

void manifest_done(struct manifest *m)
{
	mem_free(m->layers);
	*m = (struct manifest){0};
}

/* --- Configuration ---------------------------------------------------------------------------- */

static int dup_str(const json_t *obj, const char *key, char **ret, holt_error **reterr)
{
	const char *text = NULL;
	const int code = json_get_str(obj, key, &text, reterr);

	/* An empty string means the same as a missing one everywhere here. */
	if (code < 0 || !text || !*text)
		return code;
	*ret = str_dup(text);
	return *ret ? 0 : err_nomem(reterr);
}

static int parse_run(const json_t *run, struct image_config *c, holt_error **reterr)
{
	int code = json_get_strv(run, "Env", &c->env, reterr);

	if (code == 0)
		code = json_get_strv(run, "Entrypoint", &c->entrypoint, reterr);
	if (code == 0)
		code = json_get_strv(run, "Cmd", &c->cmd, reterr);
	if (code == 0)
		code = dup_str(run, "WorkingDir", &c->working_dir, reterr);
	if (code == 0)
		code = dup_str(run, "User", &c->user, reterr);
	if (code == 0)
		code = dup_str(run, "StopSignal", &c->stop_signal, reterr);
	return code;
}

static int parse_diff_ids(const json_t *doc, char ***ret, holt_error **reterr)
{
	const json_t *rootfs = NULL;
	int code = get_object(doc, "rootfs", false, &rootfs, reterr);

	if (code == 0 && rootfs)
		code = json_get_strv(rootfs, "diff_ids", ret, reterr);
	for (size_t i = 0; code == 0 && *ret && (*ret)[i]; i++) {
		if (!digest_valid((*ret)[i]))
			code = err_make(reterr, HOLT_EINVALID,
				"diff_id %zu is not sha256: and 64 lower-case hex digits", i + 1);
	}
	return code;
}

int config_parse(const char *data, size_t len, struct image_config *ret, char ***ret_diff_ids,
	holt_error **reterr)
{
	auto_json doc = NULL;
	const json_t *run = NULL;
	struct image_config c = {0};
	char **diff_ids = NULL;
	int code = json_parse(data, len, CONFIG_BYTES_MAX, "the image configuration", &doc, reterr);

	if (code == 0)
		code = dup_str(doc, "architecture", &c.architecture, reterr);
	if (code == 0)
		code = dup_str(doc, "os", &c.os, reterr);
	if (code == 0)
		code = get_object(doc, "config", false, &run, reterr);
	if (code == 0 && run)
		code = parse_run(run, &c, reterr);
	if (code == 0)
		code = parse_diff_ids(doc, &diff_ids, reterr);
	if (code < 0) {
		config_done(&c);
		strv_free(diff_ids);
		return code;
	}
	*ret = c;
	if (ret_diff_ids)
		*ret_diff_ids = diff_ids;
	else
		strv_free(diff_ids);
	return 0;
}

int config_check_platform(const struct image_config *c, holt_error **reterr)
{
	char os[64];
	char arch[64];

	if ((!c->os || strcmp(c->os, PLATFORM_OS) == 0) &&
		(!c->architecture || strcmp(c->architecture, PLATFORM_ARCH) == 0))
		return 0;
	const char *const s = c->os ? c->os : "?";
	const char *const a = c->architecture ? c->architecture : "?";
	(void)str_escape(os, sizeof os, s, strlen(s), false);
	(void)str_escape(arch, sizeof arch, a, strlen(a), false);
	const int code = err_make(reterr, HOLT_EUNSUPPORTED,
		"the image is for %s/%s, not for " PLATFORM_OS "/" PLATFORM_ARCH, os, arch);
	err_hint(reterr, "build or pull the image for --platform " PLATFORM_OS "/" PLATFORM_ARCH);
	return code;
}

void config_done(struct image_config *c)
{
	strv_free(c->env);
	strv_free(c->entrypoint);
	strv_free(c->cmd);
	mem_free(c->working_dir);
	mem_free(c->user);
	mem_free(c->architecture);
	mem_free(c->os);
	mem_free(c->stop_signal);
	*c = (struct image_config){0};
}
