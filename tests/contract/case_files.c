/* SPDX-License-Identifier: Apache-2.0 */
/* The operations on files: arguments out of the step, the call, the result held against what is
 * expected. */
#include "case.h"

#include <stdlib.h>
#include <string.h>

#define LINES_MAX 64

static bool get_options(struct run *run, json_t *step, holt_call_options *ret)
{
	*ret = (holt_call_options)HOLT_CALL_OPTIONS_INIT;
	ret->timeout_ms = CASE_OP_MS;
	return value_uint(run, step, "timeout_ms", &ret->timeout_ms);
}

/* ---- reading ---- */

static int by_line(const void *a, const void *b)
{
	const struct bytes *x = a;
	const struct bytes *y = b;
	const int r = memcmp(x->data, y->data, x->len < y->len ? x->len : y->len);

	return r ? r : (x->len > y->len) - (x->len < y->len);
}

/* "sorted" is the content with its lines, and their ends, in the order of bytes. */
static bool expect_sorted(struct run *run, json_t *expect, const char *data, size_t len)
{
	struct bytes lines[LINES_MAX];
	struct pile sorted = {0};
	size_t n = 0;

	if (!json_object_get(expect, "sorted"))
		return true;
	while (len > 0) {
		const char *end = memchr(data, '\n', len);
		const size_t size = end ? (size_t)(end - data) + 1 : len;

		if (n == LINES_MAX)
			return case_fail(run, "more than %d lines", LINES_MAX);
		lines[n++] = (struct bytes){data, size};
		data += size;
		len -= size;
	}
	qsort(lines, n, sizeof lines[0], by_line);
	for (size_t i = 0; i < n; i++)
		pile_add(&sorted, lines[i].data, lines[i].len);
	const bool ok = expect_bytes(run, expect, "sorted", sorted.data, sorted.len);
	free(sorted.data);
	return ok;
}

static bool expect_content(
	struct run *run, json_t *expect, int r, char *data, size_t len, holt_error *error)
{
	bool more = false;
	bool ok = expect_result(run, expect, r, error, &more);

	if (ok && more)
		ok = expect_bytes(run, expect, "content", data, len) &&
		     expect_one_of(run, expect, "one_of", data, len) &&
		     expect_has(run, expect, "has", data, len) &&
		     expect_sorted(run, expect, data, len) && expect_uint(run, expect, "len", len);
	holt_free(data);
	holt_error_free(error);
	return ok;
}

/* "lines": [FIRST, LAST], each a number or null. */
static bool get_lines(struct run *run, json_t *step, holt_read_options *options)
{
	json_t *lines = json_object_get(step, "lines");

	if (!lines)
		return true;
	if (json_array_size(lines) != 2)
		return case_fail(run, "bad data: 'lines' are two numbers");
	options->flags = HOLT_READ_LINES;
	options->first_line = json_integer_value(json_array_get(lines, 0));
	options->last_line = json_integer_value(json_array_get(lines, 1));
	return true;
}

static bool read_with(struct run *run, holt_sandbox *sandbox, json_t *step, json_t *expect)
{
	holt_read_options options = HOLT_READ_OPTIONS_INIT;
	holt_error *error = NULL;
	const char *path = NULL;
	char *data = NULL;
	size_t len = 0;

	options.timeout_ms = CASE_OP_MS;
	if (!value_text(run, step, "path", true, &path) || !get_lines(run, step, &options) ||
		!value_uint(run, step, "timeout_ms", &options.timeout_ms) ||
		!value_uint(run, step, "max_bytes", &options.max_bytes))
		return false;
	const int r = holt_sandbox_read(sandbox, path, &options, &data, &len, &error);
	return expect_content(run, expect, r, data, len, error);
}

static bool op_read(struct run *run, json_t *step, json_t *expect)
{
	return read_with(run, run->sandbox, step, expect);
}

static bool op_read_text(struct run *run, json_t *step, json_t *expect)
{
	return read_with(run, run->world->text, step, expect);
}

static int collect(const void *data, size_t len, void *user)
{
	pile_add(user, data, len);
	return 0;
}

/* Both ways, which have to agree. */
static bool op_download(struct run *run, json_t *step, json_t *expect)
{
	holt_call_options options;
	holt_error *error = NULL;
	holt_error *second = NULL;
	const char *path = NULL;
	struct pile pieces = {0};
	char *data = NULL;
	size_t len = 0;
	bool ok = true;

	if (!value_text(run, step, "path", true, &path) || !get_options(run, step, &options))
		return false;
	const int r = holt_sandbox_download(run->sandbox, path, &options, &data, &len, &error);
	const int again = holt_sandbox_download_to(
		run->sandbox, path, &options, collect, &pieces, &second);
	if (again != r ||
		(r == 0 && (pieces.len != len || (len > 0 && memcmp(pieces.data, data, len) != 0))))
		ok = case_fail(run, "whole and in pieces differ: %d and %d: %s", r, again,
			holt_error_message(second));
	holt_error_free(second);
	free(pieces.data);
	return expect_content(run, expect, r, data, len, error) && ok;
}

/* ---- writing ---- */

typedef int (*write_fn)(holt_sandbox *sandbox, const char *path, const void *data, size_t len,
	const holt_call_options *options, holt_error **reterr);

static bool write_with(struct run *run, write_fn call, json_t *step, json_t *expect)
{
	holt_call_options options;
	json_t *json = json_object_get(step, "content");
	struct bytes content = {NULL, 0};
	holt_error *error = NULL;
	const char *path = NULL;
	bool more = false;

	if (!value_text(run, step, "path", true, &path) || !get_options(run, step, &options) ||
		!value_flag(run, step, "exclusive", HOLT_WRITE_EXCLUSIVE, &options.flags) ||
		(json && !value_get(run, json, &content)))
		return false;
	const int r = call(run->sandbox, path, content.data, content.len, &options, &error);
	const bool ok = expect_result(run, expect, r, error, &more);
	holt_error_free(error);
	return ok;
}

static bool op_write(struct run *run, json_t *step, json_t *expect)
{
	return write_with(run, holt_sandbox_write, step, expect);
}

static bool op_append(struct run *run, json_t *step, json_t *expect)
{
	return write_with(run, holt_sandbox_append, step, expect);
}

static bool op_update(struct run *run, json_t *step, json_t *expect)
{
	return write_with(run, holt_sandbox_update, step, expect);
}

struct source {
	uint64_t left;
	uint32_t fails; /* at the end */
};

static int give(void *data, size_t size, size_t *ret_len, void *user)
{
	struct source *s = user;
	const size_t n = size < s->left ? size : (size_t)s->left;

	if (n == 0 && s->fails)
		return -1;
	memset(data, 'x', n);
	s->left -= n;
	*ret_len = n;
	return 0;
}

/* From a source that gives "size" bytes and then ends, or fails. */
static bool op_write_from(struct run *run, json_t *step, json_t *expect)
{
	holt_call_options options;
	struct source source = {0};
	uint32_t append = 0;
	holt_error *error = NULL;
	const char *path = NULL;
	bool more = false;

	if (!value_text(run, step, "path", true, &path) || !get_options(run, step, &options) ||
		!value_flag(run, step, "append", 1, &append) ||
		!value_flag(run, step, "fail", 1, &source.fails) ||
		!value_uint(run, step, "size", &source.left))
		return false;
	const int r = (append ? holt_sandbox_append_from : holt_sandbox_write_from)(
		run->sandbox, path, give, &source, &options, &error);
	const bool ok = expect_result(run, expect, r, error, &more);
	holt_error_free(error);
	return ok;
}

/* Set-up: [[NAME, CONTENT], ...] in the case's directory, whoever the case's user is. */
static bool op_files(struct run *run, json_t *step, json_t *expect)
{
	json_t *files = json_object_get(step, "files");
	holt_sandbox *sandbox = run->box == run->world->box ? run->world->sandbox : run->sandbox;
	bool ok = json_is_array(files) || case_fail(run, "bad data: 'files' is no array");

	(void)expect;
	for (size_t i = 0; ok && i < json_array_size(files); i++) {
		json_t *file = json_array_get(files, i);
		char path[CASE_PATH_MAX];
		struct bytes name;
		struct bytes content;
		holt_error *error = NULL;

		if (!value_get(run, json_array_get(file, 0), &name) ||
			!value_get(run, json_array_get(file, 1), &content))
			return false;
		(void)snprintf(path, sizeof path, "%s/%s", run->dir, name.data);
		if (holt_sandbox_write(sandbox, path, content.data, content.len, NULL, &error) != 0)
			ok = case_fail(
				run, "cannot write '%s': %s", path, holt_error_message(error));
		holt_error_free(error);
	}
	return ok;
}

/* ---- names ---- */

static const char *const type_names[] = {[HOLT_FILE_REGULAR] = "file",
	[HOLT_FILE_DIRECTORY] = "directory",
	[HOLT_FILE_SYMLINK] = "symlink",
	[HOLT_FILE_FIFO] = "fifo",
	[HOLT_FILE_SOCKET] = "socket",
	[HOLT_FILE_CHAR] = "character",
	[HOLT_FILE_BLOCK] = "block"};

static bool expect_info(struct run *run, json_t *expect, const holt_file_info *info)
{
	char mode[16];

	if (info->type < HOLT_FILE_REGULAR || info->type > HOLT_FILE_BLOCK)
		return case_fail(run, "a file of type %d", info->type);
	(void)snprintf(mode, sizeof mode, "%04o", info->mode);
	return expect_bytes(run, expect, "type", type_names[info->type],
		       strlen(type_names[info->type])) &&
	       expect_bytes(run, expect, "mode", mode, strlen(mode)) &&
	       expect_uint(run, expect, "uid", info->uid) &&
	       expect_uint(run, expect, "gid", info->gid) &&
	       expect_uint(run, expect, "size", info->size_bytes) &&
	       expect_uint(run, expect, "mtime_s", (uint64_t)(info->mtime_ns / 1000000000));
}

static bool op_stat(struct run *run, json_t *step, json_t *expect)
{
	holt_call_options options;
	holt_file_info info = HOLT_FILE_INFO_INIT;
	holt_error *error = NULL;
	const char *path = NULL;
	bool more = false;

	if (!value_text(run, step, "path", true, &path) || !get_options(run, step, &options) ||
		!value_flag(run, step, "nofollow", HOLT_STAT_NOFOLLOW, &options.flags))
		return false;
	const int r = holt_sandbox_stat(run->sandbox, path, &options, &info, &error);
	const bool ok = expect_result(run, expect, r, error, &more) &&
			(!more || expect_info(run, expect, &info));
	holt_error_free(error);
	return ok;
}

static bool op_mkdir(struct run *run, json_t *step, json_t *expect)
{
	holt_call_options options;
	holt_error *error = NULL;
	const char *path = NULL;
	bool more = false;

	if (!value_text(run, step, "path", true, &path) || !get_options(run, step, &options) ||
		!value_flag(run, step, "parents", HOLT_MKDIR_PARENTS, &options.flags))
		return false;
	const int r = holt_sandbox_make_directory(run->sandbox, path, &options, &error);
	const bool ok = expect_result(run, expect, r, error, &more);
	holt_error_free(error);
	return ok;
}

static bool op_move(struct run *run, json_t *step, json_t *expect)
{
	holt_call_options options;
	holt_error *error = NULL;
	const char *from = NULL;
	const char *to = NULL;
	bool more = false;

	if (!value_text(run, step, "from", true, &from) ||
		!value_text(run, step, "to", true, &to) || !get_options(run, step, &options) ||
		!value_flag(run, step, "noreplace", HOLT_MOVE_NOREPLACE, &options.flags))
		return false;
	const int r = holt_sandbox_move(run->sandbox, from, to, &options, &error);
	const bool ok = expect_result(run, expect, r, error, &more);
	holt_error_free(error);
	return ok;
}

static bool op_remove(struct run *run, json_t *step, json_t *expect)
{
	holt_call_options options;
	holt_error *error = NULL;
	const char *path = NULL;
	bool more = false;

	if (!value_text(run, step, "path", true, &path) || !get_options(run, step, &options) ||
		!value_flag(run, step, "recursive", HOLT_REMOVE_RECURSIVE, &options.flags) ||
		!value_flag(run, step, "force", HOLT_REMOVE_FORCE, &options.flags))
		return false;
	const int r = holt_sandbox_remove(run->sandbox, path, &options, &error);
	const bool ok = expect_result(run, expect, r, error, &more);
	holt_error_free(error);
	return ok;
}

const struct op ops_of_files[] = {
	{"append", op_append, "path content exclusive timeout_ms", ""},
	{"download", op_download, "path timeout_ms", "content has len one_of sorted"},
	{"files", op_files, "files", ""},
	{"mkdir", op_mkdir, "path parents timeout_ms", ""},
	{"move", op_move, "from to noreplace timeout_ms", ""},
	{"read", op_read, "path lines max_bytes timeout_ms", "content has len one_of sorted"},
	{"read_text", op_read_text, "path lines max_bytes timeout_ms",
		"content has len one_of sorted"},
	{"remove", op_remove, "path recursive force timeout_ms", ""},
	{"stat", op_stat, "path nofollow timeout_ms", "type mode uid gid size mtime_s"},
	{"update", op_update, "path content exclusive timeout_ms", ""},
	{"write", op_write, "path content exclusive timeout_ms", ""},
	{"write_from", op_write_from, "path size append fail timeout_ms", ""},
	{NULL, NULL, NULL, NULL},
};
