/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROVIDER_HANDOFF_H
#define PROVIDER_HANDOFF_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

/*
 * The rules by which a key goes from holder to holder. No threads, no waiting, no I/O: each
 * function is one atomic step, and whoever has several threads calls them under one lock
 * (serialize.c).
 *
 *   table: key -> entry {holder, queue of those who wait}; an entry is there as long as anybody is
 * in it
 *
 *   ask:  WAITING --the holder releases--> GRANTED --take--> HELD --release--> RELEASED
 *            |                               '--cancel--> CANCELLED, and the next one is granted
 *            |--cancel--> CANCELLED
 *            '--close---> CLOSED             GRANTED and HELD are left alone by close
 *
 * A key that nobody has is granted at once. Only asking takes memory, so nothing else can fail.
 */
enum handoff_state {
	HANDOFF_NEW,
	HANDOFF_WAITING,
	HANDOFF_GRANTED,
	HANDOFF_HELD,
	HANDOFF_RELEASED,
	HANDOFF_CANCELLED,
	HANDOFF_CLOSED,
};

struct handoff_entry;

/* One who asks, in the caller's memory, until it is RELEASED, CANCELLED or CLOSED. */
struct handoff_ask {
	enum handoff_state state;
	struct handoff_entry *entry;
	struct handoff_ask *prev;
	struct handoff_ask *next;
};

struct handoff {
	struct handoff_entry *entries;
	bool closed;
	/* Called within a step for each ask whose wait ends by it; not where a key is granted by
	 * handoff_ask itself. It must not call a step. */
	void (*over)(struct handoff_ask *ask, void *user);
	void *user;
};

/* 0 (look at the state), -HOLT_ECLOSED, -HOLT_ENO_MEMORY. */
int handoff_ask(struct handoff *h, const void *key, size_t key_len, struct handoff_ask *ask,
	holt_error **reterr);
/* 0; -HOLT_ETIMEOUT (no error is set) where it is still waiting; -HOLT_ECANCELLED, -HOLT_ECLOSED;
 * -HOLT_EINVALID where it was taken before. */
int handoff_take(struct handoff *h, struct handoff_ask *ask, holt_error **reterr);
/* One that waits no longer waits, one that was granted and not taken lets the key go. */
void handoff_cancel(struct handoff *h, struct handoff_ask *ask);
/* -HOLT_EINTERNAL where it is not held. */
int handoff_release(struct handoff *h, struct handoff_ask *ask, holt_error **reterr);
void handoff_close(struct handoff *h);
/* Keys that are held or waited for. */
size_t handoff_count(const struct handoff *h);

#endif
