/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GUEST_PATTERN_CONFINE_H
#define GUEST_PATTERN_CONFINE_H

#include <stdbool.h>
#include <stddef.h>

/* The most that a pattern grows. */
#define PATTERN_CONFINED_FACTOR 16

/* Write the valid regular expression @text so that no part of it matches an LF, for texts that are
 * @ascii or for all, into @dst of PATTERN_CONFINED_FACTOR * @len bytes. Returns false where that is
 * not possible, or not known to be. */
bool pattern_confine(const char *text, size_t len, bool ascii, char *dst, size_t *ret_len);

#endif
