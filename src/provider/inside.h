/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROVIDER_INSIDE_H
#define PROVIDER_INSIDE_H

#include "base/cancel.h"
#include "base/hash.h"
#include "provider/core.h"
#include "provider/serialize.h"

/*
 * What the files of the provider share. Theory: provider.c.
 *
 * Locks: a hold of lease_turns, then one of the serializer (an id's), and a second one of that is
 * only ever tried; then one of the mutexes below, which are never taken together. Nothing blocks
 * and no callback runs under them; the serializer's own mutex comes after turns.lock.
 *
 *   provider.lock   the maps, the flags, the counters of calls
 *   turns.lock      the asynchronous turns (turns.c)
 */
#define FINGERPRINT_SIZE   65u
#define PROVIDER_LABEL_MAX 64u
#define PARKED_MAX         64u /* handles of warm boxes: a connection each */
#define NOTICES_MAX        48u /* of one call; an acquire looks at most ACQUIRE_ROUNDS times */
#define KEY_TEXT_SIZE      320u

/* A box that this provider has or had, and its sandbox. Counted: who works with it outside of the
 * provider's lock has a share. The last one lets it go. */
struct seat {
	struct holt_provider *p;
	unsigned refs; /* atomic */
	void *box;
	holt_sandbox *sandbox; /* NULL until it was needed first */
	uint64_t generation; /* no other seat has it */
	char instance[FINGERPRINT_SIZE]; /* of the box, once it was looked at */
};

/* active.c: what is active here, and handles of what we parked. */
struct active {
	char id[SANDBOX_ID_MAX + 1];
	struct scope_key key;
	char fingerprint[FINGERPRINT_SIZE];
	struct seat *seat;
	bool hash_oom;
	UT_hash_handle hh;
};

struct parked {
	char id[SANDBOX_ID_MAX + 1];
	struct seat *seat;
	int64_t since_ms; /* on the provider's clock */
	bool hash_oom;
	UT_hash_handle hh; /* in the order of parking */
};

/* What happened during a call; told when it holds nothing any more. */
struct notices {
	struct holt_provider *p;
	unsigned n;
	struct {
		int kind;
		const char *reason; /* static */
		char id[SANDBOX_ID_MAX + 1];
	} list[NOTICES_MAX];
};

/* One who waits for an id without a thread, until then or until the deadline: turns.c. */
struct turn {
	struct holt_provider *p;
	struct holt_waiter *waiter;
	uint64_t deadline_ms; /* clock_mono_ms */
	holt_cancel *cancel; /* or NULL */
	struct cancel_waiter link;
	int state;
	int given_up; /* code */
	/* On a thread of the serializer, once: with the hold, or without and a negative code. */
	void (*body)(struct turn *t, struct holt_hold *hold, int why);
	void (*freed)(struct turn *t);
	struct turn *prev;
	struct turn *next;
};

struct turns {
	pthread_mutex_t lock;
	pthread_cond_t change;
	pthread_t thread;
	bool started;
	bool ending;
	unsigned n;
	struct turn *list;
};

struct bell; /* seat.c: what sandboxes tell their provider, as long as there is one */
struct lease_owner; /* lease.c */
struct lease_group;

struct provider_counts {
	uint64_t created, reclaimed, reused, released, evicted, expired, unhealthy, invalidated,
		collisions, overshot; /* atomic */
};

struct holt_provider {
	const holt_pool *pool;
	void *self;
	struct provider_config config;
	void (*event)(const holt_provider_event *event, void *user);
	void *user;
	int64_t (*now_ms)(void);
	struct { /* how its sandboxes are opened; NULL: the defaults */
		char *user;
		char *cwd;
		char *user_data;
		uint32_t flags;
	} sandbox;
	char *directories[5]; /* in each of them, NULL-terminated */
	char prefix[BOX_NAME_MAX]; /* of the names of its pool */
	char instance[17];
	char label[PROVIDER_LABEL_MAX];
	struct holt_serializer *serializer; /* keys are ids */
	struct holt_serializer *alone; /* of ids that nobody derives; open until the shutdown */
	struct holt_serializer *lease_turns; /* keys are whole scopes */
	struct holt_job *preparing; /* or NULL */
	holt_cancel *closing; /* triggered by a shutdown */
	struct bell *bell;
	struct turns turns;

	pthread_mutex_t lock; /* of what follows */
	pthread_cond_t change; /* a call has ended, or the reaper */
	struct active *active;
	struct parked *parked;
	struct lease_owner *owners;
	struct lease_group *groups;
	uint64_t generations;
	unsigned n_acquiring;
	unsigned n_releasing;
	bool reset;
	bool shut;
	bool shut_done;
	bool shutting; /* one thread does it */
	struct {
		pthread_t thread;
		bool started;
		bool stop;
		bool ended;
		uint64_t interval_ms;
	} reaper;
	struct provider_counts counts;
};

#define count_up(field) ((void)__atomic_add_fetch(&(field), 1, __ATOMIC_RELAXED))

/* provider.c */
holt_pool_holder provider_holder(const struct holt_provider *p);
holt_pool_shape provider_shape(const struct holt_provider *p);
/* "acquire" and the like: false where the provider takes no more of them. */
int provider_enter(struct holt_provider *p, bool has_thread, holt_error **reterr);
void provider_leave(struct holt_provider *p);
int provider_refuse(const struct holt_provider *p, holt_error **reterr);

/* seat.c. seat_new takes @box over, also where it fails. */
int seat_new(struct holt_provider *p, void *box, struct seat **ret, holt_error **reterr);
int seat_find(struct holt_provider *p, const char *name, struct seat **ret, holt_error **reterr);
struct seat *seat_ref(struct seat *s);
void seat_unref(struct seat *s);
bool seat_is_open(const struct seat *s);
/* Make its sandbox, unless there is one that is open. */
int seat_open(struct seat *s, const char *id, holt_error **reterr);
void seat_close(struct seat *s);
/* pool->look, for who has the seat for itself. */
int seat_look(struct seat *s, holt_pool_entry *ret, holt_error **reterr);
/* Hold a box that is free, without waiting: 0, or what the pool says, -HOLT_EBUSY where somebody
 * has it. 1: it is free, but what has to answer for it does not, so nobody can ever have it. With
 * @left what looks as if it was active here is free, too: it could not be parked. */
int seat_take(struct seat *s, bool left, holt_error **reterr);
static inline void seat_unrefp(struct seat **s)
{
	seat_unref(*s);
}
#define auto_seat __attribute__((cleanup(seat_unrefp))) struct seat *

int bell_new(struct holt_provider *p, struct bell **ret, holt_error **reterr);
/* No sandbox tells @p anything from now on; waits for those that do. */
void bell_mute(struct bell *b);

/* active.c */
enum active_found { ACTIVE_NONE, ACTIVE_SAME, ACTIVE_OTHER };
/* The seat has one more share. @text (KEY_TEXT_SIZE) names whose it is where that is another's. */
enum active_found active_find(struct holt_provider *p, const char *id, const struct scope_key *key,
	struct seat **ret, char fingerprint[FINGERPRINT_SIZE], char *text);
/* Takes a share of @seat. -HOLT_ECLOSED after a shutdown. */
int active_add(struct holt_provider *p, const char *id, const struct scope_key *key,
	const char *fingerprint, struct seat *seat, holt_error **reterr);
/* Its share, or NULL. @generation 0: whichever it is. */
struct seat *active_take(struct holt_provider *p, const char *id, uint64_t generation);
/* One of all; @id gets whose. */
struct seat *active_take_any(struct holt_provider *p, char id[SANDBOX_ID_MAX + 1]);
/* Takes over the caller's share. */
void parked_add(struct holt_provider *p, const char *id, struct seat *seat);
struct seat *parked_take(
	struct holt_provider *p, const char *id, uint64_t generation, int64_t *ret_since_ms);
/* Let go of the handles of what is not in @living; NULL: of all. */
struct stock;
void parked_sweep(struct holt_provider *p, const struct stock *living);

/* notice.c */
void notice_add(struct notices *n, int kind, const char *id, const char *reason);
void notices_send(struct notices *n);

/* stock.c: copies of what a listing of the pool tells. */
struct stock_entry {
	char name[BOX_NAME_MAX];
	char instance[FINGERPRINT_SIZE];
	char holder[FINGERPRINT_SIZE];
	int state;
	bool known;
	bool leased;
	int64_t since_ms;
};
struct stock {
	const struct holt_provider *p;
	struct stock_entry *list;
	size_t n;
	size_t cap;
	size_t living; /* active, warm, or being made */
	bool failed;
};
int stock_take(struct holt_provider *p, struct stock *ret, holt_error **reterr);
void stock_done(struct stock *s);
/* The id of a box of this pool, or NULL. */
const char *stock_id(const struct holt_provider *p, const char *name);

/* capacity.c */
struct acquiring;
/* Make room and, with @wish, the box, which is counted before anyone else counts. 0, or
 * -HOLT_EEXISTS where somebody was faster. */
int capacity_make(
	struct acquiring *a, const holt_pool_wish *wish, void **ret_box, holt_error **reterr);

/* health.c: 0: it lives; 1: it does not; negative: nobody knows. */
int health_check(struct acquiring *a, struct seat *seat, holt_error **reterr);

/* acquire.c */
#define ACQUIRE_ROUNDS 12u
struct acquiring {
	struct holt_provider *p;
	const struct scope_key *key;
	char id[SANDBOX_ID_MAX + 1];
	char name[BOX_NAME_MAX];
	char fingerprint[FINGERPRINT_SIZE]; /* of what would be made now; "" before it was asked for
					     */
	uint64_t deadline_ms; /* clock_mono_ms */
	uint64_t lease_ms;
	char met[FINGERPRINT_SIZE]; /* the instance that was met last */
	bool same; /* it was the same one the time before */
	unsigned lost; /* boxes that ended while they were started */
	bool fetched; /* the image was asked for */
	struct cancel_join stop; /* the caller's token, and the end of the provider */
	struct notices notices;
};
/* An acquire that was entered: its key and its cancel token stay the caller's until the end. */
void acquiring_begin(struct acquiring *a, struct holt_provider *p, const struct scope_key *key,
	const char *id, uint64_t deadline_ms, holt_cancel *cancel, uint64_t lease_ms);
/* With the id's hold, if the key has a thread. a->id is what was acquired. */
int acquiring_run(struct acquiring *a, holt_error **reterr);
/* As provider_acquire, but what happened goes into @told. */
int acquire_quietly(struct holt_provider *p, const struct acquire_wish *w, struct notices *told,
	char ret[SANDBOX_ID_MAX + 1], holt_error **reterr);
/* Tells what has happened, and leaves. */
int acquiring_end(struct acquiring *a, int r, holt_error **reterr);
uint64_t acquire_deadline(const struct holt_provider *p, uint64_t timeout_ms);
uint64_t acquire_left(const struct acquiring *a);

/* release.c: end or park what a seat holds; neither lets the share go. */
int seat_destroy(
	struct seat *s, const char *id, const char *reason, struct notices *n, holt_error **reterr);
/* Only of what is stopped: -HOLT_EBUSY where somebody has started it. */
int seat_discard(
	struct seat *s, const char *id, const char *reason, struct notices *n, holt_error **reterr);
/* Whether it is there, and warm or leased. */
bool seat_park(struct seat *s, const char *id);
int release_quietly(
	struct holt_provider *p, const char *id, struct notices *n, holt_error **reterr);
void provider_invalidate(struct holt_provider *p, const char *id, uint64_t generation);

/* turns.c */
void turns_init(struct turns *ts);
void turns_done(struct holt_provider *p);
/* A turn of @id in @s; -HOLT_ECLOSED where that is closed. Until then @t is the caller's. */
int turn_start(struct turn *t, struct holt_serializer *s, const char *id, holt_error **reterr);
/* End its wait, if it still waits. */
void turn_give_up(struct turn *t, int code);

/* reaper.c */
int reaper_start(struct holt_provider *p, holt_error **reterr);
int reaper_stop(struct holt_provider *p, uint64_t timeout_ms, holt_error **reterr);
void reaper_pass(struct holt_provider *p);

/* lease.c */
void leases_done(struct holt_provider *p);

#endif
