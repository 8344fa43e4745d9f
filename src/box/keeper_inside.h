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
 * keeper_pause.c, keeper_space.c, keeper_spare.c.
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
	bool lost;
};

struct keeper_client {
	struct keeper *k;
	struct channel ch;
	struct relay_client *relay; /* NULL: it has left */
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
/* Kill it and let its handles go; it frees itself later. Returns the wait status. */
int machine_end(struct machine *m);
void machine_lost_timeout(struct keeper *k);

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

/* keeper_pause.c */
void pause_ask(struct keeper *k, struct keeper_client *c, const struct wire_msg *msg);
/* Let a paused VM run again, without waiting, on its way to its end. */
void pause_lift(struct keeper *k);
void pause_client_gone(struct keeper *k, const struct keeper_client *c);

/* keeper_space.c */
/* QEMU has stopped the machine, since the host could not write its disk. */
void space_lost(struct keeper *k);
/* The machine is about to go on, or to end. */
void space_over(struct keeper *k);

#endif
