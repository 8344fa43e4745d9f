/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Boxes of a home as a pool, on the fake engine. The agent works on this host's files here, so the
 * directories of a box lie in a directory of the test's.
 */
/* long: one table of operations, and one fixture for all of it */
#include "backend_fixture.h"

#include <sys/file.h>

#include "box/box_home.h"
#include "box/box_pool.h"
#include "box/lifecycle.h"

#define NAME    "holt-test-a"
#define ENTRIES 500

static void *pool;
static char directory[128];
static const char *directories[2] = {directory};
static const holt_pool_shape shape = {.image = "t"};
static const holt_pool_holder us = {.instance = "p1",
	.label = "process 1 (test)",
	.trace = "",
	.idle_ms = HOLT_FOREVER,
	.pause_after_ms = HOLT_FOREVER};
static const holt_pool_holder them = {.instance = "p2",
	.label = "process 2 (other)",
	.trace = "",
	.idle_ms = HOLT_FOREVER,
	.pause_after_ms = HOLT_FOREVER};
static const holt_call at_once = {.timeout_ms = 0};
static const holt_call in_time = {.timeout_ms = 20000};

static void pool_begin(void)
{
	setup();
	snprintf(work, sizeof work, "%s/work", home_dir);
	(void)!fs_remove_tree(AT_FDCWD, work);
	ck_assert_int_eq(mkdir(work, 0755), 0);
	snprintf(directory, sizeof directory, "%s/dirs/workspace", work);
	ok(box_pool_new(home, &pool, E));
}

static void pool_end(void)
{
	box_pool.close(pool);
	remove_all();
	ck_assert_int_eq(fs_remove_tree(AT_FDCWD, work), 0);
	teardown();
}

static void *create_as(const char *name, int keep)
{
	const holt_pool_wish w = {.shape = &shape,
		.user = "al\0ice",
		.user_len = 6,
		.thread = "t1",
		.thread_len = 2,
		.fingerprint = "f1",
		.directories = directories,
		.keep = keep};
	void *b = NULL;

	ok(box_pool.create(pool, name, &w, &b, E));
	return b;
}

static void *find_box(const char *name)
{
	void *b = NULL;

	ok(box_pool.find(pool, name, &b, E));
	return b;
}

static holt_pool_entry look(void *b)
{
	holt_pool_entry e;

	ok(box_pool.look(pool, b, &e, E));
	return e;
}

#define check_look(b, want) ck_assert_msg(look(b).state == (want), "state is %d", look(b).state)

static void *started(const char *name, int keep)
{
	void *b = create_as(name, keep);

	ok(box_pool.start(pool, b, &us, &in_time, E));
	check_look(b, HOLT_POOL_ACTIVE);
	return b;
}

static void destroy(void *b)
{
	ok(box_pool.destroy(pool, b, "test", E));
	fails(HOLT_ECLOSED, box_pool.look(pool, b, &(holt_pool_entry){0}, &e_));
	box_pool.drop(pool, b);
}

static bool is_there(const char *name)
{
	void *b = NULL;
	const int r = box_pool.find(pool, name, &b, NULL);

	ck_assert(r == 0 || r == -HOLT_ENOT_FOUND);
	box_pool.drop(pool, b);
	return r == 0;
}

/* ---- one box ---- */

/* C-155 */
START_TEST(a_new_box_is_held_known_and_complete)
{
	struct stat st;
	void *b = create_as(NAME, 0);
	holt_pool_entry e = look(b);

	ck_assert_int_eq(e.state, HOLT_POOL_MAKING);
	ck_assert_str_eq(e.name, NAME);
	ck_assert_int_eq(e.known, 1);
	ck_assert_uint_eq(e.user_len, 6);
	ck_assert_int_eq(memcmp(e.user, "al\0ice", 6), 0);
	ok(box_pool.start(pool, b, &us, &in_time, E));
	e = look(b);
	ck_assert_int_eq(e.state, HOLT_POOL_ACTIVE);
	ck_assert_str_eq(e.holder, "p1");
	ck_assert_str_eq(e.holder_label, "process 1 (test)");
	ck_assert_int_eq(stat(directory, &st), 0);
	ck_assert(S_ISDIR(st.st_mode));
	ok(box_pool.prove(pool, b, 5000, E));
	/* Another handle sees the same, and does not get it. */
	void *other = find_box(NAME);
	ck_assert_str_eq(look(other).instance, look(b).instance);
	holt_error *error = NULL;
	ck_assert_int_eq(box_pool.hold(pool, other, &them, &at_once, &error), -HOLT_EBUSY);
	ck_assert_str_eq(holt_error_object(error), "process 1 (test)");
	holt_error_free(error);
	fails(HOLT_EBUSY, box_pool.start(pool, other, &them, &in_time, &e_));
	ok(box_pool.park(pool, b, E));
	check_look(b, HOLT_POOL_WARM);
	ok(box_pool.park(pool, b, E));
	ok(box_pool.hold(pool, other, &them, &at_once, E));
	ck_assert_str_eq(look(b).holder, "p2");
	box_pool.drop(pool, other);
	check_look(b, HOLT_POOL_WARM);
	destroy(b);
	ck_assert(!is_there(NAME));
}
END_TEST

START_TEST(a_lease_holds_without_a_holder)
{
	void *b = started(NAME, 0);

	ok(box_pool.lease(pool, b, 60000, &in_time, E));
	ok(box_pool.park(pool, b, E));
	holt_pool_entry e = look(b);
	ck_assert_int_eq(e.state, HOLT_POOL_ACTIVE);
	ck_assert_int_gt(e.lease_until_ms, e.since_ms);
	ok(box_pool.lease(pool, b, 0, &in_time, E));
	check_look(b, HOLT_POOL_WARM);
	destroy(b);
}
END_TEST

START_TEST(what_is_not_there)
{
	holt_error *error = NULL;
	void *b = NULL;

	ck_assert_int_eq(box_pool.find(pool, NAME, &b, &error), -HOLT_ENOT_FOUND);
	ck_assert_str_eq(holt_error_stage(error), "box lookup");
	holt_error_free(error);
	ck_assert_ptr_null(b);
	b = started(NAME, 0);
	/* The beginning of an id is no name. */
	char beginning[9];
	snprintf(beginning, sizeof beginning, "%.8s", look(b).instance);
	void *other = NULL;
	fails(HOLT_ENOT_FOUND, box_pool.find(pool, beginning, &other, &e_));
	other = find_box(NAME);
	destroy(b);
	/* The other handle is of an instance that is gone, even when the name has a successor. */
	b = started(NAME, 0);
	fails(HOLT_ECLOSED, box_pool.hold(pool, other, &us, &in_time, &e_));
	fails(HOLT_ECLOSED, box_pool.prove(pool, other, 5000, &e_));
	fails(HOLT_ECLOSED, box_pool.lease(pool, other, 1000, &in_time, &e_));
	fails(HOLT_ECLOSED, box_pool.start(pool, other, &us, &in_time, &e_));
	ok(box_pool.park(pool, other, E));
	ok(box_pool.destroy(pool, other, "late", E));
	box_pool.drop(pool, other);
	check_look(b, HOLT_POOL_ACTIVE);
	destroy(b);
}
END_TEST

START_TEST(a_kept_box_is_stopped_and_started_again)
{
	void *b = create_as(NAME, 1);

	check_look(b, HOLT_POOL_MAKING);
	ok(box_pool.start(pool, b, &us, &in_time, E));
	char instance[33];
	snprintf(instance, sizeof instance, "%s", look(b).instance);
	box_pool.drop(pool, b);
	holt_box *by_hand = get(home, NAME);
	ok(holt_box_stop(by_hand, HOLT_NO_GRACE, E));
	holt_box_close(by_hand);
	b = find_box(NAME);
	holt_pool_entry e = look(b);
	ck_assert_int_eq(e.state, HOLT_POOL_STOPPED);
	ck_assert_str_eq(e.instance, instance);
	ck_assert_int_lt(clock_wall_ns() / 1000000 - (uint64_t)e.since_ms, 20000);
	fails(HOLT_ECLOSED, box_pool.hold(pool, b, &us, &in_time, &e_));
	/* Its directories are made again: they are stored with it. */
	ck_assert_int_eq(rmdir(directory), 0);
	ok(box_pool.start(pool, b, &us, &in_time, E));
	ck_assert_int_eq(access(directory, W_OK), 0);
	check_look(b, HOLT_POOL_ACTIVE);
	destroy(b);
}
END_TEST

START_TEST(only_what_is_stopped_is_discarded)
{
	void *b = started(NAME, 1);

	fails(HOLT_EBUSY, box_pool.discard(pool, b, "test", &e_));
	ok(box_pool.park(pool, b, E));
	fails(HOLT_EBUSY, box_pool.discard(pool, b, "test", &e_));
	check_look(b, HOLT_POOL_WARM);
	box_pool.drop(pool, b);
	holt_box *by_hand = get(home, NAME);
	ok(holt_box_stop(by_hand, HOLT_NO_GRACE, E));
	holt_box_close(by_hand);
	b = find_box(NAME);
	ok(box_pool.discard(pool, b, "test", E));
	fails(HOLT_ECLOSED, box_pool.look(pool, b, &(holt_pool_entry){0}, &e_));
	/* It is gone already, which is fine. */
	ok(box_pool.discard(pool, b, "test", E));
	box_pool.drop(pool, b);
	ck_assert(!is_there(NAME));
}
END_TEST

START_TEST(dropping_what_was_never_started_leaves_nothing)
{
	box_pool.drop(pool, create_as(NAME, 0));
	ck_assert(!is_there(NAME));
	box_pool.drop(pool, create_as(NAME, 1));
	ck_assert(!is_there(NAME));
	box_pool.drop(pool, NULL);
	ck_assert_uint_eq(boxes_left(), 0);
}
END_TEST

/* C-158 */
START_TEST(a_directory_that_cannot_be_leaves_nothing)
{
	for (int keep = 0; keep < 2; keep++) {
		void *b = create_as(NAME, keep);
		holt_error *error = NULL;

		const int fd = open(in("dirs"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
		ck_assert_int_ge(fd, 0);
		close(fd);
		ck_assert_int_eq(box_pool.start(pool, b, &us, &in_time, &error), -HOLT_EINVALID);
		ck_assert_str_eq(holt_error_stage(error), "directories");
		ck_assert_str_eq(holt_error_object(error), directory);
		holt_error_free(error);
		box_pool.drop(pool, b);
		ck_assert(!is_there(NAME));
		ck_assert_uint_eq(boxes_left(), 0);
		ck_assert_int_eq(unlink(in("dirs")), 0);
	}
	/* One that was there before is stopped again, with its disk. */
	void *b = started(NAME, 1);
	box_pool.drop(pool, b);
	holt_box *by_hand = get(home, NAME);
	ok(holt_box_stop(by_hand, HOLT_NO_GRACE, E));
	holt_box_close(by_hand);
	ck_assert_int_eq(rmdir(directory), 0);
	const int fd = open(directory, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	ck_assert_int_ge(fd, 0);
	close(fd);
	b = find_box(NAME);
	fails(HOLT_EINVALID, box_pool.start(pool, b, &us, &in_time, &e_));
	check_look(b, HOLT_POOL_STOPPED);
	ck_assert_int_eq(unlink(directory), 0);
	ok(box_pool.start(pool, b, &us, &in_time, E));
	destroy(b);
}
END_TEST

START_TEST(a_start_in_no_time_or_cancelled_leaves_nothing)
{
	holt_cancel *cancel = NULL;
	void *b = create_as(NAME, 0);

	fails(HOLT_ETIMEOUT, box_pool.start(pool, b, &us, &at_once, &e_));
	box_pool.drop(pool, b);
	ck_assert(!is_there(NAME));
	ok(holt_cancel_new(&cancel, E));
	holt_cancel_trigger(cancel);
	b = create_as(NAME, 1);
	const holt_call given_up = {.timeout_ms = 20000, .cancel = cancel};
	fails(HOLT_ECANCELLED, box_pool.start(pool, b, &us, &given_up, &e_));
	box_pool.drop(pool, b);
	holt_cancel_free(cancel);
	ck_assert(!is_there(NAME));
}
END_TEST

/* ---- sandboxes ---- */

static void check_runs(holt_sandbox *s)
{
	holt_command *c = NULL;
	size_t len = 0;

	ok(holt_sandbox_execute(s, "pwd; echo $WORD", NULL, &c, E));
	const char *text = holt_command_output(c, HOLT_STDOUT, &len, NULL);
	char want[160];
	snprintf(want, sizeof want, "%s\nvalue\n", work);
	ck_assert_str_eq(text, want);
	holt_command_free(c);
}

/* In whatever order they go. */
START_TEST(a_sandbox_keeps_the_box_usable)
{
	/* What the login shell of whoever runs this does is not what is tested. */
	const char *const env[] = {"WORD=value", "HOME=/nonexistent", NULL};
	holt_sandbox_options o = HOLT_SANDBOX_OPTIONS_INIT;
	holt_sandbox *s[2] = {NULL, NULL};
	void *b = started(NAME, 0);

	o.id = "abc";
	o.env = env;
	o.cwd = work;
	ok(box_pool.open(pool, b, &o, &s[0], E));
	ok(box_pool.open(pool, b, &o, &s[1], E));
	ck_assert_str_eq(holt_sandbox_id(s[0]), "abc");
	check_runs(s[0]);
	holt_sandbox_free(s[0]);
	void *other = find_box(NAME);
	box_pool.drop(pool, b);
	check_look(other, HOLT_POOL_WARM); /* although the sandbox has its connection */
	check_runs(s[1]);
	destroy(other);
	holt_command *c = NULL;
	fails(HOLT_EGUEST_LOST, holt_sandbox_execute(s[1], "true", NULL, &c, &e_));
	holt_sandbox_free(s[1]);
}
END_TEST

/* ---- several at once ---- */

struct racer {
	pthread_t thread;
	int code;
};

/* No racer ends while another starts a process: in that one ThreadSanitizer would take who has
 * ended for a thread that nobody waits for. */
static pthread_barrier_t over;

static void *race_create(void *arg)
{
	const holt_pool_wish w = {.shape = &shape, .fingerprint = "f", .directories = directories};
	struct racer *r = arg;
	void *b = NULL;

	r->code = box_pool.create(pool, NAME, &w, &b, NULL);
	if (r->code == 0)
		r->code = box_pool.start(pool, b, &us, &in_time, NULL);
	if (b)
		box_pool.drop(pool, b);
	(void)pthread_barrier_wait(&over);
	return NULL;
}

START_TEST(names_decide_who_makes_a_box)
{
	struct racer r[6];
	int made = 0;

	ck_assert_int_eq(pthread_barrier_init(&over, NULL, 6), 0);
	for (int i = 0; i < 6; i++)
		ck_assert_int_eq(pthread_create(&r[i].thread, NULL, race_create, &r[i]), 0);
	for (int i = 0; i < 6; i++) {
		(void)pthread_join(r[i].thread, NULL);
		ck_assert_msg(r[i].code == 0 || r[i].code == -HOLT_EEXISTS, "%d", r[i].code);
		made += r[i].code == 0;
	}
	ck_assert_int_eq(made, 1);
	void *b = find_box(NAME);
	check_look(b, HOLT_POOL_WARM);
	destroy(b);
}
END_TEST

static void *race_start(void *arg)
{
	struct racer *r = arg;
	void *b = NULL;

	r->code = box_pool.find(pool, NAME, &b, NULL);
	if (r->code == 0)
		r->code = box_pool.start(pool, b, &us, &in_time, NULL);
	if (r->code == 0)
		nap_ms(3000); /* the others meet it as ours */
	box_pool.drop(pool, b);
	(void)pthread_barrier_wait(&over);
	return NULL;
}

START_TEST(one_starts_a_stopped_box)
{
	struct racer r[4];
	int n = 0;
	void *b = started(NAME, 1);

	box_pool.drop(pool, b);
	holt_box *by_hand = get(home, NAME);
	ok(holt_box_stop(by_hand, HOLT_NO_GRACE, E));
	holt_box_close(by_hand);
	ck_assert_int_eq(pthread_barrier_init(&over, NULL, 4), 0);
	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(pthread_create(&r[i].thread, NULL, race_start, &r[i]), 0);
	for (int i = 0; i < 4; i++) {
		(void)pthread_join(r[i].thread, NULL);
		ck_assert_msg(r[i].code == 0 || r[i].code == -HOLT_EBUSY, "%d", r[i].code);
		n += r[i].code == 0;
	}
	ck_assert_int_eq(n, 1);
	b = find_box(NAME);
	check_look(b, HOLT_POOL_WARM);
	destroy(b);
}
END_TEST

/* Who finds a box that somebody makes gets it once that one lets it go, and never before. */
static void *hold_patiently(void *arg)
{
	struct racer *r = arg;
	void *b = find_box(NAME);

	r->code = box_pool.hold(pool, b, &them, &in_time, NULL);
	box_pool.drop(pool, b);
	return NULL;
}

START_TEST(a_hold_waits_for_the_maker)
{
	struct racer r;
	void *b = create_as(NAME, 0);

	ck_assert_int_eq(pthread_create(&r.thread, NULL, hold_patiently, &r), 0);
	void *other = find_box(NAME);
	fails(HOLT_EBUSY, box_pool.hold(pool, other, &them, &at_once, &e_));
	nap_ms(50);
	ok(box_pool.start(pool, b, &us, &in_time, E));
	nap_ms(50);
	ck_assert_str_eq(look(b).holder, "p1");
	ok(box_pool.park(pool, b, E));
	(void)pthread_join(r.thread, NULL);
	ck_assert_int_eq(r.code, 0);
	check_look(b, HOLT_POOL_WARM);
	ck_assert_str_eq(look(b).holder, "p2");
	box_pool.drop(pool, other);
	destroy(b);
}
END_TEST

static void *destroy_now(void *arg)
{
	struct racer *r = arg;

	nap_ms(20);
	r->code = box_pool.destroy(pool, *(void **)&r[1], "test", NULL);
	return NULL;
}

START_TEST(a_destruction_cuts_a_start_short)
{
	struct {
		struct racer r;
		void *box;
	} d = {.box = create_as(NAME, 0)};

	ck_assert_int_eq(pthread_create(&d.r.thread, NULL, destroy_now, &d.r), 0);
	const int r = box_pool.start(pool, d.box, &us, &in_time, NULL);
	(void)pthread_join(d.r.thread, NULL);
	ck_assert_msg(r == 0 || r == -HOLT_ECLOSED, "%d", r);
	ck_assert_int_eq(d.r.code, 0);
	box_pool.drop(pool, d.box);
	ck_assert(!is_there(NAME));
}
END_TEST

/* ---- the pool ---- */

/* C-289: threads, too, have it one after the other. */
static int inside;
static void *count_locked(void *arg)
{
	struct racer *r = arg;

	for (int i = 0; i < 20; i++) {
		void *lock = NULL;

		r->code = box_pool.lock(pool, "p", &in_time, &lock, NULL);
		if (r->code < 0 || __atomic_add_fetch(&inside, 1, __ATOMIC_SEQ_CST) != 1)
			return arg;
		sched_yield();
		(void)__atomic_sub_fetch(&inside, 1, __ATOMIC_SEQ_CST);
		box_pool.unlock(pool, lock);
	}
	return NULL;
}

START_TEST(the_lock_has_one_holder)
{
	struct racer r[4];
	void *bad = NULL;
	void *lock = NULL;
	void *other = NULL;
	holt_cancel *cancel = NULL;

	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(pthread_create(&r[i].thread, NULL, count_locked, &r[i]), 0);
	for (int i = 0; i < 4; i++) {
		(void)pthread_join(r[i].thread, &bad);
		ck_assert_ptr_null(bad);
	}
	ok(box_pool.lock(pool, "p", &at_once, &lock, E));
	fails(HOLT_ETIMEOUT, box_pool.lock(pool, "p", &at_once, &other, &e_));
	ok(holt_cancel_new(&cancel, E));
	holt_cancel_trigger(cancel);
	const holt_call given_up = {.timeout_ms = 20000, .cancel = cancel};
	fails(HOLT_ECANCELLED, box_pool.lock(pool, "p", &given_up, &other, &e_));
	holt_cancel_free(cancel);
	ok(box_pool.lock(pool, "q", &at_once, &other, E));
	box_pool.unlock(pool, other);
	box_pool.unlock(pool, lock);
	ok(box_pool.lock(pool, "p", &at_once, &lock, E));
	box_pool.unlock(pool, lock);
	box_pool.unlock(pool, NULL);
	fails(HOLT_EINVALID, box_pool.lock(pool, "../p", &at_once, &lock, &e_));
	fails(HOLT_EINVALID, box_pool.lock(pool, "", &at_once, &lock, &e_));
}
END_TEST

struct counted {
	int n, known, states[4], stop_at;
};

static int count_entry(const holt_pool_entry *e, void *user)
{
	struct counted *c = user;

	ck_assert_uint_eq(strncmp(e->name, "holt-test-", 10), 0);
	c->n++;
	c->known += e->known;
	c->states[e->state]++;
	return c->n == c->stop_at;
}

static struct counted list(void)
{
	struct counted c = {.n = 0};

	ok(box_pool.list(pool, "holt-test-", count_entry, &c, E));
	return c;
}

START_TEST(the_list_tells_all_states)
{
	void *a = started("holt-test-1", 0);
	void *b = started("holt-test-2", 0);
	void *c = create_as("holt-test-3", 1);
	holt_box *foreign = make("holt-test-4", 0, NULL);
	holt_box *outside = make("holt-other-1", 0, NULL);

	start_box(foreign, 0);
	ok(box_pool.park(pool, b, E));
	struct counted l = list();
	ck_assert_int_eq(l.n, 4);
	ck_assert_int_eq(l.known, 3);
	ck_assert_int_eq(l.states[HOLT_POOL_MAKING], 1);
	ck_assert_int_eq(l.states[HOLT_POOL_ACTIVE], 2);
	ck_assert_int_eq(l.states[HOLT_POOL_WARM], 1);
	ok(box_pool.start(pool, c, &us, &in_time, E));
	box_pool.drop(pool, c);
	holt_box *by_hand = get(home, "holt-test-3");
	ok(holt_box_stop(by_hand, HOLT_NO_GRACE, E));
	holt_box_close(by_hand);
	ck_assert_int_eq(list().states[HOLT_POOL_STOPPED], 1);
	l = (struct counted){.stop_at = 2};
	fails(HOLT_ECANCELLED, box_pool.list(pool, "holt-test-", count_entry, &l, &e_));
	ck_assert_int_eq(l.n, 2);
	holt_box_close(outside);
	holt_box_close(foreign);
	destroy(a);
	destroy(b);
	destroy(find_box("holt-test-3"));
	ck_assert_int_eq(list().n, 0);
}
END_TEST

static uint64_t us_of_list(int n)
{
	uint64_t best = UINT64_MAX;

	for (int i = 0; i < 5; i++) {
		const uint64_t start = clock_mono_us();

		ck_assert_int_eq(list().n, n);
		const uint64_t took = clock_mono_us() - start;
		best = took < best ? took : best;
	}
	return best;
}

/* Many that are stopped, of two pools. */
START_TEST(the_list_of_many_is_quick)
{
	char name[64];

	for (int i = 0; i < 2 * ENTRIES; i++) {
		const struct pool_record record = {
			.user = directory, .user_len = strlen(directory), .fingerprint = directory};
		const struct box_wish w = {.name = name,
			.memory_mib = 512,
			.cpus = 1,
			.disk_bytes = 1 << 30,
			.pool = &record};
		struct holt_box *b = NULL;

		snprintf(name, sizeof name, "holt-%s-%d", i % 2 ? "other" : "test", i);
		ok(box_create(home, "t", &w, &b, E));
		const struct box_state ended = {
			.phase = BOX_EXITED, .end = BOX_END_STOPPED, .ended_ns = clock_wall_ns()};
		ck_assert_int_eq(box_state_write(b->dir.fd, &ended), 0);
		/* As if it was kept, without waiting a thousand times for the disk. */
		b->rec.keep = true;
		holt_box_close(b);
	}
	const uint64_t took = us_of_list(ENTRIES);
	printf("a list of %d among %d takes %llu us\n", ENTRIES, 2 * ENTRIES,
		(unsigned long long)took);
	ck_assert_int_eq(list().states[HOLT_POOL_STOPPED], ENTRIES);
	ck_assert_int_eq(list().known, ENTRIES);
	ck_assert_uint_lt(took, 1000000);
}
END_TEST

START_TEST(fingerprints)
{
	char f[2][65] = {"", ""};
	holt_pool_shape s = shape;
	holt_error *error = NULL;

	ok(box_pool.fingerprint(pool, &s, f[0], E));
	ck_assert_uint_eq(strlen(f[0]), 64);
	const uint64_t start = clock_mono_us();
	ok(box_pool.fingerprint(pool, &s, f[1], E));
	ok(box_pool.fingerprint(pool, &s, f[1], E));
	printf("two fingerprints take %llu us\n", (unsigned long long)(clock_mono_us() - start));
	ck_assert_str_eq(f[0], f[1]);
	/* What is meant counts, not how it is said; the accelerator is no part. */
	s = (holt_pool_shape){.image = "t:latest",
		.memory_mib = 512,
		.cpus = 1,
		.disk_bytes = HOLT_DISK_BYTES_DEFAULT,
		.network = "open",
		.accel = "tcg"};
	ok(box_pool.fingerprint(pool, &s, f[1], E));
	ck_assert_str_eq(f[0], f[1]);
	s.memory_mib = 513;
	ok(box_pool.fingerprint(pool, &s, f[1], E));
	ck_assert_str_ne(f[0], f[1]);
	s.memory_mib = 512;
	s.cpus = 2;
	ok(box_pool.fingerprint(pool, &s, f[1], E));
	ck_assert_str_ne(f[0], f[1]);
	s.cpus = 1;
	s.disk_bytes += 1 << 20;
	ok(box_pool.fingerprint(pool, &s, f[1], E));
	ck_assert_str_ne(f[0], f[1]);
	/* Another image. */
	char command[512], tar[96];
	holt_image_import_options io = HOLT_IMAGE_IMPORT_OPTIONS_INIT;
	snprintf(tar, sizeof tar, "%s/other.tar", home_dir);
	snprintf(command, sizeof command,
		"cd %s && mkdir other && echo y >other/y && tar -C other -cf other.tar . && "
		"rm -r other",
		home_dir);
	shell(command);
	io.name = "other";
	ok(holt_image_import(home, tar, &io, NULL, E));
	s = shape;
	s.image = "other";
	ok(box_pool.fingerprint(pool, &s, f[1], E));
	ck_assert_str_ne(f[0], f[1]);
	ok(holt_image_remove(home, "other", E));
	ck_assert_int_eq(unlink(tar), 0);
	/* Another kernel. */
	s = shape;
	const int kernel = home->kernel_fd;
	home->kernel_fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	ck_assert_int_ge(home->kernel_fd, 0);
	ok(box_pool.fingerprint(pool, &s, f[1], E));
	close(home->kernel_fd);
	home->kernel_fd = kernel;
	ck_assert_str_ne(f[0], f[1]);
	/* Another pool: a box that was renamed into it is none of it. */
	s = shape;
	s.pool = "other";
	ok(box_pool.fingerprint(pool, &s, f[1], E));
	ck_assert_str_ne(f[0], f[1]);
	s = (holt_pool_shape){.image = "nobody-has-it"};
	ck_assert_int_eq(box_pool.fingerprint(pool, &s, f[1], &error), -HOLT_ENOT_FOUND);
	ck_assert_ptr_nonnull(strstr(holt_error_hint(error), "holt image import"));
	holt_error_free(error);
	s = (holt_pool_shape){.image = "t", .network = "closed"};
	fails(HOLT_EINVALID, box_pool.fingerprint(pool, &s, f[1], &e_));
	s = (holt_pool_shape){.image = "t", .memory_mib = 1};
	fails(HOLT_EINVALID, box_pool.fingerprint(pool, &s, f[1], &e_));
	s = (holt_pool_shape){.image = NULL};
	fails(HOLT_EINVALID, box_pool.fingerprint(pool, &s, f[1], &e_));
}
END_TEST

/* C-192: a box has the network that its configuration says now. */
START_TEST(fingerprints_of_networks)
{
	static const char *const one[] = {"a.example", "192.0.2.0/24:443", NULL};
	static const char *const same[] = {"192.0.2.0/24:443", "A.Example.", "a.example", NULL};
	static const char *const other[] = {"a.example", NULL};
	static const char *const bad[] = {"a..b", NULL};
	char f[2][65] = {"", ""};
	holt_pool_shape s = shape;
	holt_error *error = NULL;

	ok(box_pool.fingerprint(pool, &s, f[0], E));
	s.network = "isolated";
	ok(box_pool.fingerprint(pool, &s, f[1], E));
	ck_assert_str_ne(f[0], f[1]);
	s.network = NULL;
	s.allow = one;
	ok(box_pool.fingerprint(pool, &s, f[1], E));
	ck_assert_str_ne(f[0], f[1]);
	s.network = "allowlist";
	s.allow = same;
	ok(box_pool.fingerprint(pool, &s, f[0], E));
	ck_assert_str_eq(f[0], f[1]);
	s.allow = other;
	ok(box_pool.fingerprint(pool, &s, f[0], E));
	ck_assert_str_ne(f[0], f[1]);
	s.allow = bad;
	ck_assert_int_eq(box_pool.fingerprint(pool, &s, f[0], &error), -HOLT_EINVALID);
	holt_error_free(error);
	s.allow = one;
	s.network = "open";
	fails(HOLT_EINVALID, box_pool.fingerprint(pool, &s, f[0], &e_));
}
END_TEST

START_TEST(spares_of_other_shapes_are_refused)
{
	const holt_pool_shape s = {.image = "t", .memory_mib = 640};
	const holt_pool_wish other = {.shape = &s};
	const holt_pool_wish usual = {.shape = &shape};

	fails(HOLT_EUNSUPPORTED, box_pool.prepare(pool, &other, 1, &in_time, &e_));
	fails(HOLT_EINVALID, box_pool.prepare(pool, &usual, 1000, &in_time, &e_));
	fails(HOLT_ETIMEOUT, box_pool.prepare(pool, &other, 0, &at_once, &e_));
}
END_TEST

/* ---- what hangs ---- */

START_TEST(a_box_that_hangs_is_destroyed_in_time)
{
	for (int who = 0; who < 2; who++) {
		void *b = started(NAME, who);
		holt_box *by_hand = get(home, NAME);
		const holt_box_info info = track(by_hand);
		uint64_t start = clock_mono_ms();

		holt_box_close(by_hand);
		ck_assert_int_eq(kill(who ? info.vmm_pid : info.keeper_pid, SIGSTOP), 0);
		fails(HOLT_ETIMEOUT, box_pool.prove(pool, b, 300, &e_));
		ck_assert_uint_lt(clock_mono_ms() - start, 2000);
		/* A keeper that says nothing is not waited for as one who has the box is. */
		void *other = find_box(NAME);
		if (!who)
			fails(HOLT_ETIMEOUT, box_pool.hold(pool, other, &them, &in_time, &e_));
		ck_assert_uint_lt(clock_mono_ms() - start, 9000);
		box_pool.drop(pool, other);
		start = clock_mono_ms();
		destroy(b);
		ck_assert_uint_lt(clock_mono_ms() - start, 10000);
		ck_assert(!is_there(NAME));
	}
}
END_TEST

/* The home's events say why. */
START_TEST(a_destruction_says_why)
{
	holt_events *events = NULL;
	const char *text = NULL;
	bool told = false;
	void *b = started(NAME, 0);

	ok(holt_events_open(home, UINT64_MAX, &events, E));
	ok(box_pool.destroy(pool, b, "idle_timeout", E));
	box_pool.drop(pool, b);
	do {
		ok(holt_events_next(events, 1000, NULL, &text, E));
		told |= text && strstr(text, "\"discard\"") && strstr(text, "idle_timeout");
	} while (text);
	ck_assert(told);
	holt_events_close(events);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {a_new_box_is_held_known_and_complete,
		a_lease_holds_without_a_holder, what_is_not_there,
		a_kept_box_is_stopped_and_started_again, only_what_is_stopped_is_discarded,
		dropping_what_was_never_started_leaves_nothing,
		a_directory_that_cannot_be_leaves_nothing,
		a_start_in_no_time_or_cancelled_leaves_nothing, a_sandbox_keeps_the_box_usable,
		names_decide_who_makes_a_box, one_starts_a_stopped_box, a_hold_waits_for_the_maker,
		a_destruction_cuts_a_start_short, the_lock_has_one_holder,
		the_list_tells_all_states, the_list_of_many_is_quick, fingerprints,
		fingerprints_of_networks, spares_of_other_shapes_are_refused,
		a_box_that_hangs_is_destroyed_in_time, a_destruction_says_why};

	if (access(KERNEL_DIR, F_OK) == 0)
		setenv("HOLT_KERNEL", KERNEL_DIR, 0);
	return run_tests_in(
		"pool of boxes", pool_begin, pool_end, tests, sizeof tests / sizeof tests[0]);
}
