/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VMM_VMLINUX_H
#define VMM_VMLINUX_H

#include <stdbool.h>
#include <stddef.h>

/* The two decoders behind kernel_open, for tests. Pure. */

/* Unpack an LZ4 stream in the "legacy" format into @out. Returns the bytes written; 0 where the
 * stream is broken, cut, or longer than @cap. */
size_t vmlinux_unlz4(const void *stream, size_t len, void *out, size_t cap);

/* Whether QEMU can enter this ELF: x86_64 with a PVH entry. */
bool vmlinux_bootable(const void *elf, size_t len);

#endif
