/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GUEST_EXEC_CHILD_H
#define GUEST_EXEC_CHILD_H

#include "agent.h"

/* What the forked child needs to become the program. */
struct exec_child {
	const struct wire_exec *req;
	bool fake;
	int cgroup_fd; /* to enter; -EBADF where it was born there or has none */
	int std_fds[3];
	int report_fd; /* takes one struct agent_fail; closed by a successful exec */
};

/* What every child does before it runs a program of the image: signals, session, limits. */
void exec_child_settle(bool fake);
void exec_child_run(const struct exec_child *c) __attribute__((noreturn));

#endif
