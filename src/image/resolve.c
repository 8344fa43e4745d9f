/* SPDX-License-Identifier: Apache-2.0 */
#include "image/resolve.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/banned.h"

/*
 * What can be decided only when all layers are known.
 *
 * Hard links. A link of layer L means its target as L knew it. Is the target in the tree and from
 * L or below, they share the inode. Was it replaced or removed above L, its data was skipped (or
 * the tar stream had passed it by): then the layers are read a second time for just these targets.
 * That is rare, and the only case in which a layer is read twice. A target that is a hard link
 * itself stands for its own target.
 *
 * Grafts. Children of a symlink node were put "through" the symlink; they are moved to the
 * directory where it leads. Where both places have a name, the newer layer wins, and marks of
 * either side hide what is older on the other.
 */

#define LINK_HOPS_MAX   40 /* symlinks on one path and hard links in one chain, as in Linux */
#define LINK_ROUNDS_MAX 8 /* times that layers are read again for chains of hard links */
#define LINK_WALK_MAX   (4 * TAR_PATH_MAX) /* bytes of a path with its symlinks filled in */

/* The node at a cleaned path, no symlinks followed; NULL if nothing is there. */
static struct tree_node *find_exact(const struct tree *t, const char *path)
{
	struct tree_node *n = t->root;

	while (n && *path) {
		const size_t len = strcspn(path, "/");
		n = tree_find(t, n, path, len);
		path += len + (path[len] == '/');
	}
	return n;
}

/* Put the target of a symlink before what is left of a path, which stands at @at in @rest. */
static bool splice(char *rest, const char *at, const char *target)
{
	const size_t len = strlen(target);
	const size_t tail = strlen(at);

	if (len + 1 + tail + 1 > LINK_WALK_MAX)
		return false;
	memmove(rest + len + 1, at, tail + 1);
	memcpy(rest, target, len);
	rest[len] = '/';
	return true;
}

enum follow_flags {
	FOLLOW_LAST = 1 << 0, /* the last name too, if it is a symlink */
	FOLLOW_MAKE = 1 << 1, /* missing directories come to be */
};

/* The directory below @dir with this name, made where that is wanted; *ret is NULL where there is
 * nothing. */
static int follow_name(struct tree *t, struct tree_node *dir, const char *name, size_t len,
	unsigned flags, struct tree_node **ret, holt_error **reterr)
{
	struct tree_node *n = tree_find(t, dir, name, len);

	if ((flags & FOLLOW_MAKE) && (!n || n->kind == TREE_GHOST)) {
		/* No mark must come to be a name this way. */
		if (len >= 4 && memcmp(name, ".wh.", 4) == 0)
			return 0;
		const int code = tree_get(t, dir, name, len, &n, reterr);
		if (code < 0)
			return code;
		n->kind = TREE_IMPLIED;
		tree_raise(n);
	}
	*ret = n;
	return 0;
}

/* Follow a path from a directory as the kernel would, the root being the top. *ret is NULL where
 * the path leads nowhere; *ret_far is how far it led. */
static int follow(struct tree *t, struct tree_node *dir, const char *path, unsigned flags,
	struct tree_node **ret, struct tree_node **ret_far, holt_error **reterr)
{
	auto_free char *rest = mem_zalloc(LINK_WALK_MAX);
	unsigned hops = 0;

	*ret = NULL;
	*ret_far = dir;
	if (!rest)
		return err_nomem(reterr);
	if (strlen(path) >= LINK_WALK_MAX)
		return 0;
	memcpy(rest, path, strlen(path) + 1);
	for (char *at = rest;;) {
		/* A relative target starts in @dir, an absolute one at the root. */
		if (*at == '/' && at == rest)
			dir = t->root;
		at += strspn(at, "/");
		const char *const name = at;
		const size_t len = strcspn(at, "/");
		struct tree_node *n = dir;
		int code = 0;
		at += len;
		const bool is_last = at[strspn(at, "/")] == 0;
		if (len == 2 && memcmp(name, "..", 2) == 0)
			n = dir->parent ? dir->parent : dir;
		else if (len > 0 && !(len == 1 && name[0] == '.'))
			code = follow_name(t, dir, name, len, flags, &n, reterr);
		if (code < 0 || !n)
			return code;
		if (tree_is_symlink(n) && (!is_last || (flags & FOLLOW_LAST))) {
			if (++hops > LINK_HOPS_MAX || !splice(rest, at, n->inode->target))
				return 0;
			at = rest;
			continue;
		}
		*ret_far = n;
		if (is_last)
			*ret = n;
		if (is_last || (!tree_is_dir(n) && n->kind != TREE_GHOST))
			return 0;
		dir = n;
	}
}

/* --- Grafts ----------------------------------------------------------------------------------- */

struct pair {
	struct tree_node *from;
	struct tree_node *to;
};

struct pairs {
	struct pair *list;
	size_t n;
	size_t cap;
};

static int pairs_push(
	struct pairs *p, struct tree_node *from, struct tree_node *to, holt_error **reterr)
{
	if (p->n == p->cap) {
		const size_t cap = p->cap ? 2 * p->cap : 64;
		struct pair *list = mem_resize(p->list, cap, sizeof *list);
		if (!list)
			return err_nomem(reterr);
		p->list = list;
		p->cap = cap;
	}
	p->list[p->n++] = (struct pair){from, to};
	return 0;
}

/* Let a mark that stands at one node hide what is older at and below another one. An opaque mark
 * leaves the directory itself. */
static void hide_older(struct tree_node *n, uint32_t whiteout, uint32_t opaque)
{
	if (whiteout > 0 && n->kind != TREE_GHOST && n->layer < whiteout)
		n->kind = n->child ? TREE_IMPLIED : TREE_GHOST;
	if (whiteout > 0 && !layer_prune_below(n, whiteout - 1) && n->kind == TREE_IMPLIED)
		n->kind = TREE_GHOST;
	if (opaque > whiteout)
		(void)layer_prune_below(n, opaque - 1);
}

static bool is_newer(const struct tree_node *a, const struct tree_node *b)
{
	return a->layer > b->layer || (a->layer == b->layer && a->seq > b->seq);
}

static bool is_leaf(const struct tree_node *n)
{
	return n->kind != TREE_GHOST && !tree_is_dir(n);
}

/* Give @to what @from is. */
static void take_over(struct merge *m, struct tree_node *from, struct tree_node *to)
{
	to->kind = from->kind;
	to->inode = from->inode;
	to->layer = from->layer;
	to->seq = from->seq;
	to->link = from->link;
	if (to->kind == TREE_LINK)
		m->links[to->link].node = to;
	from->kind = TREE_GHOST;
	tree_raise(to);
}

static void drop(struct tree_node *top)
{
	for (struct tree_node *n = top; n; n = tree_walk(top, n))
		n->kind = TREE_GHOST;
}

/* Move the children of one node to another; those whose name is taken there become pairs. Either
 * way the first node loses them. */
static int graft_children(struct merge *m, struct pairs *p, struct tree_node *from,
	struct tree_node *to, holt_error **reterr)
{
	struct tree_node *next = from->child;

	from->child = NULL;
	while (next) {
		struct tree_node *c = next;
		struct tree_node *there = tree_find(m->tree, to, c->name, c->name_len);
		const int code = there ? pairs_push(p, c, there, reterr) : 0;
		if (code < 0)
			return code;
		next = c->sibling;
		c->sibling = NULL;
		if (there)
			continue;
		tree_move(m->tree, c, to);
		if (c->kind != TREE_GHOST)
			tree_raise(c);
	}
	return 0;
}

/* Decide between two nodes with one name. A symlink that gets children is added to @again. */
static int graft_pair(struct merge *m, struct pairs *p, struct pair pair, struct pairs *again,
	holt_error **reterr)
{
	struct tree_node *from = pair.from;
	struct tree_node *to = pair.to;

	hide_older(to, from->whiteout, from->opaque);
	hide_older(from, to->whiteout, to->opaque);
	if (to->whiteout < from->whiteout)
		to->whiteout = from->whiteout;
	if (to->opaque < from->opaque)
		to->opaque = from->opaque;
	const bool wins = to->kind == TREE_GHOST || to->kind == TREE_IMPLIED || is_newer(from, to);
	if (is_leaf(from)) {
		/* It takes the place of a directory only if nothing newer is in there. */
		if (!wins || layer_prune_below(to, from->layer))
			drop(from);
		else
			take_over(m, from, to);
		return 0;
	}
	if (tree_is_symlink(to) && from->kind == TREE_IMPLIED) {
		(void)layer_prune_below(from, to->layer - 1);
		const int code = graft_children(m, p, from, to, reterr);
		return code < 0 ? code : pairs_push(again, to, NULL, reterr);
	}
	if (is_leaf(to) && from->kind != TREE_GHOST) {
		if (is_newer(to, from) && !layer_prune_below(from, to->layer)) {
			drop(from);
			return 0;
		}
		to->kind = TREE_IMPLIED;
	}
	if ((from->kind == TREE_ENTRY && wins) ||
		(from->kind == TREE_IMPLIED && to->kind == TREE_GHOST))
		take_over(m, from, to);
	return graft_children(m, p, from, to, reterr);
}

static bool has_live_child(const struct tree_node *top)
{
	for (struct tree_node *n = top->child; n; n = tree_walk(top, n)) {
		if (n->kind != TREE_GHOST)
			return true;
	}
	return false;
}

static int leads_nowhere(const struct tree_node *link, holt_error **reterr)
{
	char path[256];
	char shown[512];

	(void)tree_path(link, path, sizeof path);
	(void)str_escape(shown, sizeof shown, path, strlen(path), false);
	return err_make(
		reterr, HOLT_EINVALID, "'%s' is used as a directory, but leads to none", shown);
}

/* Whether a newer layer made the directory opaque to which the symlink leads. (A mark of the
 * symlink's own layer cannot be told from what put_inode sets, and nobody writes one.) */
static bool is_opaque_beyond(const struct tree_node *link)
{
	return link->opaque > link->layer;
}

static int graft_symlink(
	struct merge *m, struct tree_node *link, struct pairs *again, holt_error **reterr)
{
	const char *target = link->inode->target;
	struct tree_node *to = NULL;
	struct tree_node *far = NULL;
	struct pairs pairs = {0};
	int code = follow(m->tree, link->parent, target, FOLLOW_LAST, &to, &far, reterr);

	/* What hides the target, or stands in its way, hides what was put there before. */
	if (code == 0 && is_leaf(far))
		hide_older(link, 0, far->layer);
	for (const struct tree_node *up = far; code == 0 && up; up = up->parent)
		hide_older(link, 0, up->whiteout > up->opaque ? up->whiteout : up->opaque);
	const bool live = has_live_child(link); /* else there are only marks */
	if (code == 0 && live)
		code = follow(m->tree, link->parent, target, FOLLOW_LAST | FOLLOW_MAKE, &to, &far,
			reterr);
	if (code < 0)
		return code;
	if (!to || (to->kind != TREE_GHOST && !tree_is_dir(to)))
		return live ? leads_nowhere(link, reterr) : 0;
	if (is_opaque_beyond(link)) {
		hide_older(to, 0, link->opaque);
		to->opaque = to->opaque < link->opaque ? link->opaque : to->opaque;
	}
	code = graft_children(m, &pairs, link, to, reterr);
	while (code == 0 && pairs.n > 0) {
		const struct pair pair = pairs.list[--pairs.n];
		code = graft_pair(m, &pairs, pair, again, reterr);
	}
	mem_free(pairs.list);
	return code;
}

/* In pre-order, so that a symlink below another one has its place when its turn comes. */
static int graft_all(struct merge *m, holt_error **reterr)
{
	struct pairs found = {0}; /* only .from is used */
	int code = 0;

	for (struct tree_node *n = m->tree->root; code == 0 && n; n = tree_walk(m->tree->root, n)) {
		if (tree_is_symlink(n) && (n->child || is_opaque_beyond(n)))
			code = pairs_push(&found, n, NULL, reterr);
	}
	/* The list may grow: what goes through two symlinks has one level less at the second. */
	for (size_t i = 0; code == 0 && i < found.n; i++) {
		if (tree_is_symlink(found.list[i].from))
			code = graft_symlink(m, found.list[i].from, &found, reterr);
	}
	mem_free(found.list);
	return code;
}

/* --- Hard links ------------------------------------------------------------------------------- */

int link_add(struct merge *m, struct tree_node *n, const char *target, uint32_t layer,
	holt_error **reterr)
{
	const struct tree_node *t = find_exact(m->tree, target);

	n->layer = layer;
	n->seq = m->n_entries;
	/* Bind at once where the target has gone by in this layer: the name may change later. */
	if (t && t != n && t->layer == layer && t->kind == TREE_ENTRY && !S_ISDIR(t->inode->mode)) {
		n->kind = TREE_ENTRY;
		n->inode = t->inode;
		tree_raise(n);
		return 0;
	}
	if (m->n_links == m->links_cap) {
		const size_t cap = m->links_cap ? 2 * m->links_cap : 256;
		struct link *links = mem_resize(m->links, cap, sizeof *links);
		if (!links)
			return err_nomem(reterr);
		m->links = links;
		m->links_cap = cap;
	}
	m->links[m->n_links] = (struct link){
		.node = n, .target = target, .layer = layer, .seq = n->seq};
	n->kind = TREE_LINK;
	n->link = (uint32_t)m->n_links++;
	tree_raise(n);
	return 0;
}

static bool waits(const struct merge *m, const struct link *l)
{
	return l->node->kind == TREE_LINK && &m->links[l->node->link] == l;
}

static void bind(struct link *l, struct tree_inode *inode)
{
	l->inode = inode;
	l->node->inode = inode;
	l->node->kind = TREE_ENTRY;
}

static int link_fail(const struct link *l, const char *why, holt_error **reterr)
{
	char path[256];
	char shown[512];
	char target[512];

	(void)tree_path(l->node, path, sizeof path);
	(void)str_escape(shown, sizeof shown, path, strlen(path), false);
	(void)str_escape(target, sizeof target, l->target, strlen(l->target), false);
	return err_make(
		reterr, HOLT_EINVALID, "'%s' is a hard link to '%s', %s", shown, target, why);
}

/* Where a link's target stands in the tree, or NULL. */
static int link_target(
	const struct merge *m, const char *target, struct tree_node **ret, holt_error **reterr)
{
	struct tree_node *t = find_exact(m->tree, target);
	struct tree_node *far = NULL;

	if (!t || t->kind == TREE_GHOST)
		return follow(m->tree, m->tree->root, target, 0, ret, &far, reterr);
	*ret = t;
	return 0;
}

/* Try to bind one link in the tree as it is. Where its target is a link that waits too, that one
 * goes first; a chain ends after LINK_HOPS_MAX steps. */
static int link_bind(struct merge *m, struct link *l, holt_error **reterr)
{
	const struct link *at = l;

	l->rides = false;
	for (unsigned hops = 0; hops <= LINK_HOPS_MAX; hops++) {
		struct tree_node *t = NULL;
		const int code = link_target(m, at->target, &t, reterr);
		if (code < 0)
			return code;
		if (!t || t->kind == TREE_GHOST || t->kind == TREE_IMPLIED || t->layer > at->layer)
			return 0;
		if (tree_is_dir(t))
			return link_fail(at, "which is a directory", reterr);
		if (t->kind == TREE_ENTRY && t->layer == at->layer && t->seq > at->seq &&
			at->layer > 1) {
			/* It came after the link, which means an older one if there is any. */
			if (at == l)
				l->inode = t->inode;
			return 0;
		}
		if (t->kind == TREE_ENTRY) {
			bind(l, t->inode);
			return 0;
		}
		at = &m->links[t->link];
		l->rides = true;
	}
	return link_fail(l, "and so on in a circle", reterr);
}

static int compare_targets(const void *a, const void *b)
{
	const struct link *const *x = a;
	const struct link *const *y = b;

	return strcmp((*x)->target, (*y)->target);
}

/* The first of a sorted list with this target, or @n. */
static size_t find_target(struct link *const *list, size_t n, const char *path)
{
	size_t from = 0;
	size_t to = n;

	while (from < to) {
		const size_t mid = from + (to - from) / 2;
		if (strcmp(list[mid]->target, path) < 0)
			from = mid + 1;
		else
			to = mid;
	}
	return from;
}

/* Whether an earlier round has found just what this link means. */
static bool serve_again(const struct merge *m, struct link *l)
{
	for (size_t i = find_target(m->served, m->n_served, l->target);
		i < m->n_served && strcmp(m->served[i]->target, l->target) == 0; i++) {
		const struct link *s = m->served[i];
		if (s->found_layer > 0 && s->found_layer <= l->layer && s->layer >= l->layer) {
			bind(l, s->inode);
			return true;
		}
	}
	return false;
}

/* Settle what the last reading found for the links that were wanted. */
static int take_found(struct merge *m, holt_error **reterr)
{
	if (m->n_wanted == 0)
		return 0;
	struct link **served = mem_resize(
		m->served, m->n_served + m->n_wanted, sizeof(struct link *));
	if (!served)
		return err_nomem(reterr);
	m->served = served;
	for (size_t i = 0; i < m->n_wanted; i++) {
		struct link *l = m->wanted[i];
		if (l->inode) {
			bind(l, l->inode);
			m->served[m->n_served++] = l;
		} else if (!l->next_target) {
			return link_fail(l, "which no layer holds", reterr);
		} else {
			l->target = l->next_target;
			l->next_target = NULL;
			if (l->found_layer > 0)
				l->layer = l->found_layer;
			l->seq = l->found_seq;
			l->found_layer = 0;
		}
	}
	qsort(m->served, m->n_served, sizeof *m->served, compare_targets);
	return 0;
}

static int list_wanted(struct merge *m, uint32_t *ret_from, holt_error **reterr)
{
	uint32_t from = 0;

	mem_free(m->wanted);
	m->n_wanted = 0;
	m->wanted = mem_array(m->n_links, sizeof *m->wanted);
	if (!m->wanted)
		return err_nomem(reterr);
	for (size_t i = 0; i < m->n_links; i++) {
		struct link *l = &m->links[i];
		if (!waits(m, l) || l->rides || serve_again(m, l))
			continue;
		m->wanted[m->n_wanted++] = l;
		if (l->layer > from)
			from = l->layer;
	}
	qsort(m->wanted, m->n_wanted, sizeof *m->wanted, compare_targets);
	*ret_from = from;
	return 0;
}

static int bind_all(struct merge *m, bool *ret_waits, holt_error **reterr)
{
	*ret_waits = false;
	for (size_t i = 0; i < m->n_links; i++) {
		struct link *l = &m->links[i];
		const int code = waits(m, l) ? link_bind(m, l, reterr) : 0;
		if (code < 0)
			return code;
		*ret_waits = *ret_waits || waits(m, l);
	}
	return 0;
}

/* A hard link under which something was put has to be bound before the grafts, for it may be one to
 * a symlink. Where its target is only known later it is refused in the end. */
static int bind_leading(struct merge *m, holt_error **reterr)
{
	for (size_t i = 0; i < m->n_links; i++) {
		struct link *l = &m->links[i];
		const int code = waits(m, l) && l->node->child ? link_bind(m, l, reterr) : 0;
		if (code < 0)
			return code;
	}
	return 0;
}

static bool has_child_of(const struct tree_node *top, uint32_t layer)
{
	for (struct tree_node *n = top->child; n; n = tree_walk(top, n)) {
		if (n->kind != TREE_GHOST && n->layer == layer)
			return true;
	}
	return false;
}

/* What still has something under it, and is no symlink, gives way to the directory that a newer
 * layer takes it for, as a file does. */
static int settle_leading(struct merge *m, holt_error **reterr)
{
	for (size_t i = 0; i < m->n_links; i++) {
		struct tree_node *n = m->links[i].node;
		if (n->kind != TREE_ENTRY || tree_is_dir(n) || !has_live_child(n))
			continue;
		if (tree_is_symlink(n))
			return link_fail(&m->links[i],
				"a symlink that a newer layer replaced, and is used as a directory",
				reterr);
		if (has_child_of(n, n->layer))
			return link_fail(&m->links[i], "which is used as a directory", reterr);
		n->kind = TREE_IMPLIED;
	}
	return 0;
}

int merge_resolve(struct merge *m, uint32_t *ret_from, holt_error **reterr)
{
	bool waiting = false;
	int code = m->grafted ? take_found(m, reterr) : bind_leading(m, reterr);

	if (code == 0 && !m->grafted)
		code = graft_all(m, reterr);

	m->grafted = true;
	*ret_from = 0;
	/* Again where an earlier finding served the last one, since others may ride on it. */
	for (unsigned n = 0; code == 0 && *ret_from == 0 && n <= LINK_HOPS_MAX; n++) {
		code = bind_all(m, &waiting, reterr);
		if (code < 0 || !waiting)
			break;
		code = list_wanted(m, ret_from, reterr);
	}
	if (code == 0 && !waiting) {
		m->n_wanted = 0;
		code = settle_leading(m, reterr);
	}
	if (code == 0 && waiting && (*ret_from == 0 || ++m->rounds > LINK_ROUNDS_MAX))
		code = err_make(reterr, HOLT_EINVALID, "hard links follow each other too far");
	return code;
}

/* Whether an entry for its target at this place tells what a link means. What stands before it in
 * its own layer does, and in a lower one the last; what comes later counts if there is no other. */
static bool is_better(const struct link *l, uint32_t layer, bool late)
{
	if (layer > l->layer || l->found_layer > layer)
		return false;
	return !late || (!l->inode && !l->next_target);
}

/* Tell all links that want @path what the entry is, starting at the first that does. */
static int serve(struct merge *m, size_t first, struct tar_reader *tar, const struct tar_entry *e,
	const char *path, uint32_t layer, uint32_t seq, holt_error **reterr)
{
	struct tree_inode *inode = NULL;
	const char *next = NULL;
	char target[TAR_PATH_MAX + 1];

	for (size_t i = first; i < m->n_wanted && strcmp(m->wanted[i]->target, path) == 0; i++) {
		struct link *l = m->wanted[i];
		const bool late = layer == l->layer && seq > l->seq;
		int code = 0;
		if (!is_better(l, layer, late))
			continue;
		if (!e->hardlink && S_ISDIR(e->mode))
			return link_fail(l, "which is a directory", reterr);
		if (e->hardlink && !next) {
			code = layer_clean_path(e->hardlink, target, reterr);
			next = code == 0 ? tree_strdup(m->tree, target) : NULL;
			if (code == 0 && !next)
				code = tree_nomem(m->tree, reterr);
		} else if (!e->hardlink && !inode) {
			code = layer_make_inode(m, tar, e, &inode, reterr);
		}
		if (code < 0)
			return code;
		l->inode = inode;
		l->next_target = next;
		l->found_layer = late ? 0 : layer;
		l->found_seq = seq;
	}
	return 0;
}

int merge_rescan(struct merge *m, struct tar_reader *tar, uint32_t layer, holt_error **reterr)
{
	char path[TAR_PATH_MAX + 1];
	struct tar_entry e;
	uint32_t seq = m->first_seq[layer];
	int code;

	while ((code = tar_next(tar, &e, reterr)) > 0) {
		code = layer_clean_path(e.path, path, reterr);
		if (code == 0)
			code = serve(m, find_target(m->wanted, m->n_wanted, path), tar, &e, path,
				layer, ++seq, reterr);
		if (code < 0)
			return code;
	}
	return code;
}
