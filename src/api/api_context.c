/* SPDX-License-Identifier: Apache-2.0 */
#include "holt/context.h"

#include "base/thread_context.h"
#include "base/banned.h"

_Static_assert(
	HOLT_TRACE_LEN_MAX == CONTEXT_TRACE_MAX, "the length of a trace id is written twice");

HOLT_API int holt_context_set_trace(const char *trace)
{
	return context_set_trace(trace) < 0 ? -HOLT_EINVALID : 0;
}

HOLT_API const char *holt_context_trace(void)
{
	return context_trace();
}
