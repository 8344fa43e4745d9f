/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BOX_BOX_EXEC_H
#define BOX_BOX_EXEC_H

#include "box/process.h"
#include "box/session.h"

/*
 * One program in a box, seen from the client. The loop's thread fills two bounded output windows
 * and the exit; callers' threads take them and return credit. Public face: holt/exec.h.
 */
struct exec_result {
	bool signaled;
	uint32_t code; /* exit status or signal number */
	uint32_t flags; /* WIRE_EXIT_ */
	uint64_t duration_us;
};

struct holt_exec;

int exec_start(struct session *s, const struct process *p, uint64_t timeout_ms, holt_cancel *cancel,
	struct holt_exec **ret, holt_error **reterr);
int exec_read(struct holt_exec *e, enum wire_channel channel, void *data, size_t size,
	uint64_t timeout_ms, size_t *ret_len, holt_error **reterr);
int exec_write(struct holt_exec *e, const void *data, size_t size, uint64_t timeout_ms,
	size_t *ret_len, holt_error **reterr);
/* Both return 0 or a negative HOLT_ code. */
int exec_close_stdin(struct holt_exec *e);
int exec_signal(struct holt_exec *e, uint32_t signo);
int exec_wait(
	struct holt_exec *e, uint64_t timeout_ms, struct exec_result *ret, holt_error **reterr);
/* Whether it has ended; wakes like exec_wait does. */
void exec_free(struct holt_exec *e);

/* Connect it with descriptors until it ends (pump.c). */
int exec_pump(struct holt_exec *e, int stdin_fd, int stdout_fd, int stderr_fd,
	struct exec_result *ret, holt_error **reterr);
/* The end, however it came, ends waits that are given this token (for pump.c). */

#endif
