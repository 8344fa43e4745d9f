/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_UNIT_ACQUIRER_FIXTURE_H
#define TESTS_UNIT_ACQUIRER_FIXTURE_H

/* An acquire on a thread of its own. */
#include "provider_fixture.h"

struct acquirer {
	struct holt_provider *p;
	const char *user;
	const char *thread;
	uint64_t timeout_ms;
	holt_cancel *cancel;
	int result;
	char id[ID_SIZE];
	pthread_t pthread;
};

static void *acquirer_run(void *arg)
{
	struct acquirer *a = arg;
	const struct scope_key key = key_of(a->user, a->thread);
	const struct acquire_wish w = {
		.key = &key, .timeout_ms = a->timeout_ms, .cancel = a->cancel};

	a->result = provider_acquire(a->p, &w, a->id, NULL);
	return NULL;
}

static void acquirer_start(struct acquirer *a)
{
	ck_assert_int_eq(pthread_create(&a->pthread, NULL, acquirer_run, a), 0);
}

static int acquirer_join(struct acquirer *a)
{
	ck_assert_int_eq(pthread_join(a->pthread, NULL), 0);
	return a->result;
}

#endif
