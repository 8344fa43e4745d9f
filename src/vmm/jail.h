/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VMM_JAIL_H
#define VMM_JAIL_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

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

/*
 * The jail itself. Prepared in the parent, where it can fail with a message; entered in the child
 * between fork and exec by the hook of proc.h, in async-signal-safe steps only.
 *
 * What is required (QEMU): seccomp, no_new_privs, files only as descriptors, resource limits, and a
 * user namespace or Landlock; of root's network helper, instead of these two, a user and a root
 * directory of its own. All else is taken where the host has it. HOLT_JAIL=reduced, and only
 * that, starts without; it is in the log, the record and `inspect`.
 * As root the process gets a user id of its own, which no file belongs to.
 */
enum jail_kind {
	JAIL_OF_VMM, /* no network at all; what QEMU loads is readable until it chroots */
	JAIL_OF_NET /* the host's network, no files; may bind low ports if its user may, and as
		     * root then has no user namespace; its filter is its own */
};

struct jail_spec {
	enum jail_kind kind;
	const char *program; /* absolute: what is run */
	const char *box_id; /* as root the user id is derived from it */
	bool reduced; /* what is required may be missing: HOLT_JAIL=reduced */
	/* An object that the program is to load, and the path by which it does (LD_PRELOAD):
	 * "/proc/self/fd/N" with the number that it has there. FD_NONE, NULL: none. */
	int preload_fd;
	const char *preload_path;
};

struct jail; /* prepared; owns descriptors and the plan of the child */

/* What is on, for the record: the layers by name, those missing with their reason. */
struct jail_state {
	uint32_t on; /* bits 1 << enum jail_layer; 0 where there is no jail at all */
	bool reduced; /* less than required, as HOLT_JAIL=reduced allowed */
	uint32_t uid; /* of the process on the host */
	char missing[512]; /* "cgroup (no version 2 hierarchy), ..."; may be empty */
};

/* The name of a layer, as in a jail_finding. */
const char *jail_layer_name(enum jail_layer layer);

/* What HOLT_JAIL in the environment says: unset or "full", or "reduced"; HOLT_EINVALID for all
 * else. For the library: a keeper is told. */
int jail_wish(bool *ret_reduced, holt_error **reterr);

/* Tries the jail as a whole in a child that ends at once; where that fails, without the layer that
 * failed, until it works. Takes a few milliseconds. HOLT_EUNSUPPORTED with the layers that are
 * missing and why, where the required ones cannot be had. */
int jail_prepare(const struct jail_spec *spec, struct jail **ret, holt_error **reterr);
/* Set what @proc needs to start inside: path, flags, namespaces, the hook. A layer that fails now
 * fails the start. @jail lives until proc_spawn has returned. */
struct proc_spec;
void jail_apply(struct jail *jail, struct proc_spec *proc);
/* An empty directory that the program can chroot to when all is loaded, as it sees it; NULL where
 * it must not or cannot. */
const char *jail_empty_dir(const struct jail *jail);
void jail_state_get(const struct jail *jail, struct jail_state *ret);
void jail_free(struct jail *jail);
#define auto_jail __attribute__((cleanup(jail_freep))) struct jail *
static inline void jail_freep(struct jail **p)
{
	jail_free(*p);
}

/* The keeper after its machine is up: gives up the privileges, paths and system calls that it has
 * no more use for, but all paths beneath the directory @home. Nothing can be started afterwards.
 * Cannot be undone. 0, or -errno where a step that the host offers failed. */
int jail_self(int home);

/*
 * What a test of attacks takes away, to see that each layer holds by itself: names of layers,
 * separated by commas or blanks. Programs that ship have "nothing" (jail_weakness.c). A test links
 * its own keeper with a function of this name, which the linker then takes instead of that file
 * (tests/weak). Names: userns, mountns, pidns, netns, ipcns, landlock, filter (ours), sandbox
 * (QEMU's own), chroot, uid, limits, nonewprivs, shim. Without "nonewprivs" filter and landlock go
 * too where the kernel asks for it; "shim" needs mountns, uid and landlock taken away besides,
 * since QEMU then opens its files by path. What is required may be taken away.
 */
const char *jail_weakness(void);

#endif
