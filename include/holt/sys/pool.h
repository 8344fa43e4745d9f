/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOLT_SYS_POOL_H
#define HOLT_SYS_POOL_H

/*
 * For those who implement where a provider's sandboxes come from: boxes of a home are one
 * implementation, a remote service is another. The provider decides; a pool does.
 *
 * A box of a pool has a name, by which every process finds it, and an instance, which no other ever
 * has. It has at most one holder, a provider. The pool itself sees to it that a box whose holder's
 * process ends becomes warm, and that a warm one ends after its idle time, without any process.
 *
 * Every operation may be called from any thread, several at once, also for one box. It returns 0,
 * or the negative of a code with an error made by holt_error_set. -HOLT_ECLOSED of an operation on
 * a box says that this instance is gone, -HOLT_EBUSY that another holder has it.
 */

#include "../provider.h"
#include "../image_pull.h"
#include "backend.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a box is made of: all of it is in the fingerprint, as far as it is part of the box. */
typedef struct holt_pool_shape {
	const char *pool; /* its name */
	const char *image;
	uint32_t memory_mib; /* 0: default, as the next two */
	uint32_t cpus;
	uint64_t disk_bytes;
	const char *network; /* "open", "allowlist" or "isolated"; NULL: as for holt_box_create */
	const char *accel; /* NULL: auto; not in the fingerprint */
	const char *const *allow; /* what "allowlist" lets out, NULL-terminated; NULL: nothing */
} holt_pool_shape;

/* What is stored with a box before its first use. */
typedef struct holt_pool_wish {
	const holt_pool_shape *shape;
	const char *user; /* NULL: none */
	size_t user_len;
	const char *thread; /* NULL: none */
	size_t thread_len;
	const char *fingerprint;
	const char *const *directories; /* made in the box at each start, NULL-terminated */
	const char *owner; /* of them: "name|uid[:group|gid]"; NULL: the image's user */
	int32_t keep; /* its disk stays after its end */
} holt_pool_wish;

enum holt_pool_idle { HOLT_POOL_IDLE_DESTROY = 0, HOLT_POOL_IDLE_STOP = 1 };

/* Who holds, and what becomes of the box once nobody does. */
typedef struct holt_pool_holder {
	const char *instance; /* of the provider: no other has it */
	const char *label; /* for humans */
	const char *trace; /* of the request, or "" */
	uint64_t idle_ms; /* warm for so long, then on_idle; HOLT_FOREVER: for ever */
	int32_t on_idle; /* enum holt_pool_idle */
	uint64_t pause_after_ms; /* warm for so long, then paused until it is held; HOLT_FOREVER */
} holt_pool_holder;

typedef struct holt_pool {
	const char *name; /* such as "box" */
	/* What the shape's boxes are made of now, as a digest. */
	int (*fingerprint)(
		void *self, const holt_pool_shape *shape, char ret[65], holt_error **reterr);
	/* Have the shape's image where boxes are made, by the rule of @pull (enum
	 * holt_pull_policy): -HOLT_ENOT_FOUND where there is none. It may take minutes, also for
	 * several callers at once, and ends with -HOLT_ETIMEOUT or -HOLT_ECANCELLED as @call says.
	 * May be NULL where images come in some other way. */
	int (*fetch)(void *self, const holt_pool_shape *shape, int32_t pull, const holt_call *call,
		holt_error **reterr);
	/* Get ready to make boxes of such wishes quickly, and that so many wait. Nothing but shape,
	 * directories and owner matters. */
	int (*prepare)(void *self, const holt_pool_wish *wish, uint32_t spares,
		const holt_call *call, holt_error **reterr);
	/* One process, and one thread of it, at a time: for counting before making. */
	int (*lock)(void *self, const char *pool, const holt_call *call, void **ret_lock,
		holt_error **reterr);
	void (*unlock)(void *self, void *lock);
	/* The entries whose names begin with @prefix; never waits for a box. */
	int (*list)(void *self, const char *prefix, holt_pool_entry_fn entry, void *user,
		holt_error **reterr);
	/* The box of that name: -HOLT_ENOT_FOUND where there is none. */
	int (*find)(void *self, const char *name, void **ret_box, holt_error **reterr);
	/* What it is at the moment; strings are borrowed until the next look or drop of the box. */
	int (*look)(void *self, void *box, holt_pool_entry *ret, holt_error **reterr);
	/* Take the name and store the wish; nothing is started: -HOLT_EEXISTS for a name in use. */
	int (*create)(void *self, const char *name, const holt_pool_wish *wish, void **ret_box,
		holt_error **reterr);
	/* Start what was made, or is stopped: then it is held by @holder, has its directories, and
	 * lives on when this process ends. Before that it ends with the process. -HOLT_EBUSY where
	 * somebody else starts it or has it. */
	int (*start)(void *self, void *box, const holt_pool_holder *holder, const holt_call *call,
		holt_error **reterr);
	/* Hold a box that lives, once its holder lets it go: -HOLT_EBUSY with the holder's label as
	 * the error's object after call->timeout_ms; 0 only tries. What is paused goes on. */
	int (*hold)(void *self, void *box, const holt_pool_holder *holder, const holt_call *call,
		holt_error **reterr);
	/* Let it go: it is warm, or still active by a lease. What is not held by us is fine. */
	int (*park)(void *self, void *box, holt_error **reterr);
	/* A lease that needs no process: it keeps the box from being warm for so long from now on;
	 * 0 ends it. Also of a box that is not held by us. */
	int (*lease)(void *self, void *box, uint64_t lease_ms, const holt_call *call,
		holt_error **reterr);
	/* A sign of life of the guest, within @timeout_ms. */
	int (*prove)(void *self, void *box, uint64_t timeout_ms, holt_error **reterr);
	/* A sandbox of it, which keeps the box usable after its drop. */
	int (*open)(void *self, void *box, const holt_sandbox_options *options, holt_sandbox **ret,
		holt_error **reterr);
	/* End this instance, whatever it does, and free its name; one that is gone is fine. */
	int (*destroy)(void *self, void *box, const char *reason, holt_error **reterr);
	/* The same of one that is stopped: -HOLT_EBUSY where it runs, or somebody starts it. */
	int (*discard)(void *self, void *box, const char *reason, holt_error **reterr);
	/* Let go of what find or create gave; a box that we hold becomes warm. */
	void (*drop)(void *self, void *box);
	/* No operation runs any more, and none will come. May be NULL. */
	void (*close)(void *self);
} holt_pool;

/**
 * holt_provider_open_pool - make a provider of sandboxes that come from elsewhere.
 * @pool: all of its operations set; must not be NULL, and must outlive the provider.
 * @self: handed to them unchanged; may be NULL.
 * @config: as for holt_provider_open.
 * @options: may be NULL.
 * @ret: receives the provider; must not be NULL.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * Returns: as holt_provider_open.
 * Ownership: the caller frees *@ret with holt_provider_free, which closes @self; on failure
 * @self stays the caller's.
 * Threads: any thread.
 * Blocks: for one listing of the pool.
 * Since: 0.1
 */
HOLT_API int holt_provider_open_pool(const holt_pool *pool, void *self, holt_config *config,
	const holt_provider_options *options, holt_provider **ret, holt_error **reterr);

#ifdef __cplusplus
}
#endif
#endif
