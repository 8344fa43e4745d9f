/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VMM_JAIL_H
#define VMM_JAIL_H

#include <stdbool.h>

/*
 * Which layers of a jail this host offers to this user, found by trying, for `doctor`. Nothing in
 * the calling process changes. Any thread; takes a few milliseconds.
 */
enum jail_layer {
	JAIL_SECCOMP,
	JAIL_USER_NS,
	JAIL_LANDLOCK,
	JAIL_MOUNT_NS,
	JAIL_PID_NS,
	JAIL_NET_NS,
	JAIL_IPC_NS,
	JAIL_CGROUP,
	JAIL_LAYERS /* their number */
};

struct jail_finding {
	const char *name; /* static: "seccomp", "user namespace", ... */
	bool available;
	char reason[160]; /* one sentence: what was found */
};

struct jail_report {
	struct jail_finding layers[JAIL_LAYERS];
	/* What a box needs at least: seccomp, and a user namespace or Landlock. */
	bool sufficient;
};

void jail_probe(struct jail_report *ret);

#endif
