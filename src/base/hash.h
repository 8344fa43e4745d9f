/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_HASH_H
#define BASE_HASH_H

/* uthash on our allocator; an insert that finds no memory sets HASH_OOM instead of exiting. */
#include "base/mem.h"

#define uthash_malloc(size)    mem_zalloc(size)
#define uthash_free(p, size)   mem_free(p)
#define HASH_NONFATAL_OOM      1
#define uthash_nonfatal_oom(e) ((e)->hash_oom = true)

#include <uthash.h>
#include <utlist.h>

#endif
