/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOLT_EVENTS_H
#define HOLT_EVENTS_H

/*
 * Events: what happened to the boxes of a home, told by whichever process did it. The newest are
 * kept in the home (1 to 2 MiB of them), so that a listener may begin in the past.
 *
 * An event is one JSON object: "time" (RFC 3339, UTC, nanoseconds), "type" ("box"), "action"
 * (create, start, die, stop, kill, oom, pause, unpause, rename, acquire, release, discard,
 * destroy), "id", and where they make sense "name", "image", "exit_code", "reason", "signal",
 * "old_name", "holder", "label", "trace". A box of a pool that ends since nobody used it has the
 * reason "idle_timeout"; "discard" says why a provider ends one, before it does.
 */

#include "home.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct holt_events holt_events;

/**
 * holt_events_open - listen to a home.
 * @home: an open home; must not be NULL. It must outlive the listener.
 * @since_ns: begin with the events that are not older, nanoseconds since 1970; UINT64_MAX: only
 * what is still to come; 0: with the oldest that is kept.
 * @ret: receives the listener; must not be NULL.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * Returns: 0; -HOLT_EIO, -HOLT_ELIMIT, -HOLT_ENO_MEMORY.
 * Ownership: the caller closes *@ret with holt_events_close.
 * Threads: any thread.
 * Blocks: for file operations.
 * Since: 0.1
 */
HOLT_API int holt_events_open(
	holt_home *home, uint64_t since_ns, holt_events **ret, holt_error **reterr);

/**
 * holt_events_next - get the next event.
 * @events: a listener; must not be NULL.
 * @timeout_ms: how long to wait for one; 0 does not wait, HOLT_FOREVER has no limit.
 * @cancel: ends the wait with HOLT_ECANCELLED; may be NULL.
 * @ret: receives the text of one JSON object, NULL where none came in time; must not be NULL.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * Returns: 0; -HOLT_EIO, -HOLT_ECANCELLED, -HOLT_ENO_MEMORY.
 * Ownership: borrowed until the next call with @events.
 * Threads: one thread at a time per listener.
 * Blocks: at most @timeout_ms.
 * Since: 0.1
 */
HOLT_API int holt_events_next(holt_events *events, uint64_t timeout_ms, holt_cancel *cancel,
	const char **ret, holt_error **reterr);

/**
 * holt_events_close - stop listening.
 * @events: a listener, or NULL.
 *
 * Returns: nothing.
 * Ownership: consumes @events.
 * Threads: any thread, while no other call uses @events.
 * Blocks: never.
 * Since: 0.1
 */
HOLT_API void holt_events_close(holt_events *events);

#ifdef __cplusplus
}
#endif
#endif
