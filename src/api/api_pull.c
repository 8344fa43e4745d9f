/* SPDX-License-Identifier: Apache-2.0 */
#include "holt/image_pull.h"

#include <string.h>

#include "api/image_wrap.h"
#include "api/options.h"
#include "base/cancel.h"
#include "base/mem.h"
#include "box/image_want.h"
#include "base/banned.h"

_Static_assert((int)HOLT_PULL_RESOLVED == (int)PULL_RESOLVED &&
		       (int)HOLT_PULL_WAITING == (int)PULL_WAITING &&
		       (int)HOLT_PULL_LOADING == (int)PULL_LOADING &&
		       (int)HOLT_PULL_RETRY == (int)PULL_RETRY &&
		       (int)HOLT_PULL_LOADED == (int)PULL_LOADED &&
		       (int)HOLT_PULL_KEPT == (int)PULL_KEPT &&
		       (int)HOLT_PULL_CONVERTED == (int)PULL_CONVERTED,
	"phases are the same inside");

static void tell(const struct pull_event *e, void *user)
{
	const holt_pull_options *o = user;
	const holt_pull_event event = {.struct_size = sizeof event,
		.phase = (int32_t)e->phase,
		.layer = e->layer,
		.layers = e->n_layers,
		.digest = e->digest ? e->digest : "",
		.done_bytes = e->done_bytes,
		.total_bytes = e->total_bytes};

	o->event(&event, o->user);
}

static void tell_done(const holt_pull_options *o, const struct image *img, bool changed)
{
	const holt_pull_event event = {.struct_size = sizeof event,
		.phase = HOLT_PULL_DONE,
		.layers = (uint32_t)img->layers,
		.changed = changed,
		.digest = img->digest};

	if (o->event)
		o->event(&event, o->user);
}

/* Names of the one platform whose programs the machine runs, as docker takes them. */
static int check_platform(const char *platform, holt_error **reterr)
{
	static const char *const ours[] = {
		"linux/amd64", "linux/x86_64", "amd64", "x86_64", "linux"};

	for (size_t i = 0; platform && i < sizeof ours / sizeof *ours; i++) {
		if (strcmp(platform, ours[i]) == 0)
			return 0;
	}
	if (!platform)
		return 0;
	(void)err_make(reterr, HOLT_EUNSUPPORTED, "the platform '%.64s' cannot run here", platform);
	err_hint(reterr, "boxes run linux/amd64: leave the platform out");
	return -HOLT_EUNSUPPORTED;
}

static int read_options(const holt_pull_options *options, holt_pull_options *o, holt_error **reterr)
{
	int r = options_read(o, sizeof *o, sizeof *o, options, "holt_pull_options", reterr);

	if (r == 0 && (o->flags & ~(uint32_t)HOLT_PULL_INSECURE))
		r = err_make(reterr, HOLT_EINVALID, "unknown flags 0x%x", o->flags);
	if (r == 0 && (o->policy < HOLT_PULL_ALWAYS || o->policy > HOLT_PULL_NEVER))
		r = err_make(reterr, HOLT_EINVALID, "unknown pull policy %d", o->policy);
	if (r == 0 && !o->username != !o->password)
		r = err_make(reterr, HOLT_EINVALID, "%s without %s",
			o->username ? "a user name" : "a password",
			o->username ? "a password" : "a user name");
	if (r == 0)
		r = check_platform(o->platform, reterr);
	if (r < 0)
		err_stage(reterr, "options");
	return r;
}

HOLT_API int holt_image_pull(holt_home *home, const char *ref, const holt_pull_options *options,
	holt_image **ret, holt_error **reterr)
{
	holt_pull_options o;
	struct image *img = NULL;
	bool changed = false;

	if (!home || !ref)
		return api_null(home ? "ref" : "home", reterr);
	int r = read_options(options, &o, reterr);
	if (r < 0)
		return r;
	const struct image_wish wish = {.policy = o.policy,
		.how = {.insecure = o.flags & HOLT_PULL_INSECURE,
			.ca_file = o.ca_file,
			.user = o.username,
			.password = o.password,
			.event = o.event ? tell : NULL,
			.user_data = &o},
		.timeout_ms = HOLT_FOREVER,
		.cancel = o.cancel};
	r = image_want(home, ref, &wish, &img, &changed, reterr);
	if (r < 0) {
		err_stage(reterr, "pull");
		err_object(reterr, ref);
		return r;
	}
	tell_done(&o, img, changed);
	if (!ret) {
		image_free(img);
		return 0;
	}
	holt_image *image = api_image_wrap(img);
	if (!image)
		return err_nomem(reterr);
	*ret = image;
	return 0;
}

HOLT_API const char *holt_pull_phase_name(int phase)
{
	static const char *const names[] = {
		"resolved", "waiting", "loading", "retry", "loaded", "kept", "converted", "done"};

	return phase >= 0 && phase < (int)(sizeof names / sizeof *names) ? names[phase] : "unknown";
}
