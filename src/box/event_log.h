/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BOX_EVENT_LOG_H
#define BOX_EVENT_LOG_H

#include "base/cancel.h"
#include "base/json.h"

/*
 * What happened to the boxes of a home: lines of JSON in "events.jsonl", appended by keepers and by
 * every process that uses the home, each line with one write. Beyond 1 MiB the file becomes
 * "events.1.jsonl" and a new one begins. Public face: holt/events.h.
 */

/* Tell of an event: members of @more (an object, may be NULL, taken over) go with it. Losing one is
 * no failure of what it tells of. */
void event_tell(int home, const char *action, const char *id, const char *name, json_t *more);

struct holt_events;

/* Listen from the events at or after @since_ns on (UINT64_MAX: new ones only). @home is the home's
 * directory, borrowed. */
int events_open(int home, uint64_t since_ns, struct holt_events **ret, holt_error **reterr);
/* The next event's text, borrowed until the next call; *ret is NULL after @timeout_ms. */
int events_next(struct holt_events *e, uint64_t timeout_ms, holt_cancel *cancel, const char **ret,
	holt_error **reterr);
void events_close(struct holt_events *e);

#endif
