/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_DEADLINE_H
#define BASE_DEADLINE_H

#include "base/cancel.h"

#include <stdint.h>

/*
 * A deadline for code that knows cancel tokens only: a token that is triggered with another one, or
 * when the time has come, which a thread of its own waits for. It lies in the caller's memory and
 * does not move between begin and end.
 */
struct deadline {
	struct cancel_join join; /* its token is the one to wait on */
	pthread_t thread;
	pthread_mutex_t lock; /* of the two below */
	pthread_cond_t change;
	bool over;
	bool passed;
	uint64_t at_ms; /* HOLT_FOREVER: there is no thread */
};

/* @timeout_ms from now; HOLT_FOREVER: only @cancel, which may be NULL. -errno where no thread can
 * be started; then nothing has begun. */
int deadline_begin(struct deadline *d, uint64_t timeout_ms, holt_cancel *cancel);
/* Returns whether the time came. */
bool deadline_end(struct deadline *d);

#endif
