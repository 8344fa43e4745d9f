/* SPDX-License-Identifier: Apache-2.0 */
#include "box/pool_entry.h"

#include "base/clock.h"
#include "base/banned.h"

#define NS_PER_MS 1000000

/* From a start to its maker's hold pass milliseconds, the boot not counted. A box that runs without
 * a holder for so long was started by somebody for himself. */
#define MAKING_NS (UINT64_C(10) * 1000 * NS_PER_MS)

int pool_state_of(const struct box_state *s, bool pooled)
{
	switch (s->phase) {
	case BOX_STARTING:
		return HOLT_POOL_MAKING;
	case BOX_RUNNING:
	case BOX_PAUSED:
	case BOX_STOPPING:
		break;
	case BOX_CREATED:
	case BOX_EXITED:
	case BOX_GONE:
		return HOLT_POOL_STOPPED;
	}
	if (s->lease != BOX_LEASE_NONE)
		return s->lease == BOX_LEASE_HELD ? HOLT_POOL_ACTIVE : HOLT_POOL_WARM;
	if (!pooled)
		return HOLT_POOL_ACTIVE;
	const uint64_t ready_ns = s->started_ns + s->ready_us * 1000;
	return s->phase == BOX_RUNNING && clock_wall_ns() < ready_ns + MAKING_NS ? HOLT_POOL_MAKING
										 : HOLT_POOL_WARM;
}

static uint64_t since_ns(const struct box_state *s, int state, int64_t created_ns)
{
	const uint64_t times[] = {[HOLT_POOL_MAKING] = s->started_ns,
		[HOLT_POOL_ACTIVE] = s->lease_ns,
		[HOLT_POOL_WARM] = s->lease_ns ? s->lease_ns : s->started_ns,
		[HOLT_POOL_STOPPED] = s->ended_ns};

	return times[state] ? times[state] : (uint64_t)created_ns;
}

void pool_entry_fill(const struct box_state *s, const struct pool_facts *f, holt_pool_entry *ret)
{
	const struct pool_record *p = f->pool;
	const int state = pool_state_of(s, p);

	*ret = (holt_pool_entry){.struct_size = sizeof *ret,
		.name = f->name,
		.instance = f->id,
		.known = p ? 1 : 0,
		.user = p ? p->user : NULL,
		.user_len = p ? p->user_len : 0,
		.thread = p ? p->thread : NULL,
		.thread_len = p ? p->thread_len : 0,
		.fingerprint = p ? p->fingerprint : "",
		.state = state,
		.since_ms = (int64_t)(since_ns(s, state, f->created_ns) / NS_PER_MS),
		.lease_until_ms = (int64_t)(s->lease_until_ns / NS_PER_MS),
		.holder = s->holder,
		.holder_label = s->holder_label};
}
