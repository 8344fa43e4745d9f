/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_DB_H
#define BASE_DB_H

#include "base/err.h"

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The only door to SQLite: an index file (WAL) that any number of processes share. Errors are typed
 * and name the index by @what ("image index"). One thread at a time per struct.
 */
#define DB_TIMEOUT_MS 10000 /* longest wait for another process' transaction */

struct db {
	sqlite3 *handle;
	const char *what; /* static */
	bool lazy; /* see db_set_lazy */
};

/* Open or make the file. A new one gets @schema, which sets user_version to @version; a newer
 * version than that is refused. */
int db_open(struct db *db, const char *path, const char *what, const char *schema, int version,
	holt_error **reterr);
void db_close(struct db *db);

/* A writing transaction, taken at once, so that what is decided inside holds until its end. */
int db_begin(struct db *db, holt_error **reterr);
int db_commit(struct db *db, holt_error **reterr);
/* End a transaction without effect; nothing happens where none is open. */
void db_rollback(struct db *db);

/* Whether the next changes may be lost in a power cut, all from some moment on: then none waits for
 * the disk. Off in a new one. The index itself stays whole either way. */
int db_set_lazy(struct db *db, bool lazy, holt_error **reterr);

/* Turn a result of SQLite that is no success into an error. */
int db_fail(struct db *db, int rc, holt_error **reterr);

/* A statement with its text parameters bound (static for the time of the statement); NULL is NULL.
 */
int db_prepare(struct db *db, sqlite3_stmt **ret, holt_error **reterr, const char *sql, size_t n,
	const char *const *texts);
/* Run a statement that gives no rows. */
int db_run(struct db *db, const char *sql, size_t n, const char *const *texts, holt_error **reterr);
/* Run a statement whose answer is one number. */
int db_ask(struct db *db, const char *sql, size_t n, const char *const *texts, int64_t *ret,
	holt_error **reterr);

/* A column as fresh memory; NULL for NULL and without memory. */
char *db_column_dup(sqlite3_stmt *stmt, int column);

static inline void db_stmt_freep(sqlite3_stmt **stmt)
{
	(void)sqlite3_finalize(*stmt);
}
#define auto_stmt __attribute__((cleanup(db_stmt_freep))) sqlite3_stmt *

#endif
