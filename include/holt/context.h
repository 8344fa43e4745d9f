/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOLT_CONTEXT_H
#define HOLT_CONTEXT_H

/*
 * The request that a thread is working for. What the library does for a thread on another one
 * (jobs, asynchronous acquires) has that thread's context. The trace id is added to log lines and
 * to the events that a box's keeper writes.
 */

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

#define HOLT_TRACE_LEN_MAX 128u

/**
 * holt_context_set_trace - name the request that this thread is working for, from now on.
 * @trace: 1 to HOLT_TRACE_LEN_MAX printable characters of ASCII without blanks; NULL: none.
 *
 * Returns: 0, or -HOLT_EINVALID, which changes nothing.
 * Ownership: @trace is copied.
 * Threads: any thread; each has its own.
 * Blocks: never.
 * Since: 0.1
 */
HOLT_API int holt_context_set_trace(const char *trace);

/**
 * holt_context_trace - tell the request that this thread is working for.
 *
 * Returns: its trace id, or "".
 * Ownership: borrowed until this thread sets another one or ends.
 * Threads: any thread; each has its own.
 * Blocks: never.
 * Since: 0.1
 */
HOLT_API const char *holt_context_trace(void);

#ifdef __cplusplus
}
#endif
#endif
