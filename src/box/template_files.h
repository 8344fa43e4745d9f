/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BOX_TEMPLATE_FILES_H
#define BOX_TEMPLATE_FILES_H

#include "box/template.h"

/*
 * The files of one template and what template.json says about them; for template.c and
 * template_build.c.
 */
#define TEMPLATE_FORMAT "1"
#define TEMPLATE_FACTS  "template.json"
#define TEMPLATE_MEMORY "memory"
#define TEMPLATE_STATE  "state"
#define TEMPLATE_DISK   "disk.raw"
#define TEMPLATE_LOCK   ".lock" /* behind the key */

/* How a file was when the template was complete. */
struct template_file {
	int64_t size_bytes;
	int64_t mtime_ns;
};

struct template_facts {
	char generation[33];
	struct template_info info; /* without the key, the size on the disk, and the last use */
	struct template_file memory;
	struct template_file state;
	struct template_file disk;
	char state_digest[80]; /* it is small, so it is read whole each time */
};

/* The files in @dir are complete: make them read-only, wait until they are on the disk, and
 * describe them. 0, or -errno. */
int template_files_seal(int dir, const struct template_want *w, uint64_t build_ms)
	__attribute__((warn_unused_result));

/* 0, -EINVAL for what is not a description of this format, or -errno. */
int template_facts_read(int dir, struct template_facts *ret) __attribute__((warn_unused_result));
void template_facts_done(struct template_facts *f);

/* Open the files if they are as described: 0, -EINVAL, or -errno; *ret_what is then the file. What
 * is open in @ret is the caller's in any case. */
int template_files_open(int dir, const struct template_facts *f, struct template *ret,
	const char **ret_what) __attribute__((warn_unused_result));

/* How much they take on the disk, and when the template was used last. */
void template_files_measure(int dir, struct template_info *ret);

#endif
