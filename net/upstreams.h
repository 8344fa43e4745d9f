/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NET_UPSTREAMS_H
#define NET_UPSTREAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

/*
 * Whom the host asks for names: its resolv.conf, read as resolv.conf(5) says and the C library
 * does, with at most UPSTREAMS_MAX servers. What cannot be read is passed over. No I/O, but for the
 * index of an interface that an IPv6 address names.
 */
#define UPSTREAMS_MAX        8u /* three count for the C library, others take more */
#define UPSTREAMS_TIMEOUT_MS 1500u /* a guest waits for five seconds before it asks again */
#define UPSTREAMS_ATTEMPTS   2u

struct upstream {
	struct sockaddr_storage address;
	socklen_t len;
};

struct upstreams {
	struct upstream list[UPSTREAMS_MAX];
	size_t n;
	unsigned timeout_ms; /* of one question to one of them */
	unsigned attempts; /* how often each is asked */
	bool rotate;
	bool use_tcp;
};

void upstreams_parse(const char *resolv, struct upstreams *ret);

#endif
