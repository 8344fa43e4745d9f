/* SPDX-License-Identifier: Apache-2.0 */
#include "holt/events.h"

#include "api/options.h"
#include "box/box_home.h"
#include "box/event_log.h"
#include "base/banned.h"

HOLT_API int holt_events_open(
	holt_home *home, uint64_t since_ns, holt_events **ret, holt_error **reterr)
{
	if (!home || !ret)
		return api_null(home ? "ret" : "home", reterr);
	return events_open(home->fd, since_ns, ret, reterr);
}

HOLT_API int holt_events_next(holt_events *events, uint64_t timeout_ms, holt_cancel *cancel,
	const char **ret, holt_error **reterr)
{
	if (!events || !ret)
		return api_null(events ? "ret" : "events", reterr);
	return events_next(events, timeout_ms, cancel, ret, reterr);
}

HOLT_API void holt_events_close(holt_events *events)
{
	events_close(events);
}
