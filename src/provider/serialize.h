/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROVIDER_SERIALIZE_H
#define PROVIDER_SERIALIZE_H

#include "base/cancel.h"
#include "base/executor.h"

#include <stddef.h>

/*
 * What holt/serializer.h promises, for this folder and src/api, which checks arguments. handoff.h
 * has the rules by which a key goes from holder to holder.
 */
struct holt_serializer;
struct holt_hold;
struct holt_waiter;

#define SERIALIZER_WAITERS_MAX 65536u /* asynchronous ones at once */
#define SERIALIZER_THREAD_NAME "sandbox-acquire"

/* 0 threads: the default. */
int serializer_new(unsigned max_threads, const char *thread_name, struct holt_serializer **ret,
	holt_error **reterr);
int serializer_hold(struct holt_serializer *s, const void *key, size_t key_len, uint64_t timeout_ms,
	holt_cancel *cancel, struct holt_hold **ret, holt_error **reterr);
int serializer_hold_start(struct holt_serializer *s, const void *key, size_t key_len,
	void (*done)(struct holt_waiter *waiter, void *user), void *user, struct holt_waiter **ret,
	holt_error **reterr);
int waiter_event_fd(struct holt_waiter *w, int *ret_fd, holt_error **reterr);
int waiter_take(
	struct holt_waiter *w, uint64_t timeout_ms, struct holt_hold **ret, holt_error **reterr);
void waiter_cancel(struct holt_waiter *w);
void waiter_free(struct holt_waiter *w);
void hold_release(struct holt_hold *hold);
int serializer_run(struct holt_serializer *s, const struct job_work *work, struct holt_job **ret,
	holt_error **reterr);
size_t serializer_count(struct holt_serializer *s);
void serializer_close(struct holt_serializer *s);
void serializer_free(struct holt_serializer *s);

#endif
