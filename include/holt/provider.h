/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOLT_PROVIDER_H
#define HOLT_PROVIDER_H

/*
 * A provider gives each thread of each user a sandbox of its own, the same one turn after turn:
 *
 *   absent -acquire-> active -release-> warm -acquire-> active ...
 *   warm -evicted, idle for too long, dead, or shut down-> absent
 *
 * The sandboxes belong to a pool of the home and not to a provider: any number of providers in any
 * processes share them. One that is active in a living process is touched by no other; when its
 * process ends in any way it is warm at once. docs/provider.md has the whole picture.
 *
 * All functions may be called from any thread, many at once. Ids are NUL-terminated strings of at
 * most HOLT_SANDBOX_ID_MAX characters.
 */

#include "config.h"
#include "identity.h"
#include "sandbox.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct holt_provider holt_provider;
typedef struct holt_acquire holt_acquire; /* one that is under way */

#define HOLT_SANDBOX_ID_MAX        32u
#define HOLT_ACQUIRES_MAX          4096u /* asynchronous ones at once */
#define HOLT_LEASE_MS_MAX          86400000u /* a day */
#define HOLT_LEASE_OWNER_BYTES_MAX 256u

/* What has happened; the names are those of holt_provider_event_name. */
enum holt_provider_event_kind {
	HOLT_PROVIDER_CREATED = 0, /* a sandbox was made for the id */
	HOLT_PROVIDER_RECLAIMED = 1, /* a warm one became active */
	HOLT_PROVIDER_RELEASED = 2, /* it is warm now */
	HOLT_PROVIDER_DESTROYED = 3, /* reason says why */
	HOLT_PROVIDER_OVERSHOT =
		4 /* one was made although there are replicas, all of them active */
};

typedef struct holt_provider_event {
	size_t struct_size;
	int32_t kind; /* enum holt_provider_event_kind */
	const char *id;
	const char *reason; /* of a destruction: "replica_enforcement", "idle_timeout",
			       "health_check_failed", "invalidated", "shutdown",
			       "other_fingerprint", "unknown", "create_failed"; else "" */
} holt_provider_event;

typedef struct holt_provider_options {
	size_t struct_size; /* set by HOLT_PROVIDER_OPTIONS_INIT */
	/* Called when something has happened, on the thread that did it, without any lock; may be
	 * NULL. It must not free or shut down the provider. @event is borrowed. */
	void (*event)(const holt_provider_event *event, void *user);
	void *user; /* handed to event */
	/* How its sandboxes are opened: user, cwd, user_data and flags of it count, the rest is the
	 * provider's; copied; NULL: the defaults. */
	const holt_sandbox_options *sandbox;
} holt_provider_options;

#define HOLT_PROVIDER_OPTIONS_INIT                              \
	{                                                       \
		sizeof(holt_provider_options), NULL, NULL, NULL \
	}

typedef struct holt_acquire_options {
	size_t struct_size; /* set by HOLT_ACQUIRE_OPTIONS_INIT */
	uint64_t timeout_ms; /* of the whole call; 0: the configuration's acquire_timeout;
				HOLT_FOREVER */
	holt_cancel
		*cancel; /* ends the call with HOLT_ECANCELLED while it waits for its turn or for
			    another process; a sandbox that is being made is made; may be NULL */
	uint64_t lease_ms; /* leave a lease on the sandbox that outlives this process, for so long,
			      instead of one that was left before; up to HOLT_LEASE_MS_MAX; 0: none
			    */
} holt_acquire_options;

#define HOLT_ACQUIRE_OPTIONS_INIT                        \
	{                                                \
		sizeof(holt_acquire_options), 0, NULL, 0 \
	}

typedef struct holt_provider_stats {
	size_t struct_size; /* set by HOLT_PROVIDER_STATS_INIT */
	/* The pool, all processes together. */
	uint32_t replicas; /* how many may live before warm ones are evicted */
	uint32_t active;
	uint32_t warm;
	uint32_t stopped; /* their disks wait for their threads */
	uint32_t making; /* being made or started */
	/* This provider. */
	uint32_t active_here;
	uint32_t acquiring; /* calls that have not returned */
	uint64_t created; /* since it was opened, as the rest */
	uint64_t reclaimed;
	uint64_t reused; /* acquires of what was active here */
	uint64_t released;
	uint64_t evicted;
	uint64_t expired;
	uint64_t unhealthy;
	uint64_t invalidated;
	uint64_t collisions;
	uint64_t overshot;
} holt_provider_stats;

#define HOLT_PROVIDER_STATS_INIT                                                               \
	{                                                                                      \
		sizeof(holt_provider_stats), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 \
	}

enum holt_pool_state {
	HOLT_POOL_MAKING = 0, /* being made or started */
	HOLT_POOL_ACTIVE = 1,
	HOLT_POOL_WARM = 2,
	HOLT_POOL_STOPPED = 3 /* only the disk is there */
};

/* One sandbox of a pool, whoever has it. */
typedef struct holt_pool_entry {
	size_t struct_size;
	const char *name; /* of the box */
	const char *instance; /* of this very box: the next one under its name has another */
	int32_t known; /* 1: user, thread and fingerprint were stored with it */
	const char *user; /* NULL: none */
	size_t user_len;
	const char *thread; /* NULL: none */
	size_t thread_len;
	const char *fingerprint; /* what it was made of, "" where not known */
	int32_t state; /* enum holt_pool_state */
	int64_t since_ms; /* since when, milliseconds since 1970; of a stopped one, its end */
	int64_t lease_until_ms; /* the end of a lease that outlives its process, or 0 */
	const char *holder; /* the provider that has it, or had it last; "" for none */
	const char *holder_label; /* the same for humans: "process 123 (python3)"; "" for none */
} holt_pool_entry;

/* 0 to go on, anything else to end the listing. */
typedef int (*holt_pool_entry_fn)(const holt_pool_entry *entry, void *user);

/**
 * holt_provider_open - make a provider.
 * @home: an open home; must not be NULL, and must outlive the provider.
 * @config: may be NULL for the defaults; "image" is needed by the first acquire.
 * @options: may be NULL.
 * @ret: receives the provider; must not be NULL.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * Boxes of the pool of which nobody knows whose they are are destroyed.
 *
 * Returns: 0; -HOLT_EINVALID; -HOLT_ELIMIT where no thread can be started; -HOLT_ENO_MEMORY.
 * Ownership: the caller frees *@ret with holt_provider_free. What is needed of @config is
 * copied.
 * Threads: any thread.
 * Blocks: for file operations.
 * Since: 0.1
 */
HOLT_API int holt_provider_open(holt_home *home, holt_config *config,
	const holt_provider_options *options, holt_provider **ret, holt_error **reterr);

/**
 * holt_provider_acquire - get the sandbox of a thread: the active one, a warm one, or a new one.
 * @provider: a provider; must not be NULL.
 * @scope: whose; must not be NULL. Without a thread, a new sandbox that nobody can acquire again.
 * @options: may be NULL.
 * @ret: receives its id; must not be NULL.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * An acquire of what is active here gives the same id again; it is not counted, the first release
 * counts (see holt_lease_acquire for several owners).
 *
 * Returns: 0; -HOLT_EEXISTS where another user and thread has the same id (which is left
 * alone); -HOLT_EBUSY where another living process has it until the deadline, or with another
 * configuration; -HOLT_ENOT_FOUND where the image is not in the store and, as the configuration's
 * "pull" says, is not loaded, or where its registry has none; -HOLT_ETIMEOUT, -HOLT_ECANCELLED;
 * -HOLT_ECLOSED after holt_provider_shutdown, and with a thread after holt_provider_reset; as
 * holt_image_pull for an image that is loaded, and as holt_box_start for a new one, which leaves
 * nothing.
 * Ownership: the sandbox is active until holt_provider_release, holt_provider_reset,
 * holt_provider_shutdown or holt_provider_free, or until it is found to be dead.
 * Threads: any thread.
 * Blocks: milliseconds for an active or warm one; as holt_box_start for a new one; at most
 * options.timeout_ms while it waits for its turn, for another process or for an image.
 * Since: 0.1
 */
HOLT_API int holt_provider_acquire(holt_provider *provider, const holt_scope *scope,
	const holt_acquire_options *options, char ret[HOLT_SANDBOX_ID_MAX + 1],
	holt_error **reterr);

/**
 * holt_provider_acquire_start - the same without waiting.
 * @provider: a provider; must not be NULL.
 * @scope: as for holt_provider_acquire.
 * @options: may be NULL.
 * @done: called once, on a thread of the provider, when it is over; may be NULL. It must not free
 * the acquire.
 * @user: handed to @done.
 * @ret: receives the acquire; must not be NULL.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * While it waits for its turn it takes no thread. options.cancel is looked at until
 * holt_acquire_free, not longer.
 *
 * Returns: 0; -HOLT_ECLOSED; -HOLT_ELIMIT with HOLT_ACQUIRES_MAX of them; -HOLT_EINVALID,
 * -HOLT_ENO_MEMORY.
 * Ownership: the caller frees *@ret with holt_acquire_free. Strings of @scope are copied.
 * Threads: any thread.
 * Blocks: never.
 * Since: 0.1
 */
HOLT_API int holt_provider_acquire_start(holt_provider *provider, const holt_scope *scope,
	const holt_acquire_options *options, void (*done)(holt_acquire *acquire, void *user),
	void *user, holt_acquire **ret, holt_error **reterr);

/**
 * holt_acquire_event_fd - get a descriptor that tells the end of an acquire.
 * @acquire: an acquire; must not be NULL.
 * @ret_fd: receives an eventfd that is readable from its end on; must not be NULL.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * Returns: 0; -HOLT_EINVALID, -HOLT_ELIMIT.
 * Ownership: the descriptor belongs to @acquire and is closed by holt_acquire_free.
 * Threads: any thread.
 * Blocks: never.
 * Since: 0.1
 */
HOLT_API int holt_acquire_event_fd(holt_acquire *acquire, int *ret_fd, holt_error **reterr);

/**
 * holt_acquire_wait - get the result of an acquire.
 * @acquire: an acquire; must not be NULL.
 * @timeout_ms: how long to wait for it; 0 only looks, HOLT_FOREVER has no limit.
 * @ret: receives the id; must not be NULL.
 * @reterr: receives the error, the first time; may be NULL, must point to NULL.
 *
 * Returns: as holt_provider_acquire; -HOLT_EUNAVAILABLE (no error is set) where it is not over;
 * -HOLT_EINVALID.
 * Ownership: as for holt_provider_acquire.
 * Threads: any thread.
 * Blocks: at most @timeout_ms.
 * Since: 0.1
 */
HOLT_API int holt_acquire_wait(holt_acquire *acquire, uint64_t timeout_ms,
	char ret[HOLT_SANDBOX_ID_MAX + 1], holt_error **reterr);

/**
 * holt_acquire_free - forget an acquire, also one that is under way.
 * @acquire: an acquire, or NULL. Not from its own callback.
 *
 * One that waits for its turn is given up. One that has begun goes on by itself, and what it
 * acquires is active until it is released: who acquires it again gets it.
 *
 * Returns: nothing.
 * Ownership: consumes @acquire. Its callback is not called afterwards.
 * Threads: any thread, while no other call uses @acquire.
 * Blocks: where its callback is running, until that has returned.
 * Since: 0.1
 */
HOLT_API void holt_acquire_free(holt_acquire *acquire);

/**
 * holt_provider_get - get an active sandbox.
 * @provider: a provider; must not be NULL.
 * @id: what an acquire gave; must not be NULL.
 *
 * Returns: the sandbox, or NULL where the id is not active here.
 * Ownership: the caller frees it with holt_sandbox_free, which only counts here. It can be used
 * after its release, too, until it is destroyed or somebody else has it.
 * Threads: any thread.
 * Blocks: never, and reads and writes nothing.
 * Since: 0.1
 */
HOLT_API holt_sandbox *holt_provider_get(holt_provider *provider, const char *id);

/**
 * holt_provider_release - park an active sandbox: it is warm from now on.
 * @provider: a provider; must not be NULL.
 * @id: its id; must not be NULL. One that is not active here is fine.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * What runs in it goes on running. A sandbox without a thread waits for its end only.
 *
 * Returns: 0; -HOLT_EINVALID; -HOLT_ENO_MEMORY. A sandbox that turns out to be dead is
 * forgotten.
 * Ownership: nothing changes hands.
 * Threads: any thread.
 * Blocks: for an acquire of the same id that is under way; otherwise milliseconds, at most 10 s
 * where the sandbox does not answer.
 * Since: 0.1
 */
HOLT_API int holt_provider_release(holt_provider *provider, const char *id, holt_error **reterr);

/**
 * holt_provider_end_lease - end the lease that an acquire with lease_ms left on a sandbox.
 * @provider: a provider of the same pool, in any process; must not be NULL.
 * @id: its id; must not be NULL.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * It is warm then, unless somebody has it.
 *
 * Returns: 0, also where there is no such lease; -HOLT_ENOT_FOUND where the pool has no such
 * sandbox; -HOLT_EINVALID, -HOLT_ETIMEOUT, -HOLT_EDENIED, -HOLT_EIO, -HOLT_ENO_MEMORY.
 * Ownership: nothing changes hands.
 * Threads: any thread.
 * Blocks: at most 5 s.
 * Since: 0.1
 */
HOLT_API int holt_provider_end_lease(holt_provider *provider, const char *id, holt_error **reterr);

/**
 * holt_lease_acquire - acquire for an owner, of whom a sandbox may have several.
 * @provider: a provider; must not be NULL.
 * @owner: names one execution, 1 to HOLT_LEASE_OWNER_BYTES_MAX bytes; must not be NULL.
 * @scope: whose sandbox, with a thread; must not be NULL.
 * @park: 0: the owner's end does not ask for parking, as for an upload; else 1.
 * @options: may be NULL.
 * @ret: receives the id; must not be NULL.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * The same owner again gives the same id as long as that is active. The sandbox is released when
 * its last owner leaves, if at least one of them wanted it parked.
 *
 * Returns: 0; -HOLT_EINVALID, also where the owner holds the sandbox of another thread; as
 * holt_provider_acquire.
 * Ownership: the owner holds the sandbox until holt_lease_release.
 * Threads: any thread.
 * Blocks: as holt_provider_acquire.
 * Since: 0.1
 */
HOLT_API int holt_lease_acquire(holt_provider *provider, const char *owner, const holt_scope *scope,
	int park, const holt_acquire_options *options, char ret[HOLT_SANDBOX_ID_MAX + 1],
	holt_error **reterr);

/**
 * holt_lease_release - an owner leaves its sandbox.
 * @provider: a provider; must not be NULL.
 * @owner: the owner; must not be NULL. One that holds nothing is fine.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * Returns: as holt_provider_release.
 * Ownership: nothing changes hands.
 * Threads: any thread.
 * Blocks: as holt_provider_release.
 * Since: 0.1
 */
HOLT_API int holt_lease_release(holt_provider *provider, const char *owner, holt_error **reterr);

/**
 * holt_provider_reset - park all that is active here, and take no more acquires with a thread.
 * @provider: a provider; must not be NULL.
 *
 * The sandboxes live on in the pool; those released so are not exempt from the health check.
 *
 * Returns: nothing.
 * Ownership: nothing changes hands.
 * Threads: any thread.
 * Blocks: milliseconds for each sandbox.
 * Since: 0.1
 */
HOLT_API void holt_provider_reset(holt_provider *provider);

/**
 * holt_provider_shutdown - end the provider's work.
 * @provider: a provider; must not be NULL. One that is shut down is fine.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * What is active here, and the warm ones that were last released here, are destroyed, or with
 * on_shutdown "keep" parked. What another living process has is left alone. An acquire that is
 * under way ends with HOLT_ECLOSED and leaves nothing.
 *
 * Returns: 0; -HOLT_ETIMEOUT where its reaper does not end within 5 s: nothing was shut down
 * then, try again.
 * Ownership: nothing changes hands.
 * Threads: any thread.
 * Blocks: until acquires that are making a sandbox have ended, and for each sandbox at most 10
 * s.
 * Since: 0.1
 */
HOLT_API int holt_provider_shutdown(holt_provider *provider, holt_error **reterr);

/**
 * holt_provider_free - let a provider go, without ending sandboxes.
 * @provider: a provider, or NULL. Its acquires must have been freed.
 *
 * What is active here becomes warm, as with the end of the process. After holt_provider_shutdown
 * there is nothing left to park.
 *
 * Returns: nothing.
 * Ownership: consumes @provider; sandboxes of holt_provider_get stay valid until freed, before
 * the home.
 * Threads: any thread, while no other call uses @provider.
 * Blocks: until acquires that were abandoned have ended.
 * Since: 0.1
 */
HOLT_API void holt_provider_free(holt_provider *provider);

/**
 * holt_provider_get_stats - count what is in the pool, and what this provider did.
 * @provider: a provider; must not be NULL.
 * @ret: filled in as far as its struct_size goes; must not be NULL.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * Returns: 0; -HOLT_EINVALID, -HOLT_EBUSY, -HOLT_EIO, -HOLT_ENO_MEMORY.
 * Ownership: nothing changes hands.
 * Threads: any thread.
 * Blocks: for file operations; never for a sandbox.
 * Since: 0.1
 */
HOLT_API int holt_provider_get_stats(
	holt_provider *provider, holt_provider_stats *ret, holt_error **reterr);

/**
 * holt_provider_list - list the pool, whoever has its sandboxes.
 * @provider: a provider; must not be NULL.
 * @entry: gets one after the other; must not be NULL.
 * @user: handed to @entry.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * Returns: 0; -HOLT_ECANCELLED where @entry ended it; -HOLT_EINVALID, -HOLT_EBUSY, -HOLT_EIO,
 * -HOLT_ENO_MEMORY.
 * Ownership: entries are borrowed for the call of @entry.
 * Threads: any thread.
 * Blocks: for file operations; never for a sandbox.
 * Since: 0.1
 */
HOLT_API int holt_provider_list(
	holt_provider *provider, holt_pool_entry_fn entry, void *user, holt_error **reterr);

/**
 * holt_provider_event_name - name a kind of event.
 * @kind: an enum holt_provider_event_kind.
 *
 * Returns: "created", "reclaimed", "released", "destroyed", "overshot", or "?".
 * Ownership: static.
 * Threads: any thread.
 * Blocks: never.
 * Since: 0.1
 */
HOLT_API const char *holt_provider_event_name(int kind);

/**
 * holt_pool_state_name - name a state of a pool's sandbox.
 * @state: an enum holt_pool_state.
 *
 * Returns: "making", "active", "warm", "stopped", or "?".
 * Ownership: static.
 * Threads: any thread.
 * Blocks: never.
 * Since: 0.1
 */
HOLT_API const char *holt_pool_state_name(int state);

#ifdef __cplusplus
}
#endif
#endif
