/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_PUBLISH_H
#define BASE_PUBLISH_H

#include "base/egress.h"

/*
 * A published port: [IP:]HOST:GUEST[/tcp|/udp], as docker has it, with IPv6 addresses in brackets.
 * Without an address it is 127.0.0.1. HOST 0 (or an empty one: "IP::GUEST") takes any free port.
 */
struct publish_rule {
	struct net_addr address;
	uint16_t host_port; /* 0: any */
	uint16_t guest_port; /* 1 to 65535 */
	bool udp;
};

int publish_parse(const char *text, struct publish_rule *ret, holt_error **reterr);
/* "127.0.0.1:8080:80/tcp", always whole. */
#define PUBLISH_TEXT 80
void publish_text(const struct publish_rule *r, char ret[PUBLISH_TEXT]);

#endif
