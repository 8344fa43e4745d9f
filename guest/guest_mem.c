/* SPDX-License-Identifier: Apache-2.0 */
#include "guest_mem.h"

#include <stdlib.h>

#define GUEST_ALLOW_MALLOC
#include "guest_banned.h"

void *gmem_zalloc(size_t size)
{
	return calloc(1, size);
}

void *gmem_array(size_t n, size_t size)
{
	return calloc(n, size);
}

void *gmem_resize(void *old, size_t size)
{
	return realloc(old, size);
}

void gmem_free(void *p)
{
	free(p);
}
