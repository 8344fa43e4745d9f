/* SPDX-License-Identifier: Apache-2.0 */
#include "image/rootfs_tar.h"

#include <archive_entry.h>
#include <errno.h>
#include <sqfs/compressor.h>
#include <sqfs/data_reader.h>
#include <sqfs/dir.h>
#include <sqfs/dir_reader.h>
#include <sqfs/error.h>
#include <sqfs/id_table.h>
#include <sqfs/inode.h>
#include <sqfs/io.h>
#include <sqfs/super.h>
#include <sqfs/xattr.h>
#include <sqfs/xattr_reader.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/mem.h"
#include "base/str.h"
#include "image/rootfs.h"
#include "base/banned.h"

/*
 * Directory by directory: all entries of one are written as they are read, and directories among
 * them wait on a stack for their turn, so that a parent always comes before what is in it. In
 * memory are the waiting directories and the first name of each file that has several.
 */

#define READ_CHUNK_BYTES (1u << 20)

struct input {
	sqfs_file_t base;
	int fd;
	uint64_t size;
	int errnum; /* of the first failure */
};

struct pending {
	struct pending *next;
	sqfs_inode_generic_t *inode;
	char path[]; /* "" for the root */
};

struct source {
	struct input in;
	sqfs_super_t super;
	sqfs_compressor_t *cmp;
	sqfs_id_table_t *ids;
	sqfs_dir_reader_t *dirs;
	sqfs_data_reader_t *data;
	sqfs_xattr_reader_t *xattrs;
	struct tar_writer *tar;
	const volatile int *cancel;
	struct pending *stack;
	char **first; /* by inode number: the first path of a file with several */
	uint8_t *chunk;
	uint32_t n_entries;
};

/* --- Reading ---------------------------------------------------------------------------------- */

static int input_read(sqfs_file_t *f, sqfs_u64 offset, void *buffer, size_t size)
{
	struct input *in = (struct input *)f;
	uint8_t *p = buffer;

	while (size > 0) {
		const ssize_t n = pread(in->fd, p, size, (off_t)offset);
		if (n < 0 && errno == EINTR)
			continue;
		if (n == 0)
			return SQFS_ERROR_OUT_OF_BOUNDS;
		if (n < 0) {
			in->errnum = errno;
			return SQFS_ERROR_IO;
		}
		p += n;
		offset += (sqfs_u64)n;
		size -= (size_t)n;
	}
	return 0;
}

static int input_write(sqfs_file_t *f, sqfs_u64 offset, const void *buffer, size_t size)
{
	(void)f;
	(void)offset;
	(void)buffer;
	(void)size;
	return SQFS_ERROR_UNSUPPORTED;
}

static int input_truncate(sqfs_file_t *f, sqfs_u64 size)
{
	(void)f;
	(void)size;
	return SQFS_ERROR_UNSUPPORTED;
}

static sqfs_u64 input_size(const sqfs_file_t *f)
{
	return ((const struct input *)f)->size;
}

static void input_destroy(sqfs_object_t *o)
{
	(void)o;
}

static int fail(const struct source *s, int code, holt_error **reterr)
{
	if (s->in.errnum)
		return err_errno(reterr, s->in.errnum, "cannot read the rootfs of the image");
	if (code == SQFS_ERROR_ALLOC)
		return err_nomem(reterr);
	(void)err_make(reterr, HOLT_EIO, "the rootfs of the image is damaged (code %d)", code);
	err_hint(reterr, "import or pull the image again");
	return -HOLT_EIO;
}

static int open_compressor(struct source *s)
{
	sqfs_compressor_config_t config;
	int code = sqfs_compressor_config_init(
		&config, s->super.compression_id, s->super.block_size, SQFS_COMP_FLAG_UNCOMPRESS);

	if (code == 0)
		code = sqfs_compressor_create(&config, &s->cmp);
	return code;
}

static int open_readers(struct source *s)
{
	sqfs_file_t *file = &s->in.base;

	s->ids = sqfs_id_table_create(0);
	s->dirs = sqfs_dir_reader_create(&s->super, s->cmp, file, 0);
	s->data = sqfs_data_reader_create(file, s->super.block_size, s->cmp, 0);
	s->xattrs = sqfs_xattr_reader_create(0);
	s->chunk = mem_array(READ_CHUNK_BYTES, 1);
	s->first = mem_array((size_t)s->super.inode_count + 1, sizeof *s->first);
	if (!s->ids || !s->dirs || !s->data || !s->xattrs || !s->chunk || !s->first)
		return SQFS_ERROR_ALLOC;
	int code = sqfs_id_table_read(s->ids, file, &s->super, s->cmp);
	if (code == 0)
		code = sqfs_data_reader_load_fragment_table(s->data, &s->super);
	if (code == 0)
		code = sqfs_xattr_reader_load(s->xattrs, &s->super, file, s->cmp);
	return code;
}

static int source_open(struct source *s, int fd, holt_error **reterr)
{
	struct stat st;

	s->in = (struct input){.base = {.base = {.destroy = input_destroy},
				       .read_at = input_read,
				       .write_at = input_write,
				       .get_size = input_size,
				       .truncate = input_truncate},
		.fd = fd};
	if (fstat(fd, &st) < 0)
		return err_errno(reterr, errno, "cannot read the rootfs of the image");
	s->in.size = (uint64_t)st.st_size;
	int code = sqfs_super_read(&s->super, &s->in.base);
	/* Neither may make us ask for memory that no image of ours needs. */
	if (code == 0 && (s->super.inode_count > TREE_NODES_MAX ||
				 s->super.fragment_entry_count > s->super.inode_count))
		code = SQFS_ERROR_CORRUPTED;
	if (code == 0)
		code = open_compressor(s);
	if (code == 0)
		code = open_readers(s);
	return code < 0 ? fail(s, code, reterr) : 0;
}

static void source_close(struct source *s)
{
	for (struct pending *p = s->stack, *next; p; p = next) {
		next = p->next;
		sqfs_free(p->inode);
		mem_free(p);
	}
	for (size_t i = 0; s->first && i <= s->super.inode_count; i++)
		mem_free(s->first[i]);
	mem_free(s->first);
	mem_free(s->chunk);
	sqfs_destroy(s->xattrs);
	sqfs_destroy(s->data);
	sqfs_destroy(s->dirs);
	sqfs_destroy(s->ids);
	sqfs_destroy(s->cmp);
}

/* --- One entry -------------------------------------------------------------------------------- */

static uint32_t links_of(const sqfs_inode_generic_t *i)
{
	switch (i->base.type) {
	case SQFS_INODE_EXT_FILE:
		return i->data.file_ext.nlink;
	case SQFS_INODE_SLINK:
		return i->data.slink.nlink;
	case SQFS_INODE_EXT_SLINK:
		return i->data.slink_ext.nlink;
	case SQFS_INODE_BDEV:
	case SQFS_INODE_CDEV:
		return i->data.dev.nlink;
	case SQFS_INODE_EXT_BDEV:
	case SQFS_INODE_EXT_CDEV:
		return i->data.dev_ext.nlink;
	case SQFS_INODE_FIFO:
		return i->data.ipc.nlink;
	case SQFS_INODE_EXT_FIFO:
		return i->data.ipc_ext.nlink;
	default:
		return 1;
	}
}

static int set_owner(struct source *s, const sqfs_inode_generic_t *i, struct archive_entry *e)
{
	sqfs_u32 uid = 0;
	sqfs_u32 gid = 0;
	int code = sqfs_id_table_index_to_id(s->ids, i->base.uid_idx, &uid);

	if (code == 0)
		code = sqfs_id_table_index_to_id(s->ids, i->base.gid_idx, &gid);
	archive_entry_set_uid(e, uid);
	archive_entry_set_gid(e, gid);
	return code;
}

static int set_xattrs(struct source *s, const sqfs_inode_generic_t *i, struct archive_entry *e)
{
	sqfs_xattr_id_t desc;
	sqfs_u32 index = ROOTFS_NO_XATTR;
	int code = sqfs_inode_get_xattr_index(i, &index);

	if (code < 0 || index == ROOTFS_NO_XATTR)
		return code;
	/* The reader has no place to seek to then, and would not notice. */
	if (s->super.flags & SQFS_FLAG_NO_XATTRS || s->super.xattr_id_table_start == UINT64_MAX)
		return SQFS_ERROR_CORRUPTED;
	code = sqfs_xattr_reader_get_desc(s->xattrs, index, &desc);
	if (code == 0)
		code = sqfs_xattr_reader_seek_kv(s->xattrs, &desc);
	for (sqfs_u32 n = 0; code == 0 && n < desc.count; n++) {
		sqfs_xattr_entry_t *key = NULL;
		sqfs_xattr_value_t *value = NULL;
		code = sqfs_xattr_reader_read_key(s->xattrs, &key);
		if (code == 0)
			code = sqfs_xattr_reader_read_value(s->xattrs, key, &value);
		if (code == 0)
			archive_entry_xattr_add_entry(
				e, (const char *)key->key, value->value, value->size);
		sqfs_free(key);
		sqfs_free(value);
	}
	return code;
}

static int set_target(const sqfs_inode_generic_t *i, struct archive_entry *e)
{
	const sqfs_u32 len = i->base.type == SQFS_INODE_SLINK ? i->data.slink.target_size
							      : i->data.slink_ext.target_size;
	auto_free char *target = str_ndup((const char *)i->extra, len);

	if (!target)
		return SQFS_ERROR_ALLOC;
	archive_entry_set_symlink(e, target);
	return 0;
}

static void set_device(const sqfs_inode_generic_t *i, struct archive_entry *e)
{
	const uint32_t dev = i->base.type == SQFS_INODE_BDEV || i->base.type == SQFS_INODE_CDEV
				     ? i->data.dev.devno
				     : i->data.dev_ext.devno;

	archive_entry_set_rdevmajor(e, dev >> 8 & 0xfff);
	archive_entry_set_rdevminor(e, (dev & 0xff) | (dev >> 12 & 0xfff00));
}

/* Fill in the entry; *ret_size: bytes of data that follow it. */
static int set_entry(struct source *s, const sqfs_inode_generic_t *i, const char *path,
	struct archive_entry *e, uint64_t *ret_size)
{
	sqfs_u64 size = 0;
	int code = 0;

	archive_entry_set_pathname(e, *path ? path : ".");
	archive_entry_set_mode(e, i->base.mode);
	archive_entry_set_mtime(e, i->base.mod_time, 0);
	*ret_size = 0;
	if (links_of(i) > 1 && s->first[i->base.inode_number]) {
		archive_entry_set_hardlink(e, s->first[i->base.inode_number]);
		return set_owner(s, i, e);
	}
	if (S_ISREG(i->base.mode))
		code = sqfs_inode_get_file_size(i, &size);
	else if (S_ISLNK(i->base.mode))
		code = set_target(i, e);
	else if (S_ISCHR(i->base.mode) || S_ISBLK(i->base.mode))
		set_device(i, e);
	archive_entry_set_size(e, (la_int64_t)size);
	*ret_size = size;
	if (code == 0)
		code = set_owner(s, i, e);
	return code == 0 ? set_xattrs(s, i, e) : code;
}

static int write_data(
	struct source *s, const sqfs_inode_generic_t *i, uint64_t size, holt_error **reterr)
{
	for (uint64_t at = 0; at < size;) {
		const uint64_t left = size - at;
		const sqfs_u32 want = left < READ_CHUNK_BYTES ? (sqfs_u32)left : READ_CHUNK_BYTES;
		if (cancel_flag_set(s->cancel))
			return err_make(reterr, HOLT_ECANCELLED, "the export was cancelled");
		const sqfs_s32 n = sqfs_data_reader_read(s->data, i, at, s->chunk, want);
		if (n <= 0)
			return fail(s, n < 0 ? n : SQFS_ERROR_CORRUPTED, reterr);
		const int code = tar_writer_data(s->tar, s->chunk, (size_t)n, reterr);
		if (code < 0)
			return code;
		at += (uint64_t)n;
	}
	return 0;
}

/* Remember where a file with several names is first. */
static int note_first(struct source *s, const sqfs_inode_generic_t *i, const char *path)
{
	char **first = &s->first[i->base.inode_number];

	if (links_of(i) < 2 || *first)
		return 0;
	*first = str_dup(path);
	return *first ? 0 : SQFS_ERROR_ALLOC;
}

static int write_entry(
	struct source *s, const sqfs_inode_generic_t *i, const char *path, holt_error **reterr)
{
	uint64_t size = 0;

	if (cancel_flag_set(s->cancel))
		return err_make(reterr, HOLT_ECANCELLED, "the export was cancelled");
	if (S_ISSOCK(i->base.mode))
		return 0;
	if (i->base.inode_number > s->super.inode_count || s->n_entries++ == TREE_NODES_MAX)
		return fail(s, SQFS_ERROR_CORRUPTED, reterr);
	struct archive_entry *e = archive_entry_new();
	if (!e)
		return err_nomem(reterr);
	int code = set_entry(s, i, path, e, &size);
	if (code == 0)
		code = note_first(s, i, path);
	code = code < 0 ? fail(s, code, reterr) : tar_writer_entry(s->tar, e, reterr);
	archive_entry_free(e);
	return code < 0 ? code : write_data(s, i, size, reterr);
}

/* --- The tree --------------------------------------------------------------------------------- */

static int push(
	struct source *s, sqfs_inode_generic_t *inode, const char *path, holt_error **reterr)
{
	const size_t len = strlen(path);
	struct pending *p = mem_zalloc(sizeof *p + len + 1);

	if (!p) {
		sqfs_free(inode);
		return err_nomem(reterr);
	}
	memcpy(p->path, path, len);
	p->inode = inode;
	p->next = s->stack;
	s->stack = p;
	return 0;
}

/* An entry of the directory @in, which the reader stands at. */
static int take(
	struct source *s, const struct pending *in, const sqfs_dir_entry_t *d, holt_error **reterr)
{
	sqfs_inode_generic_t *inode = NULL;
	auto_free char *path = str_printf("%s%s%.*s", in->path, *in->path ? "/" : "",
		(int)d->size + 1, (const char *)d->name);

	if (!path)
		return err_nomem(reterr);
	int code = strlen(path) > TAR_PATH_MAX ? SQFS_ERROR_CORRUPTED
					       : sqfs_dir_reader_get_inode(s->dirs, &inode);
	if (code < 0)
		return fail(s, code, reterr);
	code = write_entry(s, inode, path, reterr);
	if (code == 0 && S_ISDIR(inode->base.mode))
		return push(s, inode, path, reterr);
	sqfs_free(inode);
	return code;
}

static int write_dir(struct source *s, const struct pending *in, holt_error **reterr)
{
	int code = sqfs_dir_reader_open_dir(s->dirs, in->inode, 0);

	while (code == 0) {
		sqfs_dir_entry_t *d = NULL;
		code = sqfs_dir_reader_read(s->dirs, &d);
		if (code != 0)
			break;
		code = take(s, in, d, reterr);
		sqfs_free(d);
		if (code < 0)
			return code;
	}
	return code < 0 ? fail(s, code, reterr) : 0;
}

static int write_tree(struct source *s, holt_error **reterr)
{
	sqfs_inode_generic_t *root = NULL;
	int code = sqfs_dir_reader_get_root_inode(s->dirs, &root);

	if (code == 0 && !S_ISDIR(root->base.mode)) {
		sqfs_free(root);
		code = SQFS_ERROR_NOT_DIR;
	}
	if (code < 0)
		return fail(s, code, reterr);
	code = push(s, root, "", reterr);
	if (code == 0)
		code = write_entry(s, root, "", reterr);
	while (code == 0 && s->stack) {
		struct pending *top = s->stack;
		s->stack = top->next;
		code = write_dir(s, top, reterr);
		sqfs_free(top->inode);
		mem_free(top);
	}
	return code;
}

int rootfs_to_tar(int fd, struct tar_writer *w, const volatile int *cancel, holt_error **reterr)
{
	struct source s = {.tar = w, .cancel = cancel};
	int code = source_open(&s, fd, reterr);

	if (code == 0)
		code = write_tree(&s, reterr);
	if (code == 0)
		code = tar_writer_end(w, reterr);
	source_close(&s);
	return code;
}
