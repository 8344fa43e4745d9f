/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_RANDOM_H
#define BASE_RANDOM_H

#include <stddef.h>
#include <stdint.h>

/* Fill @data from the kernel's random source; returns 0 or -errno. */
int random_bytes(void *data, size_t len) __attribute__((warn_unused_result));
/* @n lower-case hex digits (at most 128, an even number) and a NUL. */
int random_hex(char *ret, size_t n) __attribute__((warn_unused_result));

/* An address for a network card: locally administered, of one card. Returns 0 or -errno. */
int random_mac(uint8_t ret[6]) __attribute__((warn_unused_result));

#endif
