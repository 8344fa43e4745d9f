/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include "holt/base.h"

/* One line to the sink, if there is one and the level asks for it. */
void log_line(int level, const char *component, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#define log_debug(component, ...) log_line(HOLT_LOG_DEBUG, component, __VA_ARGS__)
/* What somebody who waits may want to know. */
#define log_info(component, ...) log_line(HOLT_LOG_INFO, component, __VA_ARGS__)
#define log_warn(component, ...) log_line(HOLT_LOG_WARN, component, __VA_ARGS__)

#endif
