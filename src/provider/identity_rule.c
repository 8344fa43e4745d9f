/* SPDX-License-Identifier: Apache-2.0 */
#include "provider/identity_rule.h"

#include <string.h>

#include "base/mem.h"
#include "base/random.h"
#include "base/str.h"
#include "base/banned.h"

#define DEFAULT_USER "default" /* outside of a request, C-13 */
#define LOCAL_ID     "local"
#define LOCAL_PREFIX "local:"
#define SUFFIX_MAX   16u

static const char *const e2b_metadata[] = {"deer_flow_user", "deer_flow_thread",
	"deer_flow_provider", "deer_flow_gateway", "deer_flow_created_at",
	"deer_flow_capacity_ledger", "deer_flow_capacity_reservation", NULL};
static const char *const opensandbox_metadata[] = {
	"deer_flow_provider", "deer_flow_thread", "deer_flow_user", NULL};

static const struct identity_rule rules[] = {
	{.provider = "aio",
		.user = IDENTITY_USER_EFFECTIVE,
		.map = IDENTITY_MAP_SCOPE,
		.alone = IDENTITY_ALONE_8,
		.checks_scope = true,
		.prefix = "",
		.base = "deer-flow-sandbox"},
	{.provider = "boxlite",
		.user = IDENTITY_USER_RAW,
		.map = IDENTITY_MAP_SCOPE_EMPTY,
		.lock = IDENTITY_LOCK_ID,
		.alone = IDENTITY_ALONE_8,
		.checks_scope = true,
		.prefix = "deer-flow-boxlite-"},
	{.provider = "e2b",
		.user = IDENTITY_USER_EFFECTIVE,
		.map = IDENTITY_MAP_SCOPE,
		.alone = IDENTITY_ALONE_16,
		.remote_id = true,
		.metadata = e2b_metadata},
	{.provider = "holt",
		.user = IDENTITY_USER_RAW,
		.map = IDENTITY_MAP_SCOPE,
		.lock = IDENTITY_LOCK_ID,
		.alone = IDENTITY_ALONE_8,
		.checks_scope = true,
		.prefix = "holt-",
		.base = "default"},
	{.provider = "local",
		.user = IDENTITY_USER_EFFECTIVE,
		.map = IDENTITY_MAP_ID,
		.lock = IDENTITY_LOCK_ID,
		.alone = IDENTITY_ALONE_LOCAL,
		.literal = true},
	{.provider = "opensandbox",
		.user = IDENTITY_USER_EMPTY,
		.map = IDENTITY_MAP_ID,
		.lock = IDENTITY_LOCK_ID,
		.alone = IDENTITY_ALONE_8,
		.metadata = opensandbox_metadata},
	{.provider = "sandbox0",
		.user = IDENTITY_USER_EFFECTIVE,
		.map = IDENTITY_MAP_ID,
		.lock = IDENTITY_LOCK_ID,
		.alone = IDENTITY_ALONE_UUID_THREAD},
	{.provider = "smol",
		.user = IDENTITY_USER_EMPTY,
		.map = IDENTITY_MAP_ID,
		.lock = IDENTITY_LOCK_ID,
		.alone = IDENTITY_ALONE_16,
		.prefix = "deer-flow-smol-",
		.suffix = 8},
	{.provider = "tenki",
		.user = IDENTITY_USER_EMPTY,
		.map = IDENTITY_MAP_ID,
		.lock = IDENTITY_LOCK_ID,
		.alone = IDENTITY_ALONE_8,
		.prefix = "deer-flow-tenki-"},
};

const struct identity_rule *identity_rule(const char *provider)
{
	for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
		if (strcmp(rules[i].provider, provider) == 0)
			return &rules[i];
	}
	return NULL;
}

/* The user that counts. */
static struct scope_part user_of(
	const struct identity_rule *rule, const struct identity_asked *asked)
{
	const char *const effective = asked->effective ? asked->effective : DEFAULT_USER;
	const struct scope_part none = {"", 0};

	if (rule->user == IDENTITY_USER_EMPTY && !asked->user.data)
		return none;
	if (rule->user == IDENTITY_USER_EFFECTIVE && (!asked->user.data || asked->user.len == 0))
		return (struct scope_part){effective, strlen(effective)};
	return asked->user;
}

static int random_text(size_t digits, char **ret, holt_error **reterr)
{
	char hex[64];
	const int r = random_hex(hex, digits);

	if (r < 0)
		return err_errno(reterr, -r, "no random bytes for the id of a sandbox");
	*ret = str_dup(hex);
	return *ret ? 0 : err_nomem(reterr);
}

static int token_text(
	struct scope_part user, struct scope_part thread, char **ret, holt_error **reterr)
{
	char token[SCOPE_TOKEN_LEN + 1];
	const int r = scope_token(user.data, user.len, thread.data, thread.len, token, reterr);

	if (r < 0)
		return r;
	*ret = str_dup(token);
	return *ret ? 0 : err_nomem(reterr);
}

/* A random UUID (version 4) in place of the thread. */
static int uuid_token(struct scope_part user, char **ret, holt_error **reterr)
{
	static const char variants[] = "89ab";
	char hex[33];
	const int r = random_hex(hex, 32);

	if (r < 0)
		return err_errno(reterr, -r, "no random bytes for the id of a thread");
	hex[12] = '4';
	hex[16] = variants[hex[16] & 3];
	auto_free char *uuid = str_printf(
		"%.8s-%.4s-%.4s-%.4s-%.12s", hex, hex + 8, hex + 12, hex + 16, hex + 20);
	if (!uuid)
		return err_nomem(reterr);
	return token_text(user, (struct scope_part){uuid, strlen(uuid)}, ret, reterr);
}

static int alone_id(
	const struct identity_rule *rule, struct scope_part user, char **ret, holt_error **reterr)
{
	switch (rule->alone) {
	case IDENTITY_ALONE_8:
		return random_text(8, ret, reterr);
	case IDENTITY_ALONE_16:
		return random_text(16, ret, reterr);
	case IDENTITY_ALONE_UUID_THREAD:
		return uuid_token(user, ret, reterr);
	case IDENTITY_ALONE_LOCAL:
		break;
	}
	*ret = str_dup(LOCAL_ID);
	return *ret ? 0 : err_nomem(reterr);
}

static int literal_id(
	struct scope_part user, struct scope_part thread, char **ret, holt_error **reterr)
{
	int r = scope_part_check("user", user, reterr);

	if (r == 0)
		r = scope_part_check("thread", thread, reterr);
	if (r < 0)
		return r;
	if (memchr(user.data, 0, user.len) || memchr(thread.data, 0, thread.len))
		return err_make(reterr, HOLT_EINVALID,
			"the id of a local sandbox cannot hold the NUL of its user or thread");
	*ret = str_printf(
		LOCAL_PREFIX "%.*s:%.*s", (int)user.len, user.data, (int)thread.len, thread.data);
	return *ret ? 0 : err_nomem(reterr);
}

int identity_id(const struct identity_rule *rule, const struct identity_asked *asked, char **ret,
	holt_error **reterr)
{
	const struct scope_part user = user_of(rule, asked);

	if (!asked->thread.data)
		return alone_id(rule, user, ret, reterr);
	return rule->literal ? literal_id(user, asked->thread, ret, reterr)
			     : token_text(user, asked->thread, ret, reterr);
}

static bool same_id(const struct identity_rule *rule, const struct identity_asked *a,
	const struct identity_asked *b)
{
	auto_free char *id = NULL;
	auto_free char *other = NULL;

	return identity_id(rule, a, &id, NULL) == 0 && identity_id(rule, b, &other, NULL) == 0 &&
	       id && other && strcmp(id, other) == 0;
}

bool identity_same(const struct identity_rule *rule, const struct identity_asked *a,
	const struct identity_asked *b)
{
	const struct scope_part empty = {"", 0};
	struct scope_part user = user_of(rule, a), other = user_of(rule, b);

	if (!a->thread.data || !b->thread.data)
		return false;
	if (rule->map == IDENTITY_MAP_ID)
		return same_id(rule, a, b);
	if (rule->map == IDENTITY_MAP_SCOPE_EMPTY) {
		user = user.data ? user : empty;
		other = other.data ? other : empty;
	}
	return scope_part_equal(user, other) && scope_part_equal(a->thread, b->thread);
}

/* What stands in front of the id, in fresh memory. */
static char *name_head(const struct identity_rule *rule, const char *base)
{
	const char *const own = base && rule->base ? base : rule->base;

	return str_printf("%s%s%s", rule->prefix, own ? own : "", own ? "-" : "");
}

int identity_name(const struct identity_rule *rule, const char *base, const char *id, char **ret,
	holt_error **reterr)
{
	char tail[SUFFIX_MAX + 1] = "";

	if (!rule->prefix)
		return err_make(reterr, HOLT_EUNSUPPORTED, "sandboxes of '%s' have no names",
			rule->provider);
	auto_free char *head = name_head(rule, base);
	if (!head)
		return err_nomem(reterr);
	const int r = random_hex(tail, rule->suffix);
	if (r < 0)
		return err_errno(reterr, -r, "no random bytes for the name of a sandbox");
	*ret = str_printf("%s%s%s%s", head, id, rule->suffix ? "-" : "", tail);
	return *ret ? 0 : err_nomem(reterr);
}

/* Only Holt's names say what is an id: a base there may begin with another base and a dash. */
static bool is_id(const struct identity_rule *rule, const char *id, size_t len)
{
	return strcmp(rule->provider, "holt") != 0 ? len > 0 : scope_is_id(id, len);
}

const char *identity_name_id(
	const struct identity_rule *rule, const char *base, const char *name, size_t *ret_len)
{
	auto_free char *head = rule->prefix ? name_head(rule, base) : NULL;

	if (!head || !name || !str_starts(name, head))
		return NULL;
	const char *const id = name + strlen(head);
	size_t len = strlen(id);
	if (rule->suffix) {
		if (len <= rule->suffix + 1 || id[len - rule->suffix - 1] != '-' ||
			strspn(id + len - rule->suffix, "0123456789abcdef") != rule->suffix)
			return NULL;
		len -= rule->suffix + 1;
	}
	if (!is_id(rule, id, len))
		return NULL;
	*ret_len = len;
	return id;
}

bool identity_local_parse(
	const char *id, struct scope_part *ret_user, struct scope_part *ret_thread)
{
	if (!id || !str_starts(id, LOCAL_PREFIX))
		return false;
	const char *const user = id + strlen(LOCAL_PREFIX);
	const char *const colon = strchr(user, ':');
	if (!colon || colon == user || !colon[1])
		return false;
	*ret_user = (struct scope_part){user, (size_t)(colon - user)};
	*ret_thread = (struct scope_part){colon + 1, strlen(colon + 1)};
	return true;
}

int identity_skills_token(bool restricted, struct scope_part user, struct scope_part thread,
	const char *skills_root, char ret[SCOPE_TOKEN_LEN + 1], holt_error **reterr)
{
	const char *const tag = restricted ? "agent-skills-v2" : "skills-root-v1";
	const struct scope_part root = {skills_root, strlen(skills_root)}, nul = {"", 1};
	const struct scope_part parts[] = {{tag, strlen(tag)}, nul, scope_part_text(user), nul,
		scope_part_text(thread), nul, root};
	int r = scope_part_check("user", user, reterr);

	if (r == 0)
		r = scope_part_check("thread", thread, reterr);
	if (r == 0)
		r = scope_part_check("root of the skills", root, reterr);
	return r < 0 ? r : scope_digest(parts, sizeof parts / sizeof parts[0], ret, reterr);
}
