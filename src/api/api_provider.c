/* SPDX-License-Identifier: Apache-2.0 */
#include "holt/sys/pool.h"

#include <string.h>

#include "api/options.h"
#include "api/provider_options.h"
#include "api/sandbox_options.h"
#include "base/mem.h"
#include "provider/core.h"
#include "base/banned.h"

/* Arguments are checked here, the rest is src/provider. api_provider_home.c has the one function
 * that knows boxes. */

_Static_assert(HOLT_SANDBOX_ID_MAX == SANDBOX_ID_MAX && HOLT_ACQUIRES_MAX == ACQUIRES_MAX &&
		       HOLT_LEASE_OWNER_BYTES_MAX == LEASE_OWNER_MAX,
	"the public numbers are others than the inside's");

static int in_options(int r, holt_error **reterr)
{
	if (r < 0)
		err_stage(reterr, "options");
	return r;
}

int api_provider_open(const holt_pool *pool, void *self, const struct holt_config *config,
	const holt_provider_options *options, holt_provider **ret, holt_error **reterr)
{
	holt_provider_options o;
	holt_sandbox_options sandbox;
	int r = options_read(&o, sizeof o, sizeof o, options, "holt_provider_options", reterr);

	if (r == 0 && o.sandbox)
		r = api_sandbox_read(o.sandbox, &sandbox, reterr);
	if (r < 0)
		return in_options(r, reterr);
	const struct provider_wish w = {.pool = pool,
		.self = self,
		.config = config,
		.event = o.event,
		.user = o.user,
		.sandbox = o.sandbox ? &sandbox : NULL};
	return provider_open(&w, ret, reterr);
}

HOLT_API int holt_provider_open_pool(const holt_pool *pool, void *self, holt_config *config,
	const holt_provider_options *options, holt_provider **ret, holt_error **reterr)
{
	if (!pool || !ret)
		return api_null(pool ? "ret" : "pool", reterr);
	if (!pool->name || !pool->fingerprint || !pool->prepare || !pool->lock || !pool->unlock ||
		!pool->list || !pool->find || !pool->look || !pool->create || !pool->start ||
		!pool->hold || !pool->park || !pool->lease || !pool->prove || !pool->open ||
		!pool->destroy || !pool->discard || !pool->drop)
		return err_make(reterr, HOLT_EINVALID, "pool '%s' has no %s",
			pool->name ? pool->name : "",
			pool->name ? "function for some operation" : "name");
	return api_provider_open(pool, self, config, options, ret, reterr);
}

/* The same struct of the caller's, for who does not write. */
static int read_scope(const holt_scope *scope, struct scope_key *ret, holt_error **reterr)
{
	holt_scope s;
	const int r = options_read(&s, sizeof s, sizeof s, scope, "holt_scope", reterr);

	if (r < 0)
		return in_options(r, reterr);
	if ((!s.user && s.user_len) || (!s.thread && s.thread_len))
		return in_options(err_make(reterr, HOLT_EINVALID, "%s is none, and has a length",
					  s.user ? "thread" : "user"),
			reterr);
	/* A key's own texts are not const, since it frees them. */
	memcpy(&ret->user, &s.user, sizeof ret->user);
	memcpy(&ret->thread, &s.thread, sizeof ret->thread);
	ret->user_len = s.user_len;
	ret->thread_len = s.thread_len;
	return 0;
}

static int read_wish(const holt_scope *scope, const holt_acquire_options *options,
	struct scope_key *key, struct acquire_wish *ret, holt_error **reterr)
{
	holt_acquire_options o;
	int r = read_scope(scope, key, reterr);

	if (r == 0)
		r = in_options(options_read(&o, sizeof o, sizeof o, options, "holt_acquire_options",
				       reterr),
			reterr);
	if (r == 0)
		r = in_options(
			api_check_range("lease_ms", o.lease_ms, 0, HOLT_LEASE_MS_MAX, reterr),
			reterr);
	if (r < 0)
		return r;
	*ret = (struct acquire_wish){
		.key = key, .timeout_ms = o.timeout_ms, .cancel = o.cancel, .lease_ms = o.lease_ms};
	return 0;
}

HOLT_API int holt_provider_acquire(holt_provider *provider, const holt_scope *scope,
	const holt_acquire_options *options, char ret[HOLT_SANDBOX_ID_MAX + 1], holt_error **reterr)
{
	struct scope_key key = {0};
	struct acquire_wish w = {0};

	if (!provider || !scope || !ret)
		return api_null(!provider ? "provider" : !scope ? "scope" : "ret", reterr);
	const int r = read_wish(scope, options, &key, &w, reterr);
	return r < 0 ? r : provider_acquire(provider, &w, ret, reterr);
}

HOLT_API int holt_provider_acquire_start(holt_provider *provider, const holt_scope *scope,
	const holt_acquire_options *options, void (*done)(holt_acquire *acquire, void *user),
	void *user, holt_acquire **ret, holt_error **reterr)
{
	struct scope_key key = {0};
	struct acquire_wish w = {0};

	if (!provider || !scope || !ret)
		return api_null(!provider ? "provider" : !scope ? "scope" : "ret", reterr);
	const int r = read_wish(scope, options, &key, &w, reterr);
	return r < 0 ? r : provider_acquire_start(provider, &w, done, user, ret, reterr);
}

HOLT_API int holt_acquire_event_fd(holt_acquire *acquire, int *ret_fd, holt_error **reterr)
{
	if (!acquire || !ret_fd)
		return api_null(acquire ? "ret_fd" : "acquire", reterr);
	return acquire_event_fd(acquire, ret_fd, reterr);
}

HOLT_API int holt_acquire_wait(holt_acquire *acquire, uint64_t timeout_ms,
	char ret[HOLT_SANDBOX_ID_MAX + 1], holt_error **reterr)
{
	if (!acquire || !ret)
		return api_null(acquire ? "ret" : "acquire", reterr);
	return acquire_wait(acquire, timeout_ms, ret, reterr);
}

HOLT_API void holt_acquire_free(holt_acquire *acquire)
{
	acquire_free(acquire);
}

HOLT_API holt_sandbox *holt_provider_get(holt_provider *provider, const char *id)
{
	return provider && id ? provider_get(provider, id) : NULL;
}

/* Nothing that is longer is an id of anything. */
static int check_id(
	const holt_provider *provider, const char *id, bool *ret_known, holt_error **reterr)
{
	if (!provider || !id)
		return api_null(provider ? "id" : "provider", reterr);
	*ret_known = strnlen(id, SANDBOX_ID_MAX + 1) <= SANDBOX_ID_MAX;
	return 0;
}

HOLT_API int holt_provider_release(holt_provider *provider, const char *id, holt_error **reterr)
{
	bool known = false;
	const int r = check_id(provider, id, &known, reterr);

	return r < 0 || !known ? r : provider_release(provider, id, reterr);
}

HOLT_API int holt_provider_end_lease(holt_provider *provider, const char *id, holt_error **reterr)
{
	bool known = false;
	const int r = check_id(provider, id, &known, reterr);

	if (r == 0 && !known) {
		(void)err_make(reterr, HOLT_ENOT_FOUND, "the pool has no such sandbox");
		err_hint(reterr, "'holt sandbox ps' lists the pool's sandboxes");
		return -HOLT_ENOT_FOUND;
	}
	return r < 0 ? r : provider_end_lease(provider, id, reterr);
}

static int check_owner(const char *owner, holt_error **reterr)
{
	const size_t len = strnlen(owner, LEASE_OWNER_MAX + 1);

	if (len >= 1 && len <= LEASE_OWNER_MAX)
		return 0;
	return in_options(err_make(reterr, HOLT_EINVALID, "an owner's name has 1 to %u bytes",
				  LEASE_OWNER_MAX),
		reterr);
}

HOLT_API int holt_lease_acquire(holt_provider *provider, const char *owner, const holt_scope *scope,
	int park, const holt_acquire_options *options, char ret[HOLT_SANDBOX_ID_MAX + 1],
	holt_error **reterr)
{
	struct scope_key key = {0};
	struct acquire_wish w = {0};

	if (!provider || !owner || !scope || !ret)
		return api_null(!provider ? "provider"
				: !owner  ? "owner"
				: !scope  ? "scope"
					  : "ret",
			reterr);
	int r = check_owner(owner, reterr);
	if (r == 0)
		r = read_wish(scope, options, &key, &w, reterr);
	if (r == 0 && !key.thread)
		r = in_options(api_null("thread", reterr), reterr);
	return r < 0 ? r : lease_acquire(provider, owner, park != 0, &w, ret, reterr);
}

HOLT_API int holt_lease_release(holt_provider *provider, const char *owner, holt_error **reterr)
{
	if (!provider || !owner)
		return api_null(provider ? "owner" : "provider", reterr);
	return lease_release(provider, owner, reterr);
}

HOLT_API void holt_provider_reset(holt_provider *provider)
{
	if (provider)
		provider_reset(provider);
}

HOLT_API int holt_provider_shutdown(holt_provider *provider, holt_error **reterr)
{
	return provider ? provider_shutdown(provider, reterr) : api_null("provider", reterr);
}

HOLT_API void holt_provider_free(holt_provider *provider)
{
	provider_free(provider);
}

HOLT_API int holt_provider_get_stats(
	holt_provider *provider, holt_provider_stats *ret, holt_error **reterr)
{
	holt_provider_stats s;

	if (!provider || !ret)
		return api_null(provider ? "ret" : "provider", reterr);
	const int r = provider_get_stats(provider, &s, reterr);
	return r < 0 ? r
		     : options_write(ret, &s, sizeof s, sizeof s, "holt_provider_stats", reterr);
}

HOLT_API int holt_provider_list(
	holt_provider *provider, holt_pool_entry_fn entry, void *user, holt_error **reterr)
{
	if (!provider || !entry)
		return api_null(provider ? "entry" : "provider", reterr);
	return provider_list(provider, entry, user, reterr);
}

HOLT_API const char *holt_provider_event_name(int kind)
{
	return provider_event_name(kind);
}

HOLT_API const char *holt_pool_state_name(int state)
{
	return pool_state_name(state);
}
