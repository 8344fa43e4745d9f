/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BOX_POOL_BOX_H
#define BOX_POOL_BOX_H

#include "box/lifecycle.h"
#include "holt/sys/pool.h"

/*
 * One box of a pool: a handle of it, counted, since its sandboxes need it, too. The operations are
 * those of holt_pool.
 */
struct pool_box {
	struct holt_box *box;
	int refs; /* atomic: who found or made it, and its sandboxes */
	bool fresh; /* made through this handle, and never started */
	bool mute; /* atomic: its keeper was told to park it, and has not answered in time */
	pthread_mutex_t life; /* one start or destruction at a time */
	holt_cancel *doomed; /* triggered by a destruction: a start shall not go on */
	pthread_mutex_t look_lock; /* of the next, for no longer than copying takes */
	struct box_state state; /* of the last look, which lends its texts */
};

/* Takes @b, also on failure. */
int pool_box_new(struct holt_box *b, bool fresh, struct pool_box **ret, holt_error **reterr);

int pool_box_look(void *self, void *box, holt_pool_entry *ret, holt_error **reterr);
int pool_box_start(void *self, void *box, const holt_pool_holder *holder, const holt_call *call,
	holt_error **reterr);
int pool_box_hold(void *self, void *box, const holt_pool_holder *holder, const holt_call *call,
	holt_error **reterr);
int pool_box_park(void *self, void *box, holt_error **reterr);
int pool_box_lease(
	void *self, void *box, uint64_t lease_ms, const holt_call *call, holt_error **reterr);
int pool_box_prove(void *self, void *box, uint64_t timeout_ms, holt_error **reterr);
int pool_box_open(void *self, void *box, const holt_sandbox_options *options, holt_sandbox **ret,
	holt_error **reterr);
int pool_box_destroy(void *self, void *box, const char *reason, holt_error **reterr);
int pool_box_discard(void *self, void *box, const char *reason, holt_error **reterr);
void pool_box_drop(void *self, void *box);

#endif
