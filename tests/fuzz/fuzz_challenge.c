/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mem.h"
#include "base/str.h"
#include "image/registry_auth.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * What a registry asks for, one header line after the other. What is taken has a scheme that can be
 * answered, texts without control characters, and written down again it means the same; what is
 * refused leaves nothing.
 */

#define LINES_MAX 8

#define REQUIRE(cond)            \
	do {                     \
		if (!(cond))     \
			abort(); \
	} while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_text(const char *text)
{
	for (const char *c = text; c && *c; c++)
		REQUIRE((unsigned char)*c >= 0x20 || *c == '\t');
}

static void add_quoted(FILE *f, const char *name, const char *text)
{
	if (!text)
		return;
	(void)fprintf(f, ", %s=\"", name);
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			(void)fputc('\\', f);
		(void)fputc(*text, f);
	}
	(void)fputc('"', f);
}

static bool same(const char *a, const char *b)
{
	return a && b ? strcmp(a, b) == 0 : a == b;
}

static void check_again(const struct challenge *c)
{
	auto_challenge again = {0};
	char *line = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&line, &len);

	REQUIRE(f);
	(void)fprintf(f, "%s x=y", c->scheme == CHALLENGE_BEARER ? "Bearer" : "Basic");
	add_quoted(f, "realm", c->realm);
	add_quoted(f, "service", c->service);
	add_quoted(f, "scope", c->scope);
	(void)fclose(f);
	char *const lines[] = {line, NULL};
	if (len <= CHALLENGE_BYTES_MAX) {
		REQUIRE(challenge_pick(lines, &again, NULL) == 0 && again.scheme == c->scheme);
		REQUIRE(same(again.realm, c->realm) && same(again.service, c->service) &&
			same(again.scope, c->scope));
	}
	free(line);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *lines[LINES_MAX + 1] = {0};
	auto_challenge c = {0};
	auto_error error = NULL;
	size_t n = 0;

	while (size > 0 && n < LINES_MAX) {
		const uint8_t *end = memchr(data, '\n', size);
		const size_t len = end ? (size_t)(end - data) : size;
		lines[n++] = str_ndup((const char *)data, len);
		data += end ? len + 1 : len;
		size -= end ? len + 1 : len;
	}
	if (challenge_pick(lines, &c, &error) < 0) {
		REQUIRE(error && c.scheme == CHALLENGE_NONE && !c.realm && !c.service && !c.scope);
	} else {
		REQUIRE(!error && c.scheme != CHALLENGE_NONE);
		REQUIRE(c.scheme == CHALLENGE_BASIC || c.realm);
		check_text(c.realm);
		check_text(c.service);
		check_text(c.scope);
		check_again(&c);
	}
	for (size_t i = 0; i < n; i++)
		mem_free(lines[i]);
	return 0;
}
