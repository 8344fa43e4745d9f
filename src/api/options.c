/* SPDX-License-Identifier: Apache-2.0 */
#include "api/options.h"

#include <string.h>

#include "holt/box.h"
#include "box/origin.h"
#include "base/banned.h"

#define BOOT_TIMEOUT_MS_MAX 3600000u

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

int api_check_range(
	const char *what, uint64_t value, uint64_t min, uint64_t max, holt_error **reterr)
{
	if (value >= min && value <= max)
		return 0;
	return err_make(reterr, HOLT_EINVALID, "%s is %llu, not within %llu to %llu", what,
		(unsigned long long)value, (unsigned long long)min, (unsigned long long)max);
}

/* What no one has to ask for has to be what one gets without asking. */
_Static_assert(DEFAULT_MEMORY_MIB == HOLT_MEMORY_MIB_DEFAULT && DEFAULT_CPUS == 1 &&
		       DEFAULT_DISK_BYTES == HOLT_DISK_BYTES_DEFAULT,
	"templates are made for another shape than the default of boxes");

int api_check_shape(uint32_t *memory_mib, uint32_t *cpus, uint64_t *disk_bytes, holt_error **reterr)
{
	int r;

	*memory_mib = *memory_mib ? *memory_mib : HOLT_MEMORY_MIB_DEFAULT;
	*cpus = *cpus ? *cpus : 1;
	*disk_bytes = *disk_bytes ? *disk_bytes : HOLT_DISK_BYTES_DEFAULT;
	if ((r = api_check_range("memory in MiB", *memory_mib, HOLT_MEMORY_MIB_MIN,
		     HOLT_MEMORY_MIB_MAX, reterr)) < 0 ||
		(r = api_check_range("number of cpus", *cpus, 1, HOLT_CPUS_MAX, reterr)) < 0)
		return r;
	return api_check_range("disk size in bytes", *disk_bytes, HOLT_DISK_BYTES_MIN,
		HOLT_DISK_BYTES_MAX, reterr);
}

int api_check_boot_timeout(uint64_t *timeout_ms, holt_error **reterr)
{
	*timeout_ms = *timeout_ms ? *timeout_ms : HOLT_BOOT_TIMEOUT_MS_DEFAULT;
	return api_check_range("boot time-out in ms", *timeout_ms, 1, BOOT_TIMEOUT_MS_MAX, reterr);
}

int api_null(const char *what, holt_error **reterr)
{
	return err_make(reterr, HOLT_EINVALID, "%s must not be NULL", what);
}
