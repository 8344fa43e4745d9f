/* SPDX-License-Identifier: Apache-2.0 */
#include "image/layer.h"

#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "image/resolve.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/banned.h"

/*
 * How an entry of layer L finds its place when newer layers are in the tree already:
 *
 * - Walking down from the root, a whiteout or an opaque mark of a layer above L hides it, and so
 *   does anything that is not a directory and came from above L. Marks of L itself do not: a
 *   whiteout speaks about lower layers only, wherever it stands in its layer.
 * - At its own name, what came from above L wins; but a directory that is only implied (a newer
 *   layer put something into it without describing it) takes its metadata from L.
 * - Within one layer the later entry wins; what is replaced loses its children from this layer,
 *   while those of newer layers stay: for them it happened before.
 * - A symlink may have children: entries that its own or newer layers put "through" it. They are
 *   moved to where it leads when all layers are known (resolve.c). Known limit: when a newer layer
 *   replaces or removes the symlink itself, what went through it goes too, where unpacking layer by
 *   layer would have left it behind the symlink. Tools that write layers from a file system give
 *   real paths and never meet this.
 * - So may a hard link have, which may be one to a symlink: what it is shows when all layers are
 *   known, too.
 *
 * Names: a leading slash and "." mean nothing, ".." is refused; so no path leaves the tree, by
 * construction. Names that begin with ".wh." are marks and never reach the tree.
 */

#define WHITEOUT      ".wh."
#define WHITEOUT_META ".wh..wh."
#define OPAQUE        ".wh..wh..opq"

#define HOLE_PIECE_BYTES (UINT64_C(256) << 20) /* between two looks at the cancel flag */

struct name {
	const char *s;
	size_t len;
};

static bool name_starts(const struct name *n, const char *prefix)
{
	const size_t len = strlen(prefix);

	return n->len >= len && memcmp(n->s, prefix, len) == 0;
}

static bool name_is(const struct name *n, const char *s)
{
	return n->len == strlen(s) && memcmp(n->s, s, n->len) == 0;
}

/* Put the path before the message. */
static int about(holt_error **reterr, const char *path, int code)
{
	char shown[256];

	if (code < 0) {
		(void)str_escape(shown, sizeof shown, path, strlen(path), false);
		err_wrap(reterr, "'%s'", shown);
	}
	return code;
}

/* The next name of a path that is cleaned on the way: 1, 0 at the end. */
static int next_name(const char **at, struct name *ret, holt_error **reterr)
{
	for (;;) {
		*at += strspn(*at, "/");
		const struct name name = {*at, strcspn(*at, "/")};
		if (name.len == 0)
			return 0;
		*at += name.len;
		if (name_is(&name, ".."))
			return err_make(reterr, HOLT_EINVALID, "the path goes upwards with '..'");
		if (name_is(&name, "."))
			continue;
		*ret = name;
		return 1;
	}
}

/* Whether any name of a path begins with ".wh.". */
static bool path_has_mark(const char *path)
{
	for (const char *at = path; (at = strstr(at, WHITEOUT)); at++) {
		if (at == path || at[-1] == '/')
			return true;
	}
	return false;
}

int layer_clean_path(const char *path, char *dst, holt_error **reterr)
{
	struct name n = {"", 0};
	size_t len = 0;
	int code;

	while ((code = next_name(&path, &n, reterr)) > 0) {
		if (len > 0)
			dst[len++] = '/';
		memcpy(dst + len, n.s, n.len);
		len += n.len;
	}
	dst[len] = 0;
	return code;
}

/* A mark hides what is in a directory, but that something was in there makes the directory exist,
 * as long as it was not a mark itself. Returns 0. */
static int hidden_in(struct tree_node *dir, const char *path)
{
	if (dir->kind == TREE_GHOST && !path_has_mark(path)) {
		dir->kind = TREE_IMPLIED;
		tree_raise(dir);
	}
	return 0;
}

/* Go down to the directory that holds the last name of @path. Missing ones are made as ghosts.
 * Returns 1; 0 where newer layers hide the place, or the entry is aufs' own book-keeping. The root
 * itself has no last name: ret_last->len is 0. */
static int walk(struct merge *m, const char *path, uint32_t layer, struct tree_node **ret_dir,
	struct name *ret_last, holt_error **reterr)
{
	const char *const whole = path;
	struct tree_node *dir = m->tree->root;
	struct name name = {0};
	struct name next;
	int code = next_name(&path, &name, reterr);

	while (code > 0) {
		code = next_name(&path, &next, reterr);
		if (code <= 0)
			break;
		if (name_starts(&name, WHITEOUT_META))
			return 0;
		if (name_starts(&name, WHITEOUT))
			return err_make(
				reterr, HOLT_EINVALID, "a name within the path begins with '.wh.'");
		if (dir->opaque > layer)
			return hidden_in(dir, whole);
		code = tree_get(m->tree, dir, name.s, name.len, &dir, reterr);
		if (code < 0)
			return code;
		if (dir->whiteout > layer)
			return hidden_in(dir->parent, whole);
		const bool through = tree_is_symlink(dir) || dir->kind == TREE_LINK;
		const bool leads = tree_is_dir(dir) || through;
		if (dir->kind != TREE_GHOST && !leads && dir->layer > layer)
			return 0;
		if (through && dir->layer > layer)
			return 0;
		if (dir->kind != TREE_GHOST && !leads)
			return err_make(
				reterr, HOLT_EINVALID, "a name within the path is not a directory");
		name = next;
		code = 1;
	}
	if (code < 0)
		return code;
	if (name.len > 0 && dir->opaque > layer)
		return hidden_in(dir, whole);
	*ret_dir = dir;
	*ret_last = name;
	return 1;
}

bool layer_prune_below(struct tree_node *top, uint32_t layer)
{
	bool stays = false;

	for (struct tree_node *n = tree_walk(top, top); n; n = tree_walk(top, n)) {
		if (n->kind == TREE_IMPLIED)
			n->kind = TREE_GHOST;
		if (n->kind == TREE_GHOST)
			continue;
		if (n->layer <= layer) {
			n->kind = TREE_GHOST;
			continue;
		}
		stays = true;
		for (struct tree_node *up = n->parent; up != top && up->kind == TREE_GHOST;
			up = up->parent)
			up->kind = TREE_IMPLIED;
	}
	return stays;
}

/* Mark what a ".wh." name says. */
static int apply_mark(struct merge *m, struct tree_node *dir, const struct name *name,
	uint32_t layer, holt_error **reterr)
{
	if (name_is(name, OPAQUE)) {
		if (dir->opaque < layer)
			dir->opaque = layer;
		return 0;
	}
	if (name_starts(name, WHITEOUT_META))
		return 0;
	const struct name target = {name->s + strlen(WHITEOUT), name->len - strlen(WHITEOUT)};
	if (target.len == 0 || name_is(&target, ".") || name_is(&target, ".."))
		return err_make(reterr, HOLT_EINVALID, "the whiteout names nothing");
	struct tree_node *n = NULL;
	const int code = tree_get(m->tree, dir, target.s, target.len, &n, reterr);
	if (code == 0 && n->whiteout < layer)
		n->whiteout = layer;
	return code;
}

static uint32_t clamp_time(int64_t s)
{
	return s < 0 ? 0 : s > UINT32_MAX ? UINT32_MAX : (uint32_t)s;
}

/* A device number as the kernel's new_decode_dev reads it. */
static uint32_t encode_dev(uint32_t major, uint32_t minor)
{
	return (minor & 0xff) | major << 8 | (minor & ~0xffu) << 12;
}

static int check_entry(const struct tar_entry *e, holt_error **reterr)
{
	const uint32_t type = e->mode & S_IFMT;

	/* The highest id means "no change" to the kernel. */
	if (e->uid < 0 || e->uid >= UINT32_MAX || e->gid < 0 || e->gid >= UINT32_MAX)
		return err_make(reterr, HOLT_EINVALID,
			"owner %" PRId64 ":%" PRId64 " is out of range", e->uid, e->gid);
	if ((type == S_IFBLK || type == S_IFCHR) &&
		(e->dev_major > 0xfff || e->dev_minor > 0xfffff))
		return err_make(reterr, HOLT_EINVALID, "device %u:%u is out of range", e->dev_major,
			e->dev_minor);
	if (type == S_IFLNK && (!e->symlink || !*e->symlink))
		return err_make(reterr, HOLT_EINVALID, "the symlink has no target");
	if (type == S_IFLNK && strlen(e->symlink) > ROOTFS_SYMLINK_MAX)
		return err_make(reterr, HOLT_ELIMIT, "the symlink's target has more than %d bytes",
			ROOTFS_SYMLINK_MAX);
	if (type == 0)
		return err_make(reterr, HOLT_EINVALID, "the entry has an unknown type");
	return 0;
}

static void warn_dropped(struct merge *m, const struct tar_entry *e, const char *what)
{
	char path[256];
	char attr[64];

	(void)str_escape(path, sizeof path, e->path, strlen(e->path), false);
	(void)str_escape(attr, sizeof attr, what, strlen(what), false);
	if (m->n_dropped++ == 0)
		log_warn("image", "ignoring attribute='%s' path='%s': squashfs cannot hold it",
			attr, path);
	else
		log_debug("image", "ignoring attribute='%s' path='%s'", attr, path);
}

/* A hole takes no bytes of the source, but minutes where it is a TiB. */
static int write_hole(struct merge *m, struct tar_reader *tar, uint64_t len, holt_error **reterr)
{
	int code = 0;

	while (code == 0 && len > 0) {
		const uint64_t n = len < HOLE_PIECE_BYTES ? len : HOLE_PIECE_BYTES;
		code = tar_check_cancel(tar, reterr);
		if (code == 0)
			code = rootfs_file_hole(m->rootfs, n, reterr);
		len -= n;
	}
	return code;
}

static int write_data(struct merge *m, struct tar_reader *tar, const struct tar_entry *e,
	struct tree_inode *i, holt_error **reterr)
{
	uint64_t at = 0;
	const void *data;
	size_t len;
	uint64_t offset;
	int code = e->size > 0 ? rootfs_file_begin(m->rootfs, e->size, &i->file, reterr) : 0;

	if (code < 0 || e->size == 0)
		return code;
	while ((code = tar_data(tar, &data, &len, &offset, reterr)) > 0) {
		if (offset < at || offset > e->size || len > e->size - offset)
			return err_make(reterr, HOLT_EINVALID,
				"the pieces of a sparse file overlap "
				"or lie outside it");
		code = write_hole(m, tar, offset - at, reterr);
		if (code == 0)
			code = rootfs_file_write(m->rootfs, data, len, reterr);
		if (code < 0)
			return code;
		at = offset + len;
	}
	if (code == 0)
		code = write_hole(m, tar, e->size - at, reterr);
	return code < 0 ? code : rootfs_file_end(m->rootfs, reterr);
}

int layer_make_inode(struct merge *m, struct tar_reader *tar, const struct tar_entry *e,
	struct tree_inode **ret, holt_error **reterr)
{
	const char *dropped = NULL;
	int code = check_entry(e, reterr);

	if (code < 0)
		return code;
	struct tree_inode *i = tree_alloc(m->tree, sizeof *i);
	if (!i)
		return tree_nomem(m->tree, reterr);
	i->mode = e->mode & (S_IFMT | 07777);
	i->uid = (uint32_t)e->uid;
	i->gid = (uint32_t)e->gid;
	i->mtime_s = clamp_time(e->mtime_s);
	i->xattr = ROOTFS_NO_XATTR;
	if (S_ISBLK(i->mode) || S_ISCHR(i->mode))
		i->rdev = encode_dev(e->dev_major, e->dev_minor);
	if (S_ISLNK(i->mode)) {
		i->mode = S_IFLNK | 0777;
		i->target = tree_strdup(m->tree, e->symlink);
		if (!i->target)
			return tree_nomem(m->tree, reterr);
	}
	if (e->n_xattrs > 0)
		code = rootfs_xattrs(
			m->rootfs, e->xattrs, e->n_xattrs, &i->xattr, &dropped, reterr);
	if (code < 0)
		return code;
	if (dropped || e->acl)
		warn_dropped(m, e, dropped ? dropped : "posix acl");
	if (S_ISREG(i->mode))
		code = write_data(m, tar, e, i, reterr);
	if (code == 0)
		*ret = i;
	return code;
}

static void put_inode(
	const struct merge *m, struct tree_node *n, struct tree_inode *i, uint32_t layer)
{
	n->kind = TREE_ENTRY;
	n->inode = i;
	n->layer = layer;
	n->seq = m->n_entries;
	/* Should a directory take its place later in this layer, it begins empty. */
	if (!S_ISDIR(i->mode) && n->opaque < layer)
		n->opaque = layer;
	tree_raise(n);
}

static int put_link(struct merge *m, struct tree_node *n, const struct tar_entry *e, uint32_t layer,
	holt_error **reterr)
{
	char path[TAR_PATH_MAX + 1];
	const int code = layer_clean_path(e->hardlink, path, reterr);

	if (code < 0)
		return code;
	const char *target = tree_strdup(m->tree, path);
	if (!target)
		return tree_nomem(m->tree, reterr);
	return link_add(m, n, target, layer, reterr);
}

/* Whether the entry may take the node's place; clears the place for it. */
static bool make_way(struct tree_node *n, const struct tar_entry *e, uint32_t layer)
{
	const bool is_dir = !e->hardlink && S_ISDIR(e->mode);
	const bool may_lead = e->hardlink || S_ISLNK(e->mode);

	if ((n->kind == TREE_ENTRY || n->kind == TREE_LINK) && n->layer > layer) {
		/* Hidden, it still ends what its own and lower layers have in the directory. */
		if (!is_dir && tree_is_dir(n)) {
			(void)layer_prune_below(n, layer);
			n->opaque = n->opaque < layer ? layer : n->opaque;
		}
		return false;
	}
	if (n->kind == TREE_GHOST || is_dir || !n->child)
		return true;
	/* Newer layers may have put something into the directory that this entry is not. Through a
	 * symlink that still works, and through a hard link to one; anything else gives way. */
	if (!layer_prune_below(n, layer) || may_lead)
		return true;
	n->kind = TREE_IMPLIED;
	return false;
}

static int merge_entry(struct merge *m, struct tar_reader *tar, const struct tar_entry *e,
	uint32_t layer, holt_error **reterr)
{
	struct tree_node *dir = m->tree->root;
	struct tree_node *n = NULL;
	struct tree_inode *i = NULL;
	struct name last = {0};
	int code = walk(m, e->path, layer, &dir, &last, reterr);

	if (code <= 0)
		return code;
	if (name_starts(&last, WHITEOUT))
		return apply_mark(m, dir, &last, layer, reterr);
	/* The directory exists even if the entry turns out to be hidden. */
	if (dir->kind == TREE_GHOST) {
		dir->kind = TREE_IMPLIED;
		tree_raise(dir);
	}
	if (last.len == 0) {
		n = m->tree->root;
		if (e->hardlink || !S_ISDIR(e->mode))
			return err_make(reterr, HOLT_EINVALID, "the root is not a directory");
	} else {
		code = tree_get(m->tree, dir, last.s, last.len, &n, reterr);
		if (code < 0)
			return code;
	}
	if (n->whiteout > layer || !make_way(n, e, layer))
		return 0;
	if (e->hardlink)
		return put_link(m, n, e, layer, reterr);
	code = layer_make_inode(m, tar, e, &i, reterr);
	if (i)
		put_inode(m, n, i, layer);
	return code;
}

int merge_layer(struct merge *m, struct tar_reader *tar, uint32_t layer, holt_error **reterr)
{
	struct tar_entry e;
	int code;

	m->first_seq[layer] = m->n_entries;
	while ((code = tar_next(tar, &e, reterr)) > 0) {
		if (++m->n_entries > LAYER_ENTRIES_MAX)
			return err_make(reterr, HOLT_ELIMIT, "the image has more than %u entries",
				LAYER_ENTRIES_MAX);
		code = about(reterr, e.path, merge_entry(m, tar, &e, layer, reterr));
		if (code < 0)
			return code;
	}
	return code;
}

int merge_new(struct tree *t, struct rootfs *rootfs, struct merge **ret, holt_error **reterr)
{
	struct merge *m = mem_zalloc(sizeof *m);

	if (!m)
		return err_nomem(reterr);
	m->tree = t;
	m->rootfs = rootfs;
	*ret = m;
	return 0;
}

void merge_free(struct merge *m)
{
	if (!m)
		return;
	mem_free(m->links);
	mem_free(m->wanted);
	mem_free(m->served);
	mem_free(m);
}
