/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_UNIT_IMAGE_FIXTURE_H
#define TESTS_UNIT_IMAGE_FIXTURE_H

/*
 * For the tests of the image code: tar archives made from a table, merged into a squashfs, and what
 * is in a squashfs as text, read back with libsquashfs' reader (which shares no code with ours).
 *
 * A line of that text: type path mode uid:gid, then what the type has (data in quotes, target,
 * device), "links=N@GROUP" where N > 1 (a group is named after its first path), xattrs.
 */

#include "image/tarfile.h"
#include "image/layer.h"
#include "image/rootfs.h"

#include <archive.h>
#include <archive_entry.h>
#include <check.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sqfs/block.h>
#include <sqfs/compressor.h>
#include <sqfs/data_reader.h>
#include <sqfs/dir_reader.h>
#include <sqfs/id_table.h>
#include <sqfs/inode.h>
#include <sqfs/io.h>
#include <sqfs/super.h>
#include <sqfs/xattr.h>
#include <sqfs/xattr_reader.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

struct ent {
	char type; /* f file, d directory, l symlink, h hard link, c, b device, p fifo, s socket; 0
		      ends */
	const char *path;
	const char *text; /* data or target */
	unsigned mode; /* 0: 0644, directories 0755 */
	int64_t uid;
	int64_t gid;
	int64_t mtime_s;
	unsigned major;
	unsigned minor;
	const char *xattr; /* name */
	const char *value;
};

#define ENT_FILE(path_, text_)                                \
	{                                                     \
		.type = 'f', .path = (path_), .text = (text_) \
	}
#define ENT_DIR(path_)                       \
	{                                    \
		.type = 'd', .path = (path_) \
	}
#define ENT_LINK(path_, target_)                                \
	{                                                       \
		.type = 'l', .path = (path_), .text = (target_) \
	}
#define ENT_HARD(path_, target_)                                \
	{                                                       \
		.type = 'h', .path = (path_), .text = (target_) \
	}
#define ENT_GONE(path_)                                  \
	{                                                \
		.type = 'f', .path = (path_), .text = "" \
	}
#define ENT_MODE(type_, path_, m_)                                          \
	{                                                                   \
		.type = (type_), .path = (path_), .text = "x", .mode = (m_) \
	}

struct tarbuf {
	uint8_t *data;
	size_t len;
};

static inline la_ssize_t fixture_write(struct archive *a, void *user, const void *data, size_t len)
{
	struct tarbuf *b = user;

	(void)a;
	b->data = realloc(b->data, b->len + len);
	ck_assert_ptr_nonnull(b->data);
	memcpy(b->data + b->len, data, len);
	b->len += len;
	return (la_ssize_t)len;
}

static inline unsigned fixture_type(char type)
{
	switch (type) {
	case 'd':
		return AE_IFDIR;
	case 'l':
		return AE_IFLNK;
	case 'c':
		return AE_IFCHR;
	case 'b':
		return AE_IFBLK;
	case 'p':
		return AE_IFIFO;
	case 's':
		return AE_IFSOCK;
	default:
		return AE_IFREG;
	}
}

static inline void fixture_add(struct archive *a, const struct ent *e)
{
	struct archive_entry *entry = archive_entry_new();
	const size_t size = e->type == 'f' && e->text ? strlen(e->text) : 0;

	archive_entry_set_pathname(entry, e->path);
	archive_entry_set_filetype(entry, fixture_type(e->type));
	archive_entry_set_perm(entry, e->mode ? e->mode : e->type == 'd' ? 0755 : 0644);
	archive_entry_set_uid(entry, e->uid);
	archive_entry_set_gid(entry, e->gid);
	archive_entry_set_mtime(entry, e->mtime_s, 0);
	archive_entry_set_size(entry, (la_int64_t)size);
	if (e->type == 'l')
		archive_entry_set_symlink(entry, e->text);
	if (e->type == 'h')
		archive_entry_set_hardlink(entry, e->text);
	if (e->type == 'c' || e->type == 'b') {
		archive_entry_set_rdevmajor(entry, e->major);
		archive_entry_set_rdevminor(entry, e->minor);
	}
	if (e->xattr)
		archive_entry_xattr_add_entry(entry, e->xattr, e->value, strlen(e->value));
	ck_assert_int_ge(archive_write_header(a, entry), ARCHIVE_WARN);
	if (size > 0)
		ck_assert_int_eq(archive_write_data(a, e->text, size), (la_ssize_t)size);
	archive_entry_free(entry);
}

/* @filter: NULL, "gzip", "zstd" or "xz". */
static inline struct tarbuf fixture_tar(const struct ent *e, const char *filter)
{
	struct tarbuf b = {0};
	struct archive *a = archive_write_new();

	ck_assert_int_eq(archive_write_set_format_pax_restricted(a), ARCHIVE_OK);
	if (filter)
		ck_assert_int_eq(archive_write_add_filter_by_name(a, filter), ARCHIVE_OK);
	ck_assert_int_eq(archive_write_set_bytes_in_last_block(a, 1), ARCHIVE_OK);
	ck_assert_int_eq(archive_write_open(a, &b, NULL, fixture_write, NULL), ARCHIVE_OK);
	for (; e->type; e++)
		fixture_add(a, e);
	ck_assert_int_eq(archive_write_close(a), ARCHIVE_OK);
	archive_write_free(a);
	return b;
}

static inline int fixture_read(
	struct merge *m, const struct tarbuf *b, uint32_t layer, bool again, holt_error **reterr)
{
	const struct tar_source src = {.data = b->data, .size = b->len};
	char blob[DIGEST_STR_LEN + 1];
	char stream[DIGEST_STR_LEN + 1];
	struct tar_reader *tar = NULL;
	int code = tar_open(&src, NULL, &tar, reterr);

	if (code == 0)
		code = again ? merge_rescan(m, tar, layer, reterr)
			     : merge_layer(m, tar, layer, reterr);
	if (code == 0)
		code = tar_finish(tar, blob, stream, reterr);
	tar_close(tar);
	return code;
}

/* Merge layers (base first) into the squashfs *ret_fd, an anonymous file. */
static inline int fixture_merge(
	const struct tarbuf *layers, uint32_t n, unsigned workers, int *ret_fd, holt_error **reterr)
{
	struct tree *tree = NULL;
	struct rootfs *rootfs = NULL;
	struct merge *m = NULL;
	uint64_t size = 0;
	uint32_t from = 0;
	int fd = memfd_create("rootfs", MFD_CLOEXEC);

	ck_assert_int_ge(fd, 0);
	int code = tree_new(&tree, reterr);
	if (code == 0)
		code = rootfs_new(fd, workers, &rootfs, reterr);
	if (code == 0)
		code = merge_new(tree, rootfs, &m, reterr);
	for (uint32_t at = n; code == 0 && at > 0; at--)
		code = fixture_read(m, &layers[at - 1], at, false, reterr);
	if (code == 0)
		code = merge_resolve(m, &from, reterr);
	while (code == 0 && from > 0) {
		for (uint32_t at = from; code == 0 && at > 0; at--)
			code = fixture_read(m, &layers[at - 1], at, true, reterr);
		if (code == 0)
			code = merge_resolve(m, &from, reterr);
	}
	if (code == 0)
		code = rootfs_finish(rootfs, tree, &size, reterr);
	rootfs_free(rootfs);
	merge_free(m);
	tree_free(tree);
	if (code < 0) {
		close(fd);
		return code;
	}
	*ret_fd = fd;
	return 0;
}

/* --- Reading back ----------------------------------------------------------------------------- */

struct fixture_reader {
	sqfs_file_t *file;
	sqfs_super_t super;
	sqfs_compressor_t *cmp;
	sqfs_id_table_t *ids;
	sqfs_dir_reader_t *dirs;
	sqfs_data_reader_t *data;
	sqfs_xattr_reader_t *xattrs;
	FILE *out;
	char first_path[256][256]; /* of an inode with several names */
	uint32_t first_inode[256];
	size_t n_first;
};

static inline void fixture_open(struct fixture_reader *r, int fd)
{
	sqfs_compressor_config_t config;
	char path[64];

	(void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	r->file = sqfs_open_file(path, SQFS_FILE_OPEN_READ_ONLY);
	ck_assert_ptr_nonnull(r->file);
	ck_assert_int_eq(sqfs_super_read(&r->super, r->file), 0);
	ck_assert_int_eq(sqfs_compressor_config_init(&config, r->super.compression_id,
				 r->super.block_size, SQFS_COMP_FLAG_UNCOMPRESS),
		0);
	ck_assert_int_eq(sqfs_compressor_create(&config, &r->cmp), 0);
	r->ids = sqfs_id_table_create(0);
	ck_assert_int_eq(sqfs_id_table_read(r->ids, r->file, &r->super, r->cmp), 0);
	r->dirs = sqfs_dir_reader_create(&r->super, r->cmp, r->file, 0);
	r->data = sqfs_data_reader_create(r->file, r->super.block_size, r->cmp, 0);
	ck_assert_int_eq(sqfs_data_reader_load_fragment_table(r->data, &r->super), 0);
	r->xattrs = sqfs_xattr_reader_create(0);
	ck_assert_int_eq(sqfs_xattr_reader_load(r->xattrs, &r->super, r->file, r->cmp), 0);
}

static inline void fixture_close(struct fixture_reader *r)
{
	sqfs_destroy(r->xattrs);
	sqfs_destroy(r->data);
	sqfs_destroy(r->dirs);
	sqfs_destroy(r->ids);
	sqfs_destroy(r->cmp);
	sqfs_destroy(r->file);
}

static inline void fixture_print_data(struct fixture_reader *r, const sqfs_inode_generic_t *i)
{
	uint64_t size = 0;

	ck_assert_int_eq(sqfs_inode_get_file_size(i, &size), 0);
	if (size > 60) {
		(void)fprintf(r->out, " %" PRIu64 " bytes", size);
		return;
	}
	char text[64] = {0};
	ck_assert_int_eq(sqfs_data_reader_read(r->data, i, 0, text, (uint32_t)size), (int)size);
	(void)fprintf(r->out, " \"%s\"", text);
}

static inline void fixture_print_xattrs(struct fixture_reader *r, const sqfs_inode_generic_t *i)
{
	sqfs_xattr_id_t desc;
	uint32_t index = 0xffffffff;

	ck_assert_int_eq(sqfs_inode_get_xattr_index(i, &index), 0);
	if (index == 0xffffffff)
		return;
	ck_assert_int_eq(sqfs_xattr_reader_get_desc(r->xattrs, index, &desc), 0);
	ck_assert_int_eq(sqfs_xattr_reader_seek_kv(r->xattrs, &desc), 0);
	for (uint32_t n = 0; n < desc.count; n++) {
		sqfs_xattr_entry_t *key = NULL;
		sqfs_xattr_value_t *value = NULL;
		ck_assert_int_eq(sqfs_xattr_reader_read_key(r->xattrs, &key), 0);
		ck_assert_int_eq(sqfs_xattr_reader_read_value(r->xattrs, key, &value), 0);
		(void)fprintf(r->out, " %s=%.*s", (char *)key->key, (int)value->size,
			(char *)value->value);
		sqfs_free(key);
		sqfs_free(value);
	}
}

static inline uint32_t fixture_nlink(const sqfs_inode_generic_t *i)
{
	switch (i->base.type) {
	case SQFS_INODE_EXT_FILE:
		return i->data.file_ext.nlink;
	case SQFS_INODE_SLINK:
	case SQFS_INODE_EXT_SLINK:
		return i->data.slink.nlink;
	case SQFS_INODE_BDEV:
	case SQFS_INODE_CDEV:
	case SQFS_INODE_EXT_BDEV:
	case SQFS_INODE_EXT_CDEV:
		return i->data.dev.nlink;
	case SQFS_INODE_FIFO:
	case SQFS_INODE_SOCKET:
		return i->data.ipc.nlink;
	default:
		return 1;
	}
}

static inline void fixture_print_links(
	struct fixture_reader *r, const sqfs_inode_generic_t *i, const char *path)
{
	const uint32_t nlink = fixture_nlink(i);
	size_t at = 0;

	if (nlink < 2)
		return;
	while (at < r->n_first && r->first_inode[at] != i->base.inode_number)
		at++;
	if (at == r->n_first) {
		ck_assert_uint_lt(r->n_first, 256);
		r->first_inode[at] = i->base.inode_number;
		(void)snprintf(r->first_path[at], sizeof r->first_path[at], "%s", path);
		r->n_first++;
	}
	(void)fprintf(r->out, " links=%u@%s", nlink, r->first_path[at]);
}

static inline void fixture_print(
	struct fixture_reader *r, const sqfs_tree_node_t *n, const char *path)
{
	static const char types[] = "?dflbcps";
	const sqfs_inode_generic_t *i = n->inode;
	const unsigned type = i->base.type > 7 ? i->base.type - 7u : i->base.type;

	(void)fprintf(r->out, "%c %s %o %u:%u", types[type], *path ? path : "/",
		i->base.mode & 07777u, n->uid, n->gid);
	if (i->base.mod_time)
		(void)fprintf(r->out, " @%u", i->base.mod_time);
	if (type == SQFS_INODE_FILE)
		fixture_print_data(r, i);
	else if (type == SQFS_INODE_SLINK)
		(void)fprintf(
			r->out, " -> %.*s", (int)i->data.slink.target_size, (const char *)i->extra);
	else if (type == SQFS_INODE_BDEV || type == SQFS_INODE_CDEV)
		(void)fprintf(r->out, " %u,%u", (i->data.dev.devno >> 8) & 0xfff,
			(i->data.dev.devno & 0xff) | ((i->data.dev.devno >> 12) & 0xfff00));
	if (type != SQFS_INODE_DIR)
		fixture_print_links(r, i, path);
	fixture_print_xattrs(r, i);
	(void)fputc('\n', r->out);
}

/* What is in the squashfs, as text; free it. */
static inline char *fixture_list(int fd)
{
	struct fixture_reader *r = calloc(1, sizeof *r);
	sqfs_tree_node_t *root = NULL;
	char *text = NULL;
	size_t len = 0;

	ck_assert_ptr_nonnull(r);
	fixture_open(r, fd);
	r->out = open_memstream(&text, &len);
	ck_assert_int_eq(sqfs_dir_reader_get_full_hierarchy(r->dirs, r->ids, NULL, 0, &root), 0);
	for (const sqfs_tree_node_t *n = root; n;) {
		char path[4096];
		size_t at = sizeof path - 1;
		path[at] = 0;
		for (const sqfs_tree_node_t *up = n; up->parent; up = up->parent) {
			const size_t l = strlen((const char *)up->name);
			at -= l;
			memcpy(path + at, up->name, l);
			if (up->parent->parent)
				path[--at] = '/';
		}
		fixture_print(r, n, path + at);
		if (n->children) {
			n = n->children;
			continue;
		}
		while (n && !n->next)
			n = n->parent;
		n = n ? n->next : NULL;
	}
	sqfs_dir_tree_destroy(root);
	(void)fclose(r->out);
	fixture_close(r);
	free(r);
	return text;
}

/* Merge tables of entries and compare what comes out. */
static inline void fixture_expect(const struct ent *const *layers, uint32_t n, const char *expected)
{
	struct tarbuf bufs[16] = {0};
	auto_error error = NULL;
	int fd = -1;

	ck_assert_uint_le(n, 16);
	for (uint32_t i = 0; i < n; i++)
		bufs[i] = fixture_tar(layers[i], NULL);
	const int code = fixture_merge(bufs, n, 1, &fd, &error);
	ck_assert_msg(code == 0, "%s", holt_error_message(error));
	char *text = fixture_list(fd);
	ck_assert_str_eq(text, expected);
	free(text);
	close(fd);
	for (uint32_t i = 0; i < n; i++)
		free(bufs[i].data);
}

#define LAYER(...) ((const struct ent[]){__VA_ARGS__, {0}})
#define EXPECT(expected, ...)                                                          \
	do {                                                                           \
		const struct ent *const layers_[] = {__VA_ARGS__};                     \
		fixture_expect(layers_, sizeof layers_ / sizeof layers_[0], expected); \
	} while (0)

static inline int fixture_run(const char *name, const TTest *const *tests, size_t n,
	void (*setup)(void), void (*teardown)(void), int timeout_s)
{
	Suite *s = suite_create(name);
	TCase *c = tcase_create(name);

	if (setup)
		tcase_add_checked_fixture(c, setup, teardown);
	tcase_set_timeout(c, timeout_s);
	for (size_t i = 0; i < n; i++)
		tcase_add_test(c, tests[i]);
	suite_add_tcase(s, c);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	const int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}

#endif
