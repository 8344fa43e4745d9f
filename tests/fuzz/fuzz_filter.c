/* SPDX-License-Identifier: Apache-2.0 */
#include "net/filter.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

/*
 * Frames of a guest: a byte for the mode, then frames, each after two bytes of length, whose upper
 * bit says that it goes to the guest. What passes is read once more here, by other code: its
 * destination is none of the forbidden ones (with published ports: but for answers), its source is
 * the guest's, and with an allow-list it is listed. A question's part lies inside its frame.
 */

#define REQUIRE(cond)            \
	do {                     \
		if (!(cond))     \
			abort(); \
	} while (0)

#define MODE_LIST    1u
#define MODE_PUBLISH 2u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint32_t ip4_of(const char *text)
{
	struct in_addr a = {0};

	REQUIRE(inet_pton(AF_INET, text, &a) == 1);
	return ntohl(a.s_addr);
}

static bool starts6(const uint8_t *a, const char *text, size_t bytes)
{
	uint8_t with[16];

	REQUIRE(inet_pton(AF_INET6, text, with) == 1);
	return memcmp(a, with, bytes) == 0;
}

/* 192.0.2.77 and 2001:db8:77::77 are the host's. */
static bool bad4(uint32_t a)
{
	const uint32_t first = a >> 24;

	return first == 0 || first == 127 || first >= 224 || a >> 16 == 0xa9fe ||
	       a >> 8 == 0x0a0002 || a == ip4_of("192.0.2.77");
}

static uint32_t word(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static bool bad6(const uint8_t *a)
{
	if (starts6(a, "64:ff9b::", 12))
		return bad4(word(a + 12));
	if (starts6(a, "2002::", 2) && bad4(word(a + 2)))
		return true;
	if (starts6(a, "2001::", 4) && (bad4(word(a + 4)) || bad4(~word(a + 12))))
		return true;
	return a[0] == 0 || a[0] == 0xff || (a[0] == 0xfe && a[1] >= 0x80) ||
	       starts6(a, NET_GATEWAY6, 8) || starts6(a, "2001:db8:77::77", 16);
}

/* The small network has rules of its own; only what they are about may pass. */
static void check_inside4(const uint8_t *ip, size_t len)
{
	const uint32_t dest = word(ip + 16);

	if (dest == ip4_of(NET_GATEWAY4))
		REQUIRE(ip[9] == 1 && len >= 28 && ip[20] == 8);
	else
		REQUIRE(dest == ip4_of(NET_RESOLVER4) && ip[9] == 6 && ip[22] == 0 && ip[23] == 53);
}

static void check4(const uint8_t *ip, size_t len, unsigned mode)
{
	REQUIRE(len >= 20 && ip[0] == 0x45);
	REQUIRE(word(ip + 12) == ip4_of(NET_GUEST4));
	const uint32_t dest = word(ip + 16);
	if (mode & MODE_PUBLISH)
		return;
	if (dest >> 8 == 0x0a0002) {
		check_inside4(ip, len);
		return;
	}
	REQUIRE(!bad4(dest));
	if (mode & MODE_LIST)
		REQUIRE(dest >> 8 == ip4_of("198.51.100.0") >> 8 ||
			(dest == ip4_of("203.0.113.7") && (ip[9] == 6 || ip[9] == 17)));
}

static void check6(const uint8_t *ip, size_t len, unsigned mode)
{
	REQUIRE(len >= 40 && ip[0] >> 4 == 6);
	const bool neighbour = ip[6] == 58 && len >= 48 && ip[40] >= 133 && ip[40] <= 136 &&
			       ip[40] != 134;
	if (neighbour) {
		REQUIRE(ip[7] == 255);
		REQUIRE(starts6(ip + 24, NET_GATEWAY6, 8) || starts6(ip + 24, "fe80::", 8) ||
			starts6(ip + 24, "ff02::", 2));
		return;
	}
	REQUIRE(starts6(ip + 8, NET_GUEST6, 16));
	REQUIRE(ip[6] == 6 || ip[6] == 17 || ip[6] == 58);
	if (mode & MODE_PUBLISH)
		return;
	if (starts6(ip + 24, NET_GATEWAY6, 16))
		REQUIRE(ip[6] == 58 && ip[40] == 128);
	else if (starts6(ip + 24, NET_RESOLVER6, 16))
		REQUIRE(ip[6] == 6 && ip[42] == 0 && ip[43] == 53);
	else
		REQUIRE(!bad6(ip + 24) &&
			(!(mode & MODE_LIST) || starts6(ip + 24, "2001:db8:1::", 6)));
}

static void check_passed(const uint8_t *frame, size_t len, unsigned mode)
{
	REQUIRE(len >= 14);
	const unsigned type = (unsigned)frame[12] << 8 | frame[13];
	if (type == 0x0800)
		check4(frame + 14, len - 14, mode);
	else if (type == 0x86dd)
		check6(frame + 14, len - 14, mode);
	else
		REQUIRE(type == 0x0806 && len >= 42);
}

static struct filter *make(unsigned mode)
{
	static char network[] = "198.51.100.0/24", one[] = "203.0.113.7:443";
	static char network6[] = "[2001:db8:1::]/48", web[] = "8080:80", names[] = "53:53/udp";
	static char *allow[] = {network, one, network6, NULL};
	static char *publish[] = {web, names, NULL};
	const struct net_spec spec = {.mode = mode & MODE_LIST ? NET_ALLOWLIST : NET_OPEN,
		.allow = mode & MODE_LIST ? allow : NULL,
		.publish = mode & MODE_PUBLISH ? publish : NULL};
	struct net_addr host[2];
	struct filter *f = NULL;

	REQUIRE(filter_new(&spec, NULL, NULL, &f, NULL) == 0);
	REQUIRE(net_addr_parse("192.0.2.77", &host[0]));
	REQUIRE(net_addr_parse("2001:db8:77::77", &host[1]));
	filter_set_host(f, host, 2);
	return f;
}

static void one_frame(
	struct filter *f, const uint8_t *data, size_t len, bool inward, unsigned mode, uint64_t now)
{
	struct filter_part part = {0};
	/* A copy of just this length, so that a sanitizer sees its end. */
	uint8_t *frame = malloc(len ? len : 1);

	REQUIRE(frame);
	memcpy(frame, data, len);
	if (inward) {
		filter_in(f, frame, len, now);
	} else {
		const enum filter_verdict v = filter_out(f, frame, len, now, &part);

		if (v == FILTER_PASS)
			check_passed(frame, len, mode);
		if (v == FILTER_NAMES)
			REQUIRE(part.data >= frame && part.data + part.len <= frame + len);
	}
	free(frame);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 1)
		return 0;
	const unsigned mode = data[0];
	struct filter *f = make(mode);
	uint64_t now = 1000000;
	size_t flows, pins;

	for (size_t at = 1; at + 2 <= size; now += 1000) {
		const bool inward = data[at] & 0x80;
		size_t len = (size_t)(data[at] & 0x7f) << 8 | data[at + 1];

		at += 2;
		if (len > size - at)
			len = size - at;
		one_frame(f, data + at, len, inward, mode, now);
		at += len;
	}
	filter_sizes(f, now, &flows, &pins);
	REQUIRE(pins == 0);
	filter_free(f);
	return 0;
}
