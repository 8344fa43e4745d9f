/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOLT_EXEC_H
#define HOLT_EXEC_H

/*
 * Running programs in a box. An exec has three byte streams; reading them late slows the program
 * down and loses nothing. The calls of one exec may be made from several threads at once (one per
 * stream, one that waits).
 */

#include "box.h"
#include "types.h"

#ifdef __cplusplus
extern "C" {
#endif

enum holt_exec_flags {
	HOLT_EXEC_STDIN = 1 << 0, /* stdin is written by the caller; otherwise it is empty */
	HOLT_EXEC_IMAGE = 1 << 1, /* apply the image's Entrypoint and Cmd as docker run does */
	HOLT_EXEC_TTY = 1 << 2, /* on a terminal of its own: all output comes as stdout */
	HOLT_EXEC_KEEP = 1 << 3 /* runs on after holt_exec_free and after its process; its newest
				   output is kept for holt_exec_attach */
};

#define HOLT_PIDS_MAX_DEFAULT     4096u
#define HOLT_REPLAY_BYTES_MIN     65536u
#define HOLT_REPLAY_BYTES_MAX     16777216u
#define HOLT_REPLAY_BYTES_DEFAULT 262144u
#define HOLT_EXEC_PROGRAM         0u /* in holt_exec_attach: the program of the box */

typedef struct holt_exec_options {
	size_t struct_size; /* set by HOLT_EXEC_OPTIONS_INIT */
	const char *const *argv; /* NULL-terminated; NULL or empty only with HOLT_EXEC_IMAGE */
	/* What these three do not say is as the box's program has it, else as the image says. */
	const char *const *env; /* "KEY=VALUE", NULL-terminated, on top of that; "KEY" takes one
				   away; or NULL */
	const char *cwd; /* absolute; with HOLT_EXEC_IMAGE made where missing, otherwise it has to
			    be there; NULL: see above, else "/" */
	const char *user; /* "name|uid[:group|gid]"; NULL: see above, else root */
	const char *const *entrypoint; /* replaces the image's Entrypoint and drops its Cmd; NULL:
					  the image's. Only with HOLT_EXEC_IMAGE */
	uint64_t timeout_ms; /* from the program's start; then all of it is killed; 0 or
				HOLT_FOREVER: none */
	uint32_t flags; /* enum holt_exec_flags */
	holt_cancel *cancel; /* ends start, read, write and wait with HOLT_ECANCELLED; may be NULL;
				must outlive the exec */
	uint16_t rows; /* of the terminal, with HOLT_EXEC_TTY; 0: 24 */
	uint16_t cols; /* likewise; 0: 80 */
	uint32_t pids_max; /* processes and threads of the exec at once; 0: 4096 */
	uint32_t replay_bytes; /* newest output of each stream that is kept with HOLT_EXEC_KEEP,
				  HOLT_REPLAY_BYTES_MIN (less counts as that) to _MAX; 0: 256 KiB */
} holt_exec_options;

#define HOLT_EXEC_OPTIONS_INIT                                                                  \
	{                                                                                       \
		sizeof(holt_exec_options), NULL, NULL, NULL, NULL, NULL, 0, 0, NULL, 0, 0, 0, 0 \
	}

/**
 * holt_exec_start - start a program in a box.
 * @box: a running box; must not be NULL.
 * @options: must not be NULL.
 * @ret: receives the exec; must not be NULL.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * Returns: 0 once the program runs; -HOLT_ENOT_FOUND where it does not exist; -HOLT_EDENIED where
 * it exists and cannot be executed; -HOLT_EINVALID for a bad option, an unknown user or an unusable
 * cwd; -HOLT_ELIMIT for too much argv and env or too many execs; -HOLT_EGUEST_LOST where the box
 * ended under this handle; -HOLT_ECLOSED for a box that does not run; -HOLT_EBUSY for a paused one;
 * -HOLT_ETIMEOUT where the guest does not answer within 30 s; -HOLT_ECANCELLED, -HOLT_ENO_MEMORY.
 * See holt_error_exit_code.
 * Ownership: the caller frees *@ret with holt_exec_free.
 * Threads: any thread.
 * Blocks: until the guest answers, at most 30 s; for a box that is just starting 30 s more.
 * Since: 0.1
 */
HOLT_API int holt_exec_start(
	holt_box *box, const holt_exec_options *options, holt_exec **ret, holt_error **reterr);

/**
 * holt_exec_read - read what the program wrote.
 * @exec: an exec; must not be NULL.
 * @stream: HOLT_STDOUT or HOLT_STDERR.
 * @data: receives at most @size bytes; must not be NULL.
 * @size: more than 0.
 * @timeout_ms: how long to wait for the first byte; 0 does not wait, HOLT_FOREVER has no limit.
 * @ret_len: receives the number of bytes, 0 at the end of the stream; must not be NULL.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * Returns: 0; -HOLT_ETIMEOUT; -HOLT_EGUEST_LOST where the box ended before the stream did;
 * -HOLT_ECANCELLED, -HOLT_EINVALID.
 * Ownership: nothing changes hands.
 * Threads: any thread; one at a time per stream.
 * Blocks: at most @timeout_ms.
 * Since: 0.1
 */
HOLT_API int holt_exec_read(holt_exec *exec, int stream, void *data, size_t size,
	uint64_t timeout_ms, size_t *ret_len, holt_error **reterr);

/**
 * holt_exec_write - write to the program's stdin.
 * @exec: an exec started with HOLT_EXEC_STDIN; must not be NULL.
 * @data: @size bytes; must not be NULL.
 * @size: number of bytes.
 * @timeout_ms: how long to wait until all is taken; 0 does not wait.
 * @ret_len: receives how many bytes were taken, also on failure; may be NULL.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * Bytes that the program does not read before it closes its stdin are dropped, as a pipe would.
 *
 * Returns: 0; -HOLT_ECLOSED where the program has ended or stdin was closed; -HOLT_ETIMEOUT,
 * -HOLT_EGUEST_LOST, -HOLT_ECANCELLED, -HOLT_EINVALID, -HOLT_ENO_MEMORY.
 * Ownership: @data is copied.
 * Threads: any thread; one writer at a time.
 * Blocks: at most @timeout_ms.
 * Since: 0.1
 */
HOLT_API int holt_exec_write(holt_exec *exec, const void *data, size_t size, uint64_t timeout_ms,
	size_t *ret_len, holt_error **reterr);

/**
 * holt_exec_close_stdin - give the program end-of-file on stdin.
 * @exec: an exec; must not be NULL. A second call does nothing.
 *
 * Returns: 0, or -HOLT_ENO_MEMORY or -HOLT_ELIMIT.
 * Ownership: nothing changes hands.
 * Threads: any thread.
 * Blocks: never.
 * Since: 0.1
 */
HOLT_API int holt_exec_close_stdin(holt_exec *exec);

/**
 * holt_exec_signal - send a signal to the program's process group.
 * @exec: an exec; must not be NULL.
 * @signal: 1 to 64. SIGKILL reaches everything that the exec started.
 *
 * Returns: 0 also where the program has ended already; -HOLT_EINVALID, -HOLT_ENO_MEMORY or
 * -HOLT_ELIMIT.
 * Ownership: nothing changes hands.
 * Threads: any thread.
 * Blocks: never; delivery is not awaited.
 * Since: 0.1
 */
HOLT_API int holt_exec_signal(holt_exec *exec, int signal);

/**
 * holt_exec_wait - wait for the end of the program.
 * @exec: an exec; must not be NULL.
 * @timeout_ms: how long to wait; 0 only looks.
 * @ret: filled in as far as its struct_size goes; must not be NULL.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * The end is reported after all output has arrived; output that nobody reads holds it up.
 *
 * Returns: 0; -HOLT_ETIMEOUT; -HOLT_EGUEST_LOST where the box ended first, never a made-up exit
 * code; -HOLT_ECANCELLED, -HOLT_EINVALID.
 * Ownership: nothing changes hands.
 * Threads: any thread.
 * Blocks: at most @timeout_ms, and never longer than options.timeout_ms and 1 s after the start.
 * Since: 0.1
 */
HOLT_API int holt_exec_wait(
	holt_exec *exec, uint64_t timeout_ms, holt_exit *ret, holt_error **reterr);

/**
 * holt_exec_pump - connect an exec with descriptors until it ends.
 * @exec: an exec; must not be NULL.
 * @stdin_fd: read until its end or the program's; -1 gives the program end-of-file, but after
 * holt_exec_attach leaves its stdin as it is.
 * @stdout_fd: receives stdout; -1 throws it away.
 * @stderr_fd: receives stderr; -1 throws it away.
 * @ret: filled in as far as its struct_size goes; must not be NULL.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * Returns: 0; as holt_exec_wait; -HOLT_EIO (with the errno) where a descriptor cannot be written,
 * after killing the program; one that was attached to runs on.
 * Ownership: the descriptors stay the caller's; their flags are not changed.
 * Threads: any thread; no other read or write of @exec meanwhile.
 * Blocks: until the program has ended and its output is written.
 * Since: 0.1
 */
HOLT_API int holt_exec_pump(holt_exec *exec, int stdin_fd, int stdout_fd, int stderr_fd,
	holt_exit *ret, holt_error **reterr);

/**
 * holt_exec_number - tell the number of an exec in its box.
 * @exec: an exec; must not be NULL.
 *
 * Returns: a number from 1 that no other exec of this run of the box has had; 0 for one without
 * HOLT_EXEC_KEEP, which nobody can attach to.
 * Ownership: nothing changes hands.
 * Threads: any thread.
 * Blocks: never.
 * Since: 0.1
 */
HOLT_API uint32_t holt_exec_number(holt_exec *exec);

/**
 * holt_exec_attach - take over an exec that was started with HOLT_EXEC_KEEP.
 * @box: a running box; must not be NULL.
 * @number: of the exec, from any process; HOLT_EXEC_PROGRAM for the program of the box.
 * @cancel: as in holt_exec_options; may be NULL.
 * @ret: receives the exec; must not be NULL.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * Its output is read from the oldest that is kept; holt_exec_gap tells what was not. The box keeps
 * the last 64 kept execs that have ended, so that their output and exit can be had as well.
 *
 * Returns: 0; -HOLT_ENOT_FOUND where no such exec is kept; -HOLT_EBUSY where somebody else has it;
 * -HOLT_ECLOSED for a box that does not run; -HOLT_EGUEST_LOST, -HOLT_ETIMEOUT, -HOLT_ECANCELLED,
 * -HOLT_EIO, -HOLT_EDENIED, -HOLT_ENO_MEMORY.
 * Ownership: the caller frees *@ret with holt_exec_free.
 * Threads: any thread.
 * Blocks: at most 30 s; for a box that is just starting 30 s more.
 * Since: 0.1
 */
HOLT_API int holt_exec_attach(
	holt_box *box, uint32_t number, holt_cancel *cancel, holt_exec **ret, holt_error **reterr);

/**
 * holt_exec_gap - tell how much output was lost before holt_exec_attach.
 * @exec: an exec; must not be NULL.
 * @stream: HOLT_STDOUT or HOLT_STDERR.
 *
 * Returns: bytes that are missing in front of the first that was or will be read; known once
 * something was read or the exec has ended.
 * Ownership: nothing changes hands.
 * Threads: any thread.
 * Blocks: never.
 * Since: 0.1
 */
HOLT_API uint64_t holt_exec_gap(holt_exec *exec, int stream);

/**
 * holt_exec_resize - tell the program the new size of its terminal.
 * @exec: an exec started with HOLT_EXEC_TTY; must not be NULL.
 * @rows: at least 1.
 * @cols: at least 1.
 *
 * Returns: 0 also where the program has ended already; -HOLT_EINVALID, -HOLT_ENO_MEMORY or
 * -HOLT_ELIMIT.
 * Ownership: nothing changes hands.
 * Threads: any thread.
 * Blocks: never.
 * Since: 0.1
 */
HOLT_API int holt_exec_resize(holt_exec *exec, uint16_t rows, uint16_t cols);

/**
 * holt_exec_event_fd - get a descriptor that tells when to look at an exec again.
 * @exec: an exec; must not be NULL.
 * @ret_fd: receives the descriptor; must not be NULL.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * It becomes readable (an eventfd) whenever output, room for stdin or the end of the program has
 * come. Read its eight bytes first, then call holt_exec_read, _write and _wait with a time-out of 0
 * until they return -HOLT_ETIMEOUT.
 *
 * Returns: 0; -HOLT_ELIMIT, -HOLT_ENO_MEMORY.
 * Ownership: the descriptor belongs to @exec and is closed by holt_exec_free.
 * Threads: any thread.
 * Blocks: never.
 * Since: 0.1
 */
HOLT_API int holt_exec_event_fd(holt_exec *exec, int *ret_fd, holt_error **reterr);

/**
 * holt_exec_free - forget an exec; a program that still runs is killed, unless HOLT_EXEC_KEEP.
 * @exec: an exec, or NULL.
 *
 * Returns: nothing.
 * Ownership: consumes @exec.
 * Threads: any thread, while no other call uses @exec.
 * Blocks: never.
 * Since: 0.1
 */
HOLT_API void holt_exec_free(holt_exec *exec);

/**
 * holt_error_exit_code - tell the exit code that a shell user expects for an error.
 * @error: an error of starting or running a program; NULL gives 0.
 *
 * Returns: 127 where the program was not found, 126 where it cannot be executed, 124 for a
 * time-out of the program, 125 for everything else.
 * Ownership: nothing changes hands.
 * Threads: the thread that owns @error.
 * Blocks: never.
 * Since: 0.1
 */
HOLT_API int holt_error_exit_code(const holt_error *error);

/**
 * holt_run - run one program in a box of its own, with descriptors for its streams.
 * @home: an open home; must not be NULL.
 * @image: reference of an image in the store; must not be NULL.
 * @box: options of the box; may be NULL. Its program is @exec.
 * @exec: options of the program; must not be NULL. HOLT_EXEC_STDIN is set where @stdin_fd is given.
 * @stdin_fd: -1 for none; likewise @stdout_fd and @stderr_fd.
 * @stdout_fd: see holt_exec_pump.
 * @stderr_fd: see holt_exec_pump.
 * @ret: filled in as far as its struct_size goes; must not be NULL.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * Returns: 0 where the program ran, whatever its exit code; else as holt_box_start,
 * holt_exec_start and holt_exec_pump.
 * Ownership: nothing is left of the box when it returns, unless it has HOLT_BOX_KEEP.
 * Threads: any thread.
 * Blocks: until the program has ended and the box is removed.
 * Since: 0.1
 */
HOLT_API int holt_run(holt_home *home, const char *image, const holt_box_options *box,
	const holt_exec_options *exec, int stdin_fd, int stdout_fd, int stderr_fd, holt_exit *ret,
	holt_error **reterr);

#ifdef __cplusplus
}
#endif
#endif
