/* SPDX-License-Identifier: Apache-2.0 */
#ifndef IMAGE_REGISTRY_H
#define IMAGE_REGISTRY_H

#include "image/credentials.h"
#include "image/http.h"
#include "image/manifest.h"
#include "image/ref.h"
#include "image/registries.h"

/*
 * One repository of a registry, read by the distribution protocol (OCI distribution 1.1, docker
 * registry v2): manifests and blobs, with bearer tokens (taken when asked for, taken again when
 * they expire), basic login, mirrors. One thread at a time per connection (struct registry_link);
 * all links of one repository share what was learnt: tokens and the endpoint that answered.
 */

struct registry; /* shared, locked inside */
struct registry_link; /* one thread's connection */

struct registry_options {
	const struct registries *registries; /* outlives the registry */
	bool insecure; /* for this call, whatever the file says */
	const char *ca_file;
	const char *user; /* instead of what docker's configuration says; with a password */
	const char *password;
	const volatile int *cancel;
};

int registry_open(const struct ref *ref, const struct registry_options *o, struct registry **ret,
	holt_error **reterr);
void registry_close(struct registry *r); /* after its links */

/* @cancel: ends this link's requests; NULL: the registry's does. */
int registry_link_open(struct registry *r, const volatile int *cancel, struct registry_link **ret,
	holt_error **reterr);
void registry_link_close(struct registry_link *l);

struct registry_manifest {
	char *text; /* with a NUL behind it */
	size_t len;
	char digest[DIGEST_STR_LEN + 1]; /* of the text, verified; asked for by tag: computed */
};

/* The manifest or index that @reference (a tag or digest) means now, at most MANIFEST_BYTES_MAX. */
int registry_manifest(struct registry_link *l, const char *reference, struct registry_manifest *ret,
	holt_error **reterr);

/* The bytes of a blob from @from on, in order, to a sink; once (HOLT_EUNAVAILABLE where the
 * connection broke: ask again from where the sink came to). @at tells where the data belongs: 0
 * again where the registry cannot begin in the middle. Neither size nor digest is verified here,
 * but no more than the descriptor's size is taken. */
int registry_blob(struct registry_link *l, const struct descriptor *d, uint64_t from,
	int (*sink)(void *user, uint64_t at, const void *data, size_t len, holt_error **reterr),
	void *user, holt_error **reterr);

/* What arrived does not verify: the registry itself is asked from now on. False where nothing but
 * the registry was asked, and it is pointless to try again. Any thread. */
bool registry_leave_mirrors(struct registry *r);

#endif
