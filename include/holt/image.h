/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOLT_IMAGE_H
#define HOLT_IMAGE_H

/*
 * OCI images in the local store. A reference is written as docker writes it, "name[:tag]" with the
 * default tag "latest", or is a digest ("sha256:...") or a unique prefix of one (4 hex digits or
 * more).
 */

#include "home.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct holt_image holt_image;

typedef struct holt_image_import_options {
	size_t struct_size; /* set by HOLT_IMAGE_IMPORT_OPTIONS_INIT */
	const char *name; /* reference for the image; NULL: the one in the layout, else none */
	/* Told of progress: bytes read so far, and in all (0: not known); may be NULL. Called on
	 * the thread of the call. */
	void (*progress)(uint64_t done_bytes, uint64_t total_bytes, void *user);
	holt_cancel *cancel; /* ends the import with HOLT_ECANCELLED; may be NULL */
	void *user; /* handed to progress */
} holt_image_import_options;

#define HOLT_IMAGE_IMPORT_OPTIONS_INIT                                    \
	{                                                                 \
		sizeof(holt_image_import_options), NULL, NULL, NULL, NULL \
	}

/**
 * holt_image_import - import an OCI layout (directory or tar) or a plain rootfs tar.
 * @home: an open home; must not be NULL.
 * @path: the layout or tar file; must not be NULL. Tar files may be gzip, zstd or xz compressed.
 * @options: may be NULL for the defaults.
 * @ret: receives the image; may be NULL.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * Every digest is checked. Nothing is unpacked on the host, no privilege is needed. A failed import
 * leaves the store as it was.
 *
 * Returns: 0; -HOLT_EINVALID for input that is damaged or not an image; -HOLT_ENOT_FOUND for a
 * missing path; -HOLT_ELIMIT beyond a stated limit or without space; -HOLT_ECANCELLED;
 * -HOLT_EUNSUPPORTED for another architecture; -HOLT_EDENIED, -HOLT_EIO, -HOLT_ENO_MEMORY.
 * Ownership: the caller frees *@ret with holt_image_free.
 * Threads: any thread.
 * Blocks: as long as reading, checking and compressing takes; see options.cancel.
 * Since: 0.1
 */
HOLT_API int holt_image_import(holt_home *home, const char *path,
	const holt_image_import_options *options, holt_image **ret, holt_error **reterr);

/**
 * holt_image_get - find an image.
 * @home: an open home; must not be NULL.
 * @ref: reference, digest or unique digest prefix; must not be NULL.
 * @ret: receives the image; must not be NULL.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * Returns: 0; -HOLT_ENOT_FOUND; -HOLT_EINVALID for a malformed reference or an ambiguous prefix;
 * -HOLT_EIO, -HOLT_ENO_MEMORY.
 * Ownership: the caller frees *@ret with holt_image_free.
 * Threads: any thread.
 * Blocks: for an index lookup.
 * Since: 0.1
 */
HOLT_API int holt_image_get(
	holt_home *home, const char *ref, holt_image **ret, holt_error **reterr);

/**
 * holt_image_list - list all references and unnamed images, sorted by name.
 * @home: an open home; must not be NULL.
 * @ret: receives an array of images; NULL where there is none; must not be NULL.
 * @ret_count: receives its length; must not be NULL.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * Returns: 0; -HOLT_EIO, -HOLT_ENO_MEMORY, -HOLT_EINVALID.
 * Ownership: the caller frees the array and its images with holt_image_list_free.
 * Threads: any thread.
 * Blocks: for an index lookup.
 * Since: 0.1
 */
HOLT_API int holt_image_list(
	holt_home *home, holt_image ***ret, size_t *ret_count, holt_error **reterr);

/**
 * holt_image_remove - remove a reference; the image goes with its last one.
 * @home: an open home; must not be NULL.
 * @ref: reference, digest or unique digest prefix; must not be NULL.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * Boxes that run from the image are not disturbed. Templates go with the last image that has their
 * root file system.
 *
 * Returns: 0; -HOLT_ENOT_FOUND; -HOLT_EINVALID; -HOLT_EIO, -HOLT_ENO_MEMORY.
 * Ownership: nothing changes hands.
 * Threads: any thread.
 * Blocks: for file operations.
 * Since: 0.1
 */
HOLT_API int holt_image_remove(holt_home *home, const char *ref, holt_error **reterr);

/**
 * holt_image_name - tell the reference of an image.
 * @image: an image; must not be NULL.
 *
 * Returns: a NUL-terminated string, never NULL; "" for an unnamed image.
 * Ownership: borrowed until @image is freed.
 * Threads: one thread at a time per object.
 * Blocks: never.
 * Since: 0.1
 */
HOLT_API const char *holt_image_name(const holt_image *image);

/**
 * holt_image_digest - tell the digest of an image ("sha256:" and 64 hex digits).
 * @image: an image; must not be NULL.
 *
 * Returns: a NUL-terminated string, never NULL.
 * Ownership: borrowed until @image is freed.
 * Threads: one thread at a time per object.
 * Blocks: never.
 * Since: 0.1
 */
HOLT_API const char *holt_image_digest(const holt_image *image);

/**
 * holt_image_size_bytes - tell how much disk the image's root file system takes.
 * @image: an image; must not be NULL.
 *
 * Returns: bytes.
 * Ownership: nothing changes hands.
 * Threads: one thread at a time per object.
 * Blocks: never.
 * Since: 0.1
 */
HOLT_API uint64_t holt_image_size_bytes(const holt_image *image);

/**
 * holt_image_imported_s - tell when the image came into the store.
 * @image: an image; must not be NULL.
 *
 * Returns: seconds since 1970.
 * Ownership: nothing changes hands.
 * Threads: one thread at a time per object.
 * Blocks: never.
 * Since: 0.1
 */
HOLT_API int64_t holt_image_imported_s(const holt_image *image);

/**
 * holt_image_json - describe an image with its configuration as one JSON object.
 * @image: an image; must not be NULL.
 *
 * Members: name, digest, rootfs_digest, size_bytes, layers, imported (RFC 3339), architecture, os,
 * config {env, entrypoint, cmd, working_dir, user, stop_signal}.
 *
 * Returns: a NUL-terminated string, or NULL without memory.
 * Ownership: borrowed until @image is freed.
 * Threads: one thread at a time per object.
 * Blocks: never.
 * Since: 0.1
 */
HOLT_API const char *holt_image_json(holt_image *image);

/**
 * holt_image_free - free an image.
 * @image: an image, or NULL.
 *
 * Returns: nothing.
 * Ownership: consumes @image.
 * Threads: one thread at a time per object.
 * Blocks: never.
 * Since: 0.1
 */
HOLT_API void holt_image_free(holt_image *image);

/**
 * holt_image_list_free - free an array of images.
 * @images: an array of holt_image_list, or NULL.
 * @count: its length.
 *
 * Returns: nothing.
 * Ownership: consumes @images.
 * Threads: one thread at a time per object.
 * Blocks: never.
 * Since: 0.1
 */
HOLT_API void holt_image_list_free(holt_image **images, size_t count);

#ifdef __cplusplus
}
#endif
#endif
