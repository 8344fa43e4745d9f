/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text on its way to the user. Names, commands, log lines and errors may hold bytes that a guest
 * chose; what a terminal could obey, or what would make it lie, is shown as "\xHH" instead.
 */
#include "cli.h"

#include <string.h>
#include <time.h>

/* The bytes that a character which begins with @lead has; 0 for no beginning of one. */
static size_t utf8_length(uint8_t lead)
{
	return lead < 0x80   ? 1
	       : lead < 0xc2 ? 0
	       : lead < 0xe0 ? 2
	       : lead < 0xf0 ? 3
	       : lead < 0xf5 ? 4
			     : 0;
}

/* Not: controls of both sets, and what changes the direction or the line. */
int cli_is_printable(uint32_t code)
{
	return code >= 0x20 && !(code >= 0x7f && code < 0xa0) &&
	       !(code >= 0x2028 && code <= 0x202e) && !(code >= 0x2066 && code <= 0x2069) &&
	       code != 0x200e && code != 0x200f && code != 0x061c;
}

int cli_decode(const void *text, size_t left, uint32_t *ret_code)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	const uint8_t *p = text;
	const size_t n = utf8_length(*p);
	uint32_t code = n == 1 ? *p : n ? *p & (0x7fu >> n) : 0;

	for (size_t i = 1; i < n; i++) {
		if (i == left)
			return -1;
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		code = code << 6 | (p[i] & 0x3f);
	}
	*ret_code = code;
	return code >= least[n] && code <= 0x10ffff && !(code >= 0xd800 && code < 0xe000) ? (int)n
											  : 0;
}

/* Bytes at @p that are one character to be shown; 0: the first has to be escaped; -1: that depends
 * on bytes that are not there yet. */
static int printable_length(const uint8_t *p, size_t left)
{
	uint32_t code = 0;
	const int n = cli_decode(p, left, &code);

	return n > 0 && !cli_is_printable(code) ? 0 : n;
}

/* The same with the rules for lines; *@ret_skip is set where the byte is to be left out. */
static int line_length(const uint8_t *p, size_t left, int *ret_skip)
{
	*ret_skip = 0;
	if (*p == '\n' || *p == '\t')
		return 1;
	if (*p != '\r')
		return printable_length(p, left);
	if (left == 1)
		return -1;
	*ret_skip = p[1] == '\n';
	return *ret_skip;
}

static size_t put_hex(char *dst, uint8_t byte)
{
	static const char hex[] = "0123456789abcdef";

	dst[0] = '\\';
	dst[1] = 'x';
	dst[2] = hex[byte >> 4];
	dst[3] = hex[byte & 15];
	return 4;
}

size_t cli_escape(
	char *dst, size_t cap, const void *src, size_t len, unsigned flags, size_t *ret_used)
{
	const uint8_t *p = src;
	size_t out = 0;
	size_t i = 0;

	while (i < len && cap - out > 4) {
		int skip = 0;
		const int n = flags & CLI_ESCAPE_LINES ? line_length(p + i, len - i, &skip)
						       : printable_length(p + i, len - i);
		if (n < 0 && (flags & CLI_ESCAPE_MORE))
			break;
		if (n <= 0) {
			out += put_hex(dst + out, p[i++]);
			continue;
		}
		if (!skip) {
			memcpy(dst + out, p + i, (size_t)n);
			out += (size_t)n;
		}
		i += (size_t)n;
	}
	dst[out] = 0;
	if (ret_used)
		*ret_used = i;
	return out;
}

size_t cli_escape_str(char *dst, size_t cap, const char *src)
{
	return cli_escape(dst, cap, src, strlen(src), 0, NULL);
}

size_t cli_columns(const char *text)
{
	size_t n = 0;

	for (; *text; text++)
		n += ((uint8_t)*text & 0xc0) != 0x80;
	return n;
}

void cli_cut(char *text, size_t cap, size_t columns)
{
	static const char ellipsis[] = "\xe2\x80\xa6";
	size_t n = 0;
	char *p = text;

	if (cli_columns(text) <= columns)
		return;
	for (; *p; p++) {
		if (((uint8_t)*p & 0xc0) != 0x80 && ++n == columns)
			break;
	}
	*p = 0;
	if ((size_t)(p - text) + sizeof ellipsis <= cap)
		memcpy(p, ellipsis, sizeof ellipsis);
}

void cli_format_age(char *dst, size_t cap, int64_t seconds)
{
	static const struct {
		int64_t below; /* seconds */
		int64_t unit;
		const char *name;
	} units[] = {
		{60, 1, "second"},
		{3600, 60, "minute"},
		{172800, 3600, "hour"},
		{1209600, 86400, "day"},
		{5184000, 604800, "week"},
		{63072000, 2592000, "month"},
		{INT64_MAX, 31536000, "year"},
	};
	size_t i = 0;

	if (seconds < 1) {
		(void)snprintf(dst, cap, "Less than a second");
		return;
	}
	while (seconds >= units[i].below && i + 1 < sizeof units / sizeof units[0])
		i++;
	const long long n = seconds / units[i].unit;
	if (n == 1 && i > 0)
		(void)snprintf(dst, cap, "About %s %s", i == 2 ? "an" : "a", units[i].name);
	else
		(void)snprintf(dst, cap, "%lld %s%s", n, units[i].name, n == 1 ? "" : "s");
}

void cli_format_bytes(char *dst, size_t cap, uint64_t bytes, unsigned base)
{
	static const char *const units[][5] = {
		{"B", "kB", "MB", "GB", "TB"}, {"B", "KiB", "MiB", "GiB", "TiB"}};
	double value = (double)bytes;
	size_t i = 0;

	for (; value >= base && i < 4; i++)
		value /= base;
	(void)snprintf(dst, cap, i ? "%.1f %s" : "%.0f %s", value, units[base == 1024][i]);
}

void cli_format_time(char *dst, size_t cap, int64_t ns)
{
	const int64_t second = 1000000000;
	const int before = ns % second < 0;
	const time_t seconds = (time_t)(ns / second - before);
	const int64_t part = ns % second + (before ? second : 0);
	char date[40] = "?";
	struct tm tm;

	if (gmtime_r(&seconds, &tm))
		(void)strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &tm);
	(void)snprintf(dst, cap, "%s.%09uZ", date, (unsigned)part);
}

uint64_t cli_now_ns(void)
{
	struct timespec now = {0};

	(void)clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
