/* SPDX-License-Identifier: Apache-2.0 */
#include "holt/sandbox.h"

#include "api/options.h"
#include "api/sandbox_options.h"
#include "box/box_backend.h"
#include "base/banned.h"

/* The one place where sandbox and box meet. */

HOLT_API int holt_sandbox_open(
	holt_box *box, const holt_sandbox_options *options, holt_sandbox **ret, holt_error **reterr)
{
	holt_sandbox_options o = HOLT_SANDBOX_OPTIONS_INIT;
	void *self = NULL;

	if (!box || !ret)
		return api_null(box ? "ret" : "box", reterr);
	int r = api_sandbox_read(options, &o, reterr);
	if (r == 0)
		r = box_backend_new(box, o.user, o.cwd, &self, reterr);
	if (r < 0)
		return r;
	if (!o.id)
		o.id = holt_box_id(box);
	r = api_sandbox_make(&box_backend, self, &o, ret, reterr);
	if (r < 0)
		box_backend.close(self);
	return r;
}
