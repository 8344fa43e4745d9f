/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GUEST_OP_EXEC_H
#define GUEST_OP_EXEC_H

#include "agent.h"

/* Frames that concern execs. A request that breaks the protocol ends the agent. */
/* Do ahead what the next exec would have to do. */
void exec_prepare(struct agent *a);
void exec_request(struct agent *a, const struct wire_msg *msg);
void exec_signal(struct agent *a, const struct wire_msg *msg);
void exec_resize(struct agent *a, const struct wire_msg *msg);
void exec_credit(struct agent *a, const struct wire_msg *msg);
void exec_data(struct agent *a, const struct wire_msg *msg);
void exec_eof(struct agent *a, const struct wire_msg *msg);

/* A child of the agent has ended. */
void exec_reaped(struct agent *a, pid_t pid, int wait_status);
/* Deadlines that are over. */
void exec_timers(struct agent *a, uint64_t now_us);
/* Do what is queued, about @budget data frames of it; what must wait stays in the queue. */
void exec_run_queue(struct agent *a, unsigned budget);
/* Signal the process groups of all execs. */
void exec_signal_all(struct agent *a, int signo);
/* Forget what ended meanwhile among the background children. */
void exec_sweep(struct agent *a);

#endif
