/* SPDX-License-Identifier: Apache-2.0 */
#include "box/spares.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/fsutil.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/str.h"
#include "box/box_state.h"
#include "box/disk_origin.h"
#include "box/home_memory.h"
#include "vmm/disk.h"
#include "base/banned.h"

#define WANT_SUFFIX   ".want"
#define WANT_MAX      16 /* bytes of such a file */
#define HOSTNAME      "spare-of-a-clone" /* as long as an id */
#define LOG_BYTES     65536 /* nothing is written to it before a claim */
#define STOP_SIGNAL   15
#define END_WAIT_MS   2000 /* for a killed keeper and its machine to be gone */
#define READY_WAIT_MS 2500 /* for a claimed one to have its identity */
#define LATER_MS      300 /* after the start of a box, which shall have the processors first */

/* ---- how many ---- */

static const char *hex_of(const char *digest)
{
	const char *colon = strchr(digest, ':');

	return colon ? colon + 1 : digest;
}

static int want_name(const char *rootfs_digest, char ret[128])
{
	const int len = snprintf(ret, 128, "%s" WANT_SUFFIX, hex_of(rootfs_digest));

	return len < 128 && !strchr(ret, '/') ? 0 : -EINVAL;
}

unsigned spares_wanted(struct holt_home *home, const char *rootfs_digest)
{
	auto_free char *text = NULL;
	uint64_t n = 0;
	char name[128];

	if (want_name(rootfs_digest, name) < 0 ||
		fs_read_file(home->spares_fd, name, WANT_MAX, &text, NULL) < 0)
		return 0;
	text[strcspn(text, "\n")] = 0;
	return str_to_u64(text, SPARES_MAX, &n) == 0 ? (unsigned)n : 0;
}

int spares_want(struct holt_home *home, const char *rootfs_digest, unsigned n, holt_error **reterr)
{
	char name[128];
	char text[WANT_MAX];
	int r = want_name(rootfs_digest, name);

	if (r == 0 && n == 0)
		r = unlinkat(home->spares_fd, name, 0) < 0 && errno != ENOENT ? -errno : 0;
	else if (r == 0) {
		(void)snprintf(text, sizeof text, "%u\n", n);
		r = fs_write_atomic(home->spares_fd, name, text, strlen(text), 0600);
	}
	return r < 0 ? err_errno(reterr, -r, "cannot note how many spares are wanted") : 0;
}

/* ---- the directories ---- */

static int open_key(struct holt_home *home, const char *key)
{
	const int fd = openat(
		home->spares_fd, key, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

/* The spares of a key, as a fresh list; what nobody lives for goes. */
static int list_ids(int dir, char ***ret)
{
	const int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *stream = fd < 0 ? NULL : fdopendir(fd);
	char **ids = mem_array(2 * SPARES_MAX + 1, sizeof *ids);
	const struct dirent *entry;
	size_t n = 0;

	while (stream && ids && n < 2 * SPARES_MAX && (entry = readdir(stream))) {
		if (entry->d_name[0] == '.' || box_dir_is_gone(entry->d_name))
			continue;
		ids[n] = str_dup(entry->d_name);
		n += ids[n] != NULL;
	}
	if (stream)
		(void)closedir(stream);
	else
		(void)fd_close(fd);
	if (!stream || !ids) {
		strv_free(ids);
		return -ENOMEM;
	}
	*ret = ids;
	return 0;
}

/* True if it is left from a keeper that was killed; it is then removed. */
static bool remove_dead(int dir, const char *id)
{
	struct box_dir d = BOX_DIR_INIT;

	if (box_dir_lock(dir, id, 0, &d) < 0)
		return false;
	(void)!box_dir_destroy(dir, &d);
	return true;
}

static bool is_ready(int dir, const char *id)
{
	char path[sizeof((struct box_dir *)0)->id + sizeof KEEPER_SOCKET];

	(void)snprintf(path, sizeof path, "%s/" KEEPER_SOCKET, id);
	return faccessat(dir, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

void spares_count(struct holt_home *home, const char *key, unsigned *ret, unsigned *ret_ready)
{
	auto_fd dir = open_key(home, key);
	char **ids = NULL;

	*ret = *ret_ready = 0;
	if (dir < 0 || list_ids(dir, &ids) < 0)
		return;
	for (size_t i = 0; ids[i]; i++) {
		if (remove_dead(dir, ids[i]))
			continue;
		(*ret)++;
		*ret_ready += is_ready(dir, ids[i]);
	}
	strv_free(ids);
}

/* End one that waits, or does not answer. */
static void end_one(int dir, const char *id)
{
	struct box_dir d = BOX_DIR_INIT;

	(void)!door_kill(dir, id);
	if (box_dir_lock(dir, id, END_WAIT_MS, &d) == 0)
		(void)!box_dir_destroy(dir, &d);
}

int spares_shed(
	struct holt_home *home, const char *key, unsigned n, unsigned *ret_n, holt_error **reterr)
{
	auto_fd dir = open_key(home, key);
	char **ids = NULL;
	size_t len = 0;

	if (ret_n)
		*ret_n = 0;
	if (dir < 0)
		return 0;
	if (list_ids(dir, &ids) < 0)
		return err_nomem(reterr);
	while (ids[len])
		len++;
	for (; len > n; len--) {
		end_one(dir, ids[len - 1]);
		if (ret_n)
			(*ret_n)++;
	}
	strv_free(ids);
	return 0;
}

/* ---- all keys ---- */

static void each_key(
	struct holt_home *home, void (*fn)(struct holt_home *, const char *, void *), void *user)
{
	const int fd = openat(home->spares_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *stream = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;

	if (!stream) {
		(void)fd_close(fd);
		return;
	}
	while ((entry = readdir(stream))) {
		if (entry->d_name[0] != '.' && !str_ends(entry->d_name, WANT_SUFFIX))
			fn(home, entry->d_name, user);
	}
	(void)closedir(stream);
}

static void sweep_key(struct holt_home *home, const char *key, void *user)
{
	unsigned n, ready;

	(void)user;
	spares_count(home, key, &n, &ready);
	/* Only where it is empty. */
	if (n == 0)
		(void)unlinkat(home->spares_fd, key, AT_REMOVEDIR);
}

void spares_sweep(struct holt_home *home)
{
	each_key(home, sweep_key, NULL);
}

struct machines {
	int *pids;
	size_t n;
	size_t max;
};

static void note_machines(struct holt_home *home, const char *key, void *user)
{
	struct machines *m = user;
	auto_fd dir = open_key(home, key);
	struct box_state state;
	char **ids = NULL;

	if (dir < 0 || list_ids(dir, &ids) < 0)
		return;
	for (size_t i = 0; ids[i] && m->n < m->max; i++) {
		box_state_look(dir, ids[i], &state);
		if (state.vmm_pid > 0)
			m->pids[m->n++] = state.vmm_pid;
	}
	strv_free(ids);
}

size_t spares_machines(struct holt_home *home, int *ret, size_t max)
{
	struct machines m = {.pids = ret, .max = max};

	each_key(home, note_machines, &m);
	return m.n;
}

static void end_if_none(struct holt_home *home, const char *key, void *user)
{
	auto_fd dir = open_key(home, key);
	bool *ended = user;
	char **ids = NULL;

	if (*ended || dir < 0 || list_ids(dir, &ids) < 0)
		return;
	for (size_t i = 0; ids[i] && !*ended; i++) {
		*ended = is_ready(dir, ids[i]);
		if (*ended)
			end_one(dir, ids[i]);
	}
	strv_free(ids);
}

bool spares_end_one(struct holt_home *home)
{
	bool ended = false;

	each_key(home, end_if_none, &ended);
	return ended;
}

/* ---- starting ---- */

static int fill_spec(const struct template_want *w, const struct template *t,
	const struct box_dir *d, uint64_t delay_ms, struct keeper_spec *s, holt_error **reterr)
{
	*s = (struct keeper_spec){.role = KEEPER_SPARE,
		.clone = true,
		.delay_ms = delay_ms,
		.kvm = w->kvm,
		.memory_mib = w->memory_mib,
		.cpus = w->cpus,
		.tsc_khz = w->tsc_khz,
		.stop_signal = STOP_SIGNAL,
		.log_bytes = LOG_BYTES,
		.disk_bytes = w->disk_bytes,
		.boot_timeout_ms = w->boot_timeout_ms,
		.hostname = HOSTNAME};
	(void)snprintf(s->id, sizeof s->id, "%s", d->id);
	(void)snprintf(s->key, sizeof s->key, "%s", t->key);
	(void)snprintf(s->generation, sizeof s->generation, "%s", t->generation);
	if (random_bytes(s->mac, sizeof s->mac) < 0)
		return err_make(reterr, HOLT_EIO, "no random bytes from the kernel");
	s->mac[0] = (uint8_t)((s->mac[0] & 0xfc) | 2);
	return 0;
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
	const char *key, uint64_t delay_ms, holt_error **reterr)
{
	struct keeper_parts p = KEEPER_PARTS_INIT;
	struct template t = TEMPLATE_INIT;
	struct box_dir d = BOX_DIR_INIT;
	struct keeper_spec spec;
	/* For each its own descriptors: the machine reads the state from where it stands. */
	int r = template_open(home, key, &t, reterr);

	if (r == 0)
		r = box_dir_make(dir, &d, reterr);
	if (r == 0)
		r = make_files(w, &t, &d, &p, reterr);
	if (r == 0)
		r = fill_spec(w, &t, &d, delay_ms, &spec, reterr);
	p.rootfs_fd = w->rootfs_fd; /* lent */
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

int spares_fill(struct holt_home *home, const struct template_want *w, const char *key,
	unsigned wanted, uint64_t delay_ms, holt_error **reterr)
{
	unsigned have = 0;
	unsigned ready = 0;
	int r = 0;

	if (mkdirat(home->spares_fd, key, 0700) < 0 && errno != EEXIST)
		return err_errno(reterr, errno, "cannot make a directory for spares");
	auto_fd dir = open_key(home, key);
	if (dir < 0)
		return err_errno(reterr, -dir, "cannot open the directory of the spares");
	spares_count(home, key, &have, &ready);
	for (; have < wanted && r == 0 && memory_has_room(home); have++)
		r = start_one(home, dir, w, key, delay_ms, reterr);
	if (r < 0)
		err_stage(reterr, "spare");
	return r;
}

/* What a thread needs after its starter has gone on. */
struct later {
	struct holt_home *home;
	struct template_want want;
	char key[TEMPLATE_KEY_LEN + 1];
	unsigned wanted;
};

static int run_later(holt_cancel *cancel, void *user, holt_error **reterr)
{
	struct later *l = user;

	(void)cancel;
	return spares_fill(l->home, &l->want, l->key, l->wanted, LATER_MS, reterr);
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
	struct holt_home *home, const struct template_want *w, const char *key, unsigned wanted)
{
	struct holt_job *job = NULL;
	struct later *l = mem_zalloc(sizeof *l);

	if (!l) {
		(void)fd_close(w->rootfs_fd);
		return NULL;
	}
	*l = (struct later){.home = home, .want = *w, .wanted = wanted};
	/* Borrowed from whom may be gone by then, and not needed. */
	l->want.image = l->want.rootfs_digest = NULL;
	l->want.cancel = NULL;
	(void)snprintf(l->key, sizeof l->key, "%s", key);
	const struct job_work work = {.run = run_later, .done = done_later, .user = l};
	if (job_start(home->executor, &work, &job, NULL) == 0)
		return job;
	later_free(l);
	return NULL;
}

/* ---- claiming ---- */

static int claim_one(struct holt_box *b, int dir, const char *id, const struct keeper_spec *spec,
	holt_cancel *cancel, struct session **ret, int *ret_owner, holt_error **reterr)
{
	struct session *s = NULL;
	struct session_ready ready;
	auto_fd owner = FD_NONE;
	int r = door_claim(dir, id, spec, b->home->loop, &s, &owner, reterr);

	if (r == 0)
		r = session_wait_ready(s, READY_WAIT_MS, cancel, &ready, reterr);
	/* From here on the box is the spare: what it had before goes under the spare's old name. */
	if (r == 0 && renameat2(dir, id, b->home->boxes_fd, b->rec.id, RENAME_EXCHANGE) < 0)
		r = err_errno(reterr, errno, "cannot give the spare the place of the box");
	if (r < 0) {
		session_close(s);
		return r;
	}
	struct box_dir old = b->dir;
	b->dir = BOX_DIR_INIT;
	(void)snprintf(old.id, sizeof old.id, "%s", id);
	(void)!box_dir_destroy(dir, &old);
	*ret = s;
	*ret_owner = take_fd(owner);
	return 0;
}

int spares_claim(struct holt_box *b, const char *key, const struct keeper_spec *spec,
	holt_cancel *cancel, struct session **ret, int *ret_owner, holt_error **reterr)
{
	auto_fd dir = open_key(b->home, key);
	char **ids = NULL;
	int r = -HOLT_ENOT_FOUND;

	if (dir >= 0 && list_ids(dir, &ids) < 0)
		return err_nomem(reterr);
	for (size_t i = 0; r < 0 && r != -HOLT_ECANCELLED && ids && ids[i]; i++) {
		auto_error error = NULL;

		if (!is_ready(dir, ids[i]))
			continue;
		r = claim_one(b, dir, ids[i], spec, cancel, ret, ret_owner, &error);
		if (r == 0)
			break;
		log_debug("spares", "spare %s is not used: %s", ids[i], holt_error_message(error));
		/* Another claimer was faster, or it is of no use to anybody. */
		if (r != -HOLT_EBUSY)
			end_one(dir, ids[i]);
	}
	strv_free(ids);
	return r == 0 ? 0 : err_make(reterr, HOLT_ENOT_FOUND, "no spare is ready");
}
