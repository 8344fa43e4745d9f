/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values of the data: a text in which $T, $VP, $VR and $N are replaced, {"base64": TEXT},
 * {"repeat": TEXT, "times": N}, or an array of these, whose bytes are put together.
 */
#include "case.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

struct piece {
	struct piece *next;
	_Alignas(16) char data[];
};

static void *must(void *p)
{
	if (!p) {
		(void)fprintf(stderr, "contract: out of memory\n");
		exit(1);
	}
	return p;
}

void pile_add(struct pile *p, const void *data, size_t len)
{
	if (p->len + len + 1 > p->cap) {
		p->cap = (p->len + len + 1) * 2;
		p->data = must(realloc(p->data, p->cap));
	}
	if (len > 0)
		memcpy(p->data + p->len, data, len);
	p->len += len;
	p->data[p->len] = 0;
}

void *case_alloc(struct run *run, size_t size)
{
	struct piece *piece = must(calloc(1, sizeof *piece + size + 1));

	piece->next = run->memory;
	run->memory = piece;
	return piece->data;
}

void case_free_all(struct run *run)
{
	for (struct piece *p = run->memory, *next = NULL; p; p = next) {
		next = p->next;
		free(p);
	}
	run->memory = NULL;
}

bool case_fail(struct run *run, const char *fmt, ...)
{
	va_list args;

	if (!*run->why) {
		va_start(args, fmt);
		(void)vsnprintf(run->why, sizeof run->why, fmt, args);
		va_end(args);
	}
	return false;
}

/* ---- one value ---- */

static bool is_name(char c)
{
	return c == '_' || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') ||
	       (c >= 'a' && c <= 'z');
}

/* Length of the placeholder at @s, or 0; *ret is what it stands for. */
static size_t placeholder(const struct run *run, const char *s, size_t len, char *number,
	size_t number_size, const char **ret)
{
	(void)snprintf(number, number_size, "%u", run->thread);
	const struct {
		const char *name, *text;
	} all[] = {{"$T", run->dir}, {"$VP", run->world->user_data},
		{"$VR", run->world->user_data + 1}, {"$N", number}};

	for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
		const size_t n = strlen(all[i].name);

		if (n <= len && memcmp(s, all[i].name, n) == 0 && (n == len || !is_name(s[n]))) {
			*ret = all[i].text;
			return n;
		}
	}
	return 0;
}

static void add_text(struct run *run, json_t *json, struct pile *out)
{
	const char *s = json_string_value(json);
	size_t left = json_string_length(json);

	while (left > 0) {
		char number[16];
		const char *text = NULL;
		const size_t n = placeholder(run, s, left, number, sizeof number, &text);

		pile_add(out, n ? text : s, n ? strlen(text) : 1);
		s += n ? n : 1;
		left -= n ? n : 1;
	}
}

static int digit_of(char c)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const char *at = c ? strchr(digits, c) : NULL;

	return at ? (int)(at - digits) : -1;
}

static bool add_base64(struct run *run, const char *s, struct pile *out)
{
	uint32_t bits = 0;
	unsigned n = 0;

	for (; *s && *s != '='; s++) {
		const int d = digit_of(*s);

		if (d < 0)
			return case_fail(run, "bad data: no base64");
		bits = bits << 6 | (uint32_t)d;
		n += 6;
		if (n >= 8) {
			const char byte = (char)(bits >> (n - 8));

			pile_add(out, &byte, 1);
			n -= 8;
		}
	}
	return true;
}

static bool add_repeated(struct run *run, json_t *json, struct pile *out)
{
	json_t *text = json_object_get(json, "repeat");
	const json_int_t times = json_integer_value(json_object_get(json, "times"));
	struct pile one = {0};

	if (!json_is_string(text) || times < 0 || json_object_size(json) != 2 ||
		(uint64_t)times * json_string_length(text) > CASE_VALUE_MAX)
		return case_fail(run, "bad data: a repetition needs a text and a number of times");
	add_text(run, text, &one);
	for (json_int_t i = 0; i < times; i++)
		pile_add(out, one.data, one.len);
	free(one.data);
	return true;
}

static bool add_item(struct run *run, json_t *json, struct pile *out)
{
	json_t *base64 = json_object_get(json, "base64");

	if (json_is_string(json)) {
		add_text(run, json, out);
		return true;
	}
	if (json_is_string(base64) && json_object_size(json) == 1)
		return add_base64(run, json_string_value(base64), out);
	return add_repeated(run, json, out);
}

bool value_get(struct run *run, json_t *json, struct bytes *ret)
{
	struct pile out = {0};
	bool ok = true;

	pile_add(&out, NULL, 0);
	if (json_is_array(json)) {
		for (size_t i = 0; ok && i < json_array_size(json); i++)
			ok = add_item(run, json_array_get(json, i), &out);
	} else {
		ok = add_item(run, json, &out);
	}
	if (ok) {
		char *data = case_alloc(run, out.len);

		memcpy(data, out.data, out.len);
		*ret = (struct bytes){data, out.len};
	}
	free(out.data);
	return ok;
}

/* ---- of a step ---- */

bool value_text(struct run *run, json_t *step, const char *key, bool required, const char **ret)
{
	json_t *json = json_object_get(step, key);
	struct bytes bytes;

	*ret = NULL;
	if (!json)
		return !required || case_fail(run, "bad data: '%s' is missing", key);
	if (!value_get(run, json, &bytes))
		return false;
	if (strlen(bytes.data) != bytes.len)
		return case_fail(run, "bad data: '%s' holds a NUL", key);
	*ret = bytes.data;
	return true;
}

bool value_uint(struct run *run, json_t *step, const char *key, uint64_t *ret)
{
	json_t *json = json_object_get(step, key);

	if (!json)
		return true;
	if (!json_is_integer(json) || json_integer_value(json) < 0)
		return case_fail(run, "bad data: '%s' is no number", key);
	*ret = (uint64_t)json_integer_value(json);
	return true;
}

bool value_flag(struct run *run, json_t *step, const char *key, uint32_t flag, uint32_t *flags)
{
	json_t *json = json_object_get(step, key);

	if (json && !json_is_boolean(json))
		return case_fail(run, "bad data: '%s' is neither true nor false", key);
	if (json_is_true(json))
		*flags |= flag;
	return true;
}
