/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BOX_KEEPER_H
#define BOX_KEEPER_H

#include "base/err.h"
#include "base/net_link.h"
#include "vmm/vm.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * What the library and the keeper process agree on. The specification travels as JSON on the owner
 * pipe, never as arguments or environment; everything that is a file travels as a descriptor with a
 * fixed number. The write end of the owner pipe stays open in the owner: its end-of-file tells the
 * keeper that the owner is gone, unless a client has sent detach before.
 */
/* 3 has hold, park and lease, 4 a network in the specification. Everything else is as in 2, so
 * boxes that a program before it has started are still reached: only those three are refused there.
 */
#define KEEPER_PROTOCOL        4
#define KEEPER_PROTOCOL_OLDEST 2

enum keeper_fd {
	KEEPER_FD_OWNER =
		3, /* read: the specification (u32 length, JSON), then silence, then end */
	KEEPER_FD_CONTROL, /* the first client, as two lanes */
	KEEPER_FD_BULK,
	KEEPER_FD_KERNEL,
	KEEPER_FD_INITRD,
	KEEPER_FD_ROOTFS,
	KEEPER_FD_DISK,
	KEEPER_FD_VM_LOCK, /* locked; only QEMU keeps it */
	KEEPER_FD_KEEPER_LOCK, /* locked; only the keeper keeps it */
	KEEPER_FD_HOME, /* the home's directory: for its events, and to remove the box */
	KEEPER_FD_BOX, /* the box's directory: for its socket, state and log */
	KEEPER_FD_MEMORY, /* of a template: for writing where it is made, else for reading; or none
			   */
	KEEPER_FD_STATE, /* its devices, likewise */
	KEEPER_FD_END
};

enum keeper_role {
	KEEPER_BOX,
	KEEPER_TEMPLATE, /* boots a machine, lets it be saved, and ends */
	KEEPER_SPARE /* a clone that waits for a claim, which makes it a KEEPER_BOX */
};

/* In the home: spares/<key of the template>/<id>/ are the directories of spares. */
#define SPARES_DIR "spares"

/* Directories that a machine gets before it is frozen: paths as the wire has them, each with its
 * NUL, and whose they are. More than that are made in each box instead. */
struct keeper_directories {
	char owner[256];
	uint32_t n; /* 0: none */
	uint32_t len;
	char paths[2048];
};

struct keeper_spec {
	enum keeper_role role;
	/* With KEEPER_BOX: begin as a clone of the template in memory_fd and state_fd. With
	 * KEEPER_TEMPLATE: always so; memory and state are written there. */
	bool clone;
	bool bare; /* the template was, or shall be, frozen before it mounted its disk */
	/* Of the template: a clone that is not bare is refused unless the disk is the copy that was
	 * made for it and never used, see disk_origin.h. */
	char generation[33];
	struct keeper_directories directories; /* with KEEPER_TEMPLATE */
	char key[33]; /* of the template; with KEEPER_SPARE */
	uint64_t delay_ms; /* before the machine starts, so that it is not in anybody's way */
	uint64_t lifetime_ms; /* of a spare that nobody claims */
	char note[256]; /* why there is no clone; empty where nobody expects one */
	char id[33]; /* also the name of the box's directory */
	char name[65]; /* of the box, or empty: for events */
	bool kvm;
	bool run_with; /* of QEMU, see vmm/qemu_facts.h */
	bool jail_reduced; /* HOLT_JAIL=reduced where the box was started, see vmm/jail.h */
	bool keep; /* the box stays after its end; otherwise its directory goes */
	uint32_t memory_mib;
	uint32_t cpus;
	uint32_t tsc_khz;
	uint32_t stop_signal;
	uint64_t stop_grace_ms;
	uint64_t log_bytes;
	uint64_t disk_bytes;
	uint64_t boot_timeout_ms; /* of one attempt, from QEMU's start to the agent's setup_done */
	char hostname[65];
	uint8_t mac[6];
	struct net_spec network; /* lent to keeper_spec_write; keeper_spec_read makes one */
};

/* Write the specification to @fd, and read it back in the keeper. */
int keeper_spec_write(const struct keeper_spec *spec, int fd, holt_error **reterr);
int keeper_spec_read(int fd, struct keeper_spec *ret, holt_error **reterr);
/* Of what was read. */
void keeper_spec_done(struct keeper_spec *spec);

/* The keeper's life: boots the VM with one retry, serves clients, ends with the owner or as asked,
 * leaves a state file or removes the box's directory. Returns the process's exit status. Call it
 * first thing in main. */
int keeper_main(const struct vm_engine *engine);

/*
 * How a client comes to a keeper: it connects to the socket "sock" (SOCK_SEQPACKET) in the box's
 * directory, sends a
 * keeper_knock together with the far ends of two socket pairs (its control and bulk lanes), and
 * gets a keeper_answer. All little-endian by being on one machine.
 *
 * Who claims a spare sends a third descriptor: the read end of an owner pipe, in which the box's
 * specification waits already. From then on all is as after the start of a keeper. That is between
 * two of the same protocol only, as the specification is.
 */
#define KEEPER_SOCKET "sock"
#define KNOCK_FDS     3 /* at most: two lanes, and with a claim the owner's pipe */
#define KEEPER_MAGIC  0x4b4c4f48u /* "HOLK" */

struct keeper_knock {
	uint32_t magic;
	uint16_t version; /* the newest that the client speaks */
	uint16_t oldest;
};

enum keeper_verdict { KEEPER_WELCOME, KEEPER_WRONG_VERSION, KEEPER_FULL, KEEPER_NO_SPARE };

struct keeper_answer {
	uint32_t magic;
	uint16_t version; /* of the keeper */
	uint16_t verdict; /* enum keeper_verdict */
};

#endif
