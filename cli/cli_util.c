/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int cli_error(int status, holt_error *error)
{
	const char *message = holt_error_message(error);
	const char *object = holt_error_object(error);
	const char *stage = holt_error_stage(error);
	const char *hint = holt_error_hint(error);

	(void)fprintf(stderr, "holt: %s%s", stage, *stage ? ": " : "");
	if (*object && !strstr(message, object))
		(void)fprintf(stderr, "%s: ", object);
	(void)fprintf(stderr, "%s\n", message);
	if (*hint)
		(void)fprintf(stderr, "hint: %s\n", hint);
	holt_error_free(error);
	return status;
}

int cli_usage(int status, const char *verb, const char *fmt, ...)
{
	va_list ap;

	(void)fprintf(stderr, "holt%s%s: ", *verb ? " " : "", verb);
	va_start(ap, fmt);
	(void)vfprintf(stderr, fmt, ap);
	va_end(ap);
	(void)fprintf(stderr, "; see 'holt %s%s--help'\n", verb, *verb ? " " : "");
	return status;
}

int cli_finish(void)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return CLI_OK;
	(void)fprintf(stderr, "holt: cannot write to stdout: %s\n", strerror(errno));
	return CLI_FAILED;
}

/* Digits with at most one '.', in thousandths. Returns what follows them, or NULL. */
static const char *parse_milli(const char *p, uint64_t *ret)
{
	uint64_t whole = 0;
	uint64_t part = 0;
	uint64_t scale = 1000;
	const char *start = p;

	for (; *p >= '0' && *p <= '9'; p++) {
		if (whole > UINT64_MAX / 1000000)
			return NULL;
		whole = whole * 10 + (uint64_t)(*p - '0');
	}
	if (p == start)
		return NULL;
	if (*p == '.') {
		const char *point = ++p;

		for (; *p >= '0' && *p <= '9'; p++) {
			if (scale > 1) {
				scale /= 10;
				part += (uint64_t)(*p - '0') * scale;
			}
		}
		if (p == point)
			return NULL;
	}
	*ret = whole * 1000 + part;
	return p;
}

struct unit {
	char letter;
	uint64_t factor;
};

/* Thousandths times the unit that the text ends with; 0 on any mistake. */
static uint64_t parse_with_unit(const char *text, const struct unit *units, uint64_t no_unit)
{
	uint64_t milli = 0;
	uint64_t factor = no_unit;
	const char *rest = parse_milli(text, &milli);

	if (!rest)
		return 0;
	if (*rest) {
		const char letter = *rest >= 'A' && *rest <= 'Z' ? (char)(*rest - 'A' + 'a')
								 : *rest;

		while (units->letter && units->letter != letter)
			units++;
		if (!units->letter || rest[1])
			return 0;
		factor = units->factor;
	}
	if (milli > UINT64_MAX / factor)
		return 0;
	return milli * factor / 1000;
}

int cli_parse_bytes(const char *text, uint64_t *ret)
{
	static const struct unit units[] = {{'b', 1}, {'g', 1u << 30}, {'k', 1u << 10},
		{'m', 1u << 20}, {'t', 1ull << 40}, {0, 0}};
	const uint64_t bytes = parse_with_unit(text, units, 1);

	*ret = bytes;
	return bytes ? 0 : -1;
}

int cli_parse_duration_ms(const char *text, uint64_t *ret)
{
	static const struct unit units[] = {
		{'d', 86400000}, {'h', 3600000}, {'m', 60000}, {'s', 1000}, {0, 0}};
	const uint64_t ms = parse_with_unit(text, units, 1000);

	*ret = ms;
	return ms ? 0 : -1;
}

int cli_parse_count(const char *text, uint32_t *ret)
{
	uint64_t milli = 0;
	const char *rest = parse_milli(text, &milli);

	if (!rest || *rest || milli % 1000 || milli == 0 || milli / 1000 > UINT32_MAX)
		return -1;
	*ret = (uint32_t)(milli / 1000);
	return 0;
}
