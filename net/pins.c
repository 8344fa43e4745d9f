/* SPDX-License-Identifier: Apache-2.0 */
#include "net/pins.h"

#include <string.h>

#include "base/hash.h"
#include "base/str.h"
#include "base/banned.h"

struct pin_name {
	char *name;
	uint64_t until_ms;
};

struct pin {
	struct net_addr address;
	struct pin_name names[PIN_NAMES];
	bool hash_oom;
	UT_hash_handle hh; /* in the order of learning */
};

struct pins {
	struct pin *table;
};

static void pin_free(struct pins *ps, struct pin *p)
{
	HASH_DEL(ps->table, p);
	for (unsigned i = 0; i < PIN_NAMES; i++)
		mem_free(p->names[i].name);
	mem_free(p);
}

struct pins *pins_new(void)
{
	return mem_zalloc(sizeof(struct pins));
}

void pins_free(struct pins *ps)
{
	while (ps && ps->table)
		pin_free(ps, ps->table);
	mem_free(ps);
}

static struct pin *find(struct pins *ps, const struct net_addr *address)
{
	struct pin *p;

	HASH_FIND(hh, ps->table, address, sizeof *address, p);
	return p;
}

static bool expired(const struct pin *p, uint64_t now_ms)
{
	for (unsigned i = 0; i < PIN_NAMES; i++) {
		if (p->names[i].name && p->names[i].until_ms > now_ms)
			return false;
	}
	return true;
}

static void sweep(struct pins *ps, uint64_t now_ms)
{
	struct pin *p;
	struct pin *next;

	HASH_ITER (hh, ps->table, p, next) {
		if (expired(p, now_ms))
			pin_free(ps, p);
	}
}

static struct pin *pin_new(struct pins *ps, const struct net_addr *address, uint64_t now_ms)
{
	if (HASH_COUNT(ps->table) >= PINS_MAX)
		sweep(ps, now_ms);
	if (HASH_COUNT(ps->table) >= PINS_MAX)
		pin_free(ps, ps->table);
	struct pin *p = mem_zalloc(sizeof *p);
	if (!p)
		return NULL;
	p->address = *address;
	HASH_ADD(hh, ps->table, address, sizeof p->address, p);
	if (p->hash_oom) {
		mem_free(p);
		return NULL;
	}
	return p;
}

/* The place of @name: its own, or an empty one, or that of the name that ends first. */
static struct pin_name *place(struct pin *p, const char *name)
{
	struct pin_name *best = &p->names[0];

	for (unsigned i = 0; i < PIN_NAMES; i++) {
		struct pin_name *const n = &p->names[i];

		if (n->name && strcmp(n->name, name) == 0)
			return n;
		if (best->name && (!n->name || n->until_ms < best->until_ms))
			best = n;
	}
	return best;
}

bool pins_add(struct pins *ps, const struct net_addr *address, const char *name, uint32_t ttl_s,
	uint64_t now_ms)
{
	const uint64_t seconds = ttl_s < PIN_MIN_S   ? PIN_MIN_S
				 : ttl_s > PIN_MAX_S ? PIN_MAX_S
						     : ttl_s;
	struct pin *p = find(ps, address);

	if (!p)
		p = pin_new(ps, address, now_ms);
	if (!p)
		return false;
	struct pin_name *const n = place(p, name);
	const bool same = n->name && strcmp(n->name, name) == 0;
	if (!same) {
		char *copy = str_dup(name);

		if (!copy)
			return false;
		mem_free(n->name);
		n->name = copy;
		n->until_ms = 0;
	}
	if (now_ms + seconds * 1000 > n->until_ms)
		n->until_ms = now_ms + seconds * 1000;
	return true;
}

const char *pins_next(
	struct pins *ps, const struct net_addr *address, uint64_t now_ms, unsigned *at)
{
	const struct pin *const p = find(ps, address);

	while (p && *at < PIN_NAMES) {
		const struct pin_name *const n = &p->names[(*at)++];

		if (n->name && n->until_ms > now_ms)
			return n->name;
	}
	return NULL;
}

size_t pins_count(struct pins *ps, uint64_t now_ms)
{
	sweep(ps, now_ms);
	return HASH_COUNT(ps->table);
}
