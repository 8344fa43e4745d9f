/* SPDX-License-Identifier: Apache-2.0 */
#include "tar_links.h"

#include "guest_mem.h"

#include <string.h>

#include "guest_banned.h"

/*
 * Which inode has which first name in an archive. The table is made with the first file that has
 * several names, all at once (3 MiB); names lie behind each other in one block. When either is
 * full, or there is no memory, further files are simply not remembered, and stored once for each
 * name.
 */

#define TAR_LINKS_SLOTS (2 * TAR_LINKS_MAX)
#define NAMES_FIRST     65536u

struct tar_link {
	uint64_t dev;
	uint64_t ino;
	size_t name; /* offset + 1; 0 = empty slot */
};

static struct tar_link *find_slot(const struct tar_links *l, uint64_t dev, uint64_t ino)
{
	uint64_t at = (ino ^ dev << 32) * UINT64_C(0x9e3779b97f4a7c15) >> 40;

	for (;; at++) {
		struct tar_link *slot = &l->slots[at % TAR_LINKS_SLOTS];
		if (!slot->name || (slot->dev == dev && slot->ino == ino))
			return slot;
	}
}

static bool reserve(struct tar_links *l, size_t len)
{
	size_t cap = l->names_cap ? l->names_cap : NAMES_FIRST;

	if (l->n == TAR_LINKS_MAX || len > TAR_LINKS_BYTES - l->names_len)
		return false;
	while (cap < l->names_len + len)
		cap *= 2;
	if (cap == l->names_cap)
		return true;
	char *const names = gmem_resize(l->names, cap);
	if (!names)
		return false;
	l->names = names;
	l->names_cap = cap;
	return true;
}

const char *tar_links_seen(struct tar_links *l, uint64_t dev, uint64_t ino, const char *name)
{
	const size_t len = strlen(name) + 1;

	if (!l->slots)
		l->slots = gmem_array(TAR_LINKS_SLOTS, sizeof(*l->slots));
	if (!l->slots)
		return NULL;
	struct tar_link *const slot = find_slot(l, dev, ino);
	if (slot->name)
		return l->names + slot->name - 1;
	if (reserve(l, len)) {
		memcpy(l->names + l->names_len, name, len);
		*slot = (struct tar_link){.dev = dev, .ino = ino, .name = l->names_len + 1};
		l->names_len += len;
		l->n++;
	}
	return NULL;
}
