/* SPDX-License-Identifier: Apache-2.0 */
#include "shell_way.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PIECE_BYTES   45000 /* 60,000 characters, which fit into one argument */
#define COMMAND_ROOM  1024 /* around a piece */
#define READ_BYTES    65536
#define TIMEOUT_MS    600000
#define BASE64_LEN(n) (((n) + 2) / 3 * 4)

static void die(const char *what, const holt_error *error)
{
	(void)fprintf(stderr, "bench: the shell way: %s: %s\n", what, holt_error_message(error));
	exit(1);
}

static void *room(void *old, size_t size)
{
	void *p = realloc(old, size);

	if (!p)
		die("no memory", NULL);
	return p;
}

static struct shell_output read_all(holt_exec *exec)
{
	struct shell_output out = {0};
	holt_error *error = NULL;
	size_t cap = 0;
	size_t n = 0;

	do {
		if (out.len + READ_BYTES > cap)
			out.data = room(out.data, cap = 2 * cap + 2 * READ_BYTES);
		if (holt_exec_read(exec, HOLT_STDOUT, out.data + out.len, READ_BYTES, TIMEOUT_MS,
			    &n, &error) < 0)
			die("cannot read output", error);
		out.len += n;
	} while (n > 0);
	return out;
}

struct shell_output shell_run(holt_box *box, const char *command)
{
	const char *const argv[] = {"sh", "-lc", command, NULL};
	holt_exec_options options = HOLT_EXEC_OPTIONS_INIT;
	holt_exit result = HOLT_EXIT_INIT;
	holt_error *error = NULL;
	holt_exec *exec = NULL;

	options.argv = argv;
	if (holt_exec_start(box, &options, &exec, &error) < 0)
		die("cannot start a shell", error);
	struct shell_output out = read_all(exec);
	if (holt_exec_wait(exec, TIMEOUT_MS, &result, &error) < 0)
		die("a shell did not end", error);
	holt_exec_free(exec);
	if (result.code != 0) {
		(void)fprintf(stderr, "bench: exit code %d of: %.200s\n", result.code, command);
		exit(1);
	}
	return out;
}

static void run_quiet(holt_box *box, const char *command)
{
	free(shell_run(box, command).data);
}

/* ---- base64 ---- */

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static size_t encode(char *to, const uint8_t *from, size_t len)
{
	char *at = to;

	for (size_t i = 0; i < len; i += 3) {
		const size_t left = len - i;
		const uint32_t bits = (uint32_t)from[i] << 16 |
				      (left > 1 ? (uint32_t)from[i + 1] << 8 : 0) |
				      (left > 2 ? from[i + 2] : 0);

		*at++ = digits[bits >> 18];
		*at++ = digits[bits >> 12 & 63];
		*at++ = left > 1 ? digits[bits >> 6 & 63] : '=';
		*at++ = left > 2 ? digits[bits & 63] : '=';
	}
	return (size_t)(at - to);
}

/* In place; what is no digit is passed over. */
static size_t decode(char *data, size_t len)
{
	int8_t values[256];
	uint32_t bits = 0;
	unsigned n = 0;
	char *to = data;

	memset(values, -1, sizeof values);
	for (int8_t i = 0; i < 64; i++)
		values[(uint8_t)digits[i]] = i;
	for (size_t i = 0; i < len; i++) {
		const int8_t v = values[(uint8_t)data[i]];

		if (v < 0)
			continue;
		bits = bits << 6 | (uint32_t)v;
		if (++n < 4)
			continue;
		*to++ = (char)(bits >> 16);
		*to++ = (char)(bits >> 8);
		*to++ = (char)bits;
		n = 0;
	}
	if (n >= 2)
		*to++ = (char)(bits >> (6 * n - 8));
	if (n == 3)
		*to++ = (char)(bits >> 2);
	return (size_t)(to - data);
}

/* ---- files ---- */

void shell_write(holt_box *box, const char *path, const void *data, size_t len)
{
	char *command = room(NULL, BASE64_LEN(PIECE_BYTES) + COMMAND_ROOM);
	const char *name = strrchr(path, '/');
	size_t done = 0;

	(void)snprintf(command, COMMAND_ROOM, "mkdir -p -- '%.*s'", (int)(name - path), path);
	run_quiet(box, command);
	do {
		const size_t n = len - done < PIECE_BYTES ? len - done : PIECE_BYTES;
		char *at = command + snprintf(command, COMMAND_ROOM, "printf %%s '");

		at += encode(at, (const uint8_t *)data + done, n);
		(void)snprintf(
			at, COMMAND_ROOM / 2, "' | base64 -d %s '%s'", done ? ">>" : ">", path);
		run_quiet(box, command);
		done += n;
	} while (done < len);
	free(command);
}

struct shell_output shell_read(holt_box *box, const char *path)
{
	char command[COMMAND_ROOM];

	(void)snprintf(command, sizeof command, "cat -- '%s'", path);
	return shell_run(box, command);
}

struct shell_output shell_download(holt_box *box, const char *path)
{
	char command[COMMAND_ROOM];

	(void)snprintf(command, sizeof command, "stat -L -c %%s -- '%s'", path);
	struct shell_output size = shell_run(box, command);
	size.data[size.len] = 0;
	const size_t want = strtoull(size.data, NULL, 10);
	free(size.data);
	(void)snprintf(command, sizeof command, "base64 -- '%s'", path);
	struct shell_output out = shell_run(box, command);
	out.len = decode(out.data, out.len);
	if (out.len != want)
		die("a download has another size", NULL);
	return out;
}

size_t shell_count_lines(const struct shell_output *output, const char *suffix)
{
	const size_t suffix_len = strlen(suffix);
	const char *at = output->data;
	const char *end = at + output->len;
	size_t n = 0;

	for (const char *lf = NULL; at < end && (lf = memchr(at, '\n', (size_t)(end - at)));
		at = lf + 1) {
		const size_t len = (size_t)(lf - at);

		n += len >= suffix_len && memcmp(lf - suffix_len, suffix, suffix_len) == 0;
	}
	return n;
}
