/* SPDX-License-Identifier: Apache-2.0 */
#include "provider/scope.h"

#include <stdio.h>
#include <string.h>

#include "base/digest.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/str.h"
#include "sandbox/text.h"
#include "base/banned.h"

/*
 * Holt's own identity. A token is cut from a digest of "user:thread", so that every program that
 * knows the two finds the same sandbox without asking anyone. It separates nothing: the colon is
 * not escaped and 64 bits can meet. Tenants are told apart by the whole key, which goes wherever a
 * token goes.
 *
 * Everything here is a function of its arguments and may be called on any thread.
 */

#define NO_TEXT       "None" /* what a missing user or thread is hashed as */
#define KEY_TEXT_MAX  256u /* of a user or thread within a message, each byte as \xNN */
#define DIGEST_PREFIX "sha256:"

/* What is hashed has to be text: other programs derive the same token from characters. */
static int refuse(const char *what, const char *why, size_t at, holt_error **reterr)
{
	(void)err_make(reterr, HOLT_EINVALID, "the %s %s at byte %zu", what, why, at);
	err_stage(reterr, "identity");
	err_hint(reterr, "ids of users and threads are text in UTF-8, of up to %u bytes",
		SCOPE_BYTES_MAX);
	return -HOLT_EINVALID;
}

int scope_part_check(const char *what, struct scope_part part, holt_error **reterr)
{
	const unsigned char *p = (const unsigned char *)part.data;
	bool valid = true;
	size_t at = 0;

	if (part.len > SCOPE_BYTES_MAX)
		return refuse(what, "is too long: more begins", SCOPE_BYTES_MAX, reterr);
	if (!p && part.len > 0)
		return refuse(what, "is NULL and has a length: nothing", 0, reterr);
	while (at < part.len) {
		const size_t step = text_utf8_step(p + at, part.len - at, &valid);

		if (!valid)
			return refuse(what, "is no UTF-8", at, reterr);
		at += step;
	}
	return 0;
}

bool scope_part_equal(struct scope_part a, struct scope_part b)
{
	if (!a.data || !b.data)
		return !a.data && !b.data;
	return a.len == b.len && memcmp(a.data, b.data, a.len) == 0;
}

struct scope_part scope_part_text(struct scope_part part)
{
	return part.data ? part : (struct scope_part){NO_TEXT, strlen(NO_TEXT)};
}

static int check_both(struct scope_part user, struct scope_part thread, holt_error **reterr)
{
	const int r = scope_part_check("user", user, reterr);

	return r < 0 ? r : scope_part_check("thread", thread, reterr);
}

int scope_digest(const struct scope_part *parts, size_t n, char ret[SCOPE_TOKEN_LEN + 1],
	holt_error **reterr)
{
	char hex[DIGEST_STR_LEN + 1];
	struct digest_ctx *ctx = digest_new();

	if (!ctx)
		return err_nomem(reterr);
	for (size_t i = 0; i < n; i++)
		digest_update(ctx, parts[i].data, parts[i].len);
	digest_final(ctx, hex);
	digest_free(ctx);
	memcpy(ret, hex + strlen(DIGEST_PREFIX), SCOPE_TOKEN_LEN);
	ret[SCOPE_TOKEN_LEN] = 0;
	return 0;
}

int scope_token(const char *user, size_t user_len, const char *thread, size_t thread_len,
	char ret[SCOPE_TOKEN_LEN + 1], holt_error **reterr)
{
	const struct scope_part u = {user, user_len}, t = {thread, thread_len};
	const struct scope_part parts[] = {scope_part_text(u), {":", 1}, scope_part_text(t)};
	const int r = check_both(u, t, reterr);

	return r < 0 ? r : scope_digest(parts, 3, ret, reterr);
}

static bool is_hex(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if ((text[i] < '0' || text[i] > '9') && (text[i] < 'a' || text[i] > 'f'))
			return false;
	}
	return true;
}

bool scope_is_token(const char *text, size_t len)
{
	return text && len == SCOPE_TOKEN_LEN && is_hex(text, len);
}

bool scope_is_id(const char *text, size_t len)
{
	return scope_is_token(text, len) || (text && len == RANDOM_ID_LEN && is_hex(text, len));
}

static struct scope_part user_of(const struct scope_key *k)
{
	return (struct scope_part){k->user, k->user_len};
}

static struct scope_part thread_of(const struct scope_key *k)
{
	return (struct scope_part){k->thread, k->thread_len};
}

/* NULL stays NULL; else fresh memory with a NUL behind it. */
static int copy_text(const char *from, size_t len, char **ret, holt_error **reterr)
{
	char *copy = NULL;

	if (from) {
		copy = mem_zalloc(len + 1);
		if (!copy)
			return err_nomem(reterr);
		memcpy(copy, from, len);
	}
	*ret = copy;
	return 0;
}

int scope_key_copy(const struct scope_key *from, struct scope_key *ret, holt_error **reterr)
{
	struct scope_key k = {.user_len = from->user_len, .thread_len = from->thread_len};
	int r = check_both(user_of(from), thread_of(from), reterr);

	if (r == 0)
		r = copy_text(from->user, from->user_len, &k.user, reterr);
	if (r == 0)
		r = copy_text(from->thread, from->thread_len, &k.thread, reterr);
	if (r < 0) {
		scope_key_done(&k);
		return r;
	}
	*ret = k;
	return 0;
}

bool scope_key_equal(const struct scope_key *a, const struct scope_key *b)
{
	return scope_part_equal(user_of(a), user_of(b)) &&
	       scope_part_equal(thread_of(a), thread_of(b));
}

void scope_key_done(struct scope_key *k)
{
	mem_free(k->user);
	mem_free(k->thread);
	*k = (struct scope_key){0};
}

/* "user 'u'", or "no user". */
static void part_text(const char *what, struct scope_part part, char *ret, size_t size)
{
	char shown[KEY_TEXT_MAX];
	const bool cut = part.len > KEY_TEXT_MAX / 4;

	if (!part.data) {
		(void)snprintf(ret, size, "no %s", what);
		return;
	}
	(void)str_escape(shown, sizeof shown, part.data, cut ? KEY_TEXT_MAX / 4 : part.len, false);
	(void)snprintf(ret, size, "%s '%s'%s", what, shown, cut ? "..." : "");
}

void scope_parts_text(struct scope_part user, struct scope_part thread, char *ret, size_t size)
{
	char u[KEY_TEXT_MAX + 16], t[KEY_TEXT_MAX + 16];

	part_text("user", user, u, sizeof u);
	part_text("thread", thread, t, sizeof t);
	(void)snprintf(ret, size, "%s, %s", u, t);
}

void scope_key_text(const struct scope_key *k, char *ret, size_t size)
{
	scope_parts_text(user_of(k), thread_of(k), ret, size);
}

int scope_random_id(char ret[RANDOM_ID_LEN + 1], holt_error **reterr)
{
	const int r = random_hex(ret, RANDOM_ID_LEN);

	return r < 0 ? err_errno(reterr, -r, "no random bytes for the id of a sandbox") : 0;
}

void scope_box_name(const char *pool, const char *id, char ret[BOX_NAME_MAX])
{
	(void)snprintf(ret, BOX_NAME_MAX, "holt-%s-%s", pool, id);
}

const char *scope_box_id(const char *pool, const char *name)
{
	char prefix[BOX_NAME_MAX];

	scope_box_name(pool, "", prefix);
	if (!str_starts(name, prefix))
		return NULL;
	/* The form is looked at, since a pool's name may begin with another's and a dash. */
	const char *id = name + strlen(prefix);
	return scope_is_id(id, strlen(id)) ? id : NULL;
}
