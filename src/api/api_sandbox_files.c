/* SPDX-License-Identifier: Apache-2.0 */
#include "holt/files.h"

#include "api/options.h"
#include "api/sandbox_options.h"
#include "sandbox/contract.h"
#include "base/banned.h"

/* Files of a sandbox: arguments are checked here, the rest is src/sandbox. */

_Static_assert(CONTRACT_DOWNLOAD_BYTES_MAX == HOLT_DOWNLOAD_BYTES_MAX, "one limit of downloads");

static int options_of_read(const holt_read_options *options, struct contract_read *ret,
	holt_call *ret_call, holt_error **reterr)
{
	holt_read_options o;
	int r = options_read(&o, sizeof o, sizeof o, options, "holt_read_options", reterr);

	if (r == 0)
		r = api_check_flags(o.flags, HOLT_READ_LINES, reterr);
	if (r < 0)
		return api_in_options(r, reterr);
	*ret = (struct contract_read){.lines = o.flags & HOLT_READ_LINES,
		.first_line = o.first_line,
		.last_line = o.last_line,
		.max_bytes = o.max_bytes};
	*ret_call = api_call(o.timeout_ms, o.cancel);
	return 0;
}

HOLT_API int holt_sandbox_read(holt_sandbox *sandbox, const char *path,
	const holt_read_options *options, char **ret, size_t *ret_len, holt_error **reterr)
{
	struct contract_read what = {0};
	holt_call call = {0};

	if (!sandbox || !path)
		return api_null(sandbox ? "path" : "sandbox", reterr);
	if (!ret || !ret_len)
		return api_null(ret ? "ret_len" : "ret", reterr);
	const int r = options_of_read(options, &what, &call, reterr);
	if (r < 0)
		return r;
	if (!what.max_bytes)
		what.max_bytes = HOLT_READ_BYTES_DEFAULT;
	return contract_read(sandbox, path, &what, &call, ret, ret_len, reterr);
}

HOLT_API int holt_sandbox_read_to(holt_sandbox *sandbox, const char *path,
	const holt_read_options *options, holt_data_fn data, void *user, holt_error **reterr)
{
	struct contract_read what = {0};
	holt_call call = {0};

	if (!sandbox || !path || !data)
		return api_null(!sandbox ? "sandbox" : !path ? "path" : "data", reterr);
	const int r = options_of_read(options, &what, &call, reterr);
	return r < 0 ? r : contract_read_to(sandbox, path, &what, &call, data, user, reterr);
}

HOLT_API int holt_sandbox_download(holt_sandbox *sandbox, const char *path,
	const holt_call_options *options, char **ret, size_t *ret_len, holt_error **reterr)
{
	uint32_t flags = 0;
	holt_call call = {0};

	if (!sandbox || !path)
		return api_null(sandbox ? "path" : "sandbox", reterr);
	if (!ret || !ret_len)
		return api_null(ret ? "ret_len" : "ret", reterr);
	const int r = api_call_read(options, 0, &call, &flags, reterr);
	return r < 0 ? r : contract_download(sandbox, path, &call, ret, ret_len, reterr);
}

HOLT_API int holt_sandbox_download_to(holt_sandbox *sandbox, const char *path,
	const holt_call_options *options, holt_data_fn data, void *user, holt_error **reterr)
{
	uint32_t flags = 0;
	holt_call call = {0};

	if (!sandbox || !path || !data)
		return api_null(!sandbox ? "sandbox" : !path ? "path" : "data", reterr);
	const int r = api_call_read(options, 0, &call, &flags, reterr);
	return r < 0 ? r : contract_download_to(sandbox, path, &call, data, user, reterr);
}

static int write_bytes(holt_sandbox *sandbox, enum contract_write how, const char *path,
	const void *data, size_t len, const holt_call_options *options, holt_error **reterr)
{
	uint32_t flags = 0;
	holt_call call = {0};

	if (!sandbox || !path || (!data && len))
		return api_null(!sandbox ? "sandbox" : !path ? "path" : "data", reterr);
	const int r = api_call_read(options, HOLT_WRITE_EXCLUSIVE, &call, &flags, reterr);
	return r < 0 ? r : contract_write(sandbox, how, path, flags, &call, data, len, reterr);
}

HOLT_API int holt_sandbox_write(holt_sandbox *sandbox, const char *path, const void *data,
	size_t len, const holt_call_options *options, holt_error **reterr)
{
	return write_bytes(sandbox, CONTRACT_WRITE, path, data, len, options, reterr);
}

HOLT_API int holt_sandbox_append(holt_sandbox *sandbox, const char *path, const void *data,
	size_t len, const holt_call_options *options, holt_error **reterr)
{
	return write_bytes(sandbox, CONTRACT_APPEND, path, data, len, options, reterr);
}

HOLT_API int holt_sandbox_update(holt_sandbox *sandbox, const char *path, const void *data,
	size_t len, const holt_call_options *options, holt_error **reterr)
{
	return write_bytes(sandbox, CONTRACT_UPDATE, path, data, len, options, reterr);
}

static int write_from(holt_sandbox *sandbox, enum contract_write how, const char *path,
	holt_source_fn source, void *user, const holt_call_options *options, holt_error **reterr)
{
	uint32_t flags = 0;
	holt_call call = {0};

	if (!sandbox || !path || !source)
		return api_null(!sandbox ? "sandbox" : !path ? "path" : "source", reterr);
	const int r = api_call_read(options, HOLT_WRITE_EXCLUSIVE, &call, &flags, reterr);
	return r < 0 ? r
		     : contract_write_from(sandbox, how, path, flags, &call, source, user, reterr);
}

HOLT_API int holt_sandbox_write_from(holt_sandbox *sandbox, const char *path, holt_source_fn source,
	void *user, const holt_call_options *options, holt_error **reterr)
{
	return write_from(sandbox, CONTRACT_WRITE, path, source, user, options, reterr);
}

HOLT_API int holt_sandbox_append_from(holt_sandbox *sandbox, const char *path,
	holt_source_fn source, void *user, const holt_call_options *options, holt_error **reterr)
{
	return write_from(sandbox, CONTRACT_APPEND, path, source, user, options, reterr);
}

HOLT_API int holt_sandbox_stat(holt_sandbox *sandbox, const char *path,
	const holt_call_options *options, holt_file_info *ret, holt_error **reterr)
{
	holt_file_info info = HOLT_FILE_INFO_INIT;
	uint32_t flags = 0;
	holt_call call = {0};

	if (!sandbox || !path || !ret)
		return api_null(!sandbox ? "sandbox" : !path ? "path" : "ret", reterr);
	int r = api_call_read(options, HOLT_STAT_NOFOLLOW, &call, &flags, reterr);
	if (r == 0)
		r = contract_stat(sandbox, path, flags, &call, &info, reterr);
	return r < 0 ? r
		     : options_write(
			       ret, &info, sizeof info, sizeof info, "holt_file_info", reterr);
}

HOLT_API int holt_sandbox_make_directory(holt_sandbox *sandbox, const char *path,
	const holt_call_options *options, holt_error **reterr)
{
	uint32_t flags = 0;
	holt_call call = {0};

	if (!sandbox || !path)
		return api_null(sandbox ? "path" : "sandbox", reterr);
	const int r = api_call_read(options, HOLT_MKDIR_PARENTS, &call, &flags, reterr);
	return r < 0 ? r : contract_make_directory(sandbox, path, flags, &call, reterr);
}

HOLT_API int holt_sandbox_move(holt_sandbox *sandbox, const char *from, const char *to,
	const holt_call_options *options, holt_error **reterr)
{
	uint32_t flags = 0;
	holt_call call = {0};

	if (!sandbox || !from || !to)
		return api_null(!sandbox ? "sandbox" : !from ? "from" : "to", reterr);
	const int r = api_call_read(options, HOLT_MOVE_NOREPLACE, &call, &flags, reterr);
	return r < 0 ? r : contract_move(sandbox, from, to, flags, &call, reterr);
}

HOLT_API int holt_sandbox_remove(holt_sandbox *sandbox, const char *path,
	const holt_call_options *options, holt_error **reterr)
{
	const uint32_t known = HOLT_REMOVE_RECURSIVE | HOLT_REMOVE_FORCE;
	uint32_t flags = 0;
	holt_call call = {0};

	if (!sandbox || !path)
		return api_null(sandbox ? "path" : "sandbox", reterr);
	const int r = api_call_read(options, known, &call, &flags, reterr);
	return r < 0 ? r : contract_remove(sandbox, path, flags, &call, reterr);
}
