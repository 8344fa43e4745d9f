/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rules of handing keys on, in every order. A world is a few actors and perhaps somebody who
 * closes; each actor asks, takes and lets go, or gives up at any moment between. Since each step of
 * handoff.h is atomic, all that threads can do is an order of such steps, so all orders are gone
 * through, one complete run after the other, and after each step everything that must hold is
 * looked at. The number of orders is part of the test: it must not shrink unseen.
 */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "provider/handoff.h"

#define ACTORS_MAX 5
#define STEPS_MAX  64

/* The assertions of Check write to a file each time, and there are millions. */
#define must(what)                           \
	do {                                 \
		if (!(what))                 \
			ck_abort_msg(#what); \
	} while (0)

enum form {
	ASYNC, /* asks; takes what was granted later, or cancels */
	BLOCKING, /* asks, and takes in the same step what is granted at once */
};

enum step { ASK, TAKE, CANCEL, RELEASE, CLOSE };

struct actor_plan {
	enum form form;
	char key;
	unsigned rounds; /* how often it does all that */
};

struct world {
	unsigned n;
	struct actor_plan plan[ACTORS_MAX];
	bool closer;
};

struct actor {
	struct handoff_ask ask; /* first: over() finds the actor by it */
	unsigned rounds;
	unsigned long asked; /* when */
	unsigned told; /* how often its wait has ended */
	unsigned granted;
	bool waited;
	bool refused;
};

static struct world world;
static struct handoff handoff;
static struct actor actors[ACTORS_MAX];
static unsigned long now;
static unsigned long n_orders, n_steps;

static void on_over(struct handoff_ask *ask, void *user)
{
	struct actor *a = (struct actor *)ask;

	must(user == &world);
	must(ask->state != HANDOFF_WAITING);
	a->told++;
	a->granted += ask->state == HANDOFF_GRANTED;
}

static bool is_in(const struct actor *a)
{
	return a->ask.state == HANDOFF_WAITING || a->ask.state == HANDOFF_GRANTED ||
	       a->ask.state == HANDOFF_HELD;
}

static bool has_key(const struct actor *a)
{
	return a->ask.state == HANDOFF_GRANTED || a->ask.state == HANDOFF_HELD;
}

/* ---- what must hold after each step ---- */

static void check_key(char key)
{
	const struct actor *first = NULL;
	unsigned holders = 0;
	unsigned long holder_asked = 0;

	for (unsigned i = 0; i < world.n; i++) {
		const struct actor *a = &actors[i];

		if (world.plan[i].key != key)
			continue;
		holders += has_key(a);
		if (has_key(a))
			holder_asked = a->asked;
		if (a->ask.state == HANDOFF_WAITING && (!first || a->asked < first->asked))
			first = a;
	}
	must(holders <= 1);
	/* Nobody waits for a key that nobody has, and who came first has it first. */
	must(!first || (holders == 1 && holder_asked < first->asked));
}

static size_t keys_in_use(void)
{
	bool used[256] = {false};
	size_t n = 0;

	for (unsigned i = 0; i < world.n; i++) {
		const unsigned char key = (unsigned char)world.plan[i].key;

		if (is_in(&actors[i]) && !used[key]) {
			used[key] = true;
			n++;
		}
	}
	return n;
}

/* What is refused changes nothing, in any state; C-38 is the release. */
static void check_refusals(struct actor *a)
{
	const enum handoff_state state = a->ask.state;

	if (state != HANDOFF_HELD)
		must(handoff_release(&handoff, &a->ask, NULL) == -HOLT_EINTERNAL);
	if (state == HANDOFF_WAITING)
		must(handoff_take(&handoff, &a->ask, NULL) == -HOLT_ETIMEOUT);
	else if (state == HANDOFF_CANCELLED)
		must(handoff_take(&handoff, &a->ask, NULL) == -HOLT_ECANCELLED);
	else if (state == HANDOFF_CLOSED)
		must(handoff_take(&handoff, &a->ask, NULL) == -HOLT_ECLOSED);
	else if (state != HANDOFF_GRANTED)
		must(handoff_take(&handoff, &a->ask, NULL) == -HOLT_EINVALID);
	if (state != HANDOFF_WAITING && state != HANDOFF_GRANTED)
		handoff_cancel(&handoff, &a->ask);
	must(a->ask.state == state);
}

static void check_world(void)
{
	for (unsigned i = 0; i < world.n; i++) {
		struct actor *a = &actors[i];

		check_key(world.plan[i].key);
		/* Whoever had to wait is told of the end, once; nobody else is. */
		must(a->told == (a->waited && a->ask.state != HANDOFF_WAITING));
		must(a->granted <= 1);
		must(!handoff.closed || a->ask.state != HANDOFF_WAITING);
		check_refusals(a);
	}
	must(handoff_count(&handoff) == keys_in_use());
}

/* ---- steps ---- */

struct choice {
	unsigned actor;
	enum step step;
};

static unsigned choices(struct choice *ret)
{
	unsigned n = 0;

	for (unsigned i = 0; i < world.n; i++) {
		const struct actor *a = &actors[i];

		if (a->ask.state == HANDOFF_GRANTED)
			ret[n++] = (struct choice){i, TAKE};
		if (a->ask.state == HANDOFF_GRANTED || a->ask.state == HANDOFF_WAITING)
			ret[n++] = (struct choice){i, CANCEL};
		else if (a->ask.state == HANDOFF_HELD)
			ret[n++] = (struct choice){i, RELEASE};
		else if (a->rounds < world.plan[i].rounds && !a->refused)
			ret[n++] = (struct choice){i, ASK};
	}
	if (world.closer && !handoff.closed)
		ret[n++] = (struct choice){0, CLOSE};
	return n;
}

static void do_ask(struct actor *a, const struct actor_plan *plan)
{
	const bool was_closed = handoff.closed;
	const unsigned rounds = a->rounds + 1;

	*a = (struct actor){.rounds = rounds, .asked = ++now};
	const int r = handoff_ask(&handoff, &plan->key, 1, &a->ask, NULL);
	must(r == (was_closed ? -HOLT_ECLOSED : 0));
	a->refused = r < 0;
	a->granted = a->ask.state == HANDOFF_GRANTED;
	a->waited = a->ask.state == HANDOFF_WAITING;
	if (plan->form == BLOCKING && a->granted)
		must(handoff_take(&handoff, &a->ask, NULL) == 0);
}

static void do_cancel(struct actor *a)
{
	handoff_cancel(&handoff, &a->ask);
	must(a->ask.state == HANDOFF_CANCELLED);
}

static void do_step(struct choice c)
{
	struct actor *a = &actors[c.actor];

	switch (c.step) {
	case ASK:
		do_ask(a, &world.plan[c.actor]);
		break;
	case TAKE:
		must(handoff_take(&handoff, &a->ask, NULL) == 0);
		must(a->ask.state == HANDOFF_HELD);
		break;
	case CANCEL:
		do_cancel(a);
		break;
	case RELEASE:
		must(handoff_release(&handoff, &a->ask, NULL) == 0);
		break;
	case CLOSE:
		handoff_close(&handoff);
		break;
	}
	n_steps++;
}

/* One run to the end: by @path as far as it goes, then always by the first choice. Fills in the
 * number of choices at each step; what lies before @fresh was looked at in the run before. */
static unsigned run(unsigned char *path, unsigned len, unsigned fresh, unsigned char *ret_choices)
{
	struct choice open[ACTORS_MAX * 2 + 1];
	unsigned depth = 0;

	handoff = (struct handoff){.over = on_over, .user = &world};
	memset(actors, 0, sizeof actors);
	for (;; depth++) {
		const unsigned n = choices(open);

		if (n == 0)
			break;
		must(depth < STEPS_MAX);
		if (depth >= len)
			path[depth] = 0;
		ret_choices[depth] = (unsigned char)n;
		do_step(open[path[depth]]);
		if (depth >= fresh)
			check_world();
	}
	must(handoff_count(&handoff) == 0);
	must(!handoff.entries);
	n_orders++;
	return depth;
}

static void explore(const struct world *w, unsigned long orders)
{
	unsigned char path[STEPS_MAX];
	unsigned char n_choices[STEPS_MAX];
	unsigned len = 0;
	unsigned fresh = 0;

	world = *w;
	n_orders = n_steps = 0;
	for (;;) {
		unsigned depth = run(path, len, fresh, n_choices);

		while (depth > 0 && path[depth - 1] + 1u == n_choices[depth - 1])
			depth--;
		if (depth == 0)
			break;
		path[depth - 1]++;
		len = depth;
		fresh = depth - 1;
	}
	printf("%u actors%s: %lu orders, %lu steps\n", w->n, w->closer ? " and a closer" : "",
		n_orders, n_steps);
	ck_assert_uint_eq(n_orders, orders);
}

#define ASKS(n)               \
	{                     \
		ASYNC, 'a', n \
	}
#define BLOCKS(n)                \
	{                        \
		BLOCKING, 'a', n \
	}

/* Worlds that can be counted by hand: one actor takes or gives up; two who do not meet have as many
 * orders as two rows of 3 or 2 steps can be shuffled: 20 + 10 + 10 + 6. */
START_TEST(small_worlds)
{
	explore(&(struct world){.n = 1, .plan = {ASKS(1)}}, 2);
	explore(&(struct world){.n = 2, .plan = {ASKS(1), {ASYNC, 'b', 1}}}, 46);
	explore(&(struct world){.n = 1, .plan = {BLOCKS(1)}, .closer = true}, 3);
}
END_TEST

/* C-25, C-31, C-33, C-35, C-36 */
START_TEST(async_on_one_key)
{
	explore(
		&(struct world){
			.n = 4, .plan = {ASKS(1), ASKS(1), ASKS(1), ASKS(1)}, .closer = true},
		169608);
}
END_TEST

START_TEST(blocking_on_one_key)
{
	explore(&(struct world){.n = 4,
			.plan = {BLOCKS(1), BLOCKS(1), BLOCKS(1), BLOCKS(1)},
			.closer = true},
		31656);
}
END_TEST

START_TEST(both_forms_on_one_key)
{
	explore(
		&(struct world){
			.n = 4, .plan = {BLOCKS(1), BLOCKS(1), ASKS(1), ASKS(1)}, .closer = true},
		92744);
}
END_TEST

#ifndef HOLT_SANITIZED /* half a minute there, and nothing new about memory */
START_TEST(five_on_one_key)
{
	explore(&(struct world){.n = 5, .plan = {BLOCKS(1), BLOCKS(1), ASKS(1), ASKS(1), ASKS(1)}},
		2840136);
}
END_TEST
#endif

/* C-26 */
START_TEST(two_keys_do_not_mind_each_other)
{
	explore(&(struct world){.n = 4,
			.plan = {BLOCKS(1), ASKS(1), {BLOCKING, 'b', 1}, {ASYNC, 'b', 1}},
			.closer = true},
		251944);
}
END_TEST

/* An entry that was forgotten, and made again. */
START_TEST(who_comes_back)
{
	explore(&(struct world){.n = 3, .plan = {BLOCKS(2), ASKS(2), ASKS(1)}, .closer = true},
		287244);
}
END_TEST

/* C-38 */
START_TEST(release_without_holding_is_an_error)
{
	struct handoff h = {.over = on_over, .user = &world};
	struct handoff_ask ask = {0};
	holt_error *e = NULL;

	ck_assert_int_eq(handoff_release(&h, &ask, &e), -HOLT_EINTERNAL);
	ck_assert_int_eq(holt_error_code(e), HOLT_EINTERNAL);
	ck_assert_str_eq(holt_error_message(e), "the serializer's key is not held");
	holt_error_free(e);
	/* It was granted, but nobody has taken it. */
	ck_assert_int_eq(handoff_ask(&h, NULL, 0, &ask, NULL), 0);
	ck_assert_int_eq(handoff_release(&h, &ask, NULL), -HOLT_EINTERNAL);
	ck_assert_int_eq(handoff_take(&h, &ask, NULL), 0);
	ck_assert_int_eq(handoff_release(&h, &ask, NULL), 0);
	ck_assert_int_eq(handoff_release(&h, &ask, NULL), -HOLT_EINTERNAL);
	ck_assert_uint_eq(handoff_count(&h), 0);
}
END_TEST

/* C-33: only asking takes memory, and what fails leaves nothing. */
START_TEST(an_ask_without_memory)
{
	static struct actor many[1000];
	struct handoff h = {.over = on_over, .user = &world};
	unsigned failed = 0;

	/* Enough for the table to grow, which fails, too. */
	for (unsigned i = 0; i < 1000; i++) {
		int r = -1;

		for (unsigned long nth = 1; r < 0; nth++) {
			mem_fail_at(nth);
			r = handoff_ask(&h, &i, sizeof i, &many[i].ask, NULL);
			mem_fail_at(0);
			ck_assert(r == 0 || r == -HOLT_ENO_MEMORY);
			ck_assert_uint_eq(handoff_count(&h), i + (r == 0));
			failed += r < 0;
		}
	}
	ck_assert_uint_gt(failed, 1000);
	mem_fail_at(1);
	for (unsigned i = 0; i < 1000; i++)
		handoff_cancel(&h, &many[i].ask);
	mem_fail_at(0);
	ck_assert_uint_eq(handoff_count(&h), 0);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {small_worlds, async_on_one_key, blocking_on_one_key,
		both_forms_on_one_key, two_keys_do_not_mind_each_other, who_comes_back,
		release_without_holding_is_an_error, an_ask_without_memory,
#ifndef HOLT_SANITIZED
		five_on_one_key
#endif
	};
	Suite *s = suite_create("handoff");
	TCase *c = tcase_create("handoff");

	tcase_set_timeout(c, 100);
	for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++)
		tcase_add_test(c, tests[i]);
	suite_add_tcase(s, c);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	const int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
