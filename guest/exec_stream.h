/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GUEST_EXEC_STREAM_H
#define GUEST_EXEC_STREAM_H

#include "agent.h"

/*
 * A program on a stream, shared by op_exec.c (requests), exec_pump.c (pipes and frames), exec_tty.c
 * (a terminal instead of pipes) and exec_left.c (what outlives it).
 *
 * starting  forked; the report pipe says how it went: a record = fail frame and the stream is over,
 *           end-of-file = it runs.
 * started   pipes are pumped. stdout and stderr are read only as far as the host gave credit and
 *           the bulk lane has room, so that a slow reader slows the program.
 * ended     the leader is reaped. What was in the pipes by then is delivered however slow the
 *           reader is; for more, from children that hold a pipe open, it is waited until drain_us.
 *           Then eof and exit frames end the stream.
 *
 * Events only mark an exec (exec_queue); everything is sent and freed by exec_run_queue, outside a
 * batch of events.
 */

#define EXEC_DRAIN_US  150000ull /* the whole answer is promised within 250 ms */
#define EXEC_DEATH_US  800000ull /* the same where all of it was killed: dying takes a while */
#define EXEC_HANGUP_US 1000000ull /* from a hang-up to the end of all that ignores it */

#define EXEC_TTY_EOF_MAX 2 /* bytes that mean end of input on a terminal */

struct exec_out {
	struct watch watch;
	struct exec *exec;
	uint8_t channel;
	bool ready; /* a read may give something */
	bool hup; /* no writer is left */
	bool done; /* eof is sent */
	bool wide; /* the pipe was made larger */
	bool rich; /* the last read gave much */
	uint64_t rest_us; /* until then the pipe may fill; 0 = watched */
	uint32_t credit;
	uint32_t owed; /* bytes that were in the pipe when the leader ended */
};

struct exec_in {
	struct watch watch;
	struct exec *exec;
	bool ready;
	bool ended; /* the host sent eof */
	bool wide; /* the pipe was made larger */
	uint8_t *buf; /* head..tail wait for the pipe; allocated with the first byte */
	uint32_t head;
	uint32_t tail;
	uint8_t last; /* byte that came; a newline before the first */
	uint32_t window;
	uint32_t credit; /* bytes the host may still send */
	uint32_t spent; /* bytes taken care of, not yet given back as credit */
};

struct exec {
	struct agent *agent;
	struct exec *next;
	struct exec **link;
	struct exec *queue_next;
	bool queued;
	bool started;
	bool tty;
	uint32_t stream;
	uint32_t serial;
	pid_t pid;
	int cgroup_fd;
	int wait_status;
	uint32_t exit_flags;
	uint64_t timeout_us;
	uint64_t deadline_us; /* of the program; 0 = none */
	uint64_t start_us;
	uint64_t end_us; /* 0 while the leader lives */
	uint64_t drain_us; /* end of the wait for output after that */
	uint64_t hangup_us; /* then SIGKILL to what is left of it; 0 = no hang-up */
	bool killed; /* everything of it was sent SIGKILL */
	struct watch report;
	struct exec_in in;
	struct exec_out out[2];
};

#define owner_of(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

struct exec *exec_find(struct agent *a, uint32_t stream);
void exec_queue(struct exec *e);
void exec_free(struct exec *e);
/* To the leader's process group, while there is a leader. */
void exec_kill_group(struct exec *e, int signo);
/* To everything it started. */
void exec_kill_all(struct exec *e, int signo);
/* Take over the open outputs and the cgroup of an exec that is about to be freed. */
void exec_leave(struct exec *e, bool has_cgroup);
/* Kill what a hang-up left behind, where its time has come. */
void exec_leave_timers(struct agent *a, uint64_t now_us);

/* Give the program as much of @data as its stdin takes now, if nothing older waits for that: the
 * bytes that went, or that nobody will read. */
uint32_t exec_in_pass(struct exec_in *in, const uint8_t *data, uint32_t len);

/* The time of rest is over. */
void exec_out_watch(struct exec_out *o);

/* Handlers of the watches. */
void exec_on_report(struct watch *w, uint32_t events);
void exec_on_in(struct watch *w, uint32_t events);
void exec_on_out(struct watch *w, uint32_t events);

#endif
