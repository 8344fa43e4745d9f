/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VMM_JAIL_INSIDE_H
#define VMM_JAIL_INSIDE_H

#include "vmm/jail.h"

#include <linux/filter.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The jail's parts: jail_prepare.c (the plan, and trying it), jail_enter.c (what the child does),
 * jail_paths.c (what is loaded), jail_landlock.c, jail_filter.c, jail_self.c (the keeper's own),
 * jail.c (for doctor).
 */
#define JAIL_PATHS_MAX 24 /* the list of jail_paths.c, and five of the program */
#define JAIL_EMPTY_DIR "/empty"
/* Descriptors for the child lie above all numbers that proc.c gives it. */
#define JAIL_FD_SAFE 24

/* The steps of the child, by which a failure is known; see jail_step_layer. */
#define JAIL_STEP_USER     "own user"
#define JAIL_STEP_USERNS   "user namespace"
#define JAIL_STEP_MOUNT    "mount namespace"
#define JAIL_STEP_LIMITS   "limits"
#define JAIL_STEP_LANDLOCK "landlock"
#define JAIL_STEP_CAPS     "capabilities"
#define JAIL_STEP_FILTER   "seccomp"

/* One name in the new root: a file or directory of the host, or a symbolic link. */
struct jail_path {
	char *path; /* absolute */
	char *target; /* of a link; NULL: it is mounted */
	bool dir;
};

struct jail {
	enum jail_kind kind;
	char *program; /* without symbolic links */
	struct jail_path paths[JAIL_PATHS_MAX];
	size_t n_paths;
	char *preload_path;
	int preload_fd; /* borrowed, but above JAIL_FD_SAFE: a duplicate; or FD_NONE */

	/* What the child does, in this order. */
	uint64_t clone_flags; /* it begins in these */
	bool own_user; /* takes on uid and gid */
	uint32_t uid;
	uint32_t gid;
	uint64_t late_flags; /* then makes these itself */
	bool map; /* it is in a new user namespace: nothing but itself is mapped there */
	bool new_root;
	bool may_chroot;
	int landlock_fd; /* or FD_NONE */
	uint64_t landlock_read; /* what may be done beneath its paths */
	struct sock_filter *filter; /* or NULL; mem_free */
	unsigned short n_filter;
	bool no_limits;
	bool no_nnp;

	/* What came of it. */
	bool direct; /* the host's root makes namespaces without a user namespace around them */
	bool lacks[JAIL_LAYERS];
	char reasons[JAIL_LAYERS][160];
	bool reduced;
};

/* Is layer @name taken away by a test? */
bool jail_is_weak(const char *name);

/* Fill in jail->paths for the program. 0 or -errno. */
int jail_list_paths(struct jail *jail);

/* Landlock's version here, 0 or below where there is none (-errno). */
int jail_landlock_abi(void);
/* A ruleset that lets paths be read and executed, and nothing else: 0 or -errno. */
int jail_landlock_open(struct jail *jail);
/* In the child: let one more directory be read. 0 or -1 with errno. */
int jail_landlock_allow(int ruleset, const char *path, uint64_t access);

/* The list of denied system calls for QEMU. Where @ret has JAIL_PID_MARK the process writes its
 * own number. 0 or -errno. */
#define JAIL_PID_MARK 0x6a61696cu
int jail_filter_make(struct sock_filter **ret, unsigned short *ret_n);
/* For the keeper itself. */
int jail_filter_make_self(struct sock_filter **ret, unsigned short *ret_n);
/* Async-signal-safe. 0 or -1 with errno. */
int jail_filter_install(struct sock_filter *filter, unsigned short n);

/* What is still reachable for the keeper: @home in full, the host's settings for reading. 0 or
 * -errno. */
int jail_landlock_self(int home);

/* The hook of proc.h; @user is the jail. */
int jail_enter(void *user, const char **ret_step);
/* No capability but those of the mask, now and after exec; jail_drop_caps: only now. 0 or -1 with
 * errno. */
int jail_keep_caps(uint64_t keep);
int jail_drop_caps(uint64_t keep);
uint64_t jail_permitted_caps(void);

/* With all but the program: for doctor and jail_prepare. Never fails for what is missing. */
int jail_plan(const struct jail_spec *spec, struct jail **ret, holt_error **reterr);
/* Is it enough? Otherwise HOLT_EUNSUPPORTED, unless @reduced. */
int jail_judge(struct jail *jail, bool reduced, holt_error **reterr);

#endif
