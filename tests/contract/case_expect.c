/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What came holds against what the data expects. A key that nobody knows is a failure, so that a
 * slip of the pen cannot make a case that holds whatever happens.
 */
#include "case.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN 60 /* bytes of a value in a message */

/* Whether @word is one of the blank-separated @words. */
static bool is_word(const char *word, const char *words)
{
	const size_t len = strlen(word);

	for (const char *at = words; (at = strstr(at, word)); at += len)
		if ((at == words || at[-1] == ' ') && (at[len] == ' ' || at[len] == 0))
			return true;
	return false;
}

bool expect_keys(struct run *run, json_t *object, const char *what, const char *allowed)
{
	const char *key = NULL;
	json_t *value = NULL;

	if (object && !json_is_object(object))
		return case_fail(run, "bad data: %s is no object", what);
	json_object_foreach(object, key, value)
	{
		if (!is_word(key, allowed))
			return case_fail(run, "bad data: %s has no '%s'", what, key);
	}
	return true;
}

/* Bytes from a place on, for a message. */
static const char *shown(struct run *run, const char *data, size_t len, size_t from)
{
	const size_t n = len - from < SHOWN ? len - from : SHOWN;
	char *text = case_alloc(run, 4 * SHOWN + 1);
	size_t at = 0;

	for (size_t i = 0; i < n; i++) {
		const unsigned char c = (unsigned char)data[from + i];

		if (c < ' ' || c >= 127)
			at += (size_t)snprintf(text + at, 5, "\\x%02x", c);
		else
			text[at++] = (char)c;
	}
	return text;
}

static bool same_bytes(struct run *run, const char *what, struct bytes got, struct bytes want)
{
	const size_t less = got.len < want.len ? got.len : want.len;
	size_t i = 0;

	while (i < less && got.data[i] == want.data[i])
		i++;
	if (i == got.len && i == want.len)
		return true;
	const size_t from = i < 10 ? 0 : i - 10;
	return case_fail(run,
		"%s: %zu bytes instead of %zu, not the same from byte %zu: '%s', not '%s'", what,
		got.len, want.len, i, shown(run, got.data, got.len, from),
		shown(run, want.data, want.len, from));
}

bool expect_bytes(struct run *run, json_t *expect, const char *key, const void *data, size_t len)
{
	json_t *json = json_object_get(expect, key);
	struct bytes want;

	if (!json)
		return true;
	return value_get(run, json, &want) && same_bytes(run, key, (struct bytes){data, len}, want);
}

bool expect_one_of(struct run *run, json_t *expect, const char *key, const void *data, size_t len)
{
	json_t *json = json_object_get(expect, key);
	struct bytes want;

	if (!json)
		return true;
	for (size_t i = 0; i < json_array_size(json); i++) {
		if (!value_get(run, json_array_get(json, i), &want))
			return false;
		if (want.len == len && (len == 0 || memcmp(want.data, data, len) == 0))
			return true;
	}
	return case_fail(run, "%s: %zu bytes are none of %zu values: '%s'", key, len,
		json_array_size(json), shown(run, data, len, 0));
}

bool expect_uint(struct run *run, json_t *expect, const char *key, uint64_t value)
{
	json_t *json = json_object_get(expect, key);

	if (!json)
		return true;
	if (!json_is_integer(json))
		return case_fail(run, "bad data: '%s' is no number", key);
	if ((uint64_t)json_integer_value(json) != value)
		return case_fail(run, "%s is %llu, not %lld", key, (unsigned long long)value,
			(long long)json_integer_value(json));
	return true;
}

bool expect_flag(struct run *run, json_t *expect, const char *key, bool usual, bool value)
{
	json_t *json = json_object_get(expect, key);

	if (json && !json_is_boolean(json))
		return case_fail(run, "bad data: '%s' is neither true nor false", key);
	if (value != (json ? json_is_true(json) : usual))
		return case_fail(run, "%s is %s", key, value ? "true" : "false");
	return true;
}

static bool has_one(struct run *run, const char *key, json_t *json, const void *data, size_t len)
{
	struct bytes want;

	if (!value_get(run, json, &want))
		return false;
	return memmem(data, len, want.data, want.len) ||
	       case_fail(run, "%s: '%s' is not in it: '%s'", key,
		       shown(run, want.data, want.len, 0), shown(run, data, len, 0));
}

bool expect_has(struct run *run, json_t *expect, const char *key, const void *data, size_t len)
{
	json_t *json = json_object_get(expect, key);

	if (!json)
		return true;
	if (!json_is_array(json))
		return has_one(run, key, json, data, len);
	for (size_t i = 0; i < json_array_size(json); i++)
		if (!has_one(run, key, json_array_get(json, i), data, len))
			return false;
	return true;
}

bool expect_lacks(struct run *run, json_t *expect, const char *key, const void *data, size_t len)
{
	json_t *json = json_object_get(expect, key);
	struct bytes text;

	if (!json)
		return true;
	return value_get(run, json, &text) && (!memmem(data, len, text.data, text.len) ||
						      case_fail(run, "%s: '%s' is in it", key,
							      shown(run, text.data, text.len, 0)));
}

/* ---- errors ---- */

static int errno_of(const char *name)
{
	static const struct {
		const char *name;
		int number;
	} all[] = {{"EACCES", EACCES}, {"EEXIST", EEXIST}, {"EFBIG", EFBIG}, {"EISDIR", EISDIR},
		{"ELOOP", ELOOP}, {"ENAMETOOLONG", ENAMETOOLONG}, {"ENOENT", ENOENT},
		{"ENOTDIR", ENOTDIR}, {"ENOTEMPTY", ENOTEMPTY}, {"EPERM", EPERM}, {"EXDEV", EXDEV}};

	for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
		if (strcmp(all[i].name, name) == 0)
			return all[i].number;
	return -1;
}

static bool check_code(struct run *run, json_t *want, const holt_error *error)
{
	const char *code = json_string_value(json_object_get(want, "code"));
	const char *is = holt_code_name(holt_error_code(error));

	if (!code)
		return case_fail(run, "bad data: an error has a code");
	return is_word(is, code) || case_fail(run, "failed with %s instead of %s: %s", is, code,
					    holt_error_message(error));
}

static bool check_errno(struct run *run, json_t *want, const holt_error *error)
{
	const char *name = json_string_value(json_object_get(want, "errno"));

	if (name && errno_of(name) < 0)
		return case_fail(run, "bad data: errno '%s'", name);
	return !name || errno_of(name) == holt_error_errno(error) ||
	       case_fail(run, "errno is %d, not %s: %s", holt_error_errno(error), name,
		       holt_error_message(error));
}

/* Also that a failure says nothing about the sandbox, unless it is expected to. */
static bool check_failure(struct run *run, json_t *want, const holt_error *error)
{
	static const char *const names[] = {[HOLT_FAILURE_NONE] = "none",
		[HOLT_FAILURE_TERMINAL] = "terminal",
		[HOLT_FAILURE_RETRYABLE] = "retryable"};
	json_t *json = json_object_get(want, "failure");
	const char *name = json ? json_string_value(json) : names[HOLT_FAILURE_NONE];
	const int failure = holt_error_failure(error);

	if (!name || failure < 0 || failure > HOLT_FAILURE_RETRYABLE)
		return case_fail(run, "bad failure class %d", failure);
	return strcmp(names[failure], name) == 0 ||
	       case_fail(run, "the failure counts as %s, not %s: %s", names[failure], name,
		       holt_error_message(error));
}

/* What every error says (K48); "hint": false where there is nothing to advise. */
static bool check_manners(struct run *run, json_t *want, const holt_error *error)
{
	const char *message = holt_error_message(error);

	if (!*message || strchr(message, '\n') || !*holt_error_stage(error))
		return case_fail(run, "an error without message or stage: '%s' [%s]", message,
			holt_error_stage(error));
	return expect_flag(run, want, "hint", true, *holt_error_hint(error) != 0) ||
	       case_fail(run, "an error without a hint: %s", message);
}

static bool check_error(struct run *run, json_t *json, int r, const holt_error *error)
{
	json_t *made = json_is_string(json) ? json_pack("{s:O}", "code", json) : NULL;
	json_t *const want = made ? made : json;
	const char *message = holt_error_message(error);
	char *text = NULL;
	bool ok = expect_keys(run, want, "an error", "code errno failure has hint object text_has");

	if (ok && r != -holt_error_code(error))
		ok = case_fail(
			run, "returned %d with an error of code %d", r, holt_error_code(error));
	ok = ok && check_code(run, want, error) && check_errno(run, want, error) &&
	     check_failure(run, want, error) && check_manners(run, want, error) &&
	     expect_has(run, want, "has", message, strlen(message)) &&
	     expect_bytes(run, want, "object", holt_error_object(error),
		     strlen(holt_error_object(error)));
	if (ok && holt_error_text(error, &text, NULL) != 0)
		ok = case_fail(run, "the error has no text");
	ok = ok && expect_has(run, want, "text_has", text, strlen(text));
	if (ok && strncmp(text, "Error: ", 7) != 0)
		ok = case_fail(run, "the text of an error is '%s'", text);
	holt_free(text);
	json_decref(made);
	return ok;
}

bool expect_result(struct run *run, json_t *expect, int r, const holt_error *error, bool *ret_more)
{
	json_t *json = json_object_get(expect, "error");

	*ret_more = r == 0 && !json;
	if (r == 0 && !error)
		return !json || case_fail(run, "worked, but was to fail");
	if (r == 0)
		return case_fail(run, "worked and left an error: %s", holt_error_message(error));
	if (json)
		return check_error(run, json, r, error);
	return case_fail(run, "failed: %s: %s [%s] %s", holt_code_name(-r),
		holt_error_message(error), holt_error_stage(error), holt_error_object(error));
}

/* ---- sets ---- */

void found_add(struct found *f, const void *data, size_t len)
{
	struct pile copy = {0};

	if ((f->n & (f->n - 1)) == 0) {
		struct pile *more = realloc(f->items, (f->n ? f->n * 2 : 1) * sizeof *f->items);

		if (!more)
			abort();
		f->items = more;
	}
	pile_add(&copy, data, len);
	f->items[f->n++] = copy;
}

void found_free(struct found *f)
{
	for (size_t i = 0; i < f->n; i++)
		free(f->items[i].data);
	free(f->items);
	*f = (struct found){0};
}

static int by_bytes(const void *a, const void *b)
{
	const struct pile *x = a;
	const struct pile *y = b;
	const size_t less = x->len < y->len ? x->len : y->len;
	const int r = memcmp(x->data, y->data, less);

	return r ? r : (x->len > y->len) - (x->len < y->len);
}

/* An element of a set: a value, or [PATH, NUMBER, LINE]. */
static bool add_wanted(struct run *run, json_t *json, struct found *set)
{
	struct bytes path;
	struct bytes line;
	struct pile all = {0};
	char number[32];

	if (!json_is_array(json) || !json_is_integer(json_array_get(json, 1))) {
		if (!value_get(run, json, &path))
			return false;
		found_add(set, path.data, path.len);
		return true;
	}
	if (!value_get(run, json_array_get(json, 0), &path) ||
		!value_get(run, json_array_get(json, 2), &line))
		return false;
	(void)snprintf(number, sizeof number, "%lld",
		(long long)json_integer_value(json_array_get(json, 1)));
	pile_add(&all, path.data, path.len + 1);
	pile_add(&all, number, strlen(number) + 1);
	pile_add(&all, line.data, line.len);
	found_add(set, all.data, all.len);
	free(all.data);
	return true;
}

static bool same_sets(struct run *run, const char *key, struct found *found, struct found *wanted)
{
	const size_t less = found->n < wanted->n ? found->n : wanted->n;
	size_t i = 0;

	if (found->n > 0)
		qsort(found->items, found->n, sizeof *found->items, by_bytes);
	if (wanted->n > 0)
		qsort(wanted->items, wanted->n, sizeof *wanted->items, by_bytes);
	while (i < less && by_bytes(&found->items[i], &wanted->items[i]) == 0)
		i++;
	if (i == found->n && i == wanted->n)
		return true;
	return case_fail(run, "%s: %zu instead of %zu; the first that differs is '%s', not '%s'",
		key, found->n, wanted->n,
		i < found->n ? shown(run, found->items[i].data, found->items[i].len, 0) : "none",
		i < wanted->n ? shown(run, wanted->items[i].data, wanted->items[i].len, 0)
			      : "none");
}

bool expect_set(struct run *run, json_t *expect, const char *key, struct found *found)
{
	json_t *json = json_object_get(expect, key);
	struct found wanted = {0};
	bool ok = true;

	if (!json)
		return true;
	if (!json_is_array(json))
		return case_fail(run, "bad data: '%s' is no array", key);
	for (size_t i = 0; ok && i < json_array_size(json); i++)
		ok = add_wanted(run, json_array_get(json, i), &wanted);
	ok = ok && same_sets(run, key, found, &wanted);
	found_free(&wanted);
	return ok;
}
