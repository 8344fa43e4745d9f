/* SPDX-License-Identifier: Apache-2.0 */
#ifndef IMAGE_BLOBS_H
#define IMAGE_BLOBS_H

#include "image/manifest.h"
#include "image/store.h"

/*
 * Compressed layers and other blobs that were pulled, in the store's "blobs" directory:
 *
 *   blobs/HEX          a whole blob; its mtime is when it was last used
 *   blobs/HEX.part     what has arrived of one, in order; stays after a cut, and the next pull goes
 *                      on behind it
 *
 * A cache: an image does not need its blobs; it saves loading a layer again that another image, or
 * the next tag, has too. Who loads a blob holds an exclusive flock on its file, who reads it a
 * shared one; any other may be removed by who gets an exclusive one without waiting, has it until
 * the name is gone, and finds the name still meaning this file (the budget, prune). A blob was
 * right when it was published; its readers check that it
 * still is, and one who finds it wrong may remove it.
 */

#define BLOBS_BYTES_MAX (UINT64_C(8) << 30) /* of all blobs that nobody uses, after a pull */

#define BLOB_DIR  "blobs"
#define BLOB_PART ".part"

/* Remove what was not used for longest until all blobs take at most @max_bytes of the disk. What is
 * in use stays, and so does what cannot be removed. Gives the bytes that went. */
uint64_t blobs_trim(struct image_store *s, uint64_t max_bytes);
/* How many there are, what they take, and what of that trimming to nothing would free. */
struct blobs_use {
	size_t n;
	size_t n_busy;
	uint64_t bytes;
	uint64_t free_bytes;
};
void blobs_look(struct image_store *s, struct blobs_use *ret);

struct blob; /* one that is there, or is arriving */

/* Find a blob or begin one. Where another process loads it, waits until that is done or dead. */
int blob_open(struct image_store *s, const struct descriptor *d, const volatile int *cancel,
	struct blob **ret, holt_error **reterr);
/* What has arrived stays. NULL is fine. */
void blob_close(struct blob *b);
/* Close it and let it go, whole or not: it is not what it should be. */
void blob_discard(struct blob *b);

/* For reading while it arrives; the blob's own. */
int blob_fd(const struct blob *b);

/* ---- by any thread ---- */

bool blob_is_whole(struct blob *b);
uint64_t blob_have(struct blob *b); /* bytes that are there, from the beginning */
/* Wait until there are more than @at bytes, or the blob has failed, or for @timeout_ms. *ret_have
 * is what there is, 0 or an error of the loader's. */
int blob_wait(
	struct blob *b, uint64_t at, unsigned timeout_ms, uint64_t *ret_have, holt_error **reterr);

/* ---- by the one that loads ---- */

/* Data at the end, or from 0 again: a sink (struct http_request). More than the blob's size is
 * HOLT_EINVALID. */
int blob_write(void *blob, uint64_t at, const void *data, size_t len, holt_error **reterr);
/* After the last byte: check the digest and give it its name. HOLT_EINVALID where it is wrong; then
 * nothing of it is there any more, and it may be written from 0 again. */
int blob_commit(struct blob *b, holt_error **reterr);
/* It does not come: whoever waits for its bytes is told @code and @message. */
void blob_fail(struct blob *b, int code, const char *message);

#endif
