/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOLT_HOME_H
#define HOLT_HOME_H

/*
 * The home: the directory with all of holt's state. Any number of processes and threads may have
 * the same home open; opening it repairs what killed processes left behind.
 */

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct holt_home holt_home;

#define HOLT_TEMPLATE_BYTES_DEFAULT 8589934592ull

typedef struct holt_home_options {
	size_t struct_size; /* set by HOLT_HOME_OPTIONS_INIT */
	const char *path; /* directory, made with mode 0700 where missing; NULL: $HOLT_HOME, else
			     /var/lib/holt for root, else $XDG_DATA_HOME/holt, else
			     ~/.local/share/holt */
	uint64_t template_bytes; /* what all templates together may take of the disk; those used
				    longest ago go when another is made; 0: $HOLT_TEMPLATE_BYTES,
				    else 8 GiB */
	uint64_t max_memory_bytes; /* what the machines of the home together may take of the host's
				      memory: a start that would exceed it ends spares first, then
				      fails with HOLT_ELIMIT; 0: $HOLT_MAX_MEMORY, else no
				      ceiling */
} holt_home_options;

#define HOLT_HOME_OPTIONS_INIT                        \
	{                                             \
		sizeof(holt_home_options), NULL, 0, 0 \
	}

/**
 * holt_home_open - open (and make where missing) a home.
 * @options: may be NULL for the defaults.
 * @ret: receives the home; must not be NULL.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * Returns: 0; -HOLT_EINVALID for a bad path, a bad size in $HOLT_TEMPLATE_BYTES or
 * $HOLT_MAX_MEMORY, or a home of a newer version; -HOLT_EDENIED where the
 * directory cannot be used or belongs to someone else; -HOLT_EIO, -HOLT_ELIMIT, -HOLT_ENO_MEMORY.
 * Ownership: the caller closes *@ret with holt_home_close. Strings of @options are copied.
 * Threads: any thread.
 * Blocks: for file operations; removing what killed processes left takes milliseconds per box.
 * Since: 0.1
 */
HOLT_API int holt_home_open(const holt_home_options *options, holt_home **ret, holt_error **reterr);

/**
 * holt_home_path - tell where the home is.
 * @home: an open home; must not be NULL.
 *
 * Returns: an absolute path, NUL-terminated.
 * Ownership: borrowed until @home is closed.
 * Threads: any thread.
 * Blocks: never.
 * Since: 0.1
 */
HOLT_API const char *holt_home_path(holt_home *home);

/**
 * holt_home_close - close a home; its boxes must have been closed before.
 * @home: an open home, or NULL.
 *
 * Returns: nothing.
 * Ownership: consumes @home.
 * Threads: any thread, while no other call uses @home.
 * Blocks: until the home's thread has ended, milliseconds.
 * Since: 0.1
 */
HOLT_API void holt_home_close(holt_home *home);

#ifdef __cplusplus
}
#endif
#endif
