/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SANDBOX_CONTRACT_H
#define SANDBOX_CONTRACT_H

#include "holt/sys/backend.h"

#include <stdbool.h>

/*
 * The sandbox contract over a table of operations: what holt/sandbox.h, files.h and search.h
 * promise, for any backend. src/api reads the callers' versioned structs and calls what is here.
 *
 * Every function may be called from any thread, many at once for one sandbox. Strings of wishes are
 * borrowed for the call. @call holds the time-out of the whole call and the caller's token.
 */

/* Some of the numbers of the contract; src/api compares them with the public ones. */
#define CONTRACT_PATH_BYTES_MAX     65535u
#define CONTRACT_PATTERN_BYTES_MAX  65535u
#define CONTRACT_DOWNLOAD_BYTES_MAX 104857600u
#define CONTRACT_LINE_CHARS         200u

struct contract_wish {
	const char *id;
	const char *const *env; /* or NULL */
	const char *user_data; /* absolute */
	bool text; /* contract_read gives failures as content */
	void (*terminal)(const char *id, const holt_error *error, void *user);
	void *terminal_user;
};

/* @backend is copied. On failure @self stays the caller's. */
int contract_open(const holt_backend *backend, void *self, const struct contract_wish *wish,
	holt_sandbox **ret, holt_error **reterr);
const char *contract_id(const holt_sandbox *sandbox);
/* What runs ends soon, what comes is refused. */
void contract_close(holt_sandbox *sandbox);
bool contract_is_closed(const holt_sandbox *sandbox);
/* One more owner, who calls contract_free. */
holt_sandbox *contract_ref(holt_sandbox *sandbox);
/* The last owner's call closes and forgets it. */
void contract_free(holt_sandbox *sandbox);
/* Called when that has happened: what the terminal function needs is not needed any more. For the
 * one who made the sandbox, before anybody else has it. */
void contract_on_free(holt_sandbox *sandbox, void (*freed)(void *user), void *user);

/* What a failure says about the sandbox. */
bool contract_is_terminal(const holt_error *error);
bool contract_is_retryable(const holt_error *error);
/* "Error: ...", for clients that know no codes; NULL without memory. */
char *contract_error_text(const holt_error *error);

/* Commands: contract_exec.c. */
struct contract_command {
	const char *command;
	const char *const *env; /* or NULL */
	holt_call call; /* its time-out is the command's */
	uint32_t capture_bytes; /* at least 1 */
	holt_output_fn output; /* gets everything, and nothing is kept; or NULL */
	void *user;
};
struct holt_command;

int contract_execute(holt_sandbox *sandbox, const struct contract_command *what,
	struct holt_command **ret, holt_error **reterr);
/* The same in one text, in which most failures are, too. */
int contract_execute_text(holt_sandbox *sandbox, const struct contract_command *what, char **ret,
	size_t *ret_len, holt_error **reterr);
void contract_command_exit(const struct holt_command *command, holt_exit *ret);
const char *contract_command_output(
	const struct holt_command *command, int stream, size_t *ret_len, uint64_t *ret_total);
int contract_command_text(
	const struct holt_command *command, char **ret, size_t *ret_len, holt_error **reterr);
void contract_command_free(struct holt_command *command);

/* Files: contract_files.c. */
struct contract_read {
	bool lines; /* first_line to last_line only, as in holt_read_options */
	int64_t first_line;
	int64_t last_line;
	uint64_t max_bytes; /* to be handed over; 0: no limit */
};
enum contract_write { CONTRACT_WRITE, CONTRACT_APPEND, CONTRACT_UPDATE };

int contract_read_to(holt_sandbox *sandbox, const char *path, const struct contract_read *what,
	const holt_call *call, holt_data_fn data, void *user, holt_error **reterr);
int contract_read(holt_sandbox *sandbox, const char *path, const struct contract_read *what,
	const holt_call *call, char **ret, size_t *ret_len, holt_error **reterr);
int contract_download_to(holt_sandbox *sandbox, const char *path, const holt_call *call,
	holt_data_fn data, void *user, holt_error **reterr);
int contract_download(holt_sandbox *sandbox, const char *path, const holt_call *call, char **ret,
	size_t *ret_len, holt_error **reterr);
int contract_write_from(holt_sandbox *sandbox, enum contract_write how, const char *path,
	uint32_t flags, const holt_call *call, holt_source_fn source, void *user,
	holt_error **reterr);
int contract_write(holt_sandbox *sandbox, enum contract_write how, const char *path, uint32_t flags,
	const holt_call *call, const void *data, size_t len, holt_error **reterr);
int contract_stat(holt_sandbox *sandbox, const char *path, uint32_t flags, const holt_call *call,
	holt_file_info *ret, holt_error **reterr);
int contract_make_directory(holt_sandbox *sandbox, const char *path, uint32_t flags,
	const holt_call *call, holt_error **reterr);
int contract_move(holt_sandbox *sandbox, const char *from, const char *to, uint32_t flags,
	const holt_call *call, holt_error **reterr);
int contract_remove(holt_sandbox *sandbox, const char *path, uint32_t flags, const holt_call *call,
	holt_error **reterr);

/* Searching: contract_search.c. Numbers are what is meant: 0 results are none. */
struct contract_search {
	const char *root;
	const char *pattern; /* glob, grep */
	const char *glob; /* grep; or NULL */
	uint32_t flags;
	bool all; /* nothing is ignored */
	uint32_t max_depth; /* list */
	uint64_t max_results;
};

int contract_list(holt_sandbox *sandbox, const struct contract_search *what, const holt_call *call,
	holt_entry_fn entry, void *user, holt_search_result *ret, holt_error **reterr);
int contract_glob(holt_sandbox *sandbox, const struct contract_search *what, const holt_call *call,
	holt_entry_fn entry, void *user, holt_search_result *ret, holt_error **reterr);
int contract_grep(holt_sandbox *sandbox, const struct contract_search *what, const holt_call *call,
	holt_match_fn match, void *user, holt_search_result *ret, holt_error **reterr);

/* Patterns for one segment of a path, NULL-terminated: ignore_list.c. */
const char *const *ignore_list(void);

#endif
