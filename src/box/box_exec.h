/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BOX_BOX_EXEC_H
#define BOX_BOX_EXEC_H

#include "box/process.h"
#include "box/session.h"
#include "holt/sys/backend.h"

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

/* The exit code that stands for a time-out, as of timeout(1). */
#define EXEC_CODE_TIMEOUT 124

struct holt_exec;

int exec_start(struct session *s, const struct process *p, holt_cancel *cancel,
	struct holt_exec **ret, holt_error **reterr);
/* The same, for callers that cannot wait as long for its start as this would. */
int exec_start_within(struct session *s, const struct process *p, uint64_t timeout_ms,
	holt_cancel *cancel, struct holt_exec **ret, holt_error **reterr);
/* Take over a kept exec by its number; 0 is the program of the box. */
int exec_attach(struct session *s, uint32_t number, holt_cancel *cancel, struct holt_exec **ret,
	holt_error **reterr);
uint32_t exec_number(const struct holt_exec *e);
/* Whether it was begun by somebody else. */
bool exec_attached(const struct holt_exec *e);
/* Whether nothing is known of its end, or the box's. */
bool exec_runs(struct holt_exec *e);
/* Let an attached exec go on by itself; for whoever reads, writes or waits here it is lost. */
void exec_leave(struct holt_exec *e);
uint64_t exec_gap(struct holt_exec *e, enum wire_channel channel);
/* An eventfd of the exec's that is written with everything that comes. */
int exec_event_fd(struct holt_exec *e, int *ret_fd, holt_error **reterr);
int exec_read(struct holt_exec *e, enum wire_channel channel, void *data, size_t size,
	uint64_t timeout_ms, size_t *ret_len, holt_error **reterr);
int exec_write(struct holt_exec *e, const void *data, size_t size, uint64_t timeout_ms,
	size_t *ret_len, holt_error **reterr);
/* What ends the waiting from now on; while nobody waits. */
void exec_set_cancel(struct holt_exec *e, holt_cancel *cancel);
/* Wait until one of @channels (EXEC_READY of each) can be read, or written, without waiting, which
 * may be for its end or failure. Without a time-out it only looks: *ret_ready may then be 0. */
#define EXEC_READY(channel) (1u << (channel))
int exec_poll(struct holt_exec *e, unsigned channels, uint64_t timeout_ms, unsigned *ret_ready,
	holt_error **reterr);
/* These return 0 or a negative HOLT_ code. */
int exec_close_stdin(struct holt_exec *e);
int exec_signal(struct holt_exec *e, uint32_t signo);
int exec_resize(struct holt_exec *e, uint16_t rows, uint16_t cols);
int exec_wait(
	struct holt_exec *e, uint64_t timeout_ms, struct exec_result *ret, holt_error **reterr);
/* From the guest's words to the shell's. */
void exec_tell_exit(const struct exec_result *result, holt_exit *ret);
/* A program that still runs is killed, a kept one left alone. */
void exec_free(struct holt_exec *e);

/* Connect it with descriptors until it ends (pump.c). */
int exec_pump(struct holt_exec *e, int stdin_fd, int stdout_fd, int stderr_fd,
	struct exec_result *ret, holt_error **reterr);
#endif
