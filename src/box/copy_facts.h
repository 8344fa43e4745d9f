/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BOX_COPY_FACTS_H
#define BOX_COPY_FACTS_H

#include "box/copy_plan.h"
#include "box/session.h"

/*
 * What stands at a path, on the host and in a box. @follow: a symbolic link at the end means what
 * it leads to, even if nothing is there; so do "link/" and "link/.". @path must outlive the facts,
 * and ret->real is fresh memory in *ret_real. A missing path whose directory is missing as well is
 * HOLT_ENOT_FOUND.
 */
int copy_facts_host(const char *path, bool follow, struct copy_facts *ret, char **ret_real,
	holt_error **reterr);
int copy_facts_guest(struct session *s, const char *path, bool follow, holt_cancel *cancel,
	struct copy_facts *ret, char **ret_real, holt_error **reterr);

/* Read what path-stat printed. Exposed for the tests. */
int copy_facts_parse(const char *text, size_t len, enum copy_type *ret_type, const char **ret_real);

#endif
