/* SPDX-License-Identifier: Apache-2.0 */
/*
 *   never started   a spare; else a full template, with a copy of its disk, which is made where the
 *                   shape is the default, or a pool's, of which more boxes will come; a pool's has
 *                   the directories of its boxes already
 *   started before  a bare template, whose guest mounts the box's own disk; likewise
 *   anything else   a boot
 */
#include "box/origin.h"

#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "base/str.h"
#include "box/disk_origin.h"
#include "box/pool_directories.h"
#include "box/spares.h"
#include "vmm/disk.h"
#include "base/banned.h"

static bool is_default_shape(const struct box_record *r)
{
	return r->memory_mib == DEFAULT_MEMORY_MIB && r->cpus == DEFAULT_CPUS &&
	       r->disk_bytes == DEFAULT_DISK_BYTES;
}

/* Whether a template that is missing is made. */
static bool is_worth_one(const struct box_record *r)
{
	return is_default_shape(r) || r->pooled;
}

static int find(
	const struct holt_box *b, const struct origin *o, struct template *ret, holt_error **reterr)
{
	return is_worth_one(&b->rec) ? template_make(b->home, &o->want, ret, reterr)
				     : template_open(b->home, o->key, ret, reterr);
}

static int copy_disk(const struct box_dir *d, const struct template *t, holt_error **reterr)
{
	int r = disk_clone(t->disk_fd, d->fd, "disk.raw", reterr);

	if (r == 0) {
		r = disk_origin_write(d->fd, t->generation);
		if (r < 0)
			r = err_errno(reterr, -r, "cannot note where the disk comes from");
	}
	return r;
}

static void use(const struct template_want *want, struct template *t, struct keeper_parts *p,
	struct keeper_spec *spec)
{
	spec->clone = true;
	spec->bare = want->bare;
	(void)snprintf(spec->generation, sizeof spec->generation, "%s", t->generation);
	p->memory_fd = take_fd(t->memory_fd);
	p->state_fd = take_fd(t->state_fd);
}

/* The reason goes to the keeper, and comes back from it to the user with those that the keeper
 * finds. A shape that nobody made a template for boots, and that is nothing to tell. */
static void explain(const struct holt_box *b, const holt_error *error, struct keeper_spec *spec)
{
	const char *text = holt_error_message(error);

	if (holt_error_code(error) == HOLT_ENOT_FOUND && !is_worth_one(&b->rec))
		return;
	(void)str_escape(spec->note, sizeof spec->note, text, strlen(text), false);
}

void origin_look(struct holt_box *b, const struct start_wish *w, const struct keeper_parts *p,
	const struct keeper_spec *spec, struct origin *ret)
{
	const struct box_record *rec = &b->rec;

	*ret = (struct origin){.want = {.image = rec->image,
				       .rootfs_digest = rec->rootfs_digest,
				       .bare = !disk_origin_untouched(b->dir.fd),
				       .memory_mib = rec->memory_mib,
				       .cpus = rec->cpus,
				       .disk_bytes = rec->disk_bytes,
				       .kvm = spec->kvm,
				       .tsc_khz = spec->tsc_khz,
				       .kernel_fd = p->kernel_fd,
				       .initrd_fd = p->initrd_fd,
				       .rootfs_fd = p->rootfs_fd,
				       .boot_timeout_ms = w->boot_timeout_ms,
				       .cancel = w->cancel}};
	if (!ret->want.bare)
		pool_directories_of(b, &ret->want.directories);
	if (w->no_template || !rec->rootfs_digest || template_key(&ret->want, ret->key, NULL) < 0)
		ret->key[0] = 0;
	else if (!ret->want.bare && is_default_shape(rec))
		ret->spares = spares_wanted(b->home, rec->rootfs_digest);
}

int origin_claim(struct holt_box *b, const struct origin *o, const struct keeper_spec *spec,
	struct session **ret, int *ret_owner)
{
	return o->spares ? spares_claim(b, o->key, spec, o->want.cancel, ret, ret_owner, NULL)
			 : -HOLT_ENOT_FOUND;
}

void origin_clone(struct holt_box *b, const struct origin *o, struct keeper_parts *p,
	struct keeper_spec *spec)
{
	struct template t = TEMPLATE_INIT;
	auto_error error = NULL;

	if (!o->key[0])
		return;
	int r = find(b, o, &t, &error);
	if (r == 0 && !o->want.bare)
		r = copy_disk(&b->dir, &t, &error);
	if (r == 0)
		use(&o->want, &t, p, spec);
	else
		explain(b, error, spec);
	template_done(&t);
}

void origin_refill(struct holt_box *b, struct origin *o, struct keeper_parts *p)
{
	if (!o->spares)
		return;
	box_await_refill(b);
	o->want.rootfs_fd = take_fd(p->rootfs_fd);
	b->refill = spares_fill_later(b->home, &o->want, o->key, o->spares);
}
