/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The library's JSON on its way to the user. It is well-formed by contract, so a look at each byte
 * is enough: what is inside a string, and what is not. And strings of JSON made of bytes that a
 * guest chose.
 */
#include "cli.h"

#include <string.h>

/* Behind the string that begins at @p. */
static const char *string_end(const char *p)
{
	for (p++; *p && *p != '"'; p++) {
		if (*p == '\\' && p[1])
			p++;
	}
	return *p ? p + 1 : p;
}

/* What JSON allows and a terminal could obey becomes "\uHHHH". Returns the bytes of @p it took. */
static size_t put_char(FILE *out, const char *p, size_t left)
{
	uint32_t code = 0;
	const int n = cli_decode(p, left, &code);

	if (n > 0 && cli_is_printable(code))
		(void)fwrite(p, 1, (size_t)n, out);
	else
		(void)fprintf(out, "\\u%04x", n > 0 ? code : 0xfffd);
	return n > 0 ? (size_t)n : 1;
}

static const char *put_string(FILE *out, const char *p)
{
	const char *end = string_end(p);

	while (p < end)
		p += put_char(out, p, (size_t)(end - p));
	return end;
}

/* One character of @p, or a byte that is none. Returns how much of @p it is. */
static size_t put_escaped(FILE *out, const char *p, size_t left, enum cli_json_bytes rule)
{
	uint32_t code = 0;
	const int n = cli_decode(p, left, &code);

	if (n <= 0)
		(void)fprintf(out, rule == CLI_JSON_PATH ? "\\u0000%02x" : "\\ufffd", (uint8_t)*p);
	else if (*p == '"' || *p == '\\')
		(void)fprintf(out, "\\%c", *p);
	else
		return put_char(out, p, left);
	return n > 0 ? (size_t)n : 1;
}

void cli_json_string(FILE *out, const void *data, size_t len, enum cli_json_bytes rule)
{
	const char *p = data;
	size_t done = 0;

	(void)fputc('"', out);
	while (done < len)
		done += put_escaped(out, p + done, len - done, rule);
	(void)fputc('"', out);
}

static void new_line(FILE *out, int depth)
{
	(void)fprintf(out, "\n%*s", 4 * depth, "");
}

/* One byte outside of strings; returns how deep we are behind it. */
static int put_mark(FILE *out, const char *p, int depth)
{
	const int opens = *p == '{' || *p == '[';
	const int closes = *p == '}' || *p == ']';
	const int empty = (opens && (p[1] == '}' || p[1] == ']')) ||
			  (closes && (p[-1] == '{' || p[-1] == '['));

	depth += opens - closes;
	if (closes && !empty)
		new_line(out, depth);
	(void)fputc(*p, out);
	if (*p == ':')
		(void)fputc(' ', out);
	if (*p == ',' || (opens && !empty))
		new_line(out, depth);
	return depth;
}

void cli_json_print(FILE *out, const char *json, int pretty, int depth)
{
	if (pretty)
		(void)fprintf(out, "%*s", 4 * depth, "");
	while (*json) {
		if (*json == '"') {
			json = put_string(out, json);
		} else if (!pretty) {
			(void)fputc(*json++, out);
		} else {
			if (!strchr(" \t\n", *json))
				depth = put_mark(out, json, depth);
			json++;
		}
	}
}

size_t cli_json_member(const char *json, const char *name, const char **ret)
{
	const size_t len = strlen(name);

	*ret = "";
	for (const char *p = strchr(json, '"'); p && *p; p = strchr(p, '"')) {
		const char *end = string_end(p);
		const int wanted = (size_t)(end - p) == len + 2 && memcmp(p + 1, name, len) == 0;
		const char *value = end + strspn(end, " :");

		p = *value == '"' ? string_end(value) : value + strcspn(value, ",}");
		if (wanted) {
			const int quoted = *value == '"';

			*ret = value + quoted;
			return (size_t)(p - value) - 2 * (size_t)quoted;
		}
	}
	return 0;
}
