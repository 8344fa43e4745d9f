/* SPDX-License-Identifier: Apache-2.0 */
#include "holt/serializer.h"

#include <string.h>

#include "api/job_options.h"
#include "api/options.h"
#include "provider/serialize.h"
#include "base/banned.h"

#define THREAD_NAME_MAX 15u

_Static_assert(HOLT_SERIALIZER_WAITERS_MAX == SERIALIZER_WAITERS_MAX, "a limit is written twice");

static int read_options(
	const holt_serializer_options *options, holt_serializer_options *ret, holt_error **reterr)
{
	const int r = options_read(
		ret, sizeof *ret, sizeof *ret, options, "holt_serializer_options", reterr);

	if (r < 0)
		return r;
	const size_t len = ret->thread_name ? strlen(ret->thread_name) : 1;
	if (len < 1 || len > THREAD_NAME_MAX)
		return err_make(reterr, HOLT_EINVALID,
			"the name of threads has %zu characters, not 1 to %u", len,
			THREAD_NAME_MAX);
	return api_check_range(
		"max_threads", ret->max_threads, 0, HOLT_SERIALIZER_THREADS_MAX, reterr);
}

HOLT_API int holt_serializer_new(
	const holt_serializer_options *options, holt_serializer **ret, holt_error **reterr)
{
	holt_serializer_options o;

	if (!ret)
		return api_null("ret", reterr);
	const int r = read_options(options, &o, reterr);
	return r < 0 ? r : serializer_new(o.max_threads, o.thread_name, ret, reterr);
}

static int check_key(const holt_serializer *serializer, const void *key, size_t key_len,
	const void *ret, holt_error **reterr)
{
	if (!serializer || !ret)
		return api_null(serializer ? "ret" : "serializer", reterr);
	if (!key && key_len > 0)
		return api_null("key", reterr);
	return api_check_range("key_len", key_len, 0, HOLT_SERIALIZER_KEY_MAX, reterr);
}

HOLT_API int holt_serializer_hold(holt_serializer *serializer, const void *key, size_t key_len,
	uint64_t timeout_ms, holt_cancel *cancel, holt_hold **ret, holt_error **reterr)
{
	const int r = check_key(serializer, key, key_len, ret, reterr);

	return r < 0 ? r
		     : serializer_hold(serializer, key, key_len, timeout_ms, cancel, ret, reterr);
}

HOLT_API int holt_serializer_hold_start(holt_serializer *serializer, const void *key,
	size_t key_len, void (*done)(holt_waiter *waiter, void *user), void *user,
	holt_waiter **ret, holt_error **reterr)
{
	const int r = check_key(serializer, key, key_len, ret, reterr);

	return r < 0 ? r : serializer_hold_start(serializer, key, key_len, done, user, ret, reterr);
}

HOLT_API int holt_waiter_event_fd(holt_waiter *waiter, int *ret_fd, holt_error **reterr)
{
	if (!waiter || !ret_fd)
		return api_null(waiter ? "ret_fd" : "waiter", reterr);
	return waiter_event_fd(waiter, ret_fd, reterr);
}

HOLT_API int holt_waiter_take(
	holt_waiter *waiter, uint64_t timeout_ms, holt_hold **ret, holt_error **reterr)
{
	if (!waiter || !ret)
		return api_null(waiter ? "ret" : "waiter", reterr);
	return waiter_take(waiter, timeout_ms, ret, reterr);
}

HOLT_API void holt_waiter_cancel(holt_waiter *waiter)
{
	waiter_cancel(waiter);
}

HOLT_API void holt_waiter_free(holt_waiter *waiter)
{
	waiter_free(waiter);
}

HOLT_API void holt_hold_release(holt_hold *hold)
{
	hold_release(hold);
}

HOLT_API int holt_serializer_run(holt_serializer *serializer, const holt_job_options *options,
	holt_job **ret, holt_error **reterr)
{
	struct job_work work;

	if (!serializer || !ret)
		return api_null(serializer ? "ret" : "serializer", reterr);
	const int r = api_job_read(options, &work, reterr);
	return r < 0 ? r : serializer_run(serializer, &work, ret, reterr);
}

HOLT_API size_t holt_serializer_count(holt_serializer *serializer)
{
	return serializer ? serializer_count(serializer) : 0;
}

HOLT_API void holt_serializer_close(holt_serializer *serializer)
{
	serializer_close(serializer);
}

HOLT_API void holt_serializer_free(holt_serializer *serializer)
{
	serializer_free(serializer);
}
