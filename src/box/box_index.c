/* SPDX-License-Identifier: Apache-2.0 */
#include "box/box_index.h"

#include <pthread.h>
#include <string.h>

#include "base/db.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/banned.h"

#define BOX_INDEX_VERSION 1
#define BOXES_MAX         100000 /* rows of one listing */

/*
 * A box that is kept is on the disk before its maker is told. What else is written need not be:
 * after a power cut nothing runs, so a box that is not kept may as well have no entry, and an entry
 * that has come back without its directory is what the sweep removes.
 */
struct box_index {
	pthread_mutex_t lock; /* one statement at a time */
	struct db db;
};

static const char schema[] = "CREATE TABLE boxes ("
			     " id TEXT PRIMARY KEY NOT NULL,"
			     " name TEXT UNIQUE,"
			     " created_ns INTEGER NOT NULL,"
			     " keep INTEGER NOT NULL,"
			     " record TEXT NOT NULL) WITHOUT ROWID;"
			     "PRAGMA user_version = 1;";

static void lock(struct box_index *x)
{
	(void)pthread_mutex_lock(&x->lock);
}

static int unlock(struct box_index *x, int code)
{
	(void)pthread_mutex_unlock(&x->lock);
	return code;
}

int box_index_open(const char *path, struct box_index **ret, holt_error **reterr)
{
	struct box_index *x = mem_zalloc(sizeof *x);

	if (!x)
		return err_nomem(reterr);
	const int code = db_open(&x->db, path, "box index", schema, BOX_INDEX_VERSION, reterr);
	if (code < 0) {
		mem_free(x);
		return code;
	}
	(void)pthread_mutex_init(&x->lock, NULL);
	*ret = x;
	return 0;
}

void box_index_close(struct box_index *x)
{
	if (!x)
		return;
	db_close(&x->db);
	(void)pthread_mutex_destroy(&x->lock);
	mem_free(x);
}

void box_entry_done(struct box_entry *e)
{
	mem_free(e->id);
	mem_free(e->name);
	mem_free(e->record);
	*e = (struct box_entry){0};
}

/* ---- changing ---- */

/* A name that is taken is the only constraint that can fail. */
static int taken(struct box_index *x, const char *name, char **ret_holder, holt_error **reterr)
{
	auto_stmt stmt = NULL;
	int code = db_prepare(
		&x->db, &stmt, reterr, "SELECT id FROM boxes WHERE name = ?", 1, &name);

	if (code < 0)
		return code;
	if (sqlite3_step(stmt) == SQLITE_ROW)
		*ret_holder = db_column_dup(stmt, 0);
	code = err_make(reterr, HOLT_EEXISTS, "the name '%s' is in use by box %s", name,
		*ret_holder ? *ret_holder : "?");
	err_hint(reterr, "choose another name, or remove that box with 'holt rm %s'", name);
	return code;
}

static int step(struct box_index *x, sqlite3_stmt *stmt, const char *name, char **ret_holder,
	holt_error **reterr)
{
	const int rc = sqlite3_step(stmt);

	if (rc == SQLITE_DONE)
		return 0;
	return (rc & 0xff) == SQLITE_CONSTRAINT ? taken(x, name, ret_holder, reterr)
						: db_fail(&x->db, rc, reterr);
}

int box_index_add(struct box_index *x, const struct box_entry *e, int64_t created_ns, bool keep,
	char **ret_holder, holt_error **reterr)
{
	const char *const texts[] = {e->id, e->name, e->record};
	auto_stmt stmt = NULL;

	lock(x);
	int code = db_set_lazy(&x->db, !keep, reterr);
	if (code == 0)
		code = db_prepare(&x->db, &stmt, reterr,
			"INSERT INTO boxes (id, name, record, created_ns, keep) VALUES (?, ?, ?, "
			"?, ?)",
			3, texts);
	if (code == 0) {
		int rc = sqlite3_bind_int64(stmt, 4, created_ns);
		if (rc == SQLITE_OK)
			rc = sqlite3_bind_int(stmt, 5, keep);
		code = rc == SQLITE_OK ? step(x, stmt, e->name, ret_holder, reterr)
				       : db_fail(&x->db, rc, reterr);
	}
	return unlock(x, code);
}

int box_index_rename(struct box_index *x, const char *id, const char *name, char **ret_holder,
	holt_error **reterr)
{
	const char *const texts[] = {name, id};
	auto_stmt stmt = NULL;

	lock(x);
	int code = db_set_lazy(&x->db, false, reterr);
	if (code == 0)
		code = db_prepare(
			&x->db, &stmt, reterr, "UPDATE boxes SET name = ? WHERE id = ?", 2, texts);
	if (code == 0)
		code = step(x, stmt, name, ret_holder, reterr);
	if (code == 0 && sqlite3_changes(x->db.handle) == 0)
		code = err_make(reterr, HOLT_ENOT_FOUND, "the box is removed");
	return unlock(x, code);
}

int box_index_remove(struct box_index *x, const char *id, holt_error **reterr)
{
	lock(x);
	int code = db_set_lazy(&x->db, true, reterr);
	if (code == 0)
		code = db_run(&x->db, "DELETE FROM boxes WHERE id = ?", 1, &id, reterr);
	return unlock(x, code);
}

/* ---- reading ---- */

static int read_entry(sqlite3_stmt *stmt, struct box_entry *ret, holt_error **reterr)
{
	struct box_entry e = {.id = db_column_dup(stmt, 0),
		.name = db_column_dup(stmt, 1),
		.record = db_column_dup(stmt, 2)};

	if (!e.id || !e.record || (!e.name && sqlite3_column_type(stmt, 1) != SQLITE_NULL)) {
		box_entry_done(&e);
		return err_nomem(reterr);
	}
	*ret = e;
	return 0;
}

static int no_such(const char *ref, holt_error **reterr)
{
	const int code = err_make(reterr, HOLT_ENOT_FOUND, "no box is called '%s'", ref);

	err_hint(reterr, "'holt ps -a' lists all boxes");
	return code;
}

/* The first row; a second one that is no exact match of the id or name makes it ambiguous. */
static int find_locked(
	struct box_index *x, const char *ref, struct box_entry *ret, holt_error **reterr)
{
	const bool hex = strspn(ref, "0123456789abcdef") == strlen(ref);
	auto_free char *pattern = str_printf("%s*", hex ? ref : "-");
	auto_stmt stmt = NULL;

	if (!pattern)
		return err_nomem(reterr);
	if (!*ref)
		return no_such(ref, reterr);
	const char *const texts[] = {ref, pattern};
	int code = db_prepare(&x->db, &stmt, reterr,
		"SELECT id, name, record, (name IS ?1) * 2 + (id = ?1) AS exact FROM boxes"
		" WHERE name = ?1 OR id GLOB ?2 ORDER BY exact DESC LIMIT 2",
		2, texts);
	if (code < 0)
		return code;
	int rc = sqlite3_step(stmt);
	if (rc == SQLITE_DONE)
		return no_such(ref, reterr);
	if (rc != SQLITE_ROW)
		return db_fail(&x->db, rc, reterr);
	const bool exact = sqlite3_column_int(stmt, 3) > 0;
	code = read_entry(stmt, ret, reterr);
	if (code < 0 || exact || sqlite3_step(stmt) != SQLITE_ROW)
		return code;
	box_entry_done(ret);
	code = err_make(reterr, HOLT_EINVALID, "more than one box's id begins with '%s'", ref);
	err_hint(reterr, "give more digits of the id");
	return code;
}

int box_index_find(struct box_index *x, const char *ref, struct box_entry *ret, holt_error **reterr)
{
	lock(x);
	return unlock(x, find_locked(x, ref, ret, reterr));
}

static int list_locked(
	struct box_index *x, struct box_entry **ret, size_t *ret_n, holt_error **reterr)
{
	struct box_entry *list = NULL;
	size_t n = 0;
	size_t cap = 0;
	auto_stmt stmt = NULL;
	int code = db_prepare(&x->db, &stmt, reterr,
		"SELECT id, name, record FROM boxes ORDER BY created_ns DESC, id", 0, NULL);

	while (code == 0 && n < BOXES_MAX) {
		const int rc = sqlite3_step(stmt);
		if (rc == SQLITE_DONE)
			break;
		if (rc != SQLITE_ROW) {
			code = db_fail(&x->db, rc, reterr);
			break;
		}
		if (n == cap) {
			struct box_entry *more = mem_resize(list, cap ? 2 * cap : 32, sizeof *list);
			if (!more) {
				code = err_nomem(reterr);
				break;
			}
			list = more;
			cap = cap ? 2 * cap : 32;
		}
		code = read_entry(stmt, &list[n], reterr);
		n += code == 0;
	}
	if (code == 0) {
		*ret = list;
		*ret_n = n;
		return 0;
	}
	while (n > 0)
		box_entry_done(&list[--n]);
	mem_free(list);
	return code;
}

int box_index_list(struct box_index *x, struct box_entry **ret, size_t *ret_n, holt_error **reterr)
{
	lock(x);
	return unlock(x, list_locked(x, ret, ret_n, reterr));
}

/* SQLite takes the part out, so that all else in the records need not be parsed. A record that is
 * no JSON has none. */
static const char list_pool[] =
	"SELECT id, name, CASE WHEN json_valid(record) THEN json_extract(record, '$.pool') END,"
	" created_ns FROM boxes WHERE name >= ?1 AND substr(name, 1, length(?1)) = ?1"
	" AND name < ?1 || char(1114111) ORDER BY name";

static int pool_row(sqlite3_stmt *stmt, struct box_index_pool *ret, holt_error **reterr)
{
	struct box_entry e = {.id = db_column_dup(stmt, 0),
		.name = db_column_dup(stmt, 1),
		.record = db_column_dup(stmt, 2)};

	if (!e.id || !e.name || (!e.record && sqlite3_column_type(stmt, 2) != SQLITE_NULL)) {
		box_entry_done(&e);
		return err_nomem(reterr);
	}
	*ret = (struct box_index_pool){.entry = e, .created_ns = sqlite3_column_int64(stmt, 3)};
	return 0;
}

static int list_pool_locked(struct box_index *x, const char *prefix, struct box_index_pool **list,
	size_t *n, holt_error **reterr)
{
	auto_stmt stmt = NULL;
	int code = db_prepare(&x->db, &stmt, reterr, list_pool, 1, &prefix);

	while (code == 0 && *n < BOXES_MAX) {
		const int rc = sqlite3_step(stmt);
		if (rc == SQLITE_DONE)
			break;
		if (rc != SQLITE_ROW)
			return db_fail(&x->db, rc, reterr);
		/* Room for twice as many each time it is a power of two. */
		if ((*n & (*n - 1)) == 0) {
			struct box_index_pool *more = mem_resize(
				*list, *n ? 2 * *n : 1, sizeof *more);
			if (!more)
				return err_nomem(reterr);
			*list = more;
		}
		code = pool_row(stmt, &(*list)[*n], reterr);
		*n += code == 0;
	}
	return code;
}

int box_index_list_pool(struct box_index *x, const char *prefix, struct box_index_pool **ret,
	size_t *ret_n, holt_error **reterr)
{
	struct box_index_pool *list = NULL;
	size_t n = 0;

	lock(x);
	const int code = unlock(x, list_pool_locked(x, prefix, &list, &n, reterr));
	if (code == 0) {
		*ret = list;
		*ret_n = n;
		return 0;
	}
	while (n > 0)
		box_entry_done(&list[--n].entry);
	mem_free(list);
	return code;
}

int box_index_look(
	struct box_index *x, const char *id, bool *ret_there, bool *ret_keep, holt_error **reterr)
{
	int64_t keep = -1;

	lock(x);
	const int code = db_ask(&x->db,
		"SELECT coalesce((SELECT keep FROM boxes WHERE id = ?), -1)", 1, &id, &keep,
		reterr);
	*ret_there = keep >= 0;
	*ret_keep = keep > 0;
	return unlock(x, code);
}

static int ids_locked(struct box_index *x, const char *sql, char ***ret, holt_error **reterr)
{
	char **list = mem_array(1, sizeof *list);
	size_t n = 0;
	auto_stmt stmt = NULL;
	int code = list ? db_prepare(&x->db, &stmt, reterr, sql, 0, NULL) : err_nomem(reterr);

	while (code == 0) {
		const int rc = sqlite3_step(stmt);
		if (rc == SQLITE_DONE)
			break;
		if (rc != SQLITE_ROW) {
			code = db_fail(&x->db, rc, reterr);
			break;
		}
		char **more = mem_resize(list, n + 2, sizeof *list);
		char *id = db_column_dup(stmt, 0);
		if (more)
			list = more;
		if (!more || !id) {
			mem_free(id);
			code = err_nomem(reterr);
			break;
		}
		list[n++] = id;
		list[n] = NULL;
	}
	if (code < 0)
		strv_free(list);
	else
		*ret = list;
	return code;
}

int box_index_kept(struct box_index *x, bool keep, char ***ret, holt_error **reterr)
{
	lock(x);
	return unlock(x, ids_locked(x,
				 keep ? "SELECT id FROM boxes WHERE keep = 1 ORDER BY id"
				      : "SELECT id FROM boxes WHERE keep = 0 ORDER BY id",
				 ret, reterr));
}
