/* SPDX-License-Identifier: Apache-2.0 */
#ifndef IMAGE_LOADER_H
#define IMAGE_LOADER_H

#include "image/blobs.h"
#include "image/pull.h"
#include "image/registry.h"

/*
 * The threads of a pull: PULL_PARALLEL of them take the blobs of a list, last one first, each from
 * the registry into the store's blobs. The first failure ends all. One thread uses a loader.
 */

struct loader;

struct load_state {
	enum pull_phase phase; /* WAITING, LOADING, RETRY, LOADED or KEPT */
	uint64_t have_bytes;
};

/* Start loading @wanted, which stays the caller's, as do the others, until loader_free. */
int loader_new(struct image_store *s, struct registry *r, const struct descriptor *wanted, size_t n,
	struct loader **ret, holt_error **reterr);
/* Ends what is still loading, and closes all blobs. NULL is fine. */
void loader_free(struct loader *l);

/* Wait until a thread has begun with number @at, or for @timeout_ms. *ret is then the blob, the
 * loader's, else NULL. Fails as the first of the threads did. */
int loader_blob(
	struct loader *l, size_t at, unsigned timeout_ms, struct blob **ret, holt_error **reterr);
void loader_state(struct loader *l, size_t at, struct load_state *ret);
/* Wait until all threads are done, or for @timeout_ms: 1 when they are, else 0; fails as they did.
 */
int loader_done(struct loader *l, unsigned timeout_ms, holt_error **reterr);
/* Whether a blob was there before, or is the rest of one that was: what was wrong with it may go
 * away when it is loaded anew. Removes those that were; 0 where there were none. */
size_t loader_discard_old(struct loader *l);

#endif
