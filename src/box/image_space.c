/* SPDX-License-Identifier: Apache-2.0 */
#include "box/image_space.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "box/box_index.h"
#include "box/lifecycle.h"
#include "box/template.h"
#include "box/template_image.h"
#include "image/blobs.h"
#include "base/banned.h"

/* An image once, whatever names it has. Several may share a rootfs: it counts with the first of
 * them, and goes with the last. */
struct item {
	const struct image *img;
	bool named;
	bool busy;
	bool shared; /* another item has its rootfs, and its bytes */
	struct rootfs_use use;
};

struct items {
	struct image **images;
	size_t n_images;
	struct template_info *templates;
	size_t n_templates;
	struct item *list;
	size_t n;
};

static void items_done(struct items *x)
{
	mem_free(x->list);
	template_list_free(x->templates, x->n_templates);
	image_list_free(x->images, x->n_images);
}

static bool has_template(const struct items *x, const char *rootfs_digest)
{
	for (size_t i = 0; i < x->n_templates; i++) {
		if (strcmp(x->templates[i].rootfs_digest, rootfs_digest) == 0)
			return true;
	}
	return false;
}

static void add_item(struct items *x, struct holt_home *home, const struct image *img)
{
	struct item it = {.img = img, .named = img->name != NULL};

	for (size_t i = 0; i < x->n; i++) {
		if (strcmp(x->list[i].img->digest, img->digest) == 0)
			return;
		if (strcmp(x->list[i].img->rootfs_digest, img->rootfs_digest) == 0)
			it.shared = true;
	}
	/* Gone since it was listed. */
	if (image_rootfs_use(home->images, img->rootfs_digest, &it.use, NULL) < 0)
		return;
	it.busy = it.use.linked || has_template(x, img->rootfs_digest);
	x->list[x->n++] = it;
}

static int items_get(struct holt_home *home, struct items *x, holt_error **reterr)
{
	int r = image_list(home->images, &x->images, &x->n_images, reterr);

	if (r == 0)
		r = template_list(home, &x->templates, &x->n_templates, reterr);
	if (r == 0 && x->n_images > 0) {
		x->list = mem_array(x->n_images, sizeof *x->list);
		r = x->list ? 0 : err_nomem(reterr);
	}
	for (size_t i = 0; r == 0 && i < x->n_images; i++)
		add_item(x, home, x->images[i]);
	return r;
}

static int by_use(const void *a, const void *b)
{
	const struct item *x = a;
	const struct item *y = b;

	return (x->use.used_ns > y->use.used_ns) - (x->use.used_ns < y->use.used_ns);
}

static uint64_t bytes_of(const struct items *x)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < x->n; i++)
		bytes += x->list[i].shared ? 0 : x->list[i].use.bytes;
	return bytes;
}

/* ---- prune ---- */

static bool is_wanted(const struct item *it, const struct image_prune_wish *w)
{
	return it->busy || (w->keep && strcmp(it->img->digest, w->keep) == 0);
}

static int drop(struct holt_home *home, const struct item *it, const struct image_prune_wish *w,
	uint64_t *bytes, holt_error **reterr)
{
	const uint64_t size = it->shared ? 0 : it->use.bytes;
	const int r = w->dry_run ? 0 : image_drop(home->images, it->img->digest, reterr);

	if (r < 0)
		return r;
	*bytes += size;
	if (w->gone)
		w->gone(it->img->name ? it->img->name : "", it->img->digest, size, w->user);
	return 0;
}

int image_space_prune(struct holt_home *home, const struct image_prune_wish *w, uint64_t *ret_bytes,
	holt_error **reterr)
{
	const bool limited = w->max_bytes != UINT64_MAX;
	struct items x = {0};
	struct blobs_use blobs;
	uint64_t gone = 0;
	int r = items_get(home, &x, reterr);

	if (r < 0)
		return r;
	blobs_look(home->images, &blobs);
	const uint64_t images = bytes_of(&x);
	/* What images may not have is left for blobs. */
	const uint64_t room = !limited ? 0 : w->max_bytes > images ? w->max_bytes - images : 0;
	if (w->dry_run)
		gone = blobs.bytes > room && blobs.free_bytes < blobs.bytes - room
			       ? blobs.free_bytes
			       : blobs.bytes - (blobs.bytes > room ? room : blobs.bytes);
	else
		gone = blobs_trim(home->images, room);
	if (x.n > 0)
		qsort(x.list, x.n, sizeof *x.list, by_use);
	for (size_t i = 0; r == 0 && i < x.n; i++) {
		const struct item *it = &x.list[i];
		const bool over = limited && images + blobs.bytes - gone > w->max_bytes;
		if (!is_wanted(it, w) && (limited ? over : w->all || !it->named))
			r = drop(home, it, w, &gone, reterr);
	}
	items_done(&x);
	if (r == 0 && ret_bytes)
		*ret_bytes = gone;
	return r;
}

void image_space_keep_budget(struct holt_home *home, const char *digest)
{
	const struct image_prune_wish w = {.max_bytes = home->image_bytes, .keep = digest};
	auto_error error = NULL;
	uint64_t bytes = 0;

	if (home->image_bytes == UINT64_MAX)
		return;
	if (image_space_prune(home, &w, &bytes, &error) < 0)
		log_warn("image", "the store may take too much of the disk: %s",
			holt_error_message(error));
	else if (bytes > 0)
		log_info("image", "%llu bytes of images and blobs went, used longest ago",
			(unsigned long long)bytes);
}

/* ---- use ---- */

/* The files of a box that are its own; a rootfs that is shared is the image's. */
static uint64_t box_bytes(struct holt_home *home, const char *id)
{
	const int fd = openat(home->boxes_fd, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *e;
	uint64_t bytes = 0;
	struct stat st;

	if (!dir) {
		(void)fd_close(fd);
		return 0;
	}
	while ((e = readdir(dir))) {
		if (fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
			st.st_nlink == 1)
			bytes += (uint64_t)st.st_blocks * 512;
	}
	(void)closedir(dir);
	return bytes;
}

static void count(struct space_use *u, bool active, uint64_t bytes)
{
	u->n++;
	u->n_active += active;
	u->bytes += bytes;
	u->free_bytes += active ? 0 : bytes;
}

static int count_boxes(struct holt_home *home, struct space_use *u, holt_error **reterr)
{
	struct holt_box **list = NULL;
	size_t n = 0;
	const int r = box_list(home, &list, &n, reterr);

	for (size_t i = 0; r == 0 && i < n; i++) {
		struct box_state st;
		box_look(list[i], &st);
		const bool runs = st.phase != BOX_CREATED && st.phase != BOX_EXITED &&
				  st.phase != BOX_GONE;
		count(u, runs, box_bytes(home, list[i]->rec.id));
	}
	box_list_free(list, n);
	return r;
}

int home_use(struct holt_home *home, struct home_use *ret, holt_error **reterr)
{
	struct home_use u = {0};
	struct blobs_use blobs;
	struct items x = {0};
	int r = items_get(home, &x, reterr);

	if (r == 0)
		r = count_boxes(home, &u.boxes, reterr);
	for (size_t i = 0; r == 0 && i < x.n; i++)
		count(&u.images, x.list[i].busy, x.list[i].shared ? 0 : x.list[i].use.bytes);
	/* A template serves whoever comes next: all of them may go, and are made again. */
	for (size_t i = 0; r == 0 && i < x.n_templates; i++)
		count(&u.templates, false, x.templates[i].size_bytes);
	items_done(&x);
	if (r < 0)
		return r;
	blobs_look(home->images, &blobs);
	u.blobs = (struct space_use){.n = blobs.n,
		.n_active = blobs.n_busy,
		.bytes = blobs.bytes,
		.free_bytes = blobs.free_bytes};
	*ret = u;
	return 0;
}
