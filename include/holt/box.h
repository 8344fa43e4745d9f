/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOLT_BOX_H
#define HOLT_BOX_H

/*
 * Boxes: micro-VMs with a kernel and a writable disk of their own. A box made here is attached: it
 * ends, and is removed, with holt_box_close or within two seconds after its process has ended in
 * any way.
 */

#include "image.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct holt_box holt_box;

#define HOLT_MEMORY_MIB_MIN          128u
#define HOLT_MEMORY_MIB_MAX          262144u
#define HOLT_MEMORY_MIB_DEFAULT      512u
#define HOLT_CPUS_MAX                64u
#define HOLT_DISK_BYTES_MIN          16777216ull
#define HOLT_DISK_BYTES_MAX          17592186044416ull
#define HOLT_DISK_BYTES_DEFAULT      10737418240ull
#define HOLT_BOOT_TIMEOUT_MS_DEFAULT 60000u

typedef struct holt_box_options {
	size_t struct_size; /* set by HOLT_BOX_OPTIONS_INIT */
	uint32_t memory_mib; /* HOLT_MEMORY_MIB_MIN to _MAX; 0: 512 */
	uint32_t cpus; /* 1 to HOLT_CPUS_MAX; 0: 1 */
	uint64_t disk_bytes; /* virtual size of the disk, HOLT_DISK_BYTES_MIN to _MAX; 0: 10 GiB */
	uint64_t boot_timeout_ms; /* of one of two attempts, up to 1 hour; 0: 60,000 */
	const char *hostname; /* 1 to 63 of [A-Za-z0-9-], no leading '-'; NULL: the box's id */
	const char *accel; /* "auto", "kvm" or "tcg"; NULL: $HOLT_ACCEL, else "auto" */
	holt_cancel *cancel; /* ends the start with HOLT_ECANCELLED; may be NULL */
} holt_box_options;

#define HOLT_BOX_OPTIONS_INIT                                          \
	{                                                              \
		sizeof(holt_box_options), 0, 0, 0, 0, NULL, NULL, NULL \
	}

typedef struct holt_box_info {
	size_t struct_size; /* set by HOLT_BOX_INFO_INIT */
	uint64_t hello_us; /* from the VM's start to the agent's first word, microseconds */
	uint64_t ready_us; /* from the VM's start until commands can run, microseconds */
	uint32_t attempts; /* starts it took: 1, or 2 after a failed one */
	int32_t vmm_pid; /* process id of the VM */
	char accel[8]; /* "kvm" or "tcg" */
} holt_box_info;

#define HOLT_BOX_INFO_INIT                            \
	{                                             \
		sizeof(holt_box_info), 0, 0, 0, 0, "" \
	}

/**
 * holt_box_start - make a box from an image and start it.
 * @home: an open home; must not be NULL.
 * @image: reference of an image in the store; must not be NULL.
 * @options: may be NULL for the defaults.
 * @ret: receives the box; must not be NULL.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * Returns: 0 once commands can run; -HOLT_EINVALID for a value out of range; -HOLT_ENOT_FOUND for
 * an unknown image or a missing kernel, keeper or QEMU; -HOLT_EUNSUPPORTED for an accelerator that
 * does not work here; -HOLT_ETIMEOUT where the guest did not start in two attempts (the message
 * has the last stage and the console's tail); -HOLT_EGUEST_LOST, -HOLT_EPROTOCOL,
 * -HOLT_ECANCELLED, -HOLT_ELIMIT, -HOLT_EDENIED, -HOLT_EIO, -HOLT_ENO_MEMORY.
 * Ownership: the caller closes *@ret with holt_box_close, before the home.
 * Threads: any thread.
 * Blocks: for the boot, at most two times options.boot_timeout_ms and 10 s.
 * Since: 0.1
 */
HOLT_API int holt_box_start(holt_home *home, const char *image, const holt_box_options *options,
	holt_box **ret, holt_error **reterr);

/**
 * holt_box_id - tell the id of a box.
 * @box: a box; must not be NULL.
 *
 * Returns: a NUL-terminated string of lower-case hex digits.
 * Ownership: borrowed until @box is closed.
 * Threads: any thread.
 * Blocks: never.
 * Since: 0.1
 */
HOLT_API const char *holt_box_id(holt_box *box);

/**
 * holt_box_get_info - tell facts about a running box.
 * @box: a box; must not be NULL.
 * @ret: filled in as far as its struct_size goes; must not be NULL.
 *
 * Returns: 0, or -HOLT_EINVALID where struct_size is not set.
 * Ownership: nothing changes hands.
 * Threads: any thread.
 * Blocks: never.
 * Since: 0.1
 */
HOLT_API int holt_box_get_info(holt_box *box, holt_box_info *ret);

/**
 * holt_box_close - end a box and remove it with its disk.
 * @box: a box, or NULL. Its execs must have been freed before.
 *
 * Returns: nothing.
 * Ownership: consumes @box.
 * Threads: any thread, while no other call uses @box.
 * Blocks: until nothing of the box is left, at most 10 s.
 * Since: 0.1
 */
HOLT_API void holt_box_close(holt_box *box);

#ifdef __cplusplus
}
#endif
#endif
