/* SPDX-License-Identifier: Apache-2.0 */
#include "net/flows.h"

#include "base/hash.h"
#include "frame.h"
#include "base/banned.h"

/*
 * A table by key and a list by time of use. What has expired is found when it is asked for, and all
 * of it once in SWEEP_MS when a new flow begins.
 */

#define SWEEP_MS 1000u

struct flow {
	struct flow_key key;
	enum flow_way way;
	uint64_t until_ms;
	bool ended[2]; /* by a FIN, by who sent it: enum flow_way */
	bool over;
	bool answered; /* the other side sent something, too */
	bool hash_oom;
	UT_hash_handle hh;
	struct flow *prev, *next; /* most recently used last */
};

struct flows {
	struct flow *table;
	struct flow *used;
	size_t n;
	uint64_t sweep_ms;
};

_Static_assert(sizeof(struct flow_key) == 22, "holes in a key that is compared as memory");

static void flow_free(struct flows *fs, struct flow *f)
{
	HASH_DEL(fs->table, f);
	DL_DELETE(fs->used, f);
	mem_free(f);
	fs->n--;
}

static void sweep(struct flows *fs, uint64_t now_ms)
{
	struct flow *f;
	struct flow *next;

	DL_FOREACH_SAFE (fs->used, f, next) {
		if (f->until_ms <= now_ms)
			flow_free(fs, f);
	}
	fs->sweep_ms = now_ms;
}

struct flows *flows_new(void)
{
	return mem_zalloc(sizeof(struct flows));
}

void flows_free(struct flows *fs)
{
	while (fs && fs->used)
		flow_free(fs, fs->used);
	mem_free(fs);
}

static struct flow *find(struct flows *fs, const struct flow_key *key, uint64_t now_ms)
{
	struct flow *f;

	HASH_FIND(hh, fs->table, key, sizeof *key, f);
	if (f && f->until_ms <= now_ms) {
		flow_free(fs, f);
		f = NULL;
	}
	return f;
}

static void touch(struct flows *fs, struct flow *f, uint64_t now_ms)
{
	const uint64_t idle_ms = f->key.udp    ? FLOW_UDP_IDLE_MS
				 : f->answered ? FLOW_TCP_IDLE_MS
					       : FLOW_OPENING_MS;

	/* An end is not put off, or a stream of acknowledgements would keep it for ever. */
	if (!f->over)
		f->until_ms = now_ms + idle_ms;
	DL_DELETE(fs->used, f);
	DL_APPEND(fs->used, f);
}

static struct flow *flow_new(struct flows *fs, const struct flow_key *key)
{
	struct flow *f = mem_zalloc(sizeof *f);

	if (!f)
		return NULL;
	f->key = *key;
	HASH_ADD(hh, fs->table, key, sizeof f->key, f);
	if (f->hash_oom) {
		mem_free(f);
		return NULL;
	}
	DL_APPEND(fs->used, f);
	fs->n++;
	return f;
}

bool flows_add(struct flows *fs, const struct flow_key *key, enum flow_way way, uint64_t now_ms)
{
	struct flow *f = find(fs, key, now_ms);

	if (!f) {
		if (now_ms - fs->sweep_ms >= SWEEP_MS)
			sweep(fs, now_ms);
		if (fs->n >= FLOWS_MAX)
			flow_free(fs, fs->used);
		f = flow_new(fs, key);
	}
	if (!f)
		return false;
	f->way = way;
	f->over = f->answered = f->ended[FLOW_OUT] = f->ended[FLOW_IN] = false;
	touch(fs, f, now_ms);
	return true;
}

bool flows_use(struct flows *fs, const struct flow_key *key, enum flow_way from, uint8_t tcp_flags,
	uint64_t now_ms, enum flow_way *ret_way)
{
	struct flow *const f = find(fs, key, now_ms);

	if (!f)
		return false;
	f->answered |= from != f->way;
	touch(fs, f, now_ms);
	if (ret_way)
		*ret_way = f->way;
	if (!key->udp && (tcp_flags & FRAME_FIN))
		f->ended[from] = true;
	const bool ends = (!key->udp && (tcp_flags & FRAME_RST)) ||
			  (f->ended[FLOW_OUT] && f->ended[FLOW_IN]);
	if (ends && !f->over) {
		f->over = true;
		f->until_ms = now_ms + FLOW_ENDED_MS;
	}
	return true;
}

size_t flows_count(struct flows *fs, uint64_t now_ms)
{
	sweep(fs, now_ms);
	return fs->n;
}
