/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making a template. The caller is its owner as of a box: a keeper of the role "template" boots the
 * machine in a directory that has a random name and a box's two locks, saves it and ends; then the
 * files are sealed and the directory gets the key as its name. So a template is there as a whole or
 * not at all, and what a killed maker left is swept as boxes are.
 *
 * <key>.lock makes sure that one process makes it; the others wait and then find it.
 */
#include "box/template.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/fsutil.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/str.h"
#include "box/keeper_start.h"
#include "box/session.h"
#include "box/template_files.h"
#include "vmm/disk.h"
#include "base/banned.h"

#define HOSTNAME      "template-machine" /* as long as an id: a clone writes over it in place */
#define LOCK_POLL_NS  10000000
#define FREEZE_MS     20000 /* what a maker may take beyond its boot */
#define LOG_BYTES     65536 /* nothing is written to it */
#define STOP_SIGNAL   15
#define SPACE_SPARE   (UINT64_C(64) << 20) /* for the disk, and for what else happens meanwhile */
#define LOCK_NAME_MAX (TEMPLATE_KEY_LEN + sizeof TEMPLATE_LOCK)

/* ---- the machine ---- */

int template_machine(const struct template_want *w, enum keeper_role role, const char *id,
	struct keeper_spec *ret, holt_error **reterr)
{
	*ret = (struct keeper_spec){.role = role,
		.bare = w->bare,
		.kvm = w->kvm,
		.memory_mib = w->memory_mib,
		.cpus = w->cpus,
		.tsc_khz = w->tsc_khz,
		.stop_signal = STOP_SIGNAL,
		.log_bytes = LOG_BYTES,
		.disk_bytes = w->disk_bytes,
		.boot_timeout_ms = w->boot_timeout_ms,
		.hostname = HOSTNAME};
	/* A spare has them from its template. */
	if (role == KEEPER_TEMPLATE)
		ret->directories = w->directories;
	(void)snprintf(ret->id, sizeof ret->id, "%s", id);
	return random_mac(ret->mac) < 0
		       ? err_make(reterr, HOLT_EIO, "no random bytes from the kernel")
		       : 0;
}

/* The memory is a file that the machine writes to as it likes: where there is no room for a page it
 * dies, and much later than here. */
static int check_space(
	const struct holt_home *home, const struct template_want *w, holt_error **reterr)
{
	const uint64_t need = ((uint64_t)w->memory_mib << 20) + SPACE_SPARE;
	uint64_t have = 0;

	if (fs_free_bytes(home->path, &have) < 0 || have >= need)
		return 0;
	const int r = err_make(reterr, HOLT_ELIMIT,
		"a template may take %" PRIu64 " MiB of the home's disk, which has %" PRIu64
		" MiB left",
		need >> 20, have >> 20);
	err_set_errno(reterr, ENOSPC);
	err_hint(reterr, "make room, or use --no-template");
	return r;
}

static int make_file(const struct box_dir *d, const char *name, int *ret_fd, holt_error **reterr)
{
	*ret_fd = openat(d->fd, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	return *ret_fd < 0 ? err_errno(reterr, errno, "cannot make the template's '%s'", name) : 0;
}

static int make_files(struct holt_home *home, const struct template_want *w,
	const struct box_dir *d, struct keeper_parts *p, holt_error **reterr)
{
	int r = check_space(home, w, reterr);

	if (r < 0 ||
		(r = disk_create(home->cache_dir, d->fd, TEMPLATE_DISK, w->disk_bytes, reterr)) <
			0 ||
		(r = make_file(d, TEMPLATE_MEMORY, &p->memory_fd, reterr)) < 0 ||
		(r = make_file(d, TEMPLATE_STATE, &p->state_fd, reterr)) < 0)
		return r;
	p->disk_fd = openat(d->fd, TEMPLATE_DISK, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	return p->disk_fd < 0 ? err_errno(reterr, errno, "cannot open the template's disk") : 0;
}

/* Until its keeper has saved the machine. */
static int wait_frozen(struct session *s, const struct template_want *w, holt_error **reterr)
{
	struct session_end end = {0};
	const int r = session_wait_end(s, w->boot_timeout_ms + FREEZE_MS, w->cancel, &end, reterr);

	if (r < 0)
		return r;
	return end.told && end.reason == WIRE_END_FROZEN ? 0 : session_why(s, reterr);
}

static int run_machine(struct holt_home *home, const struct template_want *w, struct box_dir *d,
	struct keeper_parts *p, holt_error **reterr)
{
	struct keeper_spec spec;
	struct session *s = NULL;
	int r = template_machine(w, KEEPER_TEMPLATE, d->id, &spec, reterr);

	spec.keep = true; /* the files are ours to keep or to remove */

	if (r < 0 || (r = loop_start(home->loop, reterr)) < 0 ||
		(r = keeper_start(home, d, p, &spec, reterr)) < 0)
		return r;
	r = session_open(
		home->loop, take_fd(p->control[0]), take_fd(p->bulk[0]), d->id, &s, reterr);
	if (r == 0)
		r = wait_frozen(s, w, reterr);
	/* Whatever is left of it ends with its owner's end of the pipe. */
	p->owner[1] = fd_close(p->owner[1]);
	if (s)
		(void)session_wait_gone(s, FREEZE_MS, NULL);
	session_close(s);
	return r;
}

/* ---- the directory ---- */

static void remove_files(const struct box_dir *d, const char *const *names, size_t n)
{
	for (size_t i = 0; i < n; i++)
		(void)unlinkat(d->fd, names[i], 0);
}

/* What the keeper left. */
static void remove_traces(const struct box_dir *d, bool bare)
{
	static const char *const names[] = {TEMPLATE_DISK, "sock", "state.json", "log", "log.1"};

	remove_files(d, bare ? names : names + 1, sizeof names / sizeof names[0] - !bare);
}

/* Without their names the locks protect nothing: the directory has to be a template by then. */
static void remove_locks(const struct box_dir *d)
{
	static const char *const names[] = {"keeper.lock", "vm.lock"};

	remove_files(d, names, sizeof names / sizeof names[0]);
}

static int publish(struct holt_home *home, const struct template_want *w, struct box_dir *d,
	const char *key, uint64_t build_ms, holt_error **reterr)
{
	remove_traces(d, w->bare);
	int r = template_files_seal(d->fd, w, build_ms);

	if (r == 0)
		r = fs_sync_dir(d->fd);
	if (r == 0)
		r = fs_publish(home->templates_fd, d->id, home->templates_fd, key);
	if (r == 0)
		remove_locks(d);
	return r < 0 ? err_errno(reterr, -r, "cannot keep the template") : 0;
}

static int build(
	struct holt_home *home, const struct template_want *w, const char *key, holt_error **reterr)
{
	struct keeper_parts p = KEEPER_PARTS_INIT;
	const uint64_t began_ms = clock_mono_ms();
	struct box_dir d = BOX_DIR_INIT;
	int r = box_dir_make(home->templates_fd, &d, reterr);

	if (r < 0)
		return r;
	/* Lent, not given. */
	p.kernel_fd = w->kernel_fd;
	p.initrd_fd = w->initrd_fd;
	p.rootfs_fd = w->rootfs_fd;
	r = make_files(home, w, &d, &p, reterr);
	if (r == 0)
		r = run_machine(home, w, &d, &p, reterr);
	p.rootfs_fd = FD_NONE;
	keeper_parts_done(&p);
	if (r == 0)
		r = publish(home, w, &d, key, clock_mono_ms() - began_ms, reterr);
	if (r < 0)
		(void)!box_dir_remove(home->templates_fd, d.id);
	box_dir_close(&d);
	return r;
}

/* ---- one maker ---- */

static void lock_name(const char *key, char ret[LOCK_NAME_MAX])
{
	(void)snprintf(ret, LOCK_NAME_MAX, "%s" TEMPLATE_LOCK, key);
}

/* By who holds it; a waiter finds out that his lock is on a file without a name. */
static void drop_lock_file(struct holt_home *home, const char *key)
{
	char name[LOCK_NAME_MAX];

	lock_name(key, name);
	(void)unlinkat(home->templates_fd, name, 0);
}

static int take_lock(
	struct holt_home *home, const struct template_want *w, const char *key, holt_error **reterr)
{
	const uint64_t deadline_ms = clock_mono_ms() + w->boot_timeout_ms + FREEZE_MS;
	const struct timespec pause = {.tv_nsec = LOCK_POLL_NS};
	char name[LOCK_NAME_MAX];

	lock_name(key, name);
	for (;;) {
		const int fd = fs_open_lock(home->templates_fd, name, false);

		if (fd >= 0)
			return fd;
		if (fd != -EWOULDBLOCK)
			return err_errno(reterr, -fd, "cannot lock the template");
		if (cancel_fired(w->cancel))
			return err_make(reterr, HOLT_ECANCELLED, "the start was cancelled");
		if (clock_mono_ms() >= deadline_ms)
			return err_make(reterr, HOLT_ETIMEOUT,
				"another process takes too long to make the template");
		(void)nanosleep(&pause, NULL);
	}
}

static int make_locked(struct holt_home *home, const struct template_want *w, const char *key,
	struct template *ret, holt_error **reterr)
{
	if (template_open(home, key, ret, NULL) == 0)
		return 0;
	log_debug("template", "making template %s", key);
	log_info("template", "making a %stemplate of '%s', once for this image",
		w->bare ? "bare " : "", w->image);
	int r = build(home, w, key, reterr);
	if (r == 0)
		r = template_open(home, key, ret, reterr);
	/* What was used longest ago makes room; that it could not is no reason to fail. */
	if (r == 0)
		template_keep_budget(home);
	return r;
}

int template_make(struct holt_home *home, const struct template_want *w, struct template *ret,
	holt_error **reterr)
{
	char key[TEMPLATE_KEY_LEN + 1];
	int r = template_key(w, key, reterr);

	if (r < 0 || template_open(home, key, ret, NULL) == 0)
		return r;
	auto_fd lock = take_lock(home, w, key, reterr);
	r = lock < 0 ? lock : make_locked(home, w, key, ret, reterr);
	if (lock >= 0)
		drop_lock_file(home, key);
	if (r < 0) {
		err_stage(reterr, "template");
		err_object(reterr, w->image);
	}
	return r;
}
