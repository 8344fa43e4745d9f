/* SPDX-License-Identifier: Apache-2.0 */
#include "holt/image.h"

#include <time.h>

#include "api/image_wrap.h"
#include "api/options.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/cancel.h"
#include "box/box_home.h"
#include "box/image_space.h"
#include "box/template_image.h"
#include "image/export.h"
#include "image/images.h"
#include "base/banned.h"

struct holt_image {
	struct image *image;
	char *json; /* made when first asked for, as is the next */
	char *history;
};

holt_image *api_image_wrap(struct image *image)
{
	holt_image *img = mem_zalloc(sizeof *img);

	if (img)
		img->image = image;
	else
		image_free(image);
	return img;
}

HOLT_API int holt_image_import(holt_home *home, const char *path,
	const holt_image_import_options *options, holt_image **ret, holt_error **reterr)
{
	holt_image_import_options o;
	struct image *image = NULL;

	if (!home || !path)
		return api_null(home ? "path" : "home", reterr);
	int r = options_read(&o, sizeof o, sizeof o, options, "holt_image_import_options", reterr);
	if (r < 0)
		return r;
	const struct image_import_options io = {.name = o.name,
		.progress = o.progress,
		.user = o.user,
		.cancel = cancel_flag(o.cancel)};
	r = image_import(home->images, path, &io, &image, reterr);
	if (r < 0) {
		err_stage(reterr, "import");
		err_object(reterr, path);
		return r;
	}
	image_space_keep_budget(home, image->digest);
	if (!ret) {
		image_free(image);
		return 0;
	}
	*ret = api_image_wrap(image);
	return *ret ? 0 : err_nomem(reterr);
}

HOLT_API int holt_image_get(holt_home *home, const char *ref, holt_image **ret, holt_error **reterr)
{
	struct image *image = NULL;

	if (!home || !ref || !ret)
		return api_null(!home ? "home" : !ref ? "ref" : "ret", reterr);
	const int r = image_get(home->images, ref, &image, reterr);
	if (r < 0) {
		err_stage(reterr, "image");
		err_object(reterr, ref);
		return r;
	}
	holt_image *img = api_image_wrap(image);
	if (!img)
		return err_nomem(reterr);
	*ret = img;
	return 0;
}

HOLT_API int holt_image_list(
	holt_home *home, holt_image ***ret, size_t *ret_count, holt_error **reterr)
{
	struct image **list = NULL;
	size_t n = 0;

	if (!home || !ret || !ret_count)
		return api_null(!home ? "home" : !ret ? "ret" : "ret_count", reterr);
	const int r = image_list(home->images, &list, &n, reterr);
	if (r < 0) {
		err_stage(reterr, "image");
		return r;
	}
	holt_image **images = n ? mem_array(n, sizeof *images) : NULL;
	for (size_t i = 0; images && i < n; i++) {
		images[i] = api_image_wrap(list[i]);
		list[i] = NULL;
		if (!images[i]) {
			holt_image_list_free(images, n);
			images = NULL;
		}
	}
	image_list_free(list, n);
	if (n && !images)
		return err_nomem(reterr);
	*ret = images;
	*ret_count = n;
	return 0;
}

HOLT_API int holt_image_tag(holt_home *home, const char *ref, const char *name, holt_error **reterr)
{
	if (!home || !ref || !name)
		return api_null(!home ? "home" : !ref ? "ref" : "name", reterr);
	return image_tag(home->images, ref, name, reterr);
}

HOLT_API int holt_image_history(
	holt_home *home, holt_image *image, const char **ret, holt_error **reterr)
{
	if (!home || !image || !ret)
		return api_null(!home ? "home" : !image ? "image" : "ret", reterr);
	const int r = image->history ? 0
				     : image_history(home->images, image->image->digest,
					       &image->history, reterr);
	if (r == 0)
		*ret = image->history;
	return r;
}

HOLT_API int holt_image_prune(holt_home *home, const holt_image_prune_options *options,
	uint64_t *ret_bytes, holt_error **reterr)
{
	static const uint32_t known = HOLT_IMAGE_PRUNE_ALL | HOLT_IMAGE_PRUNE_DRY_RUN;
	holt_image_prune_options o;

	if (!home)
		return api_null("home", reterr);
	const int r = options_read(
		&o, sizeof o, sizeof o, options, "holt_image_prune_options", reterr);
	if (r < 0)
		return r;
	if (o.flags & ~known)
		return err_make(reterr, HOLT_EINVALID, "there is no such flag of a prune");
	const struct image_prune_wish w = {.all = o.flags & HOLT_IMAGE_PRUNE_ALL,
		.dry_run = o.flags & HOLT_IMAGE_PRUNE_DRY_RUN,
		.max_bytes = o.max_bytes ? o.max_bytes : UINT64_MAX,
		.gone = o.removed,
		.user = o.user};
	return image_space_prune(home, &w, ret_bytes, reterr);
}

HOLT_API int holt_image_export(
	holt_home *home, const char *ref, int fd, holt_cancel *cancel, holt_error **reterr)
{
	if (!home || !ref)
		return api_null(home ? "ref" : "home", reterr);
	return image_export(home->images, ref, fd, cancel_flag(cancel), reterr);
}

HOLT_API int holt_image_remove(holt_home *home, const char *ref, holt_error **reterr)
{
	if (!home || !ref)
		return api_null(home ? "ref" : "home", reterr);
	const int r = template_image_forget(home, ref, reterr);
	if (r < 0) {
		err_stage(reterr, "image");
		err_object(reterr, ref);
	}
	return r;
}

HOLT_API const char *holt_image_name(const holt_image *image)
{
	return image->image->name ? image->image->name : "";
}

HOLT_API const char *holt_image_digest(const holt_image *image)
{
	return image->image->digest;
}

HOLT_API uint64_t holt_image_size_bytes(const holt_image *image)
{
	return image->image->size_bytes;
}

HOLT_API int64_t holt_image_imported_s(const holt_image *image)
{
	return image->image->created_s;
}

static json_t *json_strv(char *const *list)
{
	json_t *array = json_array();

	for (size_t i = 0; list && list[i]; i++)
		(void)json_array_append_new(array, json_string(list[i]));
	return array;
}

static json_t *json_config(const struct image_config *c)
{
	return json_pack("{s:o, s:o, s:o, s:s?, s:s?, s:s?}", "env", json_strv(c->env),
		"entrypoint", json_strv(c->entrypoint), "cmd", json_strv(c->cmd), "working_dir",
		c->working_dir, "user", c->user, "stop_signal", c->stop_signal);
}

HOLT_API const char *holt_image_json(holt_image *image)
{
	const struct image *i = image->image;
	char when[32] = "";
	struct tm tm;
	const time_t t = (time_t)i->created_s;

	if (image->json)
		return image->json;
	if (gmtime_r(&t, &tm))
		(void)strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &tm);
	auto_json doc = json_pack("{s:s?, s:s, s:s, s:I, s:I, s:s, s:s?, s:s?, s:o}", "name",
		i->name, "digest", i->digest, "rootfs_digest", i->rootfs_digest, "size_bytes",
		(json_int_t)i->size_bytes, "layers", (json_int_t)i->layers, "imported", when,
		"architecture", i->config.architecture, "os", i->config.os, "config",
		json_config(&i->config));
	image->json = doc ? json_text(doc) : NULL;
	return image->json;
}

HOLT_API void holt_image_free(holt_image *image)
{
	if (!image)
		return;
	image_free(image->image);
	mem_free(image->json);
	mem_free(image->history);
	mem_free(image);
}

HOLT_API void holt_image_list_free(holt_image **images, size_t count)
{
	for (size_t i = 0; images && i < count; i++)
		holt_image_free(images[i]);
	mem_free(images);
}
