/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GUEST_PATTERN_PYTHON_H
#define GUEST_PATTERN_PYTHON_H

#include <stddef.h>

/* The most bytes that come of @len. */
#define PATTERN_PYTHON_MAX(len) ((len) + (len) / 3)

/* Write the regular expression @text, in which there is no LF, as PCRE2 has it into @dst of
 * PATTERN_PYTHON_MAX(@len) bytes. Returns how many it takes. */
size_t pattern_python(const char *text, size_t len, char *dst);
/* Where in @text that is which stands at @offset in what pattern_python makes of it. */
size_t pattern_python_origin(const char *text, size_t len, size_t offset);

#endif
