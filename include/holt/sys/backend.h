/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOLT_SYS_BACKEND_H
#define HOLT_SYS_BACKEND_H

/*
 * For those who implement a sandbox: the operations that the contract (holt/sandbox.h, files.h,
 * search.h) is made of. A box of this home is one backend; a remote service is another.
 *
 * The contract has checked everything that can be checked without the sandbox: paths are not empty
 * and have no ".." in them, variables have names, patterns are not empty, numbers are in range. It
 * also puts results together, cuts lines, and classifies failures. A backend does, and tells the
 * truth: what cannot be read is an error, never an empty result.
 *
 * Every operation may be called from any thread, several at once. It returns 0, or the negative of
 * a code with an error made by holt_error_set. Codes that the contract gives a meaning to:
 * GUEST_LOST and PROTOCOL (the sandbox is gone for good), UNAVAILABLE and BUSY (try again later),
 * CLOSED (the sandbox has ended: counts as gone).
 *
 * Results go to functions of types.h. Where one returns something else than 0 the operation ends
 * with -HOLT_ECANCELLED. No function is called after the operation has returned.
 */

#include "../types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What every operation has to keep to. */
typedef struct holt_call {
	uint64_t
		timeout_ms; /* until the operation has returned with -HOLT_ETIMEOUT; HOLT_FOREVER */
	holt_cancel *cancel; /* ends it with -HOLT_ECANCELLED: give it on, or ask
				holt_cancel_triggered; may be NULL */
} holt_call;

typedef struct holt_backend_command {
	const char *const *argv; /* NULL-terminated */
	const char *const *env; /* "KEY=VALUE", NULL-terminated; NULL: nothing on top of the
				   sandbox's own */
	uint64_t timeout_ms; /* from its start; then all of it is killed; HOLT_FOREVER: none */
	holt_output_fn output; /* gets all of it, in order for each stream */
	void *user;
} holt_backend_command;

typedef struct holt_backend_read {
	uint64_t first_line; /* from 1: only lines from this; 0: everything, and last_line is not
				looked at */
	uint64_t last_line; /* up to this one; 0: to the end */
	uint64_t max_bytes; /* more to be sent is -HOLT_ELIMIT with EFBIG, before the first byte
			       where that can be known; 0: no limit */
} holt_backend_read;

enum holt_write_flags {
	HOLT_WRITE_PARENTS = 1 << 0, /* make missing directories */
	HOLT_WRITE_EXCLUSIVE = 1 << 1 /* -HOLT_EEXISTS where something is there */
};
enum holt_stat_flags { HOLT_STAT_NOFOLLOW = 1 << 0 /* a symbolic link itself */ };
enum holt_mkdir_flags {
	HOLT_MKDIR_PARENTS = 1 << 0 /* those above, and one that is there is fine */
};
enum holt_move_flags { HOLT_MOVE_NOREPLACE = 1 << 0 /* -HOLT_EEXISTS where something is there */ };
enum holt_remove_flags {
	HOLT_REMOVE_RECURSIVE = 1 << 0, /* a directory with all that is in it */
	HOLT_REMOVE_FORCE = 1 << 1 /* what is missing is fine */
};
/* HOLT_..._ALL also of what holt_sandbox_ignored names; a backend sees an empty list then. */
enum holt_list_flags { HOLT_LIST_ALL = 1 << 0 };
enum holt_glob_flags {
	HOLT_GLOB_DIRECTORIES = 1 << 0, /* find them, too */
	HOLT_GLOB_ALL = 1 << 1
};
enum holt_grep_flags {
	HOLT_GREP_LITERAL = 1 << 0, /* the pattern is text */
	HOLT_GREP_CASE_SENSITIVE = 1 << 1,
	HOLT_GREP_ALL = 1 << 2
};

/* A root and what beneath it counts. Paths of results are relative to it, "" is the root itself. */
typedef struct holt_backend_search {
	const char *root; /* a symbolic link means its target, as root only */
	const char *const *ignore; /* NULL-terminated patterns for one name; what matches one is
				      left out with all beneath it, before anything is counted */
	uint64_t max_results; /* of these at most; may be 0. One more is looked for, so that
				 truncated is exact */
	uint32_t flags; /* enum holt_glob_flags or holt_grep_flags */
	uint32_t max_depth; /* list: 0 is the root alone */
	const char *pattern; /* glob, grep */
	const char *glob; /* grep: only files whose path matches; NULL: all */
	uint32_t line_bytes; /* grep: of a line at most these are wanted */
} holt_backend_search;

/* @self is what holt_sandbox_open_backend was given. */
typedef struct holt_backend {
	size_t struct_size; /* sizeof(holt_backend) */
	const char *name;
	/* -HOLT_ENOT_FOUND where argv[0] is not there, -HOLT_EDENIED where it cannot be executed.
	 */
	int (*execute)(void *self, const holt_backend_command *command, const holt_call *call,
		holt_exit *ret, holt_error **reterr);
	/* The bytes of a regular file. */
	int (*read)(void *self, const char *path, const holt_backend_read *what, holt_data_fn data,
		void *user, const holt_call *call, holt_error **reterr);
	/* Replace the content: whoever reads sees the old or the new, whole. */
	int (*write)(void *self, const char *path, uint32_t flags, holt_source_fn source,
		void *user, const holt_call *call, holt_error **reterr);
	/* Add at the end; what others add meanwhile is not lost. */
	int (*append)(void *self, const char *path, uint32_t flags, holt_source_fn source,
		void *user, const holt_call *call, holt_error **reterr);
	/* As write and read, where a service has other ways for bytes than for text. */
	int (*update)(void *self, const char *path, uint32_t flags, holt_source_fn source,
		void *user, const holt_call *call, holt_error **reterr);
	int (*download)(void *self, const char *path, uint64_t max_bytes, holt_data_fn data,
		void *user, const holt_call *call, holt_error **reterr);
	/* Directories and regular files, the root first, no symbolic links. */
	int (*list)(void *self, const holt_backend_search *what, holt_entry_fn entry, void *user,
		const holt_call *call, holt_search_result *ret, holt_error **reterr);
	int (*stat)(void *self, const char *path, uint32_t flags, const holt_call *call,
		holt_file_info *ret, holt_error **reterr);
	int (*make_directory)(void *self, const char *path, uint32_t flags, const holt_call *call,
		holt_error **reterr);
	int (*move)(void *self, const char *from, const char *to, uint32_t flags,
		const holt_call *call, holt_error **reterr);
	int (*remove)(void *self, const char *path, uint32_t flags, const holt_call *call,
		holt_error **reterr);
	int (*glob)(void *self, const holt_backend_search *what, holt_entry_fn entry, void *user,
		const holt_call *call, holt_search_result *ret, holt_error **reterr);
	int (*grep)(void *self, const holt_backend_search *what, holt_match_fn match, void *user,
		const holt_call *call, holt_search_result *ret, holt_error **reterr);
	/* No operation runs any more, and none will come. May be NULL. */
	void (*close)(void *self);
} holt_backend;

struct holt_sandbox_options; /* sandbox.h */

/**
 * holt_sandbox_open_backend - make a sandbox of a backend.
 * @backend: all of its operations set; must not be NULL, and must outlive the sandbox.
 * @self: handed to them unchanged; may be NULL.
 * @options: user and cwd are the backend's business and must be NULL; id must be given; must not be
 * NULL.
 * @ret: receives the sandbox; must not be NULL.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * Returns: 0; -HOLT_EINVALID; -HOLT_ENO_MEMORY.
 * Ownership: the caller frees *@ret with holt_sandbox_free, which closes @self; on failure @self
 * stays the caller's.
 * Threads: any thread.
 * Blocks: never.
 * Since: 0.1
 */
HOLT_API int holt_sandbox_open_backend(const holt_backend *backend, void *self,
	const struct holt_sandbox_options *options, holt_sandbox **ret, holt_error **reterr);

/**
 * holt_error_set - make an error, for those who implement what this library calls.
 * @reterr: receives it; may be NULL, must point to NULL.
 * @code: a positive value of enum holt_code.
 * @errnum: the errno behind it, or 0.
 * @stage: the step during which it happened; may be NULL.
 * @object: the path, id or address concerned; may be NULL.
 * @message: one line, cause first; must not be NULL.
 *
 * Returns: -@code, or -HOLT_EINTERNAL where that is none.
 * Ownership: the strings are copied; the caller frees the error with holt_error_free.
 * Threads: any thread.
 * Blocks: never.
 * Since: 0.1
 */
HOLT_API int holt_error_set(holt_error **reterr, int code, int errnum, const char *stage,
	const char *object, const char *message);

#ifdef __cplusplus
}
#endif
#endif
