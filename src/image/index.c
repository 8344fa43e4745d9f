/* SPDX-License-Identifier: Apache-2.0 */
#include "image/index.h"

#include <string.h>

#include "base/db.h"
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
	struct db db;
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

int index_open(const char *path, struct index **ret, holt_error **reterr)
{
	struct index *x = mem_zalloc(sizeof *x);

	if (!x)
		return err_nomem(reterr);
	const int code = db_open(&x->db, path, "image index", schema, INDEX_VERSION, reterr);
	if (code < 0) {
		mem_free(x);
		return code;
	}
	*ret = x;
	return 0;
}

void index_close(struct index *x)
{
	if (!x)
		return;
	db_close(&x->db);
	mem_free(x);
}

int index_begin(struct index *x, holt_error **reterr)
{
	return db_begin(&x->db, reterr);
}

int index_commit(struct index *x, holt_error **reterr)
{
	return db_commit(&x->db, reterr);
}

void index_rollback(struct index *x)
{
	db_rollback(&x->db);
}

int index_put(struct index *x, const struct image *img, const char *config, holt_error **reterr)
{
	const char *const texts[] = {img->digest, img->rootfs_digest, config};
	auto_stmt stmt = NULL;
	int code = db_prepare(&x->db, &stmt, reterr,
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
	return rc == SQLITE_DONE ? 0 : db_fail(&x->db, rc, reterr);
}

int index_name(struct index *x, const char *name, const char *digest, holt_error **reterr)
{
	const char *const texts[] = {name, digest};

	return db_run(&x->db,
		"INSERT INTO names (name, digest) VALUES (?, ?)"
		" ON CONFLICT (name) DO UPDATE SET digest = excluded.digest",
		2, texts, reterr);
}

int index_unname(struct index *x, const char *name, holt_error **reterr)
{
	return db_run(&x->db, "DELETE FROM names WHERE name = ?", 1, &name, reterr);
}

int index_drop(struct index *x, const char *digest, holt_error **reterr)
{
	return db_run(&x->db, "DELETE FROM images WHERE digest = ?", 1, &digest, reterr);
}

static int read_image(sqlite3_stmt *stmt, struct image **ret, holt_error **reterr)
{
	struct image *img = mem_zalloc(sizeof *img);
	const char *config = (const char *)sqlite3_column_text(stmt, 5);

	if (!img)
		return err_nomem(reterr);
	img->digest = db_column_dup(stmt, 0);
	img->rootfs_digest = db_column_dup(stmt, 1);
	img->size_bytes = (uint64_t)sqlite3_column_int64(stmt, 2);
	img->layers = (uint64_t)sqlite3_column_int64(stmt, 3);
	img->created_s = sqlite3_column_int64(stmt, 4);
	img->name = db_column_dup(stmt, 6);
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
			code = db_fail(&x->db, rc, reterr);
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
	int code = db_prepare(&x->db, &stmt, reterr,
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
	int code = db_prepare(&x->db, &stmt, reterr,
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

int index_config(struct index *x, const char *digest, char **ret, holt_error **reterr)
{
	auto_stmt stmt = NULL;
	const int code = db_prepare(
		&x->db, &stmt, reterr, "SELECT config FROM images WHERE digest = ?", 1, &digest);

	*ret = NULL;
	if (code < 0)
		return code;
	const int rc = sqlite3_step(stmt);
	if (rc == SQLITE_DONE)
		return 0;
	if (rc != SQLITE_ROW)
		return db_fail(&x->db, rc, reterr);
	*ret = db_column_dup(stmt, 0);
	return *ret ? 0 : err_nomem(reterr);
}

int index_count_names(struct index *x, const char *digest, unsigned *ret, holt_error **reterr)
{
	int64_t n = 0;
	const int code = db_ask(
		&x->db, "SELECT count(*) FROM names WHERE digest = ?", 1, &digest, &n, reterr);

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
	const int code = db_ask(&x->db,
		"SELECT count(*) FROM names WHERE digest = ? AND name > ? AND name < ?", 3, texts,
		&n, reterr);

	if (code == 0)
		*ret = n > 0;
	return code;
}

int index_uses_rootfs(struct index *x, const char *rootfs_digest, bool *ret, holt_error **reterr)
{
	int64_t n = 0;
	const int code = db_ask(&x->db, "SELECT count(*) FROM images WHERE rootfs_digest = ?", 1,
		&rootfs_digest, &n, reterr);

	if (code == 0)
		*ret = n > 0;
	return code;
}

int index_list(struct index *x, struct image ***ret, size_t *ret_n, holt_error **reterr)
{
	auto_stmt stmt = NULL;
	const int code = db_prepare(&x->db, &stmt, reterr,
		"SELECT " IMAGE_COLUMNS " FROM images i LEFT JOIN names n ON n.digest = i.digest"
		" ORDER BY n.name IS NULL, n.name, i.digest",
		0, NULL);

	return code < 0 ? code : read_images(x, stmt, INDEX_IMAGES_MAX, ret, ret_n, reterr);
}
