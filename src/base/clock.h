/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

uint64_t clock_mono_us(void);
uint64_t clock_mono_ms(void);
/* Nanoseconds since 1970. */
uint64_t clock_wall_ns(void);

#endif
