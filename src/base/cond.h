/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_COND_H
#define BASE_COND_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* Conditions and deadlines of clock_mono_ms. HOLT_FOREVER is a deadline that never comes. */

void cond_init(pthread_cond_t *cond);
/* now + timeout without overflow. */
uint64_t cond_deadline(uint64_t timeout_ms);
/* Wait until woken or until the deadline, whatever comes first; the caller looks which. False, and
 * nothing was waited for, where the deadline is past. Lock held. */
bool cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t deadline_ms);

#endif
