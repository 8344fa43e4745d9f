/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: denied userns|landlock|old|container|all COMMAND...
 *
 * Runs a command on a host that refuses parts of a jail, as the kernel shows it to the command:
 *
 *   userns     user namespaces are limited to none: ENOSPC; root makes its namespaces without
 *   landlock   a kernel without Landlock: ENOSYS
 *   old        landlock, and a kernel without the newer system calls for mounts: ENOSYS
 *   container  no namespace of any kind, no mounts: EPERM, and ENOSYS for clone3, as the filter of
 * a container without privileges has it all        container and landlock together
 */
#include <errno.h>
#include <sched.h>
#include <seccomp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define NAMESPACES                                                                                 \
	(CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWUSER | \
		CLONE_NEWCGROUP)

static int deny(scmp_filter_ctx ctx, int call, int errnum)
{
	return seccomp_rule_add(ctx, SCMP_ACT_ERRNO((uint32_t)errnum), call, 0);
}

static int deny_flag(scmp_filter_ctx ctx, uint64_t flag, int errnum)
{
	const int calls[] = {SCMP_SYS(clone), SCMP_SYS(unshare)};
	int r = 0;

	for (size_t i = 0; i < 2 && r == 0; i++)
		r = seccomp_rule_add(ctx, SCMP_ACT_ERRNO((uint32_t)errnum), calls[i], 1,
			SCMP_A0(SCMP_CMP_MASKED_EQ, flag, flag));
	return r == 0 ? deny(ctx, SCMP_SYS(clone3), ENOSYS) : r;
}

static int deny_landlock(scmp_filter_ctx ctx)
{
	return deny(ctx, 444, ENOSYS) < 0 || deny(ctx, 445, ENOSYS) < 0 ? -1
									: deny(ctx, 446, ENOSYS);
}

static int deny_new_mounts(scmp_filter_ctx ctx)
{
	return deny(ctx, SCMP_SYS(open_tree), ENOSYS) < 0 ? -1
							  : deny(ctx, SCMP_SYS(fsopen), ENOSYS);
}

static int deny_container(scmp_filter_ctx ctx)
{
	const int mounts[] = {SCMP_SYS(mount), SCMP_SYS(umount2), SCMP_SYS(pivot_root),
		SCMP_SYS(setns), SCMP_SYS(open_tree), SCMP_SYS(fsopen)};
	int r = 0;

	for (size_t i = 0; i < sizeof mounts / sizeof mounts[0] && r == 0; i++)
		r = deny(ctx, mounts[i], EPERM);
	for (int bit = 0; bit < 32 && r == 0; bit++) {
		if (NAMESPACES & 1ull << bit)
			r = deny_flag(ctx, 1ull << bit, EPERM);
	}
	return r;
}

int main(int argc, char **argv)
{
	scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ALLOW);
	const char *what = argc > 2 ? argv[1] : "";
	const bool all = strcmp(what, "all") == 0;
	const bool old = strcmp(what, "old") == 0;
	int r = -1;

	if (ctx && strcmp(what, "userns") == 0)
		r = deny_flag(ctx, CLONE_NEWUSER, ENOSPC);
	if (ctx && (all || old || strcmp(what, "landlock") == 0))
		r = deny_landlock(ctx);
	if (ctx && old)
		r = deny_new_mounts(ctx);
	if (ctx && (all || strcmp(what, "container") == 0))
		r = deny_container(ctx);
	if (r < 0 || seccomp_load(ctx) < 0) {
		fprintf(stderr, "usage: denied userns|landlock|old|container|all COMMAND...\n");
		return 2;
	}
	(void)execvp(argv[2], argv + 2);
	perror(argv[2]);
	return 127;
}
