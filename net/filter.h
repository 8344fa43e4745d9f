/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NET_FILTER_H
#define NET_FILTER_H

#include "base/egress.h"
#include "base/net_link.h"

#include <stddef.h>

/*
 * What may pass between a guest and the world, decided frame by frame. No I/O, no clock of its own.
 * One thread.
 *
 * Never reachable, whatever is listed: the host itself (loopback, each of its addresses),
 * link-local addresses (with them the metadata services of clouds), multicast and broadcast, and
 * the same behind IPv6's ways to write an IPv4 address (mapped, compatible, NAT64, 6to4); reach.h
 * has the list. Inside the small network there are ARP and neighbour discovery, echo from the
 * gateway, the resolver's port 53, and the answers of published ports.
 *
 * Only what is understood whole passes: the guest's own source address, no IPv4 options, no IPv6
 * extension headers, no fragments of TCP, and others only to an address that is allowed with all
 * its ports, since later fragments have none.
 *
 * With an allow-list a name is reached by the addresses that the helper's resolver was told for it,
 * for as long as the answer said (pins.h), and a flow that has begun goes on (flows.h). Everything
 * else is refused, other resolvers too: to the filter they are addresses like others. The name is
 * the one that was asked for; where a CNAME leads does not matter.
 *
 * Not covered, since packets do not show it: which name a TLS client says it means (SNI), which one
 * it means inside of it (Host, fronting), and what else lives at an address that a name shares.
 */
struct filter;

enum filter_verdict {
	FILTER_PASS, /* on to the network stack */
	FILTER_DROP, /* forget it in silence: broken, broadcast, what nobody asked to be told */
	FILTER_REFUSE, /* not allowed: the guest shall be told at once (reset, unreachable) */
	FILTER_NAMES /* a UDP question to the resolver; the payload is in *ret_part */
};

struct filter_part {
	const uint8_t *data; /* inside the frame */
	size_t len;
	uint16_t port; /* of the guest */
	bool ipv6;
};

struct refusal {
	const char *name; /* the one that the address was learnt for, or that was asked; "" */
	struct net_addr address; /* all zero where a name was refused */
	uint16_t port;
	const char *proto; /* "tcp", "udp", "icmp", "dns" */
	uint32_t count; /* how often, since it was told last: at most once a minute */
};

typedef void (*filter_refused_fn)(const struct refusal *r, void *user);

int filter_new(const struct net_spec *spec, filter_refused_fn refused, void *user,
	struct filter **ret, holt_error **reterr);
void filter_free(struct filter *f);

#define FILTER_HOST_MAX 1024u /* addresses of a host */
/* The host's own addresses as they are now; replaces those before. More than FILTER_HOST_MAX, or no
 * memory for them: nothing passes any more until it is called with what fits. */
void filter_set_host(struct filter *f, const struct net_addr *addresses, size_t n);

/* A frame of the guest. */
enum filter_verdict filter_out(struct filter *f, const void *frame, size_t len, uint64_t now_ms,
	struct filter_part *ret_part);
/* Tell of refusals that are due; for when no frame comes that would do it. */
void filter_tick(struct filter *f, uint64_t now_ms);
/* A frame to the guest: connections to published ports are flows, whose answers may go out. */
void filter_in(struct filter *f, const void *frame, size_t len, uint64_t now_ms);

/* May the resolver ask for this name (any form)? Otherwise it was reported as refused. */
bool filter_may_ask(struct filter *f, const char *name);
/* @name (as it was asked) has this address for @ttl_s. false: nobody may reach that address, and it
 * is to be left out of the answer. */
bool filter_learn(struct filter *f, const char *name, const struct net_addr *address,
	uint32_t ttl_s, uint64_t now_ms);

/* Is it none of those that nobody may reach? Lists are not asked. */
bool filter_reachable(const struct filter *f, const struct net_addr *address);

/* How much is remembered, for tests: flows and pinned addresses; what has expired is forgotten. */
void filter_sizes(struct filter *f, uint64_t now_ms, size_t *ret_flows, size_t *ret_pins);

#endif
