/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NET_REACH_H
#define NET_REACH_H

#include "base/egress.h"

#include <stddef.h>

/*
 * Addresses that no guest reaches in any mode, whatever is listed and whoever answered with them:
 *
 *   IPv4  0.0.0.0/8, 127.0.0.0/8, 169.254.0.0/16, 224.0.0.0/4, 240.0.0.0/4, and 10.0.2.0/24, which
 *         is the small network itself
 *   IPv6  ::/8 but for NAT64 (unspecified, loopback, mapped, compatible, translated), fe80::/10,
 *         fec0::/10, ff00::/8, the small network, NAT64 of a site (64:ff9b:1::/48: nobody outside
 *         knows where in it the IPv4 address sits)
 *   both  IPv6 forms that carry one of the IPv4 addresses above: NAT64 (64:ff9b::/96), 6to4
 *         (2002::/16), Teredo (2001::/32, server and client), ISATAP
 *
 * The host's own addresses come on top. They are asked about as they are written and as they are
 * carried: reach_carried gives the IPv4 addresses inside an IPv6 one.
 */
bool reach_never(const struct net_addr *a);

#define REACH_CARRIED_MAX 3u
size_t reach_carried(const struct net_addr *a, struct net_addr ret[REACH_CARRIED_MAX]);

#endif
