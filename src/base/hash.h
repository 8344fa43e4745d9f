/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_HASH_H
#define BASE_HASH_H

/* uthash on our allocator; an insert that finds no memory sets HASH_OOM instead of exiting. */
#include "base/mem.h"

#include <stdbool.h>

#define uthash_malloc(size)    mem_zalloc(size)
#define uthash_free(p, size)   mem_free(p)
#define HASH_NONFATAL_OOM      1
#define uthash_nonfatal_oom(e) ((e)->hash_oom = true)

/* FNV-1a instead of uthash's default, which clang sees falling through its switch. */
static inline unsigned hash_bytes(const void *key, size_t len)
{
	const unsigned char *p = key;
	unsigned h = 2166136261u;

	for (size_t i = 0; i < len; i++)
		h = (h ^ p[i]) * 16777619u;
	return h;
}
#define HASH_FUNCTION(key, len, hashv) ((hashv) = hash_bytes((key), (len)))

#include <uthash.h>
#include <utlist.h>

#endif
