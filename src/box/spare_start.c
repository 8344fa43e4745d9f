/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starting spares: as boxes are, only that nobody owns them, that nobody waits for them, and that
 * their directory lies elsewhere. Who starts some holds a lock on the directory of their key, so
 * that two who find the same one missing start it once.
 */
#include "box/spares.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/fsutil.h"
#include "base/mem.h"
#include "base/random.h"
#include "box/disk_origin.h"
#include "box/home_memory.h"
#include "vmm/disk.h"
#include "base/banned.h"

#define LATER_MS     300 /* after the start of a box, which shall have the processors first */
#define LOCK_WAIT_MS 1000 /* for somebody else who starts some */
#define KEY_TRIES    8 /* a sweeper may remove an empty directory */
#define POLL_NS      5000000

static int fill_spec(const struct template_want *w, const struct template *t,
	const struct box_dir *d, const struct spares_plan *plan, struct keeper_spec *s,
	holt_error **reterr)
{
	const int r = template_machine(w, KEEPER_SPARE, d->id, s, reterr);

	s->clone = true;
	s->delay_ms = plan->delay_ms;
	s->lifetime_ms = plan->lifetime_ms ? plan->lifetime_ms : SPARE_LIFETIME_MS;
	(void)snprintf(s->key, sizeof s->key, "%s", t->key);
	(void)snprintf(s->generation, sizeof s->generation, "%s", t->generation);
	return r;
}

/* A claimed spare is a box, so it has a name for its rootfs, too. */
static int link_rootfs(int rootfs_fd, const struct box_dir *d, holt_error **reterr)
{
	char path[32];

	(void)snprintf(path, sizeof path, "/proc/self/fd/%d", rootfs_fd);
	if (linkat(AT_FDCWD, path, d->fd, "rootfs", AT_SYMLINK_FOLLOW) == 0)
		return 0;
	auto_fd copy = openat(d->fd, "rootfs", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0400);
	const int r = copy < 0 ? -errno : fs_copy_sparse(rootfs_fd, copy);
	return r < 0 ? err_errno(reterr, -r, "cannot give the spare its rootfs") : 0;
}

static int make_files(const struct template_want *w, const struct template *t,
	const struct box_dir *d, struct keeper_parts *p, holt_error **reterr)
{
	int r = link_rootfs(w->rootfs_fd, d, reterr);

	if (r < 0 || (r = disk_clone(t->disk_fd, d->fd, "disk.raw", reterr)) < 0)
		return r;
	r = disk_origin_write(d->fd, t->generation);
	if (r < 0)
		return err_errno(reterr, -r, "cannot note where the spare's disk comes from");
	p->disk_fd = openat(d->fd, "disk.raw", O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	return p->disk_fd < 0 ? err_errno(reterr, errno, "cannot open the spare's disk") : 0;
}

static int start_one(struct holt_home *home, int dir, const struct template_want *w,
	const struct spares_plan *plan, holt_error **reterr)
{
	struct keeper_parts p = KEEPER_PARTS_INIT;
	struct template t = TEMPLATE_INIT;
	struct box_dir d = BOX_DIR_INIT;
	struct keeper_spec spec;
	/* For each its own descriptors: the machine reads the state from where it stands. */
	int r = template_open(home, plan->key, &t, reterr);

	if (r == 0)
		r = box_dir_make(dir, &d, reterr);
	if (r == 0)
		r = make_files(w, &t, &d, &p, reterr);
	if (r == 0)
		r = fill_spec(w, &t, &d, plan, &spec, reterr);
	/* Lent, not given. */
	p.kernel_fd = w->kernel_fd;
	p.initrd_fd = w->initrd_fd;
	p.rootfs_fd = w->rootfs_fd;
	p.memory_fd = take_fd(t.memory_fd);
	p.state_fd = take_fd(t.state_fd);
	if (r == 0)
		r = keeper_start(home, &d, &p, &spec, reterr);
	p.rootfs_fd = FD_NONE;
	keeper_parts_done(&p);
	template_done(&t);
	if (r < 0 && d.fd >= 0)
		(void)!box_dir_remove(dir, d.id);
	box_dir_close(&d);
	return r;
}

/* ---- one at a time ---- */

static int trylock_within(int dir, uint64_t wait_ms)
{
	const uint64_t deadline_ms = clock_mono_ms() + wait_ms;
	const struct timespec pause = {.tv_nsec = POLL_NS};
	int r;

	while ((r = fs_trylock(dir)) == -EWOULDBLOCK && clock_mono_ms() < deadline_ms)
		(void)nanosleep(&pause, NULL);
	return r;
}

/* The directory of the key, made where it is missing, and locked: a descriptor, or -errno. */
static int lock_key(struct holt_home *home, const char *key)
{
	for (int i = 0; i < KEY_TRIES; i++) {
		if (mkdirat(home->spares_fd, key, 0700) < 0 && errno != EEXIST)
			return -errno;
		auto_fd dir = spares_open(home, key);
		if (dir == -ENOENT)
			continue;
		const int r = dir < 0 ? dir : trylock_within(dir, LOCK_WAIT_MS);
		if (r < 0)
			return r;
		if (fs_is_named(dir, home->spares_fd, key))
			return take_fd(dir);
	}
	return -EBUSY;
}

/* One that would have to be ended at once helps nobody. */
static int check_memory(struct holt_home *home, holt_error **reterr)
{
	if (memory_has_room(home))
		return 0;
	(void)err_make(reterr, HOLT_ELIMIT, "the home's ceiling on memory leaves no room for it");
	err_hint(reterr, "stop some boxes, or raise max_memory (HOLT_MAX_MEMORY)");
	return -HOLT_ELIMIT;
}

int spares_fill(struct holt_home *home, const struct template_want *w,
	const struct spares_plan *plan, holt_error **reterr)
{
	unsigned have = 0;
	unsigned ready = 0;
	auto_fd dir = lock_key(home, plan->key);
	int r = 0;

	if (dir == -EWOULDBLOCK)
		return 0; /* somebody else is about it */
	if (dir < 0)
		return err_errno(reterr, -dir, "cannot open the directory of the spares");
	spares_count(home, plan->key, &have, &ready);
	for (; have < plan->n && r == 0; have++) {
		r = check_memory(home, reterr);
		if (r == 0)
			r = start_one(home, dir, w, plan, reterr);
	}
	if (r < 0)
		err_stage(reterr, "spare");
	return r;
}

/* ---- for who waits ---- */

static int not_ready(const struct spares_plan *plan, unsigned ready, holt_error **reterr)
{
	const int r = err_make(reterr, HOLT_ETIMEOUT, "after %u s %u of %u spares are ready",
		SPARES_WAIT_MS / 1000, ready, plan->n);

	err_stage(reterr, "spare");
	err_hint(reterr, "run 'holt doctor'; if the machine is very busy, try again");
	return r;
}

int spares_fill_wait(struct holt_home *home, const struct template_want *w,
	const struct spares_plan *plan, holt_error **reterr)
{
	const uint64_t deadline_ms = clock_mono_ms() + SPARES_WAIT_MS;
	const struct timespec pause = {.tv_nsec = POLL_NS};
	unsigned have = 0;
	unsigned ready = 0;
	int r = 0;

	/* Again, since some may be claimed meanwhile. */
	while (r == 0 && clock_mono_ms() < deadline_ms) {
		if (have < plan->n)
			r = spares_fill(home, w, plan, reterr);
		spares_count(home, plan->key, &have, &ready);
		if (r == 0 && ready >= plan->n)
			return 0;
		(void)nanosleep(&pause, NULL);
	}
	return r < 0 ? r : not_ready(plan, ready, reterr);
}

/* ---- for who does not ---- */

/* What a thread needs after its starter has gone on. */
struct later {
	struct holt_home *home;
	struct template_want want;
	struct spares_plan plan;
};

static int run_later(holt_cancel *cancel, void *user, holt_error **reterr)
{
	struct later *l = user;

	(void)cancel;
	return spares_fill(l->home, &l->want, &l->plan, reterr);
}

static void later_free(struct later *l)
{
	(void)fd_close(l->want.rootfs_fd);
	mem_free(l);
}

static void done_later(struct holt_job *job, void *user)
{
	(void)job;
	later_free(user);
}

struct holt_job *spares_fill_later(
	struct holt_home *home, const struct template_want *w, const char *key, unsigned n)
{
	struct holt_job *job = NULL;
	struct later *l = mem_zalloc(sizeof *l);

	if (!l) {
		(void)fd_close(w->rootfs_fd);
		return NULL;
	}
	*l = (struct later){.home = home, .want = *w, .plan = {.n = n, .delay_ms = LATER_MS}};
	/* Borrowed from whom may be gone by then, and not needed. */
	l->want.image = l->want.rootfs_digest = NULL;
	l->want.cancel = NULL;
	(void)snprintf(l->plan.key, sizeof l->plan.key, "%s", key);
	const struct job_work work = {.run = run_later, .done = done_later, .user = l};
	if (job_start(home->executor, &work, &job, NULL) == 0)
		return job;
	later_free(l);
	return NULL;
}
