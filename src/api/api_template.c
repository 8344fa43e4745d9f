/* SPDX-License-Identifier: Apache-2.0 */
#include "holt/templates.h"

#include <stdio.h>
#include <time.h>

#include "api/options.h"
#include "base/json.h"
#include "base/mem.h"
#include "box/spares.h"
#include "box/template_image.h"
#include "base/banned.h"

#define NS_PER_S 1000000000

_Static_assert(HOLT_TEMPLATE_SPARES_MAX == SPARES_MAX, "one maximum");

struct holt_template {
	struct template_info info;
	char *json; /* made when first asked for */
};

/* Takes what @info points to, also where it fails. */
static holt_template *wrap(struct template_info *info)
{
	holt_template *tpl = mem_zalloc(sizeof *tpl);

	if (tpl)
		tpl->info = *info;
	else
		template_info_done(info);
	*info = (struct template_info){0};
	return tpl;
}

static int read_options(
	const holt_template_options *options, holt_template_options *o, holt_error **reterr)
{
	int r = options_read(o, sizeof *o, sizeof *o, options, "holt_template_options", reterr);

	if (r == 0)
		r = api_check_shape(&o->memory_mib, &o->cpus, &o->disk_bytes, reterr);
	if (r == 0)
		r = api_check_boot_timeout(&o->boot_timeout_ms, reterr);
	if (r == 0 && (o->flags & ~(uint32_t)HOLT_TEMPLATE_BARE))
		r = err_make(reterr, HOLT_EINVALID, "unknown flags 0x%x", o->flags);
	if (r < 0)
		err_stage(reterr, "options");
	return r;
}

HOLT_API int holt_template_build(holt_home *home, const char *image,
	const holt_template_options *options, holt_template **ret, holt_error **reterr)
{
	holt_template_options o;
	struct template_info info = {0};

	if (!home || !image)
		return api_null(home ? "image" : "home", reterr);
	int r = read_options(options, &o, reterr);
	if (r < 0)
		return r;
	const struct template_wish wish = {.bare = o.flags & HOLT_TEMPLATE_BARE,
		.memory_mib = o.memory_mib,
		.cpus = o.cpus,
		.disk_bytes = o.disk_bytes,
		.boot_timeout_ms = o.boot_timeout_ms,
		.accel = o.accel,
		.cancel = o.cancel};
	r = template_image_build(home, image, &wish, &info, reterr);
	if (r < 0) {
		err_stage(reterr, "template");
		err_object(reterr, image);
		return r;
	}
	if (!ret) {
		template_info_done(&info);
		return 0;
	}
	holt_template *tpl = wrap(&info);
	if (!tpl)
		return err_nomem(reterr);
	*ret = tpl;
	return 0;
}

HOLT_API int holt_template_list(
	holt_home *home, holt_template ***ret, size_t *ret_count, holt_error **reterr)
{
	struct template_info *list = NULL;
	size_t n = 0;

	if (!home || !ret || !ret_count)
		return api_null(!home ? "home" : !ret ? "ret" : "ret_count", reterr);
	const int r = template_image_list(home, &list, &n, reterr);
	if (r < 0) {
		err_stage(reterr, "template");
		return r;
	}
	holt_template **templates = n ? mem_array(n, sizeof *templates) : NULL;
	for (size_t i = 0; templates && i < n; i++) {
		templates[i] = wrap(&list[i]);
		if (!templates[i]) {
			holt_template_list_free(templates, i);
			templates = NULL;
		}
	}
	template_list_free(list, n);
	if (n && !templates)
		return err_nomem(reterr);
	*ret = templates;
	*ret_count = n;
	return 0;
}

HOLT_API void holt_template_list_free(holt_template **list, size_t count)
{
	for (size_t i = 0; list && i < count; i++)
		holt_template_free(list[i]);
	mem_free(list);
}

HOLT_API void holt_template_free(holt_template *tpl)
{
	if (!tpl)
		return;
	template_info_done(&tpl->info);
	mem_free(tpl->json);
	mem_free(tpl);
}

HOLT_API const char *holt_template_id(const holt_template *tpl)
{
	return tpl->info.key;
}

HOLT_API const char *holt_template_image(const holt_template *tpl)
{
	return tpl->info.image;
}

HOLT_API const char *holt_template_rootfs_digest(const holt_template *tpl)
{
	return tpl->info.rootfs_digest;
}

HOLT_API int holt_template_get_info(const holt_template *tpl, holt_template_info *ret)
{
	if (!tpl || !ret)
		return -HOLT_EINVALID;
	const struct template_info *i = &tpl->info;
	holt_template_info info = {.flags = i->bare ? HOLT_TEMPLATE_BARE : 0,
		.memory_mib = i->memory_mib,
		.cpus = i->cpus,
		.disk_bytes = i->disk_bytes,
		.size_bytes = i->size_bytes,
		.build_ms = i->build_ms,
		.created_s = i->created_ns / NS_PER_S,
		.used_s = i->used_ns / NS_PER_S,
		.spares_ready = i->spares_ready,
		.spares_wanted = i->spares_wanted};

	(void)snprintf(info.accel, sizeof info.accel, "%s", i->kvm ? "kvm" : "tcg");
	return options_write(ret, &info, sizeof info, sizeof info, "holt_template_info", NULL);
}

static void put_time(char ret[32], int64_t ns)
{
	const time_t t = (time_t)(ns / NS_PER_S);
	struct tm tm;

	ret[0] = 0;
	if (gmtime_r(&t, &tm))
		(void)strftime(ret, 32, "%Y-%m-%dT%H:%M:%SZ", &tm);
}

HOLT_API const char *holt_template_json(holt_template *tpl)
{
	const struct template_info *i = &tpl->info;
	char created[32];
	char used[32];

	if (tpl->json)
		return tpl->json;
	put_time(created, i->created_ns);
	put_time(used, i->used_ns);
	auto_json doc = json_pack(
		"{s:s, s:o, s:s, s:b, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:s}", "id",
		i->key, "image", json_from_bytes(i->image), "rootfs_digest", i->rootfs_digest,
		"bare", (int)i->bare, "accel", i->kvm ? "kvm" : "tcg", "memory_mib",
		(json_int_t)i->memory_mib, "cpus", (json_int_t)i->cpus, "disk_bytes",
		(json_int_t)i->disk_bytes, "size_bytes", (json_int_t)i->size_bytes, "build_ms",
		(json_int_t)i->build_ms, "spares_ready", (json_int_t)i->spares_ready,
		"spares_wanted", (json_int_t)i->spares_wanted, "created", created, "used", used);
	tpl->json = doc ? json_text(doc) : NULL;
	return tpl->json;
}

HOLT_API int holt_template_spares(
	holt_home *home, const char *image, unsigned n, holt_error **reterr)
{
	if (!home || !image)
		return api_null(home ? "image" : "home", reterr);
	int r = api_check_range("number of spares", n, 0, HOLT_TEMPLATE_SPARES_MAX, reterr);

	if (r == 0)
		r = template_image_spares(home, image, NULL, n, reterr);
	if (r < 0) {
		err_stage(reterr, "spare");
		err_object(reterr, image);
	}
	return r;
}

HOLT_API int holt_template_remove(holt_home *home, const char *ref, holt_error **reterr)
{
	if (!home || !ref)
		return api_null(home ? "ref" : "home", reterr);
	const int r = template_image_remove(home, ref, reterr);
	if (r < 0) {
		err_stage(reterr, "template");
		err_object(reterr, ref);
	}
	return r;
}

HOLT_API int holt_template_prune(holt_home *home, uint64_t max_bytes, size_t *ret_n,
	uint64_t *ret_bytes, holt_error **reterr)
{
	if (!home)
		return api_null("home", reterr);
	const int r = template_image_prune(home, max_bytes, ret_n, ret_bytes, reterr);
	if (r < 0)
		err_stage(reterr, "template");
	return r;
}
