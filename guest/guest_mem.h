/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GUEST_GUEST_MEM_H
#define GUEST_GUEST_MEM_H

#include <stddef.h>

/* All memory of the agent. May return NULL; sizes are checked for overflow. */
void *gmem_zalloc(size_t size) __attribute__((malloc, warn_unused_result));
void *gmem_array(size_t n, size_t size) __attribute__((malloc, warn_unused_result));
void *gmem_resize(void *old, size_t size) __attribute__((warn_unused_result));
void gmem_free(void *p);

#endif
