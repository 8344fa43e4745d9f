/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GUEST_CLONE_IDENTITY_H
#define GUEST_CLONE_IDENTITY_H

#include "agent.h"

/* Other random numbers than every other machine, from the seed alone. Has to come before anything
 * that uses them. 0, or the reason is in @f. */
int identity_seed(const struct wire_bytes *seed, struct agent_fail *f);
/* Look for what identity_take changes, so that it does not have to; harmless if that is not there.
 */
void identity_prepare(struct agent *a);
/* The names and the address of the network card, where there is one. Needs the root to be there. */
int identity_take(struct agent *a, const struct wire_setup *req, struct agent_fail *f);

#endif
