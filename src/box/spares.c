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

#include "base/clock.h"
#include "base/fd.h"
#include "base/fsutil.h"
#include "base/mem.h"
#include "base/str.h"
#include "box/box_state.h"
#include "base/banned.h"

#define WANT_SUFFIX   ".want"
#define WANT_MAX      16 /* bytes of such a file */
#define END_WAIT_MS   2500 /* for a killed keeper and its machine to be gone */
#define END_AGAIN_MS  20 /* one that has just begun does not listen yet */

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

int spares_open(struct holt_home *home, const char *key)
{
	const int fd = openat(
		home->spares_fd, key, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

int spares_list(int dir, char ***ret)
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

bool spares_is_ready(int dir, const char *id)
{
	char path[sizeof((struct box_dir *)0)->id + sizeof KEEPER_SOCKET];

	(void)snprintf(path, sizeof path, "%s/" KEEPER_SOCKET, id);
	return faccessat(dir, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

void spares_count(struct holt_home *home, const char *key, unsigned *ret, unsigned *ret_ready)
{
	auto_fd dir = spares_open(home, key);
	char **ids = NULL;

	*ret = *ret_ready = 0;
	if (dir < 0 || spares_list(dir, &ids) < 0)
		return;
	for (size_t i = 0; ids[i]; i++) {
		if (remove_dead(dir, ids[i]))
			continue;
		(*ret)++;
		*ret_ready += spares_is_ready(dir, ids[i]);
	}
	strv_free(ids);
}

/* Kill the keeper of one that has lost its name, wait until it is gone, and remove what is left. */
static void finish_off(int dir, const char *gone, uint64_t wait_ms)
{
	const uint64_t deadline_ms = clock_mono_ms() + wait_ms;
	struct box_dir d = BOX_DIR_INIT;
	int r;

	do {
		(void)!door_kill(dir, gone);
		r = box_dir_lock(dir, gone, END_AGAIN_MS, &d);
	} while (r == -EBUSY && clock_mono_ms() < deadline_ms);
	if (r == 0)
		(void)!box_dir_destroy(dir, &d);
}

/* Whoever takes the name away decides: a claimer that comes too late finds none, and one that was
 * faster has put its own directory there, which is not for us to end. */
void spares_end(int dir, const char *id)
{
	char gone[BOX_DIR_GONE_MAX];

	if (box_dir_hide(dir, id, gone) == 0)
		finish_off(dir, gone, END_WAIT_MS);
}

int spares_shed(
	struct holt_home *home, const char *key, unsigned n, unsigned *ret_n, holt_error **reterr)
{
	auto_fd dir = spares_open(home, key);
	char **ids = NULL;
	size_t len = 0;

	if (ret_n)
		*ret_n = 0;
	if (dir < 0)
		return 0;
	if (spares_list(dir, &ids) < 0)
		return err_nomem(reterr);
	while (ids[len])
		len++;
	for (; len > n; len--) {
		spares_end(dir, ids[len - 1]);
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

/* What was being ended when its ender was killed. */
static void sweep_gone(int dir)
{
	const int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *stream = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;

	if (!stream) {
		(void)fd_close(fd);
		return;
	}
	while ((entry = readdir(stream))) {
		if (box_dir_is_gone(entry->d_name))
			finish_off(dir, entry->d_name, 0);
	}
	(void)closedir(stream);
}

static void sweep_key(struct holt_home *home, const char *key, void *user)
{
	auto_fd dir = spares_open(home, key);
	unsigned n, ready;

	(void)user;
	if (dir < 0)
		return;
	sweep_gone(dir);
	spares_count(home, key, &n, &ready);
	/* Only where it is empty and nobody is filling it. */
	if (n == 0 && fs_trylock(dir) == 0)
		(void)unlinkat(home->spares_fd, key, AT_REMOVEDIR);
}

void spares_sweep(struct holt_home *home)
{
	each_key(home, sweep_key, NULL);
}

static void shed_orphans(struct holt_home *home, const char *key, void *user)
{
	(void)user;
	if (faccessat(home->templates_fd, key, F_OK, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT)
		(void)!spares_shed(home, key, 0, NULL, NULL);
}

void spares_shed_orphans(struct holt_home *home)
{
	each_key(home, shed_orphans, NULL);
}

struct machines {
	int *pids;
	size_t n;
	size_t max;
};

static void note_machines(struct holt_home *home, const char *key, void *user)
{
	struct machines *m = user;
	auto_fd dir = spares_open(home, key);
	struct box_state state;
	char **ids = NULL;

	if (dir < 0 || spares_list(dir, &ids) < 0)
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
	auto_fd dir = spares_open(home, key);
	bool *ended = user;
	char **ids = NULL;

	if (*ended || dir < 0 || spares_list(dir, &ids) < 0)
		return;
	for (size_t i = 0; ids[i] && !*ended; i++) {
		*ended = spares_is_ready(dir, ids[i]);
		if (*ended)
			spares_end(dir, ids[i]);
	}
	strv_free(ids);
}

bool spares_end_one(struct holt_home *home)
{
	bool ended = false;

	each_key(home, end_if_none, &ended);
	return ended;
}

