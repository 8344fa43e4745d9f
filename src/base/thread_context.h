/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_THREAD_CONTEXT_H
#define BASE_THREAD_CONTEXT_H

/*
 * What a thread is working for (public face: holt/context.h). Each thread has its own; whoever
 * hands work to another thread hands a copy on.
 */
#define CONTEXT_TRACE_MAX 128u

struct context {
	char trace[CONTEXT_TRACE_MAX + 1]; /* "": none */
};

void context_get(struct context *ret);
void context_set(const struct context *c);
/* NULL: none. 0, or -EINVAL for what is empty, too long, or not printable ASCII without blanks. */
int context_set_trace(const char *trace) __attribute__((warn_unused_result));
/* "": none. Lives until the thread sets another one. */
const char *context_trace(void);

#endif
