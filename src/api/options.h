/* SPDX-License-Identifier: Apache-2.0 */
#ifndef API_OPTIONS_H
#define API_OPTIONS_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

/*
 * Versioned structs of the public API: each starts with its own size. An older caller's shorter one
 * is taken and filled up with zeros; a newer caller's longer one only if what we do not know is
 * zero.
 */

/* Copy @src (NULL: all defaults) into @dst of @size bytes. @least is the size of version 0.1. */
int options_read(void *dst, size_t size, size_t least, const void *src, const char *what,
	holt_error **reterr);

/* Copy @src of @size bytes into the caller's @dst as far as its struct_size goes, which is kept. */
int options_write(void *dst, const void *src, size_t size, size_t least, const char *what,
	holt_error **reterr);

/* -HOLT_EINVALID unless @value is within the range, which the message tells. */
int api_check_range(
	const char *what, uint64_t value, uint64_t min, uint64_t max, holt_error **reterr);

/* Defaults for zeros of a machine's shape, then the ranges that holt/box.h states. */
int api_check_shape(
	uint32_t *memory_mib, uint32_t *cpus, uint64_t *disk_bytes, holt_error **reterr);

/* The same for the time of one boot. */
int api_check_boot_timeout(uint64_t *timeout_ms, holt_error **reterr);

/* -HOLT_EINVALID with the name of the argument that must not be NULL. */
int api_null(const char *what, holt_error **reterr);

#endif
