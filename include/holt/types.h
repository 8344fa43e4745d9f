/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOLT_TYPES_H
#define HOLT_TYPES_H

/*
 * The words that users of a sandbox and those who implement one share: how a command ended, what a
 * file is, what a search found, and the functions that data comes and goes through.
 *
 * Paths are bytes: any but NUL, ended by a NUL. Nothing is decoded or normalised.
 */

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct holt_sandbox holt_sandbox;

enum holt_stream { HOLT_STDOUT = 1, HOLT_STDERR = 2 };

enum holt_exit_flags {
	HOLT_EXIT_TIMED_OUT = 1 << 0, /* killed because its time was over */
	HOLT_EXIT_OOM = 1 << 1, /* killed for memory */
	HOLT_EXIT_OUTPUT_LEFT = 1 << 2 /* a background child kept the output open; what it writes
					  after the end of the program is not delivered */
};

typedef struct holt_exit {
	size_t struct_size; /* set by HOLT_EXIT_INIT */
	int32_t code; /* 0 to 255: the program's own, 128 + signal, or 124 for a time-out */
	int32_t signal; /* what killed it, or 0 */
	uint32_t flags; /* enum holt_exit_flags */
	uint64_t duration_us; /* from the program's start to its end, microseconds */
} holt_exit;

#define HOLT_EXIT_INIT                        \
	{                                     \
		sizeof(holt_exit), 0, 0, 0, 0 \
	}

enum holt_file_type {
	HOLT_FILE_REGULAR = 1,
	HOLT_FILE_DIRECTORY = 2,
	HOLT_FILE_SYMLINK = 3,
	HOLT_FILE_FIFO = 4,
	HOLT_FILE_SOCKET = 5,
	HOLT_FILE_CHAR = 6, /* a character device */
	HOLT_FILE_BLOCK = 7 /* a block device */
};

typedef struct holt_file_info {
	size_t struct_size; /* set by HOLT_FILE_INFO_INIT */
	int32_t type; /* enum holt_file_type */
	uint32_t mode; /* permission bits, up to 07777 */
	uint32_t uid;
	uint32_t gid;
	uint64_t size_bytes;
	int64_t mtime_ns; /* last modification, nanoseconds since 1970 */
} holt_file_info;

#define HOLT_FILE_INFO_INIT                              \
	{                                                \
		sizeof(holt_file_info), 0, 0, 0, 0, 0, 0 \
	}

/* A file that was listed or found. New fields come at the end. */
typedef struct holt_entry {
	const char *path; /* begins with the root as it was asked for */
	size_t path_len;
	int32_t type; /* enum holt_file_type */
} holt_entry;

/* A line that matched. New fields come at the end. */
typedef struct holt_match {
	const char *path; /* begins with the root as it was asked for */
	size_t path_len;
	uint64_t line_number; /* from 1 */
	const char *line; /* its bytes without LF and the CRs before that; may hold NUL */
	size_t line_len;
} holt_match;

typedef struct holt_search_result {
	size_t struct_size; /* set by HOLT_SEARCH_RESULT_INIT */
	uint64_t count; /* entries or matches that were handed over */
	uint32_t truncated; /* 1 where there is more than was asked for, else 0: exact */
	uint64_t searched; /* grep: text files that were searched */
	uint64_t skipped; /* grep: files that were not, or not to their end: see holt/search.h */
} holt_search_result;

#define HOLT_SEARCH_RESULT_INIT                        \
	{                                              \
		sizeof(holt_search_result), 0, 0, 0, 0 \
	}

/*
 * Called on the thread of the call that was given it; must not call back into the same sandbox's
 * holt_sandbox_free. What it is shown is borrowed until it returns. It returns 0 to go on; anything
 * else ends the call with -HOLT_ECANCELLED.
 */
typedef int (*holt_data_fn)(const void *data, size_t len, void *user);
typedef int (*holt_output_fn)(int stream, const void *data, size_t len, void *user);
typedef int (*holt_entry_fn)(const holt_entry *entry, void *user);
typedef int (*holt_match_fn)(const holt_match *match, void *user);
/* Fills in at most @size bytes and sets *ret_len, to 0 at the end. As above. */
typedef int (*holt_source_fn)(void *data, size_t size, size_t *ret_len, void *user);

#ifdef __cplusplus
}
#endif
#endif
