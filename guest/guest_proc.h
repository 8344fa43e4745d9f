/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GUEST_GUEST_PROC_H
#define GUEST_GUEST_PROC_H

#include <stdbool.h>
#include <sys/types.h>

/* Fork the (single-threaded) agent. With @cgroup_fd >= 0 the child is born in that cgroup where
 * the kernel can do it; *ret_placed tells whether it was. Returns the pid, 0 in the child, or
 * -errno. */
pid_t gproc_fork(int cgroup_fd, bool *ret_placed);

#endif
