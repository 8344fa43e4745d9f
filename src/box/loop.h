/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BOX_LOOP_H
#define BOX_LOOP_H

#include "base/err.h"

#include <stdbool.h>
#include <uv.h>

/*
 * The thread of an open home: one uv loop that does all session I/O. Started with the first use.
 * Other threads hand it work; nothing that runs on it may block.
 */
struct loop;

struct loop *loop_new(void) __attribute__((warn_unused_result));
/* Ends the thread; everything on the loop must have been closed. */
void loop_free(struct loop *l);

int loop_start(struct loop *l, holt_error **reterr);
uv_loop_t *loop_uv(struct loop *l);

/* Run @fn on the loop's thread and wait until it has returned. Not from the loop's thread. */
void loop_call(struct loop *l, void (*fn)(void *arg), void *arg);

/* Work that is asked for often: kicking it twice before it runs runs it once. */
struct loop_kick {
	struct loop *loop;
	void (*fn)(void *arg);
	void *arg;
	bool queued;
	struct loop_kick *next;
};
void loop_kick(struct loop_kick *k);
/* After this returns (on the loop's thread) @k does not run any more. */
void loop_unkick(struct loop_kick *k);

#endif
