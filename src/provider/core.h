/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROVIDER_CORE_H
#define PROVIDER_CORE_H

#include "holt/sys/pool.h"

#include "provider/scope.h"
#include "provider/settings.h"

/*
 * What holt/provider.h promises, over the table of holt/sys/pool.h, for src/api, which checks
 * arguments and reads versioned structs. All functions may be called from any thread.
 */
#define REAPER_INTERVAL_MS 60000u
#define REAPER_STOP_MS     5000u
#define ACQUIRES_MAX       4096u /* asynchronous ones at once */
#define LEASE_OWNER_MAX    256u

struct holt_provider;
struct holt_acquire;

struct provider_wish {
	const holt_pool *pool;
	void *self;
	const struct holt_config *config; /* NULL: the defaults */
	void (*event)(const holt_provider_event *event, void *user); /* or NULL */
	void *user;
	const holt_sandbox_options *sandbox; /* whole; or NULL */
	/* For tests; NULL and 0: the wall clock in milliseconds, and REAPER_INTERVAL_MS. */
	int64_t (*now_ms)(void);
	uint64_t check_interval_ms;
};

/* On failure pool->self stays the caller's. */
int provider_open(const struct provider_wish *w, struct holt_provider **ret, holt_error **reterr);
void provider_reset(struct holt_provider *p);
int provider_shutdown(struct holt_provider *p, holt_error **reterr);
void provider_free(struct holt_provider *p);

struct acquire_wish {
	const struct scope_key *key; /* borrowed for the call */
	uint64_t timeout_ms; /* 0: the configuration's */
	holt_cancel *cancel; /* or NULL */
	uint64_t lease_ms; /* 0: none */
};

int provider_acquire(struct holt_provider *p, const struct acquire_wish *w,
	char ret[SANDBOX_ID_MAX + 1], holt_error **reterr);
int provider_acquire_start(struct holt_provider *p, const struct acquire_wish *w,
	void (*done)(struct holt_acquire *acquire, void *user), void *user,
	struct holt_acquire **ret, holt_error **reterr);
int acquire_event_fd(struct holt_acquire *a, int *ret_fd, holt_error **reterr);
int acquire_wait(struct holt_acquire *a, uint64_t timeout_ms, char ret[SANDBOX_ID_MAX + 1],
	holt_error **reterr);
void acquire_free(struct holt_acquire *a);

holt_sandbox *provider_get(struct holt_provider *p, const char *id);
int provider_release(struct holt_provider *p, const char *id, holt_error **reterr);
int provider_end_lease(struct holt_provider *p, const char *id, holt_error **reterr);

int lease_acquire(struct holt_provider *p, const char *owner, bool park,
	const struct acquire_wish *w, char ret[SANDBOX_ID_MAX + 1], holt_error **reterr);
int lease_release(struct holt_provider *p, const char *owner, holt_error **reterr);

int provider_get_stats(struct holt_provider *p, holt_provider_stats *ret, holt_error **reterr);
int provider_list(
	struct holt_provider *p, holt_pool_entry_fn entry, void *user, holt_error **reterr);
const char *provider_event_name(int kind);
const char *pool_state_name(int state);

#endif
