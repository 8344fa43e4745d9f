/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOLT_SERIALIZER_H
#define HOLT_SERIALIZER_H

/*
 * A serializer: at most one holder per key at any time, any number of keys side by side. Keys are
 * bytes that nobody looks into. It knows nothing of sandboxes and may be used for anything.
 *
 * A wait can be given up at any moment, also at the very moment when it succeeds: what is not
 * handed to the caller is released by the serializer. A key that nobody holds or waits for takes no
 * memory. Holds are handed on in the order of arrival; do not build on it. One thread that holds a
 * key twice waits for itself.
 */

#include "job.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct holt_serializer holt_serializer;
typedef struct holt_hold holt_hold; /* a key that is held */
typedef struct holt_waiter holt_waiter; /* a hold that was asked for */

#define HOLT_SERIALIZER_KEY_MAX     65536u /* bytes */
#define HOLT_SERIALIZER_THREADS_MAX 256u
#define HOLT_SERIALIZER_WAITERS_MAX 65536u /* asynchronous ones at once */

typedef struct holt_serializer_options {
	size_t struct_size; /* set by HOLT_SERIALIZER_OPTIONS_INIT */
	uint32_t max_threads; /* for holt_serializer_run, and as many for callbacks, up to
				 HOLT_SERIALIZER_THREADS_MAX; 0: processors + 4, at most 32 */
	const char *thread_name; /* 1 to 15 characters; NULL: "sandbox-acquire" */
} holt_serializer_options;

#define HOLT_SERIALIZER_OPTIONS_INIT                     \
	{                                                \
		sizeof(holt_serializer_options), 0, NULL \
	}

/**
 * holt_serializer_new - make a serializer.
 * @options: may be NULL for the defaults.
 * @ret: receives it; must not be NULL.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * Returns: 0; -HOLT_EINVALID, -HOLT_ENO_MEMORY.
 * Ownership: the caller frees *@ret with holt_serializer_free.
 * Threads: any thread.
 * Blocks: never; threads are started when they are needed.
 * Since: 0.1
 */
HOLT_API int holt_serializer_new(
	const holt_serializer_options *options, holt_serializer **ret, holt_error **reterr);

/**
 * holt_serializer_hold - wait for a key, and hold it.
 * @serializer: a serializer; must not be NULL.
 * @key: the key; may be NULL where @key_len is 0.
 * @key_len: its length, up to HOLT_SERIALIZER_KEY_MAX.
 * @timeout_ms: how long to wait; 0 only tries, HOLT_FOREVER has no limit.
 * @cancel: ends the wait with HOLT_ECANCELLED; may be NULL.
 * @ret: receives the hold; must not be NULL.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * Returns: 0; -HOLT_ETIMEOUT; -HOLT_ECANCELLED, also where the key comes at that moment;
 * -HOLT_ECLOSED where the serializer is closed, also while it waits; -HOLT_EINVALID,
 * -HOLT_ENO_MEMORY.
 * Ownership: the caller gives *@ret to holt_hold_release, from any thread.
 * Threads: any thread.
 * Blocks: at most @timeout_ms.
 * Since: 0.1
 */
HOLT_API int holt_serializer_hold(holt_serializer *serializer, const void *key, size_t key_len,
	uint64_t timeout_ms, holt_cancel *cancel, holt_hold **ret, holt_error **reterr);

/**
 * holt_serializer_hold_start - ask for a key without waiting; no thread waits either.
 * @serializer: a serializer; must not be NULL.
 * @key: as for holt_serializer_hold.
 * @key_len: its length.
 * @done: called once, on a thread of the serializer and with the caller's context (context.h), when
 * the wait is over in any way but by holt_waiter_free; may be NULL. It may take the hold, but not
 * free the waiter.
 * @user: handed to @done.
 * @ret: receives the waiter; must not be NULL.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * Returns: 0; -HOLT_ECLOSED; -HOLT_ELIMIT with HOLT_SERIALIZER_WAITERS_MAX of them, or where no
 * thread can be started for @done; -HOLT_EINVALID, -HOLT_ENO_MEMORY.
 * Ownership: the caller frees *@ret with holt_waiter_free.
 * Threads: any thread.
 * Blocks: never.
 * Since: 0.1
 */
HOLT_API int holt_serializer_hold_start(holt_serializer *serializer, const void *key,
	size_t key_len, void (*done)(holt_waiter *waiter, void *user), void *user,
	holt_waiter **ret, holt_error **reterr);

/**
 * holt_waiter_event_fd - get a descriptor that tells the end of a wait.
 * @waiter: a waiter; must not be NULL.
 * @ret_fd: receives an eventfd that is readable from the end of the wait on; must not be NULL.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * Returns: 0; -HOLT_EINVALID, -HOLT_ELIMIT.
 * Ownership: the descriptor belongs to @waiter and is closed by holt_waiter_free.
 * Threads: any thread.
 * Blocks: never.
 * Since: 0.1
 */
HOLT_API int holt_waiter_event_fd(holt_waiter *waiter, int *ret_fd, holt_error **reterr);

/**
 * holt_waiter_take - take the hold once the wait is over.
 * @waiter: a waiter; must not be NULL.
 * @timeout_ms: how long to wait for it; 0 only looks, HOLT_FOREVER has no limit.
 * @ret: receives the hold; must not be NULL.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * Returns: 0; -HOLT_ETIMEOUT (no error is set) where the wait is not over; -HOLT_ECANCELLED after
 * holt_waiter_cancel; -HOLT_ECLOSED where the serializer was closed before; -HOLT_EINVALID, also
 * where the hold was taken already.
 * Ownership: as for holt_serializer_hold.
 * Threads: any thread.
 * Blocks: at most @timeout_ms.
 * Since: 0.1
 */
HOLT_API int holt_waiter_take(
	holt_waiter *waiter, uint64_t timeout_ms, holt_hold **ret, holt_error **reterr);

/**
 * holt_waiter_cancel - give a wait up; a hold that has come and was not taken is released.
 * @waiter: a waiter, or NULL. One whose hold was taken, or that is over, is fine.
 *
 * Returns: nothing.
 * Ownership: nothing changes hands.
 * Threads: any thread.
 * Blocks: never.
 * Since: 0.1
 */
HOLT_API void holt_waiter_cancel(holt_waiter *waiter);

/**
 * holt_waiter_free - give a wait up and forget it.
 * @waiter: a waiter, or NULL. Not from its own callback, which is not called afterwards.
 *
 * Returns: nothing.
 * Ownership: consumes @waiter.
 * Threads: any thread, while no other call uses @waiter.
 * Blocks: where its callback is running, until that has returned.
 * Since: 0.1
 */
HOLT_API void holt_waiter_free(holt_waiter *waiter);

/**
 * holt_hold_release - let a key go; the next one who waits has it then.
 * @hold: a hold, or NULL.
 *
 * Returns: nothing.
 * Ownership: consumes @hold.
 * Threads: any thread.
 * Blocks: never.
 * Since: 0.1
 */
HOLT_API void holt_hold_release(holt_hold *hold);

/**
 * holt_serializer_run - run a blocking function on a thread of the serializer.
 * @serializer: a serializer; must not be NULL.
 * @options: as for holt_job_start; must not be NULL.
 * @ret: receives the job; must not be NULL.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * The function finds the caller's context (context.h). One that has not begun when the serializer
 * is closed ends with -HOLT_ECLOSED; one that runs goes on.
 *
 * Returns: 0; -HOLT_ECLOSED; otherwise as holt_job_start.
 * Ownership: the caller frees *@ret with holt_job_free, before the serializer.
 * Threads: any thread.
 * Blocks: never.
 * Since: 0.1
 */
HOLT_API int holt_serializer_run(holt_serializer *serializer, const holt_job_options *options,
	holt_job **ret, holt_error **reterr);

/**
 * holt_serializer_count - tell how many keys are held or waited for.
 * @serializer: a serializer; must not be NULL.
 *
 * Returns: the number.
 * Ownership: nothing changes hands.
 * Threads: any thread.
 * Blocks: never.
 * Since: 0.1
 */
HOLT_API size_t holt_serializer_count(holt_serializer *serializer);

/**
 * holt_serializer_close - let every later and every waiting call fail with HOLT_ECLOSED.
 * @serializer: a serializer; NULL, or a closed one, is fine.
 *
 * Whoever holds a key goes on holding it. A waiter that was cancelled before stays cancelled.
 *
 * Returns: nothing.
 * Ownership: nothing changes hands.
 * Threads: any thread.
 * Blocks: never.
 * Since: 0.1
 */
HOLT_API void holt_serializer_close(holt_serializer *serializer);

/**
 * holt_serializer_free - close a serializer and forget it.
 * @serializer: a serializer, or NULL; not from a thread of its own. Its jobs and waiters must have
 * been freed; holds may be released later.
 *
 * Returns: nothing.
 * Ownership: consumes @serializer.
 * Threads: any thread, while no other call uses @serializer.
 * Blocks: until its threads have ended.
 * Since: 0.1
 */
HOLT_API void holt_serializer_free(holt_serializer *serializer);

#ifdef __cplusplus
}
#endif
#endif
