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
#define HOLT_IMAGE_BYTES_DEFAULT    34359738368ull
#define HOLT_IMAGE_NO_LIMIT         18446744073709551615ull /* for image_bytes */

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
	const char *kernel; /* the guest kernel: a vmlinuz file, or a directory with boot/ and
			       lib/modules/; NULL: $HOLT_KERNEL, else what is installed with holt
			       or on the host */
	uint64_t image_bytes; /* what images and pulled layers together may take of the disk: when
				 an image has come in, those used longest ago go that neither a box
				 nor a template needs; 0: $HOLT_IMAGE_BYTES, else 32 GiB;
				 HOLT_IMAGE_NO_LIMIT */
} holt_home_options;

#define HOLT_HOME_OPTIONS_INIT                                 \
	{                                                      \
		sizeof(holt_home_options), NULL, 0, 0, NULL, 0 \
	}

/**
 * holt_home_open - open (and make where missing) a home.
 * @options: may be NULL for the defaults.
 * @ret: receives the home; must not be NULL.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * A kernel that cannot be used is told by the first start that needs one.
 *
 * Returns: 0; -HOLT_EINVALID for a bad path, a bad size in $HOLT_TEMPLATE_BYTES,
 * $HOLT_IMAGE_BYTES or $HOLT_MAX_MEMORY, or a home of a newer version; -HOLT_EDENIED where the
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

/* What a kind of things takes of the disk. */
typedef struct holt_space {
	uint64_t count;
	uint64_t active; /* that are in use */
	uint64_t bytes;
	uint64_t reclaimable_bytes; /* of those that are not */
} holt_space;

typedef struct holt_home_space {
	size_t struct_size; /* set by HOLT_HOME_SPACE_INIT */
	holt_space images; /* root file systems; active: a box or a template needs it */
	holt_space blobs; /* layers as they were pulled; active: a pull has it open */
	holt_space templates; /* none is active: one that goes is made again */
	holt_space boxes; /* disks and logs; active: it runs */
} holt_home_space;

#define HOLT_HOME_SPACE_INIT                                                       \
	{                                                                          \
		sizeof(holt_home_space), {0, 0, 0, 0}, {0, 0, 0, 0}, {0, 0, 0, 0}, \
		{                                                                  \
			0, 0, 0, 0                                                 \
		}                                                                  \
	}

/**
 * holt_home_get_space - tell what a home takes of the disk.
 * @home: an open home; must not be NULL.
 * @ret: receives it, as far as its struct_size reaches; must not be NULL.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * Bytes are those that files take on the disk, holes not counted. What several images share counts
 * once.
 *
 * Returns: 0; -HOLT_EINVALID for a struct_size that is none; -HOLT_EIO, -HOLT_ENO_MEMORY.
 * Ownership: nothing changes hands.
 * Threads: any thread.
 * Blocks: for file operations.
 * Since: 0.1
 */
HOLT_API int holt_home_get_space(holt_home *home, holt_home_space *ret, holt_error **reterr);

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
