/* SPDX-License-Identifier: Apache-2.0 */
#ifndef IMAGE_RESOLVE_H
#define IMAGE_RESOLVE_H

#include "image/layer.h"

/* What layer.c and resolve.c share: the inside of a merge. */

/* A hard link that waits for its target. */
struct link {
	struct tree_node *node; /* TREE_LINK with this index as long as it waits */
	const char *target; /* cleaned path */
	uint32_t layer; /* it means the target as this layer knew it */
	uint32_t seq; /* at this place */
	bool rides; /* on another link that waits, so it needs no search */
	/* What a second reading found: an inode, or that the target is a link itself. */
	struct tree_inode *inode;
	const char *next_target;
	uint32_t found_layer; /* 0: nothing, or only something that came after the link */
	uint32_t found_seq;
};

struct merge {
	struct tree *tree;
	struct rootfs *rootfs;
	struct link *links;
	size_t n_links;
	size_t links_cap;
	struct link **wanted; /* links that a second reading must serve, sorted by target */
	size_t n_wanted;
	struct link **served; /* those of earlier rounds, sorted likewise */
	size_t n_served;
	uint32_t n_entries; /* of all layers; within a layer it orders them */
	uint32_t first_seq[LAYER_MAX + 1]; /* n_entries when a layer began */
	uint32_t n_dropped;
	uint32_t rounds; /* of merge_resolve */
	bool grafted;
};

/* Take away what layers up to @layer put below a node. Returns whether something stays. */
bool layer_prune_below(struct tree_node *top, uint32_t layer);

/* Make the inode that an entry describes, with its data. */
int layer_make_inode(struct merge *m, struct tar_reader *tar, const struct tar_entry *e,
	struct tree_inode **ret, holt_error **reterr);

/* Make @n a hard link to @target. */
int link_add(struct merge *m, struct tree_node *n, const char *target, uint32_t layer,
	holt_error **reterr);

#endif
