/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BOX_BOX_STATE_H
#define BOX_BOX_STATE_H

#include "base/json.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * What a box is doing, or why its last run ended: one small JSON file ("state.json") in its
 * directory, replaced as a whole by the keeper. It alone does not tell that a keeper lives: that is
 * the lock's word. A reader that finds "running" and a free lock knows that the keeper was killed.
 *
 *   (none) -> starting -> running <-> paused -> stopping -> exited -> starting ...
 *
 * The numbers are those of enum holt_box_state and enum holt_end_reason in holt/box.h.
 */
#define BOX_STATE_FILE "state.json"

enum box_phase {
	BOX_CREATED,
	BOX_STARTING,
	BOX_RUNNING,
	BOX_PAUSED,
	BOX_STOPPING,
	BOX_EXITED,
	BOX_GONE
};

enum box_end {
	BOX_END_NONE,
	BOX_END_STOPPED,
	BOX_END_PROGRAM,
	BOX_END_KILLED,
	BOX_END_OOM,
	BOX_END_CRASHED,
	BOX_END_OWNER_GONE,
	BOX_END_LOST,
	BOX_END_BOOT_FAILED,
	BOX_END_GUEST_BROKE,
	BOX_END_HOST_FAILED,
	BOX_END_POWEROFF
};

/* The network of a box that runs; the others have none. */
enum box_net { BOX_NET_DOWN, BOX_NET_STARTING, BOX_NET_UP, BOX_NET_LOST };

/* Of a box of a pool, see box_lease.h. */
enum box_lease { BOX_LEASE_NONE, BOX_LEASE_HELD, BOX_LEASE_WARM };

/* What a process of the box is held by, or was last. */
struct box_jail {
	bool known; /* what follows is */
	bool reduced; /* less than required, as HOLT_JAIL=reduced allowed */
	uint32_t uid; /* on the host */
	char layers[192]; /* names, with blanks and commas between */
	char missing[512]; /* names with reasons; already escaped */
};

struct box_state {
	enum box_phase phase;
	enum box_end end; /* with BOX_EXITED */
	int exit_code;
	int keeper_pid; /* 0 where none lives */
	int vmm_pid;
	uint32_t attempts;
	uint64_t started_ns; /* since 1970 */
	uint64_t ended_ns;
	uint64_t hello_us;
	uint64_t ready_us;
	char accel[8];
	char origin[12]; /* of this run: "cold", "template", "bare" or "spare" */
	enum box_lease lease;
	uint64_t lease_ns; /* since when, since 1970; 0 without one */
	uint64_t lease_until_ns; /* of a lease that needs no process; 0 without one */
	char holder[33]; /* who has it, or had it last */
	char holder_label[65]; /* the same for humans; already escaped */
	enum box_net net;
	char net_ports[4096]; /* published ones as they are bound, with blanks between them */
	char net_text[160]; /* how it was lost, or what it lacks; already escaped */
	char note[256]; /* why it was not a clone although it should be; already escaped */
	struct box_jail jail; /* of QEMU */
	struct box_jail net_jail; /* of the network helper */
	char text[512]; /* what there is to say about the end; already escaped */
};

const char *box_phase_name(int phase);
const char *box_end_name(int end);
/* "" for none. */
const char *box_lease_name(int lease);
/* For those who look; NULL without memory. */
json_t *box_lease_json(const struct box_state *s);
const char *box_net_name(int net);
/* For those who look: "state", "ports" and "text" of the network; NULL without memory. */
json_t *box_net_json(const struct box_state *s);
/* There is none any more: the box does not run. */
void box_state_unnet(struct box_state *s);
/* The same of a jail. */
json_t *box_jail_json(const struct box_jail *jail);
/* Nobody has the box: it does not run. */
void box_state_unlease(struct box_state *s);
/* The reason that stands for a WIRE_END_ value. */
enum box_end box_end_of_wire(uint16_t reason);

/* Replace the file in the directory @dir: 0 or -errno. */
int box_state_write(int dir, const struct box_state *s) __attribute__((warn_unused_result));

/* The state of the box whose directory is @name in @boxes. Never waits for a keeper; what cannot be
 * read counts as lost. */
void box_state_look(int boxes, const char *name, struct box_state *ret);

#endif
