/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making and removing boxes. The order makes every interruption harmless:
 *
 *   make:    directory with both locks, rootfs; then the index entry
 *   remove:  both locks; index entry; then the directory
 *
 * So an entry without a directory, and a directory without an entry whose locks are free, are what
 * somebody who was killed left behind: the sweep removes them, and boxes that are not kept and do
 * not run.
 */
#include "box/lifecycle.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/fsutil.h"
#include "base/hash.h"
#include "base/random.h"
#include "base/str.h"
#include "box/disk_origin.h"
#include "box/event_log.h"
#include "base/banned.h"

#define NAME_LEN_MAX     63u
#define CLOSE_TIMEOUT_MS 9000 /* from closing the owner pipe to the keeper's last trace */
#define VM_END_WAIT_MS   2000 /* for a VM whose keeper was killed to be gone */

/* ---- handles ---- */

int box_handle(struct holt_home *home, struct holt_box **ret, holt_error **reterr)
{
	struct holt_box *b = mem_zalloc(sizeof *b);

	if (!b)
		return err_nomem(reterr);
	b->home = home;
	b->owner_fd = FD_NONE;
	b->dir = BOX_DIR_INIT;
	(void)pthread_mutex_init(&b->lock, NULL);
	*ret = b;
	return 0;
}

void box_close(struct holt_box *b)
{
	if (!b)
		return;
	b->owner_fd = fd_close(b->owner_fd);
	box_await_refill(b);
	if (b->ours && b->session)
		(void)session_wait_gone(b->session, CLOSE_TIMEOUT_MS, NULL);
	session_close(b->session);
	while (b->ended) {
		struct session_list *old = b->ended;

		b->ended = old->next;
		session_close(old->session);
		mem_free(old);
	}
	/* Normally the keeper has removed it; a killed one could not. What is still held now goes
	 * with the next process that opens the home. */
	if (b->ours && !b->rec.keep && b->dir.fd < 0 &&
		box_dir_lock(b->home->boxes_fd, b->rec.id, VM_END_WAIT_MS, &b->dir) == -ENOENT)
		(void)box_index_remove(b->home->boxes, b->rec.id, NULL);
	if (b->dir.fd >= 0 && !b->rec.keep)
		(void)box_discard(b->home, &b->dir, b->rec.name, NULL);
	box_dir_close(&b->dir);
	box_record_done(&b->rec);
	mem_free(b->json);
	strv_free(b->ports);
	(void)pthread_mutex_destroy(&b->lock);
	mem_free(b);
}

/* ---- making ---- */

int box_check_name(const char *name, holt_error **reterr)
{
	static const char *const inner = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
					 "0123456789_.-";
	const size_t len = strlen(name);

	if (len > 0 && len <= NAME_LEN_MAX && strspn(name, inner) == len && !strchr("_.-", name[0]))
		return 0;
	const int code = err_make(reterr, HOLT_EINVALID, "the name of a box is not usable");
	err_hint(reterr,
		"use 1 to %u letters, digits, '_', '.' or '-', beginning with a letter or digit",
		NAME_LEN_MAX);
	return code;
}

/* "SIGTERM", "TERM" or a number, as an image's StopSignal has it. */
static uint32_t stop_signal_of(const struct image_config *c)
{
	const char *text = c->stop_signal ? c->stop_signal : "";
	uint64_t number = 0;

	if (str_to_u64(text, 64, &number) == 0 && number > 0)
		return (uint32_t)number;
	if (str_starts(text, "SIG"))
		text += 3;
	for (int i = 1; i < 32; i++) {
		const char *name = sigabbrev_np(i);

		if (name && strcmp(name, text) == 0)
			return (uint32_t)i;
	}
	return 15;
}

static int copy_config(
	const struct image_config *from, struct image_config *to, holt_error **reterr)
{
	/* Its own lists are freed by the image. */
	union {
		char **in;
		const char *const *out;
	} env = {.in = from->env}, entrypoint = {.in = from->entrypoint}, cmd = {.in = from->cmd};

	to->env = env.in ? strv_dup(env.out) : NULL;
	to->entrypoint = entrypoint.in ? strv_dup(entrypoint.out) : NULL;
	to->cmd = cmd.in ? strv_dup(cmd.out) : NULL;
	to->working_dir = from->working_dir ? str_dup(from->working_dir) : NULL;
	to->user = from->user ? str_dup(from->user) : NULL;
	if ((env.in && !to->env) || (entrypoint.in && !to->entrypoint) || (cmd.in && !to->cmd) ||
		(from->working_dir && !to->working_dir) || (from->user && !to->user))
		return err_nomem(reterr);
	return 0;
}

static int fill_program(struct box_record *r, const struct box_wish *w, holt_error **reterr)
{
	const struct process *limits = w->program_limits;

	if (!w->program)
		return 0;
	const int code = process_build(&r->config, r->hostname, w->program, &r->program, reterr);
	if (code < 0)
		return code;
	r->has_program = true;
	r->program.timeout_ms = limits->timeout_ms;
	r->program.rows = limits->rows;
	r->program.cols = limits->cols;
	r->program.pids_max = limits->pids_max;
	r->program.replay = limits->replay;
	return 0;
}

static int fill_record(struct box_record *r, const char *id, const char *ref,
	const struct image *img, const struct box_wish *w, holt_error **reterr)
{
	(void)snprintf(r->id, sizeof r->id, "%s", id);
	r->image = str_dup(ref);
	r->image_digest = str_dup(img->digest);
	r->rootfs_digest = str_dup(img->rootfs_digest);
	r->hostname = str_dup(w->hostname ? w->hostname : id);
	r->name = w->name ? str_dup(w->name) : NULL;
	if (!r->image || !r->image_digest || !r->rootfs_digest || !r->hostname ||
		(w->name && !r->name))
		return err_nomem(reterr);
	r->created_ns = (int64_t)clock_wall_ns();
	r->keep = w->keep;
	r->memory_mib = w->memory_mib;
	r->cpus = w->cpus;
	r->disk_bytes = w->disk_bytes;
	r->log_bytes = w->log_bytes;
	r->stop_signal = w->stop_signal ? w->stop_signal : stop_signal_of(&img->config);
	r->stop_grace_ms = w->stop_grace_ms;
	if (random_mac(r->mac) < 0)
		return err_make(reterr, HOLT_EIO, "no random bytes from the kernel");
	if (net_spec_copy(&w->network, &r->network) < 0)
		return err_nomem(reterr);
	int code = copy_config(&img->config, &r->config, reterr);
	if (code == 0 && w->pool) {
		code = pool_record_copy(w->pool, &r->pool, reterr);
		r->pooled = code == 0;
	}
	return code < 0 ? code : fill_program(r, w, reterr);
}

bool box_free_name(struct holt_home *home, const char *holder)
{
	return holder && faccessat(home->boxes_fd, holder, F_OK, AT_SYMLINK_NOFOLLOW) < 0 &&
	       errno == ENOENT && box_index_remove(home->boxes, holder, NULL) == 0;
}

static int add_entry(struct holt_home *home, const struct box_record *r, holt_error **reterr)
{
	auto_json doc = box_record_json(r);
	struct box_record id = *r;
	const struct box_entry entry = {
		.id = id.id, .name = id.name, .record = doc ? json_text(doc) : NULL};
	auto_free char *record = entry.record;
	int code = record ? -HOLT_EEXISTS : err_nomem(reterr);

	/* Once more where the name belonged to a box that was removed by a keeper. */
	for (int i = 0; i < 2 && code == -HOLT_EEXISTS; i++) {
		auto_free char *holder = NULL;
		auto_error error = NULL;

		code = box_index_add(home->boxes, &entry, r->created_ns, r->keep, &holder, &error);
		if (code < 0 && (i == 1 || !box_free_name(home, holder)))
			return err_take(reterr, take_ptr(error));
	}
	return code;
}

/* The disk comes with the first start: most often it is a template's or a spare's. */
static int make_files(struct holt_home *home, const struct image *img, const struct box_dir *d,
	holt_error **reterr)
{
	const int code = image_link_rootfs(home->images, img, d->fd, "rootfs", reterr);

	if (code < 0)
		return code;
	const int r = disk_origin_write(d->fd, DISK_EMPTY);
	return r < 0 ? err_errno(reterr, -r, "cannot note that the disk is empty") : 0;
}

static int create_locked(struct holt_box *b, const char *ref, const struct image *img,
	const struct box_wish *w, holt_error **reterr)
{
	int code = fill_record(&b->rec, b->dir.id, ref, img, w, reterr);

	if (code == 0)
		code = make_files(b->home, img, &b->dir, reterr);
	if (code == 0)
		code = add_entry(b->home, &b->rec, reterr);
	if (code < 0) {
		(void)box_dir_destroy(b->home->boxes_fd, &b->dir);
		return code;
	}
	event_tell(b->home->fd, "create", b->rec.id, b->rec.name,
		json_pack("{s:o}", "image", json_from_bytes(ref)));
	/* A kept box is anybody's from now on; the other one is ours until it starts, and so is one
	 * of a pool, which is being made until then. */
	if (w->keep && !w->pool)
		box_dir_close(&b->dir);
	box_set_unstarted(b);
	return 0;
}

int box_create(struct holt_home *home, const char *ref, const struct box_wish *w,
	struct holt_box **ret, holt_error **reterr)
{
	struct image *img = NULL;
	struct holt_box *b = NULL;
	int code = w->name ? box_check_name(w->name, reterr) : 0;

	if (code == 0)
		code = image_get(home->images, ref, &img, reterr);
	if (code == 0)
		code = box_handle(home, &b, reterr);
	if (code == 0)
		code = box_dir_make(home->boxes_fd, &b->dir, reterr);
	if (code == 0)
		code = create_locked(b, ref, img, w, reterr);
	image_free(img);
	if (code < 0) {
		err_stage(reterr, "create");
		err_object(reterr, w->name ? w->name : ref);
		box_close(b);
		return code;
	}
	*ret = b;
	return 0;
}

/* ---- removing ---- */

/* Both halves of a box. On a full disk even an entry cannot go: the directory first, which gives
 * the room; an entry that stays behind it is removed by the next sweep. */
static int discard_both(struct holt_home *home, struct box_dir *d, holt_error **reterr)
{
	auto_error error = NULL;
	int code = box_index_remove(home->boxes, d->id, &error);

	if (code < 0 && code != -HOLT_ELIMIT)
		return err_take(reterr, take_ptr(error));
	const int r = box_dir_destroy(home->boxes_fd, d);
	if (r < 0)
		return err_errno(reterr, -r, "cannot remove the directory of the box");
	return code < 0 ? box_index_remove(home->boxes, d->id, reterr) : 0;
}

int box_discard(struct holt_home *home, struct box_dir *d, const char *name, holt_error **reterr)
{
	const int code = discard_both(home, d, reterr);

	if (code == 0)
		event_tell(home->fd, "destroy", d->id, name, NULL);
	return code;
}

/* A directory that perhaps belongs to nobody. */
static void sweep_dir(struct holt_home *home, const char *id)
{
	struct box_dir d = BOX_DIR_INIT;
	bool there = false;
	bool keep = false;

	/* One that was made since the listing is let alone: its lock would look like a start. */
	if (box_index_look(home->boxes, id, &there, &keep, NULL) < 0 || keep ||
		box_dir_lock(home->boxes_fd, id, 0, &d) < 0)
		return;
	/* Looked up again under the lock: it may just have been made. */
	if (box_index_look(home->boxes, id, &there, &keep, NULL) == 0 && !keep) {
		if (there)
			(void)box_discard(home, &d, NULL, NULL);
		else
			(void)!box_dir_destroy(home->boxes_fd, &d);
	}
	box_dir_close(&d);
}

static int compare_ids(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void sweep_dirs(struct holt_home *home, char **kept)
{
	const int fd = openat(home->boxes_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;
	size_t n = 0;

	while (kept[n])
		n++;
	if (!dir) {
		(void)fd_close(fd);
		return;
	}
	while ((entry = readdir(dir))) {
		const char *id = entry->d_name;

		if (box_dir_is_gone(id))
			(void)!fs_remove_tree(home->boxes_fd, id);
		else if (id[0] != '.' && !bsearch(&id, kept, n, sizeof *kept, compare_ids))
			sweep_dir(home, id);
	}
	(void)closedir(dir);
}

/* Entries whose directory is gone. */
static void sweep_entries(struct holt_home *home, char **ids)
{
	for (size_t i = 0; ids[i]; i++)
		(void)box_free_name(home, ids[i]);
}

void box_sweep(struct holt_home *home)
{
	char **kept = NULL;
	char **passing = NULL;

	if (box_index_kept(home->boxes, true, &kept, NULL) == 0 &&
		box_index_kept(home->boxes, false, &passing, NULL) == 0) {
		sweep_dirs(home, kept);
		sweep_entries(home, passing);
		sweep_entries(home, kept);
	}
	strv_free(kept);
	strv_free(passing);
}
