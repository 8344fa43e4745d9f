/* SPDX-License-Identifier: Apache-2.0 */
#include "holt/provider.h"

#include "api/options.h"
#include "api/provider_options.h"
#include "box/box_pool.h"
#include "base/banned.h"

/* A provider over the boxes of a home. */
HOLT_API int holt_provider_open(holt_home *home, holt_config *config,
	const holt_provider_options *options, holt_provider **ret, holt_error **reterr)
{
	void *self = NULL;

	if (!home || !ret)
		return api_null(home ? "ret" : "home", reterr);
	int r = box_pool_new(home, &self, reterr);
	if (r < 0)
		return r;
	r = api_provider_open(&box_pool, self, config, options, ret, reterr);
	if (r < 0)
		box_pool.close(self);
	return r;
}
