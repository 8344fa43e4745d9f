/* SPDX-License-Identifier: Apache-2.0 */
#include "box/box_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/fsutil.h"
#include "base/random.h"
#include "base/str.h"
#include "base/banned.h"

#define BOX_ID_LEN  16
#define GONE_SUFFIX ".gone" /* of a directory that is being removed */
/* Another process may sweep a directory between its birth and its lock. */
#define BOX_DIR_TRIES 8
#define GONE_TRIES    8

static int try_make(int boxes_fd, struct box_dir *d)
{
	int r = random_hex(d->id, BOX_ID_LEN);

	if (r < 0)
		return r;
	if (mkdirat(boxes_fd, d->id, 0700) < 0)
		return -errno;
	d->fd = openat(boxes_fd, d->id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (d->fd < 0)
		return -errno;
	d->keeper_lock = fs_open_lock(d->fd, "keeper.lock", false);
	if (d->keeper_lock < 0)
		return d->keeper_lock;
	d->vm_lock = fs_open_lock(d->fd, "vm.lock", false);
	return d->vm_lock < 0 ? d->vm_lock : 0;
}

int box_dir_make(int boxes_fd, struct box_dir *ret, holt_error **reterr)
{
	struct box_dir d = BOX_DIR_INIT;
	int r = -EEXIST;

	for (int i = 0; i < BOX_DIR_TRIES; i++) {
		r = try_make(boxes_fd, &d);
		if (r == 0) {
			*ret = d;
			return 0;
		}
		box_dir_close(&d);
		if (r != -EEXIST && r != -ENOENT && r != -EWOULDBLOCK)
			break;
	}
	return err_errno(reterr, -r, "cannot make a directory for the box");
}

void box_dir_close(struct box_dir *d)
{
	d->fd = fd_close(d->fd);
	d->keeper_lock = fd_close(d->keeper_lock);
	d->vm_lock = fd_close(d->vm_lock);
}

static int lock_within(int dir, const char *name, uint64_t deadline_ms)
{
	const struct timespec pause = {.tv_nsec = 2000000};

	for (;;) {
		const int fd = fs_open_lock(dir, name, false);

		if (fd != -EWOULDBLOCK || clock_mono_ms() >= deadline_ms)
			return fd;
		(void)nanosleep(&pause, NULL);
	}
}

int box_dir_lock(int boxes_fd, const char *id, uint64_t wait_ms, struct box_dir *ret)
{
	const uint64_t deadline_ms = clock_mono_ms() + wait_ms;
	struct box_dir d = BOX_DIR_INIT;
	int r = 0;

	(void)snprintf(d.id, sizeof d.id, "%s", id);
	d.fd = openat(boxes_fd, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (d.fd < 0)
		return -errno;
	d.keeper_lock = lock_within(d.fd, "keeper.lock", deadline_ms);
	if (d.keeper_lock < 0)
		r = d.keeper_lock;
	if (r == 0)
		d.vm_lock = lock_within(d.fd, "vm.lock", deadline_ms);
	if (r == 0 && d.vm_lock < 0)
		r = d.vm_lock;
	/* Its last holder may have removed it while we waited. */
	if (r == 0 && !fs_is_named(d.fd, boxes_fd, d.id))
		r = -ENOENT;
	if (r < 0) {
		box_dir_close(&d);
		return r == -EWOULDBLOCK ? -EBUSY : r;
	}
	*ret = d;
	return 0;
}

bool box_dir_is_gone(const char *name)
{
	return str_ends(name, GONE_SUFFIX);
}

int box_dir_hide(int boxes_fd, const char *id, char ret_gone[BOX_DIR_GONE_MAX])
{
	(void)snprintf(ret_gone, BOX_DIR_GONE_MAX, "%s" GONE_SUFFIX, id);
	return renameat(boxes_fd, id, boxes_fd, ret_gone) < 0 ? -errno : 0;
}

int box_dir_remove(int boxes_fd, const char *id)
{
	char gone[BOX_DIR_GONE_MAX];
	int r = box_dir_hide(boxes_fd, id, gone);

	/* At once, so that nobody ever finds half a box, or makes new locks in one. */
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	r = fs_remove_tree(boxes_fd, gone);
	/* Who waited for a lock in it may just have made one. */
	for (int i = 0; i < GONE_TRIES && (r == -ENOTEMPTY || r == -EEXIST); i++)
		r = fs_remove_tree(boxes_fd, gone);
	return r;
}

int box_dir_destroy(int boxes_fd, struct box_dir *d)
{
	const int r = box_dir_remove(boxes_fd, d->id);

	box_dir_close(d);
	return r;
}
