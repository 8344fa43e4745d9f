/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GUEST_OP_NETWORK_H
#define GUEST_OP_NETWORK_H

#include "agent.h"

/* The card as the host wants it, and /etc/resolv.conf with it. */
void network_set(struct agent *a, const struct wire_msg *msg);

#endif
