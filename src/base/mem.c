/* SPDX-License-Identifier: Apache-2.0 */
#define HOLT_ALLOW_MALLOC
#include "base/mem.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/banned.h"

static atomic_ulong fail_countdown;

void mem_fail_at(unsigned long nth)
{
	atomic_store(&fail_countdown, nth);
}

/* Whether this allocation is the one that a test wants to fail. */
static int must_fail(void)
{
	unsigned long left = atomic_load_explicit(&fail_countdown, memory_order_relaxed);

	while (left > 0) {
		if (atomic_compare_exchange_weak(&fail_countdown, &left, left - 1))
			return left == 1;
	}
	return 0;
}

void *mem_zalloc(size_t size)
{
	return must_fail() ? NULL : calloc(1, size ? size : 1);
}

void *mem_array(size_t n, size_t size)
{
	if (size && n > SIZE_MAX / size)
		return NULL;
	return mem_zalloc(n * size);
}

void *mem_resize(void *old, size_t n, size_t size)
{
	if ((size && n > SIZE_MAX / size) || must_fail())
		return NULL;
	const size_t bytes = n * size;
	return realloc(old, bytes > 0 ? bytes : 1);
}

void *mem_dup(const void *data, size_t size)
{
	void *copy = mem_zalloc(size);

	if (copy && size)
		memcpy(copy, data, size);
	return copy;
}

void mem_free(void *p)
{
	free(p);
}
