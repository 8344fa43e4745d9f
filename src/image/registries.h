/* SPDX-License-Identifier: Apache-2.0 */
#ifndef IMAGE_REGISTRIES_H
#define IMAGE_REGISTRIES_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

/*
 * The file "registries.yaml" of the home: how registries are reached. It may be missing.
 *
 *   registries:
 *     docker.io:
 *       mirrors: [https://mirror.example.org, http://127.0.0.1:5000/cache]
 *     registry.example.org:5000:
 *       insecure: true
 *       ca_file: /etc/ssl/example.pem
 *
 * Mirrors are asked in order, then the registry itself; an image keeps the name that was asked for.
 */

#define REGISTRIES_MAX         256
#define REGISTRIES_MIRRORS_MAX 8

/* One place to ask. */
struct registry_endpoint {
	char *url; /* "https://host[:port][/prefix]"; "/v2/" follows */
	char *host; /* "host[:port]" as credentials know it; REF_HUB for Docker Hub */
	bool mirror;
	bool insecure; /* certificates are not checked, http is tried where https fails */
	char *ca_file; /* or NULL */
};

struct registries;

/* @path may be missing: then every registry is reached directly. */
int registries_read(const char *path, struct registries **ret, holt_error **reterr);
void registries_free(struct registries *r);

/* Where to ask for @registry ("docker.io" means Docker Hub's real host): a fresh array, never
 * empty, mirrors first. A loopback address or "localhost" is asked by http, unless it has a CA file
 * or is insecure (then https comes first as elsewhere). @r may be NULL. */
int registries_endpoints(const struct registries *r, const char *registry,
	struct registry_endpoint **ret, size_t *ret_n, holt_error **reterr);
/* Whether "host[:port]", perhaps with a path behind it, is this machine: 127.0.0.0/8, [::1] or
 * localhost. */
bool registry_is_loopback(const char *host);
void registry_endpoints_free(struct registry_endpoint *e, size_t n);

#endif
