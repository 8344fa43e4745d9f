/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GUEST_OP_SYS_H
#define GUEST_OP_SYS_H

#include "agent.h"

void sys_setup(struct agent *a, const struct wire_setup *req);
void sys_ping(struct agent *a, const struct wire_msg *msg);
/* 0 leaves it as it is, and so do tests. */
void sys_set_clock(struct agent *a, uint64_t wall_ns);
void sys_shutdown(struct agent *a, const struct wire_shutdown *req);

/* End everything that runs, and the machine where it is one. */
void sys_end(struct agent *a) __attribute__((noreturn));

/* Kill all but the agent and wait for it; what is known of in tests. */
void sys_kill_all(struct agent *a);

/* Mount all but the disk, and what depends on it; once. 0, or the reason is in @f. */
int sys_mount_image(struct agent *a, struct agent_fail *f);
/* The same, and the disk may be another one afterwards. */
int sys_mount_bare(struct agent *a, struct agent_fail *f);
/* Mount what a setup will ask for, as a head start; what fails now fails again in the setup. */
void sys_prepare(struct agent *a);

/* Load the modules that nothing waits for, in a child that gives way to everything else. */
void sys_load_late(struct agent *a);
/* Load them here and now, or wait until that child is done. */
void sys_finish_late(struct agent *a);

#endif
