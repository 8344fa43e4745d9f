/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOLT_IMAGE_PULL_H
#define HOLT_IMAGE_PULL_H

/*
 * Pulling: from a registry into the local store. A reference is written as docker writes it,
 * "[registry[:port]/][path/]name[:tag][@digest]"; without a registry Docker Hub is meant, without a
 * tag "latest". An id ("sha256:...", or 4 hex digits or more alone) names nothing that a registry
 * could be asked for.
 *
 * How registries are reached (mirrors, certificates) is said in the file "registries.yaml" of the
 * home; logins are those of docker's configuration, unless the call brings one.
 */

#include "image.h"

#ifdef __cplusplus
extern "C" {
#endif

enum holt_pull_policy {
	HOLT_PULL_ALWAYS = 0, /* ask the registry what the reference means now */
	HOLT_PULL_MISSING = 1, /* ask only where the store has no such image */
	HOLT_PULL_NEVER = 2 /* only look into the store */
};

enum holt_pull_flags {
	HOLT_PULL_INSECURE = 1 << 0 /* certificates are not checked, and http is tried where https
				       fails */
};

enum holt_pull_phase {
	HOLT_PULL_RESOLVED = 0, /* the manifest is known: no layer, the image's digest, all bytes */
	HOLT_PULL_WAITING = 1, /* a layer that is not loaded yet */
	HOLT_PULL_LOADING = 2, /* its bytes are arriving */
	HOLT_PULL_RETRY = 3, /* the connection broke, or the registry wants a pause; it goes on */
	HOLT_PULL_LOADED = 4, /* all of it is there and verified */
	HOLT_PULL_KEPT = 5, /* it was there before */
	HOLT_PULL_CONVERTED = 6, /* it is in the root file system */
	HOLT_PULL_DONE =
		7 /* the image is in the store: no layer, the image's digest; the last one */
};

typedef struct holt_pull_event {
	size_t struct_size; /* how much of this the library knows */
	int32_t phase; /* enum holt_pull_phase; ignore what is unknown */
	uint32_t layer; /* 1 is the base; 0: the image as a whole */
	uint32_t layers; /* how many there are; 0: not known */
	int32_t changed; /* DONE: the image is new, or its name meant another one before */
	const char *digest; /* of the layer as it is loaded, or of the image; never NULL */
	uint64_t done_bytes; /* of the layer, as it is loaded */
	uint64_t total_bytes;
} holt_pull_event;

typedef struct holt_pull_options {
	size_t struct_size; /* set by HOLT_PULL_OPTIONS_INIT */
	int32_t policy; /* enum holt_pull_policy */
	uint32_t flags; /* enum holt_pull_flags */
	const char *platform; /* "linux/amd64", the only one whose programs run here; NULL: that */
	const char *ca_file; /* PEM file of the authority that signed the registry's certificate;
				NULL: as registries.yaml says, else the system's */
	const char *username; /* instead of what docker's configuration has for the registry; with
				 password; NULL: no login of this call's */
	const char *password; /* never stored, logged or sent to another host */
	/* Told of progress; may be NULL. Called on the thread of the call, at most some ten times a
	 * second and layer. The event and its digest are borrowed until it returns. */
	void (*event)(const holt_pull_event *event, void *user);
	holt_cancel *cancel; /* ends the pull with HOLT_ECANCELLED; may be NULL */
	void *user; /* handed to event */
} holt_pull_options;

#define HOLT_PULL_OPTIONS_INIT                                                            \
	{                                                                                 \
		sizeof(holt_pull_options), 0, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL \
	}

/**
 * holt_image_pull - have an image in the store, loading it from its registry where needed.
 * @home: an open home; must not be NULL.
 * @ref: reference of the image; must not be NULL.
 * @options: may be NULL for the defaults.
 * @ret: receives the image; may be NULL.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * Layers are loaded several at a time, verified, and converted while they arrive. What arrived of a
 * pull that is cut short, in whatever way, stays in the home, and the next one goes on behind it;
 * an image that is not complete never shows. Of several that pull the same image, in any processes,
 * one does the work. A name that meant another image means this one afterwards; the other stays,
 * nameless.
 *
 * An id is only looked up, whatever the policy.
 *
 * Returns: 0; -HOLT_EINVALID for a malformed reference, an option out of range, or for data that is
 * not what its digest says; -HOLT_ENOT_FOUND for an image that the registry does not have, or the
 * store where the registry is not to be asked; -HOLT_EDENIED where the registry wants a login or
 * refuses it, or a file cannot be read; -HOLT_EUNAVAILABLE where the registry cannot be reached or
 * fails; -HOLT_EUNSUPPORTED for another platform, or a kind of image that is not known;
 * -HOLT_ELIMIT beyond a stated limit or without space; -HOLT_ECANCELLED; -HOLT_EPROTOCOL for
 * answers that make no sense; -HOLT_EIO, -HOLT_ENO_MEMORY.
 * Ownership: the caller frees *@ret with holt_image_free.
 * Threads: any thread.
 * Blocks: as long as loading and converting take; a registry that sends nothing is given up after
 * some minutes; see options.cancel.
 * Since: 0.1
 */
HOLT_API int holt_image_pull(holt_home *home, const char *ref, const holt_pull_options *options,
	holt_image **ret, holt_error **reterr);

/**
 * holt_pull_phase_name - tell the name of a phase.
 * @phase: enum holt_pull_phase, or any other number.
 *
 * Returns: a word in lower case such as "loading"; "unknown" for other numbers.
 * Ownership: static.
 * Threads: any thread.
 * Blocks: never.
 * Since: 0.1
 */
HOLT_API const char *holt_pull_phase_name(int phase);

#ifdef __cplusplus
}
#endif
#endif
