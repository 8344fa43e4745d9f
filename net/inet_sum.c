/* SPDX-License-Identifier: Apache-2.0 */
#include "net/inet_sum.h"

#include <net/ethernet.h>
#include <string.h>

#include "base/banned.h"

enum { IP4_LEN = 20, IP6_LEN = 40, TTL = 64 };

uint32_t inet_sum_add(uint32_t sum, const void *data, size_t len)
{
	const uint8_t *p = data;

	for (; len > 1; p += 2, len -= 2)
		sum += get16(p);
	if (len > 0)
		sum += (uint32_t)p[0] << 8;
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

uint16_t inet_sum_close(uint32_t sum)
{
	return (uint16_t)~sum;
}

uint16_t inet_sum_transport(const uint8_t *src, const uint8_t *dst, size_t address_len,
	uint8_t proto, const uint8_t *packet, size_t len)
{
	uint8_t rest[8] = {0, 0, 0, 0, 0, 0, 0, proto};
	uint32_t sum;

	put32(rest, (uint32_t)len);
	sum = inet_sum_add(0, src, address_len);
	sum = inet_sum_add(sum, dst, address_len);
	sum = inet_sum_add(sum, rest, sizeof rest);
	return inet_sum_close(inet_sum_add(sum, packet, len));
}

size_t inet_put_head(uint8_t *frame, const struct inet_ends *e, uint8_t proto, size_t len)
{
	uint8_t *ip = frame + ETH_HLEN;

	memcpy(frame, e->to_mac, 6);
	memcpy(frame + 6, e->from_mac, 6);
	put16(frame + 12, e->ipv6 ? ETHERTYPE_IPV6 : ETHERTYPE_IP);
	if (e->ipv6) {
		memset(ip, 0, IP6_LEN);
		ip[0] = 0x60;
		put16(ip + 4, (uint16_t)len);
		ip[6] = proto;
		ip[7] = TTL;
		memcpy(ip + 8, e->from, 16);
		memcpy(ip + 24, e->to, 16);
		return ETH_HLEN + IP6_LEN;
	}
	memset(ip, 0, IP4_LEN);
	ip[0] = 0x45;
	put16(ip + 2, (uint16_t)(IP4_LEN + len));
	ip[8] = TTL;
	ip[9] = proto;
	memcpy(ip + 12, e->from, 4);
	memcpy(ip + 16, e->to, 4);
	put16(ip + 10, inet_sum_close(inet_sum_add(0, ip, IP4_LEN)));
	return ETH_HLEN + IP4_LEN;
}
