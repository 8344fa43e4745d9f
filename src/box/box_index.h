/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BOX_BOX_INDEX_H
#define BOX_BOX_INDEX_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The index of the boxes of a home: id, name, and the record (box_record.h) of each. An entry is
 * made after the box's directory is complete, and goes before the directory does. Any thread, any
 * number of processes.
 */
struct box_index;

struct box_entry {
	char *id;
	char *name; /* NULL: none */
	char *record;
};

int box_index_open(const char *path, struct box_index **ret, holt_error **reterr);
void box_index_close(struct box_index *x);

/* HOLT_EEXISTS where the name is taken; *ret_holder (fresh memory) then is the id of its box. */
int box_index_add(struct box_index *x, const struct box_entry *e, int64_t created_ns, bool keep,
	char **ret_holder, holt_error **reterr);
int box_index_rename(struct box_index *x, const char *id, const char *name, char **ret_holder,
	holt_error **reterr);
int box_index_remove(struct box_index *x, const char *id, holt_error **reterr);

/* By name, by id, or by the beginning of one id only. */
int box_index_find(
	struct box_index *x, const char *ref, struct box_entry *ret, holt_error **reterr);
/* All, newest first. */
int box_index_list(struct box_index *x, struct box_entry **ret, size_t *ret_n, holt_error **reterr);
/* Those whose names begin with @prefix, by name; of the record only what "pool" is in it, NULL
 * where it has none. */
struct box_index_pool {
	struct box_entry entry;
	int64_t created_ns;
};
int box_index_list_pool(struct box_index *x, const char *prefix, struct box_index_pool **ret,
	size_t *ret_n, holt_error **reterr);
/* Whether there is an entry, and whether its box is kept after its end. */
int box_index_look(
	struct box_index *x, const char *id, bool *ret_there, bool *ret_keep, holt_error **reterr);
/* The ids of the boxes that are kept, or of those that are not; in order, NULL-terminated
 * (strv_free). */
int box_index_kept(struct box_index *x, bool keep, char ***ret, holt_error **reterr);

void box_entry_done(struct box_entry *e);

#endif
