/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GUEST_OP_BOX_H
#define GUEST_OP_BOX_H

#include "agent.h"

void box_freeze(struct agent *a, const struct wire_msg *msg);
/* To be called in every turn while freezing.until_us is set. */
void box_freeze_turn(struct agent *a, uint64_t now_us);
/* Let everything go on, if it does not. */
void box_thaw(struct agent *a);

void box_stats(struct agent *a, uint32_t stream);
/* In bytes; 0 if it cannot be known. What is free is used for nothing, what is available could be
 * had by giving up caches. */
void box_memory(uint64_t *ret_total, uint64_t *ret_free, uint64_t *ret_available);

#endif
