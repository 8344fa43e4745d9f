/* SPDX-License-Identifier: Apache-2.0 */
#include "provider/settings.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/conf.h"
#include "base/fsutil.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "provider/settings_inside.h"
#include "base/banned.h"

/*
 * A configuration keeps the texts as they were given, so that it can tell and change them; what a
 * provider goes by (struct provider_config) is made of all texts again after each change.
 *
 * Nothing here is locked: a configuration is one thread's, a provider gets a copy.
 */

#define DEFAULT_NAME "configuration"
#define KEY_MAX      128u /* of a key in a message; ours have less */

/* ---- what is in effect ---- */

static const char *text_of(const struct holt_config *c, const struct setting *s)
{
	const char *const text = c->texts[setting_row(s)];

	/* A list alone says what is meant by it. */
	if (!text && strcmp(s->key, "network") == 0) {
		const char *const allow = c->texts[setting_row(setting_find("network.allow"))];

		return allow && *allow ? "allowlist" : s->fallback;
	}
	return text ? text : s->fallback;
}

void provider_config_done(struct provider_config *c)
{
	mem_free(c->pool);
	mem_free(c->image);
	mem_free(c->network);
	strv_free(c->network_allow);
	mem_free(c->accel);
	mem_free(c->home);
	mem_free(c->kernel);
	strv_free(c->environment);
	*c = (struct provider_config){0};
}

static int make_values(const struct holt_config *c, struct provider_config *ret)
{
	struct provider_config values = {.pause_after_ms = HOLT_FOREVER};
	int r = 0;

	for (size_t i = 0; r == 0 && i < n_settings; i++) {
		const char *const text = text_of(c, &settings[i]);

		if (text)
			r = setting_apply(&settings[i], text, &values);
	}
	if (r == 0 && c->environment) {
		values.environment = strv_dup((const char *const *)c->environment);
		r = values.environment ? 0 : -ENOMEM;
	}
	if (r < 0) {
		provider_config_done(&values);
		return r;
	}
	*ret = values;
	return 0;
}

static int update(struct holt_config *c, holt_error **reterr)
{
	struct provider_config values;

	if (make_values(c, &values) < 0)
		return err_nomem(reterr);
	provider_config_done(&c->values);
	c->values = values;
	mem_free(c->json);
	c->json = NULL;
	return 0;
}

/* Where nothing better is said. */
static int advise(int r, holt_error **reterr)
{
	if (r < 0 && r != -HOLT_ENO_MEMORY)
		err_hint(reterr, "holt-config(1) has all keys, and what they take");
	return r;
}

/* ---- files ---- */

static void settings_freep(struct holt_config **c)
{
	settings_free(*c);
}

int settings_parse(const char *text, size_t len, const char *name, struct holt_config **ret,
	holt_error **reterr)
{
	__attribute__((cleanup(settings_freep))) struct holt_config *c = mem_zalloc(sizeof *c);
	int r = 0;

	if (!c || !(c->name = str_dup(name ? name : DEFAULT_NAME)))
		return err_nomem(reterr);
	if (text)
		r = settings_read(c, text, len, reterr);
	if (r == 0)
		r = update(c, reterr);
	if (r == 0)
		*ret = take_ptr(c);
	return advise(r, reterr);
}

int settings_load(const char *path, struct holt_config **ret, holt_error **reterr)
{
	auto_free char *text = NULL;
	size_t len = 0;
	int r = fs_read_file(AT_FDCWD, path, CONF_BYTES_MAX, &text, &len);

	if (r == 0)
		return settings_parse(text, len, path, ret, reterr);
	r = r == -EFBIG ? err_make(reterr, HOLT_ELIMIT, "'%s' has more than %u bytes", path,
				  CONF_BYTES_MAX)
			: err_errno(reterr, -r, "cannot read '%s'", path);
	err_stage(reterr, "config");
	err_object(reterr, path);
	err_hint(reterr, "check the path of the configuration");
	return r;
}

/* ---- single values ---- */

static const struct setting *find_single(const char *key)
{
	const struct setting *const s = setting_find(
		strcmp(key, "network.mode") == 0 ? "network" : key);

	return s && setting_is_single(s) ? s : NULL;
}

/* Why a value cannot be set; an error that no line caused. */
static int fail_set(const char *key, int code, const char *what, holt_error **reterr)
{
	char shown[KEY_MAX];

	(void)str_escape(shown, sizeof shown, key, strlen(key), false);
	(void)err_make(reterr, code, "'%s' %s", shown, what);
	err_stage(reterr, "config");
	err_object(reterr, key);
	return advise(-code, reterr);
}

int settings_set(struct holt_config *c, const char *key, const char *value, holt_error **reterr)
{
	const struct setting *const s = find_single(key);
	const char *const text = value ? settings_expand(value) : NULL;
	char why[SETTING_WHY_MAX];
	int64_t number = 0;
	int r = 0;

	if (!s)
		return fail_set(key, HOLT_ENOT_FOUND, "is not a key with a single value", reterr);
	if (value && !text)
		return fail_set(
			key, HOLT_EINVALID, "is a variable that is not in the environment", reterr);
	if (text && (r = setting_check(s, text, &number, why)) < 0)
		return fail_set(key, -r, why, reterr);
	char *copy = text ? str_dup(text) : NULL;
	if (text && !copy)
		return err_nomem(reterr);
	char *const before = c->texts[setting_row(s)];
	c->texts[setting_row(s)] = copy;
	r = update(c, reterr);
	if (r < 0)
		c->texts[setting_row(s)] = before;
	mem_free(r < 0 ? copy : before);
	return r;
}

const char *settings_get(struct holt_config *c, const char *key)
{
	const struct setting *const s = find_single(key);

	if (strcmp(key, "environment") == 0)
		return c->names;
	return s ? text_of(c, s) : NULL;
}

const char *settings_key(size_t index)
{
	for (size_t i = 0; i < n_settings; i++) {
		if (settings[i].unused || settings[i].type == SETTING_GROUP)
			continue;
		if (index-- == 0)
			return settings[i].key;
	}
	return NULL;
}

const char *const *settings_warnings(struct holt_config *c)
{
	static const char *const none[] = {NULL};

	return c->warnings ? (const char *const *)c->warnings : none;
}

/* ---- as JSON ---- */

static json_t *value_json(const struct holt_config *c, const struct setting *s)
{
	const char *const text = text_of(c, s);
	char why[SETTING_WHY_MAX];
	int64_t n = 0;

	if (!text)
		return json_null();
	(void)setting_check(s, text, &n, why);
	if (s->type == SETTING_COUNT || s->type == SETTING_SECONDS || s->type == SETTING_SIZE)
		return json_integer(n);
	if (s->type == SETTING_DURATION)
		return n % 1000 ? json_real((double)n / 1000) : json_integer(n / 1000);
	if (s->type == SETTING_DECIMAL)
		return json_real((double)n / 1e6);
	return json_from_bytes(text);
}

static json_t *list_json(const struct holt_config *c)
{
	char **const list = c->values.network_allow;
	json_t *const array = json_array();

	for (size_t i = 0; array && list && list[i]; i++) {
		if (json_array_append_new(array, json_from_bytes(list[i])) < 0) {
			json_decref(array);
			return NULL;
		}
	}
	return array;
}

static json_t *names_json(const struct holt_config *c)
{
	json_t *const array = json_array();

	for (size_t i = 0; array && c->environment && c->environment[i]; i++) {
		const char *const entry = c->environment[i];

		if (json_array_append_new(array, json_stringn(entry, strcspn(entry, "="))) < 0) {
			json_decref(array);
			return NULL;
		}
	}
	return array;
}

const char *settings_json(struct holt_config *c)
{
	auto_json object = c->json ? NULL : json_object();
	const char *key;

	if (c->json)
		return c->json;
	for (size_t i = 0; object && (key = settings_key(i)); i++) {
		const struct setting *const s = setting_find(key);
		json_t *const value = s->type == SETTING_ENVIRONMENT ? names_json(c)
				      : s->type == SETTING_ALLOW     ? list_json(c)
								     : value_json(c, s);

		if (json_object_set_new(object, key, value) < 0)
			return NULL;
	}
	c->json = object ? json_text(object) : NULL;
	return c->json;
}

/* ---- for providers ---- */

const struct provider_config *settings_values(const struct holt_config *c)
{
	return &c->values;
}

int provider_config_copy(
	const struct holt_config *c, struct provider_config *ret, holt_error **reterr)
{
	auto_free struct holt_config *none = c ? NULL : mem_zalloc(sizeof *none);

	if (!c && !none)
		return err_nomem(reterr);
	return make_values(c ? c : none, ret) < 0 ? err_nomem(reterr) : 0;
}

void settings_free(struct holt_config *c)
{
	if (!c)
		return;
	for (size_t i = 0; i < n_settings; i++)
		mem_free(c->texts[i]);
	strv_free(c->environment);
	strv_free(c->warnings);
	provider_config_done(&c->values);
	mem_free(c->names);
	mem_free(c->json);
	mem_free(c->name);
	mem_free(c);
}
