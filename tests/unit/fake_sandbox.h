/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FAKE_SANDBOX_H
#define FAKE_SANDBOX_H

#include "holt/sys/backend.h"

/* What a sandbox of the pool in memory cannot do: everything but commands. */

static int no(holt_error **reterr)
{
	return holt_error_set(reterr, HOLT_EUNSUPPORTED, 0, "fake pool", NULL, "not in a fake");
}

static int sandbox_read(void *self, const char *path, const holt_backend_read *what,
	holt_data_fn data, void *user, const holt_call *call, holt_error **reterr)
{
	(void)self, (void)path, (void)what, (void)data, (void)user, (void)call;
	return no(reterr);
}

static int sandbox_write(void *self, const char *path, uint32_t flags, holt_source_fn source,
	void *user, const holt_call *call, holt_error **reterr)
{
	(void)self, (void)path, (void)flags, (void)source, (void)user, (void)call;
	return no(reterr);
}

static int sandbox_download(void *self, const char *path, uint64_t max_bytes, holt_data_fn data,
	void *user, const holt_call *call, holt_error **reterr)
{
	(void)self, (void)path, (void)max_bytes, (void)data, (void)user, (void)call;
	return no(reterr);
}

static int sandbox_list(void *self, const holt_backend_search *what, holt_entry_fn entry,
	void *user, const holt_call *call, holt_search_result *ret, holt_error **reterr)
{
	(void)self, (void)what, (void)entry, (void)user, (void)call, (void)ret;
	return no(reterr);
}

static int sandbox_grep(void *self, const holt_backend_search *what, holt_match_fn match,
	void *user, const holt_call *call, holt_search_result *ret, holt_error **reterr)
{
	(void)self, (void)what, (void)match, (void)user, (void)call, (void)ret;
	return no(reterr);
}

static int sandbox_stat(void *self, const char *path, uint32_t flags, const holt_call *call,
	holt_file_info *ret, holt_error **reterr)
{
	(void)self, (void)path, (void)flags, (void)call, (void)ret;
	return no(reterr);
}

static int sandbox_simple(
	void *self, const char *path, uint32_t flags, const holt_call *call, holt_error **reterr)
{
	(void)self, (void)path, (void)flags, (void)call;
	return no(reterr);
}

static int sandbox_move(void *self, const char *from, const char *to, uint32_t flags,
	const holt_call *call, holt_error **reterr)
{
	(void)self, (void)from, (void)to, (void)flags, (void)call;
	return no(reterr);
}

#endif
