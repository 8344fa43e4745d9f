/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BOX_HOME_MEMORY_H
#define BOX_HOME_MEMORY_H

#include "box/box_home.h"

/*
 * The home's ceiling on memory (max_memory_bytes): what all machines of the home together take of
 * the host's, each page that is shared counted once (the sum of their PSS).
 */

/* What one process takes; 0 where it cannot be told. */
uint64_t memory_of(int pid);

/* What all machines take, boxes and spares. */
uint64_t memory_used(struct holt_home *home);

/* Below the ceiling there is room for one more machine. Above it spares are ended first, one after
 * another; HOLT_ELIMIT where that is not enough. */
int memory_make_room(struct holt_home *home, holt_error **reterr);

/* Whether a spare may be started: one that would have to be ended at once helps nobody. */
bool memory_has_room(struct holt_home *home);

#endif
