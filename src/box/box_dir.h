/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BOX_BOX_DIR_H
#define BOX_BOX_DIR_H

#include "base/err.h"

#include <stdint.h>

/*
 * The directory of one box and its two locks. keeper.lock is held by whoever is responsible for the
 * box (its maker, then its keeper); vm.lock by QEMU alone. A directory whose locks are both free
 * belongs to nobody and is removed by whoever finds it; while vm.lock is held, its disk is not
 * touched.
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
/* Close the descriptors; the directory stays. */
void box_dir_close(struct box_dir *d);

/* Remove a directory unless somebody holds one of its locks; waits up to @wait_ms for a VM that is
 * just ending. 0, -EBUSY or -errno. A missing one is fine. */
int box_dir_remove(int boxes_fd, const char *id, uint64_t wait_ms);

/* Remove every directory that belongs to nobody. */
void box_dir_sweep(int boxes_fd);

#endif
