/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROVIDER_FIXTURE_H
#define PROVIDER_FIXTURE_H

/*
 * Providers over the pool in memory (fake_pool.h), each in a process of its own, with a clock that
 * only a test moves. Images are called "demo"; the scope (NULL, "t-1") is THREAD.
 */
#include <check.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "fake_pool.h"

#include "base/clock.h"
#include "base/mem.h"
#include "provider/core.h"
#include "provider/inside.h"

#define ID_SIZE (SANDBOX_ID_MAX + 1)
#define FOREIGN "image-1:512" /* the fingerprint of what a provider of this file makes */

struct event_log {
	pthread_mutex_t lock;
	unsigned n;
	struct {
		int kind;
		char id[ID_SIZE];
		char reason[32];
	} list[256];
};

static inline void on_event(const holt_provider_event *e, void *user)
{
	struct event_log *log = user;

	(void)pthread_mutex_lock(&log->lock);
	if (log->n < 256) {
		log->list[log->n].kind = e->kind;
		(void)snprintf(log->list[log->n].id, ID_SIZE, "%s", e->id);
		(void)snprintf(log->list[log->n].reason, 32, "%s", e->reason);
		log->n++;
	}
	(void)pthread_mutex_unlock(&log->lock);
}

static inline unsigned events_of(struct event_log *log, int kind, const char *reason)
{
	unsigned n = 0;

	(void)pthread_mutex_lock(&log->lock);
	for (unsigned i = 0; i < log->n; i++)
		n += log->list[i].kind == kind && strcmp(log->list[i].reason, reason) == 0;
	(void)pthread_mutex_unlock(&log->lock);
	return n;
}

#define EVENT_LOG                                 \
	{                                         \
		.lock = PTHREAD_MUTEX_INITIALIZER \
	}

static inline struct holt_config *config_of(const char *const *lines)
{
	char text[2048] = "sandbox:\n  image: demo\n  idle_timeout: 0\n";
	struct holt_config *c = NULL;
	holt_error *error = NULL;
	size_t at = strlen(text);

	for (size_t i = 0; lines && lines[i]; i++) {
		/* The two that are there already are replaced. */
		if (strncmp(lines[i], "idle_timeout", 12) == 0)
			at = (size_t)snprintf(text, sizeof text, "sandbox:\n  image: demo\n");
	}
	for (size_t i = 0; lines && lines[i]; i++)
		at += (size_t)snprintf(text + at, sizeof text - at, "  %s\n", lines[i]);
	ck_assert_msg(
		settings_parse(text, at, NULL, &c, &error) == 0, "%s", holt_error_message(error));
	return c;
}

static inline struct holt_provider *provider_with(
	void *process, struct event_log *log, uint64_t interval_ms, const char *const *lines)
{
	struct holt_config *c = config_of(lines);
	const struct provider_wish w = {.pool = &fake_pool,
		.self = process,
		.config = c,
		.event = log ? on_event : NULL,
		.user = log,
		.now_ms = fake_now_ms,
		.check_interval_ms = interval_ms};
	struct holt_provider *p = NULL;
	holt_error *error = NULL;

	ck_assert_msg(provider_open(&w, &p, &error) == 0, "%s", holt_error_message(error));
	settings_free(c);
	return p;
}

#define PROVIDER(process, ...) \
	provider_with(process, NULL, 0, (const char *const[]){__VA_ARGS__ __VA_OPT__(, ) NULL})
#define PROVIDER_TOLD(process, log, ...) \
	provider_with(process, log, 0, (const char *const[]){__VA_ARGS__ __VA_OPT__(, ) NULL})

static inline char *text_of_literal(const char *s)
{
	char *out = NULL;

	memcpy(&out, &s, sizeof out);
	return out;
}

static inline struct scope_key key_of(const char *user, const char *thread)
{
	return (struct scope_key){.user = text_of_literal(user),
		.user_len = user ? strlen(user) : 0,
		.thread = text_of_literal(thread),
		.thread_len = thread ? strlen(thread) : 0};
}

/* Results of try_acquire: the code, and the error in @ret_error, unless that is NULL. */
static inline int try_for(struct holt_provider *p, const char *user, const char *thread,
	uint64_t timeout_ms, char id[ID_SIZE], holt_error **ret_error)
{
	const struct scope_key key = key_of(user, thread);
	const struct acquire_wish w = {.key = &key, .timeout_ms = timeout_ms};
	holt_error *error = NULL;
	const int r = provider_acquire(p, &w, id, &error);

	ck_assert_int_eq(r, -holt_error_code(error));
	if (ret_error)
		*ret_error = error;
	else
		holt_error_free(error);
	return r;
}

static inline const char *acquire(
	struct holt_provider *p, const char *user, const char *thread, char id[ID_SIZE])
{
	holt_error *error = NULL;
	const int r = try_for(p, user, thread, 5000, id, &error);

	ck_assert_msg(r == 0, "%d: %s", r, holt_error_message(error));
	return id;
}

static inline void release(struct holt_provider *p, const char *id)
{
	ck_assert_int_eq(provider_release(p, id, NULL), 0);
}

static inline bool is_active(struct holt_provider *p, const char *id)
{
	holt_sandbox *s = provider_get(p, id);

	holt_sandbox_free(s);
	return s != NULL;
}

static inline holt_provider_stats stats_of(struct holt_provider *p)
{
	holt_provider_stats s;

	ck_assert_int_eq(provider_get_stats(p, &s, NULL), 0);
	return s;
}

static inline void nap_ms(unsigned ms)
{
	const struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000L};

	(void)nanosleep(&t, NULL);
}

/* Until it is so; a test that waits for ever is ended by its time-out. */
#define UNTIL(what)                \
	do {                       \
		while (!(what))    \
			nap_ms(1); \
	} while (0)

/* The end of a test: nothing is left, and nothing happened that must not. */
static inline void shut(struct holt_provider *p)
{
	holt_error *error = NULL;

	ck_assert_msg(provider_shutdown(p, &error) == 0, "%s", holt_error_message(error));
	provider_free(p);
}

static inline void world_is_clean(void)
{
	ck_assert_uint_eq(fake_violations(), 0);
	ck_assert_uint_eq(fake_handles(), 0);
	ck_assert_uint_eq(fake_sandboxes(), 0);
}

static inline int run_suite(Suite *s)
{
	SRunner *runner = srunner_create(s);

	srunner_run_all(runner, CK_ENV);
	const int failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? 1 : 0;
}

#endif
