/* SPDX-License-Identifier: Apache-2.0 */
#ifndef API_PROVIDER_OPTIONS_H
#define API_PROVIDER_OPTIONS_H

#include "holt/sys/pool.h"

/* A provider over a pool whose table is complete; @self stays the caller's where it fails. */
int api_provider_open(const holt_pool *pool, void *self, const struct holt_config *config,
	const holt_provider_options *options, holt_provider **ret, holt_error **reterr);

#endif
