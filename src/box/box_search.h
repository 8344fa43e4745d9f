/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BOX_BOX_SEARCH_H
#define BOX_BOX_SEARCH_H

#include "box/box_files.h"

/*
 * Listing and searching in a box: operations of holt_backend, with the same meaning. Paths of
 * results are relative to the root, "" is the root itself. @ret is filled in on success; may be
 * NULL.
 */
int box_search_list(struct box_files *f, const holt_backend_search *what, holt_entry_fn entry,
	void *user, const holt_call *call, holt_search_result *ret, holt_error **reterr);
int box_search_glob(struct box_files *f, const holt_backend_search *what, holt_entry_fn entry,
	void *user, const holt_call *call, holt_search_result *ret, holt_error **reterr);
int box_search_grep(struct box_files *f, const holt_backend_search *what, holt_match_fn match,
	void *user, const holt_call *call, holt_search_result *ret, holt_error **reterr);

#endif
