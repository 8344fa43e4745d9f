/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GUEST_OP_DIRECTORIES_H
#define GUEST_OP_DIRECTORIES_H

#include "agent.h"

void directories_make(struct agent *a, const struct wire_msg *msg);

#endif
