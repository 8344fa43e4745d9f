/* SPDX-License-Identifier: Apache-2.0 */
#include "base/thread_context.h"

#include <errno.h>
#include <string.h>

#include "base/banned.h"

static __thread struct context own;

void context_get(struct context *ret)
{
	*ret = own;
}

void context_set(const struct context *c)
{
	own = *c;
}

int context_set_trace(const char *trace)
{
	struct context c = {0};
	const size_t len = trace ? strnlen(trace, CONTEXT_TRACE_MAX + 1) : 0;

	if (trace && (len == 0 || len > CONTEXT_TRACE_MAX))
		return -EINVAL;
	for (size_t i = 0; i < len; i++) {
		if (trace[i] <= ' ' || trace[i] > '~')
			return -EINVAL;
		c.trace[i] = trace[i];
	}
	own = c;
	return 0;
}

const char *context_trace(void)
{
	return own.trace;
}
