/* SPDX-License-Identifier: Apache-2.0 */
#include "provider/settings_inside.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/conf.h"
#include "base/mem.h"
#include "base/str.h"
#include "sandbox/env.h"
#include "base/banned.h"

/*
 * The section "sandbox" of a file, key by key; other sections are other programs' business. The
 * first error ends the reading. What does nothing is taken all the same, and told as a warning:
 * files are shared with programs and providers that know other keys.
 */

#define SECTION      "sandbox"
#define MERGE_KEY    "<<"
#define KEY_MAX      128u /* of a key in a message; ours have less */
#define WARNINGS_MAX 64u /* a file with more of them is for another program */

static int warn(struct holt_config *c, unsigned line, const char *fmt, ...)
	__attribute__((format(__printf__, 3, 4)));

static int warn(struct holt_config *c, unsigned line, const char *fmt, ...)
{
	char what[512], name[512];
	va_list ap;

	if (c->n_warnings > WARNINGS_MAX)
		return 0;
	va_start(ap, fmt);
	(void)vsnprintf(what, sizeof what, fmt, ap);
	va_end(ap);
	(void)str_escape(name, sizeof name, c->name, strlen(c->name), false);
	char **const more = mem_resize(c->warnings, c->n_warnings + 2, sizeof *more);
	if (!more)
		return -HOLT_ENO_MEMORY;
	c->warnings = more;
	more[c->n_warnings + 1] = NULL;
	more[c->n_warnings] = c->n_warnings == WARNINGS_MAX
				      ? str_printf("more of the kind in '%s'", name)
				      : str_printf("%s, in line %u of '%s'", what, line, name);
	return more[c->n_warnings] ? (c->n_warnings++, 0) : -HOLT_ENO_MEMORY;
}

/* "key" or "group.key", as messages have it. */
static void path_of(const struct conf_node *n, const char *group, char ret[KEY_MAX])
{
	char key[KEY_MAX - 16];

	(void)str_escape(key, sizeof key, n->key, strlen(n->key), false);
	(void)snprintf(ret, KEY_MAX, "%s%s%s", group ? group : "", group ? "." : "", key);
}

static int fail(const struct holt_config *c, const struct conf_node *n, const char *path,
	const char *what, holt_error **reterr)
{
	return conf_error(reterr, HOLT_EINVALID, c->name, n->line, "'%s' %s", path, what);
}

const char *settings_expand(const char *text)
{
	return *text == '$' ? getenv(text + 1) : text;
}

/* The text of a scalar; *ret is NULL for none. */
static int scalar_text(const struct holt_config *c, const struct conf_node *n, const char *path,
	const char **ret, holt_error **reterr)
{
	char name[KEY_MAX];

	if (n->type != CONF_SCALAR)
		return fail(c, n, path, "is a map or list, not a single value", reterr);
	*ret = conf_kind(n) == CONF_NULL ? NULL : n->text;
	if (!*ret || conf_kind(n) != CONF_TEXT || (*ret = settings_expand(n->text)))
		return 0;
	(void)str_escape(name, sizeof name, n->text + 1, strlen(n->text + 1), false);
	(void)conf_error(reterr, HOLT_EINVALID, c->name, n->line,
		"'%s' is the variable '%s', which is not in the environment", path, name);
	err_hint(reterr, "set the variable, or write the value itself");
	return -HOLT_EINVALID;
}

/* What YAML takes for a number is none of ours to turn into text. */
static int demand_text(const struct holt_config *c, const struct conf_node *n, const char *path,
	holt_error **reterr)
{
	const enum conf_kind kind = n->type == CONF_SCALAR ? conf_kind(n) : CONF_TEXT;

	if (kind == CONF_TEXT || kind == CONF_NULL)
		return 0;
	return fail(c, n, path,
		kind == CONF_BOOL ? "is true or false to YAML, not a text: put it into quotes"
				  : "is a number to YAML, not a text: put it into quotes",
		reterr);
}

static int take_single(struct holt_config *c, const struct conf_node *n, const char *path,
	const struct setting *s, holt_error **reterr)
{
	char why[SETTING_WHY_MAX];
	const char *text = NULL;
	int64_t number = 0;
	int r = scalar_text(c, n, path, &text, reterr);

	if (r == 0 && setting_is_text(s))
		r = demand_text(c, n, path, reterr);
	if (r < 0 || !text)
		return r;
	if ((r = setting_check(s, text, &number, why)) < 0)
		return conf_error(reterr, -r, c->name, n->line, "'%s' %s", path, why);
	c->texts[setting_row(s)] = str_dup(text);
	return c->texts[setting_row(s)] ? 0 : err_nomem(reterr);
}

/* "KEY=VALUE" of a member of the environment. */
static int take_variable(struct holt_config *c, const struct conf_node *n, const char *path,
	char **ret, holt_error **reterr)
{
	const char *text = NULL;
	auto_error error = NULL;
	int r = scalar_text(c, n, path, &text, reterr);

	if (r == 0)
		r = demand_text(c, n, path, reterr);
	if (r == 0 && !text)
		r = fail(c, n, path, "has no value; an empty one is written as ''", reterr);
	if (r < 0)
		return r;
	auto_free char *entry = str_printf("%s=%s", n->key, text);
	if (!entry)
		return err_nomem(reterr);
	const char *const list[] = {entry, NULL};
	if (strchr(n->key, '=') || env_check(list, &error) < 0)
		return fail(c, n, path, "has a name that is no POSIX name of a variable", reterr);
	*ret = take_ptr(entry);
	return 0;
}

static int take_environment(
	struct holt_config *c, const struct conf_node *map, const char *path, holt_error **reterr)
{
	char member[KEY_MAX];
	size_t n = 0;
	int r = 0;

	if (map->type != CONF_MAP)
		return fail(c, map, path, "is no map of names and texts", reterr);
	for (const struct conf_node *m = map->first; m; m = m->next)
		n++;
	c->environment = mem_array(n + 1, sizeof *c->environment);
	if (!c->environment)
		return err_nomem(reterr);
	n = 0;
	for (const struct conf_node *m = map->first; r == 0 && m; m = m->next) {
		path_of(m, path, member);
		r = take_variable(c, m, member, &c->environment[n++], reterr);
	}
	return r;
}

/* One of "mounts": checked, since a program that uses it would. */
static int check_mount(const struct holt_config *c, const struct conf_node *mount, const char *path,
	holt_error **reterr)
{
	static const char *const needed[] = {"host_path", "container_path"};
	const struct conf_node *const only = conf_get(mount, "read_only");
	const char *text = NULL;
	bool yes = false;
	int r = 0;

	for (size_t i = 0; r == 0 && i < 2; i++) {
		const struct conf_node *const n = conf_get(mount, needed[i]);

		if (n)
			r = scalar_text(c, n, path, &text, reterr);
		if (r == 0 && n)
			r = demand_text(c, n, path, reterr);
		if (r == 0 && (!n || !text))
			r = fail(c, mount, path,
				"needs a host_path and a container_path for each mount", reterr);
	}
	if (r == 0 && only)
		r = scalar_text(c, only, path, &text, reterr);
	if (r == 0 && only && (!text || !conf_text_bool(text, &yes)))
		r = fail(c, only, path, "has a read_only that is neither true nor false", reterr);
	return r;
}

static int check_mounts(
	struct holt_config *c, const struct conf_node *list, const char *path, holt_error **reterr)
{
	int r = 0;

	if (list->type != CONF_LIST)
		return fail(c, list, path, "is no list of mounts", reterr);
	for (const struct conf_node *n = list->first; r == 0 && n; n = n->next)
		r = check_mount(c, n, path, reterr);
	return r;
}

/* Entries of a list, as one text with commas between them. */
static int take_list(struct holt_config *c, const struct conf_node *list, const char *path,
	const struct setting *s, holt_error **reterr)
{
	char why[SETTING_WHY_MAX];
	auto_buf all = BUF_INIT(SETTING_LIST_MAX);
	const char *text = NULL;
	int64_t number = 0;
	int r = 0;

	if (list->type != CONF_LIST)
		return fail(c, list, path, "is no list of texts", reterr);
	for (const struct conf_node *n = list->first; r == 0 && n; n = n->next) {
		r = scalar_text(c, n, path, &text, reterr);
		if (r == 0)
			r = demand_text(c, n, path, reterr);
		if (r == 0 && (!text || !*text || strchr(text, ',')))
			r = fail(c, n, path, "has an entry that is empty or has a comma", reterr);
		if (r == 0 && setting_check(s, text, &number, why) < 0)
			r = conf_error(
				reterr, HOLT_EINVALID, c->name, n->line, "'%s' %s", path, why);
		if (r == 0 && buf_printf(&all, "%s%s", all.len ? "," : "", text) < 0)
			r = fail(c, n, path, "is a list that is too long", reterr);
	}
	if (r < 0 || all.len == 0)
		return r;
	char *const copy = str_ndup((const char *)all.data, all.len);
	if (!copy)
		return err_nomem(reterr);
	c->texts[setting_row(s)] = copy;
	if ((r = setting_check(s, copy, &number, why)) < 0)
		return conf_error(reterr, -r, c->name, list->line, "'%s' %s", path, why);
	return 0;
}

static bool is_null(const struct conf_node *n)
{
	return n->type == CONF_SCALAR && conf_kind(n) == CONF_NULL;
}

/* A value that nobody looks at may still name a variable that is missing. */
static int check_variables(
	struct holt_config *c, const struct conf_node *top, const char *path, holt_error **reterr)
{
	const char *text = NULL;
	int r = 0;

	for (const struct conf_node *n = top; r == 0 && n; n = conf_walk(n, top)) {
		if (n->type == CONF_SCALAR)
			r = scalar_text(c, n, path, &text, reterr);
	}
	return r;
}

static int take_known(struct holt_config *c, const struct conf_node *n, const char *path,
	const struct setting *s, holt_error **reterr)
{
	int r = 0;

	if (is_null(n) || s->type == SETTING_ANY)
		r = check_variables(c, n, path, reterr);
	else if (s->type == SETTING_ENVIRONMENT)
		r = take_environment(c, n, path, reterr);
	else if (s->type == SETTING_ALLOW)
		r = take_list(c, n, path, s, reterr);
	else if (s->type == SETTING_MOUNTS)
		r = check_mounts(c, n, path, reterr);
	else
		r = take_single(c, n, path, s, reterr);
	if (r == 0 && s->unused &&
		warn(c, n->line, "'%s' does nothing here: %s", path, s->unused) < 0)
		r = err_nomem(reterr);
	return r;
}

static int check_unknown(
	struct holt_config *c, const struct conf_node *n, const char *path, holt_error **reterr)
{
	const int r = check_variables(c, n, path, reterr);

	if (r == 0 && warn(c, n->line, "'%s' is no key that is known", path) < 0)
		return err_nomem(reterr);
	return r;
}

static int take_member(
	struct holt_config *c, const struct conf_node *n, const char *group, holt_error **reterr)
{
	char path[KEY_MAX];
	const struct setting *s;

	path_of(n, group, path);
	if (strcmp(n->key, MERGE_KEY) == 0)
		return fail(c, n, path, "merges maps, which is not done here: write the keys out",
			reterr);
	s = setting_find(path);
	/* A group's own row is for the group. */
	if (!s || s->type == SETTING_GROUP || (!group && strchr(n->key, '.')))
		return check_unknown(c, n, path, reterr);
	return take_known(c, n, path, s, reterr);
}

static int take_group(
	struct holt_config *c, const struct conf_node *map, const char *group, holt_error **reterr)
{
	int r = 0;

	for (const struct conf_node *n = map->first; r == 0 && n; n = n->next)
		r = take_member(c, n, group, reterr);
	return r;
}

/* A key of the section itself: "ownership" and "network" are maps of keys. */
static int take_key(struct holt_config *c, const struct conf_node *n, holt_error **reterr)
{
	const struct setting *const s = setting_find(n->key);

	if (s && s->type == SETTING_GROUP && is_null(n))
		return 0;
	if (s && s->type == SETTING_GROUP && n->type != CONF_MAP)
		return fail(c, n, s->key, "is not a map", reterr);
	if (n->type == CONF_MAP && s &&
		(s->type == SETTING_GROUP || strcmp(s->key, "network") == 0))
		return take_group(c, n, s->key, reterr);
	return take_member(c, n, NULL, reterr);
}

/* A list that nothing asks would be taken for a limit. */
static int check_network(
	const struct holt_config *c, const struct conf_node *network, holt_error **reterr)
{
	const char *mode = c->texts[setting_row(setting_find("network"))];

	if (!network || !mode || strcmp(mode, "allowlist") == 0 ||
		!c->texts[setting_row(setting_find("network.allow"))])
		return 0;
	return conf_error(reterr, HOLT_EINVALID, c->name, network->line,
		"'network.allow' is for the mode allowlist, not '%s'", mode);
}

static int take_section(struct holt_config *c, const struct conf_node *root, holt_error **reterr)
{
	const struct conf_node *const section = conf_get(root, SECTION);
	int r = 0;

	if (root && root->type != CONF_MAP)
		return conf_error(reterr, HOLT_EINVALID, c->name, root->line,
			"the file is not a map with a section '" SECTION "'");
	if (!section)
		return warn(c, 1, "no section '" SECTION "', so all defaults hold") < 0
			       ? err_nomem(reterr)
			       : 0;
	if (is_null(section))
		return 0;
	if (section->type != CONF_MAP)
		return fail(c, section, SECTION, "is not a map of keys", reterr);
	for (const struct conf_node *n = section->first; r == 0 && n; n = n->next)
		r = take_key(c, n, reterr);
	return r < 0 ? r : check_network(c, conf_get(section, "network"), reterr);
}

/* The names of the environment, with blanks between them. */
static int name_environment(struct holt_config *c, holt_error **reterr)
{
	size_t len = 1;
	char *at;

	for (size_t i = 0; c->environment && c->environment[i]; i++)
		len += strcspn(c->environment[i], "=") + 1;
	if (len == 1)
		return 0;
	at = c->names = mem_zalloc(len);
	if (!at)
		return err_nomem(reterr);
	for (size_t i = 0; c->environment[i]; i++) {
		const size_t n = strcspn(c->environment[i], "=");

		if (i > 0)
			*at++ = ' ';
		memcpy(at, c->environment[i], n);
		at += n;
	}
	return 0;
}

int settings_read(struct holt_config *c, const char *text, size_t len, holt_error **reterr)
{
	auto_conf conf = NULL;
	int r = conf_parse(text, len, c->name, &conf, reterr);

	if (r == 0)
		r = take_section(c, conf_root(conf), reterr);
	return r < 0 ? r : name_environment(c, reterr);
}
