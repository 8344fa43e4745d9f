/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_MEM_H
#define BASE_MEM_H

#include <stddef.h>

/* All memory of the host side. Every function may return NULL; sizes are checked for overflow. */
void *mem_zalloc(size_t size) __attribute__((malloc, warn_unused_result));
void *mem_array(size_t n, size_t size) __attribute__((malloc, warn_unused_result));
void *mem_resize(void *old, size_t n, size_t size) __attribute__((warn_unused_result));
void *mem_dup(const void *data, size_t size) __attribute__((malloc, warn_unused_result));
void mem_free(void *p);

/* For tests: let the @nth allocation from now on (1 = the next) fail; 0 switches it off. */
void mem_fail_at(unsigned long nth);

static inline void mem_freep(void *p)
{
	mem_free(*(void **)p);
}
#define auto_free __attribute__((cleanup(mem_freep)))

/* Move a pointer out of a variable that would otherwise free it. */
#define take_ptr(p)                         \
	({                                  \
		__typeof__(p) taken_ = (p); \
		(p) = NULL;                 \
		taken_;                     \
	})

#endif
