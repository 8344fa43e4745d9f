/* SPDX-License-Identifier: Apache-2.0 */
/* The index of the boxes of a home, and SQLite as the indexes use it. */
#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/db.h"
#include "base/fsutil.h"
#include "base/mem.h"
#include "base/str.h"
#include "box/box_index.h"

#include "dir_fixture.h"

#define ENTRIES   1000
#define PROCESSES 4
#define ADDS      25

/* ---- the index ---- */

static struct box_index *open_index(void)
{
	struct box_index *x = NULL;
	holt_error *e = NULL;

	const int r = box_index_open(in_dir("boxes.db"), &x, &e);
	ck_assert_msg(r == 0, "%s", holt_error_message(e));
	return x;
}

static int add(struct box_index *x, const char *id, const char *name, int64_t created, bool keep,
	char **holder)
{
	struct box_entry e = {
		.id = str_dup(id), .name = name ? str_dup(name) : NULL, .record = str_dup("{}")};
	const int r = box_index_add(x, &e, created, keep, holder, NULL);

	box_entry_done(&e);
	return r;
}

/* The id that a reference stands for, or the code. */
static const char *find(struct box_index *x, const char *ref)
{
	static char id[64];
	struct box_entry e = {0};
	const int r = box_index_find(x, ref, &e, NULL);

	snprintf(id, sizeof id, "%s", e.id ? e.id : r == -HOLT_EINVALID ? "many" : "none");
	ck_assert_int_eq(r == 0, e.id != NULL);
	box_entry_done(&e);
	return id;
}

START_TEST(index_finds_names_and_beginnings)
{
	static const char *const nothing[] = {"", "*", "[a", "a*", "[a-f]*", "?", "aab1%", "AAB1",
		"aab1*", "-", "-*", "aa0", "aab10", "web%", "we", "web ", "' OR 1=1 --", "\xff"};
	struct box_index *x = open_index();
	char *holder = NULL;

	ck_assert_int_eq(add(x, "aab1", "web", 1, true, &holder), 0);
	ck_assert_int_eq(add(x, "aab2", NULL, 2, false, &holder), 0);
	ck_assert_int_eq(add(x, "bcde", "aab", 3, true, &holder), 0);
	ck_assert_int_eq(add(x, "ffff", "bcde", 4, true, &holder), 0);
	ck_assert_int_eq(add(x, "fff", NULL, 5, true, &holder), 0);
	for (size_t i = 0; i < sizeof nothing / sizeof nothing[0]; i++)
		ck_assert_msg(strcmp(find(x, nothing[i]), "none") == 0, "'%s'", nothing[i]);
	ck_assert_str_eq(find(x, "web"), "aab1");
	ck_assert_str_eq(find(x, "aab1"), "aab1");
	ck_assert_str_eq(find(x, "aa"), "many");
	ck_assert_str_eq(find(x, "a"), "many");
	ck_assert_str_eq(find(x, "b"), "bcde");
	/* A name beats the beginning of an id and an id; an id beats the beginning of another. */
	ck_assert_str_eq(find(x, "aab"), "bcde");
	ck_assert_str_eq(find(x, "bcde"), "ffff");
	ck_assert_str_eq(find(x, "fff"), "fff");
	ck_assert_str_eq(find(x, "ff"), "many");
	/* Names are unique, and who holds one is told. */
	ck_assert_int_eq(add(x, "1111", "web", 6, true, &holder), -HOLT_EEXISTS);
	ck_assert_str_eq(holder, "aab1");
	mem_free(holder);
	holder = NULL;
	ck_assert_int_eq(box_index_rename(x, "aab2", "web", &holder, NULL), -HOLT_EEXISTS);
	ck_assert_str_eq(holder, "aab1");
	mem_free(holder);
	holder = NULL;
	ck_assert_int_eq(box_index_rename(x, "none", "new", &holder, NULL), -HOLT_ENOT_FOUND);
	ck_assert_int_eq(box_index_rename(x, "aab1", "web", &holder, NULL), 0);
	ck_assert_int_eq(box_index_rename(x, "aab1", "web2", &holder, NULL), 0);
	ck_assert_int_eq(box_index_rename(x, "aab2", "web", &holder, NULL), 0);
	ck_assert_str_eq(find(x, "web"), "aab2");
	ck_assert_int_eq(box_index_remove(x, "aab2", NULL), 0);
	ck_assert_int_eq(box_index_remove(x, "aab2", NULL), 0);
	ck_assert_str_eq(find(x, "web"), "none");
	box_index_close(x);
}
END_TEST

START_TEST(index_lists_1000_newest_first)
{
	struct box_index *x = open_index();
	struct box_entry *list = NULL;
	char *holder = NULL, **kept = NULL, id[20];
	size_t n = 0;
	bool there = false, keep = false;

	for (int i = 0; i < ENTRIES; i++) {
		snprintf(id, sizeof id, "%04x", i);
		ck_assert_int_eq(add(x, id, NULL, i, i % 2, &holder), 0);
	}
	ck_assert_int_eq(box_index_list(x, &list, &n, NULL), 0);
	ck_assert_uint_eq(n, ENTRIES);
	for (int i = 0; i < ENTRIES; i++) {
		snprintf(id, sizeof id, "%04x", ENTRIES - 1 - i);
		ck_assert_str_eq(list[i].id, id);
		box_entry_done(&list[i]);
	}
	mem_free(list);
	for (int k = 0; k < 2; k++) {
		ck_assert_int_eq(box_index_kept(x, k, &kept, NULL), 0);
		ck_assert_uint_eq(strv_len((const char *const *)kept), ENTRIES / 2);
		for (int i = 0; kept[i + 1]; i++)
			ck_assert_int_lt(strcmp(kept[i], kept[i + 1]), 0);
		strv_free(kept);
	}
	ck_assert_int_eq(box_index_look(x, "0001", &there, &keep, NULL), 0);
	ck_assert(there && keep);
	ck_assert_int_eq(box_index_look(x, "0002", &there, &keep, NULL), 0);
	ck_assert(there && !keep);
	ck_assert_int_eq(box_index_look(x, "ffff", &there, &keep, NULL), 0);
	ck_assert(!there && !keep);
	box_index_close(x);
}
END_TEST

START_TEST(index_without_memory)
{
	struct box_index *x = open_index();
	struct box_entry *list = NULL, e = {0};
	char *holder = NULL, **kept = NULL;
	size_t n = 0;

	for (int i = 0; i < 40; i++) {
		char id[8];

		snprintf(id, sizeof id, "%04x", i);
		ck_assert_int_eq(add(x, id, i ? NULL : "n", i, true, &holder), 0);
	}
	for (int what = 0; what < 3; what++) {
		for (unsigned long k = 1;; k++) {
			mem_fail_at(k);
			const int r = what == 0   ? box_index_list(x, &list, &n, NULL)
				      : what == 1 ? box_index_kept(x, true, &kept, NULL)
						  : box_index_find(x, "n", &e, NULL);
			mem_fail_at(0);
			if (r == 0)
				break;
			ck_assert_int_eq(r, -HOLT_ENO_MEMORY);
		}
	}
	while (n > 0)
		box_entry_done(&list[--n]);
	mem_free(list);
	strv_free(kept);
	box_entry_done(&e);
	box_index_close(x);
}
END_TEST

/* Every process wants the same names; each has one winner. */
static void add_names(int number)
{
	struct box_index *x = open_index();

	for (int i = 0; i < ADDS; i++) {
		char id[20], name[20], *holder = NULL;

		snprintf(id, sizeof id, "%02x%02x", number, i);
		snprintf(name, sizeof name, "n%d", i);
		const int r = add(x, id, name, i, true, &holder);
		if (r != 0 && (r != -HOLT_EEXISTS || !holder))
			_exit(1);
		mem_free(holder);
	}
	box_index_close(x);
	_exit(0);
}

START_TEST(index_is_shared_by_processes)
{
	pid_t pids[PROCESSES];
	struct box_entry *list = NULL;
	size_t n = 0;
	int status;

	for (int i = 0; i < PROCESSES; i++) {
		pids[i] = fork();
		if (pids[i] == 0)
			add_names(i);
	}
	for (int i = 0; i < PROCESSES; i++) {
		ck_assert_int_eq(waitpid(pids[i], &status, 0), pids[i]);
		ck_assert_int_eq(status, 0);
	}
	struct box_index *x = open_index();
	ck_assert_int_eq(box_index_list(x, &list, &n, NULL), 0);
	ck_assert_uint_eq(n, ADDS);
	while (n > 0)
		box_entry_done(&list[--n]);
	mem_free(list);
	box_index_close(x);
}
END_TEST

/* ---- SQLite ---- */

static const char schema[] =
	"CREATE TABLE t (k TEXT PRIMARY KEY, v TEXT); PRAGMA user_version = 3;";

START_TEST(db_has_versions)
{
	struct db db;
	holt_error *e = NULL;
	int64_t n = 0;
	const char *const row[] = {"a", NULL};

	ck_assert_int_eq(db_open(&db, in_dir("x.db"), "test index", schema, 3, NULL), 0);
	ck_assert_int_eq(db_run(&db, "INSERT INTO t VALUES (?, ?)", 2, row, NULL), 0);
	ck_assert_int_eq(db_run(&db, "INSERT INTO t VALUES (?, ?)", 2, row, &e), -HOLT_EIO);
	ck_assert_ptr_nonnull(strstr(holt_error_message(e), "test index"));
	holt_error_free(e);
	e = NULL;
	ck_assert_int_eq(
		db_ask(&db, "SELECT count(*) FROM t WHERE v IS NULL", 0, NULL, &n, NULL), 0);
	ck_assert_int_eq(n, 1);
	ck_assert_int_lt(db_ask(&db, "SELECT 1 WHERE 0", 0, NULL, &n, NULL), 0);
	ck_assert_int_lt(db_run(&db, "NONSENSE", 0, NULL, NULL), 0);
	db_close(&db);
	/* The same again, an older one, and a newer one. */
	ck_assert_int_eq(db_open(&db, in_dir("x.db"), "test index", schema, 4, NULL), 0);
	db_close(&db);
	ck_assert_int_eq(
		db_open(&db, in_dir("x.db"), "test index", schema, 2, &e), -HOLT_EUNSUPPORTED);
	ck_assert_str_ne(holt_error_hint(e), "");
	holt_error_free(e);
}
END_TEST

START_TEST(db_transactions)
{
	struct db db;
	int64_t n = -1;

	ck_assert_int_eq(db_open(&db, in_dir("x.db"), "test index", schema, 3, NULL), 0);
	db_rollback(&db);
	ck_assert_int_eq(db_begin(&db, NULL), 0);
	ck_assert_int_eq(db_run(&db, "INSERT INTO t VALUES ('a', 'b')", 0, NULL, NULL), 0);
	db_rollback(&db);
	ck_assert_int_eq(db_ask(&db, "SELECT count(*) FROM t", 0, NULL, &n, NULL), 0);
	ck_assert_int_eq(n, 0);
	ck_assert_int_eq(db_begin(&db, NULL), 0);
	ck_assert_int_lt(db_begin(&db, NULL), 0);
	ck_assert_int_eq(db_run(&db, "INSERT INTO t VALUES ('a', 'b')", 0, NULL, NULL), 0);
	ck_assert_int_eq(db_commit(&db, NULL), 0);
	ck_assert_int_eq(db_ask(&db, "SELECT count(*) FROM t", 0, NULL, &n, NULL), 0);
	ck_assert_int_eq(n, 1);
	db_close(&db);
	db_close(&db);
}
END_TEST

START_TEST(db_that_is_none)
{
	struct db db;
	holt_error *e = NULL;
	char noise[4096];

	memset(noise, 'x', sizeof noise);
	put_file(dir_fd, "x.db", noise, sizeof noise);
	ck_assert_int_eq(db_open(&db, in_dir("x.db"), "test index", schema, 3, &e), -HOLT_EIO);
	ck_assert_ptr_nonnull(strstr(holt_error_message(e), "damaged"));
	holt_error_free(e);
	e = NULL;
	ck_assert_int_eq(
		db_open(&db, in_dir("no/such.db"), "test index", schema, 3, &e), -HOLT_EDENIED);
	holt_error_free(e);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {index_finds_names_and_beginnings,
		index_lists_1000_newest_first, index_without_memory, index_is_shared_by_processes,
		db_has_versions, db_transactions, db_that_is_none};
	Suite *s = suite_create("box index");
	TCase *c = tcase_create("box index");

	tcase_add_checked_fixture(c, setup, teardown);
	tcase_set_timeout(c, 60);
	for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++)
		tcase_add_test(c, tests[i]);
	suite_add_tcase(s, c);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	const int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
