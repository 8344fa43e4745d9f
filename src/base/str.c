/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/banned.h"

char *str_dup(const char *s)
{
	return mem_dup(s, strlen(s) + 1);
}

char *str_ndup(const char *s, size_t n)
{
	const size_t len = strnlen(s, n);
	char *copy = mem_zalloc(len + 1);

	if (copy)
		memcpy(copy, s, len);
	return copy;
}

char *str_printf(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	const int n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	char *text = n < 0 ? NULL : mem_zalloc((size_t)n + 1);
	if (!text)
		return NULL;
	va_start(ap, fmt);
	(void)vsnprintf(text, (size_t)n + 1, fmt, ap);
	va_end(ap);
	return text;
}

bool str_starts(const char *s, const char *prefix)
{
	return strncmp(s, prefix, strlen(prefix)) == 0;
}

bool str_ends(const char *s, const char *suffix)
{
	const size_t len = strlen(s);
	const size_t tail = strlen(suffix);

	return len >= tail && memcmp(s + len - tail, suffix, tail) == 0;
}

int str_to_u64(const char *s, uint64_t max, uint64_t *ret)
{
	uint64_t value = 0;

	if (!*s)
		return -EINVAL;
	for (; *s; s++) {
		if (*s < '0' || *s > '9')
			return -EINVAL;
		const uint64_t digit = (uint64_t)(*s - '0');
		if (value > (UINT64_MAX - digit) / 10)
			return -ERANGE;
		value = value * 10 + digit;
	}
	if (value > max)
		return -ERANGE;
	*ret = value;
	return 0;
}

int str_to_bytes(const char *s, uint64_t *ret)
{
	static const char units[] = "bkmgt";
	const size_t digits = strspn(s, "0123456789");
	const char *unit = s[digits] ? strchr(units, s[digits] | 0x20) : units;
	char number[24];
	uint64_t n = 0;

	if (!unit || digits >= sizeof number || (s[digits] && s[digits + 1]))
		return -EINVAL;
	memcpy(number, s, digits);
	number[digits] = 0;
	const unsigned shift = 10 * (unsigned)(unit - units);
	const int r = str_to_u64(number, UINT64_MAX >> shift, &n);
	if (r < 0 || n == 0)
		return r < 0 ? r : -EINVAL;
	*ret = n << shift;
	return 0;
}

/* Length of the valid UTF-8 sequence at @p that prints as something, or 0. */
static size_t utf8_printable(const uint8_t *p, size_t left)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	const size_t n = *p < 0x80   ? 1
			 : *p < 0xc2 ? 0
			 : *p < 0xe0 ? 2
			 : *p < 0xf0 ? 3
			 : *p < 0xf5 ? 4
				     : 0;
	uint32_t code = n == 1 ? *p : n ? *p & (0x7fu >> n) : 0;

	if (n == 0 || n > left)
		return 0;
	for (size_t i = 1; i < n; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		code = code << 6 | (p[i] & 0x3f);
	}
	if (code < 0x20 || (code >= 0x7f && code < 0xa0) || (code >= 0xd800 && code < 0xe000) ||
		code > 0x10ffff || (n > 1 && code < least[n]))
		return 0;
	/* Direction overrides and line separators can make a terminal lie. */
	if ((code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069) ||
		code == 0x2028 || code == 0x2029 || code == 0x200e || code == 0x200f)
		return 0;
	return n;
}

size_t str_escape(char *dst, size_t cap, const void *src, size_t len, bool keep_lf)
{
	static const char hex[] = "0123456789abcdef";
	const uint8_t *p = src;
	size_t out = 0;

	if (cap == 0)
		return 0;
	for (size_t i = 0; i < len;) {
		const size_t n = keep_lf && p[i] == '\n' ? 1 : utf8_printable(p + i, len - i);
		if (out + (n ? n : 4) >= cap)
			break;
		if (n) {
			memcpy(dst + out, p + i, n);
			out += n;
			i += n;
		} else {
			dst[out++] = '\\';
			dst[out++] = 'x';
			dst[out++] = hex[p[i] >> 4];
			dst[out++] = hex[p[i] & 15];
			i++;
		}
	}
	dst[out] = 0;
	return out;
}

size_t strv_len(const char *const *list)
{
	size_t n = 0;

	while (list && list[n])
		n++;
	return n;
}

char **strv_dup(const char *const *list)
{
	const size_t n = strv_len(list);
	char **copy = mem_array(n + 1, sizeof *copy);

	if (!copy)
		return NULL;
	for (size_t i = 0; i < n; i++) {
		copy[i] = str_dup(list[i]);
		if (!copy[i]) {
			strv_free(copy);
			return NULL;
		}
	}
	return copy;
}

void strv_free(char **list)
{
	for (size_t i = 0; list && list[i]; i++)
		mem_free(list[i]);
	mem_free(list);
}
