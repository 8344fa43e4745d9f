/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BENCH_AGENT_TURNS_H
#define BENCH_AGENT_TURNS_H

#include <holt.h>

#include "record.h"

/* What the figures of a provider are measured with. */
struct turns {
	holt_home *home;
	const char *image; /* busybox */
	const char *debian; /* an image with python3; NULL: none here */
	unsigned rounds;
	const struct record_host *host;
};

/* Turns of agents; agent_turns.c says what each figure holds. Exits where a turn fails. */
void bench_turns(const struct turns *t);

/* What an acquire costs beside many other threads; known_threads.c. */
void bench_known_threads(const struct turns *t);

/* A provider of a pool of its own, with lines for the section "sandbox" besides. */
holt_provider *turns_open(
	const struct turns *t, const char *pool, const char *image, const char *lines);
/* Acquire for the thread of that number; exits where it fails. */
void turns_acquire(holt_provider *p, unsigned thread, char ret_id[HOLT_SANDBOX_ID_MAX + 1]);
void turns_release(holt_provider *p, const char *id);
/* Destroy what it made. */
void turns_close(holt_provider *p);

#endif
