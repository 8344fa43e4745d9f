/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NET_FRAME_H
#define NET_FRAME_H

#include "base/egress.h"

#include <stddef.h>

/*
 * One Ethernet frame taken apart: ARP, IPv4 and IPv6 with TCP, UDP and ICMP. Whatever does not keep
 * to its own lengths, has IPv4 options or IPv6 extension headers, or is anything else, is no frame:
 * the filter decides only about what it understood whole.
 */
#define FRAME_HEADER 14u /* of Ethernet */

enum frame_kind {
	FRAME_ARP,
	FRAME_TCP,
	FRAME_UDP,
	FRAME_ICMP4,
	FRAME_ICMP6,
	FRAME_PART /* a later fragment of an IPv4 packet of UDP or ICMP: it has no ports */
};

enum frame_tcp { FRAME_FIN = 1, FRAME_SYN = 2, FRAME_RST = 4, FRAME_ACK = 16 };

struct frame {
	enum frame_kind kind;
	bool ipv6;
	bool fragment; /* a first one with more to come, or a later one */
	uint8_t hops; /* left to live */
	uint8_t type, code; /* of ICMP */
	uint8_t tcp_flags; /* enum frame_tcp, others too */
	uint8_t proto; /* IP's number, of fragments too */
	uint16_t source_port, port;
	struct net_addr source, dest; /* of ARP: sender and target */
	struct net_addr target; /* of neighbour solicitations and advertisements */
	const uint8_t *data; /* behind the header of UDP */
	size_t len;
};

/* false: no frame as above. @f points into @bytes. */
bool frame_parse(const void *bytes, size_t len, struct frame *ret);

#endif
