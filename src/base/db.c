/* SPDX-License-Identifier: Apache-2.0 */
#include "base/db.h"

#include <errno.h>
#include <sys/stat.h>
#include <time.h>

#include "base/str.h"
#include "base/banned.h"

#define WAL_PAUSE_MS 5
/* Frames of the log that call for a checkpoint. The first process that opens the file reads all of
 * them, so fewer than SQLite's thousand; each checkpoint waits for the disk twice, so not very few.
 */
#define WAL_FRAMES 100

int db_fail(struct db *db, int rc, holt_error **reterr)
{
	const char *why = sqlite3_errmsg(db->handle);

	switch (rc & 0xff) {
	case SQLITE_NOMEM:
		return err_nomem(reterr);
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		rc = err_make(reterr, HOLT_EBUSY, "the %s is in use: %s", db->what, why);
		err_hint(reterr, "another process holds it for more than %d s; try again",
			DB_TIMEOUT_MS / 1000);
		return rc;
	case SQLITE_FULL:
		rc = err_make(reterr, HOLT_ELIMIT, "cannot write the %s: %s", db->what, why);
		err_hint(reterr, "free some space where the home is");
		return rc;
	case SQLITE_READONLY:
	case SQLITE_PERM:
	case SQLITE_CANTOPEN:
		rc = err_make(reterr, HOLT_EDENIED, "cannot open the %s: %s", db->what, why);
		err_hint(reterr, "look at the owner, the mode and the mount of the home");
		return rc;
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
		rc = err_make(reterr, HOLT_EIO, "the %s is damaged: %s", db->what, why);
		err_hint(reterr, "move the home away and import the images again");
		return rc;
	case SQLITE_IOERR:
		rc = sqlite3_system_errno(db->handle);
		rc = err_errno(reterr, rc ? rc : EIO, "cannot use the %s", db->what);
		if (reterr && !*holt_error_hint(*reterr))
			err_hint(reterr, "look at the file system of the home");
		return rc;
	default:
		return err_make(reterr, HOLT_EIO, "cannot use the %s: %s", db->what, why);
	}
}

static int exec(struct db *db, const char *sql, holt_error **reterr)
{
	const int rc = sqlite3_exec(db->handle, sql, NULL, NULL, NULL);

	return rc == SQLITE_OK ? 0 : db_fail(db, rc, reterr);
}

int db_prepare(struct db *db, sqlite3_stmt **ret, holt_error **reterr, const char *sql, size_t n,
	const char *const *texts)
{
	int rc = sqlite3_prepare_v2(db->handle, sql, -1, ret, NULL);

	for (size_t i = 0; rc == SQLITE_OK && i < n; i++)
		rc = sqlite3_bind_text(*ret, (int)i + 1, texts[i], -1, SQLITE_STATIC);
	return rc == SQLITE_OK ? 0 : db_fail(db, rc, reterr);
}

int db_run(struct db *db, const char *sql, size_t n, const char *const *texts, holt_error **reterr)
{
	auto_stmt stmt = NULL;
	const int code = db_prepare(db, &stmt, reterr, sql, n, texts);

	if (code < 0)
		return code;
	const int rc = sqlite3_step(stmt);
	return rc == SQLITE_DONE ? 0 : db_fail(db, rc, reterr);
}

int db_ask(struct db *db, const char *sql, size_t n, const char *const *texts, int64_t *ret,
	holt_error **reterr)
{
	auto_stmt stmt = NULL;
	const int code = db_prepare(db, &stmt, reterr, sql, n, texts);

	if (code < 0)
		return code;
	const int rc = sqlite3_step(stmt);
	if (rc != SQLITE_ROW)
		return db_fail(db, rc, reterr);
	*ret = sqlite3_column_int64(stmt, 0);
	return 0;
}

int db_begin(struct db *db, holt_error **reterr)
{
	return exec(db, "BEGIN IMMEDIATE", reterr);
}

int db_commit(struct db *db, holt_error **reterr)
{
	return exec(db, "COMMIT", reterr);
}

void db_rollback(struct db *db)
{
	if (!sqlite3_get_autocommit(db->handle))
		(void)sqlite3_exec(db->handle, "ROLLBACK", NULL, NULL, NULL);
}

int db_set_lazy(struct db *db, bool lazy, holt_error **reterr)
{
	const int code = db->lazy == lazy ? 0
					  : exec(db,
						    lazy ? "PRAGMA synchronous = NORMAL"
							 : "PRAGMA synchronous = FULL",
						    reterr);

	if (code == 0)
		db->lazy = lazy;
	return code;
}

static int make_schema(struct db *db, const char *schema, int version, holt_error **reterr)
{
	int64_t have = 0;
	int code = db_ask(db, "PRAGMA user_version", 0, NULL, &have, reterr);

	if (code == 0 && have == 0) {
		code = db_begin(db, reterr);
		/* Another process may have been quicker. */
		if (code == 0)
			code = db_ask(db, "PRAGMA user_version", 0, NULL, &have, reterr);
		if (code == 0 && have == 0)
			code = exec(db, schema, reterr);
		if (code == 0)
			code = db_commit(db, reterr);
		db_rollback(db);
	}
	if (code == 0 && have > version) {
		code = err_make(reterr, HOLT_EUNSUPPORTED,
			"the %s has version %d, this holt knows up to %d", db->what, (int)have,
			version);
		err_hint(reterr, "use the newer holt, or another HOLT_HOME");
	}
	return code;
}

/* To change a fresh database to WAL takes a lock for which SQLite does not wait by itself. */
static int set_modes(struct db *db, holt_error **reterr)
{
	static const char sql[] = "PRAGMA journal_mode = WAL; PRAGMA foreign_keys = ON;"
				  " PRAGMA secure_delete = ON;";
	const struct timespec pause = {.tv_nsec = WAL_PAUSE_MS * 1000000L};
	int rc = sqlite3_exec(db->handle, sql, NULL, NULL, NULL);

	for (int i = 0; (rc & 0xff) == SQLITE_BUSY && i < DB_TIMEOUT_MS / WAL_PAUSE_MS; i++) {
		(void)nanosleep(&pause, NULL);
		rc = sqlite3_exec(db->handle, sql, NULL, NULL, NULL);
	}
	return rc == SQLITE_OK ? 0 : db_fail(db, rc, reterr);
}

int db_open(struct db *db, const char *path, const char *what, const char *schema, int version,
	holt_error **reterr)
{
	/* SQLite gives its other files the mode of this one. No descriptor, since closing one would
	 * drop the locks of this process; what is wrong, SQLite finds too. */
	(void)!mknod(path, S_IFREG | 0600, 0);
	*db = (struct db){.what = what};
	const int rc = sqlite3_open_v2(path, &db->handle,
		SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_FULLMUTEX, NULL);
	int code = rc == SQLITE_OK ? 0 : db->handle ? db_fail(db, rc, reterr) : err_nomem(reterr);

	if (code == 0) {
		(void)sqlite3_extended_result_codes(db->handle, 1);
		(void)sqlite3_busy_timeout(db->handle, DB_TIMEOUT_MS);
		/* The log and its index stay, so that their space is there on a full disk. */
		int on = 1;
		(void)sqlite3_file_control(db->handle, NULL, SQLITE_FCNTL_PERSIST_WAL, &on);
		/* Else every process that was alone would wait for the disk as it closes. */
		(void)sqlite3_db_config(db->handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
		(void)sqlite3_wal_autocheckpoint(db->handle, WAL_FRAMES);
		code = set_modes(db, reterr);
	}
	if (code == 0)
		code = make_schema(db, schema, version, reterr);
	if (code < 0)
		db_close(db);
	return code;
}

void db_close(struct db *db)
{
	(void)sqlite3_close_v2(db->handle);
	db->handle = NULL;
}

char *db_column_dup(sqlite3_stmt *stmt, int column)
{
	const char *text = (const char *)sqlite3_column_text(stmt, column);

	return text ? str_dup(text) : NULL;
}
