/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROVIDER_IDENTITY_RULE_H
#define PROVIDER_IDENTITY_RULE_H

#include "provider/scope.h"

/*
 * How each provider of sandboxes comes from a user and a thread to an id and to a name, as a table:
 * a backend for one of them has to find what others made, with the same quirks. Holt's own row is
 * what scope.h does.
 */

/* Which user counts. */
enum identity_user {
	IDENTITY_USER_RAW, /* as given; none is the text "None" */
	IDENTITY_USER_EMPTY, /* none is the empty one */
	IDENTITY_USER_EFFECTIVE /* none and the empty one are that of the request, or "default" */
};

/* By what a sandbox in use is found again. */
enum identity_map {
	IDENTITY_MAP_SCOPE, /* user and thread; no user is not the empty one */
	IDENTITY_MAP_SCOPE_EMPTY, /* user and thread; no user is the empty one, see C-15 */
	IDENTITY_MAP_ID /* the id alone */
};

/* What takes turns. */
enum identity_lock { IDENTITY_LOCK_MAP /* what the map has */, IDENTITY_LOCK_ID };

/* What a sandbox without a thread is called; none of them is ever found again. */
enum identity_alone {
	IDENTITY_ALONE_8, /* so many random hex digits */
	IDENTITY_ALONE_16,
	IDENTITY_ALONE_UUID_THREAD, /* a random UUID becomes the thread */
	IDENTITY_ALONE_LOCAL /* always "local": one for all */
};

struct identity_rule {
	const char *provider;
	enum identity_user user;
	enum identity_map map;
	enum identity_lock lock;
	enum identity_alone alone;
	bool literal; /* the id is "local:<user>:<thread>" and no digest */
	bool remote_id; /* what a service has given is the id; ours is only the seed of a search */
	bool checks_scope; /* a sandbox is reused for the same user and thread only, C-22 */
	const char *prefix; /* of names; NULL: sandboxes have no names */
	const char *base; /* behind it, with a dash; may be configured otherwise; NULL: none */
	unsigned suffix; /* so many random hex digits behind id and dash */
	const char *const *metadata; /* keys by which a service finds sandboxes; or NULL */
};

/* The row of "holt", "boxlite", "tenki", "opensandbox", "smol", "sandbox0", "e2b", "aio", "local";
 * NULL for any other. */
const struct identity_rule *identity_rule(const char *provider);

/* Who asks; @effective is the user of the request, NULL outside of one. */
struct identity_asked {
	struct scope_part user;
	struct scope_part thread;
	const char *effective;
};

/* The id in fresh memory. Without a thread it is another one at each call. */
int identity_id(const struct identity_rule *rule, const struct identity_asked *asked, char **ret,
	holt_error **reterr);

/* Whether the rule's map takes both for one. */
bool identity_same(const struct identity_rule *rule, const struct identity_asked *a,
	const struct identity_asked *b);

/* The name of @id in fresh memory; @base: NULL for the rule's own. HOLT_EUNSUPPORTED where there
 * are no names. */
int identity_name(const struct identity_rule *rule, const char *base, const char *id, char **ret,
	holt_error **reterr);
/* Back: the id within @name (NULL is none) and its length, or NULL. */
const char *identity_name_id(
	const struct identity_rule *rule, const char *base, const char *name, size_t *ret_len);

/* Take "local:<user>:<thread>" apart; both borrow from @id. "local" has neither. */
bool identity_local_parse(
	const char *id, struct scope_part *ret_user, struct scope_part *ret_thread);

/* C-21: the id for a thread whose skills are not the shared ones, so that a sandbox with those is
 * never reused. @restricted: a policy says which skills it has; else only their place is another.
 */
int identity_skills_token(bool restricted, struct scope_part user, struct scope_part thread,
	const char *skills_root, char ret[SCOPE_TOKEN_LEN + 1], holt_error **reterr);

#endif
