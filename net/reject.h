/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NET_REJECT_H
#define NET_REJECT_H

#include <stddef.h>
#include <stdint.h>

/*
 * What tells a guest that a frame of it was refused, so that its program fails at once and does not
 * wait for its own time-out: a reset for TCP, "administratively prohibited" for all else. The
 * answer comes from the address that was meant. No I/O.
 *
 * A guest that sends without end is not answered without end: REJECT_BURST at once and
 * REJECT_PER_SECOND after that.
 */
#define REJECT_BURST      64u
#define REJECT_PER_SECOND 256u
#define REJECT_MAX        1294u /* the largest answer: ICMPv6 is to fit into 1280 bytes */

struct reject_rate {
	uint64_t last_ms;
	uint32_t used; /* answers of the burst that are used, in 1/1000 */
};

/* The answer to an Ethernet frame, or 0 where it deserves none. */
size_t reject_frame(struct reject_rate *rate, const uint8_t *frame, size_t len, uint64_t now_ms,
	uint8_t ret[REJECT_MAX]);

#endif
