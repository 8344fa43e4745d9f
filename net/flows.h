/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NET_FLOWS_H
#define NET_FLOWS_H

#include "base/egress.h"

#include <stddef.h>

/*
 * Connections and UDP exchanges that were permitted when they began: a flow goes on when the name
 * that it began with is no longer pinned, and the answers of a published port go to whoever asked.
 * Bounded: past FLOWS_MAX the one that was idle for longest is forgotten.
 */
#define FLOWS_MAX        8192u /* more than the stack has sockets for */
#define FLOW_TCP_IDLE_MS 7200000u /* two hours, as long as the hosts' own keepalive waits */
#define FLOW_OPENING_MS  150000u /* as long as Linux tries; then nobody answers */
#define FLOW_UDP_IDLE_MS 300000u /* the stack forgets its socket after four minutes */
#define FLOW_ENDED_MS                                                               \
	10000u /* after both FIN or a RST: last acknowledgements, and repeated ones \
		*/

struct flows;

struct flow_key {
	struct net_addr peer;
	uint16_t peer_port;
	uint16_t guest_port;
	uint8_t udp; /* 0 or 1 */
	uint8_t ipv6; /* 0 or 1; 22 bytes, no holes: it is compared as memory */
};

enum flow_way { FLOW_OUT, FLOW_IN };

struct flows *flows_new(void);
void flows_free(struct flows *fs);

/* Begin @key, or begin it again. false: no memory. */
bool flows_add(struct flows *fs, const struct flow_key *key, enum flow_way way, uint64_t now_ms);
/* Is it there? Then it is used: @tcp_flags (enum frame_tcp) may begin its end. @from says who sent
 * them. *ret_way, which may be NULL, is how it began. */
bool flows_use(struct flows *fs, const struct flow_key *key, enum flow_way from, uint8_t tcp_flags,
	uint64_t now_ms, enum flow_way *ret_way);
size_t flows_count(struct flows *fs, uint64_t now_ms);

#endif
