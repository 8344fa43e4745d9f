/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GUEST_MOUNT_H
#define GUEST_MOUNT_H

#include "agent.h"

/* Image, virtual file systems, cgroups: what needs no disk. */
int mount_image(struct agent *a, struct agent_fail *f);
/* The disk was not used yet: drop what the kernel knows of its content. */
int mount_forget_disk(struct agent *a, struct agent_fail *f);
/* Behind that: the disk, one writable root of image and disk, and the switch to it. */
int mount_disk(struct agent *a, struct agent_fail *f);
/* Everything to disk, file systems read-only. */
void mount_end(struct agent *a);

#endif
