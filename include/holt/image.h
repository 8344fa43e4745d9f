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
	const char *name; /* reference for the image; NULL: the one in the layout or archive, else
			     none */
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
 * holt_image_import - import an OCI layout (directory or tar), a docker archive or a rootfs tar.
 * @home: an open home; must not be NULL.
 * @path: the layout or archive; must not be NULL. Tar files may be gzip, zstd or xz compressed.
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
 * holt_image_tag - give an image one reference more.
 * @home: an open home; must not be NULL.
 * @ref: reference, digest or unique digest prefix of the image; must not be NULL.
 * @name: the reference to give, "name[:tag]"; must not be NULL. Where it means another image it is
 * taken from that one, which stays, without a name if need be.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * Returns: 0; -HOLT_ENOT_FOUND; -HOLT_EINVALID for a malformed reference or an ambiguous prefix;
 * -HOLT_EIO, -HOLT_ENO_MEMORY.
 * Ownership: nothing changes hands.
 * Threads: any thread.
 * Blocks: for an index update.
 * Since: 0.1
 */
HOLT_API int holt_image_tag(
	holt_home *home, const char *ref, const char *name, holt_error **reterr);

/**
 * holt_image_history - tell how an image was made, as its maker tells it.
 * @home: the home that the image is from; must not be NULL.
 * @image: an image; must not be NULL.
 * @ret: receives a line for each step, the newest first; must not be NULL.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * A line is a JSON object with the texts created (RFC 3339), created_by and comment, each "" where
 * it is not told, and the boolean empty_layer. Nothing of it is verified.
 *
 * Returns: 0; -HOLT_ENOT_FOUND where the image is not there any more; -HOLT_EINVALID for a NULL;
 * -HOLT_EIO, -HOLT_ENO_MEMORY.
 * Ownership: *@ret is borrowed until @image is freed.
 * Threads: one thread at a time per object.
 * Blocks: for an index lookup.
 * Since: 0.1
 */
HOLT_API int holt_image_history(
	holt_home *home, holt_image *image, const char **ret, holt_error **reterr);

enum holt_image_prune_flag {
	HOLT_IMAGE_PRUNE_ALL = 1, /* also images with a name */
	HOLT_IMAGE_PRUNE_DRY_RUN = 2 /* only tell what would go */
};

typedef struct holt_image_prune_options {
	size_t struct_size; /* set by HOLT_IMAGE_PRUNE_OPTIONS_INIT */
	uint32_t flags; /* of enum holt_image_prune_flag; 0: images without a name */
	uint64_t
		max_bytes; /* instead: those used longest ago, whatever names they have, until
			      images and pulled layers take no more of the disk; 0: no such limit */
	/* Told of each image that goes, @name being one of its names or "", @bytes what that frees;
	 * may be NULL. Called on the thread of the call. */
	void (*removed)(const char *name, const char *digest, uint64_t bytes, void *user);
	void *user; /* handed to removed */
} holt_image_prune_options;

#define HOLT_IMAGE_PRUNE_OPTIONS_INIT                              \
	{                                                          \
		sizeof(holt_image_prune_options), 0, 0, NULL, NULL \
	}

/**
 * holt_image_prune - remove images that neither a box nor a template needs.
 * @home: an open home; must not be NULL.
 * @options: may be NULL for the defaults.
 * @ret_bytes: receives how many bytes of the disk that frees; may be NULL.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * Pulled layers that are kept, and that nobody is pulling, go too: all of them, or with max_bytes
 * as many as that demands, before any image. An image that a box takes while it goes is lost to
 * others only.
 *
 * Returns: 0; -HOLT_EINVALID; -HOLT_EIO, -HOLT_ENO_MEMORY.
 * Ownership: nothing changes hands.
 * Threads: any thread.
 * Blocks: for file operations.
 * Since: 0.1
 */
HOLT_API int holt_image_prune(holt_home *home, const holt_image_prune_options *options,
	uint64_t *ret_bytes, holt_error **reterr);

/**
 * holt_image_export - write an image as an OCI archive.
 * @home: an open home; must not be NULL.
 * @ref: reference, digest or unique digest prefix; must not be NULL.
 * @fd: where to write: an open file, pipe or socket.
 * @cancel: ends the export with HOLT_ECANCELLED; may be NULL.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * The archive is a tar of an OCI image layout, which carries the name, the configuration, and the
 * root file system as one layer. The same image gives the same bytes. The layer is kept in the home
 * while it is made. After a failure @fd may have been given a part of the archive. A pipe without a
 * reader raises SIGPIPE, as it does with write(2).
 *
 * Returns: 0; -HOLT_ENOT_FOUND; -HOLT_EINVALID for a malformed reference or an ambiguous prefix;
 * -HOLT_ELIMIT without space; -HOLT_ECANCELLED; -HOLT_EIO, -HOLT_ENO_MEMORY.
 * Ownership: @fd stays the caller's.
 * Threads: any thread.
 * Blocks: as long as reading and writing takes; see @cancel.
 * Since: 0.1
 */
HOLT_API int holt_image_export(
	holt_home *home, const char *ref, int fd, holt_cancel *cancel, holt_error **reterr);

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
