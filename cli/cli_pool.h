/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_CLI_POOL_H
#define CLI_CLI_POOL_H

#include "cli.h"

/*
 * The pool that a call is about: a configuration, its home, and a provider where one is needed.
 * Each call has a provider of its own, since the pool is the home's: what one call leaves warm the
 * next one finds.
 */
struct pool_choice {
	const char *config; /* a file; NULL: $HOLT_CONFIG, else no file */
	const char *image; /* these three instead of what the configuration says; may be NULL */
	const char *pool;
	const char *pull;
};

struct pool {
	holt_config *config;
	holt_home *home;
	holt_provider *provider; /* NULL until pool_provider */
};

/* Read the configuration and open its home, which $HOLT_HOME overrides. Returns 0 or a negative
 * code; pool_close is needed in any case. */
int pool_open(const struct pool_choice *choice, struct pool *ret, holt_error **reterr);
/* @sandbox: how sandboxes of it are opened; NULL: by the defaults. */
int pool_provider(struct pool *p, const holt_sandbox_options *sandbox, holt_error **reterr);
/* The name of the pool. */
const char *pool_name(struct pool *p);
/* The sandboxes live on. */
void pool_close(struct pool *p);

/* A box by name or id, or by the id that it has in the pool. Returns 0 or a negative code. */
int pool_find_box(struct pool *p, const char *ref, holt_box **ret, holt_error **reterr);

#endif
