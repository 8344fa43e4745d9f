/* SPDX-License-Identifier: Apache-2.0 */
#include "shell_way.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PIECE         45000u /* bytes that are 60,000 characters of base64 */
#define OUTPUT_MAX    (256u << 20)
#define SHELL_READ    (256u * 1024)
#define SHELL_TIMEOUT 600000u
#define COMMAND_MAX   131072u
#define BASE64_OF(n)  (((n) + 2) / 3 * 4)
#define SIX_BITS      0x3fu

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static void shell_die(const char *what, const holt_error *error)
{
	(void)fprintf(stderr, "bench: shell: %s: %s\n", what, holt_error_message(error));
	exit(1);
}

static void *need_memory(void *p)
{
	if (!p)
		shell_die("no memory", NULL);
	return p;
}

static size_t read_all(holt_exec *exec, char **ret)
{
	holt_error *error = NULL;
	size_t cap = SHELL_READ;
	size_t len = 0;
	size_t n = 0;
	char *out = need_memory(malloc(cap + 1));

	do {
		if (cap - len < SHELL_READ) {
			cap *= 2;
			out = need_memory(cap > OUTPUT_MAX ? NULL : realloc(out, cap + 1));
		}
		if (holt_exec_read(
			    exec, HOLT_STDOUT, out + len, cap - len, SHELL_TIMEOUT, &n, &error) < 0)
			shell_die("cannot read the output", error);
		len += n;
	} while (n > 0);
	out[len] = 0;
	*ret = out;
	return len;
}

size_t shell_run(holt_box *box, const char *command, char **ret)
{
	const char *const argv[] = {"sh", "-lc", command, NULL};
	holt_exec_options options = HOLT_EXEC_OPTIONS_INIT;
	holt_exit result = HOLT_EXIT_INIT;
	holt_error *error = NULL;
	holt_exec *exec = NULL;

	options.argv = argv;
	if (holt_exec_start(box, &options, &exec, &error) < 0)
		shell_die("cannot run a command", error);
	const size_t len = read_all(exec, ret);
	if (holt_exec_wait(exec, SHELL_TIMEOUT, &result, &error) < 0)
		shell_die("a command did not end", error);
	if (result.code != 0)
		shell_die(command, NULL);
	holt_exec_free(exec);
	return len;
}

static void run_quietly(holt_box *box, const char *command)
{
	char *output = NULL;

	(void)shell_run(box, command, &output);
	free(output);
}

static size_t encode(const uint8_t *data, size_t len, char *ret)
{
	size_t n = 0;

	for (size_t i = 0; i < len; i += 3) {
		const size_t have = len - i < 3 ? len - i : 3;
		const uint32_t bits = (uint32_t)data[i] << 16 |
				      (have > 1 ? (uint32_t)data[i + 1] << 8 : 0) |
				      (have > 2 ? data[i + 2] : 0);
		ret[n++] = alphabet[bits >> 18];
		ret[n++] = alphabet[bits >> 12 & SIX_BITS];
		ret[n++] = have > 1 ? alphabet[bits >> 6 & SIX_BITS] : '=';
		ret[n++] = have > 2 ? alphabet[bits & SIX_BITS] : '=';
	}
	ret[n] = 0;
	return n;
}

/* In place; what is not of the alphabet is skipped. Returns the new length. */
static size_t decode(char *text, size_t len)
{
	static int8_t value[256];
	uint32_t bits = 0;
	size_t n = 0;
	int have = 0;

	if (value['B'] == 0) {
		memset(value, -1, sizeof value);
		for (int i = 0; alphabet[i]; i++)
			value[(uint8_t)alphabet[i]] = (int8_t)i;
	}
	for (size_t i = 0; i < len; i++) {
		const int8_t v = value[(uint8_t)text[i]];
		if (v < 0)
			continue;
		bits = bits << 6 | (uint32_t)v;
		have += 6;
		if (have >= 8) {
			have -= 8;
			text[n++] = (char)(bits >> have & 0xff);
		}
	}
	return n;
}

void shell_write(holt_box *box, const char *path, const void *data, size_t len)
{
	const char *slash = strrchr(path, '/');
	char *command = need_memory(malloc(COMMAND_MAX));
	char *text = need_memory(malloc(BASE64_OF(PIECE) + 1));
	size_t off = 0;

	(void)snprintf(command, COMMAND_MAX, "mkdir -p '%.*s'", (int)(slash - path), path);
	run_quietly(box, command);
	do {
		const size_t n = len - off < PIECE ? len - off : PIECE;
		(void)encode((const uint8_t *)data + off, n, text);
		(void)snprintf(command, COMMAND_MAX, "printf %%s '%s' | base64 -d %s '%s'", text,
			off == 0 ? ">" : ">>", path);
		run_quietly(box, command);
		off += n;
	} while (off < len);
	free(text);
	free(command);
}

size_t shell_read(holt_box *box, const char *path, char **ret)
{
	char command[512];

	(void)snprintf(command, sizeof command, "cat -- '%s'", path);
	return shell_run(box, command, ret);
}

size_t shell_download(holt_box *box, const char *path, char **ret)
{
	char command[512];

	(void)snprintf(command, sizeof command, "wc -c < '%s'", path);
	run_quietly(box, command);
	(void)snprintf(command, sizeof command, "base64 -- '%s'", path);
	const size_t len = shell_run(box, command, ret);
	return decode(*ret, len);
}

static size_t count_lines(holt_box *box, const char *command)
{
	char *output = NULL;
	size_t lines = 0;

	const size_t len = shell_run(box, command, &output);
	for (size_t i = 0; i < len; i++)
		lines += output[i] == '\n';
	free(output);
	return lines;
}

size_t shell_find(
	holt_box *box, const char *root, unsigned max_depth, const char *tests, size_t max)
{
	static char command[COMMAND_MAX];
	size_t n = (size_t)snprintf(command, sizeof command,
		"find -H '%s' -maxdepth %u -mindepth 1 \\( -false", root, max_depth);

	for (const char *const *p = holt_sandbox_ignored(); *p; p++)
		n += (size_t)snprintf(command + n, sizeof command - n, " -o -name '%s'", *p);
	(void)snprintf(command + n, sizeof command - n, " \\) -prune -o %s -print | head -n %zu",
		tests, max);
	return count_lines(box, command);
}

size_t shell_grep(
	holt_box *box, const char *root, const char *flags, const char *pattern, size_t max)
{
	char command[1024];

	(void)snprintf(command, sizeof command, "grep -rnIH %s -e '%s' '%s' | head -n %zu", flags,
		pattern, root, max);
	return count_lines(box, command);
}
