/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_DIGEST_H
#define BASE_DIGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* SHA-256 (the only user of libcrypto). */
#define DIGEST_HEX_LEN 64
#define DIGEST_STR_LEN (7 + DIGEST_HEX_LEN) /* "sha256:" and 64 hex digits */

struct digest_ctx;

struct digest_ctx *digest_new(void) __attribute__((warn_unused_result));
void digest_update(struct digest_ctx *ctx, const void *data, size_t len);
/* Write "sha256:<hex>" and a NUL; the context is then used up. */
void digest_final(struct digest_ctx *ctx, char ret_str[DIGEST_STR_LEN + 1]);
void digest_free(struct digest_ctx *ctx);

/* One call for a buffer. Returns 0 or -ENOMEM. */
int digest_of(const void *data, size_t len, char ret_str[DIGEST_STR_LEN + 1])
	__attribute__((warn_unused_result));

/* Whether @s is exactly "sha256:" and 64 lower-case hex digits. */
bool digest_valid(const char *s);

#endif
