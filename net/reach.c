/* SPDX-License-Identifier: Apache-2.0 */
#include "net/reach.h"

#include <string.h>

#include "base/net_link.h"
#include "base/banned.h"

struct block {
	uint8_t bytes[16];
	uint8_t bits;
};

static const struct block never4[] = {
	{{0}, 8},
	{{10, 0, 2}, 24}, /* NET_GATEWAY4 and its neighbours */
	{{127}, 8},
	{{169, 254}, 16},
	{{224}, 4},
	{{240}, 4},
};

static const struct block never6[] = {
	{{0x00, 0x64, 0xff, 0x9b, 0x00, 0x01}, 48},
	{{0xfd, 0x68, 0x6f, 0x6c, 0x74}, 64}, /* NET_GATEWAY6 and its neighbours */
	{{0xfe, 0x80}, 10},
	{{0xfe, 0xc0}, 10},
	{{0xff}, 8},
};

static const struct block nat64 = {{0x00, 0x64, 0xff, 0x9b}, 96};
static const struct block reserved6 = {{0}, 8};
static const struct block six_to_four = {{0x20, 0x02}, 16};
static const struct block teredo = {{0x20, 0x01}, 32};

static bool within(const uint8_t *a, const struct block *b)
{
	const uint8_t mask = (uint8_t)(0xff00u >> (b->bits % 8));

	return memcmp(a, b->bytes, b->bits / 8) == 0 &&
	       (b->bits % 8 == 0 || ((a[b->bits / 8] ^ b->bytes[b->bits / 8]) & mask) == 0);
}

static bool never_ip4(const uint8_t *a)
{
	for (size_t i = 0; i < sizeof never4 / sizeof *never4; i++) {
		if (within(a, &never4[i]))
			return true;
	}
	return false;
}

static void carry(const uint8_t *a, uint8_t flip, struct net_addr *ret)
{
	*ret = (struct net_addr){.bytes = {[10] = 0xff, [11] = 0xff}};
	for (size_t i = 0; i < 4; i++)
		ret->bytes[12 + i] = a[i] ^ flip;
}

/* An interface identifier of ISATAP, with either value of its bit for global uniqueness. */
static bool is_isatap(const uint8_t *a)
{
	return (a[8] & 0xfd) == 0 && a[9] == 0 && a[10] == 0x5e && a[11] == 0xfe;
}

size_t reach_carried(const struct net_addr *a, struct net_addr ret[REACH_CARRIED_MAX])
{
	const uint8_t *const b = a->bytes;
	size_t n = 0;

	if (within(b, &nat64))
		carry(b + 12, 0, &ret[n++]);
	if (within(b, &six_to_four))
		carry(b + 2, 0, &ret[n++]);
	if (within(b, &teredo)) {
		carry(b + 4, 0, &ret[n++]);
		carry(b + 12, 0xff,
			&ret[n++]); /* the client, hidden from routers that look for it */
	} else if (is_isatap(b)) {
		carry(b + 12, 0, &ret[n++]);
	}
	return n;
}

bool reach_never(const struct net_addr *a)
{
	struct net_addr carried[REACH_CARRIED_MAX];

	if (net_addr_is4(a))
		return never_ip4(a->bytes + 12);
	if (within(a->bytes, &reserved6) && !within(a->bytes, &nat64))
		return true;
	for (size_t i = 0; i < sizeof never6 / sizeof *never6; i++) {
		if (within(a->bytes, &never6[i]))
			return true;
	}
	const size_t n = reach_carried(a, carried);
	for (size_t i = 0; i < n; i++) {
		if (never_ip4(carried[i].bytes + 12))
			return true;
	}
	return false;
}
