/* SPDX-License-Identifier: Apache-2.0 */
#include "image/index.h"

#include <sqlite3.h>
#include <stdarg.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "image/manifest.h"
#include "base/banned.h"

/*
 * Two tables: images by digest, names that point at them. The configuration is kept as the text
 * that came with the image and parsed when the image is read.
 */

#define INDEX_IMAGES_MAX 100000 /* rows of one listing */

struct index {
	sqlite3 *db;
};

static const char schema[] =
	"CREATE TABLE images ("
	" digest TEXT PRIMARY KEY NOT NULL,"
	" rootfs_digest TEXT NOT NULL,"
	" size_bytes INTEGER NOT NULL,"
	" layers INTEGER NOT NULL,"
	" created_s INTEGER NOT NULL,"
	" config TEXT NOT NULL) WITHOUT ROWID;"
	"CREATE INDEX images_by_rootfs ON images (rootfs_digest);"
	"CREATE TABLE names ("
	" name TEXT PRIMARY KEY NOT NULL,"
	" digest TEXT NOT NULL REFERENCES images (digest) ON DELETE CASCADE) WITHOUT ROWID;"
	"CREATE INDEX names_by_digest ON names (digest);"
	"PRAGMA user_version = 1;";

#define IMAGE_COLUMNS \
	"i.digest, i.rootfs_digest, i.size_bytes, i.layers, i.created_s, i.config, n.name"

static int fail(struct index *x, int rc, holt_error **reterr)
{
	const char *why = sqlite3_errmsg(x->db);

	switch (rc & 0xff) {
	case SQLITE_NOMEM:
		return err_nomem(reterr);
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		rc = err_make(reterr, HOLT_EBUSY, "the image index is in use: %s", why);
		err_hint(reterr, "another process holds it for more than %d s; try again",
			INDEX_TIMEOUT_MS / 1000);
		return rc;
	case SQLITE_FULL:
		rc = err_make(reterr, HOLT_ELIMIT, "cannot write the image index: %s", why);
		err_hint(reterr, "free some space where the images are kept");
		return rc;
	case SQLITE_READONLY:
	case SQLITE_PERM:
	case SQLITE_CANTOPEN:
		return err_make(reterr, HOLT_EDENIED, "cannot open the image index: %s", why);
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
		rc = err_make(reterr, HOLT_EIO, "the image index is damaged: %s", why);
		err_hint(reterr, "move the directory of the image store away and import again");
		return rc;
	default:
		return err_make(reterr, HOLT_EIO, "cannot use the image index: %s", why);
	}
}

static int exec(struct index *x, const char *sql, holt_error **reterr)
{
	const int rc = sqlite3_exec(x->db, sql, NULL, NULL, NULL);

	return rc == SQLITE_OK ? 0 : fail(x, rc, reterr);
}

/* A statement with its text parameters bound (static for the time of the statement). */
static int prepare(struct index *x, sqlite3_stmt **ret, holt_error **reterr, const char *sql,
	size_t n, const char *const *texts)
{
	int rc = sqlite3_prepare_v2(x->db, sql, -1, ret, NULL);

	for (size_t i = 0; rc == SQLITE_OK && i < n; i++)
		rc = sqlite3_bind_text(*ret, (int)i + 1, texts[i], -1, SQLITE_STATIC);
	return rc == SQLITE_OK ? 0 : fail(x, rc, reterr);
}

static void stmt_freep(sqlite3_stmt **stmt)
{
	(void)sqlite3_finalize(*stmt);
}
#define auto_stmt __attribute__((cleanup(stmt_freep))) sqlite3_stmt *

/* Run a statement that gives no rows. */
static int run(
	struct index *x, const char *sql, size_t n, const char *const *texts, holt_error **reterr)
{
	auto_stmt stmt = NULL;
	const int code = prepare(x, &stmt, reterr, sql, n, texts);

	if (code < 0)
		return code;
	const int rc = sqlite3_step(stmt);
	return rc == SQLITE_DONE ? 0 : fail(x, rc, reterr);
}

/* Run a statement whose answer is one number. */
static int ask(struct index *x, const char *sql, size_t n, const char *const *texts, int64_t *ret,
	holt_error **reterr)
{
	auto_stmt stmt = NULL;
	const int code = prepare(x, &stmt, reterr, sql, n, texts);

	if (code < 0)
		return code;
	const int rc = sqlite3_step(stmt);
	if (rc != SQLITE_ROW)
		return fail(x, rc, reterr);
	*ret = sqlite3_column_int64(stmt, 0);
	return 0;
}

static int make_schema(struct index *x, holt_error **reterr)
{
	int64_t version = 0;
	int code = index_begin(x, reterr);

	if (code == 0)
		code = ask(x, "PRAGMA user_version", 0, NULL, &version, reterr);
	if (code == 0 && version == 0)
		code = exec(x, schema, reterr);
	if (code == 0)
		code = index_commit(x, reterr);
	index_rollback(x);
	if (code == 0 && version > INDEX_VERSION) {
		code = err_make(reterr, HOLT_EUNSUPPORTED,
			"the image index has version %d, this holt knows up to %d", (int)version,
			INDEX_VERSION);
		err_hint(reterr, "use the newer holt, or another HOLT_HOME");
	}
	return code;
}

int index_open(const char *path, struct index **ret, holt_error **reterr)
{
	struct index *x = mem_zalloc(sizeof *x);

	if (!x)
		return err_nomem(reterr);
	const int rc = sqlite3_open_v2(path, &x->db,
		SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_FULLMUTEX, NULL);
	int code = rc == SQLITE_OK ? 0 : x->db ? fail(x, rc, reterr) : err_nomem(reterr);
	if (code == 0) {
		(void)sqlite3_extended_result_codes(x->db, 1);
		(void)sqlite3_busy_timeout(x->db, INDEX_TIMEOUT_MS);
		code = exec(x, "PRAGMA journal_mode = WAL; PRAGMA foreign_keys = ON;", reterr);
	}
	if (code == 0)
		code = make_schema(x, reterr);
	if (code < 0) {
		index_close(x);
		return code;
	}
	*ret = x;
	return 0;
}

void index_close(struct index *x)
{
	if (!x)
		return;
	(void)sqlite3_close_v2(x->db);
	mem_free(x);
}

int index_begin(struct index *x, holt_error **reterr)
{
	return exec(x, "BEGIN IMMEDIATE", reterr);
}

int index_commit(struct index *x, holt_error **reterr)
{
	return exec(x, "COMMIT", reterr);
}

void index_rollback(struct index *x)
{
	if (!sqlite3_get_autocommit(x->db))
		(void)sqlite3_exec(x->db, "ROLLBACK", NULL, NULL, NULL);
}

int index_put(struct index *x, const struct image *img, const char *config, holt_error **reterr)
{
	const char *const texts[] = {img->digest, img->rootfs_digest, config};
	auto_stmt stmt = NULL;
	int code = prepare(x, &stmt, reterr,
		"INSERT INTO images (digest, rootfs_digest, config, size_bytes, layers, created_s)"
		" VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (digest) DO UPDATE SET"
		" rootfs_digest = excluded.rootfs_digest, size_bytes = excluded.size_bytes,"
		" layers = excluded.layers, config = excluded.config",
		3, texts);

	if (code < 0)
		return code;
	int rc = sqlite3_bind_int64(stmt, 4, (sqlite3_int64)img->size_bytes);
	if (rc == SQLITE_OK)
		rc = sqlite3_bind_int64(stmt, 5, (sqlite3_int64)img->layers);
	if (rc == SQLITE_OK)
		rc = sqlite3_bind_int64(stmt, 6, img->created_s);
	if (rc == SQLITE_OK)
		rc = sqlite3_step(stmt);
	return rc == SQLITE_DONE ? 0 : fail(x, rc, reterr);
}

int index_name(struct index *x, const char *name, const char *digest, holt_error **reterr)
{
	const char *const texts[] = {name, digest};

	return run(x,
		"INSERT INTO names (name, digest) VALUES (?, ?)"
		" ON CONFLICT (name) DO UPDATE SET digest = excluded.digest",
		2, texts, reterr);
}

int index_unname(struct index *x, const char *name, holt_error **reterr)
{
	return run(x, "DELETE FROM names WHERE name = ?", 1, &name, reterr);
}

int index_drop(struct index *x, const char *digest, holt_error **reterr)
{
	return run(x, "DELETE FROM images WHERE digest = ?", 1, &digest, reterr);
}

static char *column_dup(sqlite3_stmt *stmt, int column)
{
	const char *text = (const char *)sqlite3_column_text(stmt, column);

	return text ? str_dup(text) : NULL;
}

static int read_image(sqlite3_stmt *stmt, struct image **ret, holt_error **reterr)
{
	struct image *img = mem_zalloc(sizeof *img);
	const char *config = (const char *)sqlite3_column_text(stmt, 5);

	if (!img)
		return err_nomem(reterr);
	img->digest = column_dup(stmt, 0);
	img->rootfs_digest = column_dup(stmt, 1);
	img->size_bytes = (uint64_t)sqlite3_column_int64(stmt, 2);
	img->layers = (uint64_t)sqlite3_column_int64(stmt, 3);
	img->created_s = sqlite3_column_int64(stmt, 4);
	img->name = column_dup(stmt, 6);
	int code = 0;
	if (!img->digest || !img->rootfs_digest || !config ||
		(!img->name && sqlite3_column_type(stmt, 6) != SQLITE_NULL))
		code = err_nomem(reterr);
	if (code == 0 && config)
		code = config_parse(config, strlen(config), &img->config, NULL, reterr);
	if (code < 0) {
		image_free(img);
		return code;
	}
	*ret = img;
	return 0;
}

/* All images that a statement gives, at most @max. */
static int read_images(struct index *x, sqlite3_stmt *stmt, size_t max, struct image ***ret,
	size_t *ret_n, holt_error **reterr)
{
	struct image **list = NULL;
	size_t n = 0;
	size_t cap = 0;
	int code = 0;

	while (code == 0 && n < max) {
		const int rc = sqlite3_step(stmt);
		if (rc == SQLITE_DONE)
			break;
		if (rc != SQLITE_ROW) {
			code = fail(x, rc, reterr);
			break;
		}
		if (n == cap) {
			const size_t more = cap ? 2 * cap : 16;
			struct image **bigger = mem_resize(list, more, sizeof *list);
			if (!bigger) {
				code = err_nomem(reterr);
				break;
			}
			list = bigger;
			cap = more;
		}
		code = read_image(stmt, &list[n], reterr);
		n += code == 0;
	}
	if (code < 0) {
		image_list_free(list, n);
		return code;
	}
	*ret = list;
	*ret_n = n;
	return 0;
}

int index_by_name(struct index *x, const char *name, struct image **ret, holt_error **reterr)
{
	auto_stmt stmt = NULL;
	struct image **list = NULL;
	size_t n = 0;
	int code = prepare(x, &stmt, reterr,
		"SELECT " IMAGE_COLUMNS " FROM names n JOIN images i ON i.digest = n.digest"
		" WHERE n.name = ?",
		1, &name);

	if (code == 0)
		code = read_images(x, stmt, 1, &list, &n, reterr);
	if (code < 0)
		return code;
	*ret = n > 0 ? list[0] : NULL;
	mem_free(list);
	return 0;
}

int index_by_digest(
	struct index *x, const char *hex, struct image **ret, unsigned *ret_n, holt_error **reterr)
{
	auto_stmt stmt = NULL;
	struct image **list = NULL;
	size_t n = 0;
	/* @hex holds hex digits only, so it needs no escape in the pattern. */
	auto_free char *pattern = str_printf("sha256:%s*", hex);
	if (!pattern)
		return err_nomem(reterr);
	const char *const text = pattern;
	int code = prepare(x, &stmt, reterr,
		"SELECT " IMAGE_COLUMNS " FROM images i LEFT JOIN names n ON n.name ="
		" (SELECT min(name) FROM names WHERE digest = i.digest)"
		" WHERE i.digest GLOB ? LIMIT 2",
		1, &text);

	if (code == 0)
		code = read_images(x, stmt, 2, &list, &n, reterr);
	if (code < 0)
		return code;
	*ret_n = (unsigned)n;
	if (n == 1) {
		*ret = list[0];
		mem_free(list);
	} else {
		*ret = NULL;
		image_list_free(list, n);
	}
	return 0;
}

int index_count_names(struct index *x, const char *digest, unsigned *ret, holt_error **reterr)
{
	int64_t n = 0;
	const int code = ask(
		x, "SELECT count(*) FROM names WHERE digest = ?", 1, &digest, &n, reterr);

	if (code == 0)
		*ret = (unsigned)n;
	return code;
}

int index_has_repository(
	struct index *x, const char *digest, const char *repository, bool *ret, holt_error **reterr)
{
	auto_free char *from = str_printf("%s:", repository);
	auto_free char *to = str_printf("%s;", repository); /* the character after the colon */
	if (!from || !to)
		return err_nomem(reterr);
	const char *const texts[] = {digest, from, to};
	int64_t n = 0;
	const int code = ask(x,
		"SELECT count(*) FROM names WHERE digest = ? AND name > ? AND name < ?", 3, texts,
		&n, reterr);

	if (code == 0)
		*ret = n > 0;
	return code;
}

int index_uses_rootfs(struct index *x, const char *rootfs_digest, bool *ret, holt_error **reterr)
{
	int64_t n = 0;
	const int code = ask(x, "SELECT count(*) FROM images WHERE rootfs_digest = ?", 1,
		&rootfs_digest, &n, reterr);

	if (code == 0)
		*ret = n > 0;
	return code;
}

int index_list(struct index *x, struct image ***ret, size_t *ret_n, holt_error **reterr)
{
	auto_stmt stmt = NULL;
	const int code = prepare(x, &stmt, reterr,
		"SELECT " IMAGE_COLUMNS " FROM images i LEFT JOIN names n ON n.digest = i.digest"
		" ORDER BY n.name IS NULL, n.name, i.digest",
		0, NULL);

	return code < 0 ? code : read_images(x, stmt, INDEX_IMAGES_MAX, ret, ret_n, reterr);
}
