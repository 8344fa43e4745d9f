/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images and templates meet here: an image is known by its reference, a template by its key and the
 * root file system in it. Several images may have one root file system and then share its
 * templates, so these go with the last of them. Boxes keep their root file system, not its
 * templates: a box whose image is gone makes a new one when it starts.
 *
 * Nothing here holds a lock while it looks and removes. A template that is made meanwhile is not
 * seen, one that is removed by somebody else is none to remove: both are harmless, since a template
 * can always be made again.
 */
#include "box/template_image.h"

#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "base/log.h"
#include "box/origin.h"
#include "box/pool_directories.h"
#include "box/spares.h"
#include "image/images.h"
#include "base/banned.h"

#define BOOT_TIMEOUT_MS 60000 /* of a template that spares need; as that of a start */
#define PREFIX_MIN      4 /* digits of a key that are enough to mean it */

/* ---- making ---- */

/* Everything that a machine of the image is made of. */
static int open_parts(struct holt_home *home, const struct image *img, const char *accel,
	struct keeper_parts *p, struct keeper_spec *spec, holt_error **reterr)
{
	int r = image_open_rootfs(home->images, img, &p->rootfs_fd, reterr);

	if (r == 0)
		r = keeper_choose_accel(home, accel, spec, reterr);
	if (r == 0)
		r = keeper_open_kernel(home, p, reterr);
	return r;
}

static int find_info(
	struct holt_home *home, const char *key, struct template_info *ret, holt_error **reterr)
{
	struct template_info *list = NULL;
	size_t n = 0;
	bool found = false;
	const int r = template_list(home, &list, &n, reterr);

	if (r < 0)
		return r;
	for (size_t i = 0; i < n && !found; i++) {
		found = strcmp(list[i].key, key) == 0;
		if (found) {
			*ret = list[i];
			list[i] = (struct template_info){0};
		}
	}
	template_list_free(list, n);
	return found ? 0
		     : err_make(reterr, HOLT_ENOT_FOUND,
			       "the template is made, and has been removed already");
}

/* What is wanted of the image; borrows all of it. */
static struct template_want want_of(const struct image *img, const char *name,
	const struct template_wish *w, const struct keeper_parts *p, const struct keeper_spec *spec)
{
	const char *own = img->config.user ? img->config.user : "";
	struct template_want want = {.image = name,
		.rootfs_digest = img->rootfs_digest,
		.bare = w->bare,
		.memory_mib = w->memory_mib,
		.cpus = w->cpus,
		.disk_bytes = w->disk_bytes,
		.kvm = spec->kvm,
		.tsc_khz = spec->tsc_khz,
		.kernel_fd = p->kernel_fd,
		.initrd_fd = p->initrd_fd,
		.rootfs_fd = p->rootfs_fd,
		.boot_timeout_ms = w->boot_timeout_ms,
		.cancel = w->cancel};

	if (!w->bare)
		pool_directories_fill(w->directories, w->owner ? w->owner : own, &want.directories);
	return want;
}

static int make(struct holt_home *home, const struct image *img, const char *name,
	const struct template_wish *w, struct template_info *ret, holt_error **reterr)
{
	struct keeper_parts p = KEEPER_PARTS_INIT;
	struct keeper_spec spec = {0};
	struct template t = TEMPLATE_INIT;
	int r = open_parts(home, img, w->accel, &p, &spec, reterr);
	const struct template_want want = want_of(img, name, w, &p, &spec);

	if (r == 0)
		r = template_make(home, &want, &t, reterr);
	if (r == 0)
		r = find_info(home, t.key, ret, reterr);
	template_done(&t);
	keeper_parts_done(&p);
	return r;
}

int template_image_build(struct holt_home *home, const char *image, const struct template_wish *w,
	struct template_info *ret, holt_error **reterr)
{
	struct image *img = NULL;
	int r = image_get(home->images, image, &img, reterr);

	if (r == 0)
		r = make(home, img, image, w, ret, reterr);
	image_free(img);
	return r;
}

/* ---- spares ---- */

static struct template_wish default_shape(const struct template_wish *w)
{
	struct template_wish d = w ? *w : (struct template_wish){0};

	d.bare = false;
	d.memory_mib = DEFAULT_MEMORY_MIB;
	d.cpus = DEFAULT_CPUS;
	d.disk_bytes = DEFAULT_DISK_BYTES;
	d.boot_timeout_ms = BOOT_TIMEOUT_MS;
	return d;
}

/* Those of all its templates. */
static int shed_all(struct holt_home *home, const char *rootfs_digest, holt_error **reterr)
{
	struct template_info *list = NULL;
	size_t n = 0;
	int r = template_list(home, &list, &n, reterr);

	for (size_t i = 0; i < n && r == 0; i++) {
		if (strcmp(list[i].rootfs_digest, rootfs_digest) == 0)
			r = spares_shed(home, list[i].key, 0, NULL, reterr);
	}
	template_list_free(list, n);
	return r;
}

static int fill(
	struct holt_home *home, const struct template_want *want, unsigned n, holt_error **reterr)
{
	struct spares_plan plan = {.n = n};
	struct template t = TEMPLATE_INIT;
	int r = template_key(want, plan.key, reterr);

	if (r == 0)
		r = spares_want(home, want->rootfs_digest, n, reterr);
	if (r == 0)
		r = n == 0 ? shed_all(home, want->rootfs_digest, reterr)
			   : spares_shed(home, plan.key, n, NULL, reterr);
	if (r < 0 || n == 0)
		return r;
	r = template_make(home, want, &t, reterr);
	template_done(&t);
	return r == 0 ? spares_fill_wait(home, want, &plan, reterr) : r;
}

int template_image_spares(struct holt_home *home, const char *image, const struct template_wish *w,
	unsigned n, holt_error **reterr)
{
	const struct template_wish wish = default_shape(w);
	struct keeper_parts p = KEEPER_PARTS_INIT;
	struct keeper_spec spec = {0};
	struct image *img = NULL;
	int r = image_get(home->images, image, &img, reterr);

	if (r == 0)
		r = open_parts(home, img, wish.accel, &p, &spec, reterr);
	if (r == 0) {
		const struct template_want want = want_of(img, image, &wish, &p, &spec);

		r = fill(home, &want, n, reterr);
	}
	keeper_parts_done(&p);
	image_free(img);
	return r;
}

/* Boxes of other shapes, and such that were started before, take none. */
static bool may_have_spares(const struct template_info *i)
{
	return !i->bare && i->memory_mib == DEFAULT_MEMORY_MIB && i->cpus == DEFAULT_CPUS &&
	       i->disk_bytes == DEFAULT_DISK_BYTES;
}

int template_image_list(
	struct holt_home *home, struct template_info **ret, size_t *ret_n, holt_error **reterr)
{
	unsigned unused;
	const int r = template_list(home, ret, ret_n, reterr);

	for (size_t i = 0; r == 0 && i < *ret_n; i++) {
		struct template_info *info = &(*ret)[i];

		if (!may_have_spares(info))
			continue;
		info->spares_wanted = spares_wanted(home, info->rootfs_digest);
		spares_count(home, info->key, &unused, &info->spares_ready);
	}
	return r;
}

/* ---- removing those that are meant ---- */

/* Remove template @i of a list and count it. */
static int remove_counted(struct holt_home *home, const struct template_info *i, size_t *n,
	uint64_t *bytes, holt_error **reterr)
{
	const int r = template_remove(home, i->key);

	if (r < 0) {
		const int code = err_errno(reterr, -r, "cannot remove the template");

		err_object(reterr, i->key);
		return code;
	}
	*n += 1;
	*bytes += i->size_bytes;
	return 0;
}

/* All with this root file system, of which no spares are wanted any more either. */
static int remove_of_rootfs(
	struct holt_home *home, const char *rootfs_digest, size_t *ret_n, holt_error **reterr)
{
	struct template_info *list = NULL;
	uint64_t bytes = 0;
	size_t n = 0;
	int r = spares_want(home, rootfs_digest, 0, reterr);

	if (r == 0)
		r = template_list(home, &list, &n, reterr);
	for (size_t i = 0; i < n && r == 0; i++) {
		if (strcmp(list[i].rootfs_digest, rootfs_digest) == 0)
			r = remove_counted(home, &list[i], ret_n, &bytes, reterr);
	}
	template_list_free(list, n);
	return r;
}

static int remove_by_key(struct holt_home *home, const char *ref, holt_error **reterr)
{
	const size_t len = strlen(ref);
	struct template_info *list = NULL;
	const struct template_info *meant = NULL;
	uint64_t bytes = 0;
	size_t n = 0;
	size_t fits = 0;
	size_t gone = 0;
	int r = template_list(home, &list, &n, reterr);

	for (size_t i = 0; i < n && len >= PREFIX_MIN; i++) {
		if (strncmp(list[i].key, ref, len) == 0) {
			meant = &list[i];
			fits++;
		}
	}
	if (r == 0 && fits > 1)
		r = err_make(
			reterr, HOLT_EINVALID, "%zu templates have an id that begins so", fits);
	else if (r == 0 && !meant)
		r = err_make(reterr, HOLT_ENOT_FOUND, "there is no such template");
	else if (r == 0 && may_have_spares(meant))
		r = spares_want(home, meant->rootfs_digest, 0, reterr);
	if (r == 0)
		r = remove_counted(home, meant, &gone, &bytes, reterr);
	template_list_free(list, n);
	return r;
}

int template_image_remove(struct holt_home *home, const char *ref, holt_error **reterr)
{
	struct image *img = NULL;
	size_t gone = 0;
	int r = 0;

	/* What is no reference, or of no image, may be a key. */
	if (image_get(home->images, ref, &img, NULL) == 0)
		r = remove_of_rootfs(home, img->rootfs_digest, &gone, reterr);
	image_free(img);
	if (r == 0 && gone == 0)
		r = remove_by_key(home, ref, reterr);
	if (r == -HOLT_ENOT_FOUND || r == -HOLT_EINVALID)
		err_hint(reterr, "holt template ls shows what there is");
	return r;
}

/* ---- removing what is of no use ---- */

static bool has_image(struct image *const *images, size_t n, const char *rootfs_digest)
{
	for (size_t i = 0; i < n; i++) {
		if (strcmp(images[i]->rootfs_digest, rootfs_digest) == 0)
			return true;
	}
	return false;
}

/* Whether a start of today would look for this key. Where that cannot be told it may be so. */
static bool is_current(
	struct holt_home *home, const struct template_info *i, const struct keeper_parts *p)
{
	struct keeper_spec spec = {0};
	char key[TEMPLATE_KEY_LEN + 1];

	if (p->kernel_fd < 0)
		return true;
	if (keeper_choose_accel(home, i->kvm ? "kvm" : "tcg", &spec, NULL) < 0)
		return false;
	const struct template_want want = {.rootfs_digest = i->rootfs_digest,
		.bare = i->bare,
		.memory_mib = i->memory_mib,
		.cpus = i->cpus,
		.disk_bytes = i->disk_bytes,
		.kvm = spec.kvm,
		.tsc_khz = spec.tsc_khz,
		.kernel_fd = p->kernel_fd,
		.initrd_fd = p->initrd_fd,
		.rootfs_fd = FD_NONE};
	return template_key_again(&want, i->directories, key, NULL) < 0 || strcmp(key, i->key) == 0;
}

static int remove_useless(
	struct holt_home *home, size_t *gone, uint64_t *bytes, holt_error **reterr)
{
	struct keeper_parts p = KEEPER_PARTS_INIT;
	struct template_info *list = NULL;
	struct image **images = NULL;
	size_t n = 0;
	size_t n_images = 0;
	int r = image_list(home->images, &images, &n_images, reterr);

	if (r == 0)
		r = template_list(home, &list, &n, reterr);
	if (n > 0 && keeper_open_kernel(home, &p, NULL) < 0)
		log_debug("template", "without a kernel it is not known which ones are of use");
	for (size_t i = 0; i < n && r == 0; i++) {
		const bool used = has_image(images, n_images, list[i].rootfs_digest);

		if (!used)
			r = spares_want(home, list[i].rootfs_digest, 0, reterr);
		if (r == 0 && (!used || !is_current(home, &list[i], &p)))
			r = remove_counted(home, &list[i], gone, bytes, reterr);
	}
	/* Of templates that went otherwise. */
	if (r == 0)
		spares_shed_orphans(home);
	keeper_parts_done(&p);
	template_list_free(list, n);
	image_list_free(images, n_images);
	return r;
}

int template_image_prune(struct holt_home *home, uint64_t max_bytes, size_t *ret_n,
	uint64_t *ret_bytes, holt_error **reterr)
{
	size_t useless = 0;
	size_t old = 0;
	uint64_t useless_bytes = 0;
	uint64_t old_bytes = 0;
	int r = remove_useless(home, &useless, &useless_bytes, reterr);

	if (r == 0 && max_bytes != UINT64_MAX)
		r = template_prune(home, max_bytes, &old, &old_bytes, reterr);
	if (r < 0)
		return r;
	if (ret_n)
		*ret_n = useless + old;
	if (ret_bytes)
		*ret_bytes = useless_bytes + old_bytes;
	return 0;
}

/* What is left over does no harm, so it is no reason to call the removal a failure. */
static void remove_orphans(struct holt_home *home, const char *rootfs_digest)
{
	struct image **images = NULL;
	auto_error error = NULL;
	size_t n = 0;
	size_t gone = 0;
	int r = image_list(home->images, &images, &n, &error);

	if (r == 0 && !has_image(images, n, rootfs_digest))
		r = remove_of_rootfs(home, rootfs_digest, &gone, &error);
	image_list_free(images, n);
	if (r < 0)
		log_warn("template", "the image's templates are left: %s",
			holt_error_message(error));
}

int template_image_forget(struct holt_home *home, const char *ref, holt_error **reterr)
{
	struct image *img = NULL;
	int r = image_get(home->images, ref, &img, reterr);

	if (r == 0)
		r = image_remove(home->images, ref, reterr);
	if (r == 0)
		remove_orphans(home, img->rootfs_digest);
	image_free(img);
	return r;
}
