/* SPDX-License-Identifier: Apache-2.0 */
#include "holt/home.h"

#include "api/options.h"
#include "base/cancel.h"
#include "box/box_home.h"
#include "box/image_space.h"
#include "base/banned.h"

_Static_assert(HOLT_TEMPLATE_BYTES_DEFAULT == TEMPLATE_BYTES_DEFAULT, "one default");
_Static_assert(HOLT_IMAGE_BYTES_DEFAULT == IMAGE_BYTES_DEFAULT, "one default");
_Static_assert(HOLT_IMAGE_NO_LIMIT == UINT64_MAX, "one limit");

HOLT_API int holt_home_open(const holt_home_options *options, holt_home **ret, holt_error **reterr)
{
	holt_home_options o;

	if (!ret)
		return api_null("ret", reterr);
	const int r = options_read(&o, sizeof o, sizeof o, options, "holt_home_options", reterr);
	const struct home_wish wish = {.path = o.path,
		.template_bytes = o.template_bytes,
		.max_memory_bytes = o.max_memory_bytes,
		.image_bytes = o.image_bytes,
		.kernel = o.kernel};
	return r < 0 ? r : home_open(&wish, ret, reterr);
}

static holt_space space_of(const struct space_use *u)
{
	return (holt_space){.count = u->n,
		.active = u->n_active,
		.bytes = u->bytes,
		.reclaimable_bytes = u->free_bytes};
}

HOLT_API int holt_home_get_space(holt_home *home, holt_home_space *ret, holt_error **reterr)
{
	struct home_use u;

	if (!home || !ret)
		return api_null(home ? "ret" : "home", reterr);
	const int r = home_use(home, &u, reterr);
	const holt_home_space space = {.images = space_of(&u.images),
		.blobs = space_of(&u.blobs),
		.templates = space_of(&u.templates),
		.boxes = space_of(&u.boxes)};
	return r < 0 ? r
		     : options_write(
			       ret, &space, sizeof space, sizeof space, "holt_home_space", reterr);
}

HOLT_API const char *holt_home_path(holt_home *home)
{
	return home->path;
}

HOLT_API void holt_home_close(holt_home *home)
{
	home_close(home);
}

HOLT_API int holt_cancel_new(holt_cancel **ret, holt_error **reterr)
{
	return ret ? cancel_new(ret, reterr) : api_null("ret", reterr);
}

HOLT_API void holt_cancel_trigger(holt_cancel *cancel)
{
	cancel_trigger(cancel);
}

HOLT_API int holt_cancel_triggered(const holt_cancel *cancel)
{
	return cancel_fired(cancel);
}

HOLT_API void holt_cancel_free(holt_cancel *cancel)
{
	cancel_free(cancel);
}
