/* SPDX-License-Identifier: Apache-2.0 */
#include "holt/search.h"

#include "holt/files.h"

#include "api/options.h"
#include "api/sandbox_options.h"
#include "sandbox/contract.h"
#include "base/banned.h"

/* Listing and searching: arguments are checked here, the rest is src/sandbox. */

_Static_assert(CONTRACT_PATTERN_BYTES_MAX == HOLT_PATTERN_BYTES_MAX &&
		       CONTRACT_LINE_CHARS == HOLT_GREP_LINE_CHARS,
	"limits of searches are stated once");

/* The number of a maximum: 0 is @otherwise, HOLT_NO_RESULTS is none. */
static int check_maximum(uint32_t given, uint32_t otherwise, uint64_t *ret, holt_error **reterr)
{
	*ret = given == HOLT_NO_RESULTS ? 0 : given ? given : otherwise;
	return api_check_range("max_results", *ret, 0, HOLT_RESULTS_MAX, reterr);
}

/* Before anything is searched, since what was handed over cannot be taken back. */
static int check_result(const holt_search_result *ret, holt_error **reterr)
{
	if (!ret || ret->struct_size >= sizeof *ret)
		return 0;
	return err_make(reterr, HOLT_EINVALID,
		"struct_size of holt_search_result is %zu, not set by its _INIT macro",
		ret->struct_size);
}

static int give_result(
	int r, const holt_search_result *found, holt_search_result *ret, holt_error **reterr)
{
	if (r < 0 || !ret)
		return r;
	return options_write(
		ret, found, sizeof *found, sizeof *found, "holt_search_result", reterr);
}

static int options_of_list(const holt_list_options *options, struct contract_search *ret,
	holt_call *ret_call, holt_error **reterr)
{
	holt_list_options o;
	int r = options_read(&o, sizeof o, sizeof o, options, "holt_list_options", reterr);

	if (r == 0)
		r = api_check_flags(o.flags, HOLT_LIST_ALL, reterr);
	if (r < 0)
		return api_in_options(r, reterr);
	ret->all = o.flags & HOLT_LIST_ALL;
	ret->max_depth = o.max_depth == HOLT_LIST_DEPTH_ROOT ? 0
			 : o.max_depth                       ? o.max_depth
							     : HOLT_LIST_DEPTH_DEFAULT;
	ret->max_results = o.max_entries ? o.max_entries : HOLT_LIST_ENTRIES_DEFAULT;
	*ret_call = api_call(o.timeout_ms, o.cancel);
	r = api_check_range("max_depth", ret->max_depth, 0, HOLT_DEPTH_MAX, reterr);
	if (r == 0)
		r = api_check_range(
			"max_entries", ret->max_results, 1, HOLT_LIST_ENTRIES_MAX, reterr);
	return api_in_options(r, reterr);
}

HOLT_API int holt_sandbox_list(holt_sandbox *sandbox, const char *path,
	const holt_list_options *options, holt_entry_fn entry, void *user, holt_search_result *ret,
	holt_error **reterr)
{
	struct contract_search what = {.root = path};
	holt_search_result found = HOLT_SEARCH_RESULT_INIT;
	holt_call call = {0};

	if (!sandbox || !path || !entry)
		return api_null(!sandbox ? "sandbox" : !path ? "path" : "entry", reterr);
	int r = check_result(ret, reterr);
	if (r == 0)
		r = options_of_list(options, &what, &call, reterr);
	if (r == 0)
		r = contract_list(sandbox, &what, &call, entry, user, &found, reterr);
	return give_result(r, &found, ret, reterr);
}

static int options_of_glob(const holt_glob_options *options, struct contract_search *ret,
	holt_call *ret_call, holt_error **reterr)
{
	holt_glob_options o;
	int r = options_read(&o, sizeof o, sizeof o, options, "holt_glob_options", reterr);

	if (r == 0)
		r = api_check_flags(o.flags, HOLT_GLOB_DIRECTORIES | HOLT_GLOB_ALL, reterr);
	if (r == 0)
		r = check_maximum(
			o.max_results, HOLT_GLOB_RESULTS_DEFAULT, &ret->max_results, reterr);
	if (r < 0)
		return api_in_options(r, reterr);
	ret->all = o.flags & HOLT_GLOB_ALL;
	ret->flags = o.flags & ~(uint32_t)HOLT_GLOB_ALL;
	*ret_call = api_call(o.timeout_ms, o.cancel);
	return 0;
}

HOLT_API int holt_sandbox_glob(holt_sandbox *sandbox, const char *root, const char *pattern,
	const holt_glob_options *options, holt_entry_fn entry, void *user, holt_search_result *ret,
	holt_error **reterr)
{
	struct contract_search what = {.root = root, .pattern = pattern};
	holt_search_result found = HOLT_SEARCH_RESULT_INIT;
	holt_call call = {0};

	if (!sandbox || !root)
		return api_null(sandbox ? "root" : "sandbox", reterr);
	if (!pattern || !entry)
		return api_null(pattern ? "entry" : "pattern", reterr);
	int r = check_result(ret, reterr);
	if (r == 0)
		r = options_of_glob(options, &what, &call, reterr);
	if (r == 0)
		r = contract_glob(sandbox, &what, &call, entry, user, &found, reterr);
	return give_result(r, &found, ret, reterr);
}

static int options_of_grep(const holt_grep_options *options, struct contract_search *ret,
	holt_call *ret_call, holt_error **reterr)
{
	holt_grep_options o;
	int r = options_read(&o, sizeof o, sizeof o, options, "holt_grep_options", reterr);

	if (r == 0)
		r = api_check_flags(o.flags,
			HOLT_GREP_LITERAL | HOLT_GREP_CASE_SENSITIVE | HOLT_GREP_ALL, reterr);
	if (r == 0)
		r = check_maximum(
			o.max_results, HOLT_GREP_RESULTS_DEFAULT, &ret->max_results, reterr);
	if (r < 0)
		return api_in_options(r, reterr);
	ret->all = o.flags & HOLT_GREP_ALL;
	ret->flags = o.flags & ~(uint32_t)HOLT_GREP_ALL;
	ret->glob = o.glob;
	*ret_call = api_call(o.timeout_ms, o.cancel);
	return 0;
}

HOLT_API int holt_sandbox_grep(holt_sandbox *sandbox, const char *root, const char *pattern,
	const holt_grep_options *options, holt_match_fn match, void *user, holt_search_result *ret,
	holt_error **reterr)
{
	struct contract_search what = {.root = root, .pattern = pattern};
	holt_search_result found = HOLT_SEARCH_RESULT_INIT;
	holt_call call = {0};

	if (!sandbox || !root)
		return api_null(sandbox ? "root" : "sandbox", reterr);
	if (!pattern || !match)
		return api_null(pattern ? "match" : "pattern", reterr);
	int r = check_result(ret, reterr);
	if (r == 0)
		r = options_of_grep(options, &what, &call, reterr);
	if (r == 0)
		r = contract_grep(sandbox, &what, &call, match, user, &found, reterr);
	return give_result(r, &found, ret, reterr);
}

HOLT_API const char *const *holt_sandbox_ignored(void)
{
	return ignore_list();
}
