/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/banned.h"

#define BUF_FIRST 256

uint8_t *buf_reserve(struct buf *b, size_t len)
{
	if (len > b->max || b->len > b->max - len)
		return NULL;
	const size_t need = b->len + len + 1; /* room for the NUL of text builders */
	if (need > b->cap) {
		size_t cap = b->cap ? b->cap : BUF_FIRST;

		while (cap < need)
			cap *= 2;
		uint8_t *data = mem_resize(b->data, cap, 1);
		if (!data)
			return NULL;
		b->data = data;
		b->cap = cap;
	}
	return b->data + b->len;
}

int buf_append(struct buf *b, const void *data, size_t len)
{
	if (len > b->max || b->len > b->max - len)
		return -EMSGSIZE;
	uint8_t *to = buf_reserve(b, len);
	if (!to)
		return -ENOMEM;
	if (len)
		memcpy(to, data, len);
	b->len += len;
	b->data[b->len] = 0;
	return 0;
}

int buf_appends(struct buf *b, const char *s)
{
	return buf_append(b, s, strlen(s));
}

int buf_printf(struct buf *b, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	const int n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (n < 0)
		return -EINVAL;
	if ((size_t)n > b->max || b->len > b->max - (size_t)n)
		return -EMSGSIZE;
	uint8_t *to = buf_reserve(b, (size_t)n);
	if (!to)
		return -ENOMEM;
	va_start(ap, fmt);
	(void)vsnprintf((char *)to, (size_t)n + 1, fmt, ap);
	va_end(ap);
	b->len += (size_t)n;
	return 0;
}

void buf_consume(struct buf *b, size_t len)
{
	if (len >= b->len) {
		b->len = 0;
		return;
	}
	memmove(b->data, b->data + len, b->len - len);
	b->len -= len;
}

void buf_done(struct buf *b)
{
	mem_free(b->data);
	b->data = NULL;
	b->len = b->cap = 0;
}
