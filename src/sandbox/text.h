/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SANDBOX_TEXT_H
#define SANDBOX_TEXT_H

#include "holt/sys/backend.h"

#include <stdbool.h>

/* Texts that clients of the contract compare. */

#define TEXT_TIME_SIZE 40

/* "1 second", "2 seconds", "1.5 seconds"; "any time" for HOLT_FOREVER. */
void text_time(char *dst, size_t size, uint64_t ms);

struct text_stream {
	const void *data;
	size_t len; /* what was kept */
	uint64_t total;
};

/* A command's output and end in one text, NUL-terminated, of *ret_len bytes besides, that mem_free
 * frees; NULL without memory. */
char *text_compose(const struct text_stream *out, const struct text_stream *err,
	const holt_exit *exit, uint64_t timeout_ms, size_t *ret_len);

/* The length of the character at @p if it is one of UTF-8. If not, *ret_valid is false, and it is
 * that of the longest part of one, at least 1. @len is not 0. */
size_t text_utf8_step(const unsigned char *p, size_t len, bool *ret_valid);

/* Where @n characters of @p end, or @len where there are no more than that. A byte that belongs to
 * none counts as one. */
size_t text_chars(const char *p, size_t len, size_t n);

#endif
