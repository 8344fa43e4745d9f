/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VMM_DISK_H
#define VMM_DISK_H

#include "base/err.h"

#include <stdint.h>

/*
 * A box's writable disk: a sparse raw file with an empty ext4. mke2fs runs once per size into
 * @cache_dir; each new disk is a sparse copy. As disk_clone, but refuses a name that is there.
 */
int disk_create(const char *cache_dir, int dirfd, const char *name, uint64_t size_bytes,
	holt_error **reterr);

/* Make @name a sparse copy of the open disk @source_fd (a template's), or replace the one that is
 * there. The name never stands for half a copy, and a failure changes nothing. One caller at a time
 * per @name. */
int disk_clone(int source_fd, int dirfd, const char *name, holt_error **reterr);

#endif
