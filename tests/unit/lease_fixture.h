/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LEASE_FIXTURE_H
#define LEASE_FIXTURE_H

/*
 * For tests of who has a box of a pool: boxes of the fake engine, holds by handles and by threads,
 * and what the keeper tells of them.
 */
#include "boxes_fixture.h"

#include "box/box_lease.h"
#include "box/request.h"

#define SOON_MS 20000

static inline struct lease_wish wish_of(const char *who)
{
	return (struct lease_wish){.holder = who,
		.label = who,
		.trace = "trace-1",
		.idle_ms = HOLT_FOREVER,
		.pause_after_ms = HOLT_FOREVER};
}

static inline int hold(holt_box *b, const char *who, uint64_t wait_ms, holt_error **reterr)
{
	const struct lease_wish w = wish_of(who);

	return box_hold(b, &w, wait_ms, NULL, reterr);
}

static inline struct box_state look(holt_box *b)
{
	struct box_state s;

	box_look(b, &s);
	return s;
}

static inline void check_lease(holt_box *b, enum box_lease lease, const char *holder)
{
	const struct box_state s = look(b);

	ck_assert_str_eq(box_lease_name(s.lease), box_lease_name(lease));
	ck_assert_str_eq(s.holder, holder);
	ck_assert_str_eq(s.holder_label, holder);
}

static inline void wait_lease(holt_box *b, enum box_lease lease, uint64_t max_ms)
{
	const uint64_t start = clock_mono_ms();

	while (look(b).lease != lease) {
		ck_assert_uint_lt(clock_mono_ms() - start, max_ms);
		nap_ms(1);
	}
}

static inline void wait_phase(holt_box *b, enum box_phase phase)
{
	const uint64_t until = clock_mono_ms() + SOON_MS;

	while (look(b).phase != phase) {
		ck_assert_msg(
			clock_mono_ms() < until, "the box is %s", box_phase_name(look(b).phase));
		nap_ms(2);
	}
}

static inline holt_box *pool_box(const char *name, uint32_t flags)
{
	holt_box *b = make(name, flags, NULL);

	start_box(b, HOLT_START_DETACHED);
	return b;
}

/* How often @text is in the home's events. */
static inline unsigned events_with(const char *text)
{
	char path[128], line[4096];
	unsigned n = 0;

	snprintf(path, sizeof path, "%s/events.jsonl", home_path);
	FILE *f = fopen(path, "re");
	while (f && fgets(line, sizeof line, f))
		n += strstr(line, text) != NULL;
	if (f)
		(void)fclose(f);
	return n;
}

static inline void wait_events(const char *text, unsigned n)
{
	const uint64_t until = clock_mono_ms() + SOON_MS;

	while (events_with(text) < n) {
		ck_assert_uint_lt(clock_mono_ms(), until);
		nap_ms(2);
	}
	ck_assert_uint_eq(events_with(text), n);
}

/* A hold on a thread of its own. */
struct holding {
	pthread_t thread;
	holt_box *box;
	const char *who;
	uint64_t wait_ms;
	holt_cancel *cancel;
	int result;
	holt_error *error;
	int *turn; /* counts those that got it; NULL: it is kept */
	int my_turn;
};

static inline void *holding_run(void *arg)
{
	struct holding *h = arg;
	const struct lease_wish w = wish_of(h->who);

	h->result = box_hold(h->box, &w, h->wait_ms, h->cancel, &h->error);
	if (h->result == 0 && h->turn) {
		h->my_turn = __atomic_add_fetch(h->turn, 1, __ATOMIC_SEQ_CST);
		h->result = box_park(h->box, &h->error);
	}
	return NULL;
}

/* It waits in the keeper when this returns. */
static inline void holding_begin(struct holding *h)
{
	uint64_t unused;

	ok(box_ping(h->box, SOON_MS, &unused, E));
	ck_assert_int_eq(pthread_create(&h->thread, NULL, holding_run, h), 0);
	nap_ms(50);
	/* Behind the hold on the same lane. */
	ok(box_ping(h->box, SOON_MS, &unused, E));
}

static inline int holding_end(struct holding *h)
{
	ck_assert_int_eq(pthread_join(h->thread, NULL), 0);
	return h->result;
}

#endif
