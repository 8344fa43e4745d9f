/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GUEST_MOUNT_H
#define GUEST_MOUNT_H

#include "agent.h"

/* Root file system and disk to one writable root, switch to it, virtual file systems, cgroups. */
int mount_root(struct agent *a, struct agent_fail *f);
/* Everything to disk, file systems read-only. */
void mount_end(struct agent *a);

#endif
