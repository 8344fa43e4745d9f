/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GUEST_WALK_H
#define GUEST_WALK_H

#include "ignore.h"

#define WALK_DEPTH_MAX 1000 /* of the directories that are read within each other */

/*
 * A walk through a tree, entry by entry: walk_start, walk_enter for the root, then walk_next; after
 * a directory that is worth it, walk_enter. What walk.c tells of races and links holds for all who
 * list and search.
 */
struct walk;

enum walk_root { WALK_FILE, WALK_DIRECTORY, WALK_OTHER };

struct walk_entry {
	const char *path; /* from the root, NUL-terminated; good until the next call */
	size_t len;
	const char *name; /* the last one of path */
	int at; /* the directory in which that is */
	uint32_t depth; /* 1 right beneath the root */
	bool directory; /* else a regular file */
};

/* What a function failed for that returned -1. */
struct walk_fault {
	enum wire_file_failure class_;
	int errnum;
	const char *text;
	struct wire_bytes object; /* the whole path; good until the next call */
};

/* NULL without memory. */
struct walk *walk_new(void);
void walk_free(struct walk *w);

/* Begin at @root, of at most WIRE_PATH_MAX bytes. Returns an enum walk_root or -1. */
int walk_start(struct walk *w, const char *root);
/* Pass over what the kernel makes up (/proc, /sys), unless the root is in it: to search there finds
 * nothing that lasts, and much that cannot be read. */
void walk_pass_over_kernel(struct walk *w);
/* Go into what walk_start or walk_next told last. One that is no directory any more has nothing in
 * it, unless it is the root. Returns 0 or -1. */
int walk_enter(struct walk *w);
/* The next regular file or directory that is not ignored. Returns 1, 0 at the end, or -1. */
int walk_next(struct walk *w, const struct ignore *ignore, struct walk_entry *ret);

const struct walk_fault *walk_fault(const struct walk *w);
/* The path that the last entry has outside of the walk; good until the next call. */
struct wire_bytes walk_full_path(const struct walk *w);

#endif
