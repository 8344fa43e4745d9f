/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BOX_POOL_SHAPE_H
#define BOX_POOL_SHAPE_H

#include "box/box_home.h"
#include "holt/sys/pool.h"

/* What boxes of a pool are made of. */

/* Defaults for zeros, then the ranges that holt/box.h states, and what boxes can have. Borrows. */
int pool_shape_check(const holt_pool_shape *shape, holt_pool_shape *ret, holt_error **reterr);

/* The digest of a checked one: of everything that is inside its boxes, as the home has it now. */
int pool_shape_digest(
	struct holt_home *home, const holt_pool_shape *shape, char ret[65], holt_error **reterr);

/* Have its template ready, and that so many spares of it wait; 0 leaves those alone that there are.
 */
int pool_shape_prepare(struct holt_home *home, const holt_pool_shape *shape,
	const holt_pool_wish *wish, uint32_t spares, const holt_call *call, holt_error **reterr);

#endif
