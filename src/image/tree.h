/* SPDX-License-Identifier: Apache-2.0 */
#ifndef IMAGE_TREE_H
#define IMAGE_TREE_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The file tree of one image in memory: names, metadata and what each layer said about a name.
 * File data is never here. Nodes and inodes live until the tree is freed; all of it belongs to one
 * thread. Layers are numbered from 1 (the base) upwards.
 */

#define TREE_NAME_MAX  255 /* bytes of one name, as in Linux */
#define TREE_NODES_MAX (4u << 20) /* names in one image, also those that are hidden in the end */

#define TREE_BYTES_MAX (UINT64_C(3) << 29) /* memory of names, metadata and targets */

struct rootfs_file;

enum tree_kind {
	TREE_GHOST, /* nothing is there (yet); the node carries whiteouts or leads to nothing */
	TREE_IMPLIED, /* a directory that no entry describes, but that holds something */
	TREE_ENTRY, /* has an inode */
	TREE_LINK, /* a hard link whose target is not known yet */
};

struct tree_inode {
	uint32_t mode; /* type and permissions as in struct stat */
	uint32_t uid;
	uint32_t gid;
	uint32_t mtime_s;
	uint32_t rdev; /* as the kernel encodes it on disk */
	uint32_t xattr; /* index from rootfs_xattrs, ROOTFS_NO_XATTR for none */
	const char *target; /* of a symlink */
	struct rootfs_file *file; /* of a regular file with data */
	uint32_t nlink; /* filled in by rootfs_finish, as the two below */
	uint32_t number;
	uint64_t ref;
};

struct tree_node {
	struct tree_node *parent; /* of the root: NULL */
	struct tree_node *child;
	struct tree_node *sibling;
	struct tree_node *hash_next;
	struct tree_inode *inode; /* TREE_ENTRY only */
	uint32_t link; /* TREE_LINK only: index in the merge */
	uint32_t id;
	uint32_t layer; /* that the entry or link came from */
	uint32_t seq; /* its place there */
	uint32_t whiteout; /* this name is hidden in layers below this one; 0: in none */
	uint32_t opaque; /* the children are hidden in layers below this one; 0: in none */
	enum tree_kind kind;
	uint16_t name_len;
	char name[];
};

struct tree {
	struct tree_node *root;
	struct tree_node **buckets;
	struct tree_chunk *chunks;
	size_t n_buckets;
	uint64_t n_bytes;
	uint32_t n_nodes;
	bool full; /* TREE_BYTES_MAX is reached */
	uint64_t seed;
};

int tree_new(struct tree **ret, holt_error **reterr);
void tree_free(struct tree *t);

/* Memory that lives as long as the tree, zeroed; NULL when there is none: tree_nomem tells why. */
void *tree_alloc(struct tree *t, size_t size) __attribute__((warn_unused_result));
const char *tree_strdup(struct tree *t, const char *s) __attribute__((warn_unused_result));

int tree_nomem(const struct tree *t, holt_error **reterr);

struct tree_node *tree_find(
	const struct tree *t, const struct tree_node *parent, const char *name, size_t len);
/* Find or add (as a ghost). */
int tree_get(struct tree *t, struct tree_node *parent, const char *name, size_t len,
	struct tree_node **ret, holt_error **reterr);
/* Give a node that is out of its parent's list another parent, which has no child of that name. */
void tree_move(struct tree *t, struct tree_node *node, struct tree_node *parent);

bool tree_is_dir(const struct tree_node *n);
bool tree_is_symlink(const struct tree_node *n);
/* Make a node real: its ghostly parents become implied directories. */
void tree_raise(struct tree_node *n);

/* Next node in pre-order below @top (which comes first); NULL at the end. No recursion, no memory:
 * trees from outside may be as deep as a path is long. */
struct tree_node *tree_walk(const struct tree_node *top, struct tree_node *at);
/* The same without going below @at. */
struct tree_node *tree_skip(const struct tree_node *top, struct tree_node *at);

/* The path of a node without leading slash, cut to @cap; for messages. Returns @dst. */
const char *tree_path(const struct tree_node *n, char *dst, size_t cap);

#endif
