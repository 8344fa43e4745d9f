/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BOX_BOX_POOL_H
#define BOX_BOX_POOL_H

#include "box/box_home.h"
#include "holt/sys/pool.h"

/*
 * Boxes of a home as a pool (holt/sys/pool.h). A box's name is its name in the index, its instance
 * its id; who has it is its keeper's business (box_lease.h).
 */
extern const holt_pool box_pool;

/* Its @self, freed by box_pool.close. @home outlives it, its boxes and their sandboxes. */
int box_pool_new(struct holt_home *home, void **ret, holt_error **reterr);

#endif
