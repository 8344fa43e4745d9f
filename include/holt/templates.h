/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOLT_TEMPLATES_H
#define HOLT_TEMPLATES_H

/*
 * Templates: machines that were booted once from an image and saved before any program ran. A box
 * of the same image and shape begins as a copy of one instead of booting. The first start of a box
 * of the default shape (512 MiB, 1 processor, 10 GiB of disk), or of a provider's pool, makes the
 * template by itself; for other shapes it has to be asked for.
 *
 * A template holds an image only, nothing of any user. It may be removed at any time: boxes that
 * were made from it are not disturbed, and the next one makes it again.
 */

#include "box.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct holt_template holt_template;

/* For holt_template_prune: remove only what cannot be used. */
#define HOLT_TEMPLATE_NO_LIMIT UINT64_MAX

#define HOLT_TEMPLATE_SPARES_MAX 64u /* of one image */

enum holt_template_flags {
	HOLT_TEMPLATE_BARE = 1 << 0 /* for boxes that were started before: the machine mounts the
				       box's own disk */
};

typedef struct holt_template_options {
	size_t struct_size; /* set by HOLT_TEMPLATE_OPTIONS_INIT */
	uint32_t memory_mib; /* HOLT_MEMORY_MIB_MIN to _MAX; 0: 512 */
	uint32_t cpus; /* 1 to HOLT_CPUS_MAX; 0: 1 */
	uint64_t disk_bytes; /* virtual size, HOLT_DISK_BYTES_MIN to _MAX; 0: 10 GiB */
	uint32_t flags; /* enum holt_template_flags */
	uint64_t boot_timeout_ms; /* of the one attempt, up to 1 hour; 0: 60,000 */
	const char *accel; /* "auto", "kvm" or "tcg"; NULL: $HOLT_ACCEL, else "auto" */
	holt_cancel *cancel; /* ends the call with HOLT_ECANCELLED; may be NULL */
} holt_template_options;

#define HOLT_TEMPLATE_OPTIONS_INIT                                       \
	{                                                                \
		sizeof(holt_template_options), 0, 0, 0, 0, 0, NULL, NULL \
	}

typedef struct holt_template_info {
	size_t struct_size; /* set by HOLT_TEMPLATE_INFO_INIT */
	uint32_t flags; /* enum holt_template_flags */
	uint32_t memory_mib;
	uint32_t cpus;
	uint64_t disk_bytes; /* virtual size of the disk */
	uint64_t size_bytes; /* what it takes on the host's disk */
	uint64_t build_ms; /* how long it took to make */
	int64_t created_s; /* seconds since 1970 */
	int64_t used_s; /* the same, of the last use */
	char accel[8]; /* "kvm" or "tcg" */
	uint32_t spares_ready; /* that wait to become boxes */
	uint32_t spares_wanted; /* see holt_template_spares */
} holt_template_info;

#define HOLT_TEMPLATE_INFO_INIT                                               \
	{                                                                     \
		sizeof(holt_template_info), 0, 0, 0, 0, 0, 0, 0, 0, {0}, 0, 0 \
	}

/**
 * holt_template_build - make the template of an image, if it is not there.
 * @home: an open home; must not be NULL.
 * @image: reference of an image in the store, see holt_image_pull; must not be NULL.
 * @options: shape and kind; may be NULL for the defaults.
 * @ret: receives the template; may be NULL.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * Of several callers that want the same one, in any processes, one makes it and the others wait.
 * Where one was made, those used longest ago go, as far as the home's template_bytes demands.
 *
 * Returns: 0; -HOLT_EINVALID for a value out of range; -HOLT_ENOT_FOUND for an unknown image, a
 * missing kernel, keeper or QEMU; -HOLT_EUNSUPPORTED for an accelerator that does not work here;
 * -HOLT_ETIMEOUT where the guest did not start; -HOLT_ECANCELLED, -HOLT_EGUEST_LOST,
 * -HOLT_EPROTOCOL, -HOLT_ELIMIT (disk full), -HOLT_EDENIED, -HOLT_EIO, -HOLT_ENO_MEMORY. After a
 * failure nothing is left.
 * Ownership: the caller frees *@ret with holt_template_free.
 * Threads: any thread.
 * Blocks: for a boot, at most options.boot_timeout_ms and 20 s, and as long again where another
 * process is making the template; see options.cancel.
 * Since: 0.1
 */
HOLT_API int holt_template_build(holt_home *home, const char *image,
	const holt_template_options *options, holt_template **ret, holt_error **reterr);

/**
 * holt_template_list - list the templates of a home, the one used last first.
 * @home: an open home; must not be NULL.
 * @ret: receives an array of templates; NULL where there is none; must not be NULL.
 * @ret_count: receives its length; must not be NULL.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * Returns: 0; -HOLT_EINVALID, -HOLT_EDENIED, -HOLT_EIO, -HOLT_ENO_MEMORY.
 * Ownership: the caller frees the array and its templates with holt_template_list_free.
 * Threads: any thread.
 * Blocks: for file operations; never for one that is being made.
 * Since: 0.1
 */
HOLT_API int holt_template_list(
	holt_home *home, holt_template ***ret, size_t *ret_count, holt_error **reterr);

/**
 * holt_template_list_free - free what holt_template_list gave.
 * @list: the array, or NULL.
 * @count: its length.
 *
 * Returns: nothing.
 * Ownership: consumes @list and its templates.
 * Threads: one thread at a time per object.
 * Blocks: never.
 * Since: 0.1
 */
HOLT_API void holt_template_list_free(holt_template **list, size_t count);

/**
 * holt_template_free - free a template object; the template itself stays.
 * @tpl: a template, or NULL.
 *
 * Returns: nothing.
 * Ownership: consumes @tpl.
 * Threads: one thread at a time per object.
 * Blocks: never.
 * Since: 0.1
 */
HOLT_API void holt_template_free(holt_template *tpl);

/**
 * holt_template_id - tell the id of a template: a hash of all that its machine was made of.
 * @tpl: a template; must not be NULL.
 *
 * Returns: a NUL-terminated string of lower-case hex digits.
 * Ownership: borrowed until @tpl is freed.
 * Threads: any thread.
 * Blocks: never.
 * Since: 0.1
 */
HOLT_API const char *holt_template_id(const holt_template *tpl);

/**
 * holt_template_image - tell the reference of the image that a template was made from.
 * @tpl: a template; must not be NULL.
 *
 * Returns: the reference as it was given then; the image may be called otherwise by now.
 * Ownership: borrowed until @tpl is freed.
 * Threads: any thread.
 * Blocks: never.
 * Since: 0.1
 */
HOLT_API const char *holt_template_image(const holt_template *tpl);

/**
 * holt_template_rootfs_digest - tell the digest of the root file system in a template.
 * @tpl: a template; must not be NULL.
 *
 * Images that differ only in their configuration have the same one, and share templates.
 *
 * Returns: "sha256:" and 64 hex digits, NUL-terminated.
 * Ownership: borrowed until @tpl is freed.
 * Threads: any thread.
 * Blocks: never.
 * Since: 0.1
 */
HOLT_API const char *holt_template_rootfs_digest(const holt_template *tpl);

/**
 * holt_template_get_info - tell facts about a template, as they were when it was listed or made.
 * @tpl: a template; must not be NULL.
 * @ret: filled in as far as its struct_size goes; must not be NULL.
 *
 * Returns: 0, or -HOLT_EINVALID where struct_size is not set.
 * Ownership: nothing changes hands.
 * Threads: any thread.
 * Blocks: never.
 * Since: 0.1
 */
HOLT_API int holt_template_get_info(const holt_template *tpl, holt_template_info *ret);

/**
 * holt_template_json - describe a template as one JSON object.
 * @tpl: a template; must not be NULL.
 *
 * Members: id, image, rootfs_digest, bare, accel, memory_mib, cpus, disk_bytes, size_bytes,
 * build_ms, spares_ready, spares_wanted, created and used (RFC 3339).
 *
 * Returns: a NUL-terminated string, or NULL without memory.
 * Ownership: borrowed until @tpl is freed.
 * Threads: one thread at a time per object.
 * Blocks: never.
 * Since: 0.1
 */
HOLT_API const char *holt_template_json(holt_template *tpl);

/**
 * holt_template_remove - remove one template, or all of an image.
 * @home: an open home; must not be NULL.
 * @ref: reference of an image, or the id of a template, or the beginning of an id that no other
 * has; must not be NULL.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * Returns: 0; -HOLT_ENOT_FOUND where there is none; -HOLT_EINVALID for a beginning of several ids;
 * -HOLT_EDENIED, -HOLT_EIO, -HOLT_ENO_MEMORY.
 * Ownership: nothing changes hands.
 * Threads: any thread.
 * Blocks: for file operations.
 * Since: 0.1
 */
HOLT_API int holt_template_remove(holt_home *home, const char *ref, holt_error **reterr);

/**
 * holt_template_prune - remove the templates that cannot be used any more, and old ones.
 * @home: an open home; must not be NULL.
 * @max_bytes: then those used longest ago go until the others take at most so much of the disk; 0
 * removes all, HOLT_TEMPLATE_NO_LIMIT none of them.
 * @ret_n: receives how many have gone; may be NULL.
 * @ret_bytes: receives how much of the disk they took; may be NULL.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * A template cannot be used when no image of the store has its root file system, or when it was
 * made with another kernel, agent or QEMU than boxes get now.
 *
 * Returns: 0; -HOLT_EINVALID, -HOLT_EDENIED, -HOLT_EIO, -HOLT_ENO_MEMORY.
 * Ownership: nothing changes hands.
 * Threads: any thread.
 * Blocks: for file operations.
 * Since: 0.1
 */
HOLT_API int holt_template_prune(holt_home *home, uint64_t max_bytes, size_t *ret_n,
	uint64_t *ret_bytes, holt_error **reterr);

/**
 * holt_template_spares - tell how many machines of an image shall wait to become boxes.
 * @home: an open home; must not be NULL.
 * @image: reference of an image in the store; must not be NULL.
 * @n: how many, up to HOLT_TEMPLATE_SPARES_MAX; 0 ends those that there are, and starts no more.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * A spare is a copy of the image's template that was started, warmed up and paused. The first start
 * of a box of the default shape takes one over with its memory and disk, which takes milliseconds,
 * and starts another one for the next box; so does each later start, in any process. A spare that
 * nobody takes within 10 minutes ends, and so do spares while less than a tenth of the host's
 * memory is available, or to make room below the home's max_memory_bytes. The template is made
 * where it is missing. The number is forgotten with the template or the image.
 *
 * Returns: 0 once all are ready; -HOLT_EINVALID for a number out of range; -HOLT_ENOT_FOUND for an
 * unknown image, a missing kernel, keeper or QEMU; -HOLT_ELIMIT where the home's ceiling on memory
 * leaves no room, or for a full disk; -HOLT_ETIMEOUT where they were not ready in time: those that
 * are stay, and the number is kept; for the template as holt_template_build.
 * Ownership: nothing changes hands.
 * Threads: any thread.
 * Blocks: for at most 30 s, and before that as holt_template_build where the template is missing;
 * for each one that is ended at most 2.5 s, normally milliseconds.
 * Since: 0.1
 */
HOLT_API int holt_template_spares(
	holt_home *home, const char *image, unsigned n, holt_error **reterr);

#ifdef __cplusplus
}
#endif
#endif
