/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_EGRESS_H
#define BASE_EGRESS_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * An entry of an allow-list: HOST[:PORT], *.DOMAIN[:PORT], ADDRESS[:PORT], [IPV6][:PORT] or
 * CIDR[:PORT]; with a port, an IPv6 network is [FD00::/8]:PORT. A host is a DNS name in its ASCII
 * form (IDN as xn--); case and one trailing dot mean nothing; "*.DOMAIN" is every name below the
 * domain, not the domain itself. A port is 1 to 65535, without one all are meant.
 */
#define EGRESS_HOST_MAX 253u

/* An address of either family; IPv4 as ::ffff:a.b.c.d, so that there is one kind. */
struct net_addr {
	uint8_t bytes[16];
};

enum egress_kind { EGRESS_HOST, EGRESS_DOMAIN, EGRESS_NETWORK };

struct egress_rule {
	enum egress_kind kind;
	char host[EGRESS_HOST_MAX + 1]; /* lower case, no trailing dot; of a domain without "*." */
	struct net_addr network; /* host bits are zero */
	uint8_t prefix; /* 0 to 128, for IPv4 96 to 128 */
	uint16_t port; /* 0: all */
};

/* HOLT_EINVALID with what is wrong; the object is @text. */
int egress_parse(const char *text, struct egress_rule *ret, holt_error **reterr);

/* The form in which names are compared: lower case, no trailing dot. false: it is no host name. */
bool egress_name(const char *text, char ret[EGRESS_HOST_MAX + 1]);

/* The entry as it is always written: "*.example.org:443", "10.0.0.0/8", "[fd00::1]:80". */
#define EGRESS_TEXT 264
void egress_text(const struct egress_rule *r, char ret[EGRESS_TEXT]);

/* @name as egress_name gives it. */
bool egress_matches_name(const struct egress_rule *r, const char *name);
/* Without a look at the port. A network of one family has no address of the other. */
bool egress_matches_addr(const struct egress_rule *r, const struct net_addr *a);

/* "10.0.0.1" or "fd00::1". */
bool net_addr_parse(const char *text, struct net_addr *ret);
#define NET_ADDR_TEXT 46
void net_addr_text(const struct net_addr *a, char ret[NET_ADDR_TEXT]);
bool net_addr_is4(const struct net_addr *a);

#endif
