/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: overclone BOX TEMPLATE
 *
 * For tests: starts a box as a clone of a full template, whatever has become of its disk, as no
 * program of ours does: it says to the keeper that the disk is the template's copy. Prints how the
 * machine began, and the note.
 */
#include "box/keeper_start.h"
#include "box/lifecycle.h"
#include "box/template.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#define BOOT_TIMEOUT_MS 60000u
#define READY_WAIT_MS   130000u

static int open_parts(
	struct holt_box *b, struct keeper_parts *p, struct keeper_spec *s, holt_error **reterr)
{
	int r = keeper_choose_accel(b->home, NULL, s, reterr);

	if (r == 0)
		r = keeper_open_kernel(b->home, p, reterr);
	if (r == 0)
		r = loop_start(b->home->loop, reterr);
	p->rootfs_fd = openat(b->dir.fd, "rootfs", O_RDONLY | O_CLOEXEC);
	p->disk_fd = openat(b->dir.fd, "disk.raw", O_RDWR | O_CLOEXEC);
	return r;
}

/* What origin.c and lifecycle.c write, but for the truth. */
static void fill_spec(const struct holt_box *b, const struct template *t, struct keeper_spec *s)
{
	(void)snprintf(s->id, sizeof s->id, "%s", b->rec.id);
	(void)snprintf(s->hostname, sizeof s->hostname, "%s", b->rec.hostname);
	(void)snprintf(s->generation, sizeof s->generation, "%s", t->generation);
	memcpy(s->mac, b->rec.mac, sizeof s->mac);
	s->keep = true;
	s->clone = true;
	s->memory_mib = b->rec.memory_mib;
	s->cpus = b->rec.cpus;
	s->disk_bytes = b->rec.disk_bytes;
	s->log_bytes = b->rec.log_bytes;
	s->stop_signal = b->rec.stop_signal;
	s->stop_grace_ms = b->rec.stop_grace_ms;
	s->boot_timeout_ms = BOOT_TIMEOUT_MS;
}

static int start(struct holt_box *b, const char *key, holt_error **reterr)
{
	struct keeper_parts p = KEEPER_PARTS_INIT;
	struct template t = TEMPLATE_INIT;
	struct keeper_spec spec = {0};
	struct session_ready ready;
	struct session *s = NULL;
	int r = template_open(b->home, key, &t, reterr);

	if (r < 0 || (r = open_parts(b, &p, &spec, reterr)) < 0)
		return r;
	fill_spec(b, &t, &spec);
	p.memory_fd = take_fd(t.memory_fd);
	p.state_fd = take_fd(t.state_fd);
	r = keeper_start(b->home, &b->dir, &p, &spec, reterr);
	box_dir_close(&b->dir);
	if (r == 0)
		r = session_open(b->home->loop, take_fd(p.control[0]), take_fd(p.bulk[0]), "box",
			&s, reterr);
	if (r == 0)
		r = session_wait_ready(s, READY_WAIT_MS, NULL, &ready, reterr);
	if (r == 0)
		(void)printf("%s: %s\n", ready.origin, ready.note);
	/* The machine ends with its owner. */
	p.owner[1] = fd_close(p.owner[1]);
	if (s)
		(void)session_wait_gone(s, READY_WAIT_MS, NULL);
	session_close(s);
	template_done(&t);
	keeper_parts_done(&p);
	return r;
}

int main(int argc, char **argv)
{
	struct holt_home *home = NULL;
	struct holt_box *b = NULL;
	auto_error error = NULL;
	int r = argc == 3 ? home_open(&(struct home_wish){0}, &home, &error) : -HOLT_EINVALID;

	if (r == 0)
		r = box_get(home, argv[1], &b, &error);
	if (r == 0)
		r = box_dir_lock(home->boxes_fd, b->rec.id, 2000, &b->dir) < 0 ? -HOLT_EBUSY : 0;
	if (r == 0)
		r = start(b, argv[2], &error);
	if (r < 0)
		(void)fprintf(stderr, "overclone: %s\n", holt_error_message(error));
	box_close(b);
	home_close(home);
	return r < 0;
}
