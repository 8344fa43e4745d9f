/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GUEST_CGROUP_H
#define GUEST_CGROUP_H

#include <stdbool.h>
#include <stdint.h>

/*
 * One cgroup (v2) for each exec, so that all it started can be found and killed. Names are serial
 * numbers of the agent and never used twice.
 */

/* Make the parent of all on a mounted cgroup2; a directory descriptor or -errno. */
int cgroup_init(const char *mount);
/* Make one; its directory descriptor or -errno. */
int cgroup_make(int parent_fd, uint32_t serial);
/* Move the calling process. */
int cgroup_enter(int fd);
void cgroup_signal(int fd, int signo);
/* Was anything in it killed for lack of memory? */
bool cgroup_oom(int fd);
/* Returns true once it is gone. */
bool cgroup_remove(int parent_fd, uint32_t serial);

#endif
