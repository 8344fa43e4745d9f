/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_NET_LINK_H
#define BASE_NET_LINK_H

#include "base/err.h"
#include "base/json.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * What the keeper and its network helper (net/) agree on: what a box may reach, two descriptors,
 * and the messages between them. A message is one JSON object in one packet (SOCK_SEQPACKET) with
 * one member, which says what it is:
 *
 * From the keeper:
 *
 *   spec      {"mode", "allow": [], "publish": []}; first, once
 *   names     {"resolv": text, "hosts": text}: the host's files, as asked for
 *
 * From the helper:
 *
 *   up        {"ipv6": bool, "mtu": bytes, "ports": []}: published ports are bound, and "ports" are
 *             those of "publish" in the same order and whole, with the port that was chosen where
 *             any was asked for; it is in its jail, frames flow
 *   failed    {"errno", "text", "object", "hint"}; instead of up; it ends
 *   ask       {}: for names, at most once a second
 *   refused   {"name", "address", "port", "proto", "count"}; name may be "", address may be ""
 *
 * The keeper takes what the helper says for hostile. End-of-file ends the helper.
 */
#define NET_PROGRAM     "holt-net" /* beside holt-keeper */
#define NET_MESSAGE_MAX 131072u /* of one message */
#define NET_TEXT_MAX    32768u /* of each file in names; what is longer is cut at a line */
#define NET_ALLOW_MAX   256u /* entries of an allow-list */
#define NET_PUBLISH_MAX 64u /* published ports */

enum net_fd {
	NET_FD_FRAMES = 3, /* SOCK_DGRAM: one Ethernet frame a datagram, QEMU at the other end */
	NET_FD_KEEPER = 4, /* SOCK_SEQPACKET: the messages */
	NET_FD_END
};

/* The small network between a guest and its helper. Every box has the same one. */
#define NET_GUEST4    "10.0.2.15"
#define NET_GATEWAY4  "10.0.2.2"
#define NET_RESOLVER4 "10.0.2.3"
#define NET_PREFIX4   24
#define NET_GUEST6    "fd68:6f6c:7400::15"
#define NET_GATEWAY6  "fd68:6f6c:7400::2"
#define NET_RESOLVER6 "fd68:6f6c:7400::3"
#define NET_PREFIX6   64
#define NET_MTU       1500u

enum net_mode {
	NET_ISOLATED, /* no helper, nobody at the other end of the card */
	NET_OPEN, /* everything but the host itself */
	NET_ALLOWLIST /* what is listed, of what open permits */
};

struct net_spec {
	enum net_mode mode;
	char **allow; /* NULL-terminated, or NULL: entries as egress.h has them */
	char **publish; /* NULL-terminated, or NULL: entries as publish.h has them */
};

/* Is there a way out by IPv6? Only then do boxes have it. Asks for a route, sends nothing. */
bool net_host_has_ipv6(void);

void net_spec_done(struct net_spec *s);
#define auto_net_spec __attribute__((cleanup(net_spec_done))) struct net_spec
int net_spec_copy(const struct net_spec *from, struct net_spec *ret);

/* "open", "allowlist", "isolated"; for reading "none" too, which is isolated. */
const char *net_mode_name(enum net_mode mode);
int net_mode_parse(const char *text, enum net_mode *ret, holt_error **reterr);

/* Are all entries well-formed, and do they go with the mode? HOLT_EINVALID with the entry as
 * object: allow without NET_ALLOWLIST, publish with NET_ISOLATED, too many. */
int net_spec_check(const struct net_spec *s, holt_error **reterr);

/* For records, fingerprints and the first message; the same specification gives the same text. */
json_t *net_spec_json(const struct net_spec *s);
int net_spec_parse(const json_t *object, struct net_spec *ret, holt_error **reterr);

#endif
