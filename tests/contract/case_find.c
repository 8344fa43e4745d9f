/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listing and searching. What is found becomes a set of names relative to the root, directories
 * with a '/' at their end; that every path begins with the root as it was given is checked on the
 * way.
 */
#include "case.h"

#include <string.h>

#define DEPTH_ROOT "root"

/* The rest of a path behind the root; NULL where it is not beneath it. */
static const char *behind_root(struct found *f, const char *path, size_t len, size_t *ret_len)
{
	size_t root = strlen(f->root);

	if (len < root || memcmp(path, f->root, root) != 0) {
		f->wrong = "a path does not begin with the root";
		return NULL;
	}
	if (len > root && f->root[root - 1] != '/' && path[root++] != '/') {
		f->wrong = "a path is not beneath the root";
		return NULL;
	}
	if (len > root && path[root] == '/') {
		f->wrong = "a path has two slashes behind the root";
		return NULL;
	}
	*ret_len = len - root;
	return path + root;
}

static int take_entry(const holt_entry *entry, void *user)
{
	struct found *f = user;
	struct pile name = {0};
	size_t len = 0;
	const char *rest = behind_root(f, entry->path, entry->path_len, &len);

	if (!rest)
		return 0;
	if (entry->type != HOLT_FILE_REGULAR && entry->type != HOLT_FILE_DIRECTORY)
		f->wrong = "an entry is neither a file nor a directory";
	if (len == 0) {
		if (!f->first_is_root || f->n > 0)
			f->wrong = "the root is not in its place";
		f->first_is_root = false;
		return 0;
	}
	if (f->first_is_root)
		f->wrong = "the root is not first";
	pile_add(&name, rest, len);
	if (entry->type == HOLT_FILE_DIRECTORY)
		pile_add(&name, "/", 1);
	found_add(f, name.data, name.len);
	free(name.data);
	return 0;
}

static int take_match(const holt_match *match, void *user)
{
	struct found *f = user;
	struct pile all = {0};
	char number[32];
	size_t len = 0;
	const char *rest = behind_root(f, match->path, match->path_len, &len);

	if (!rest)
		return 0;
	(void)snprintf(number, sizeof number, "%llu", (unsigned long long)match->line_number);
	pile_add(&all, rest, len);
	pile_add(&all, "", 1);
	pile_add(&all, number, strlen(number) + 1);
	pile_add(&all, match->line, match->line_len);
	found_add(f, all.data, all.len);
	free(all.data);
	return 0;
}

static bool expect_found(struct run *run, json_t *expect, const char *key, int r,
	struct found *found, const holt_search_result *result, holt_error *error)
{
	/* Of a listing, the root counts. */
	const uint64_t count = found->n + (strcmp(key, "entries") == 0);
	bool more = false;
	bool ok = expect_result(run, expect, r, error, &more);

	if (ok && more && found->wrong)
		ok = case_fail(run, "%s", found->wrong);
	if (ok && more && result->count != count)
		ok = case_fail(run, "%llu were told, %llu came", (unsigned long long)result->count,
			(unsigned long long)count);
	if (ok && more)
		ok = expect_flag(run, expect, "truncated", false, result->truncated == 1) &&
		     expect_uint(run, expect, "count", count) &&
		     expect_uint(run, expect, "searched", result->searched) &&
		     expect_uint(run, expect, "skipped", result->skipped) &&
		     expect_set(run, expect, key, found);
	found_free(found);
	holt_error_free(error);
	return ok;
}

/* "depth" is a number, or "root" for the root alone; so with "max_results": "none". */
static bool get_limit(struct run *run, json_t *step, const char *key, const char *none,
	uint32_t none_value, uint32_t *ret)
{
	json_t *json = json_object_get(step, key);
	uint64_t value = 0;

	if (json_is_string(json) && strcmp(json_string_value(json), none) == 0) {
		*ret = none_value;
		return true;
	}
	if (!value_uint(run, step, key, &value))
		return false;
	*ret = (uint32_t)value;
	return true;
}

static bool op_list(struct run *run, json_t *step, json_t *expect)
{
	holt_list_options options = HOLT_LIST_OPTIONS_INIT;
	holt_search_result result = HOLT_SEARCH_RESULT_INIT;
	struct found found = {.first_is_root = true};
	holt_error *error = NULL;

	options.timeout_ms = CASE_OP_MS;
	if (!value_text(run, step, "path", true, &found.root) ||
		!get_limit(
			run, step, "depth", DEPTH_ROOT, HOLT_LIST_DEPTH_ROOT, &options.max_depth) ||
		!get_limit(run, step, "max_entries", "", 0, &options.max_entries) ||
		!value_flag(run, step, "all", HOLT_LIST_ALL, &options.flags) ||
		!value_uint(run, step, "timeout_ms", &options.timeout_ms))
		return false;
	const int r = holt_sandbox_list(
		run->sandbox, found.root, &options, take_entry, &found, &result, &error);
	if (r == 0 && found.first_is_root)
		found.wrong = "the root is missing";
	return expect_found(run, expect, "entries", r, &found, &result, error);
}

static bool op_glob(struct run *run, json_t *step, json_t *expect)
{
	holt_glob_options options = HOLT_GLOB_OPTIONS_INIT;
	holt_search_result result = HOLT_SEARCH_RESULT_INIT;
	struct found found = {0};
	const char *pattern = NULL;
	holt_error *error = NULL;

	options.timeout_ms = CASE_OP_MS;
	if (!value_text(run, step, "root", true, &found.root) ||
		!value_text(run, step, "pattern", true, &pattern) ||
		!get_limit(
			run, step, "max_results", "none", HOLT_NO_RESULTS, &options.max_results) ||
		!value_flag(run, step, "dirs", HOLT_GLOB_DIRECTORIES, &options.flags) ||
		!value_flag(run, step, "all", HOLT_GLOB_ALL, &options.flags) ||
		!value_uint(run, step, "timeout_ms", &options.timeout_ms))
		return false;
	const int r = holt_sandbox_glob(
		run->sandbox, found.root, pattern, &options, take_entry, &found, &result, &error);
	return expect_found(run, expect, "paths", r, &found, &result, error);
}

static bool op_grep(struct run *run, json_t *step, json_t *expect)
{
	holt_grep_options options = HOLT_GREP_OPTIONS_INIT;
	holt_search_result result = HOLT_SEARCH_RESULT_INIT;
	struct found found = {0};
	const char *pattern = NULL;
	holt_error *error = NULL;

	options.timeout_ms = CASE_OP_MS;
	if (!value_text(run, step, "root", true, &found.root) ||
		!value_text(run, step, "pattern", true, &pattern) ||
		!value_text(run, step, "glob", false, &options.glob) ||
		!get_limit(
			run, step, "max_results", "none", HOLT_NO_RESULTS, &options.max_results) ||
		!value_flag(run, step, "literal", HOLT_GREP_LITERAL, &options.flags) ||
		!value_flag(run, step, "all", HOLT_GREP_ALL, &options.flags) ||
		!value_flag(
			run, step, "case_sensitive", HOLT_GREP_CASE_SENSITIVE, &options.flags) ||
		!value_uint(run, step, "timeout_ms", &options.timeout_ms))
		return false;
	const int r = holt_sandbox_grep(
		run->sandbox, found.root, pattern, &options, take_match, &found, &result, &error);
	return expect_found(run, expect, "matches", r, &found, &result, error);
}

const struct op ops_of_finding[] = {
	{"glob", op_glob, "root pattern dirs all max_results timeout_ms", "paths truncated count"},
	{"grep", op_grep, "root pattern glob literal case_sensitive all max_results timeout_ms",
		"matches truncated count searched skipped"},
	{"list", op_list, "path depth max_entries all timeout_ms", "entries truncated count"},
	{NULL, NULL, NULL, NULL},
};
