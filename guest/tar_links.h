/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GUEST_TAR_LINKS_H
#define GUEST_TAR_LINKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* At most this many files with several names are remembered, and this much of their names. */
#define TAR_LINKS_MAX   65536u
#define TAR_LINKS_BYTES (16u * 1024 * 1024)

/* Files that were seen under a first name. Starts as {0}. */
struct tar_links {
	struct tar_link *slots; /* open addressing; TAR_LINKS_SLOTS of them */
	uint32_t n;
	char *names;
	size_t names_len;
	size_t names_cap;
};

/* The name under which the file was seen first. NULL if this is the first time: then @name is
 * remembered, if there is room. */
const char *tar_links_seen(struct tar_links *l, uint64_t dev, uint64_t ino, const char *name);

#endif
