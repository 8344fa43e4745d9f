/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NET_HOST_ADDRESSES_H
#define NET_HOST_ADDRESSES_H

#include "base/err.h"
#include "base/egress.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The addresses of the host's own interfaces, which no guest may reach. */
#define HOST_ADDRESSES_MAX 4096u
#define HOST_ADDRESSES_MS  1000u /* how old they may be while a guest sends */

struct filter;

struct host_addresses {
	struct net_addr *list;
	size_t n;
	uint64_t read_ms; /* 0: never */
	int spare; /* a descriptor that is given up while it reads; FD_NONE at first */
};

/* Read them anew where they are too old, and tell the filter. A host with more of them than can be
 * known is an error, as is one that does not tell: what is not known is not refused. Later, nothing
 * passes until it tells again. */
int host_addresses_refresh(
	struct host_addresses *h, struct filter *filter, uint64_t now_ms, holt_error **reterr);
void host_addresses_done(struct host_addresses *h);

#endif
