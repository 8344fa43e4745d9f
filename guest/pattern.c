/* SPDX-License-Identifier: Apache-2.0 */
#include "pattern.h"

#include "guest_mem.h"
#include "pattern_confine.h"
#include "pattern_python.h"

#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "guest_banned.h"

/*
 * Lines that match, by PCRE2.
 *
 * A pattern is compiled up to twice. The code for all texts takes them as UTF-8, with what is not
 * UTF-8 in them matching nothing, and knows Unicode's letters. The code for bytes knows nothing of
 * either, is several times faster, and says the same as long as pattern and text are ASCII, as
 * nearly all source code is; so each text is looked through first. It is also the code for literals
 * where case counts, whatever bytes they are made of, since UTF-8 is found in UTF-8 by its bytes
 * alone. The code for all texts is compiled when the first text needs it.
 *
 * Most patterns run over a whole text at once; pattern_confine.c tells when and why that says the
 * same as line by line. The others, and all from the first one on which the steps did not suffice
 * (as PCRE2 does not tell where that was), run over each line alone.
 *
 * Limits: step_limit for what PCRE2 counts as steps, STACK_MAX for the stack of compiled code,
 * HEAP_KIB for the interpreter's; PCRE2's own for what a pattern may grow to when it is compiled.
 * An endless match with few steps is ended together with the process, from outside.
 *
 * An LF in a pattern separates alternatives. Each has to be valid by itself, and its groups count
 * from 1. What only Python writes in one is put into PCRE2's words first (pattern_python.c); where
 * one has a fault is told in the words that came.
 */

#define STACK_START (32u * 1024)
#define STACK_MAX   (4u * 1024 * 1024)
#define HEAP_KIB    (64u * 1024)
/* What comes around the alternatives of a pattern: "(?|" (?:...\E)| ")". */
#define AROUND_ALL 8
#define AROUND_ONE 7

struct pattern {
	uint32_t flags;
	uint32_t options; /* of PCRE2, for all compilations */
	char *source; /* one pattern, with the alternatives joined */
	size_t source_len;
	pcre2_code *bytes; /* for texts that are ASCII, or for all; may be NULL */
	pcre2_code *utf; /* for the others; NULL: not needed yet */
	bool only_bytes; /* there is no utf */
	bool confined; /* pattern_confine can keep it within lines; a literal always stays */
	bool by_line; /* has to be held against each line alone */
	pcre2_compile_context *compile;
	pcre2_match_context *match;
	pcre2_match_data *data;
	pcre2_jit_stack *stack;
	const pcre2_code *current; /* for the text */
	bool apart; /* its lines */
	const char *text;
	size_t len;
	size_t at; /* where the next line begins */
};

static bool is_ascii(const char *s, size_t len)
{
	uint64_t high = 0;

	for (; len >= 32 && !high; s += 32, len -= 32) {
		uint64_t word[4];
		memcpy(word, s, sizeof(word));
		high = (word[0] | word[1] | word[2] | word[3]) & UINT64_C(0x8080808080808080);
	}
	for (; len > 0 && !high; s++, len--)
		high = (uint8_t)*s & 0x80;
	return !high;
}

static pcre2_code *compile(struct pattern *p, const char *text, size_t len, uint32_t options,
	int *ret_error, size_t *ret_offset)
{
	return pcre2_compile((PCRE2_SPTR)text, len, p->options | options | PCRE2_NEVER_BACKSLASH_C,
		ret_error, ret_offset, p->compile);
}

/* Make a code ready to run. Without the compiler of PCRE2 its interpreter runs it; that one looks
 * through all of a text in each call, which only single lines can bear. */
static void prepare(struct pattern *p, pcre2_code *code)
{
	if (!code)
		return;
	if ((p->flags & PATTERN_INTERPRET) || pcre2_jit_compile(code, PCRE2_JIT_COMPLETE) != 0)
		p->by_line = true;
}

/* ".*" does not get past a byte that is no UTF-8, hence what it begins may start behind one. */
#define UTF_OPTIONS (PCRE2_UTF | PCRE2_UCP | PCRE2_MATCH_INVALID_UTF | PCRE2_NO_DOTSTAR_ANCHOR)

/* @error is one of PCRE2's. */
static void set_fault(struct pattern_fault *ret, int error, size_t offset)
{
	ret->offset = offset;
	(void)pcre2_get_error_message(error, (PCRE2_UCHAR *)ret->text, sizeof(ret->text));
}

/* The source, made so that it stays within lines. NULL where that fails. */
static pcre2_code *compile_confined(struct pattern *p, bool ascii, uint32_t options)
{
	char *const text = gmem_array(p->source_len + 1, PATTERN_CONFINED_FACTOR);
	size_t len = 0;
	size_t offset = 0;
	int error = 0;

	if (!text)
		return NULL;
	(void)pattern_confine(p->source, p->source_len, ascii, text, &len);
	pcre2_code *const code = compile(p, text, len, options | PCRE2_MULTILINE, &error, &offset);
	gmem_free(text);
	return code;
}

/* Compile for @ascii texts or for all. */
static pcre2_code *compile_final(struct pattern *p, bool ascii, struct pattern_fault *ret)
{
	const uint32_t options = ascii ? PCRE2_NEVER_UTF : UTF_OPTIONS;
	pcre2_code *code = NULL;
	size_t offset = 0;
	int error = 0;

	if (p->confined)
		code = compile_confined(p, ascii, options);
	if (!code) {
		code = compile(p, p->source, p->source_len, options, &error, &offset);
		p->by_line = p->by_line || (code && !(p->flags & PATTERN_LITERAL));
	}
	if (!code)
		set_fault(ret, error, offset);
	prepare(p, code);
	return code;
}

/* Whether it is a regular expression at all. */
static bool validate(struct pattern *p, const char *text, size_t len, struct pattern_fault *ret)
{
	size_t offset = 0;
	int error = 0;
	pcre2_code *const code = compile(p, text, len, UTF_OPTIONS, &error, &offset);

	if (!code)
		set_fault(ret, error, offset);
	pcre2_code_free(code);
	return code;
}

static void put(struct pattern *p, const char *s, size_t len)
{
	memcpy(p->source + p->source_len, s, len);
	p->source_len += len;
}

/* Text that means itself. */
static void put_literal(struct pattern *p, const char *s, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		const uint8_t c = (uint8_t)s[i];
		const bool plain = c >= 0x80 || c <= ' ' || c == '_' || (c >= '0' && c <= '9') ||
				   ((c | 32) >= 'a' && (c | 32) <= 'z');
		if (!plain)
			put(p, "\\", 1);
		put(p, s + i, 1);
	}
}

/* A regular expression, which may be one of @several; \E ends a quotation that it leaves open. */
static bool put_regex(
	struct pattern *p, const char *s, size_t len, bool several, struct pattern_fault *ret)
{
	put(p, "(?:", several ? 3 : 0);
	char *const own = p->source + p->source_len;
	const size_t own_len = pattern_python(s, len, own);
	p->source_len += own_len;
	if (!validate(p, own, own_len, ret)) {
		ret->offset = pattern_python_origin(s, len, ret->offset);
		return false;
	}
	put(p, "\\E)", several ? 3 : 0);
	return true;
}

/* Make the source. Each alternative counts its groups anew. */
static bool join(struct pattern *p, const char *text, size_t len, struct pattern_fault *ret)
{
	const bool literal = p->flags & PATTERN_LITERAL;
	const bool several = !literal && memchr(text, '\n', len);
	const char *const end = text + len;

	put(p, "(?|", several ? 3 : 0);
	for (const char *s = text; s <= end;) {
		const char *const lf = memchr(s, '\n', (size_t)(end - s));
		const char *const stop = lf ? lf : end;
		const size_t n = (size_t)(stop - s);
		if (s > text)
			put(p, "|", 1);
		if (literal) {
			put_literal(p, s, n);
		} else if (!put_regex(p, s, n, several, ret)) {
			ret->offset += (size_t)(s - text);
			return false;
		}
		s = stop + 1;
	}
	put(p, ")", several);
	return !several || validate(p, p->source, p->source_len, ret);
}

static bool make_contexts(struct pattern *p, uint32_t step_limit)
{
	p->compile = pcre2_compile_context_create(NULL);
	p->match = pcre2_match_context_create(NULL);
	p->data = pcre2_match_data_create(1, NULL);
	p->stack = pcre2_jit_stack_create(STACK_START, STACK_MAX, NULL);
	if (!p->compile || !p->match || !p->data)
		return false;
	(void)pcre2_set_newline(p->compile, PCRE2_NEWLINE_LF);
	if (step_limit > 0)
		(void)pcre2_set_match_limit(p->match, step_limit);
	(void)pcre2_set_heap_limit(p->match, HEAP_KIB);
	/* Without one, code has the 32 KiB of the machine's stack that it takes by itself. */
	if (p->stack)
		pcre2_jit_stack_assign(p->match, NULL, p->stack);
	return true;
}

static bool can_confine(struct pattern *p)
{
	char *const buf = gmem_array(p->source_len + 1, PATTERN_CONFINED_FACTOR);
	size_t len = 0;
	const bool can = buf && pattern_confine(p->source, p->source_len, false, buf, &len);
	gmem_free(buf);
	return can;
}

static bool is_utf8(struct pattern *p)
{
	size_t offset = 0;
	int error = 0;
	pcre2_code *const code = compile(p, p->source, p->source_len, UTF_OPTIONS, &error, &offset);

	pcre2_code_free(code);
	return code;
}

static bool compile_all(struct pattern *p, struct pattern_fault *ret)
{
	const bool literal = p->flags & PATTERN_LITERAL;

	p->confined = !literal && can_confine(p);
	p->only_bytes = literal && ((p->flags & PATTERN_CASE) || !is_utf8(p));
	if (p->only_bytes || is_ascii(p->source, p->source_len))
		p->bytes = compile_final(p, true, ret);
	/* Escapes for characters that have no byte are for the other one. */
	if (!p->bytes && !p->only_bytes)
		p->utf = compile_final(p, false, ret);
	return p->bytes || p->utf;
}

/* PCRE2 10.42 looks for the first and the last character that a match must have before it tries to
 * match. With lookahead it takes them wrongly in part: (?=a)b?a would not match "a". With verbs
 * what matches would depend on that search. */
static uint32_t start_options(const char *text, size_t len, uint32_t flags)
{
	if (flags & PATTERN_LITERAL)
		return 0;
	return memmem(text, len, "(?=", 3) || memmem(text, len, "(?*", 3) ||
			       memmem(text, len, "(*", 2)
		       ? PCRE2_NO_START_OPTIMIZE
		       : 0;
}

struct pattern *pattern_new(const char *text, size_t len, uint32_t flags, uint32_t step_limit,
	struct pattern_fault *ret_fault)
{
	struct pattern *const p = gmem_zalloc(sizeof(*p));

	set_fault(ret_fault, PCRE2_ERROR_NOMEMORY, 0);
	if (!p)
		return NULL;
	p->flags = flags;
	p->options = (flags & PATTERN_CASE ? 0 : PCRE2_CASELESS) | start_options(text, len, flags);
	/* A literal's bytes take two each, a regular expression's a third more. */
	p->source = gmem_array(AROUND_ALL + (len + 1) * (AROUND_ONE + 2), 1);
	if (p->source && make_contexts(p, step_limit) && join(p, text, len, ret_fault) &&
		compile_all(p, ret_fault))
		return p;
	pattern_free(p);
	return NULL;
}

void pattern_free(struct pattern *p)
{
	if (!p)
		return;
	pcre2_code_free(p->bytes);
	pcre2_code_free(p->utf);
	pcre2_match_data_free(p->data);
	pcre2_match_context_free(p->match);
	pcre2_compile_context_free(p->compile);
	pcre2_jit_stack_free(p->stack);
	gmem_free(p->source);
	gmem_free(p);
}

static bool matches_empty(const pcre2_code *code)
{
	uint32_t yes = 0;

	return code && pcre2_pattern_info(code, PCRE2_INFO_MATCHEMPTY, &yes) == 0 && yes;
}

void pattern_subject(struct pattern *p, const char *text, size_t len)
{
	struct pattern_fault unused; /* what is valid fails for want of memory */

	p->text = text;
	p->len = len;
	p->at = 0;
	if (p->bytes && (p->only_bytes || is_ascii(text, len))) {
		p->current = p->bytes;
		p->apart = p->by_line;
		return;
	}
	if (!p->utf)
		p->utf = compile_final(p, false, &unused);
	p->current = p->utf;
	/* In a long text PCRE2 does not try to match in front of a byte that can only continue a
	 * character, where nothing but an empty match is to be had: at the beginning of a line. */
	p->apart = p->by_line || matches_empty(p->utf);
}

/* The result of a match in @len bytes, from @at. */
static int run(struct pattern *p, const char *text, size_t len, size_t at)
{
	if (!p->current)
		return PATTERN_BROKEN;
	const int rc = pcre2_match(p->current, (PCRE2_SPTR)text, len, at, 0, p->data, p->match);
	switch (rc) {
	case PCRE2_ERROR_NOMATCH:
		return PATTERN_NONE;
	case PCRE2_ERROR_MATCHLIMIT:
	case PCRE2_ERROR_DEPTHLIMIT:
	case PCRE2_ERROR_HEAPLIMIT:
	case PCRE2_ERROR_JIT_STACKLIMIT:
		return PATTERN_STEPS;
	default:
		return rc >= 0 ? PATTERN_FOUND : PATTERN_BROKEN;
	}
}

static size_t line_end(const struct pattern *p, size_t at)
{
	const char *const lf = memchr(p->text + at, '\n', p->len - at);

	return lf ? (size_t)(lf - p->text) : p->len;
}

static enum pattern_result next_by_line(struct pattern *p, size_t *ret_start, size_t *ret_end)
{
	while (p->at < p->len) {
		const size_t start = p->at;
		const size_t end = line_end(p, start);
		const enum pattern_result rc = run(p, p->text + start, end - start, 0);
		p->at = end + 1;
		*ret_start = start;
		*ret_end = end;
		if (rc != PATTERN_NONE)
			return rc;
	}
	return PATTERN_NONE;
}

enum pattern_result pattern_next(struct pattern *p, size_t *ret_start, size_t *ret_end)
{
	if (p->apart)
		return next_by_line(p, ret_start, ret_end);
	if (p->at >= p->len)
		return PATTERN_NONE;
	const enum pattern_result rc = run(p, p->text, p->len, p->at);
	if (rc == PATTERN_STEPS) {
		p->by_line = p->apart = true;
		return next_by_line(p, ret_start, ret_end);
	}
	if (rc != PATTERN_FOUND)
		return rc;
	const size_t found = pcre2_get_ovector_pointer(p->data)[0];
	/* Behind the last LF there is no line. */
	if (found == p->len && found > 0 && p->text[found - 1] == '\n')
		return PATTERN_NONE;
	const char *const lf = memrchr(p->text + p->at, '\n', found - p->at);
	*ret_start = lf ? (size_t)(lf - p->text) + 1 : p->at;
	*ret_end = line_end(p, found);
	p->at = *ret_end + 1;
	return PATTERN_FOUND;
}
