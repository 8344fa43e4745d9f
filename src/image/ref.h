/* SPDX-License-Identifier: Apache-2.0 */
#ifndef IMAGE_REF_H
#define IMAGE_REF_H

#include "base/err.h"

#include <stdbool.h>

/*
 * Image references as docker writes them: [registry[:port]/][path/]name[:tag][@digest].
 * Docker Hub's long forms are stored short, so that "docker.io/library/alpine" and "alpine" are one
 * name. The tag is "latest" where none is given.
 */

#define REF_REPOSITORY_MAX 255 /* bytes, as the distribution specification says */
#define REF_TAG_MAX        128
#define REF_HUB            "docker.io" /* what Docker Hub is called; not the host to ask */

struct ref {
	char *repository;
	char *tag; /* never NULL after ref_parse */
	char *digest; /* "sha256:..." or NULL */
};

int ref_parse(const char *text, struct ref *ret, holt_error **reterr);
void ref_done(struct ref *r);
#define auto_ref __attribute__((cleanup(ref_done))) struct ref

/* "repository:tag" in fresh memory for a reference without a digest (refused otherwise: such a
 * reference cannot be given to an image). */
int ref_normalise(const char *text, char **ret, holt_error **reterr);

/* Where the image comes from: "host[:port]", REF_HUB where none is named, and the repository there
 * ("library/alpine" for "alpine"), both in fresh memory. */
int ref_locate(const struct ref *r, char **ret_registry, char **ret_path, holt_error **reterr);

/* Whether @text is "sha256:" and 4 to 64 hex digits, or 4 to 64 hex digits alone: what stands for
 * an image by its digest. *ret_hex then points at the digits in @text. */
bool ref_is_digest(const char *text, const char **ret_hex);

#endif
