/* SPDX-License-Identifier: Apache-2.0 */
#include "net/frame.h"

#include <string.h>

#include "base/banned.h"

/*
 * Every function gets what is left of the frame as (p, len) and looks at no byte before it has
 * compared the length. IP may end before the frame does (short frames are padded); the rest is
 * ignored, as the stack ignores it.
 */

#define TYPE_IP4 0x0800u
#define TYPE_ARP 0x0806u
#define TYPE_IP6 0x86ddu

#define PROTO_ICMP4 1u
#define PROTO_TCP   6u
#define PROTO_UDP   17u
#define PROTO_ICMP6 58u

#define IP4_HEADER  20u
#define IP6_HEADER  40u
#define TCP_HEADER  20u
#define UDP_HEADER  8u
#define ICMP_HEADER 8u
#define ARP_BODY    28u
#define ND_BODY     24u /* type, code, sum, flags, target */

static uint16_t get16(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

static struct net_addr addr4(const uint8_t *p)
{
	struct net_addr a = {.bytes = {[10] = 0xff, [11] = 0xff}};

	memcpy(a.bytes + 12, p, 4);
	return a;
}

static struct net_addr addr6(const uint8_t *p)
{
	struct net_addr a;

	memcpy(a.bytes, p, sizeof a.bytes);
	return a;
}

/* Questions and answers about IPv4 on Ethernet, whose sender is who sent the frame. */
static bool parse_arp(const uint8_t *frame, const uint8_t *p, size_t len, struct frame *f)
{
	static const uint8_t kind[] = {0, 1, 8, 0, 6, 4, 0};

	if (len < ARP_BODY || memcmp(p, kind, sizeof kind) != 0 || (p[7] != 1 && p[7] != 2))
		return false;
	if (memcmp(p + 8, frame + 6, 6) != 0)
		return false;
	f->kind = FRAME_ARP;
	f->source = addr4(p + 14);
	f->dest = addr4(p + 24);
	return true;
}

static bool parse_tcp(const uint8_t *p, size_t len, struct frame *f)
{
	if (len < TCP_HEADER)
		return false;
	const size_t header = (size_t)(p[12] >> 4) * 4;
	if (header < TCP_HEADER || header > len)
		return false;
	f->kind = FRAME_TCP;
	f->source_port = get16(p);
	f->port = get16(p + 2);
	f->tcp_flags = p[13];
	/* What no honest stack sends, and different ones read differently. */
	if ((f->tcp_flags & FRAME_SYN) && (f->tcp_flags & (FRAME_FIN | FRAME_RST)))
		return false;
	return f->source_port != 0 && f->port != 0;
}

static bool parse_udp(const uint8_t *p, size_t len, struct frame *f)
{
	if (len < UDP_HEADER)
		return false;
	const size_t total = get16(p + 4);
	if (total < UDP_HEADER || (total > len && !f->fragment))
		return false;
	f->kind = FRAME_UDP;
	f->source_port = get16(p);
	f->port = get16(p + 2);
	f->data = p + UDP_HEADER;
	f->len = (f->fragment ? len : total) - UDP_HEADER;
	return f->source_port != 0 && f->port != 0;
}

static bool parse_icmp(const uint8_t *p, size_t len, struct frame *f)
{
	if (len < ICMP_HEADER)
		return false;
	f->kind = f->ipv6 ? FRAME_ICMP6 : FRAME_ICMP4;
	f->type = p[0];
	f->code = p[1];
	if (f->ipv6 && (f->type == 135 || f->type == 136)) {
		if (len < ND_BODY)
			return false;
		f->target = addr6(p + 8);
	}
	return true;
}

static bool parse_inner(const uint8_t *p, size_t len, struct frame *f)
{
	switch (f->proto) {
	case PROTO_TCP:
		return !f->fragment && parse_tcp(p, len, f);
	case PROTO_UDP:
		return parse_udp(p, len, f);
	case PROTO_ICMP4:
		return !f->ipv6 && parse_icmp(p, len, f);
	case PROTO_ICMP6:
		return f->ipv6 && parse_icmp(p, len, f);
	default:
		return false;
	}
}

/* Fragments: never of TCP; pieces are multiples of eight bytes and end within a packet. */
static bool parse_ip4(const uint8_t *p, size_t len, struct frame *f)
{
	if (len < IP4_HEADER || p[0] != 0x45)
		return false;
	const size_t total = get16(p + 2);
	if (total < IP4_HEADER || total > len)
		return false;
	const unsigned flags = get16(p + 6);
	const size_t offset = (size_t)(flags & 0x1fff) * 8;
	const bool more = flags & 0x2000;
	const size_t body = total - IP4_HEADER;

	f->fragment = more || offset > 0;
	f->hops = p[8];
	f->proto = p[9];
	f->source = addr4(p + 12);
	f->dest = addr4(p + 16);
	if ((flags & 0x8000) || (more && (body == 0 || body % 8 != 0)))
		return false;
	if (offset == 0)
		return parse_inner(p + IP4_HEADER, body, f);
	if ((f->proto != PROTO_UDP && f->proto != PROTO_ICMP4) || body == 0 ||
		IP4_HEADER + offset + body > UINT16_MAX)
		return false;
	f->kind = FRAME_PART;
	return true;
}

static bool parse_ip6(const uint8_t *p, size_t len, struct frame *f)
{
	if (len < IP6_HEADER || p[0] >> 4 != 6)
		return false;
	const size_t body = get16(p + 4);
	if (body > len - IP6_HEADER)
		return false;
	f->ipv6 = true;
	f->proto = p[6];
	f->hops = p[7];
	f->source = addr6(p + 8);
	f->dest = addr6(p + 24);
	/* One address has one form here: what reads as IPv4 is no IPv6 on a wire. */
	if (net_addr_is4(&f->source) || net_addr_is4(&f->dest))
		return false;
	return parse_inner(p + IP6_HEADER, body, f);
}

bool frame_parse(const void *bytes, size_t len, struct frame *ret)
{
	const uint8_t *p = bytes;
	struct frame f = {0};
	bool good = false;

	if (len < FRAME_HEADER || (p[6] & 1)) /* nobody is a group */
		return false;
	const uint8_t *const body = p + FRAME_HEADER;
	const size_t left = len - FRAME_HEADER;
	switch (get16(p + 12)) {
	case TYPE_ARP:
		good = parse_arp(p, body, left, &f);
		break;
	case TYPE_IP4:
		good = parse_ip4(body, left, &f);
		break;
	case TYPE_IP6:
		good = parse_ip6(body, left, &f);
		break;
	default:
		break;
	}
	if (good)
		*ret = f;
	return good;
}
