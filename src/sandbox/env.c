/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/env.h"

#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/banned.h"

/* More would not fit into what the kernel takes with an execve. */
#define ENV_ENTRIES_MAX 65536u

static bool is_letter(char c)
{
	return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
}

static bool is_posix_name(const char *key, size_t len)
{
	if (len == 0 || !is_letter(key[0]))
		return false;
	for (size_t i = 1; i < len; i++) {
		if (!is_letter(key[i]) && (key[i] < '0' || key[i] > '9'))
			return false;
	}
	return true;
}

/* Only the name is said: values may be secrets. */
static int refuse(const char *entry, size_t len, const char *what, holt_error **reterr)
{
	char key[256];

	(void)str_escape(key, sizeof key, entry, len, false);
	(void)err_make(reterr, HOLT_EINVALID, "'%s' %s", key, what);
	err_stage(reterr, "env");
	err_object(reterr, key);
	err_hint(reterr, "write variables as KEY=VALUE, KEY of letters, digits and '_'");
	return -HOLT_EINVALID;
}

int env_check(const char *const *env, holt_error **reterr)
{
	for (size_t i = 0; env && env[i]; i++) {
		const size_t len = strcspn(env[i], "=");

		if (i >= ENV_ENTRIES_MAX)
			return refuse(env[i], len, "is one variable too many", reterr);
		if (!is_posix_name(env[i], len))
			return refuse(env[i], len, "is no POSIX name of a variable", reterr);
		if (env[i][len] != '=')
			return refuse(env[i], len, "has a POSIX name but no value", reterr);
	}
	return 0;
}

struct variable {
	const char *key; /* the entry, of which it is the first part */
	size_t at;
	bool hash_oom;
	UT_hash_handle hh;
};

struct merge {
	const char **list;
	size_t len;
	struct variable *variables; /* as many as the list can have */
	struct variable *table;
};

static int add(struct merge *m, const char *entry)
{
	const size_t len = strcspn(entry, "=");
	struct variable *v = NULL;

	HASH_FIND(hh, m->table, entry, len, v);
	if (v) {
		m->list[v->at] = entry;
		return 0;
	}
	v = &m->variables[m->len];
	v->key = entry;
	v->at = m->len;
	HASH_ADD_KEYPTR(hh, m->table, v->key, len, v);
	if (v->hash_oom)
		return -HOLT_ENO_MEMORY;
	m->list[m->len++] = entry;
	return 0;
}

static int add_all(struct merge *m, const char *const *env)
{
	int r = 0;

	for (size_t i = 0; r == 0 && env && env[i]; i++)
		r = add(m, env[i]);
	return r;
}

static size_t count(const char *const *env)
{
	return env ? strv_len(env) : 0;
}

int env_merge(
	const char *const *under, const char *const *over, const char ***ret, holt_error **reterr)
{
	const size_t most = count(under) + count(over);
	struct merge m = {0};

	if (most == 0) {
		*ret = NULL;
		return 0;
	}
	auto_free struct variable *variables = mem_array(most, sizeof *variables);
	auto_free const char **list = mem_array(most + 1, sizeof *list);
	if (!variables || !list)
		return err_nomem(reterr);
	m.variables = variables;
	m.list = list;
	int r = add_all(&m, under);
	if (r == 0)
		r = add_all(&m, over);
	HASH_CLEAR(hh, m.table);
	if (r < 0)
		return err_nomem(reterr);
	*ret = take_ptr(list);
	return 0;
}
