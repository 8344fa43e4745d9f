/* SPDX-License-Identifier: Apache-2.0 */
#include "pattern_confine.h"

#include <stdint.h>
#include <string.h>

#include "guest_banned.h"

/*
 * Why a text of many lines may be searched at once.
 *
 * A pattern means one line at a time, but one call of PCRE2 for each line is many times slower than
 * one for a whole buffer. Let no part of a pattern that consumes a character be able to consume an
 * LF. Then a match that begins in a line never gets out of it, step by step: at the end of the line
 * every part that wants a character fails in the buffer before the LF just as it fails in the line
 * alone for want of one. What looks without consuming fares the same: lookahead and lookbehind are
 * made of such parts and so never see past an LF either, '^' and '$' with PCRE2_MULTILINE hold
 * beside an LF where they hold at the ends of the line alone, and for \b an LF is no letter, as the
 * end is none. As every step is the same, so are greediness, atomic groups and possessive
 * quantifiers. What knows of the subject as a whole would differ: \A, \z, \Z, \G, and \K, which
 * moves the start of a match.
 *
 * So this function reads a pattern that PCRE2 has found valid and writes it again with those parts
 * that could consume an LF changed to the same without LF:
 *
 *   [^...]           [^\n...]
 *   \s \D \W \H      [^\S\n] [^\d\n] [^\w\n] [^\h\n]
 *   [...\s...]       the members of \s but LF
 *
 * '.' does not match an LF to begin with. All that is not known here for sure (other escapes with
 * capital or unusual letters, numbers of characters other than \x{...}, properties, back
 * references, verbs, settings but (?i) and (?m), conditions, recursion, ranges that begin at a
 * control character) is not written again; such a pattern is held against each line. It is rare
 * enough. (Back references would be fine, but what a group has captured at an earlier place is not
 * always forgotten by PCRE2's compiled code.)
 */

struct confine {
	const char *p; /* what is not read yet */
	const char *end;
	bool ascii;
	char *dst;
	size_t len;
};

static void put(struct confine *c, const char *s, size_t len)
{
	memcpy(c->dst + c->len, s, len);
	c->len += len;
}

/* Take @n characters over as they are. */
static bool keep(struct confine *c, size_t n)
{
	put(c, c->p, n);
	c->p += n;
	return true;
}

/* Write @s for @n characters. */
static bool change(struct confine *c, size_t n, const char *s)
{
	put(c, s, strlen(s));
	c->p += n;
	return true;
}

static bool begins(const struct confine *c, const char *s)
{
	const size_t len = strlen(s);

	return (size_t)(c->end - c->p) >= len && memcmp(c->p, s, len) == 0;
}

static bool is_one_of(char ch, const char *set)
{
	return ch && strchr(set, ch);
}

static bool is_hex(char ch)
{
	return (ch >= '0' && ch <= '9') || is_one_of(ch, "abcdefABCDEF");
}

static bool is_letter_or_digit(char ch)
{
	return (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') || (ch >= '0' && ch <= '9');
}

/* The length of a \x{...} that is no control character; 0 for all else. */
static size_t number_len(const struct confine *c)
{
	if (!begins(c, "\\x{"))
		return 0;
	const char *s = c->p + 3;
	while (s < c->end && *s == '0')
		s++;
	const char *const first = s;
	while (s < c->end && is_hex(*s))
		s++;
	const bool control = s - first < 2 || (s - first == 2 && *first == '1');
	return s < c->end && *s == '}' && !control ? (size_t)(s + 1 - c->p) : 0;
}

/* What a class has for \s. */
static const char *blanks(const struct confine *c)
{
	return c->ascii ? "\\t \\x0b\\f\\r" : "\\h\\x0b\\f\\r\\x85\\x{2028}\\x{2029}";
}

static bool class_name(struct confine *c)
{
	static const char *const harmless[] = {"[:alpha:]", "[:alnum:]", "[:digit:]", "[:upper:]",
		"[:lower:]", "[:punct:]", "[:xdigit:]", "[:word:]", "[:blank:]", "[:print:]",
		"[:graph:]"};

	for (size_t i = 0; i < sizeof(harmless) / sizeof(harmless[0]); i++)
		if (begins(c, harmless[i]))
			return keep(c, strlen(harmless[i]));
	return begins(c, "[:space:]") && change(c, strlen("[:space:]"), blanks(c));
}

static bool class_escape(struct confine *c, bool negated)
{
	const char ch = c->end - c->p > 1 ? c->p[1] : 0;

	/* A quoted part, and \c, which may be followed by the end of the class. */
	if (is_one_of(ch, "QEc"))
		return false;
	/* LF is already not in it. */
	if (negated)
		return keep(c, 2);
	if (ch == 's')
		return change(c, 2, blanks(c));
	if (ch == 'x')
		return number_len(c) && keep(c, number_len(c));
	if (is_one_of(ch, "abefrt"))
		return !(c->end - c->p > 2 && c->p[2] == '-') && keep(c, 2);
	return (is_one_of(ch, "dwhSV") || (ch && !is_letter_or_digit(ch))) && keep(c, 2);
}

static bool class_member(struct confine *c, bool negated)
{
	const uint8_t ch = (uint8_t)*c->p;
	const char next = c->end - c->p > 1 ? c->p[1] : 0;

	if (ch == '\\')
		return class_escape(c, negated);
	if (ch == '[' && is_one_of(next, ":.="))
		return class_name(c);
	return (ch >= ' ' || next != '-') && keep(c, 1);
}

/* At the '['. */
static bool class(struct confine *c)
{
	const bool negated = begins(c, "[^");

	(void)keep(c, negated ? 2 : 1);
	if (negated)
		(void)change(c, 0, "\\n");
	/* One that comes first is a member, and is now not the first any more. */
	if (begins(c, "]"))
		(void)change(c, 1, "\\]");
	while (c->p < c->end && *c->p != ']')
		if (!class_member(c, negated))
			return false;
	return c->p < c->end && keep(c, 1);
}

static bool escape(struct confine *c)
{
	const char ch = c->end - c->p > 1 ? c->p[1] : 0;
	const char next = c->end - c->p > 2 ? c->p[2] : 0;

	switch (ch) {
	case 's':
		return change(c, 2, "[^\\S\\n]");
	case 'D':
		return change(c, 2, "[^\\d\\n]");
	case 'W':
		return change(c, 2, "[^\\w\\n]");
	case 'H':
		return change(c, 2, "[^\\h\\n]");
	case 'N':
		/* \N{U+a} is a character. */
		return next != '{' && keep(c, 2);
	case 'x':
		return number_len(c) && keep(c, number_len(c));
	default:
		break;
	}
	/* \E without \Q is nothing. */
	return (is_one_of(ch, "abBdeEfhrStVw") || (ch && !is_letter_or_digit(ch))) && keep(c, 2);
}

/* At the '('. */
static bool group(struct confine *c)
{
	static const char *const harmless[] = {"(?:", "(?|", "(?=", "(?!", "(?<=", "(?<!", "(?>",
		"(?P<", "(?i)", "(?i:", "(?m)", "(?m:", "(?im)", "(?mi)"};

	if (begins(c, "(*"))
		return false;
	if (!begins(c, "(?"))
		return keep(c, 1);
	for (size_t i = 0; i < sizeof(harmless) / sizeof(harmless[0]); i++)
		if (begins(c, harmless[i]))
			return keep(c, strlen(harmless[i]));
	/* A named one: the name has nothing in it that would be changed. */
	return (begins(c, "(?<") || begins(c, "(?'")) && keep(c, 3);
}

bool pattern_confine(const char *text, size_t len, bool ascii, char *dst, size_t *ret_len)
{
	struct confine c = {.p = text, .end = text + len, .ascii = ascii, .dst = dst};
	bool known = true;

	while (c.p < c.end && known) {
		if (*c.p == '[')
			known = class(&c);
		else if (*c.p == '\\')
			known = escape(&c);
		else if (*c.p == '(')
			known = group(&c);
		else
			known = *c.p != '\n' && keep(&c, 1);
	}
	*ret_len = c.len;
	return known;
}
