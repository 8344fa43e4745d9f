/* SPDX-License-Identifier: Apache-2.0 */
#include "image/rootfs.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sqfs/block_processor.h>
#include <sqfs/block_writer.h>
#include <sqfs/compressor.h>
#include <sqfs/dir_writer.h>
#include <sqfs/error.h>
#include <sqfs/frag_table.h>
#include <sqfs/id_table.h>
#include <sqfs/inode.h>
#include <sqfs/io.h>
#include <sqfs/meta_writer.h>
#include <sqfs/super.h>
#include <sqfs/xattr.h>
#include <sqfs/xattr_writer.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/banned.h"

/*
 * The only file that writes with libsquashfs (rootfs_tar.c reads). It gives the block processor,
 * the tables and the encoders; order of the tree, inode numbers and hard links are decided here.
 *
 * Order: directories are taken breadth first and numbered with their children; then written from
 * the last to the first, each after everything in it, since an entry needs its inode's place.
 *
 * Things that libsquashfs does not do for us: it keeps the list of a file's blocks on the stack
 * while it writes the inode, so large files are encoded here (inode_write_file); its worker threads
 * inherit our signal mask, so signals are blocked while they start; after a failure its queue must
 * run dry before it is freed, so writing turns into a no-op (rootfs_free).
 */

#define ROOTFS_BLOCK_BYTES      SQFS_DEFAULT_BLOCK_SIZE
#define ROOTFS_BACKLOG          64 /* blocks in flight for each worker */
#define ROOTFS_BLOCKS_ON_STACK  4096 /* blocks of a file that libsquashfs may encode */
#define ROOTFS_FREE_CHECK_BYTES (16u << 20) /* written between two looks at the free space */
#define ROOTFS_ALIGN            4096

struct rootfs_file {
	sqfs_inode_generic_t *inode;
	struct rootfs_file *next;
};

/* libsquashfs' view of our descriptor. */
struct output {
	sqfs_file_t base;
	int fd;
	int errnum; /* of the first failure */
	bool discard; /* take everything, write nothing */
	uint64_t size;
	uint64_t unchecked;
};

struct rootfs {
	struct output out;
	sqfs_compressor_t *cmp;
	sqfs_compressor_t *uncmp;
	sqfs_block_writer_t *blocks;
	sqfs_frag_table_t *fragments;
	sqfs_block_processor_t *data;
	sqfs_id_table_t *ids;
	sqfs_xattr_writer_t *xattrs;
	sqfs_meta_writer_t *inode_meta;
	sqfs_meta_writer_t *dir_meta;
	sqfs_dir_writer_t *dirs;
	sqfs_super_t super;
	struct rootfs_file *files;
	uint64_t bytes; /* of all files so far, holes included */
	uint64_t xattr_bytes;
	uint8_t *zeros; /* one block */
};

static int output_fail(struct output *o, int errnum)
{
	if (!o->errnum)
		o->errnum = errnum;
	return SQFS_ERROR_IO;
}

static int output_read(sqfs_file_t *f, sqfs_u64 offset, void *buffer, size_t size)
{
	struct output *o = (struct output *)f;
	uint8_t *p = buffer;

	while (size > 0) {
		const ssize_t n = pread(o->fd, p, size, (off_t)offset);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return output_fail(o, n < 0 ? errno : EIO);
		p += n;
		offset += (sqfs_u64)n;
		size -= (size_t)n;
	}
	return 0;
}

/* A full file system is told before it is full, so that others on the host go on working. */
static int output_check_space(struct output *o, size_t size)
{
	struct statvfs st;

	o->unchecked += size;
	if (o->unchecked < ROOTFS_FREE_CHECK_BYTES)
		return 0;
	o->unchecked = 0;
	/* The disk begins now, so that the fsync at the end is short. */
	(void)sync_file_range(o->fd, 0, 0, SYNC_FILE_RANGE_WRITE);
	if (fstatvfs(o->fd, &st) < 0)
		return output_fail(o, errno);
	/* A file system without blocks (a tmpfs without a limit) has no such figure. */
	if (st.f_blocks > 0 && (uint64_t)st.f_bavail * st.f_frsize < ROOTFS_FREE_MIN)
		return output_fail(o, ENOSPC);
	return 0;
}

static int output_write(sqfs_file_t *f, sqfs_u64 offset, const void *buffer, size_t size)
{
	struct output *o = (struct output *)f;
	const uint8_t *p = buffer;

	if (o->discard)
		return 0;
	if (output_check_space(o, size) < 0)
		return SQFS_ERROR_IO;
	while (size > 0) {
		const ssize_t n = pwrite(o->fd, p, size, (off_t)offset);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return output_fail(o, errno);
		p += n;
		offset += (sqfs_u64)n;
		size -= (size_t)n;
	}
	if (offset > o->size)
		o->size = offset;
	return 0;
}

static sqfs_u64 output_size(const sqfs_file_t *f)
{
	return ((const struct output *)f)->size;
}

static int output_truncate(sqfs_file_t *f, sqfs_u64 size)
{
	struct output *o = (struct output *)f;

	if (o->discard)
		return 0;
	if (ftruncate(o->fd, (off_t)size) < 0)
		return output_fail(o, errno);
	o->size = size;
	return 0;
}

static void output_destroy(sqfs_object_t *o)
{
	(void)o; /* part of struct rootfs */
}

static int fail(const struct rootfs *r, int code, const char *what, holt_error **reterr)
{
	if (r->out.errnum) {
		const int c = err_errno(reterr, r->out.errnum, "cannot write the rootfs");
		if (r->out.errnum == ENOSPC || r->out.errnum == EDQUOT)
			err_hint(reterr,
				"free some space where the images are kept; %u MiB always "
				"stay free",
				ROOTFS_FREE_MIN >> 20);
		return c;
	}
	if (code == SQFS_ERROR_ALLOC)
		return err_nomem(reterr);
	return err_make(reterr, HOLT_EINTERNAL, "cannot write the rootfs: %s failed with code %d",
		what, code);
}

static unsigned count_processors(void)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	if (sched_getaffinity(0, sizeof set, &set) < 0)
		return 1;
	const int n = CPU_COUNT(&set);
	return n < 1 ? 1 : n > ROOTFS_WORKERS_MAX ? ROOTFS_WORKERS_MAX : (unsigned)n;
}

static int open_compressors(struct rootfs *r)
{
	sqfs_compressor_config_t config;
	int code = sqfs_compressor_config_init(&config, SQFS_COMP_LZ4, ROOTFS_BLOCK_BYTES, 0);

	if (code == 0)
		code = sqfs_compressor_create(&config, &r->cmp);
	if (code == 0) {
		config.flags |= SQFS_COMP_FLAG_UNCOMPRESS;
		code = sqfs_compressor_create(&config, &r->uncmp);
	}
	return code;
}

/* The super block is written again when all is known; its time is fixed, so that the same tree
 * gives the same bytes. */
static int write_head(struct rootfs *r)
{
	int code = sqfs_super_init(&r->super, ROOTFS_BLOCK_BYTES, 0, SQFS_COMP_LZ4);

	if (code == 0)
		code = sqfs_super_write(&r->super, &r->out.base);
	if (code == 0)
		code = r->cmp->write_options(r->cmp, &r->out.base);
	if (code > 0) {
		r->super.flags |= SQFS_FLAG_COMPRESSOR_OPTIONS;
		code = 0;
	}
	return code;
}

static int open_processor(struct rootfs *r, unsigned workers)
{
	const sqfs_block_processor_desc_t desc = {
		.size = sizeof desc,
		.max_block_size = ROOTFS_BLOCK_BYTES,
		.num_workers = workers,
		.max_backlog = ROOTFS_BACKLOG * workers,
		.cmp = r->cmp,
		.wr = r->blocks,
		.tbl = r->fragments,
		.file = &r->out.base,
		.uncmp = r->uncmp,
	};
	sigset_t all;
	sigset_t old;

	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &old);
	const int code = sqfs_block_processor_create_ex(&desc, &r->data);
	(void)pthread_sigmask(SIG_SETMASK, &old, NULL);
	return code;
}

static int open_tables(struct rootfs *r)
{
	r->blocks = sqfs_block_writer_create(&r->out.base, ROOTFS_ALIGN, 0);
	r->fragments = sqfs_frag_table_create(0);
	r->ids = sqfs_id_table_create(0);
	r->xattrs = sqfs_xattr_writer_create(0);
	r->inode_meta = sqfs_meta_writer_create(&r->out.base, r->cmp, 0);
	r->dir_meta = sqfs_meta_writer_create(
		&r->out.base, r->cmp, SQFS_META_WRITER_KEEP_IN_MEMORY);
	r->dirs = r->dir_meta ? sqfs_dir_writer_create(r->dir_meta, 0) : NULL;
	r->zeros = mem_zalloc(ROOTFS_BLOCK_BYTES);
	if (!r->blocks || !r->fragments || !r->ids || !r->xattrs || !r->inode_meta ||
		!r->dir_meta || !r->dirs || !r->zeros)
		return SQFS_ERROR_ALLOC;
	return 0;
}

int rootfs_new(int fd, unsigned workers, struct rootfs **ret, holt_error **reterr)
{
	struct rootfs *r = mem_zalloc(sizeof *r);

	if (!r)
		return err_nomem(reterr);
	r->out = (struct output){
		.base = {.base = {.destroy = output_destroy},
			.read_at = output_read,
			.write_at = output_write,
			.get_size = output_size,
			.truncate = output_truncate},
		.fd = fd,
		.unchecked = ROOTFS_FREE_CHECK_BYTES, /* look before the first byte */
	};
	const char *what = "opening the compressor";
	int code = open_compressors(r);
	if (code == 0) {
		what = "writing the head";
		code = write_head(r);
	}
	if (code == 0) {
		what = "opening the tables";
		code = open_tables(r);
	}
	if (code == 0) {
		what = "starting the compression";
		code = open_processor(r, workers ? workers : count_processors());
	}
	if (code < 0) {
		code = fail(r, code, what, reterr);
		rootfs_free(r);
		return code;
	}
	*ret = r;
	return 0;
}

static void file_drop(struct rootfs_file *f)
{
	sqfs_free(f->inode);
	f->inode = NULL;
}

void rootfs_free(struct rootfs *r)
{
	if (!r)
		return;
	if (r->data) {
		/* Blocks that are in the queue when it is destroyed would be lost, and they point
		 * at inodes that go next. */
		r->out.discard = true;
		(void)sqfs_block_processor_sync(r->data);
		sqfs_destroy(r->data);
	}
	for (struct rootfs_file *f = r->files, *next; f; f = next) {
		next = f->next;
		file_drop(f);
		mem_free(f);
	}
	sqfs_destroy(r->dirs);
	sqfs_destroy(r->dir_meta);
	sqfs_destroy(r->inode_meta);
	sqfs_destroy(r->xattrs);
	sqfs_destroy(r->ids);
	sqfs_destroy(r->fragments);
	sqfs_destroy(r->blocks);
	sqfs_destroy(r->uncmp);
	sqfs_destroy(r->cmp);
	mem_free(r->zeros);
	mem_free(r);
}

int rootfs_file_begin(
	struct rootfs *r, uint64_t size, struct rootfs_file **ret, holt_error **reterr)
{
	if (size > ROOTFS_FILE_MAX)
		return err_make(reterr, HOLT_ELIMIT,
			"a file has more bytes than the limit of %" PRIu64, ROOTFS_FILE_MAX);
	if (size > ROOTFS_BYTES_MAX - r->bytes)
		return err_make(reterr, HOLT_ELIMIT,
			"the files have more bytes together than the limit of %" PRIu64,
			ROOTFS_BYTES_MAX);
	r->bytes += size;
	struct rootfs_file *f = mem_zalloc(sizeof *f);
	if (!f)
		return err_nomem(reterr);
	f->next = r->files;
	r->files = f;
	const int code = sqfs_block_processor_begin_file(r->data, &f->inode, NULL, 0);
	if (code < 0)
		return fail(r, code, "beginning a file", reterr);
	*ret = f;
	return 0;
}

int rootfs_file_write(struct rootfs *r, const void *data, size_t len, holt_error **reterr)
{
	/* libsquashfs does not expect an empty piece. */
	if (len == 0)
		return 0;
	const int code = sqfs_block_processor_append(r->data, data, len);
	return code < 0 ? fail(r, code, "writing a file", reterr) : 0;
}

int rootfs_file_hole(struct rootfs *r, uint64_t len, holt_error **reterr)
{
	while (len > 0) {
		const size_t n = len < ROOTFS_BLOCK_BYTES ? (size_t)len : ROOTFS_BLOCK_BYTES;
		const int code = rootfs_file_write(r, r->zeros, n, reterr);
		if (code < 0)
			return code;
		len -= n;
	}
	return 0;
}

int rootfs_file_end(struct rootfs *r, holt_error **reterr)
{
	const int code = sqfs_block_processor_end_file(r->data);

	return code < 0 ? fail(r, code, "ending a file", reterr) : 0;
}

int rootfs_xattrs(struct rootfs *r, const struct tar_xattr *list, size_t n, uint32_t *ret,
	const char **ret_dropped, holt_error **reterr)
{
	uint32_t index = ROOTFS_NO_XATTR;

	*ret_dropped = NULL;
	for (size_t i = 0; i < n; i++)
		r->xattr_bytes += strlen(list[i].name) + list[i].size;
	if (r->xattr_bytes > ROOTFS_XATTRS_MAX)
		return err_make(reterr, HOLT_ELIMIT,
			"the extended attributes have more bytes together than the limit of %u",
			ROOTFS_XATTRS_MAX);
	int code = sqfs_xattr_writer_begin(r->xattrs, 0);
	for (size_t i = 0; code == 0 && i < n; i++) {
		const char *dot = strchr(list[i].name, '.');
		if (sqfs_get_xattr_prefix_id(list[i].name) < 0 || !dot || !dot[1] ||
			strlen(list[i].name) > TREE_NAME_MAX)
			*ret_dropped = list[i].name;
		else
			code = sqfs_xattr_writer_add(
				r->xattrs, list[i].name, list[i].value, list[i].size);
	}
	if (code == 0)
		code = sqfs_xattr_writer_end(r->xattrs, &index);
	if (code < 0)
		return fail(r, code, "storing extended attributes", reterr);
	*ret = index;
	return 0;
}

/* --- The tree --------------------------------------------------------------------------------- */

static bool is_real(const struct tree_node *n)
{
	return n->kind == TREE_IMPLIED || n->kind == TREE_ENTRY;
}

static int compare_names(const void *a, const void *b)
{
	const struct tree_node *const *x = a;
	const struct tree_node *const *y = b;

	return strcmp((*x)->name, (*y)->name);
}

/* Directories that no entry describes get an inode of their own. */
static int complete_inode(struct tree *t, struct tree_node *n, holt_error **reterr)
{
	if (n->kind != TREE_IMPLIED)
		return 0;
	n->inode = tree_alloc(t, sizeof *n->inode);
	if (!n->inode)
		return tree_nomem(t, reterr);
	n->inode->mode = S_IFDIR | 0755;
	n->inode->xattr = ROOTFS_NO_XATTR;
	n->kind = TREE_ENTRY;
	return 0;
}

/* All real nodes in breadth-first order with sorted siblings; hard links count and number. */
struct plan {
	struct tree_node **nodes;
	size_t n;
	uint32_t n_inodes;
};

static int plan_node(struct plan *p, struct tree *t, struct tree_node *n, holt_error **reterr)
{
	const int code = complete_inode(t, n, reterr);

	if (code < 0)
		return code;
	if (n->inode->nlink++ == 0)
		n->inode->number = ++p->n_inodes;
	p->nodes[p->n++] = n;
	return 0;
}

static int plan_make(struct plan *p, struct tree *t, holt_error **reterr)
{
	p->nodes = mem_array(t->n_nodes, sizeof *p->nodes);
	if (!p->nodes)
		return err_nomem(reterr);
	int code = plan_node(p, t, t->root, reterr);
	for (size_t at = 0; code == 0 && at < p->n; at++) {
		const size_t first = p->n;
		if (!tree_is_dir(p->nodes[at]))
			continue;
		for (struct tree_node *c = p->nodes[at]->child; c; c = c->sibling) {
			if (is_real(c))
				p->nodes[p->n++] = c;
		}
		const size_t end = p->n;
		qsort(p->nodes + first, end - first, sizeof *p->nodes, compare_names);
		for (p->n = first; code == 0 && p->n < end;)
			code = plan_node(p, t, p->nodes[p->n], reterr);
	}
	return code;
}

static int fill_base(struct rootfs *r, const struct tree_inode *i, sqfs_inode_generic_t *out)
{
	out->base.mode = (sqfs_u16)i->mode;
	out->base.mod_time = i->mtime_s;
	out->base.inode_number = i->number;
	int code = sqfs_id_table_id_to_index(r->ids, i->uid, &out->base.uid_idx);
	if (code == 0)
		code = sqfs_id_table_id_to_index(r->ids, i->gid, &out->base.gid_idx);
	return code;
}

static int write_inode(struct rootfs *r, struct tree_inode *i, const sqfs_inode_generic_t *out)
{
	sqfs_u64 block = 0;
	sqfs_u32 offset = 0;

	sqfs_meta_writer_get_position(r->inode_meta, &block, &offset);
	i->ref = block << 16 | offset;
	return sqfs_meta_writer_write_inode(r->inode_meta, out);
}

/* Encode an extended file inode with all its blocks here: the library would put their list on the
 * stack, which a sparse file of some hundred GiB overflows. */
static int write_large_file(struct rootfs *r, struct tree_inode *i, const sqfs_inode_generic_t *in)
{
	const sqfs_inode_file_ext_t *f = &in->data.file_ext;
	const struct {
		sqfs_inode_t base;
		sqfs_inode_file_ext_t file;
	} __attribute__((packed)) disk = {
		.base = {.type = htole16(SQFS_INODE_EXT_FILE),
			.mode = htole16(in->base.mode & 07777),
			.uid_idx = htole16(in->base.uid_idx),
			.gid_idx = htole16(in->base.gid_idx),
			.mod_time = htole32(in->base.mod_time),
			.inode_number = htole32(in->base.inode_number)},
		.file = {.blocks_start = htole64(f->blocks_start),
			.file_size = htole64(f->file_size),
			.sparse = htole64(f->sparse),
			.nlink = htole32(f->nlink),
			.fragment_idx = htole32(f->fragment_idx),
			.fragment_offset = htole32(f->fragment_offset),
			.xattr_idx = htole32(f->xattr_idx)},
	};
	sqfs_u64 block = 0;
	sqfs_u32 offset = 0;

	sqfs_meta_writer_get_position(r->inode_meta, &block, &offset);
	i->ref = block << 16 | offset;
	int code = sqfs_meta_writer_append(r->inode_meta, &disk, sizeof disk);
	const size_t n = sqfs_inode_get_file_block_count(in);
	for (size_t at = 0; code == 0 && at < n; at++) {
		const sqfs_u32 size = htole32(in->extra[at]);
		code = sqfs_meta_writer_append(r->inode_meta, &size, sizeof size);
	}
	return code;
}

static int write_file(struct rootfs *r, struct tree_inode *i)
{
	sqfs_inode_generic_t empty = {.base = {.type = SQFS_INODE_FILE}};
	sqfs_inode_generic_t *in = i->file ? i->file->inode : &empty;

	if (in == &empty)
		(void)sqfs_inode_set_frag_location(in, 0xffffffff, 0xffffffff);
	const bool large = sqfs_inode_get_file_block_count(in) > ROOTFS_BLOCKS_ON_STACK;
	int code = fill_base(r, i, in);
	if (code == 0 && (i->nlink > 1 || i->xattr != ROOTFS_NO_XATTR || large))
		code = sqfs_inode_make_extended(in);
	if (code == 0 && in->base.type == SQFS_INODE_EXT_FILE) {
		in->data.file_ext.nlink = i->nlink;
		in->data.file_ext.xattr_idx = i->xattr;
	}
	if (code == 0)
		code = large ? write_large_file(r, i, in) : write_inode(r, i, in);
	if (i->file)
		file_drop(i->file);
	return code;
}

static sqfs_u16 special_type(uint32_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFBLK:
		return SQFS_INODE_BDEV;
	case S_IFCHR:
		return SQFS_INODE_CDEV;
	case S_IFIFO:
		return SQFS_INODE_FIFO;
	case S_IFSOCK:
		return SQFS_INODE_SOCKET;
	default:
		return SQFS_INODE_SLINK;
	}
}

static int write_special(struct rootfs *r, struct tree_inode *i)
{
	const size_t len = i->target ? strlen(i->target) : 0;
	auto_free sqfs_inode_generic_t *out = mem_zalloc(sizeof *out + len);

	if (!out)
		return SQFS_ERROR_ALLOC;
	out->base.type = special_type(i->mode);
	if (out->base.type == SQFS_INODE_SLINK) {
		out->data.slink.nlink = i->nlink;
		out->data.slink.target_size = (sqfs_u32)len;
		if (i->target)
			memcpy(out->extra, i->target, len);
	} else if (out->base.type == SQFS_INODE_BDEV || out->base.type == SQFS_INODE_CDEV) {
		out->data.dev.nlink = i->nlink;
		out->data.dev.devno = i->rdev;
	} else {
		out->data.ipc.nlink = i->nlink;
	}
	int code = fill_base(r, i, out);
	if (code == 0 && i->xattr != ROOTFS_NO_XATTR)
		code = sqfs_inode_set_xattr_index(out, i->xattr);
	return code == 0 ? write_inode(r, i, out) : code;
}

/* @children: the sorted children of the directory. */
static int write_dir(
	struct rootfs *r, const struct tree_node *dir, struct tree_node *const *children, size_t n)
{
	uint32_t n_subdirs = 0;
	int code = sqfs_dir_writer_begin(r->dirs, 0);

	for (size_t i = 0; code == 0 && i < n; i++) {
		const struct tree_node *c = children[i];
		if (S_ISDIR(c->inode->mode))
			n_subdirs++;
		code = sqfs_dir_writer_add_entry(r->dirs, c->name, c->inode->number, c->inode->ref,
			(sqfs_u16)c->inode->mode);
	}
	if (code == 0)
		code = sqfs_dir_writer_end(r->dirs);
	if (code < 0)
		return code;
	sqfs_inode_generic_t *out = sqfs_dir_writer_create_inode(
		r->dirs, 0, dir->inode->xattr, dir->parent ? dir->parent->inode->number : 0);
	if (!out)
		return SQFS_ERROR_ALLOC;
	if (out->base.type == SQFS_INODE_DIR)
		out->data.dir.nlink = n_subdirs + 2;
	else
		out->data.dir_ext.nlink = n_subdirs + 2;
	code = fill_base(r, dir->inode, out);
	if (code == 0)
		code = write_inode(r, dir->inode, out);
	sqfs_free(out);
	return code;
}

/* From the last node to the first: the children of a directory stand together behind it, so that
 * when it is reached they are written, and [children, end) shrinks towards the front. */
static int write_tree(struct rootfs *r, const struct plan *p)
{
	size_t end = p->n;
	int code = 0;

	for (size_t at = p->n; code == 0 && at-- > 0;) {
		struct tree_inode *i = p->nodes[at]->inode;
		if (S_ISDIR(i->mode)) {
			size_t first = end;
			while (first > at + 1 && p->nodes[first - 1]->parent == p->nodes[at])
				first--;
			code = write_dir(r, p->nodes[at], p->nodes + first, end - first);
			end = first;
		} else if (i->nlink > 0 && i->ref == UINT64_MAX) {
			code = S_ISREG(i->mode) ? write_file(r, i) : write_special(r, i);
		}
	}
	return code;
}

static int write_tables(struct rootfs *r, const struct plan *p)
{
	r->super.inode_count = p->n_inodes;
	r->super.inode_table_start = r->out.size;
	int code = write_tree(r, p);
	if (code == 0)
		code = sqfs_meta_writer_flush(r->inode_meta);
	if (code == 0)
		code = sqfs_meta_writer_flush(r->dir_meta);
	r->super.root_inode_ref = p->nodes[0]->inode->ref;
	r->super.directory_table_start = r->out.size;
	if (code == 0)
		code = sqfs_meta_write_write_to_file(r->dir_meta);
	if (code == 0)
		code = sqfs_frag_table_write(r->fragments, &r->out.base, &r->super, r->cmp);
	if (code == 0)
		code = sqfs_id_table_write(r->ids, &r->out.base, &r->super, r->cmp);
	if (code == 0)
		code = sqfs_xattr_writer_flush(r->xattrs, &r->out.base, &r->super, r->cmp);
	r->super.bytes_used = r->out.size;
	if (code == 0)
		code = sqfs_super_write(&r->super, &r->out.base);
	return code;
}

int rootfs_finish(struct rootfs *r, struct tree *t, uint64_t *ret_size, holt_error **reterr)
{
	struct plan plan = {0};
	const char *what = "finishing the data";
	int code = sqfs_block_processor_finish(r->data);

	if (code == 0) {
		code = plan_make(&plan, t, reterr);
		if (code < 0) {
			mem_free(plan.nodes);
			return code;
		}
		for (size_t i = 0; i < plan.n; i++)
			plan.nodes[i]->inode->ref = UINT64_MAX;
		what = "writing the tree";
		code = write_tables(r, &plan);
	}
	mem_free(plan.nodes);
	/* Block devices and the guest's driver want whole pages. */
	const uint64_t size = (r->out.size + ROOTFS_ALIGN - 1) / ROOTFS_ALIGN * ROOTFS_ALIGN;
	if (code == 0)
		code = output_truncate(&r->out.base, size);
	if (code == SQFS_ERROR_OVERFLOW && !r->out.errnum)
		return err_make(reterr, HOLT_ELIMIT,
			"the image has more than 65536 different owners or groups");
	if (code < 0)
		return fail(r, code, what, reterr);
	*ret_size = size;
	return 0;
}
