/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NET_ASKER_H
#define NET_ASKER_H

#include "net/filter.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Who asked, as far as an answer needs it: the ends of a UDP packet, or a stream. */
#define ASKER_FRAME_HEAD 62u /* Ethernet, IPv6, UDP */

struct asker {
	bool stream;
	uint32_t stream_id;
	bool ipv6;
	uint16_t port;
	uint8_t guest_mac[6];
	uint8_t own_mac[6];
	uint8_t guest[16];
	uint8_t own[16];
};

/* false: the frame is not what the filter says. */
bool asker_take(struct asker *a, const uint8_t *frame, size_t len, const struct filter_part *part);
bool asker_is_same(const struct asker *a, const struct asker *b);
/* The headers in front of @len bytes that lie at @frame + asker_head(a); returns the frame's
 * length.
 */
size_t asker_head(const struct asker *a);
size_t asker_frame(const struct asker *a, uint8_t *frame, size_t len);

#endif
