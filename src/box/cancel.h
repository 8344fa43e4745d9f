/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BOX_CANCEL_H
#define BOX_CANCEL_H

#include "base/err.h"

#include <pthread.h>
#include <stdbool.h>

/*
 * Cancellation tokens. A waiter registers its lock and condition for the time it waits; triggering
 * sets the flag and wakes every registered waiter. Lock order: token, then the waiter's lock.
 */
struct cancel_waiter {
	pthread_mutex_t *lock;
	pthread_cond_t *cond;
	struct cancel_waiter *next;
};

int cancel_new(holt_cancel **ret, holt_error **reterr);
void cancel_trigger(holt_cancel *c);
void cancel_free(holt_cancel *c);

/* All accept NULL. enter and leave are called without the waiter's lock. */
bool cancel_fired(const holt_cancel *c);
void cancel_enter(holt_cancel *c, struct cancel_waiter *w);
void cancel_leave(holt_cancel *c, struct cancel_waiter *w);
/* The flag for code that polls it; NULL for NULL. */
const volatile int *cancel_flag(const holt_cancel *c);

#endif
