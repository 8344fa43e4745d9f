/* SPDX-License-Identifier: Apache-2.0 */
#include "pattern_python.h"

#include <stdbool.h>
#include <string.h>

#include "guest_banned.h"

/*
 * What Python's re knows and PCRE2 does not, or takes for something else:
 *
 *   \u4e00 \U0001F600        \x{4e00} \x{0001F600}, in classes as well
 *   {,3} {,}                 {0,3} {0,}; for PCRE2 they are text
 *
 * All else stays as it is, byte for byte, and so does what only looks like the above: what is in a
 * class or behind a backslash, what is quoted by \Q and \E, comments, the names of verbs. To know
 * those apart a pattern is read once, as PCRE2 reads it. Whether it is valid is PCRE2's to say, of
 * what comes out.
 *
 * Not looked for are comments that (?x) allows: such a one ends where the pattern does, since there
 * is no LF in it, so whatever is taken for something else there changes nothing that counts.
 */

struct reading {
	const char *p; /* what is not read yet */
	const char *end;
	char *dst; /* NULL: nothing is written, but counted */
	size_t len;
	size_t wanted; /* a place in what is written, */
	const char *origin; /* and where it came from */
};

static size_t min(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Write @len bytes for the next @n. */
static void change(struct reading *r, size_t n, const char *s, size_t len)
{
	if (r->len <= r->wanted)
		r->origin = r->p + min(r->wanted - r->len, n);
	if (r->dst)
		memcpy(r->dst + r->len, s, len);
	r->len += len;
	r->p += n;
}

/* Take up to @n bytes over as they are. */
static void keep(struct reading *r, size_t n)
{
	const size_t some = min(n, (size_t)(r->end - r->p));

	change(r, some, r->p, some);
}

/* Take all over, from behind the first @n bytes up to and with @stop. */
static void keep_through(struct reading *r, size_t n, const char *stop)
{
	const char *const from = r->p + n;
	const char *const found = memmem(from, (size_t)(r->end - from), stop, strlen(stop));

	keep(r, found ? (size_t)(found - r->p) + strlen(stop) : (size_t)(r->end - r->p));
}

static bool begins(const struct reading *r, const char *s)
{
	const size_t len = strlen(s);

	return (size_t)(r->end - r->p) >= len && memcmp(r->p, s, len) == 0;
}

/* The byte so far ahead; 0: none. */
static char ahead(const struct reading *r, size_t i)
{
	return (size_t)(r->end - r->p) > i ? r->p[i] : 0;
}

static bool is_one_of(char ch, const char *set)
{
	return ch && strchr(set, ch);
}

static bool is_digit(char ch)
{
	return ch >= '0' && ch <= '9';
}

/* At the backslash, behind which there have to be a letter and @n digits. */
static void code_point(struct reading *r, size_t n)
{
	for (size_t i = 2; i < 2 + n; i++)
		if (!is_digit(ahead(r, i)) && !is_one_of(ahead(r, i), "abcdefABCDEF")) {
			keep(r, 2);
			return;
		}
	change(r, 2, "\\x{", 3);
	keep(r, n);
	change(r, 0, "}", 1);
}

/* At the backslash. */
static void escape(struct reading *r)
{
	const char ch = ahead(r, 1);

	if (ch == 'u')
		code_point(r, 4);
	else if (ch == 'U')
		code_point(r, 8);
	else if (ch == 'Q')
		keep_through(r, 2, "\\E");
	else if (ch == 'c' || (is_one_of(ch, "gkNopPx") && ahead(r, 2) == '{'))
		keep(r, 3);
	else
		keep(r, 2);
}

/* At the '{'. */
static void quantifier(struct reading *r)
{
	size_t i = 2;

	while (is_digit(ahead(r, i)))
		i++;
	const bool open = ahead(r, 1) == ',' && ahead(r, i) == '}';
	keep(r, 1);
	if (open)
		change(r, 0, "0", 1);
}

/* At a '[' in a class: the length of [:name:], whose ']' does not end the class; 0 for others. */
static size_t name_len(const struct reading *r)
{
	size_t i = 2;

	if (ahead(r, 1) != ':')
		return 0;
	while (is_one_of(ahead(r, i), "^<>abcdefghijklmnopqrstuvwxyz"))
		i++;
	return ahead(r, i) == ':' && ahead(r, i + 1) == ']' ? i + 2 : 0;
}

static void empty_quotations(struct reading *r)
{
	while (begins(r, "\\E") || begins(r, "\\Q\\E"))
		keep(r, r->p[1] == 'Q' ? 4 : 2);
}

/* What is in front of a class's members. A ']' that comes first is one of them. */
static void class_start(struct reading *r)
{
	keep(r, 1);
	empty_quotations(r);
	if (begins(r, "^"))
		keep(r, 1);
	empty_quotations(r);
	if (begins(r, "]"))
		keep(r, 1);
}

/* At the '['. */
static void class(struct reading *r)
{
	class_start(r);
	while (r->p < r->end && *r->p != ']') {
		const size_t name = *r->p == '[' ? name_len(r) : 0;
		if (*r->p == '\\')
			escape(r);
		else
			keep(r, name ? name : 1);
	}
	keep(r, 1);
}

/* At the '('. */
static void group(struct reading *r)
{
	const char ch = ahead(r, 2);
	const bool verb = begins(r, "(*") && (ch == ':' || (ch >= 'A' && ch <= 'Z'));

	if (verb || begins(r, "(?#") || begins(r, "(?C"))
		keep_through(r, 2, ")");
	else
		keep(r, 1);
}

static void read_all(struct reading *r)
{
	while (r->p < r->end) {
		if (*r->p == '\\')
			escape(r);
		else if (*r->p == '[')
			class(r);
		else if (*r->p == '(')
			group(r);
		else if (*r->p == '{')
			quantifier(r);
		else
			keep(r, 1);
	}
}

size_t pattern_python(const char *text, size_t len, char *dst)
{
	struct reading r = {.p = text, .end = text + len, .dst = dst};

	read_all(&r);
	return r.len;
}

size_t pattern_python_origin(const char *text, size_t len, size_t offset)
{
	struct reading r = {.p = text, .end = text + len, .wanted = offset, .origin = text};

	read_all(&r);
	return (size_t)(r.origin - text);
}
