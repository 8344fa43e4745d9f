/* SPDX-License-Identifier: Apache-2.0 */
#include "box/box_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/digest.h"
#include "base/fd.h"
#include "base/fsutil.h"
#include "base/banned.h"

#define BOX_ID_LEN 16
/* Another process may sweep a directory between its birth and its lock. */
#define BOX_DIR_TRIES 8

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

int box_dir_remove(int boxes_fd, const char *id, uint64_t wait_ms)
{
	const uint64_t deadline_ms = clock_mono_ms() + wait_ms;
	auto_fd dir = openat(boxes_fd, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (dir < 0)
		return errno == ENOENT ? 0 : -errno;
	auto_fd keeper_lock = lock_within(dir, "keeper.lock", deadline_ms);
	if (keeper_lock < 0)
		return keeper_lock == -EWOULDBLOCK ? -EBUSY : keeper_lock;
	auto_fd vm_lock = lock_within(dir, "vm.lock", deadline_ms);
	if (vm_lock < 0)
		return vm_lock == -EWOULDBLOCK ? -EBUSY : vm_lock;
	return fs_remove_tree(boxes_fd, id);
}

void box_dir_sweep(int boxes_fd)
{
	const int fd = openat(boxes_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;

	if (!dir) {
		(void)fd_close(fd);
		return;
	}
	while ((entry = readdir(dir))) {
		if (entry->d_name[0] != '.')
			(void)box_dir_remove(boxes_fd, entry->d_name, 0);
	}
	(void)closedir(dir);
}
