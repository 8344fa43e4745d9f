/* SPDX-License-Identifier: Apache-2.0 */
#include "image/tree.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "base/random.h"
#include "base/str.h"
#include "base/banned.h"

/*
 * Names are found through one hash table for the whole tree, keyed by parent and name with a random
 * seed, so that a hostile image cannot choose collisions. Nodes come from chunks that are freed
 * together.
 */

#define TREE_CHUNK_BYTES   (256u << 10)
#define TREE_BUCKETS_FIRST 4096u

struct tree_chunk {
	struct tree_chunk *next;
	size_t used;
	size_t size;
	uint8_t data[] __attribute__((aligned(16)));
};

void *tree_alloc(struct tree *t, size_t size)
{
	size = (size + 15) & ~(size_t)15;
	if (!t->chunks || t->chunks->size - t->chunks->used < size) {
		const size_t room = size > TREE_CHUNK_BYTES ? size : TREE_CHUNK_BYTES;
		if (room > TREE_BYTES_MAX - t->n_bytes) {
			t->full = true;
			return NULL;
		}
		struct tree_chunk *chunk = mem_zalloc(sizeof *chunk + room);
		if (!chunk)
			return NULL;
		t->n_bytes += room;
		chunk->size = room;
		chunk->next = t->chunks;
		t->chunks = chunk;
	}
	void *p = t->chunks->data + t->chunks->used;
	t->chunks->used += size;
	return p;
}

int tree_nomem(const struct tree *t, holt_error **reterr)
{
	if (!t->full)
		return err_nomem(reterr);
	return err_make(reterr, HOLT_ELIMIT,
		"names, metadata and link targets of the image take more than %u MiB",
		(unsigned)(TREE_BYTES_MAX >> 20));
}

const char *tree_strdup(struct tree *t, const char *s)
{
	const size_t size = strlen(s) + 1;
	char *copy = tree_alloc(t, size);

	if (copy)
		memcpy(copy, s, size);
	return copy;
}

static size_t bucket_of(
	const struct tree *t, const struct tree_node *parent, const char *name, size_t len)
{
	uint64_t h = t->seed ^ (parent->id * UINT64_C(0x9e3779b97f4a7c15));

	for (size_t i = 0; i < len; i++)
		h = (h ^ (uint8_t)name[i]) * UINT64_C(0x100000001b3);
	return (size_t)(h ^ (h >> 29)) & (t->n_buckets - 1);
}

static void bucket_add(struct tree *t, struct tree_node *n)
{
	struct tree_node **head = &t->buckets[bucket_of(t, n->parent, n->name, n->name_len)];

	n->hash_next = *head;
	*head = n;
}

static void bucket_remove(struct tree *t, struct tree_node *n)
{
	struct tree_node **at = &t->buckets[bucket_of(t, n->parent, n->name, n->name_len)];

	while (*at != n)
		at = &(*at)->hash_next;
	*at = n->hash_next;
}

static int buckets_grow(struct tree *t, size_t n_buckets)
{
	struct tree_node **old = t->buckets;
	const size_t n_old = t->n_buckets;
	struct tree_node **fresh = mem_array(n_buckets, sizeof(struct tree_node *));

	if (!fresh)
		return -ENOMEM;
	t->buckets = fresh;
	t->n_buckets = n_buckets;
	for (size_t i = 0; i < n_old; i++) {
		for (struct tree_node *n = old[i], *next; n; n = next) {
			next = n->hash_next;
			bucket_add(t, n);
		}
	}
	mem_free(old);
	return 0;
}

static struct tree_node *node_new(
	struct tree *t, struct tree_node *parent, const char *name, size_t len)
{
	struct tree_node *n = tree_alloc(t, sizeof *n + len + 1);

	if (!n)
		return NULL;
	memcpy(n->name, name, len);
	n->name_len = (uint16_t)len;
	n->id = ++t->n_nodes;
	n->parent = parent;
	if (parent) {
		n->sibling = parent->child;
		parent->child = n;
		bucket_add(t, n);
	}
	return n;
}

int tree_new(struct tree **ret, holt_error **reterr)
{
	struct tree *t = mem_zalloc(sizeof *t);

	if (!t)
		return err_nomem(reterr);
	const int r = random_bytes(&t->seed, sizeof t->seed);
	if (r < 0) {
		tree_free(t);
		return err_errno(reterr, -r, "cannot get random bytes");
	}
	if (buckets_grow(t, TREE_BUCKETS_FIRST) == 0)
		t->root = node_new(t, NULL, "", 0);
	if (!t->root) {
		tree_free(t);
		return err_nomem(reterr);
	}
	t->root->kind = TREE_IMPLIED;
	*ret = t;
	return 0;
}

void tree_free(struct tree *t)
{
	if (!t)
		return;
	for (struct tree_chunk *c = t->chunks, *next; c; c = next) {
		next = c->next;
		mem_free(c);
	}
	mem_free(t->buckets);
	mem_free(t);
}

struct tree_node *tree_find(
	const struct tree *t, const struct tree_node *parent, const char *name, size_t len)
{
	struct tree_node *n = t->buckets[bucket_of(t, parent, name, len)];

	while (n && (n->parent != parent || n->name_len != len || memcmp(n->name, name, len) != 0))
		n = n->hash_next;
	return n;
}

int tree_get(struct tree *t, struct tree_node *parent, const char *name, size_t len,
	struct tree_node **ret, holt_error **reterr)
{
	struct tree_node *n = tree_find(t, parent, name, len);

	if (n) {
		*ret = n;
		return 0;
	}
	if (len > TREE_NAME_MAX)
		return err_make(reterr, HOLT_ELIMIT,
			"a name has %zu bytes, more than the limit of %d", len, TREE_NAME_MAX);
	if (t->n_nodes >= TREE_NODES_MAX)
		return err_make(
			reterr, HOLT_ELIMIT, "the image has more than %u names", TREE_NODES_MAX);
	if (t->n_nodes >= t->n_buckets && buckets_grow(t, t->n_buckets * 4) < 0)
		return err_nomem(reterr);
	n = node_new(t, parent, name, len);
	if (!n)
		return tree_nomem(t, reterr);
	*ret = n;
	return 0;
}

void tree_move(struct tree *t, struct tree_node *node, struct tree_node *parent)
{
	bucket_remove(t, node);
	node->parent = parent;
	node->sibling = parent->child;
	parent->child = node;
	bucket_add(t, node);
}

bool tree_is_dir(const struct tree_node *n)
{
	return n->kind == TREE_IMPLIED || (n->kind == TREE_ENTRY && S_ISDIR(n->inode->mode));
}

bool tree_is_symlink(const struct tree_node *n)
{
	return n->kind == TREE_ENTRY && S_ISLNK(n->inode->mode);
}

void tree_raise(struct tree_node *n)
{
	for (n = n->parent; n && n->kind == TREE_GHOST; n = n->parent)
		n->kind = TREE_IMPLIED;
}

struct tree_node *tree_skip(const struct tree_node *top, struct tree_node *at)
{
	while (at != top) {
		if (at->sibling)
			return at->sibling;
		at = at->parent;
	}
	return NULL;
}

struct tree_node *tree_walk(const struct tree_node *top, struct tree_node *at)
{
	return at->child ? at->child : tree_skip(top, at);
}

const char *tree_path(const struct tree_node *n, char *dst, size_t cap)
{
	size_t at = cap - 1;

	/* From the end, so that a path that is too long loses its beginning. */
	dst[at] = 0;
	for (; n->parent; n = n->parent) {
		if (at < (size_t)n->name_len + 1)
			break;
		at -= n->name_len;
		memcpy(dst + at, n->name, n->name_len);
		if (n->parent->parent)
			dst[--at] = '/';
	}
	memmove(dst, dst + at, cap - at);
	return dst;
}
