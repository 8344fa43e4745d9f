/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOLT_IDENTITY_H
#define HOLT_IDENTITY_H

/*
 * Whose sandbox it is: a user and a thread of that user. Both are bytes with a length, UTF-8, and
 * are never changed: case, blanks and composed characters count.
 */

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

#define HOLT_SCOPE_TOKEN_LEN     16u
#define HOLT_SCOPE_TOKEN_VERSION 1
#define HOLT_SCOPE_BYTES_MAX     65536u /* of a user, and of a thread */

typedef struct holt_scope {
	size_t struct_size; /* set by HOLT_SCOPE_INIT */
	const char *user; /* NULL: no user, which is another one than the empty user */
	size_t user_len; /* bytes */
	const char *thread; /* NULL: no thread: a sandbox for one use that nobody finds again */
	size_t thread_len; /* bytes */
} holt_scope;

#define HOLT_SCOPE_INIT                              \
	{                                            \
		sizeof(holt_scope), NULL, 0, NULL, 0 \
	}

/**
 * holt_scope_token - derive the id of the sandbox of a user's thread.
 * @user: the user; NULL counts as the text "None".
 * @user_len: its length, up to HOLT_SCOPE_BYTES_MAX.
 * @thread: the thread; NULL counts as the text "None".
 * @thread_len: its length, up to HOLT_SCOPE_BYTES_MAX.
 * @ret: receives 16 hex digits and a NUL; must not be NULL.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * The first 64 bits of SHA-256 over user, a colon and thread, on every machine and in every version
 * the same. Different scopes may have one token: whoever reuses a sandbox compares user and thread,
 * too.
 *
 * Returns: 0; -HOLT_EINVALID for what is not UTF-8 or too long.
 * Ownership: nothing changes hands.
 * Threads: any thread.
 * Blocks: never.
 * Since: 0.1
 */
HOLT_API int holt_scope_token(const char *user, size_t user_len, const char *thread,
	size_t thread_len, char ret[HOLT_SCOPE_TOKEN_LEN + 1], holt_error **reterr);

/**
 * holt_is_scope_token - tell whether a text has the form of a token: 16 digits of [0-9a-f].
 * @text: the text; NULL is none.
 * @len: its length.
 *
 * Returns: 1 or 0.
 * Ownership: nothing changes hands.
 * Threads: any thread.
 * Blocks: never.
 * Since: 0.1
 */
HOLT_API int holt_is_scope_token(const char *text, size_t len);

#ifdef __cplusplus
}
#endif
#endif
