/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of pools of boxes that need no box: what is stored with one, what its state means, and the
 * list of the index. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "box/box_index.h"
#include "box/box_record.h"
#include "box/pool_directories.h"
#include "box/pool_entry.h"

#include "dir_fixture.h"

#define NS_PER_S UINT64_C(1000000000)

/* ---- the record ---- */

static char image_name[] = "demo";
static char host_name[] = "h";
static char fingerprint[] = "0123abc";
static char directory[] = "/mnt/user-data/\xff";

static struct box_record record_with(const struct pool_record *pool)
{
	struct box_record r = {
		.id = "abc", .image = image_name, .hostname = host_name, .pooled = pool};

	if (pool)
		r.pool = *pool;
	return r;
}

/* There and back through the text that the index stores. */
static struct box_record round_trip(const struct box_record *r)
{
	struct box_record back = {0};
	holt_error *e = NULL;
	auto_json doc = box_record_json(r);

	ck_assert_ptr_nonnull(doc);
	auto_free char *text = json_text(doc);
	const int code = box_record_parse(text, &back, &e);
	ck_assert_msg(code == 0, "%s: %s", holt_error_message(e), text);
	return back;
}

struct key {
	const char *data; /* NULL: none */
	size_t len;
};

static const struct key keys[] = {{NULL, 0}, {"", 0}, {"alice", 5}, {"a\0b", 3}, {"\0", 1},
	{"\xff\xfe", 2}, {"hex", 3}, {"\xc3\xa4", 2}, {"{\"hex\":\"00\"}", 12}};
#define N_KEYS (sizeof keys / sizeof keys[0])

static char *own(const struct key *k)
{
	char *copy = k->data ? mem_zalloc(k->len + 1) : NULL;

	if (copy)
		memcpy(copy, k->data, k->len);
	return copy;
}

static void check_key(const struct key *want, const char *data, size_t len)
{
	ck_assert_int_eq(want->data == NULL, data == NULL);
	ck_assert_uint_eq(len, want->len);
	ck_assert(!data || memcmp(data, want->data, len) == 0);
}

/* C-6: users and threads are bytes; none is another than an empty one. */
START_TEST(record_keeps_any_key)
{
	char *list[] = {directory, NULL};

	for (size_t i = 0; i < N_KEYS * N_KEYS; i++) {
		const struct key *user = &keys[i / N_KEYS];
		const struct key *thread = &keys[i % N_KEYS];
		auto_free char *u = own(user);
		auto_free char *t = own(thread);
		const struct pool_record p = {.user = u,
			.user_len = user->len,
			.thread = t,
			.thread_len = thread->len,
			.fingerprint = fingerprint,
			.directories = list,
			.owner = i % 2 ? fingerprint : NULL};
		const struct box_record r = record_with(&p);
		struct box_record back = round_trip(&r);

		ck_assert(back.pooled);
		check_key(user, back.pool.user, back.pool.user_len);
		check_key(thread, back.pool.thread, back.pool.thread_len);
		ck_assert_str_eq(back.pool.fingerprint, fingerprint);
		ck_assert_str_eq(back.pool.directories[0], directory);
		ck_assert_ptr_null(back.pool.directories[1]);
		ck_assert_ptr_null(back.pool.accel);
		ck_assert_pstr_eq(back.pool.owner, p.owner);
		box_record_done(&back);
	}
}
END_TEST

START_TEST(record_of_no_pool)
{
	const struct box_record r = record_with(NULL);
	struct box_record back = round_trip(&r);

	ck_assert(!back.pooled);
	ck_assert_ptr_null(back.pool.user);
	box_record_done(&back);
}
END_TEST

START_TEST(record_that_is_wrong)
{
	static const char *const wrong[] = {"{}", "{\"fingerprint\": 1}",
		"{\"fingerprint\": \"f\", \"user\": 7}",
		"{\"fingerprint\": \"f\", \"thread\": {\"hex\": \"0\"}}",
		"{\"fingerprint\": \"f\", \"directories\": \"x\"}"};

	for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
		struct pool_record p = {0};
		holt_error *e = NULL;
		auto_json doc = NULL;

		ck_assert_int_eq(
			json_parse(wrong[i], strlen(wrong[i]), 1000, "text", &doc, NULL), 0);
		ck_assert_int_eq(pool_record_parse(doc, &p, &e), -HOLT_EINVALID);
		ck_assert_ptr_null(p.fingerprint);
		holt_error_free(e);
	}
}
END_TEST

/* Each allocation may be the one that fails; what is left is told by the sanitizers. */
START_TEST(record_without_memory)
{
	char *list[] = {directory, NULL};
	char user[] = "u";
	const struct pool_record p = {
		.user = user, .user_len = 1, .fingerprint = fingerprint, .directories = list};
	unsigned long nth = 0;
	int r;

	do {
		struct pool_record copy = {0};
		holt_error *e = NULL;

		mem_fail_at(++nth);
		r = pool_record_copy(&p, &copy, &e);
		mem_fail_at(0);
		ck_assert(r == 0 || r == -HOLT_ENO_MEMORY);
		pool_record_done(&copy);
		holt_error_free(e);
	} while (r < 0);
	ck_assert_uint_gt(nth, 3);
}
END_TEST

/* ---- the state ---- */

static void check_state(enum box_phase phase, enum box_lease lease, bool pooled, int want)
{
	const struct box_state s = {.phase = phase,
		.lease = lease,
		.started_ns = clock_wall_ns() - 60 * NS_PER_S,
		.ready_us = 1000};

	ck_assert_msg(pool_state_of(&s, pooled) == want, "phase %d lease %d pooled %d: %d, not %d",
		phase, lease, pooled, pool_state_of(&s, pooled), want);
}

START_TEST(states)
{
	check_state(BOX_CREATED, BOX_LEASE_NONE, true, HOLT_POOL_STOPPED);
	check_state(BOX_EXITED, BOX_LEASE_WARM, true, HOLT_POOL_STOPPED);
	check_state(BOX_STARTING, BOX_LEASE_NONE, true, HOLT_POOL_MAKING);
	check_state(BOX_RUNNING, BOX_LEASE_HELD, true, HOLT_POOL_ACTIVE);
	check_state(BOX_RUNNING, BOX_LEASE_WARM, true, HOLT_POOL_WARM);
	check_state(BOX_PAUSED, BOX_LEASE_WARM, true, HOLT_POOL_WARM);
	check_state(BOX_STOPPING, BOX_LEASE_HELD, true, HOLT_POOL_ACTIVE);
	/* Started by hand long ago: anybody may have it. */
	check_state(BOX_RUNNING, BOX_LEASE_NONE, true, HOLT_POOL_WARM);
	check_state(BOX_RUNNING, BOX_LEASE_NONE, false, HOLT_POOL_ACTIVE);
	/* Its maker is about to hold it. */
	const struct box_state fresh = {
		.phase = BOX_RUNNING, .started_ns = clock_wall_ns(), .ready_us = 1000};
	ck_assert_int_eq(pool_state_of(&fresh, true), HOLT_POOL_MAKING);
}
END_TEST

START_TEST(entries)
{
	char user[] = "u";
	const struct pool_record p = {.user = user, .user_len = 1, .fingerprint = fingerprint};
	struct pool_facts f = {.id = "id", .name = "n", .created_ns = INT64_C(3000000), .pool = &p};
	struct box_state s = {.phase = BOX_RUNNING,
		.lease = BOX_LEASE_HELD,
		.lease_ns = UINT64_C(5000000),
		.lease_until_ns = UINT64_C(9000000),
		.holder = "h",
		.holder_label = "process 1"};
	holt_pool_entry e;

	pool_entry_fill(&s, &f, &e);
	ck_assert_int_eq(e.known, 1);
	ck_assert_int_eq(e.since_ms, 5);
	ck_assert_int_eq(e.lease_until_ms, 9);
	ck_assert_str_eq(e.holder, "h");
	ck_assert_ptr_null(e.thread);
	/* It waits since it was parked, not since its start. */
	s.lease = BOX_LEASE_WARM;
	s.started_ns = UINT64_C(4000000);
	pool_entry_fill(&s, &f, &e);
	ck_assert_int_eq(e.state, HOLT_POOL_WARM);
	ck_assert_int_eq(e.since_ms, 5);
	/* One that never ran is as old as it is. */
	s = (struct box_state){.phase = BOX_CREATED};
	f.pool = NULL;
	pool_entry_fill(&s, &f, &e);
	ck_assert_int_eq(e.known, 0);
	ck_assert_int_eq(e.since_ms, 3);
	ck_assert_str_eq(e.fingerprint, "");
	s = (struct box_state){.phase = BOX_EXITED, .ended_ns = UINT64_C(7000000)};
	pool_entry_fill(&s, &f, &e);
	ck_assert_int_eq(e.since_ms, 7);
}
END_TEST

/* ---- the index ---- */

static void add(struct box_index *x, const char *id, const char *name, const char *record)
{
	struct box_entry e = {
		.id = str_dup(id), .name = name ? str_dup(name) : NULL, .record = str_dup(record)};
	char *holder = NULL;

	ck_assert_int_eq(box_index_add(x, &e, 42, false, &holder, NULL), 0);
	box_entry_done(&e);
}

/* The names that begin so, with the parts of their records. */
static const char *listed(struct box_index *x, const char *prefix)
{
	static char text[512];
	struct box_index_pool *list = NULL;
	size_t n = 0;

	text[0] = 0;
	ck_assert_int_eq(box_index_list_pool(x, prefix, &list, &n, NULL), 0);
	for (size_t i = 0; i < n; i++) {
		const size_t len = strlen(text);
		snprintf(text + len, sizeof text - len, "%s=%s ", list[i].entry.name,
			list[i].entry.record ? list[i].entry.record : "-");
		ck_assert_int_eq(list[i].created_ns, 42);
		box_entry_done(&list[i].entry);
	}
	mem_free(list);
	return text;
}

START_TEST(index_lists_by_prefix)
{
	struct box_index *x = NULL;

	ck_assert_int_eq(box_index_open(in_dir("boxes.db"), &x, NULL), 0);
	add(x, "1", "holt-a-1", "{\"pool\":{\"fingerprint\":\"f\"},\"id\":\"1\"}");
	add(x, "2", "holt-a-2", "{}");
	add(x, "3", "holt-a", "{}");
	add(x, "4", "holt-b-1", "{}");
	add(x, "5", NULL, "{}");
	add(x, "6", "holt-a-", "no json");
	add(x, "7", "Holt-a-1", "{}");
	add(x, "8", "holt-a-z", "{\"pool\": null}");
	ck_assert_str_eq(listed(x, "holt-a-"),
		"holt-a-=- holt-a-1={\"fingerprint\":\"f\"} holt-a-2=- holt-a-z=- ");
	ck_assert_str_eq(listed(x, "holt-c"), "");
	ck_assert_str_eq(listed(x, "holt-%"), "");
	box_index_close(x);
}
END_TEST

/* ---- directories of a template ---- */

START_TEST(directories_travel_to_a_keeper)
{
	static const char *const list[] = {"/mnt/a b", "/mnt/\xff", NULL};
	struct keeper_spec spec = {.role = KEEPER_TEMPLATE,
		.id = "abc",
		.memory_mib = 1,
		.cpus = 1,
		.stop_signal = 15,
		.log_bytes = 1,
		.disk_bytes = 1,
		.boot_timeout_ms = 1};
	struct keeper_spec back;
	int pipe_fds[2];

	for (int filled = 0; filled < 2; filled++) {
		if (filled)
			pool_directories_fill(list, "\xffme:us", &spec.directories);
		ck_assert_int_eq(pipe(pipe_fds), 0);
		ck_assert_int_eq(keeper_spec_write(&spec, pipe_fds[1], NULL), 0);
		ck_assert_int_eq(keeper_spec_read(pipe_fds[0], &back, NULL), 0);
		ck_assert_uint_eq(back.directories.n, filled ? 2 : 0);
		ck_assert_uint_eq(back.directories.len, spec.directories.len);
		ck_assert_mem_eq(back.directories.paths, spec.directories.paths,
			sizeof back.directories.paths);
		ck_assert_str_eq(back.directories.owner, filled ? "\xffme:us" : "");
		keeper_spec_done(&back);
		close(pipe_fds[0]);
		close(pipe_fds[1]);
	}
}
END_TEST

/* They are made in each box then. */
START_TEST(too_many_directories_are_none_of_a_template)
{
	static char name[sizeof((struct keeper_directories *)0)->paths];
	static char owner[sizeof((struct keeper_directories *)0)->owner + 1];
	const char *list[] = {"/", name, NULL};
	struct keeper_directories d;

	memset(name, 'x', sizeof name - 3);
	pool_directories_fill(list, "me", &d);
	ck_assert_uint_eq(d.n, 2);
	ck_assert_uint_eq(d.len, sizeof d.paths);
	name[sizeof name - 3] = 'x';
	pool_directories_fill(list, "me", &d);
	ck_assert_uint_eq(d.n, 0);
	memset(owner, 'x', sizeof owner - 1);
	list[1] = NULL;
	pool_directories_fill(list, owner, &d);
	ck_assert_uint_eq(d.n, 0);
	pool_directories_fill(NULL, "me", &d);
	ck_assert_uint_eq(d.n, 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("pool parts");
	TCase *t = tcase_create("pool parts");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, record_keeps_any_key);
	tcase_add_test(t, record_of_no_pool);
	tcase_add_test(t, record_that_is_wrong);
	tcase_add_test(t, record_without_memory);
	tcase_add_test(t, states);
	tcase_add_test(t, entries);
	tcase_add_test(t, index_lists_by_prefix);
	tcase_add_test(t, directories_travel_to_a_keeper);
	tcase_add_test(t, too_many_directories_are_none_of_a_template);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	const int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
