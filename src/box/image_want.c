/* SPDX-License-Identifier: Apache-2.0 */
#include "box/image_want.h"

#include <string.h>

#include "base/deadline.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "box/image_space.h"
#include "image/ref.h"
#include "base/banned.h"

#define REGISTRIES_FILE "registries.yaml"
#define SHOWN_MAX       512

static void show(const char *ref, char ret[SHOWN_MAX])
{
	(void)str_escape(ret, SHOWN_MAX, ref, strlen(ref), false);
}

/* ---- pulling ---- */

/* What to do, where the place of the failure has no better word. */
static void advise(int code, holt_error **error)
{
	if (holt_error_errno(*error) != 0)
		return; /* it is about something on this host */
	if (code == -HOLT_EDENIED)
		err_hint(error,
			"check the name; if it is private, log in by 'docker login' or with "
			"--creds and --password-stdin of 'holt pull'");
	else if (code == -HOLT_ENOT_FOUND)
		err_hint(error, "check name and tag; holt image ls shows what is there already");
	else if (code == -HOLT_EUNAVAILABLE)
		err_hint(error, "check the registry's name and the network, or try again: what has "
				"arrived is kept");
}

static int pull(struct holt_home *home, const char *ref, const struct image_wish *w,
	const volatile int *cancel, struct image **ret, bool *ret_changed, holt_error **reterr)
{
	struct image_pull_options how = w->how;
	struct registries *registries = NULL;
	auto_free char *path = str_printf("%s/" REGISTRIES_FILE, home->path);
	char shown[SHOWN_MAX];

	if (!path)
		return err_nomem(reterr);
	int r = registries_read(path, &registries, reterr);
	if (r < 0)
		return r;
	if (!how.event) {
		show(ref, shown);
		log_info("pull", "pulling %s", shown);
	}
	how.registries = registries;
	how.cancel = cancel;
	r = image_pull(home->images, ref, &how, ret, ret_changed, reterr);
	registries_free(registries);
	return r;
}

static int late(const char *ref, holt_error **reterr)
{
	char shown[SHOWN_MAX];

	show(ref, shown);
	(void)err_make(reterr, HOLT_ETIMEOUT, "pulling '%s' takes longer than the call may", shown);
	err_hint(reterr, "what has arrived is kept: try again, or do 'holt pull %s' before", shown);
	return -HOLT_ETIMEOUT;
}

static int pull_in_time(struct holt_home *home, const char *ref, const struct image_wish *w,
	struct image **ret, bool *ret_changed, holt_error **reterr)
{
	struct deadline d;
	auto_error error = NULL;
	int r = deadline_begin(&d, w->timeout_ms, w->cancel);

	if (r < 0)
		return err_errno(reterr, -r, "cannot start a thread");
	r = pull(home, ref, w, cancel_flag(&d.join.token), ret, ret_changed, &error);
	advise(r, &error);
	const bool passed = deadline_end(&d);
	if (r == -HOLT_ECANCELLED && passed && !cancel_fired(w->cancel))
		return late(ref, reterr);
	return r < 0 ? err_take(reterr, take_ptr(error)) : r;
}

/* ---- which ---- */

/* Whether a registry can be asked for it. A word of hex digits may be both: it is a name where it
 * is written as one, or where an image of the store has it. */
static bool is_name(struct holt_home *home, const char *ref)
{
	auto_free char *name = NULL;
	struct image *img = NULL;
	const char *hex = NULL;

	if (!ref_is_digest(ref, &hex))
		return true;
	if (ref_normalise(ref, &name, NULL) < 0 || image_get(home->images, name, &img, NULL) < 0)
		return false;
	image_free(img);
	return true;
}

static int get_id(struct holt_home *home, const char *ref, struct image **ret, holt_error **reterr)
{
	auto_error error = NULL;
	const int r = image_get(home->images, ref, ret, &error);

	if (r != -HOLT_ENOT_FOUND)
		return r < 0 ? err_take(reterr, take_ptr(error)) : r;
	(void)err_make(
		reterr, HOLT_ENOT_FOUND, "there is no image '%s', and an id cannot be pulled", ref);
	err_hint(reterr,
		"give its name: NAME[:TAG] or NAME@sha256:...; holt image ls shows what there is");
	return r;
}

int image_want(struct holt_home *home, const char *ref, const struct image_wish *w,
	struct image **ret, bool *ret_changed, holt_error **reterr)
{
	auto_error missing = NULL;
	auto_ref parsed = {0};
	char shown[SHOWN_MAX];
	int r = -HOLT_ENOT_FOUND;

	*ret_changed = false;
	if (w->policy == HOLT_PULL_NEVER)
		return image_get(home->images, ref, ret, reterr);
	if (!is_name(home, ref))
		return get_id(home, ref, ret, reterr);
	if (w->policy == HOLT_PULL_MISSING)
		r = image_get(home->images, ref, ret, &missing);
	if (r != -HOLT_ENOT_FOUND)
		return r < 0 ? err_take(reterr, take_ptr(missing)) : r;
	r = ref_parse(ref, &parsed, reterr);
	if (r < 0)
		return r;
	r = pull_in_time(home, ref, w, ret, ret_changed, reterr);
	if (r == 0 && *ret_changed)
		image_space_keep_budget(home, (*ret)->digest);
	if (r == 0 || r == -HOLT_ECANCELLED || r == -HOLT_ETIMEOUT)
		return r;
	show(ref, shown);
	err_wrap(reterr,
		missing ? "there is no image '%s', and it cannot be pulled"
			: "'%s' cannot be pulled",
		shown);
	return r;
}
