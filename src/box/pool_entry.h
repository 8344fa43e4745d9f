/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BOX_POOL_ENTRY_H
#define BOX_POOL_ENTRY_H

#include "box/box_state.h"
#include "box/pool_record.h"
#include "holt/sys/pool.h"

/* A box as an entry of a pool. */

struct pool_facts {
	const char *id;
	const char *name;
	int64_t created_ns;
	const struct pool_record *pool; /* NULL: it is a box of no pool, whatever it is called */
};

/* What the box's state means in the pool: enum holt_pool_state. @pooled: it is one of a pool. */
int pool_state_of(const struct box_state *s, bool pooled);

/* Borrows from both. */
void pool_entry_fill(const struct box_state *s, const struct pool_facts *f, holt_pool_entry *ret);

#endif
