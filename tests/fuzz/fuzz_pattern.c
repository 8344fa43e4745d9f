/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/glob.h"
#include "guest/pattern.h"
#include "guest/pattern_confine.h"
#include "guest/pattern_python.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

/*
 * Patterns against texts. The input is a byte of flags, the pattern up to its NUL, and the text.
 *
 * What must hold:
 *  - the lines that match in the whole text are those that match alone, told in order and whole;
 *  - what comes of a pattern for PCRE2 is no longer than promised, and valid if the pattern is;
 *  - a pattern confined to lines is still one that PCRE2 takes, within the promised length;
 *  - a path that a glob matches is one to which the glob lets a walk descend.
 */

#define PATTERN_MAX 64
#define TEXT_MAX    1024
#define STEPS       2000

#define REQUIRE(cond)            \
	do {                     \
		if (!(cond))     \
			abort(); \
	} while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A copy that is followed by what has to follow a text. */
static char *with_lf(const char *text, size_t len)
{
	char *const copy = malloc(len + 2);

	REQUIRE(copy);
	memcpy(copy, text, len);
	copy[len] = copy[len + 1] = '\n';
	return copy;
}

static void check_confined(const char *text, size_t len)
{
	char *const dst = malloc((len + 1) * PATTERN_CONFINED_FACTOR);
	size_t confined_len = 0;
	size_t offset = 0;
	int error = 0;

	REQUIRE(dst);
	if (pattern_confine(text, len, false, dst, &confined_len)) {
		REQUIRE(confined_len <= (len + 1) * PATTERN_CONFINED_FACTOR);
		pcre2_code *const code = pcre2_compile((PCRE2_SPTR)dst, confined_len,
			PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE, &error, &offset, NULL);
		REQUIRE(code);
		pcre2_code_free(code);
	}
	free(dst);
}

/* A regular expression as PCRE2 has it, without LF. */
static void check_python(const char *text, size_t len)
{
	char *const dst = malloc(PATTERN_PYTHON_MAX(len) + 1);
	int error = 0;
	size_t offset = 0;

	REQUIRE(dst);
	const size_t dst_len = pattern_python(text, len, dst);
	REQUIRE(dst_len <= PATTERN_PYTHON_MAX(len));
	REQUIRE(pattern_python_origin(text, len, dst_len) == len);
	pcre2_code *const code = pcre2_compile(
		(PCRE2_SPTR)dst, dst_len, PCRE2_UTF | PCRE2_UCP, &error, &offset, NULL);
	REQUIRE(code);
	pcre2_code_free(code);
	check_confined(dst, dst_len);
	free(dst);
}

/* Whether a line alone matches: 1, 0, or -1 where the steps do not suffice. */
static int alone(struct pattern *p, const char *line, size_t len)
{
	size_t start = 0;
	size_t end = 0;

	/* With an LF, or an empty line would be no line. */
	char *const copy = with_lf(line, len);
	pattern_subject(p, copy, len + 1);
	const enum pattern_result rc = pattern_next(p, &start, &end);
	REQUIRE(rc != PATTERN_FOUND || (start == 0 && end == len));
	free(copy);
	return rc == PATTERN_FOUND ? 1 : rc == PATTERN_NONE ? 0 : -1;
}

static void check_lines(struct pattern *whole, struct pattern *each, const char *text, size_t len)
{
	enum pattern_result rc = PATTERN_NONE;
	size_t start = 0;
	size_t end = 0;

	pattern_subject(whole, text, len);
	for (size_t at = 0; at < len;) {
		const char *const lf = memchr(text + at, '\n', len - at);
		const size_t stop = lf ? (size_t)(lf - text) : len;
		if (at == 0 || (rc == PATTERN_FOUND && start < at))
			rc = pattern_next(whole, &start, &end);
		/* What takes too long in one way may not in the other. */
		if (rc < 0)
			return;
		const int want = alone(each, text + at, stop - at);
		if (want < 0)
			return;
		REQUIRE(want == (rc == PATTERN_FOUND && start == at));
		REQUIRE(!want || end == stop);
		at = stop + 1;
	}
}

static void check_glob(const char *pattern, size_t len, const char *path, size_t path_len)
{
	struct glob g;

	REQUIRE(glob_init(&g, pattern, len) == 0);
	if (glob_matches(&g, path, path_len))
		for (size_t i = 0; i < path_len; i++)
			REQUIRE(path[i] != '/' || glob_beneath(&g, path, i));
	glob_done(&g);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct pattern_fault why;

	if (size < 2 || size > 1 + PATTERN_MAX + 1 + TEXT_MAX)
		return 0;
	const uint32_t flags = data[0] & (PATTERN_LITERAL | PATTERN_CASE);
	const char *const text = (const char *)data + 1;
	const size_t len = strnlen(text, size - 1);
	if (len > PATTERN_MAX || len == size - 1)
		return 0;
	const char *const subject = text + len + 1;
	const size_t subject_len = size - 1 - len - 1;
	check_glob(text, len, subject, subject_len);
	struct pattern *const whole = pattern_new(text, len, flags, STEPS, &why);
	if (!whole)
		return 0;
	if (!(flags & PATTERN_LITERAL) && !memchr(text, '\n', len))
		check_python(text, len);
	struct pattern *const each = pattern_new(text, len, flags, STEPS, &why);
	REQUIRE(each);
	char *const copy = with_lf(subject, subject_len);
	check_lines(whole, each, copy, subject_len);
	free(copy);
	pattern_free(whole);
	pattern_free(each);
	return 0;
}
