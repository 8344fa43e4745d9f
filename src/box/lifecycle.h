/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BOX_LIFECYCLE_H
#define BOX_LIFECYCLE_H

#include "box/box_dir.h"
#include "box/box_exec.h"
#include "box/box_home.h"
#include "box/box_record.h"
#include "box/box_state.h"
#include "box/keeper.h"
#include "box/session.h"

/*
 * A box in the library: what its record says, and a connection to its keeper once one is needed.
 * box_create.c makes and removes boxes, lifecycle.c starts and connects, box_manage.c does all
 * else.
 *
 * Who ends what: a box that was started attached through a handle ends with it (ours); one that
 * is not kept and was made but not started through it goes with it (its locks are held until then).
 */
struct box_wish {
	uint32_t memory_mib;
	uint32_t cpus;
	uint64_t disk_bytes;
	const char *hostname; /* NULL: the id */
	const char *name; /* NULL: none */
	bool keep;
	uint64_t log_bytes;
	uint32_t stop_signal; /* 0: the image's */
	uint64_t stop_grace_ms;
	const struct process_wish *program; /* NULL: none */
	const struct process *program_limits; /* its time-out, terminal, replay and pids_max */
	const struct pool_record *pool; /* NULL: a box of no pool */
	struct net_spec network; /* checked; lent */
};

struct start_wish {
	bool detached;
	bool no_template;
	uint64_t boot_timeout_ms;
	uint64_t ready_ms; /* for a keeper that does not tell how its boots end; 0: as they take */
	const char *accel; /* NULL: auto */
	holt_cancel *cancel;
};

/* Sessions that have ended, whose execs may still be there. */
struct session_list {
	struct session *session;
	struct session_list *next;
};

struct holt_box {
	struct holt_home *home;
	struct box_record rec;
	struct box_dir dir; /* locked from creation to start, unless it is kept and of no pool */
	int unstarted; /* atomic: it is we who hold the locks, and nothing runs */
	int owner_fd; /* write end: the keeper ends the box when it closes */
	bool ours; /* started attached through this handle */
	bool furnished; /* since its last start: it began with the directories of its record */
	struct holt_job *refill; /* starts spares for those that this handle took; or NULL */
	pthread_mutex_t lock; /* of the sessions and of knocking */
	struct session *session; /* NULL: not connected */
	struct session_list *ended; /* earlier ones */
	char *json;
	char **ports; /* what box_ports told */
};

/* box_create.c */
int box_create(struct holt_home *home, const char *image, const struct box_wish *w,
	struct holt_box **ret, holt_error **reterr);
static inline void box_set_unstarted(struct holt_box *b)
{
	__atomic_store_n(&b->unstarted, b->dir.fd >= 0, __ATOMIC_SEQ_CST);
}
int box_handle(struct holt_home *home, struct holt_box **ret, holt_error **reterr);
/* Let a handle go, and end what depends on it. */
void box_close(struct holt_box *b);
/* Remove what dead processes left in the home. */
void box_sweep(struct holt_home *home);
/* Forget the box and remove its directory, whose locks are held. @name: for the event; may be NULL.
 */
int box_discard(struct holt_home *home, struct box_dir *d, const char *name, holt_error **reterr);
int box_check_name(const char *name, holt_error **reterr);
/* The name's holder is gone without having been forgotten: forget it. True if there was such. */
bool box_free_name(struct holt_home *home, const char *holder);

/* lifecycle.c */
int box_start(struct holt_box *b, const struct start_wish *w, struct holt_exec **ret_program,
	holt_error **reterr);
/* Let a box that was started attached through this handle live on without it. 0 also where it does
 * already. */
int box_detach(struct holt_box *b, holt_error **reterr);
/* Until the spares are started that this handle's starts were to replace. */
void box_await_refill(struct holt_box *b);
/* The borrowed session that this handle has with the keeper; NULL where there is none that lives.
 */
struct session *box_session(struct holt_box *b);
/* A borrowed session with the keeper, however far the box is; HOLT_ECLOSED where none lives. A
 * keeper that hangs is waited for at most @timeout_ms, or DOOR_WAIT_MS if that is less. */
int box_reach(struct holt_box *b, uint64_t timeout_ms, struct session **ret, holt_error **reterr);
/* The same of a box that takes commands; waits for one that is starting, at most 30 s. */
int box_connect(struct holt_box *b, uint64_t timeout_ms, struct session **ret, holt_error **reterr);
/* The same in at most @timeout_ms for either of both. */
int box_connect_within(struct holt_box *b, uint64_t timeout_ms, holt_cancel *cancel,
	struct session **ret, holt_error **reterr);

/* keeper_door.c: connect to the keeper of the box in @boxes, which is waited for at most
 * @timeout_ms, or end one that does not listen. */
#define DOOR_WAIT_MS 5000u
int door_knock(int boxes, const char *id, uint64_t timeout_ms, struct loop *loop,
	struct session **ret, holt_error **reterr);
int door_kill(int boxes, const char *id);
/* Claim the spare @id for the box of @spec. *ret_owner is then the owner's end of its pipe.
 * HOLT_EBUSY where somebody else has it already. */
int door_claim(int spares, const char *id, const struct keeper_spec *spec, struct loop *loop,
	struct session **ret, int *ret_owner, holt_error **reterr);

/* box_manage.c */
int box_get(struct holt_home *home, const char *ref, struct holt_box **ret, holt_error **reterr);
int box_list(struct holt_home *home, struct holt_box ***ret, size_t *ret_n, holt_error **reterr);
void box_list_free(struct holt_box **list, size_t n);
void box_look(struct holt_box *b, struct box_state *ret);
int box_json(struct holt_box *b, const char **ret, holt_error **reterr);
/* Published ports as they are bound, borrowed until the next call. */
int box_ports(struct holt_box *b, const char *const **ret, holt_error **reterr);
int box_stop(struct holt_box *b, uint64_t grace_ms, holt_error **reterr);
int box_kill(struct holt_box *b, uint32_t signo, holt_error **reterr);
int box_pause(struct holt_box *b, bool on, holt_error **reterr);
int box_wait(struct holt_box *b, uint64_t timeout_ms, holt_cancel *cancel, struct box_state *ret,
	holt_error **reterr);
int box_rename(struct holt_box *b, const char *name, holt_error **reterr);
int box_remove(struct holt_box *b, bool force, holt_error **reterr);
int box_ping(struct holt_box *b, uint64_t timeout_ms, uint64_t *ret_us, holt_error **reterr);
int box_stats(struct holt_box *b, struct wire_stats_reply *ret, uint64_t *ret_host_bytes,
	holt_error **reterr);

#endif
