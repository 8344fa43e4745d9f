/* SPDX-License-Identifier: Apache-2.0 */
#include "provider/inside.h"

#include <stdio.h>

#include "base/log.h"
#include "base/banned.h"

/*
 * What happens to sandboxes: a line in the log at once, and for the provider's user a call of its
 * function when the call that caused it holds nothing any more, so that the function may acquire
 * and release.
 */

const char *provider_event_name(int kind)
{
	static const char *const names[] = {
		[HOLT_PROVIDER_CREATED] = "created",
		[HOLT_PROVIDER_RECLAIMED] = "reclaimed",
		[HOLT_PROVIDER_RELEASED] = "released",
		[HOLT_PROVIDER_DESTROYED] = "destroyed",
		[HOLT_PROVIDER_OVERSHOT] = "overshot",
	};

	return kind >= 0 && (size_t)kind < sizeof names / sizeof *names ? names[kind] : "?";
}

const char *pool_state_name(int state)
{
	static const char *const names[] = {
		[HOLT_POOL_MAKING] = "making",
		[HOLT_POOL_ACTIVE] = "active",
		[HOLT_POOL_WARM] = "warm",
		[HOLT_POOL_STOPPED] = "stopped",
	};

	return state >= 0 && (size_t)state < sizeof names / sizeof *names ? names[state] : "?";
}

void notice_add(struct notices *n, int kind, const char *id, const char *reason)
{
	log_debug("provider", "sandbox=%s event=%s%s%s", id, provider_event_name(kind),
		reason[0] ? " reason=" : "", reason);
	/* An acquire ends before it has as much to tell. */
	if (!n->p->event || n->n >= NOTICES_MAX)
		return;
	n->list[n->n].kind = kind;
	n->list[n->n].reason = reason;
	(void)snprintf(n->list[n->n].id, sizeof n->list[n->n].id, "%s", id);
	n->n++;
}

void notices_send(struct notices *n)
{
	for (unsigned i = 0; i < n->n; i++) {
		const holt_provider_event e = {.struct_size = sizeof e,
			.kind = n->list[i].kind,
			.id = n->list[i].id,
			.reason = n->list[i].reason};

		n->p->event(&e, n->p->user);
	}
	n->n = 0;
}
