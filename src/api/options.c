/* SPDX-License-Identifier: Apache-2.0 */
#include "api/options.h"

#include <string.h>

#include "base/banned.h"

int options_read(void *dst, size_t size, size_t least, const void *src, const char *what,
	holt_error **reterr)
{
	size_t given = 0;

	memset(dst, 0, size);
	if (!src)
		return 0;
	memcpy(&given, src, sizeof given);
	if (given < least)
		return err_make(reterr, HOLT_EINVALID,
			"struct_size of %s is %zu, not set by its _INIT macro", what, given);
	for (size_t i = size; i < given; i++) {
		if (((const char *)src)[i] != 0)
			return err_make(reterr, HOLT_EUNSUPPORTED,
				"%s asks for something that this version of libholt does not know",
				what);
	}
	memcpy(dst, src, given < size ? given : size);
	return 0;
}

int options_write(void *dst, const void *src, size_t size, size_t least, const char *what,
	holt_error **reterr)
{
	size_t given = 0;

	memcpy(&given, dst, sizeof given);
	if (given < least)
		return err_make(reterr, HOLT_EINVALID,
			"struct_size of %s is %zu, not set by its _INIT macro", what, given);
	const size_t n = given < size ? given : size;
	memcpy((char *)dst + sizeof given, (const char *)src + sizeof given, n - sizeof given);
	return 0;
}

int api_null(const char *what, holt_error **reterr)
{
	return err_make(reterr, HOLT_EINVALID, "%s must not be NULL", what);
}
