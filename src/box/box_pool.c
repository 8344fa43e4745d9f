/* SPDX-License-Identifier: Apache-2.0 */
#include "box/box_pool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/fsutil.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "box/call_bounds.h"
#include "box/image_want.h"
#include "box/network_wish.h"
#include "box/pool_box.h"
#include "box/pool_entry.h"
#include "box/pool_shape.h"
#include "base/banned.h"

/*
 * The pool as a whole: shapes, the lock, the list, finding and making. What is done with one box is
 * in pool_box.c.
 *
 * Nothing is remembered here: the index has the names, each box's record whose it is, its keeper's
 * state.json who has it. So any number of processes see the same pool.
 */

#define LOCK_POLL_NS  2000000
#define POOL_NAME_MAX 40u

struct pool {
	struct holt_home *home;
};

struct pool_lock {
	int fd;
};

static int in_stage(int r, const char *object, holt_error **reterr)
{
	if (r < 0) {
		err_stage(reterr, "pool");
		err_object(reterr, object);
	}
	return r;
}

/* ---- shapes ---- */

static int pool_fingerprint(
	void *self, const holt_pool_shape *shape, char ret[65], holt_error **reterr)
{
	const struct pool *p = self;
	holt_pool_shape s = {0};
	int r = pool_shape_check(shape, &s, reterr);

	if (r == 0)
		r = pool_shape_digest(p->home, &s, ret, reterr);
	return in_stage(r, shape->image, reterr);
}

static int pool_fetch(void *self, const holt_pool_shape *shape, int32_t pull, const holt_call *call,
	holt_error **reterr)
{
	const struct pool *p = self;
	const struct image_wish wish = {
		.policy = pull, .timeout_ms = call->timeout_ms, .cancel = call->cancel};
	struct image *img = NULL;
	bool changed = false;
	int r = shape->image ? 0 : err_make(reterr, HOLT_EINVALID, "the pool has no image");

	if (r == 0)
		r = image_want(p->home, shape->image, &wish, &img, &changed, reterr);
	image_free(img);
	return in_stage(r, shape->image, reterr);
}

static int pool_prepare(void *self, const holt_pool_wish *wish, uint32_t spares,
	const holt_call *call, holt_error **reterr)
{
	const struct pool *p = self;
	holt_pool_shape s = {0};
	int r = pool_shape_check(wish->shape, &s, reterr);

	if (r == 0)
		r = pool_shape_prepare(p->home, &s, wish, spares, call, reterr);
	return in_stage(r, wish->shape->image, reterr);
}

/* ---- one at a time ---- */

/* Each call opens the file anew, so that threads exclude each other, too. The file stays. */
static int take_lock(
	struct pool *p, const char *name, const holt_call *call, int *ret_fd, holt_error **reterr)
{
	const struct call_bounds bounds = call_bounds_of(call);
	const struct timespec pause = {.tv_nsec = LOCK_POLL_NS};

	for (;;) {
		const int fd = fs_open_lock(p->home->fd, name, false);

		if (fd >= 0) {
			*ret_fd = fd;
			return 0;
		}
		if (fd != -EWOULDBLOCK)
			return err_errno(reterr, -fd, "cannot lock the pool");
		const int r = call_bounds_check(&bounds, reterr);
		if (r < 0)
			return r;
		(void)nanosleep(&pause, NULL);
	}
}

static int pool_lock(
	void *self, const char *pool, const holt_call *call, void **ret_lock, holt_error **reterr)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789_.-";
	const size_t len = strlen(pool);
	char name[POOL_NAME_MAX + 16];

	if (len == 0 || len > POOL_NAME_MAX || strspn(pool, letters) != len)
		return in_stage(err_make(reterr, HOLT_EINVALID, "no pool can have this name"), pool,
			reterr);
	(void)snprintf(name, sizeof name, "pool-%s.lock", pool);
	struct pool_lock *l = mem_zalloc(sizeof *l);
	const int r = l ? take_lock(self, name, call, &l->fd, reterr) : err_nomem(reterr);
	if (r < 0) {
		mem_free(l);
		return in_stage(r, pool, reterr);
	}
	*ret_lock = l;
	return 0;
}

static void pool_unlock(void *self, void *lock)
{
	struct pool_lock *l = lock;

	(void)self;
	if (!l)
		return;
	(void)fd_close(l->fd);
	mem_free(l);
}

/* ---- listing ---- */

/* What the index says about the box's pool; a box that has nothing of it is nobody's. */
static int parse_pool(
	const struct box_entry *e, struct pool_record *ret, bool *ret_pooled, holt_error **reterr)
{
	auto_json doc = NULL;
	auto_error error = NULL;

	*ret_pooled = false;
	if (!e->record)
		return 0;
	int r = json_parse(e->record, strlen(e->record), strlen(e->record), "pool's part of a box",
		&doc, &error);
	if (r == 0)
		r = pool_record_parse(doc, ret, &error);
	if (r == -HOLT_ENO_MEMORY)
		return err_take(reterr, take_ptr(error));
	if (r < 0)
		log_warn("pool", "box %s is nobody's: %s", e->id, holt_error_message(error));
	*ret_pooled = r == 0;
	return 0;
}

static int list_one(struct pool *p, const struct box_index_pool *e, holt_pool_entry_fn fn,
	void *user, holt_error **reterr)
{
	struct pool_record pool = {0};
	struct box_state state;
	holt_pool_entry entry;
	bool pooled = false;

	box_state_look(p->home->boxes_fd, e->entry.id, &state);
	if (state.phase == BOX_GONE) {
		/* Its keeper removed it, and knows no index. */
		(void)box_free_name(p->home, e->entry.id);
		return 0;
	}
	int r = parse_pool(&e->entry, &pool, &pooled, reterr);
	if (r == 0) {
		const struct pool_facts facts = {.id = e->entry.id,
			.name = e->entry.name,
			.created_ns = e->created_ns,
			.pool = pooled ? &pool : NULL};

		pool_entry_fill(&state, &facts, &entry);
		if (fn(&entry, user) != 0)
			r = err_make(reterr, HOLT_ECANCELLED, "the caller wants no more entries");
	}
	pool_record_done(&pool);
	return r;
}

static int pool_list(
	void *self, const char *prefix, holt_pool_entry_fn entry, void *user, holt_error **reterr)
{
	struct pool *p = self;
	struct box_index_pool *list = NULL;
	size_t n = 0;
	int r = box_index_list_pool(p->home->boxes, prefix, &list, &n, reterr);

	for (size_t i = 0; i < n; i++) {
		if (r == 0)
			r = list_one(p, &list[i], entry, user, reterr);
		box_entry_done(&list[i].entry);
	}
	mem_free(list);
	return in_stage(r, prefix, reterr);
}

/* ---- finding and making ---- */

/* A name only: not an id, or the beginning of one. */
static int find(struct pool *p, const char *name, struct holt_box **ret, holt_error **reterr)
{
	struct holt_box *b = NULL;
	int r = box_get(p->home, name, &b, reterr);

	if (r < 0)
		return r;
	if (b->rec.name && strcmp(b->rec.name, name) == 0 &&
		faccessat(p->home->boxes_fd, b->rec.id, F_OK, AT_SYMLINK_NOFOLLOW) == 0) {
		*ret = b;
		return 0;
	}
	box_close(b);
	return err_make(reterr, HOLT_ENOT_FOUND, "no box is called '%s'", name);
}

static int pool_find(void *self, const char *name, void **ret_box, holt_error **reterr)
{
	struct holt_box *b = NULL;
	struct pool_box *box = NULL;
	int r = find(self, name, &b, reterr);

	if (r == 0)
		r = pool_box_new(b, false, &box, reterr);
	if (r == 0)
		*ret_box = box;
	return in_stage(r, name, reterr);
}

/* What is stored; borrows from @w. The list of directories is the caller's, which copies. */
static struct pool_record record_of(const holt_pool_wish *w, const char *accel)
{
	union {
		const char *in;
		char *out;
	} user = {.in = w->user}, thread = {.in = w->thread}, fingerprint = {.in = w->fingerprint},
	  how = {.in = accel}, owner = {.in = w->owner};
	union {
		const char *const *in;
		char **out;
	} directories = {.in = w->directories};

	return (struct pool_record){.user = user.out,
		.user_len = w->user ? w->user_len : 0,
		.thread = thread.out,
		.thread_len = w->thread ? w->thread_len : 0,
		.fingerprint = fingerprint.out,
		.accel = how.out,
		.directories = directories.out,
		.owner = owner.out};
}

static int pool_create(void *self, const char *name, const holt_pool_wish *wish, void **ret_box,
	holt_error **reterr)
{
	const struct pool *p = self;
	holt_pool_shape s = {0};
	struct holt_box *b = NULL;
	struct pool_box *box = NULL;
	int r = pool_shape_check(wish->shape, &s, reterr);

	if (r == 0) {
		const struct pool_record record = record_of(wish, s.accel);
		struct box_wish w = {.memory_mib = s.memory_mib,
			.cpus = s.cpus,
			.disk_bytes = s.disk_bytes,
			.name = name,
			.keep = wish->keep,
			.log_bytes = HOLT_LOG_BYTES_DEFAULT,
			.stop_grace_ms = HOLT_STOP_GRACE_MS_DEFAULT,
			.pool = &record};

		r = network_wish_read(s.network, s.allow, NULL, &w.network, reterr);
		if (r == 0)
			r = box_create(p->home, s.image, &w, &b, reterr);
	}
	if (r == 0)
		r = pool_box_new(b, true, &box, reterr);
	if (r == 0)
		*ret_box = box;
	return in_stage(r, name, reterr);
}

/* ---- the table ---- */

static void pool_close(void *self)
{
	mem_free(self);
}

int box_pool_new(struct holt_home *home, void **ret, holt_error **reterr)
{
	struct pool *p = mem_zalloc(sizeof *p);

	if (!p)
		return err_nomem(reterr);
	p->home = home;
	*ret = p;
	return 0;
}

const holt_pool box_pool = {
	.name = "box",
	.fingerprint = pool_fingerprint,
	.fetch = pool_fetch,
	.prepare = pool_prepare,
	.lock = pool_lock,
	.unlock = pool_unlock,
	.list = pool_list,
	.find = pool_find,
	.look = pool_box_look,
	.create = pool_create,
	.start = pool_box_start,
	.hold = pool_box_hold,
	.park = pool_box_park,
	.lease = pool_box_lease,
	.prove = pool_box_prove,
	.open = pool_box_open,
	.destroy = pool_box_destroy,
	.discard = pool_box_discard,
	.drop = pool_box_drop,
	.close = pool_close,
};
