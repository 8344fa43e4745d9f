/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROVIDER_SCOPE_H
#define PROVIDER_SCOPE_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * From a user and a thread to an id, and from an id to the name of a box. These are Holt's own
 * rules; what other providers do is a table in identity_rule.h.
 */
#define SCOPE_TOKEN_LEN 16u
#define SCOPE_BYTES_MAX 65536u /* of a user, and of a thread */
#define RANDOM_ID_LEN   8u
#define SANDBOX_ID_MAX  32u
#define POOL_NAME_MAX   32u
#define BOX_NAME_MAX    (sizeof "holt--" + POOL_NAME_MAX + SANDBOX_ID_MAX)

/* Who a sandbox belongs to. NULL is none, which is not the empty one. */
struct scope_key {
	char *user;
	size_t user_len;
	char *thread;
	size_t thread_len;
};

/* NULL counts as the text "None". HOLT_EINVALID for what is not UTF-8. */
int scope_token(const char *user, size_t user_len, const char *thread, size_t thread_len,
	char ret[SCOPE_TOKEN_LEN + 1], holt_error **reterr);
bool scope_is_token(const char *text, size_t len);
/* A token, or what scope_random_id gives. */
bool scope_is_id(const char *text, size_t len);

/* A text that somebody else owns: a user, a thread, what a digest is made of. No data is none,
 * which is not the empty one. */
struct scope_part {
	const char *data;
	size_t len;
};
/* The same, but none is the text "None". */
struct scope_part scope_part_text(struct scope_part part);
/* HOLT_EINVALID for what is too long or no UTF-8; @what it is goes into the message. */
int scope_part_check(const char *what, struct scope_part part, holt_error **reterr);
bool scope_part_equal(struct scope_part a, struct scope_part b);
/* The first digits of SHA-256 over @n parts in a row. */
int scope_digest(const struct scope_part *parts, size_t n, char ret[SCOPE_TOKEN_LEN + 1],
	holt_error **reterr);

/* A copy, with a NUL behind each text. HOLT_EINVALID as above. */
int scope_key_copy(const struct scope_key *from, struct scope_key *ret, holt_error **reterr);
bool scope_key_equal(const struct scope_key *a, const struct scope_key *b);
void scope_key_done(struct scope_key *k);
/* For messages: "user 'u', thread 't'", escaped and cut. */
void scope_key_text(const struct scope_key *k, char *ret, size_t size);
void scope_parts_text(struct scope_part user, struct scope_part thread, char *ret, size_t size);

/* The id of a sandbox without a thread. */
int scope_random_id(char ret[RANDOM_ID_LEN + 1], holt_error **reterr);
/* "holt-<pool>-<id>", and back: the id within @name, or NULL where it is no name of that pool. */
void scope_box_name(const char *pool, const char *id, char ret[BOX_NAME_MAX]);
const char *scope_box_id(const char *pool, const char *name);

#endif
