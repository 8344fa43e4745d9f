/* SPDX-License-Identifier: Apache-2.0 */
#include "net/asker.h"

#include <net/ethernet.h>
#include <netinet/in.h>
#include <string.h>

#include "net/inet_sum.h"
#include "base/banned.h"

enum { IP4_LEN = 20, IP6_LEN = 40, UDP_LEN = 8, PORT = 53, TTL = 64 };

bool asker_take(struct asker *a, const uint8_t *frame, size_t len, const struct filter_part *part)
{
	const uint8_t *ip = frame + ETH_HLEN;

	if (len < ETH_HLEN + (part->ipv6 ? (size_t)IP6_LEN : (size_t)IP4_LEN))
		return false;
	*a = (struct asker){.ipv6 = part->ipv6, .port = part->port};
	memcpy(a->own_mac, frame, 6);
	memcpy(a->guest_mac, frame + 6, 6);
	memcpy(a->guest, ip + (part->ipv6 ? 8 : 12), part->ipv6 ? 16 : 4);
	memcpy(a->own, ip + (part->ipv6 ? 24 : 16), part->ipv6 ? 16 : 4);
	return true;
}

bool asker_is_same(const struct asker *a, const struct asker *b)
{
	return a->stream == b->stream && a->stream_id == b->stream_id && a->port == b->port &&
	       a->ipv6 == b->ipv6 && !memcmp(a->guest, b->guest, sizeof a->guest);
}

size_t asker_head(const struct asker *a)
{
	return ETH_HLEN + (a->ipv6 ? (size_t)IP6_LEN : (size_t)IP4_LEN) + UDP_LEN;
}

size_t asker_frame(const struct asker *a, uint8_t *frame, size_t len)
{
	const struct inet_ends ends = {.to_mac = a->guest_mac,
		.from_mac = a->own_mac,
		.to = a->guest,
		.from = a->own,
		.ipv6 = a->ipv6};
	len += UDP_LEN;
	const size_t at = inet_put_head(frame, &ends, IPPROTO_UDP, len);
	uint8_t *udp = frame + at;

	put16(udp, PORT);
	put16(udp + 2, a->port);
	put16(udp + 4, (uint16_t)len);
	put16(udp + 6, 0);
	const uint16_t sum = inet_sum_transport(
		a->own, a->guest, a->ipv6 ? 16 : 4, IPPROTO_UDP, udp, len);
	put16(udp + 6, sum ? sum : 0xffff);
	return at + len;
}
