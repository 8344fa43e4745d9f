/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_STR_H
#define BASE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

char *str_dup(const char *s) __attribute__((malloc, warn_unused_result));
char *str_ndup(const char *s, size_t n) __attribute__((malloc, warn_unused_result));
/* A formatted string in fresh memory, or NULL. */
char *str_printf(const char *fmt, ...)
	__attribute__((format(printf, 1, 2), malloc, warn_unused_result));

bool str_starts(const char *s, const char *prefix);
bool str_ends(const char *s, const char *suffix);

/* Decimal digits only, no sign, no spaces, at most @max. Returns 0, -EINVAL or -ERANGE. */
int str_to_u64(const char *s, uint64_t max, uint64_t *ret);

/* A size in bytes, at least 1: decimal digits, then perhaps b, k, m, g or t, each 1024 of the one
 * before. Returns 0, -EINVAL or -ERANGE. */
int str_to_bytes(const char *s, uint64_t *ret);

/* Copy @len bytes of foreign text into @dst (size @cap, NUL-terminated, cut if too long) with
 * control characters, DEL, C1 controls and invalid UTF-8 as \xNN, so that a terminal is safe. Line
 * feeds stay if @keep_lf. Returns the length written. */
size_t str_escape(char *dst, size_t cap, const void *src, size_t len, bool keep_lf);

/* A NULL-terminated list of strings in fresh memory, each item and the list freed by strv_free. */
char **strv_dup(const char *const *list);
size_t strv_len(const char *const *list);
void strv_free(char **list);

#endif
