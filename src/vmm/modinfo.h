/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VMM_MODINFO_H
#define VMM_MODINFO_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Facts inside a kernel module file (.ko, x86_64 ELF). Pure; every offset is checked, since the
 * file may be cut or not a module at all.
 */

/* The value of "@key=" in section .modinfo, borrowed from @data; NULL where it is missing.
 * *ret_elf (may be NULL) tells whether the file is a 64-bit little-endian x86 ELF at all. */
const char *modinfo_get(const void *data, size_t len, const char *key, bool *ret_elf);

/* The length without an appended signature. */
size_t module_unsigned_len(const void *data, size_t len);

#endif
