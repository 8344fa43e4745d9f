/* SPDX-License-Identifier: Apache-2.0 */
#include "op_park.h"

#include "exec_child.h"
#include "exec_user.h"
#include "guest_proc.h"
#include "clone_identity.h"
#include "op_exec.h"
#include "op_sys.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest_banned.h"

/*
 * Becoming a template. The host stops the machine after the answer and saves memory and devices;
 * each clone is this machine going on, perhaps days later, with another host at the other end.
 *
 *   READY (or, if bare, FRESH) --park--> PARKED --hello--> FRESH --setup--> READY
 *
 * What has to be true in PARKED, because it is true in every clone:
 * - no process but the agent, no module on its way, nothing of the disk only in memory;
 * - no deadline, since the clock goes on where it stood;
 * - both lanes are empty, since what a clone reads next comes from its own host;
 * - a lane that reads as ended is not the end (lane_rest): the new host may open its side late;
 * - nobody has read /proc/sys/kernel/random/boot_id: the kernel makes it at the first reading, and
 *   the seed of the clone has to be there before. Shells do not read it.
 *
 * A bare machine stops before its disk is mounted, so that a clone may have any disk. Everything
 * else is mounted already.
 */

#define WARM_US 2000000 /* an image's shell that takes longer stays cold */

extern char **environ;

bool park_is_bare(void)
{
	for (char *const *e = environ; e && *e; e++)
		if (strcmp(*e, WIRE_BARE_ENV) == 0)
			return true;
	return false;
}

static void run_shell(bool fake) __attribute__((noreturn));
static void run_shell(bool fake)
{
	static char name[] = "sh";
	static char option[] = "-c";
	static char line[] = ":";
	char *const argv[] = {name, option, line, NULL};
	char *const env[] = {NULL};
	static struct exec_user unused; /* it is large */
	const struct wire_bytes nobody = {0};
	struct agent_fail f;

	exec_child_settle(fake);
	/* Every exec reads these files first. */
	(void)exec_user_find(&nobody, &unused, &f);
	(void)execve("/bin/sh", argv, env);
	_exit(127);
}

/* Let the shell run once, which most clones begin with: its pages and the C library's stay in
 * memory. What the image's shell leaves running ends here. */
static void warm_up(struct agent *a)
{
	const uint64_t until_us = agent_now_us() + WARM_US;
	bool placed = false;

	if (access("/bin/sh", X_OK) < 0)
		return;
	const pid_t pid = gproc_fork(-1, &placed);
	if (pid == 0)
		run_shell(a->fake);
	while (pid > 0 && waitpid(pid, NULL, WNOHANG) == 0 && agent_now_us() < until_us)
		(void)poll(NULL, 0, 1);
	sys_kill_all(a);
}

/* All that runs is a child of the agent, or becomes one. */
static bool is_childless(struct agent *a)
{
	int status = 0;
	pid_t pid = 0;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		exec_reaped(a, pid, status);
	return pid < 0;
}

static int refuse(struct agent_fail *f, uint16_t class, const char *text)
{
	return agent_fail_set(
		f, class, class == WIRE_FAIL_BUSY ? EBUSY : 0, "park", "", "%s", text);
}

static int check(struct agent *a, struct agent_fail *f)
{
	if (a->state != AGENT_READY && !(a->state == AGENT_FRESH && a->bare))
		return refuse(f, WIRE_FAIL_INVALID, "the machine is not set up, or shutting down");
	if (a->frozen)
		return refuse(f, WIRE_FAIL_BUSY, "the machine is frozen");
	if (a->execs)
		return refuse(f, WIRE_FAIL_BUSY, "programs run in this machine");
	sys_finish_late(a);
	if (!is_childless(a))
		return refuse(f, WIRE_FAIL_BUSY, "background processes run in this machine");
	return 0;
}

static int come_to_rest(struct agent *a, struct agent_fail *f)
{
	int rc = check(a, f);

	if (rc < 0)
		return rc;
	if (a->state == AGENT_FRESH)
		rc = sys_mount_bare(a, f);
	else
		warm_up(a);
	identity_prepare(a);
	exec_prepare(a);
	if (rc == 0 && a->disk_fd >= 0 && syncfs(a->disk_fd) < 0)
		rc = agent_fail_set(f, WIRE_FAIL_INTERNAL, errno, "park", "disk",
			"cannot write everything to the disk");
	return rc;
}

void park_machine(struct agent *a, uint32_t stream)
{
	struct agent_fail f;

	if (come_to_rest(a, &f) < 0) {
		agent_fail_send(a, stream, &f);
		return;
	}
	if (lane_has_input(&a->control) || lane_has_input(&a->bulk)) {
		agent_die(a, "bytes behind park");
		return;
	}
	lane_send(&a->control, &(struct wire_msg){.op = WIRE_OP_done, .stream = stream});
	a->state = AGENT_PARKED;
	a->wake_us = a->late_us = 0;
	lane_rest(&a->control, a->fake);
	lane_rest(&a->bulk, a->fake);
}
