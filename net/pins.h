/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NET_PINS_H
#define NET_PINS_H

#include "base/egress.h"

#include <stddef.h>

/*
 * Which addresses which names have, for as long as the answer said, but at least PIN_MIN_S: a name
 * whose answers live for no time at all must still be good for the connection that it was asked
 * for. At most PIN_MAX_S, after which the guest asks again. New answers come on top of old ones,
 * which stay until their own time is over: whoever asked first may still connect.
 *
 * Bounded: past PINS_MAX addresses the one that was learnt first goes, and past PIN_NAMES of one
 * address the name that would end first.
 */
#define PINS_MAX  4096u
#define PIN_NAMES 16u /* many names share the addresses of a content network */
#define PIN_MIN_S 10u
#define PIN_MAX_S 86400u

struct pins;

struct pins *pins_new(void);
void pins_free(struct pins *ps);
/* @name as egress_name gives it. false: no memory. */
bool pins_add(struct pins *ps, const struct net_addr *address, const char *name, uint32_t ttl_s,
	uint64_t now_ms);
/* The names of an address, one a call; begin with *@at = 0. NULL: no more. Borrowed until the next
 * pins_add or pins_count. */
const char *pins_next(
	struct pins *ps, const struct net_addr *address, uint64_t now_ms, unsigned *at);
size_t pins_count(struct pins *ps, uint64_t now_ms);

#endif
