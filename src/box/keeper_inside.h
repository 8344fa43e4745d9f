/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BOX_KEEPER_INSIDE_H
#define BOX_KEEPER_INSIDE_H

#include "base/hash.h"
#include "box/box_log.h"
#include "box/box_state.h"
#include "box/channel.h"
#include "box/keeper.h"
#include "box/relay.h"
#include "vmm/qmp.h"

/*
 * The keeper's parts: keeper.c (life and end), keeper_machine.c (one attempt at a VM),
 * keeper_clients.c (the socket and who comes by it), keeper_freeze.c (making a template),
 * keeper_net.c (the network helper), keeper_pause.c, keeper_space.c, keeper_spare.c, keeper_lease.c
 * (who has the box).
 */
#define CONSOLE_TAIL 3072u /* bytes of console kept for an error */
/* From a claim to setup_done: a spare that takes longer is none, and the claimer does without. */
#define SPARE_CLAIM_MS 2000

enum keeper_state {
	KEEPER_BOOTING,
	KEEPER_READY,
	KEEPER_WAITING, /* a spare, paused: a claim makes it BOOTING again */
	KEEPER_STOPPING, /* the program may still take its grace, or the guest flushes its disk */
	KEEPER_ENDING /* the VM is gone; clients may still be owed output */
};

struct keeper;

/* One attempt at a VM. It dies as a whole and is freed when its last handle has closed. */
struct machine {
	struct keeper *k;
	struct vm vm;
	struct channel guest;
	struct qmp qmp;
	uv_poll_t exited;
	uv_poll_t console;
	uv_poll_t monitor;
	int handles; /* still open: the three above and the channel */
	bool ending;
	bool greeted;
	bool set_up;
	bool lost;
};

enum keeper_hold_state {
	HOLD_NONE, /* nothing is asked, or all is answered */
	HOLD_WAITS, /* for the one who has it */
	HOLD_GRANTED /* it has the box, and is told when the machine runs */
};

/* What a client wants of a box of a pool. Texts are escaped. */
struct keeper_hold {
	enum keeper_hold_state state;
	uint32_t stream; /* where the answer goes */
	uint64_t turn; /* who came first has the smaller one */
	uint64_t until_ns; /* the wait is over then */
	uint64_t idle_ms;
	uint64_t pause_ms;
	bool stop_when_idle;
	char holder[33];
	char label[65];
	char trace[129];
};

struct keeper_client {
	struct keeper *k;
	struct channel ch;
	struct relay_client *relay; /* NULL: it has left */
	struct keeper_hold hold;
	struct keeper_client *prev;
	struct keeper_client *next;
};

/* Why the box ends, and what is told about it. */
struct keeper_ending {
	enum wire_end_reason reason;
	uint32_t code;
	uint32_t flags;
	int errnum;
	char hint[256];
	char text[CONSOLE_TAIL * 2];
};

struct keeper_pausing {
	struct keeper_client *client; /* who asked; NULL: nobody, or it has left */
	uint32_t stream;
	bool busy;
	bool on;
};

/* A machine on its way to rest, see keeper_freeze.c. */
struct keeper_resting {
	uint64_t cpu_ns; /* that it had used at the last look */
	unsigned quiet; /* looks in a row without much use */
	unsigned looks;
};

/* What a spare is called until it is claimed, and stays behind of it afterwards. */
struct keeper_spare {
	bool is; /* it is, or was, one */
	char key[33];
	char id[33];
	uint64_t until_ms; /* its time is over then; clock_mono_ms */
};

/* Who has the box, see keeper_lease.c. Times are of CLOCK_BOOTTIME, UINT64_MAX: never. */
struct keeper_lease {
	bool timer_open;
	int timer_fd;
	uv_poll_t timer;
	struct keeper_client *holder; /* NULL: nobody, or only the lease */
	bool lasts; /* there is a lease */
	uint64_t until_ns; /* of the lease */
	uint64_t idle_ms; /* the last holder's wishes */
	uint64_t pause_ms;
	bool stop_when_idle;
	uint64_t idle_at_ns; /* of a box that is warm */
	uint64_t pause_at_ns;
	uint64_t next_turn;
	bool idle_end; /* that is why the box ends */
	char trace[129]; /* of the last hold */
};

/* The network of the machine that there is, see keeper_net.c. */
struct keeper_network {
	struct keeper_helper *helper; /* NULL: none lives */
	enum box_net state;
	bool tell; /* the guest has to be told of it before the box is ready */
	bool known; /* its agent knows of networks */
	bool told; /* it was */
	bool done; /* it has set its card up */
	bool ipv6;
	char search[200]; /* of the host */
	uint64_t refused_ms; /* until when events of refusals are spent; clock_mono_ms */
	uint64_t left_out; /* refusals that no event tells of yet */
};

struct keeper {
	const struct vm_engine *engine;
	struct keeper_spec spec;
	uv_loop_t loop;
	uv_poll_t owner;
	uv_poll_t listener;
	uv_signal_t term;
	uv_timer_t watchdog; /* of the boot, and of a lost guest's exit status */
	uv_timer_t stopper; /* of a grace, then of the guest's flush */
	uv_timer_t retry; /* of a write that found no space */
	int listen_fd;
	enum keeper_state state;
	bool flushing; /* while stopping: the guest was told to shut down */
	bool detached;
	bool orphaned; /* the owner pipe is closed */
	bool paused;
	bool waiting; /* for space on the host's disk */
	bool trying; /* while waiting: the machine runs, the write may fail again */
	struct keeper_pausing pausing;
	struct keeper_spare spare;
	struct keeper_lease lease;
	struct keeper_network net;
	struct keeper_resting resting;
	enum vm_origin origin; /* of the attempt that is under way, or was made last */
	unsigned attempts;
	struct machine *machine; /* the current one, or NULL */
	struct keeper_client *clients;
	unsigned n_clients;
	const struct keeper_client *maker; /* the first client; NULL: it has left */
	struct keeper_visitor *visitors; /* connected, have not said what they want */
	unsigned n_visitors;
	struct relay *relay;
	struct box_state record;
	struct box_log log;
	struct keeper_ending ending;
	char stage[64];
	char tail[CONSOLE_TAIL];
	size_t tail_len;
	uint64_t started_us;
	uint64_t vmm_us;
	uint64_t hello_us;
};

static inline struct wire_bytes bytes_of(const char *s)
{
	return (struct wire_bytes){.data = (const uint8_t *)s, .len = (uint32_t)strlen(s)};
}

/* keeper.c */
/* From now on the end of the pipe @fd, which is taken, is the end of the owner. 0 or -errno. */
int keeper_watch_owner(struct keeper *k, int fd);
void keeper_set_stage(struct keeper *k, const void *name, size_t len);
void keeper_record(struct keeper *k, enum box_phase phase);
void keeper_tell(struct keeper *k, const char *action, json_t *more);
/* The box is over, whatever still runs. */
void keeper_end(struct keeper *k, enum wire_end_reason reason, int errnum, const char *hint,
	const char *fmt, ...) __attribute__((format(__printf__, 5, 6)));
/* End it in order: the program gets @signo and @grace_ms, the disk is flushed. */
void keeper_stop(struct keeper *k, enum wire_end_reason reason, uint32_t signo, uint64_t grace_ms);
void keeper_kill(struct keeper *k, struct keeper_client *c, const struct wire_msg *msg);
/* The owner has closed its pipe, or the maker's connection has ended. */
void keeper_orphan(struct keeper *k);
void keeper_ready(struct keeper *k, struct machine *m);
/* The VM is gone by itself while commands could run. */
void keeper_vm_ended(struct keeper *k, int wait_status);
/* After something that a client was owed has gone. */
void keeper_settle(struct keeper *k);

/* keeper_machine.c */
void machine_start(struct keeper *k);
/* A jail as the record has it. */
void keeper_note_jail(struct box_jail *ret, const struct jail_state *jail);
/* Kill it and let its handles go; it frees itself later. Returns the wait status. */
int machine_end(struct machine *m);
void machine_lost_timeout(struct keeper *k);

/* Is it set up, and its network? Then the box is ready. */
void machine_ready_perhaps(struct machine *m);
/* Say hello to a guest that waits for one. Returns 0 or -errno. */
int machine_greet(struct machine *m);

/* keeper_clients.c */
int clients_listen(struct keeper *k);
void clients_unlisten(struct keeper *k);
/* Take over two lanes as a client. Returns 0 or -errno. */
int client_add(struct keeper *k, int control_fd, int bulk_fd);
void client_drop(struct keeper_client *c);
void clients_send(struct keeper *k, const struct wire_msg *msg);
void clients_drop_broken(struct keeper *k);
void client_send_ready(struct keeper_client *c);
void clients_resume(struct keeper *k, enum wire_lane lane);

/* keeper_freeze.c: only in a keeper that makes a template */
/* The machine is as far as it shall be: park it and save it; the keeper then ends. */
void freeze_begin(struct keeper *k, struct machine *m);
void freeze_failed(struct keeper *k, const char *why);
void freeze_event(struct keeper *k, const char *name, const json_t *data);
/* An attempt begins: with empty files. */
int freeze_reset(struct keeper *k);

/* keeper_spare.c */
/* The clone is set up: let it warm up and wait. */
void spare_begin(struct keeper *k, struct machine *m);
void spare_failed(struct keeper *k, const char *why);
/* Become the box whose specification is in @owner_fd. Takes the descriptors, also on failure, which
 * is the end of the spare. */
void spare_claim(struct keeper *k, int owner_fd, int control_fd, int bulk_fd);
/* Remove what lies among the spares. False where the box never was this one: it is let alone then,
 * or removed where nobody is responsible for it any more. */
bool spare_leave(struct keeper *k);

/* keeper_net.c */
/* Of what the guest is told at its start: the relay, which numbers from 1, has none yet. */
#define NET_STREAM UINT32_MAX
/* Start the helper of a box that has a network, and let go of the card's other end. What fails is
 * the end of the box. */
void net_start(struct keeper *k, struct machine *m);
/* The machine ends, and the helper with it. */
void net_end(struct keeper *k);
/* Whether the box has a network, be it up or lost. */
bool net_wanted(const struct keeper *k);
/* The setup is on its way to the guest: what comes now comes behind it. */
void net_greeted(struct keeper *k);
/* Ask the guest of a template to set its card up as most of its clones want it; @answer as in
 * relay_ask. */
int net_prepare(struct keeper *k, void (*answer)(void *user, const struct wire_msg *msg))
	__attribute__((warn_unused_result));
/* The guest says that its card is set up. False: nobody had asked. */
bool net_guest_done(struct keeper *k);
/* Nothing about the network is still to come before the box is ready. */
bool net_is_ready(const struct keeper *k);

/* keeper_pause.c */
void pause_ask(struct keeper *k, struct keeper_client *c, const struct wire_msg *msg);
/* The same as the keeper's own wish, where nothing of that kind is under way; lease_pause_over is
 * the answer. */
void pause_begin(struct keeper *k, bool on);
/* Let a paused VM run again, without waiting, on its way to its end. */
void pause_lift(struct keeper *k);
void pause_client_gone(struct keeper *k, const struct keeper_client *c);

/* keeper_lease.c */
/* What clients ask: 0, or a negative number where the client is to be dropped. */
int lease_hold(struct keeper *k, struct keeper_client *c, const struct wire_msg *msg);
int lease_unhold(struct keeper *k, struct keeper_client *c, const struct wire_msg *msg);
int lease_ask(struct keeper *k, struct keeper_client *c, const struct wire_msg *msg);
/* Its connection has ended. */
void lease_client_gone(struct keeper_client *c);
/* A pause, or the end of one, is done, or has failed with @failure. */
void lease_pause_over(struct keeper *k, const char *failure);
void lease_init(struct keeper *k);
/* The box is over: nobody has it. */
void lease_done(struct keeper *k);

/* keeper_space.c */
/* QEMU has stopped the machine, since the host could not write its disk. */
void space_lost(struct keeper *k);
/* The machine is about to go on, or to end. */
void space_over(struct keeper *k);

#endif
