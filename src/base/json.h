/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include "base/err.h"

#include <jansson.h>
#include <stdbool.h>

/*
 * The only door to jansson. Untrusted documents are parsed with a size limit and nesting as
 * jansson allows; getters return NULL or a default instead of failing where a member is missing,
 * and an error where it has the wrong type.
 */

/* Parse a document of at most @max bytes whose top level is an object. @what names it in errors. */
int json_parse(const char *data, size_t len, size_t max, const char *what, json_t **ret,
	holt_error **reterr);

/* Borrowed string member; *ret is NULL where it is missing or null. */
int json_get_str(const json_t *obj, const char *key, const char **ret, holt_error **reterr);
/* Integer member in [@min, @max]; *ret untouched where it is missing or null. */
int json_get_int(const json_t *obj, const char *key, int64_t min, int64_t max, int64_t *ret,
	holt_error **reterr);
/* Member that is an array of strings, as a fresh NULL-terminated list (strv_free); *ret is NULL
 * where it is missing or null. Strings with NUL inside are refused. */
int json_get_strv(const json_t *obj, const char *key, char ***ret, holt_error **reterr);

/* Strings of any bytes but NUL: valid UTF-8 as a JSON string, all else as {"hex": "..."}. The
 * second gives fresh memory, *ret is NULL where the member is missing or null; likewise for lists.
 */
json_t *json_from_bytes(const char *s);
json_t *json_from_list(const char *const *list);
int json_get_bytes(const json_t *obj, const char *key, char **ret, holt_error **reterr);
int json_get_list(const json_t *obj, const char *key, char ***ret, holt_error **reterr);
/* The same for any bytes, NUL too. */
json_t *json_from_data(const void *data, size_t len);
int json_get_data(
	const json_t *obj, const char *key, char **ret, size_t *ret_len, holt_error **reterr);

static inline void json_freep(json_t **j)
{
	json_decref(*j);
}
#define auto_json __attribute__((cleanup(json_freep))) json_t *

/* Compact text in fresh memory (mem_free), or NULL. */
char *json_text(const json_t *j);

#endif
