/* SPDX-License-Identifier: Apache-2.0 */
/* Ethernet frames for tests: built from texts, then perhaps broken on purpose. */
#ifndef TEST_FRAMES_H
#define TEST_FRAMES_H

#include <arpa/inet.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define FRAMES_MAX 2048u
#define IP_AT      14u

struct built {
	uint8_t bytes[FRAMES_MAX];
	size_t len;
	size_t inner; /* where TCP, UDP or ICMP begins */
};

static inline void frames_put16(uint8_t *p, unsigned v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
}

/* @from, @to: both IPv4 or both IPv6; @body bytes follow the IP header. */
static inline struct built frame_ip(uint8_t proto, const char *from, const char *to, size_t body)
{
	const bool six = strchr(from, ':');
	struct built b = {.inner = IP_AT + (six ? 40u : 20u)};
	uint8_t *const ip = b.bytes + IP_AT;

	memset(b.bytes, 2, 12);
	frames_put16(b.bytes + 12, six ? 0x86dd : 0x0800);
	b.len = b.inner + body;
	if (six) {
		ip[0] = 0x60;
		frames_put16(ip + 4, (unsigned)body);
		ip[6] = proto;
		ip[7] = 255;
		(void)inet_pton(AF_INET6, from, ip + 8);
		(void)inet_pton(AF_INET6, to, ip + 24);
	} else {
		ip[0] = 0x45;
		frames_put16(ip + 2, (unsigned)body + 20);
		ip[8] = 64;
		ip[9] = proto;
		(void)inet_pton(AF_INET, from, ip + 12);
		(void)inet_pton(AF_INET, to, ip + 16);
	}
	return b;
}

static inline struct built frame_tcp(
	const char *from, unsigned from_port, const char *to, unsigned port, uint8_t flags)
{
	struct built b = frame_ip(6, from, to, 20);

	frames_put16(b.bytes + b.inner, from_port);
	frames_put16(b.bytes + b.inner + 2, port);
	b.bytes[b.inner + 12] = 5 << 4;
	b.bytes[b.inner + 13] = flags;
	return b;
}

static inline struct built frame_udp(
	const char *from, unsigned from_port, const char *to, unsigned port, size_t data)
{
	struct built b = frame_ip(17, from, to, 8 + data);

	frames_put16(b.bytes + b.inner, from_port);
	frames_put16(b.bytes + b.inner + 2, port);
	frames_put16(b.bytes + b.inner + 4, (unsigned)(8 + data));
	return b;
}

static inline struct built frame_icmp(
	const char *from, const char *to, uint8_t type, uint8_t code, size_t data)
{
	struct built b = frame_ip(strchr(from, ':') ? 58 : 1, from, to, 8 + data);

	b.bytes[b.inner] = type;
	b.bytes[b.inner + 1] = code;
	return b;
}

static inline struct built frame_neighbour(
	const char *from, const char *to, uint8_t type, const char *target)
{
	struct built b = frame_icmp(from, to, type, 0, target ? 16 : 0);

	if (target)
		(void)inet_pton(AF_INET6, target, b.bytes + b.inner + 8);
	return b;
}

static inline struct built frame_arp(uint8_t op, const char *from, const char *about)
{
	static const uint8_t kind[] = {0, 1, 8, 0, 6, 4, 0};
	struct built b = {.len = IP_AT + 28, .inner = IP_AT};

	memset(b.bytes, 2, 12);
	frames_put16(b.bytes + 12, 0x0806);
	memcpy(b.bytes + IP_AT, kind, sizeof kind);
	b.bytes[IP_AT + 7] = op;
	memset(b.bytes + IP_AT + 8, 2, 6);
	(void)inet_pton(AF_INET, from, b.bytes + IP_AT + 14);
	(void)inet_pton(AF_INET, about, b.bytes + IP_AT + 24);
	return b;
}

#endif
