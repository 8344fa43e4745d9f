/* SPDX-License-Identifier: Apache-2.0 */
#include "image/docker_archive.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "image/layer.h"
#include "image/ref.h"
#include "base/banned.h"

/*
 * Where a name comes twice, the later one counts, as when the tar is unpacked. Older archives have
 * a layer once and symbolic links to it from wherever else it is used.
 */

#define NAMES_SHOWN_MAX 1024 /* bytes of names in a message */

struct member {
	char *path;
	char *target; /* of a link, seen from the top; NULL for a file */
	uint64_t offset;
	uint64_t size;
};

struct docker_archive {
	struct tar_source src;
	struct member *members;
	size_t n;
	size_t cap;
	size_t name_bytes;
	json_t *doc; /* {"images": what manifest.json says} */
	struct tar_source *layers; /* of the image that was picked */
};

static int damaged(holt_error **reterr, const char *what, const char *path)
{
	char shown[256];

	(void)str_escape(shown, sizeof shown, path, strlen(path), false);
	(void)err_make(reterr, HOLT_EINVALID, "%s '%s'", what, shown);
	err_hint(reterr, "the archive is incomplete or damaged; save the image again");
	return -HOLT_EINVALID;
}

/* --- What is in the tar ----------------------------------------------------------------------- */

bool docker_archive_has_path(const char *path)
{
	const size_t n = strspn(path, "0123456789abcdef");
	const char *rest = path + n;

	if (strcmp(path, "manifest.json") == 0 || strcmp(path, "repositories") == 0)
		return true;
	return n == DIGEST_HEX_LEN &&
	       (!*rest || *rest == '/' || strcmp(rest, ".tar") == 0 || strcmp(rest, ".json") == 0);
}

/* Where a link leads from the directory that it is in, seen from the top; NULL for above it. */
static char *link_target(const char *path, const char *target, bool from_top, bool *ret_nomem)
{
	const char *slash = strrchr(path, '/');
	const int dir_len = from_top || !slash ? 0 : (int)(slash - path);
	auto_free char *joined = str_printf("%.*s/%s", dir_len, path, target);
	auto_free char *out = joined ? mem_zalloc(strlen(joined) + 1) : NULL;
	size_t len = 0;

	*ret_nomem = !out;
	if (!out || target[0] == '/')
		return NULL;
	for (const char *p = joined; *p;) {
		const size_t n = strcspn(p, "/");
		if (n == 2 && memcmp(p, "..", 2) == 0) {
			if (len == 0)
				return NULL;
			while (len > 0 && out[--len] != '/')
				;
		} else if (n > 0 && !(n == 1 && *p == '.')) {
			if (len > 0)
				out[len++] = '/';
			memcpy(out + len, p, n);
			len += n;
		}
		p += n + (p[n] == '/');
	}
	out[len] = 0;
	return take_ptr(out);
}

static int reserve_member(struct docker_archive *a, size_t name_bytes, holt_error **reterr)
{
	a->name_bytes += name_bytes;
	if (a->n == DOCKER_MEMBERS_MAX || a->name_bytes > DOCKER_NAMES_MAX)
		return err_make(reterr, HOLT_ELIMIT,
			"the archive has more than %d files, or more than %u bytes of names",
			DOCKER_MEMBERS_MAX, DOCKER_NAMES_MAX);
	if (a->n < a->cap)
		return 0;
	const size_t cap = a->cap ? 2 * a->cap : 64;
	struct member *more = mem_resize(a->members, cap, sizeof *more);
	if (!more)
		return err_nomem(reterr);
	a->members = more;
	a->cap = cap;
	return 0;
}

static int add_member(struct docker_archive *a, struct tar_reader *tar, const struct tar_entry *e,
	holt_error **reterr)
{
	char path[TAR_PATH_MAX + 1];
	struct member m = {.size = e->size};
	const char *target = e->hardlink ? e->hardlink : e->symlink;
	bool nomem = false;
	int code = layer_clean_path(e->path, path, reterr);

	if (code < 0 || !path[0] || (!target && !S_ISREG(e->mode)))
		return code;
	code = reserve_member(a, strlen(path) + (target ? strlen(target) : 0), reterr);
	if (code == 0 && !target && e->size > 0) {
		code = tar_data_offset(tar, &m.offset, reterr);
	} else if (code == 0 && target) {
		m.target = link_target(path, target, e->hardlink, &nomem);
		/* One that leads outside leads nowhere; only a layer there would matter. */
		if (!m.target && !nomem)
			return 0;
	}
	if (code < 0)
		return code;
	m.path = str_dup(path);
	if (!m.path || nomem) {
		mem_free(m.path);
		mem_free(m.target);
		return err_nomem(reterr);
	}
	a->members[a->n++] = m;
	return 0;
}

static const struct member *find_exact(const struct docker_archive *a, const char *path)
{
	for (size_t at = a->n; at-- > 0;) {
		if (strcmp(a->members[at].path, path) == 0)
			return &a->members[at];
	}
	return NULL;
}

static int find(const struct docker_archive *a, const char *name, const struct member **ret,
	holt_error **reterr)
{
	char path[TAR_PATH_MAX + 1];
	int code = layer_clean_path(name, path, reterr);
	const struct member *m = code < 0 ? NULL : find_exact(a, path);

	if (code < 0)
		return code;
	for (unsigned n = 0; m && m->target; n++) {
		if (n == DOCKER_LINKS_MAX)
			return damaged(reterr, "too many links lead on from", name);
		m = find_exact(a, m->target);
	}
	if (!m)
		return damaged(reterr, "the archive does not hold", name);
	*ret = m;
	return 0;
}

static int read_text(const struct docker_archive *a, const struct member *m, size_t max, char **ret,
	holt_error **reterr)
{
	if (m->size > max)
		return err_make(reterr, HOLT_ELIMIT,
			"'%.64s' has %" PRIu64 " bytes, more than the limit of %zu", m->path,
			m->size, max);
	const size_t len = (size_t)m->size;
	auto_free char *text = mem_zalloc(len + 1);
	if (!text)
		return err_nomem(reterr);
	for (size_t at = 0; at < len;) {
		const ssize_t n = pread(
			a->src.fd, text + at, len - at, (off_t)(a->src.offset + m->offset + at));
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return err_errno(reterr, n < 0 ? errno : EIO, "cannot read the archive");
		at += (size_t)n;
	}
	*ret = take_ptr(text);
	return 0;
}

/* Our door to JSON takes objects, and this is an array. */
static int read_manifest(struct docker_archive *a, const struct member *m, holt_error **reterr)
{
	auto_free char *text = NULL;
	int code = read_text(a, m, MANIFEST_BYTES_MAX, &text, reterr);

	if (code < 0)
		return code;
	if (strlen(text) != m->size)
		return damaged(reterr, "there is a NUL in", m->path);
	auto_free char *whole = str_printf("{\"images\":%s}", text);
	if (!whole)
		return err_nomem(reterr);
	code = json_parse(
		whole, strlen(whole), MANIFEST_BYTES_MAX + 16, "'manifest.json'", &a->doc, reterr);
	const json_t *images = code < 0 ? NULL : json_object_get(a->doc, "images");
	if (code == 0 && (!json_is_array(images) || json_array_size(images) == 0 ||
				 json_array_size(images) > DOCKER_IMAGES_MAX))
		return damaged(reterr, "there is no list of images in", m->path);
	return code;
}

int docker_archive_open(const struct tar_source *src, struct tar_watch *watch,
	struct docker_archive **ret, holt_error **reterr)
{
	struct tar_watch quiet = {.cancel = watch->cancel};
	struct tar_reader *tar = NULL;
	struct tar_entry e;
	struct docker_archive *a = mem_zalloc(sizeof *a);

	if (!a)
		return err_nomem(reterr);
	a->src = *src;
	int code = tar_open(src, &quiet, &tar, reterr);
	while (code == 0 && (code = tar_next(tar, &e, reterr)) > 0)
		code = add_member(a, tar, &e, reterr);
	tar_close(tar);
	const struct member *m = code < 0 ? NULL : find_exact(a, "manifest.json");
	if (m && !m->target)
		code = read_manifest(a, m, reterr);
	if (code < 0 || !m || m->target) {
		docker_archive_close(a);
		return code;
	}
	*ret = a;
	return 0;
}

void docker_archive_close(struct docker_archive *a)
{
	if (!a)
		return;
	for (size_t i = 0; i < a->n; i++) {
		mem_free(a->members[i].path);
		mem_free(a->members[i].target);
	}
	json_decref(a->doc);
	mem_free(a->layers);
	mem_free(a->members);
	mem_free(a);
}

/* --- The image -------------------------------------------------------------------------------- */

/* The names of an entry, complete; what is no reference is left out. */
static int read_names(const json_t *entry, char ***ret, holt_error **reterr)
{
	char **tags = NULL;
	size_t n = 0;
	int code = json_get_strv(entry, "RepoTags", &tags, reterr);

	for (size_t i = 0; code == 0 && tags && tags[i]; i++) {
		char *name = NULL;
		if (ref_normalise(tags[i], &name, NULL) == -HOLT_ENO_MEMORY)
			code = err_nomem(reterr);
		mem_free(tags[i]);
		tags[i] = NULL;
		if (name)
			tags[n++] = name;
		else if (code < 0)
			for (i++; tags[i]; i++)
				mem_free(take_ptr(tags[i]));
	}
	if (code < 0) {
		strv_free(tags);
		return code;
	}
	*ret = tags;
	return 0;
}

static int several(const char *shown, holt_error **reterr)
{
	(void)err_make(reterr, HOLT_EINVALID, "the archive holds several images: %s",
		*shown ? shown : "none of them has a name");
	err_hint(reterr, "choose one of them with --name");
	return -HOLT_EINVALID;
}

/* The only entry, or that with the name; *ret_names are its own. */
static int choose(const struct docker_archive *a, const char *name, const json_t **ret,
	char ***ret_names, holt_error **reterr)
{
	const json_t *images = json_object_get(a->doc, "images");
	const size_t n = json_array_size(images);
	auto_buf shown = BUF_INIT(NAMES_SHOWN_MAX);

	for (size_t at = 0; at < n; at++) {
		const json_t *entry = json_array_get(images, at);
		char **names = NULL;
		bool hit = n == 1;
		if (!json_is_object(entry))
			return damaged(reterr, "there is no list of images in", "manifest.json");
		const int code = read_names(entry, &names, reterr);
		if (code < 0)
			return code;
		for (size_t i = 0; names && names[i]; i++) {
			hit |= name && strcmp(names[i], name) == 0;
			/* What is too much for a message is left out. */
			(void)!buf_printf(&shown, "%s%s", shown.len ? ", " : "", names[i]);
		}
		if (hit) {
			*ret = entry;
			*ret_names = names;
			return 0;
		}
		strv_free(names);
	}
	return several(shown.data ? (const char *)shown.data : "", reterr);
}

static int find_layers(
	struct docker_archive *a, char **paths, struct docker_image *img, holt_error **reterr)
{
	const size_t n = strv_len((const char *const *)paths);
	int code = 0;

	if (n > MANIFEST_LAYERS_MAX)
		return err_make(reterr, HOLT_ELIMIT, "the image has %zu layers, more than %d", n,
			MANIFEST_LAYERS_MAX);
	a->layers = mem_array(n ? n : 1, sizeof *a->layers);
	img->manifest.layers = mem_array(n ? n : 1, sizeof *img->manifest.layers);
	if (!a->layers || !img->manifest.layers)
		return err_nomem(reterr);
	for (size_t i = 0; code == 0 && i < n; i++) {
		const struct member *m = NULL;
		struct descriptor *d = &img->manifest.layers[i];
		code = find(a, paths[i], &m, reterr);
		if (code < 0)
			break;
		a->layers[i] = (struct tar_source){
			.fd = a->src.fd, .offset = a->src.offset + m->offset, .size = m->size};
		d->size = m->size;
		code = tar_source_digest(&a->layers[i], d->digest, reterr);
	}
	img->manifest.n_layers = n;
	return code;
}

static int find_config(struct docker_archive *a, const json_t *entry, struct docker_image *img,
	holt_error **reterr)
{
	struct descriptor *d = &img->manifest.config;
	const struct member *m = NULL;
	const char *path = NULL;
	int code = json_get_str(entry, "Config", &path, reterr);

	if (code == 0 && !path)
		return damaged(reterr, "an image has no configuration in", "manifest.json");
	if (code == 0)
		code = find(a, path, &m, reterr);
	if (code == 0)
		code = read_text(a, m, CONFIG_BYTES_MAX, &img->config, reterr);
	if (code < 0)
		return code;
	d->size = m->size;
	return digest_of(img->config, (size_t)d->size, d->digest) < 0 ? err_nomem(reterr) : 0;
}

static int name_by_digest(struct docker_image *img, holt_error **reterr)
{
	const struct manifest *m = &img->manifest;
	json_t *layers = json_array();
	int r = 0;

	for (size_t i = 0; i < m->n_layers; i++)
		r |= json_array_append_new(layers, descriptor_json(&m->layers[i], TYPE_LAYER));
	auto_json doc = json_pack("{s:i, s:s, s:o, s:o}", "schemaVersion", 2, "mediaType",
		TYPE_MANIFEST, "config", descriptor_json(&m->config, TYPE_CONFIG), "layers",
		layers);
	auto_free char *text = doc && r == 0 ? json_text(doc) : NULL;
	return !text || digest_of(text, strlen(text), img->digest) < 0 ? err_nomem(reterr) : 0;
}

int docker_archive_pick(
	struct docker_archive *a, const char *name, struct docker_image *ret, holt_error **reterr)
{
	const json_t *entry = NULL;
	char **paths = NULL;
	int code = choose(a, name, &entry, &ret->names, reterr);

	if (code == 0)
		code = json_get_strv(entry, "Layers", &paths, reterr);
	if (code == 0)
		code = find_config(a, entry, ret, reterr);
	if (code == 0)
		code = find_layers(a, paths, ret, reterr);
	strv_free(paths);
	return code < 0 ? code : name_by_digest(ret, reterr);
}

void docker_image_done(struct docker_image *img)
{
	manifest_done(&img->manifest);
	strv_free(img->names);
	mem_free(img->config);
	*img = (struct docker_image){0};
}

void docker_archive_layer(const struct docker_archive *a, size_t at, struct tar_source *ret)
{
	*ret = a->layers[at];
}
