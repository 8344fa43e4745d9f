/* SPDX-License-Identifier: Apache-2.0 */
#include "net/reject.h"

#include <net/ethernet.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>

#include "net/inet_sum.h"
#include "base/banned.h"

enum {
	IP4_LEN = 20,
	IP6_LEN = 40,
	TCP_LEN = 20,
	ICMP_LEN = 8,
	ICMP_UNREACHABLE = 3,
	ICMP_PROHIBITED = 13,
	ICMP_ECHO_REQUEST = 8,
	ICMP6_UNREACHABLE = 1,
	ICMP6_PROHIBITED = 1,
	ICMP6_INFORMATIVE = 128, /* this bit: no error */
	TCP_FIN = 1,
	TCP_SYN = 2,
	TCP_RST = 4,
	TCP_ACK = 16,
	QUOTE4 = 28, /* of the packet that was refused: its header and eight bytes, as of old */
	QUOTE6 = 1280 - IP6_LEN - ICMP_LEN
};

/* A frame with its parts. */
struct parts {
	const uint8_t *eth;
	const uint8_t *ip;
	size_t ip_len; /* of the whole packet */
	size_t header_len;
	uint8_t proto;
	bool ipv6;
};

static bool take_parts(const uint8_t *frame, size_t len, struct parts *ret)
{
	if (len < ETH_HLEN + IP4_LEN)
		return false;
	*ret = (struct parts){.eth = frame, .ip = frame + ETH_HLEN};
	const uint16_t type = get16(frame + 12);
	const size_t left = len - ETH_HLEN;
	if (type == ETHERTYPE_IP && ret->ip[0] >> 4 == 4) {
		ret->header_len = (size_t)(ret->ip[0] & 15) * 4;
		ret->ip_len = get16(ret->ip + 2);
		ret->proto = ret->ip[9];
		/* Only the first fragment is answered. */
		if (get16(ret->ip + 6) & 0x1fff)
			return false;
		return ret->header_len >= IP4_LEN && ret->ip_len >= ret->header_len &&
		       ret->ip_len <= left;
	}
	if (type != ETHERTYPE_IPV6 || left < IP6_LEN || ret->ip[0] >> 4 != 6)
		return false;
	ret->ipv6 = true;
	ret->header_len = IP6_LEN;
	ret->ip_len = (size_t)IP6_LEN + get16(ret->ip + 4);
	ret->proto = ret->ip[6];
	return ret->ip_len <= left;
}

/* Ethernet and IP header of the answer, from the address that was meant. Returns where the packet
 * inside begins. */
static size_t put_headers(const struct parts *p, uint8_t proto, size_t len, uint8_t *ret)
{
	const struct inet_ends ends = {.to_mac = p->eth + 6,
		.from_mac = p->eth,
		.to = p->ip + (p->ipv6 ? 8 : 12),
		.from = p->ip + (p->ipv6 ? 24 : 16),
		.ipv6 = p->ipv6};

	return inet_put_head(ret, &ends, proto, len);
}

static uint16_t transport_sum(
	const struct parts *p, uint8_t proto, const uint8_t *packet, size_t len)
{
	const size_t n = p->ipv6 ? 16 : 4;
	const uint8_t *src = p->ip + (p->ipv6 ? 8 : 12);

	return inet_sum_transport(src + n, src, n, proto, packet, len);
}

static size_t put_reset(const struct parts *p, uint8_t *ret)
{
	const uint8_t *tcp = p->ip + p->header_len;
	const size_t len = p->ip_len - p->header_len;

	if (len < TCP_LEN || tcp[13] & TCP_RST)
		return 0;
	const size_t data = len - (size_t)(tcp[12] >> 4) * 4;
	if (data > len)
		return 0;
	const size_t at = put_headers(p, IPPROTO_TCP, TCP_LEN, ret);
	uint8_t *out = ret + at;
	memset(out, 0, TCP_LEN);
	memcpy(out, tcp + 2, 2);
	memcpy(out + 2, tcp, 2);
	out[12] = TCP_LEN / 4 << 4;
	out[13] = TCP_RST;
	if (tcp[13] & TCP_ACK) {
		memcpy(out + 4, tcp + 8, 4);
	} else {
		const uint32_t taken = (uint32_t)data + !!(tcp[13] & TCP_SYN) +
				       !!(tcp[13] & TCP_FIN);

		put32(out + 8, get32(tcp + 4) + taken);
		out[13] |= TCP_ACK;
	}
	put16(out + 16, transport_sum(p, IPPROTO_TCP, out, TCP_LEN));
	return at + TCP_LEN;
}

/* An error is never the answer to an error. */
static bool is_error(const struct parts *p)
{
	const uint8_t *icmp = p->ip + p->header_len;

	if (p->ip_len <= p->header_len)
		return true;
	if (p->ipv6)
		return p->proto == IPPROTO_ICMPV6 && !(icmp[0] & ICMP6_INFORMATIVE);
	return p->proto == IPPROTO_ICMP && icmp[0] != ICMP_ECHO_REQUEST;
}

static size_t put_unreachable(const struct parts *p, uint8_t *ret)
{
	const size_t most = p->ipv6 ? (size_t)QUOTE6 : p->header_len + QUOTE4 - IP4_LEN;
	const size_t quoted = p->ip_len < most ? p->ip_len : most;
	const size_t len = ICMP_LEN + quoted;

	if (is_error(p))
		return 0;
	const size_t at = put_headers(
		p, p->ipv6 ? (uint8_t)IPPROTO_ICMPV6 : (uint8_t)IPPROTO_ICMP, len, ret);
	uint8_t *out = ret + at;
	memset(out, 0, ICMP_LEN);
	out[0] = p->ipv6 ? ICMP6_UNREACHABLE : ICMP_UNREACHABLE;
	out[1] = p->ipv6 ? ICMP6_PROHIBITED : ICMP_PROHIBITED;
	memcpy(out + ICMP_LEN, p->ip, quoted);
	put16(out + 2, p->ipv6 ? transport_sum(p, IPPROTO_ICMPV6, out, len)
			       : inet_sum_close(inet_sum_add(0, out, len)));
	return at + len;
}

static bool rate_allows(struct reject_rate *rate, uint64_t now_ms)
{
	const uint64_t back = (now_ms - rate->last_ms) * REJECT_PER_SECOND;

	rate->used = back < rate->used ? rate->used - (uint32_t)back : 0;
	rate->last_ms = now_ms;
	if (rate->used + 1000 > REJECT_BURST * 1000)
		return false;
	rate->used += 1000;
	return true;
}

size_t reject_frame(struct reject_rate *rate, const uint8_t *frame, size_t len, uint64_t now_ms,
	uint8_t ret[REJECT_MAX])
{
	struct parts p;

	if (!take_parts(frame, len, &p) || !rate_allows(rate, now_ms))
		return 0;
	return p.proto == IPPROTO_TCP ? put_reset(&p, ret) : put_unreachable(&p, ret);
}
