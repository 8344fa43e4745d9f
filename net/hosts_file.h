/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NET_HOSTS_FILE_H
#define NET_HOSTS_FILE_H

#include "base/egress.h"

#include <stdbool.h>
#include <stddef.h>

/* The host's list of names, as hosts(5) has it: what its programs resolve without asking anybody,
 * so that a name means the same in a box. Searched as text. */
#define HOSTS_ADDRESSES_MAX 8u

/* Is @name in @text? Its addresses of one family, at most HOSTS_ADDRESSES_MAX, go to @ret. */
bool hosts_find(const char *text, const char *name, bool ipv6,
	struct net_addr ret[HOSTS_ADDRESSES_MAX], size_t *ret_n);

#endif
