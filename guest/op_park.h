/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GUEST_OP_PARK_H
#define GUEST_OP_PARK_H

#include "agent.h"

/* Is this machine to be parked before it sees its disk? Its environment tells. */
bool park_is_bare(void);
/* Come to rest and answer done, or fail and go on as before. */
void park_machine(struct agent *a, uint32_t stream);

#endif
