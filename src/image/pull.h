/* SPDX-License-Identifier: Apache-2.0 */
#ifndef IMAGE_PULL_H
#define IMAGE_PULL_H

#include "image/images.h"
#include "image/registries.h"

/*
 * From a registry to an image in the store. The caller's thread converts, PULL_PARALLEL threads
 * load: blobs are loaded newest layer first, since layers are converted in that order, each while
 * it arrives. Whoever pulls the same image at the same time, in whichever process, waits for the
 * digest's lock and finds it there.
 */

#define PULL_PARALLEL        3 /* blobs that are loaded at once */
#define PULL_TRIES           5 /* of one blob without a byte of progress */
#define PULL_CONNECTIONS_MAX 1000 /* of one blob, whatever each brings */

enum pull_phase {
	PULL_RESOLVED, /* the manifest is known: layer 0, digest is the image's, total of all layers
			*/
	PULL_WAITING, /* a layer that nobody loads yet */
	PULL_LOADING, /* bytes are arriving */
	PULL_RETRY, /* the connection broke or the registry said wait; it goes on */
	PULL_LOADED, /* all there, verified */
	PULL_KEPT, /* was there before */
	PULL_CONVERTED, /* is in the root file system */
};

struct pull_event {
	enum pull_phase phase;
	unsigned layer; /* 1 is the base; 0: none */
	unsigned n_layers;
	const char *digest;
	uint64_t done_bytes; /* of this layer, as compressed */
	uint64_t total_bytes;
};

struct image_pull_options {
	const struct registries *registries;
	bool insecure;
	const char *ca_file;
	const char *user;
	const char *password;
	/* On the caller's thread, LOADING at most ten times a second and layer; may be NULL. */
	void (*event)(const struct pull_event *e, void *user_data);
	void *user_data;
	const volatile int *cancel;
};

/* @ref with a tag or digest. *ret_changed: whether the image was not in the store or the name meant
 * another. An image that is there with this very digest costs one request (and its login). */
int image_pull(struct image_store *s, const char *ref, const struct image_pull_options *o,
	struct image **ret, bool *ret_changed, holt_error **reterr);

#endif
