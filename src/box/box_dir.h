/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BOX_BOX_DIR_H
#define BOX_BOX_DIR_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * The directory of one box and its two locks. keeper.lock is held by whoever is responsible for the
 * box (its maker, then its keeper); vm.lock by QEMU alone. While both are free the box does not
 * run, and whoever takes them may start, copy or remove it.
 *
 *   keeper.lock vm.lock   the locks
 *   rootfs                the image's squashfs (a hard link into the image store where possible)
 *   disk.raw              the writable disk
 *   disk.origin           disk_origin.h: until a machine has had it
 *   state.json            box_state.h
 *   log log.1             box_log.h
 *   sock                  the keeper's socket, while one lives
 */
struct box_dir {
	char id[33];
	int fd;
	int keeper_lock;
	int vm_lock;
};

#define BOX_DIR_INIT ((struct box_dir){.fd = -EBADF, .keeper_lock = -EBADF, .vm_lock = -EBADF})

/* Make a directory with a fresh id, both locks held. */
int box_dir_make(int boxes_fd, struct box_dir *ret, holt_error **reterr);

/* Open a directory and take both locks; waits up to @wait_ms for a keeper or VM that is just
 * ending. 0, -EBUSY, -ENOENT or -errno. */
int box_dir_lock(int boxes_fd, const char *id, uint64_t wait_ms, struct box_dir *ret);

/* Close the descriptors; the directory stays, its locks are free. */
void box_dir_close(struct box_dir *d);

/* Remove the directory @id, whose locks are held; it is gone at once, then its files go. What a
 * killed process did not remove has a name that box_dir_is_gone, and belongs to nobody. 0 or
 * -errno. */
int box_dir_remove(int boxes_fd, const char *id);
bool box_dir_is_gone(const char *name);

/* Take the name away: 0, -ENOENT where somebody else did, or -errno; then it bears the one in
 * @ret_gone. */
#define BOX_DIR_GONE_MAX 48
int box_dir_hide(int boxes_fd, const char *id, char ret_gone[BOX_DIR_GONE_MAX]);

/* The same, and close it. */
int box_dir_destroy(int boxes_fd, struct box_dir *d);

#endif
