/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BOX_BOX_LEASE_H
#define BOX_BOX_LEASE_H

#include "box/lifecycle.h"

/*
 * Who has a box of a pool: its keeper knows (keeper_lease.c), since it sees the end of the process
 * that holds it, and lives when no process of ours does.
 *
 *   (nobody asked) --hold--> HELD --park, or the holder's connection ends--> WARM --hold--> HELD
 *                             '--------- while a lease lasts: still HELD, by nobody in particular
 *   WARM, after pause_after_ms: the machine is paused; after idle_ms: the box ends
 *
 * A holder is a connection: one handle of a box in one process. Others that ask wait in the keeper,
 * in order.
 */
struct lease_wish {
	const char *holder; /* of whom there is only one, up to 32 characters */
	const char *label; /* for humans, up to 64 characters */
	const char *trace; /* of the request, or "" */
	uint64_t idle_ms; /* HOLT_FOREVER: never */
	uint64_t pause_after_ms; /* HOLT_FOREVER: never */
	bool stop_when_idle; /* a box that is kept: it is stopped then; else it is removed */
};

/* Hold the running box, waiting up to @wait_ms: HOLT_EBUSY where another has it still, whose label
 * is the error's object; HOLT_ECLOSED where the box has ended. A wait that is given up leaves
 * nothing. */
int box_hold(struct holt_box *b, const struct lease_wish *w, uint64_t wait_ms, holt_cancel *cancel,
	holt_error **reterr);
/* Let it go, for the request that this thread is working for. 0 also where this handle does not
 * hold it. */
int box_park(struct holt_box *b, holt_error **reterr);
/* A lease from now on, in place of one that there is; 0 ends it. */
int box_lease(struct holt_box *b, uint64_t lease_ms, uint64_t timeout_ms, holt_error **reterr);

#endif
