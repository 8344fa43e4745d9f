/* SPDX-License-Identifier: Apache-2.0 */
#include "provider/handoff.h"

#include <string.h>

#include "base/hash.h"
#include "base/banned.h"

struct handoff_entry {
	struct handoff_ask *holder; /* GRANTED or HELD; never NULL between two steps */
	struct handoff_ask *queue; /* WAITING, in the order of arrival */
	bool hash_oom;
	UT_hash_handle hh;
	size_t key_len;
	unsigned char key[];
};

static struct handoff_entry *add_entry(struct handoff *h, const void *key, size_t key_len)
{
	struct handoff_entry *e = mem_zalloc(sizeof *e + key_len);

	if (!e)
		return NULL;
	e->key_len = key_len;
	if (key_len > 0)
		memcpy(e->key, key, key_len);
	HASH_ADD_KEYPTR(hh, h->entries, e->key, e->key_len, e);
	if (e->hash_oom) {
		mem_free(e);
		return NULL;
	}
	return e;
}

static void end(struct handoff *h, struct handoff_ask *ask, enum handoff_state state)
{
	ask->state = state;
	ask->entry = state == HANDOFF_GRANTED ? ask->entry : NULL;
	h->over(ask, h->user);
}

/* The holder has gone: the next one has the key, or nobody knows it any more. */
static void hand_on(struct handoff *h, struct handoff_entry *e)
{
	struct handoff_ask *next = e->queue;

	e->holder = next;
	if (next) {
		DL_DELETE(e->queue, next);
		end(h, next, HANDOFF_GRANTED);
		return;
	}
	HASH_DELETE(hh, h->entries, e);
	mem_free(e);
}

int handoff_ask(struct handoff *h, const void *key, size_t key_len, struct handoff_ask *ask,
	holt_error **reterr)
{
	struct handoff_entry *e = NULL;

	if (h->closed)
		return err_make(reterr, HOLT_ECLOSED, "the serializer is closed");
	if (!key)
		key = "";
	HASH_FIND(hh, h->entries, key, key_len, e);
	if (e) {
		DL_APPEND(e->queue, ask);
		ask->state = HANDOFF_WAITING;
	} else {
		e = add_entry(h, key, key_len);
		if (!e)
			return err_nomem(reterr);
		e->holder = ask;
		ask->state = HANDOFF_GRANTED;
	}
	ask->entry = e;
	return 0;
}

int handoff_take(struct handoff *h, struct handoff_ask *ask, holt_error **reterr)
{
	(void)h;
	switch (ask->state) {
	case HANDOFF_GRANTED:
		ask->state = HANDOFF_HELD;
		return 0;
	case HANDOFF_WAITING:
		return -HOLT_ETIMEOUT;
	case HANDOFF_CANCELLED:
		return err_make(reterr, HOLT_ECANCELLED, "the wait for the key was cancelled");
	case HANDOFF_CLOSED:
		return err_make(reterr, HOLT_ECLOSED, "the serializer is closed");
	case HANDOFF_NEW:
	case HANDOFF_HELD:
	case HANDOFF_RELEASED:
		break;
	}
	return err_make(reterr, HOLT_EINVALID, "the key was taken already");
}

void handoff_cancel(struct handoff *h, struct handoff_ask *ask)
{
	struct handoff_entry *e = ask->entry;

	if (ask->state == HANDOFF_WAITING) {
		DL_DELETE(e->queue, ask);
		end(h, ask, HANDOFF_CANCELLED);
	} else if (ask->state == HANDOFF_GRANTED) {
		/* Its wait was over already. */
		ask->state = HANDOFF_CANCELLED;
		ask->entry = NULL;
		hand_on(h, e);
	}
}

int handoff_release(struct handoff *h, struct handoff_ask *ask, holt_error **reterr)
{
	struct handoff_entry *e = ask->entry;

	if (ask->state != HANDOFF_HELD || e->holder != ask)
		return err_make(reterr, HOLT_EINTERNAL, "the serializer's key is not held");
	ask->state = HANDOFF_RELEASED;
	ask->entry = NULL;
	hand_on(h, e);
	return 0;
}

void handoff_close(struct handoff *h)
{
	struct handoff_entry *e;
	struct handoff_entry *next;

	h->closed = true;
	HASH_ITER (hh, h->entries, e, next) {
		while (e->queue) {
			struct handoff_ask *ask = e->queue;

			DL_DELETE(e->queue, ask);
			end(h, ask, HANDOFF_CLOSED);
		}
	}
}

size_t handoff_count(const struct handoff *h)
{
	return HASH_COUNT(h->entries);
}
