/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BOX_COPY_PLAN_H
#define BOX_COPY_PLAN_H

#include "base/err.h"

#include <stdbool.h>

/*
 * Docker's rules of copying (the table is in holt/files.h) as a pure function: what the two sides
 * look like goes in, what is packed and where it is unpacked comes out. The same for both ways.
 */
enum copy_type {
	COPY_MISSING, /* but the directory that would hold it is there */
	COPY_FILE, /* anything that is not a directory and can be copied; also a link that is not
		      followed */
	COPY_DIR,
	COPY_OTHER /* device node or socket */
};

struct copy_facts {
	const char *path; /* as the caller wrote it; not empty */
	const char *real; /* where that is: absolute, without ".", ".." and links on the way; the
			     last name is a link only where it is not followed */
	enum copy_type type;
};

/* All in fresh memory. */
struct copy_plan {
	char *from_dir; /* pack @from_name in it, "." for itself, */
	char *from_name;
	char *as; /* under this name, "." for what is inside the directory, */
	char *to_dir; /* and unpack it in this directory */
};

/* Whether @path asks for a directory by its form: it ends in "/" or "/.", or is ".", or "..". */
bool copy_path_wants_dir(const char *path);

int copy_plan_make(const struct copy_facts *source, const struct copy_facts *target,
	struct copy_plan *ret, holt_error **reterr);
void copy_plan_done(struct copy_plan *plan);

#endif
