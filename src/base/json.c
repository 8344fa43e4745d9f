/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/banned.h"

int json_parse(const char *data, size_t len, size_t max, const char *what, json_t **ret,
	holt_error **reterr)
{
	json_error_t why;

	if (len > max)
		return err_make(reterr, HOLT_ELIMIT, "%s has %zu bytes, more than the limit of %zu",
			what, len, max);
	json_t *doc = json_loadb(data, len, JSON_REJECT_DUPLICATES, &why);
	if (!doc) {
		char text[JSON_ERROR_TEXT_LENGTH];

		(void)str_escape(text, sizeof text, why.text, strlen(why.text), false);
		return err_make(reterr, HOLT_EINVALID, "%s is not valid JSON: line %d: %s", what,
			why.line, text);
	}
	if (!json_is_object(doc)) {
		json_decref(doc);
		return err_make(reterr, HOLT_EINVALID, "%s is not a JSON object", what);
	}
	*ret = doc;
	return 0;
}

static const json_t *member(const json_t *obj, const char *key)
{
	const json_t *value = json_object_get(obj, key);

	return json_is_null(value) ? NULL : value;
}

int json_get_str(const json_t *obj, const char *key, const char **ret, holt_error **reterr)
{
	const json_t *value = member(obj, key);

	if (value && !json_is_string(value))
		return err_make(reterr, HOLT_EINVALID, "'%s' is not a string", key);
	if (value && strlen(json_string_value(value)) != json_string_length(value))
		return err_make(reterr, HOLT_EINVALID, "'%s' holds a NUL byte", key);
	*ret = value ? json_string_value(value) : NULL;
	return 0;
}

int json_get_int(const json_t *obj, const char *key, int64_t min, int64_t max, int64_t *ret,
	holt_error **reterr)
{
	const json_t *value = member(obj, key);

	if (!value)
		return 0;
	if (!json_is_integer(value))
		return err_make(reterr, HOLT_EINVALID, "'%s' is not an integer", key);
	const int64_t number = json_integer_value(value);
	if (number < min || number > max)
		return err_make(reterr, HOLT_EINVALID, "'%s' is out of range", key);
	*ret = number;
	return 0;
}

int json_get_strv(const json_t *obj, const char *key, char ***ret, holt_error **reterr)
{
	const json_t *value = member(obj, key);

	if (!value) {
		*ret = NULL;
		return 0;
	}
	if (!json_is_array(value))
		return err_make(reterr, HOLT_EINVALID, "'%s' is not a list", key);
	const size_t n = json_array_size(value);
	char **list = mem_array(n + 1, sizeof *list);
	if (!list)
		return err_nomem(reterr);
	for (size_t i = 0; i < n; i++) {
		const json_t *item = json_array_get(value, i);

		if (!json_is_string(item) ||
			strlen(json_string_value(item)) != json_string_length(item)) {
			strv_free(list);
			return err_make(reterr, HOLT_EINVALID,
				"item %zu of '%s' is not a string without NUL", i, key);
		}
		list[i] = str_dup(json_string_value(item));
		if (!list[i]) {
			strv_free(list);
			return err_nomem(reterr);
		}
	}
	*ret = list;
	return 0;
}

json_t *json_from_data(const void *data, size_t len)
{
	static const char digits[] = "0123456789abcdef";
	const unsigned char *bytes = data;
	json_t *text = memchr(bytes, 0, len) ? NULL : json_stringn(data, len);

	if (text)
		return text;
	auto_free char *hex = mem_zalloc(2 * len + 1);
	if (!hex)
		return NULL;
	for (size_t i = 0; i < len; i++) {
		hex[2 * i] = digits[bytes[i] >> 4];
		hex[2 * i + 1] = digits[bytes[i] & 15];
	}
	return json_pack("{s:s}", "hex", hex);
}

json_t *json_from_bytes(const char *s)
{
	return json_from_data(s, strlen(s));
}

json_t *json_from_list(const char *const *list)
{
	json_t *array = json_array();

	for (size_t i = 0; array && list && list[i]; i++) {
		if (json_array_append_new(array, json_from_bytes(list[i])) < 0) {
			json_decref(array);
			return NULL;
		}
	}
	return array;
}

static int nibble(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int data_of_hex(const char *hex, char **ret, size_t *ret_len)
{
	const size_t len = strlen(hex) / 2;
	auto_free char *bytes = mem_zalloc(len + 1);

	if (!bytes)
		return -ENOMEM;
	if (hex[2 * len])
		return -EINVAL; /* half a byte */
	for (size_t i = 0; i < len; i++) {
		const int high = nibble(hex[2 * i]);
		const int low = nibble(hex[2 * i + 1]);

		if (high < 0 || low < 0)
			return -EINVAL;
		bytes[i] = (char)(high << 4 | low);
	}
	*ret = take_ptr(bytes);
	*ret_len = len;
	return 0;
}

/* The bytes of a string or a hex object in fresh memory, a NUL behind them: 0, -ENOMEM, or -EINVAL
 * where it is neither. */
static int data_of(const json_t *value, char **ret, size_t *ret_len)
{
	const char *text = json_string_value(value);
	const char *hex = json_string_value(json_object_get(value, "hex"));

	if (hex)
		return data_of_hex(hex, ret, ret_len);
	if (!text || strlen(text) != json_string_length(value))
		return -EINVAL;
	*ret = str_dup(text);
	*ret_len = strlen(text);
	return *ret ? 0 : -ENOMEM;
}

/* The same of what has no NUL in it. */
static int bytes_of(const json_t *value, char **ret)
{
	auto_free char *bytes = NULL;
	size_t len = 0;
	const int r = data_of(value, &bytes, &len);

	if (r < 0 || strlen(bytes) != len)
		return r < 0 ? r : -EINVAL;
	*ret = take_ptr(bytes);
	return 0;
}

static int no_string(int r, const char *key, holt_error **reterr)
{
	return r == -ENOMEM ? err_nomem(reterr)
			    : err_make(reterr, HOLT_EINVALID, "'%s' is not a string", key);
}

int json_get_data(
	const json_t *obj, const char *key, char **ret, size_t *ret_len, holt_error **reterr)
{
	const json_t *value = member(obj, key);

	*ret = NULL;
	*ret_len = 0;
	const int r = value ? data_of(value, ret, ret_len) : 0;
	return r < 0 ? no_string(r, key, reterr) : 0;
}

int json_get_bytes(const json_t *obj, const char *key, char **ret, holt_error **reterr)
{
	const json_t *value = member(obj, key);

	*ret = NULL;
	const int r = value ? bytes_of(value, ret) : 0;
	return r < 0 ? no_string(r, key, reterr) : 0;
}

int json_get_list(const json_t *obj, const char *key, char ***ret, holt_error **reterr)
{
	const json_t *value = member(obj, key);
	const size_t n = value ? json_array_size(value) : 0;

	*ret = NULL;
	if (!value)
		return 0;
	if (!json_is_array(value))
		return err_make(reterr, HOLT_EINVALID, "'%s' is not a list", key);
	char **list = mem_array(n + 1, sizeof *list);
	if (!list)
		return err_nomem(reterr);
	for (size_t i = 0; i < n; i++) {
		const int r = bytes_of(json_array_get(value, i), &list[i]);

		if (r < 0) {
			strv_free(list);
			return r == -ENOMEM ? err_nomem(reterr)
					    : err_make(reterr, HOLT_EINVALID,
						      "item %zu of '%s' is not a string", i, key);
		}
	}
	*ret = list;
	return 0;
}

char *json_text(const json_t *j)
{
	const size_t len = json_dumpb(j, NULL, 0, JSON_COMPACT);
	char *text = len ? mem_zalloc(len + 1) : NULL;

	if (text)
		(void)json_dumpb(j, text, len, JSON_COMPACT);
	return text;
}
