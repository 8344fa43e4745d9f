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
/* Keep a part of the memory that can be used now, @available bytes, away from them; at most half.
 */
void cgroup_keep_reserve(int parent_fd, uint64_t available);
/* Do ahead the most of cgroup_make, which takes 20 ms in a machine that never did it. */
void cgroup_make_ahead(int parent_fd, uint32_t serial);
/* Make one for at most @pids_max processes and threads; its directory descriptor or -errno. */
int cgroup_make(int parent_fd, uint32_t serial, uint32_t pids_max);
/* One that was made; its directory descriptor or -errno. */
int cgroup_open(int parent_fd, uint32_t serial);
/* Move the calling process. */
int cgroup_enter(int fd);
void cgroup_signal(int fd, int signo);
/* Was anything in it killed for lack of memory? */
bool cgroup_oom(int fd);
/* Begin to stop all that is in it, or let it go on; 0 or -errno. */
int cgroup_freeze(int fd, bool on);
/* A descriptor that polls as EPOLLPRI when the state has changed, or -errno. */
int cgroup_events_open(int fd);
bool cgroup_events_frozen(int events_fd);
/* Time of all that ever was in it; 0 if it cannot be known. */
uint64_t cgroup_cpu_us(int fd);
/* Processes and threads now; 0 if it cannot be known. */
uint32_t cgroup_processes(int fd);
/* Returns true once it is gone. */
bool cgroup_remove(int parent_fd, uint32_t serial);

#endif
