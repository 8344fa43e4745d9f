/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NET_INET_SUM_H
#define NET_INET_SUM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The Internet checksum, in parts: add to a sum that begins with 0, and close it. All parts but the
 * last have an even length. Big-endian helpers for frames, which lie at any address. */
uint32_t inet_sum_add(uint32_t sum, const void *data, size_t len);
uint16_t inet_sum_close(uint32_t sum);
/* Of a TCP, UDP or ICMPv6 packet beneath IPv4 (4 bytes an address) or IPv6 (16). */
uint16_t inet_sum_transport(const uint8_t *src, const uint8_t *dst, size_t address_len,
	uint8_t proto, const uint8_t *packet, size_t len);

/* The ends of an answer: pointers to 6 bytes a card, 4 (IPv4) or 16 (IPv6) an address. */
struct inet_ends {
	const uint8_t *to_mac;
	const uint8_t *from_mac;
	const uint8_t *to;
	const uint8_t *from;
	bool ipv6;
};

/* Write Ethernet and IP header in front of @len bytes of @proto. Returns where these begin: 34 or
 * 54 bytes behind @frame. */
size_t inet_put_head(uint8_t *frame, const struct inet_ends *e, uint8_t proto, size_t len);

static inline uint16_t get16(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

static inline void put16(uint8_t *p, uint16_t v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
}

static inline uint32_t get32(const uint8_t *p)
{
	return (uint32_t)get16(p) << 16 | get16(p + 2);
}

static inline void put32(uint8_t *p, uint32_t v)
{
	put16(p, (uint16_t)(v >> 16));
	put16(p + 2, (uint16_t)v);
}

#endif
