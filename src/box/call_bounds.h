/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BOX_CALL_BOUNDS_H
#define BOX_CALL_BOUNDS_H

#include "base/cancel.h"
#include "base/clock.h"
#include "base/cond.h"
#include "box/session.h"
#include "holt/sys/backend.h"

/* What bounds a call of a sandbox: one deadline for all that it waits for, and a token. */
struct call_bounds {
	uint64_t deadline_ms; /* as of cond_deadline */
	holt_cancel *cancel;
};

static inline struct call_bounds call_bounds_of(const holt_call *call)
{
	return (struct call_bounds){
		.deadline_ms = cond_deadline(call->timeout_ms), .cancel = call->cancel};
}

/* Milliseconds that are left; 0 when none are. */
static inline uint64_t call_bounds_left(const struct call_bounds *b)
{
	const uint64_t now = clock_mono_ms();

	if (b->deadline_ms == HOLT_FOREVER)
		return HOLT_FOREVER;
	return b->deadline_ms > now ? b->deadline_ms - now : 0;
}

/* Fails where they are reached: for loops that find always something to do without waiting. */
static inline int call_bounds_check(const struct call_bounds *b, holt_error **reterr)
{
	if (cancel_fired(b->cancel))
		return err_make(reterr, HOLT_ECANCELLED, "the call was cancelled");
	if (call_bounds_left(b) == 0)
		return err_make(reterr, HOLT_ETIMEOUT, "the time of the call is over");
	return 0;
}

#endif
