/* SPDX-License-Identifier: Apache-2.0 */
#include "net/refusals.h"

#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/banned.h"

#define TICK_MS 1000u

struct entry {
	struct {
		struct net_addr address;
		uint16_t port;
		char proto[6];
		char name[EGRESS_HOST_MAX + 1]; /* zeroes to its end */
	} key;
	uint32_t count; /* not told yet */
	uint64_t told_ms;
	bool told;
	bool hash_oom;
	UT_hash_handle hh; /* the oldest first */
};

struct refusals {
	struct entry *table;
	filter_refused_fn tell;
	void *user;
	unsigned told; /* in this minute */
	uint64_t minute_ms; /* when it began */
	uint64_t tick_ms;
};

struct refusals *refusals_new(filter_refused_fn tell, void *user)
{
	struct refusals *rs = mem_zalloc(sizeof *rs);

	if (rs) {
		rs->tell = tell;
		rs->user = user;
	}
	return rs;
}

static void entry_free(struct refusals *rs, struct entry *e)
{
	HASH_DEL(rs->table, e);
	mem_free(e);
}

void refusals_free(struct refusals *rs)
{
	while (rs && rs->table)
		entry_free(rs, rs->table);
	mem_free(rs);
}

static void tell(struct refusals *rs, struct entry *e, uint64_t now_ms)
{
	const struct refusal r = {.name = e->key.name,
		.address = e->key.address,
		.port = e->key.port,
		.proto = e->key.proto,
		.count = e->count};

	if (now_ms - rs->minute_ms >= REFUSALS_MINUTE_MS) {
		rs->minute_ms = now_ms;
		rs->told = 0;
	}
	if (rs->told >= REFUSALS_TOLD)
		return;
	rs->told++;
	e->told = true;
	e->told_ms = now_ms;
	e->count = 0;
	if (rs->tell)
		rs->tell(&r, rs->user);
}

static bool due(const struct entry *e, uint64_t now_ms)
{
	return !e->told || now_ms - e->told_ms >= REFUSALS_MINUTE_MS;
}

void refusals_tick(struct refusals *rs, uint64_t now_ms)
{
	struct entry *e;
	struct entry *next;

	if (now_ms - rs->tick_ms < TICK_MS)
		return;
	rs->tick_ms = now_ms;
	HASH_ITER (hh, rs->table, e, next) {
		if (!due(e, now_ms))
			continue;
		if (e->count > 0)
			tell(rs, e, now_ms);
		else
			entry_free(rs, e);
	}
}

static struct entry *entry_new(struct refusals *rs, const struct entry *with)
{
	if (HASH_COUNT(rs->table) >= REFUSALS_MAX)
		entry_free(rs, rs->table);
	struct entry *e = mem_dup(with, sizeof *with);
	if (!e)
		return NULL;
	HASH_ADD(hh, rs->table, key, sizeof e->key, e);
	if (e->hash_oom) {
		mem_free(e);
		return NULL;
	}
	return e;
}

void refusals_add(struct refusals *rs, const struct refusal *r, uint64_t now_ms)
{
	struct entry with;
	struct entry *e;

	memset(&with, 0, sizeof with);
	with.key.address = r->address;
	with.key.port = r->port;
	(void)snprintf(with.key.proto, sizeof with.key.proto, "%s", r->proto);
	(void)snprintf(with.key.name, sizeof with.key.name, "%s", r->name);
	HASH_FIND(hh, rs->table, &with.key, sizeof with.key, e);
	if (!e)
		e = entry_new(rs, &with);
	if (!e)
		return;
	if (e->count < UINT32_MAX)
		e->count++;
	if (due(e, now_ms))
		tell(rs, e, now_ms);
}
