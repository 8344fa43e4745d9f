/* SPDX-License-Identifier: Apache-2.0 */
/*
 *   never started   a full template, with a copy of its disk; made where the shape is the default
 *   started before  a bare template, whose guest mounts the box's own disk; likewise
 *   anything else   a boot
 */
#include "box/origin.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "box/disk_origin.h"
#include "box/template.h"
#include "vmm/disk.h"
#include "base/banned.h"

static bool is_default_shape(const struct box_record *r)
{
	return r->memory_mib == DEFAULT_MEMORY_MIB && r->cpus == DEFAULT_CPUS &&
	       r->disk_bytes == DEFAULT_DISK_BYTES;
}

/* A machine had the disk, whatever became of it: its keeper wrote a state first. */
static bool was_started(const struct box_dir *d)
{
	return faccessat(d->fd, BOX_STATE_FILE, F_OK, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT;
}

static int find(const struct holt_box *b, const struct template_want *want, struct template *ret,
	holt_error **reterr)
{
	char key[TEMPLATE_KEY_LEN + 1];

	if (is_default_shape(&b->rec))
		return template_make(b->home, want, ret, reterr);
	const int r = template_key(want, key, reterr);
	return r < 0 ? r : template_open(b->home, key, ret, reterr);
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

	if (holt_error_code(error) == HOLT_ENOT_FOUND && !is_default_shape(&b->rec))
		return;
	(void)str_escape(spec->note, sizeof spec->note, text, strlen(text), false);
}

void origin_choose(struct holt_box *b, const struct start_wish *w, struct keeper_parts *p,
	struct keeper_spec *spec)
{
	const struct box_record *rec = &b->rec;
	struct template t = TEMPLATE_INIT;
	auto_error error = NULL;

	if (w->no_template || !rec->rootfs_digest)
		return;
	const struct template_want want = {.image = rec->image,
		.rootfs_digest = rec->rootfs_digest,
		.bare = was_started(&b->dir),
		.memory_mib = rec->memory_mib,
		.cpus = rec->cpus,
		.disk_bytes = rec->disk_bytes,
		.kvm = spec->kvm,
		.tsc_khz = spec->tsc_khz,
		.kernel_fd = p->kernel_fd,
		.initrd_fd = p->initrd_fd,
		.rootfs_fd = p->rootfs_fd,
		.boot_timeout_ms = w->boot_timeout_ms,
		.cancel = w->cancel};
	int r = find(b, &want, &t, &error);
	if (r == 0 && !want.bare)
		r = copy_disk(&b->dir, &t, &error);
	if (r == 0)
		use(&want, &t, p, spec);
	else
		explain(b, error, spec);
	template_done(&t);
}
