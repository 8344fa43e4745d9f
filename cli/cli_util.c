/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* Messages may be as long as a console's tail. */
#define TEXT_MAX 16384

static void put_error_text(const char *text)
{
	static char shown[TEXT_MAX];

	(void)cli_escape_str(shown, sizeof shown, text);
	(void)fputs(shown, stderr);
}

int cli_error(int status, holt_error *error)
{
	const char *message = holt_error_message(error);
	const char *object = holt_error_object(error);
	const char *stage = holt_error_stage(error);
	const char *hint = holt_error_hint(error);

	(void)fprintf(stderr, "holt: %s%s", stage, *stage ? ": " : "");
	if (*object && !strstr(message, object)) {
		put_error_text(object);
		(void)fputs(": ", stderr);
	}
	put_error_text(message);
	if (*hint) {
		(void)fputs("\nhint: ", stderr);
		put_error_text(hint);
	}
	(void)fputc('\n', stderr);
	holt_error_free(error);
	return status;
}

int cli_usage(int status, const char *verb, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	(void)fprintf(stderr, "holt%s%s: ", *verb ? " " : "", verb);
	put_error_text(text);
	(void)fprintf(stderr, "; see 'holt %s%s--help'\n", verb, *verb ? " " : "");
	return status;
}

int cli_bad_option_with(int status, const char *verb, int c, char **argv, const char *note)
{
	const char *word = argv[optind - 1];

	if (c == ':')
		return cli_usage(status, verb, "a value is missing for '%.64s'", word);
	/* One letter of several in a word. */
	if (optopt > ' ' && optopt < 0x7f && strncmp(word, "--", 2) != 0)
		return cli_usage(status, verb, "unknown option '-%c'%s", optopt, note);
	return cli_usage(status, verb, "unknown option '%.64s'%s", word, note);
}

int cli_bad_option(int status, const char *verb, int c, char **argv)
{
	return cli_bad_option_with(status, verb, c, argv, "");
}

int cli_finish(void)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return CLI_OK;
	(void)fprintf(stderr, "holt: cannot write to stdout: %s\n", strerror(errno));
	return CLI_FAILED;
}

int cli_finish_with(int status)
{
	const int written = cli_finish();

	return status ? status : written;
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
	const char *name;
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
		while (units->name && strcasecmp(units->name, rest) != 0)
			units++;
		if (!units->name)
			return 0;
		factor = units->factor;
	}
	if (milli > UINT64_MAX / factor)
		return 0;
	return milli * factor / 1000;
}

int cli_parse_bytes(const char *text, uint64_t *ret)
{
	static const struct unit units[] = {{"b", 1}, {"g", 1u << 30}, {"k", 1u << 10},
		{"m", 1u << 20}, {"t", 1ull << 40}, {0}};
	const uint64_t bytes = parse_with_unit(text, units, 1);

	*ret = bytes;
	return bytes ? 0 : -1;
}

int cli_parse_mib(const char *text, uint32_t *ret)
{
	uint64_t bytes = 0;

	if (cli_parse_bytes(text, &bytes) < 0 || bytes >> 20 == 0 || bytes >> 20 > UINT32_MAX)
		return -1;
	*ret = (uint32_t)(bytes >> 20);
	return 0;
}

int cli_parse_duration_ms(const char *text, uint64_t *ret)
{
	static const struct unit units[] = {
		{"d", 86400000}, {"h", 3600000}, {"m", 60000}, {"ms", 1}, {"s", 1000}, {0}};
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

int cli_parse_grace_ms(const char *text, uint64_t *ret)
{
	if (strcmp(text, "0") == 0) {
		*ret = HOLT_NO_GRACE;
		return 0;
	}
	return cli_parse_duration_ms(text, ret);
}

int cli_parse_timeout_ms(const char *text, uint64_t *ret)
{
	if (strcmp(text, "0") == 0) {
		*ret = HOLT_FOREVER;
		return 0;
	}
	return cli_parse_duration_ms(text, ret);
}

/* "RTMIN", "RTMIN+3", "RTMAX-2". */
static int parse_realtime(const char *text)
{
	const int from_max = strncmp(text, "RTMAX", 5) == 0;
	const char sign = from_max ? '-' : '+';
	uint32_t offset = 0;

	if (!from_max && strncmp(text, "RTMIN", 5) != 0)
		return 0;
	text += 5;
	if (*text && (*text != sign || cli_parse_count(text + 1, &offset) < 0 || offset > 30))
		return 0;
	return from_max ? SIGRTMAX - (int)offset : SIGRTMIN + (int)offset;
}

int cli_parse_signal(const char *text, int *ret)
{
	uint32_t number = 0;

	if (cli_parse_count(text, &number) == 0) {
		*ret = (int)number;
		return number <= 64 ? 0 : -1;
	}
	if (strncasecmp(text, "SIG", 3) == 0)
		text += 3;
	*ret = parse_realtime(text);
	for (int i = 1; i < SIGRTMIN && *ret == 0; i++) {
		const char *name = sigabbrev_np(i);

		if (name && strcasecmp(name, text) == 0)
			*ret = i;
	}
	return *ret ? 0 : -1;
}

/* "2026-11-30T12:00:00.5Z" or with "+01:00" behind. */
static int parse_rfc3339(const char *text, uint64_t *ret)
{
	struct tm tm = {0};
	uint64_t ns = 0;
	const char *p = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);

	if (!p)
		return -1;
	if (*p == '.') {
		uint64_t scale = 100000000;

		for (p++; *p >= '0' && *p <= '9'; p++, scale /= 10)
			ns += (uint64_t)(*p - '0') * scale;
	}
	int hours = 0, minutes = 0, end = 0;
	const char sign = *p;
	if (sign == '+' || sign == '-') {
		if (sscanf(p + 1, "%2d:%2d%n", &hours, &minutes, &end) != 2 || p[1 + end])
			return -1;
	} else if (strcmp(p, "Z") != 0) {
		return -1;
	}
	const time_t utc = timegm(&tm) - (sign == '-' ? -1 : 1) * (hours * 3600 + minutes * 60);
	if (utc < 0)
		return -1;
	*ret = (uint64_t)utc * 1000000000u + ns;
	return 0;
}

int cli_parse_time_ns(const char *text, uint64_t *ret)
{
	const char *end = text + strspn(text, "0123456789.");
	uint64_t ms = 0;

	if (strchr(text, 'T'))
		return parse_rfc3339(text, ret);
	/* The oldest of all, and just now. */
	if (*text == '0' && (!text[1] || (strchr("smhd", text[1]) && !text[2]))) {
		*ret = text[1] ? cli_now_ns() : 0;
		return 0;
	}
	if (cli_parse_duration_ms(text, &ms) < 0)
		return -1;
	if (*end) {
		const uint64_t now_ns = cli_now_ns();

		*ret = ms < now_ns / 1000000u ? now_ns - ms * 1000000u : 0;
		return 0;
	}
	if (ms > UINT64_MAX / 1000000u)
		return -1;
	*ret = ms * 1000000u;
	return 0;
}
