/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NET_FORWARD_H
#define NET_FORWARD_H

#include "base/err.h"
#include "base/net_link.h"

struct stack;

#define FORWARD_BACKLOG 128 /* connections that wait until the loop has its turn */

/*
 * Bind the published ports of @spec and let the stack take what comes in. Before the helper's jail:
 * low ports may need what that takes away.
 *
 * *ret_ports: fresh list (strv_free) of publish_text, in the order of @spec, with the ports that
 * were chosen where any was asked for. HOLT_EBUSY with EADDRINUSE: somebody else has the port;
 * HOLT_EDENIED: a low port; HOLT_EINVALID: an address that the host does not have;
 * HOLT_EUNSUPPORTED: IPv6 where the host has none. The object is the entry.
 */
int forward_open(
	struct stack *s, const struct net_spec *spec, char ***ret_ports, holt_error **reterr);

#endif
