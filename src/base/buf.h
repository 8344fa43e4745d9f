/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include <stddef.h>
#include <stdint.h>

/* A growing byte buffer that is born with a maximum. Appending is all or nothing and returns
 * 0, -ENOMEM or -EMSGSIZE (over the maximum). Text builders keep a NUL after the last byte. */
struct buf {
	uint8_t *data;
	size_t len;
	size_t cap;
	size_t max;
};

#define BUF_INIT(max_) ((struct buf){.max = (max_)})

int buf_append(struct buf *b, const void *data, size_t len) __attribute__((warn_unused_result));
int buf_appends(struct buf *b, const char *s) __attribute__((warn_unused_result));
int buf_printf(struct buf *b, const char *fmt, ...)
	__attribute__((format(printf, 2, 3), warn_unused_result));
/* Make room for @len more bytes and return where they go (then add to b->len), or NULL. */
uint8_t *buf_reserve(struct buf *b, size_t len) __attribute__((warn_unused_result));
/* Drop @len bytes at the front. */
void buf_consume(struct buf *b, size_t len);
void buf_done(struct buf *b);
#define auto_buf __attribute__((cleanup(buf_done))) struct buf

#endif
