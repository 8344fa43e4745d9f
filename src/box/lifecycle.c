/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A box is started in this order: image, accelerator, kernel and initramfs, directory with both
 * locks held, disk, keeper with all of it as descriptors. From the keeper's start on the locks are
 * the keeper's and QEMU's; before it, a failure removes the directory here.
 */
#include "box/lifecycle.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/digest.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/str.h"
#include "box/assets.h"
#include "box/box_dir.h"
#include "box/keeper.h"
#include "vmm/disk.h"
#include "vmm/kernel.h"
#include "vmm/probe.h"
#include "base/banned.h"

/* What the keeper may take beyond its two boot attempts. */
#define START_MARGIN_MS 10000
/* From closing the owner pipe to the keeper's last trace. */
#define CLOSE_TIMEOUT_MS 8000
/* For a VM whose keeper was killed to be gone, by the parent-death signal. */
#define VM_END_WAIT_MS 2000

/* Everything that is opened on the way to a keeper. */
struct parts {
	int kernel_fd;
	int initrd_fd;
	int rootfs_fd;
	int disk_fd;
	int owner[2];
	int control[2];
	int bulk[2];
	struct box_dir dir;
};

static void parts_done(struct parts *p)
{
	int *fds[] = {&p->kernel_fd, &p->initrd_fd, &p->rootfs_fd, &p->disk_fd, &p->owner[0],
		&p->owner[1], &p->control[0], &p->control[1], &p->bulk[0], &p->bulk[1]};

	for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++)
		*fds[i] = fd_close(*fds[i]);
	box_dir_close(&p->dir);
}

static int choose_accel(struct holt_home *h, const struct box_wish *w, struct keeper_spec *spec,
	holt_error **reterr)
{
	const char *want = w->accel ? w->accel : getenv("HOLT_ACCEL");
	struct probe_result probe = {0};

	int r = probe_accel(h->cache_dir, &probe, reterr);
	if (r == 0)
		r = probe_choose(want, &probe, &spec->kvm, reterr);
	spec->tsc_khz = probe.tsc_khz;
	return r;
}

static int open_kernel(struct holt_home *h, struct parts *p, holt_error **reterr)
{
	struct kernel kernel = {0};
	char **near = NULL;
	const void *agent = NULL;
	size_t agent_len = 0;
	void *agent_mem = NULL;

	int r = asset_kernel_dirs(&near, reterr);
	if (r < 0)
		return r;
	const char *const *dirs = (const char *const *)near;
	r = kernel_find(dirs, &kernel, reterr);
	if (r == 0)
		r = asset_agent(&agent, &agent_len, &agent_mem, reterr);
	if (r == 0)
		r = initramfs_open(&kernel, agent, agent_len, h->cache_dir, &p->initrd_fd, reterr);
	if (r == 0)
		r = kernel_open(&kernel, h->cache_dir, &p->kernel_fd, reterr);
	mem_free(agent_mem);
	kernel_done(&kernel);
	strv_free(near);
	return r;
}

static int make_disk(struct holt_home *h, struct parts *p, uint64_t bytes, holt_error **reterr)
{
	const int r = disk_create(h->cache_dir, p->dir.fd, "disk.raw", bytes, reterr);

	if (r < 0)
		return r;
	p->disk_fd = openat(p->dir.fd, "disk.raw", O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (p->disk_fd < 0)
		return err_errno(reterr, errno, "cannot open the box's disk");
	return 0;
}

static int fill_spec(
	struct holt_box *b, const struct box_wish *w, struct keeper_spec *spec, holt_error **reterr)
{
	spec->memory_mib = w->memory_mib;
	spec->cpus = w->cpus;
	spec->disk_bytes = w->disk_bytes;
	spec->boot_timeout_ms = w->boot_timeout_ms;
	(void)snprintf(spec->id, sizeof spec->id, "%s", b->id);
	(void)snprintf(b->hostname, sizeof b->hostname, "%s", w->hostname ? w->hostname : b->id);
	(void)snprintf(spec->hostname, sizeof spec->hostname, "%s", b->hostname);
	if (random_bytes(spec->mac, sizeof spec->mac) < 0)
		return err_make(reterr, HOLT_EIO, "no random bytes from the kernel");
	spec->mac[0] = (uint8_t)((spec->mac[0] & 0xfc) | 2); /* locally administered, unicast */
	return 0;
}

/* All that the keeper sees of the caller's environment: where QEMU is, overrides for development.
 */
static const char *const passed_env[] = {
	"HOLT_AGENT",
	"HOLT_QEMU",
	"PATH",
#ifdef HOLT_SANITIZED
	"ASAN_OPTIONS",
	"TSAN_OPTIONS",
	"UBSAN_OPTIONS",
#endif
};

#define PASSED_ENV (sizeof passed_env / sizeof passed_env[0])

/* The variables above, as a fresh list (strv_free), or NULL without memory. */
static char **keeper_env(void)
{
	char **env = mem_array(PASSED_ENV + 2, sizeof *env);
	size_t n = 0;
	bool ok = env != NULL;

	if (ok) {
		env[n] = str_dup("LC_ALL=C");
		ok = env[n++] != NULL;
	}
	for (size_t i = 0; ok && i < PASSED_ENV; i++) {
		const char *value = getenv(passed_env[i]);

		if (value) {
			env[n] = str_printf("%s=%s", passed_env[i], value);
			ok = env[n++] != NULL;
		}
	}
	if (ok)
		return env;
	strv_free(env);
	return NULL;
}

static int spawn_keeper(struct parts *p, int boxes_fd, holt_error **reterr)
{
	auto_free char *path = NULL;
	struct proc proc = {0};

	int r = asset_keeper(&path, reterr);
	if (r < 0)
		return r;
	char **env = keeper_env();
	if (!env)
		return err_nomem(reterr);
	const char *const argv[] = {"holt-keeper", NULL};
	const struct proc_fd fds[] = {{p->owner[0], KEEPER_FD_OWNER},
		{p->control[1], KEEPER_FD_CONTROL}, {p->bulk[1], KEEPER_FD_BULK},
		{p->kernel_fd, KEEPER_FD_KERNEL}, {p->initrd_fd, KEEPER_FD_INITRD},
		{p->rootfs_fd, KEEPER_FD_ROOTFS}, {p->disk_fd, KEEPER_FD_DISK},
		{p->dir.vm_lock, KEEPER_FD_VM_LOCK}, {p->dir.keeper_lock, KEEPER_FD_KEEPER_LOCK},
		{boxes_fd, KEEPER_FD_BOXES}};
	const struct proc_spec spec = {.path = path,
		.argv = argv,
		.env = (const char *const *)env,
		.fds = fds,
		.n_fds = sizeof fds / sizeof fds[0],
		.flags = PROC_DETACH | PROC_NOCORE};
	r = proc_spawn(&spec, &proc, reterr);
	strv_free(env);
	return r;
}

/* From a made directory to a running keeper. */
static int start_keeper(struct holt_box *b, struct parts *p, const struct box_wish *w,
	struct keeper_spec *spec, holt_error **reterr)
{
	int r = make_disk(b->home, p, w->disk_bytes, reterr);

	if (r < 0 || (r = fill_spec(b, w, spec, reterr)) < 0)
		return r;
	if ((r = fd_pipe(p->owner)) < 0 || (r = fd_socketpair(p->control)) < 0 ||
		(r = fd_socketpair(p->bulk)) < 0)
		return err_errno(reterr, -r, "cannot make the keeper's sockets");
	r = spawn_keeper(p, b->home->boxes_fd, reterr);
	if (r == 0)
		r = keeper_spec_write(spec, p->owner[1], reterr);
	return r;
}

static int check_cancel(const struct box_wish *w, holt_error **reterr)
{
	if (!cancel_fired(w->cancel))
		return 0;
	return err_make(reterr, HOLT_ECANCELLED, "the start was cancelled");
}

static int start_parts(struct holt_box *b, struct parts *p, const char *ref,
	const struct box_wish *w, holt_error **reterr)
{
	struct keeper_spec spec = {0};
	int r = image_get(b->home->images, ref, &b->image, reterr);

	if (r < 0 || (r = choose_accel(b->home, w, &spec, reterr)) < 0 ||
		(r = open_kernel(b->home, p, reterr)) < 0 ||
		(r = image_open_rootfs(b->home->images, b->image, &p->rootfs_fd, reterr)) < 0 ||
		(r = check_cancel(w, reterr)) < 0 || (r = loop_start(b->home->loop, reterr)) < 0 ||
		(r = box_dir_make(b->home->boxes_fd, &p->dir, reterr)) < 0)
		return r;
	(void)snprintf(b->id, sizeof b->id, "%s", p->dir.id);
	r = start_keeper(b, p, w, &spec, reterr);
	if (r == 0) {
		b->owner_fd = take_fd(p->owner[1]);
		r = session_open(b->home->loop, take_fd(p->control[0]), take_fd(p->bulk[0]), b->id,
			&b->session, reterr);
	}
	return r;
}

int box_start(struct holt_home *home, const char *ref, const struct box_wish *w,
	struct holt_box **ret, holt_error **reterr)
{
	struct parts p = {FD_NONE, FD_NONE, FD_NONE, FD_NONE, {FD_NONE, FD_NONE},
		{FD_NONE, FD_NONE}, {FD_NONE, FD_NONE}, BOX_DIR_INIT};
	struct holt_box *b = mem_zalloc(sizeof *b);

	if (!b)
		return err_nomem(reterr);
	b->home = home;
	b->owner_fd = FD_NONE;
	int r = start_parts(b, &p, ref, w, reterr);
	/* The keeper and QEMU hold the locks now, or nobody does. */
	parts_done(&p);
	if (r == 0)
		r = session_wait_ready(b->session, 2 * w->boot_timeout_ms + START_MARGIN_MS,
			w->cancel, &b->ready, reterr);
	if (r < 0) {
		err_stage(reterr, "start");
		err_object(reterr, b->id[0] ? b->id : ref);
		box_close(b);
		return r;
	}
	*ret = b;
	return 0;
}

void box_close(struct holt_box *b)
{
	if (!b)
		return;
	b->owner_fd = fd_close(b->owner_fd);
	if (b->session) {
		(void)session_wait_gone(b->session, CLOSE_TIMEOUT_MS, NULL);
		session_close(b->session);
	}
	/* Normally the keeper has done it; a killed one could not. What is still held now goes with
	 * the next process that opens the home. */
	if (b->id[0])
		(void)box_dir_remove(b->home->boxes_fd, b->id, VM_END_WAIT_MS);
	image_free(b->image);
	mem_free(b);
}
