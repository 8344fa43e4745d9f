/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/str.h"
#include "base/thread_context.h"
#include "base/banned.h"

#define LOG_LINE_MAX  2048
#define LOG_TRACE_MAX (sizeof " trace=" + CONTEXT_TRACE_MAX)

static struct {
	int level;
	holt_log_fn fn;
	void *user;
} sink;

HOLT_API void holt_log_set(int level, holt_log_fn fn, void *user)
{
	sink.fn = NULL;
	sink.level = level;
	sink.user = user;
	sink.fn = fn;
}

void log_line(int level, const char *component, const char *fmt, ...)
{
	char line[LOG_LINE_MAX];
	char safe[LOG_LINE_MAX + LOG_TRACE_MAX];
	va_list ap;

	if (!sink.fn || level > sink.level)
		return;
	va_start(ap, fmt);
	const int n = vsnprintf(line, sizeof line, fmt, ap);
	va_end(ap);
	if (n < 0)
		return;
	const size_t len = str_escape(safe, LOG_LINE_MAX, line,
		(size_t)n < sizeof line ? (size_t)n : sizeof line - 1, false);
	const char *trace = context_trace();
	if (*trace)
		(void)snprintf(safe + len, sizeof safe - len, " trace=%s", trace);
	sink.fn(level, component, safe, sink.user);
}
