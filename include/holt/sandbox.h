/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOLT_SANDBOX_H
#define HOLT_SANDBOX_H

/*
 * A sandbox: a box, or a remote machine, as an agent sees it. Commands are here, files in files.h,
 * searching in search.h.
 *
 * Everything is done as the sandbox's user. Relative paths begin at its working directory. Any call
 * may be made from any thread, also several at once.
 *
 * A 0 in options is the default, also of a time-out or a maximum: HOLT_FOREVER, HOLT_NO_RESULTS and
 * HOLT_LIST_DEPTH_ROOT say none. (On the command line a 0 is a 0.)
 *
 * Errors have codes. Some existing clients want text instead: execute_text gives that for commands,
 * HOLT_SANDBOX_TEXT for reading, holt_error_text for any error.
 */

#include "box.h"
#include "types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct holt_command holt_command;

#define HOLT_SANDBOX_TIMEOUT_MS_DEFAULT 600000u
#define HOLT_CAPTURE_BYTES_DEFAULT      10485760u
#define HOLT_CAPTURE_BYTES_MAX          1073741824u
#define HOLT_DOWNLOAD_BYTES_MAX         104857600u
#define HOLT_USER_DATA_DEFAULT          "/mnt/user-data"

/* What a failure says about the sandbox; see holt_error_failure. */
enum holt_failure {
	HOLT_FAILURE_NONE = 0, /* nothing: the request failed, the sandbox is fine */
	HOLT_FAILURE_TERMINAL = 1, /* it is gone, as a stopped box is, too: make another one, or
				      start the box again */
	HOLT_FAILURE_RETRYABLE = 2 /* it is there and cannot now: try again later */
};

enum holt_sandbox_flags {
	HOLT_SANDBOX_TEXT = 1 << 0 /* holt_sandbox_read gives "Error: ..." as content where it would
				      fail, except for a path that is refused */
};

typedef struct holt_sandbox_options {
	size_t struct_size; /* set by HOLT_SANDBOX_OPTIONS_INIT */
	const char *id; /* what holt_sandbox_id tells; NULL: the box's id */
	const char *const *env; /* "KEY=VALUE", NULL-terminated, for every command; or NULL */
	const char *user; /* "name|uid[:group|gid]"; NULL: the box's program's, else the image's,
			     else root */
	const char *cwd; /* absolute; NULL: the box's program's, else the image's, else "/" */
	const char *user_data; /* absolute: downloads come from beneath it; NULL:
				  HOLT_USER_DATA_DEFAULT */
	uint32_t flags; /* enum holt_sandbox_flags */
	/* Called by the first call that finds out that the sandbox is gone, on its thread and
	 * before it returns, and not again until a call has succeeded; may be NULL. @error is
	 * borrowed. It must not free the sandbox. */
	void (*terminal)(const char *id, const holt_error *error, void *user_data_ptr);
	void *terminal_user; /* handed to terminal */
} holt_sandbox_options;

#define HOLT_SANDBOX_OPTIONS_INIT                                                         \
	{                                                                                 \
		sizeof(holt_sandbox_options), NULL, NULL, NULL, NULL, NULL, 0, NULL, NULL \
	}

/* Of calls that need no other options; NULL stands for zeros. */
typedef struct holt_call_options {
	size_t struct_size; /* set by HOLT_CALL_OPTIONS_INIT */
	uint32_t flags; /* what the call says */
	uint64_t timeout_ms; /* of the whole call; 0: 600,000; HOLT_FOREVER */
	holt_cancel *cancel; /* ends the call with HOLT_ECANCELLED; may be NULL */
} holt_call_options;

#define HOLT_CALL_OPTIONS_INIT                        \
	{                                             \
		sizeof(holt_call_options), 0, 0, NULL \
	}

typedef struct holt_command_options {
	size_t struct_size; /* set by HOLT_COMMAND_OPTIONS_INIT */
	const char *const *env; /* "KEY=VALUE", NULL-terminated, for this command, on top of the
				   sandbox's; or NULL */
	uint64_t timeout_ms; /* then all that the command started is killed, and the call returns
				within 1 s; 0: 600,000; HOLT_FOREVER: none */
	holt_cancel
		*cancel; /* kills the command and ends the call with HOLT_ECANCELLED; may be NULL */
	uint32_t capture_bytes; /* of each stream are kept, the rest is read and dropped; up to
				   HOLT_CAPTURE_BYTES_MAX; 0: 10 MiB */
	holt_output_fn
		output; /* gets all output instead as it comes, nothing is kept; may be NULL */
	void *user; /* handed to output */
} holt_command_options;

#define HOLT_COMMAND_OPTIONS_INIT                                          \
	{                                                                  \
		sizeof(holt_command_options), NULL, 0, NULL, 0, NULL, NULL \
	}

/**
 * holt_sandbox_open - make a sandbox of a box.
 * @box: a box; must not be NULL, and must outlive the sandbox. It need not run yet: until it is
 * started calls fail with HOLT_EUNAVAILABLE.
 * @options: may be NULL.
 * @ret: receives the sandbox; must not be NULL.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * Returns: 0; -HOLT_EINVALID for a bad option; -HOLT_ENO_MEMORY.
 * Ownership: the caller frees *@ret with holt_sandbox_free.
 * Threads: any thread.
 * Blocks: never.
 * Since: 0.1
 */
HOLT_API int holt_sandbox_open(holt_box *box, const holt_sandbox_options *options,
	holt_sandbox **ret, holt_error **reterr);

/**
 * holt_sandbox_id - tell the id of a sandbox.
 * @sandbox: a sandbox; must not be NULL.
 *
 * Returns: a NUL-terminated string.
 * Ownership: borrowed until @sandbox is freed.
 * Threads: any thread.
 * Blocks: never.
 * Since: 0.1
 */
HOLT_API const char *holt_sandbox_id(holt_sandbox *sandbox);

/**
 * holt_sandbox_close - let every later call fail with HOLT_ECLOSED; the box is left alone.
 * @sandbox: a sandbox; NULL, or a closed one, is fine. Calls that run end with HOLT_ECLOSED soon.
 *
 * Returns: nothing.
 * Ownership: nothing changes hands.
 * Threads: any thread.
 * Blocks: never.
 * Since: 0.1
 */
HOLT_API void holt_sandbox_close(holt_sandbox *sandbox);

/**
 * holt_sandbox_free - close and forget a sandbox.
 * @sandbox: a sandbox, or NULL. One of holt_provider_get has several owners: the last one closes
 * it.
 *
 * Returns: nothing.
 * Ownership: consumes @sandbox.
 * Threads: any thread, while no other call uses @sandbox.
 * Blocks: never for long.
 * Since: 0.1
 */
HOLT_API void holt_sandbox_free(holt_sandbox *sandbox);

/**
 * holt_sandbox_execute - run a command line in a shell of its own.
 * @sandbox: a sandbox; must not be NULL.
 * @command: one string for "bash -lc", or "sh -lc" where there is no bash; must not be NULL.
 * @options: may be NULL.
 * @ret: receives how it ended, and its output unless options.output is set; must not be NULL.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * Stdin is empty. Nothing but files is left for the next command: no directory, variable or
 * function. A child in the background lives on; what it writes after the end of the shell is not
 * delivered. A login shell may set PATH anew.
 *
 * Returns: 0 where the command ran, whatever its exit code and also where its time was over (124,
 * HOLT_EXIT_TIMED_OUT, with the output so far); -HOLT_EINVALID for a variable without a POSIX name,
 * also on a closed sandbox; -HOLT_ENOT_FOUND where the image has no shell; -HOLT_ECLOSED,
 * -HOLT_ECANCELLED, -HOLT_EGUEST_LOST, -HOLT_EBUSY for a paused box, -HOLT_EUNAVAILABLE,
 * -HOLT_ELIMIT, -HOLT_ETIMEOUT where the sandbox does not answer, -HOLT_ENO_MEMORY.
 * Ownership: the caller frees *@ret with holt_command_free.
 * Threads: any thread.
 * Blocks: until the command has ended, at most its time-out and 1 s.
 * Since: 0.1
 */
HOLT_API int holt_sandbox_execute(holt_sandbox *sandbox, const char *command,
	const holt_command_options *options, holt_command **ret, holt_error **reterr);

/**
 * holt_sandbox_execute_text - run a command line, and get everything as one text.
 * @sandbox: a sandbox; must not be NULL.
 * @command: as for holt_sandbox_execute; must not be NULL.
 * @options: output must not be set; may be NULL.
 * @ret: receives the text, NUL-terminated; must not be NULL.
 * @ret_len: receives its length without the NUL; may be NULL.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * The text is that of holt_command_text, or of holt_error_text where the command did not run.
 *
 * Returns: 0; -HOLT_EINVALID for a variable without a POSIX name or a bad option;
 * -HOLT_ENO_MEMORY.
 * Ownership: the caller frees *@ret with holt_free.
 * Threads: any thread.
 * Blocks: as holt_sandbox_execute.
 * Since: 0.1
 */
HOLT_API int holt_sandbox_execute_text(holt_sandbox *sandbox, const char *command,
	const holt_command_options *options, char **ret, size_t *ret_len, holt_error **reterr);

/**
 * holt_command_exit - tell how a command ended.
 * @command: a command; must not be NULL.
 * @ret: filled in as far as its struct_size goes; must not be NULL.
 *
 * Returns: 0, or -HOLT_EINVALID.
 * Ownership: nothing changes hands.
 * Threads: the thread that owns @command.
 * Blocks: never.
 * Since: 0.1
 */
HOLT_API int holt_command_exit(const holt_command *command, holt_exit *ret);

/**
 * holt_command_output - get the output of a command.
 * @command: a command; must not be NULL.
 * @stream: HOLT_STDOUT or HOLT_STDERR.
 * @ret_len: receives the number of bytes that were kept; must not be NULL.
 * @ret_total: receives how many there were; may be NULL.
 *
 * Returns: the bytes, with a NUL behind them; never NULL.
 * Ownership: borrowed until @command is freed.
 * Threads: the thread that owns @command.
 * Blocks: never.
 * Since: 0.1
 */
HOLT_API const char *holt_command_output(
	const holt_command *command, int stream, size_t *ret_len, uint64_t *ret_total);

/**
 * holt_command_text - put output and end of a command together as the contract has it.
 * @command: a command; must not be NULL.
 * @ret: receives the text, NUL-terminated; must not be NULL.
 * @ret_len: receives its length without the NUL; may be NULL.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * Both streams with a newline between them, or the one that is not empty, or "(no output)"; an exit
 * code other than 0 as a last line "Exit Code: N" ("Command exited with code N" alone); after a
 * time-out a sentence that says so; after a cut a note of how much there was. What is not UTF-8 is
 * replaced by U+FFFD.
 *
 * Returns: 0; -HOLT_EINVALID, -HOLT_ENO_MEMORY.
 * Ownership: the caller frees *@ret with holt_free.
 * Threads: the thread that owns @command.
 * Blocks: never.
 * Since: 0.1
 */
HOLT_API int holt_command_text(
	const holt_command *command, char **ret, size_t *ret_len, holt_error **reterr);

/**
 * holt_command_free - forget a command.
 * @command: a command, or NULL.
 *
 * Returns: nothing.
 * Ownership: consumes @command.
 * Threads: any thread.
 * Blocks: never.
 * Since: 0.1
 */
HOLT_API void holt_command_free(holt_command *command);

/**
 * holt_error_failure - tell what an error of a sandbox's call says about the sandbox.
 * @error: an error, or NULL.
 *
 * Only errors of the sandbox itself count, never what a command printed or its exit code. A closed
 * sandbox is neither terminal nor retryable.
 *
 * Returns: a value of enum holt_failure.
 * Ownership: nothing changes hands.
 * Threads: the thread that owns @error.
 * Blocks: never.
 * Since: 0.1
 */
HOLT_API int holt_error_failure(const holt_error *error);

/**
 * holt_error_text - say an error as one text for clients that know no codes: "Error: ...".
 * @error: an error; NULL gives "Error: ".
 * @ret: receives the text, NUL-terminated; must not be NULL.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * For a terminal failure the text holds "vsock disconnected", for a retryable one "retry later".
 * Neither is added to any other.
 *
 * Returns: 0; -HOLT_EINVALID, -HOLT_ENO_MEMORY.
 * Ownership: the caller frees *@ret with holt_free.
 * Threads: the thread that owns @error.
 * Blocks: never.
 * Since: 0.1
 */
HOLT_API int holt_error_text(const holt_error *error, char **ret, holt_error **reterr);

/**
 * holt_free - free bytes or text that a call of this library has handed over.
 * @data: the bytes, or NULL.
 *
 * Returns: nothing.
 * Ownership: consumes @data.
 * Threads: any thread.
 * Blocks: never.
 * Since: 0.1
 */
HOLT_API void holt_free(void *data);

#ifdef __cplusplus
}
#endif
#endif
