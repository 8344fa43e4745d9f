/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_CANCEL_H
#define BASE_CANCEL_H

#include "base/err.h"

#include <pthread.h>
#include <stdbool.h>

/*
 * Cancellation tokens. A waiter registers its lock and condition for the time it waits; triggering
 * sets the flag and wakes every registered waiter. Lock order: token, then the waiter's lock.
 *
 * A call that has more than one reason to end waits on a token of its own, which is joined to the
 * others: it is triggered with either of them. Its lock comes after theirs.
 */
struct cancel_waiter {
	pthread_mutex_t *lock;
	pthread_cond_t *cond;
	holt_cancel *joined; /* instead of both: a token to trigger */
	struct cancel_waiter *next;
};

struct holt_cancel {
	pthread_mutex_t lock;
	volatile int fired;
	struct cancel_waiter *waiters;
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
/* Whether such a flag is set; false for NULL. */
static inline bool cancel_flag_set(const volatile int *flag)
{
	return flag && __atomic_load_n(flag, __ATOMIC_RELAXED);
}

/* A token that is triggered with either of two others. It lies in the caller's memory and does not
 * move between begin and end. */
struct cancel_join {
	holt_cancel token;
	holt_cancel *of[2];
	struct cancel_waiter links[2];
};

/* Either of @a and @b may be NULL; both outlive the join. */
void cancel_join_begin(struct cancel_join *j, holt_cancel *a, holt_cancel *b);
void cancel_join_end(struct cancel_join *j);

#endif
