/* SPDX-License-Identifier: Apache-2.0 */
#include "vmm/vm.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/banned.h"

/*
 * The engine for tests: the real agent as a plain process on two socket pairs. It runs programs on
 * the host as the caller, without a machine around them, so that it serves tests and nothing else.
 * $HOLT_AGENT names the agent. Of the specification only the lock matters: the process holds it, as
 * QEMU would.
 */

enum fake_fd { FAKE_FD_CONTROL = 3, FAKE_FD_BULK = 4, FAKE_FD_LOCK = 5 };

/* One channel; our end is non-blocking. */
static int channel_open(int ret[2], holt_error **reterr)
{
	int r = fd_socketpair(ret);

	if (r == 0)
		r = fd_nonblock(ret[0]);
	return r < 0 ? err_errno(reterr, -r, "cannot make a socket pair for the agent") : 0;
}

static int spawn(const char *agent, int control_fd, int bulk_fd, int console_fd, int lock_fd,
	struct proc *ret, holt_error **reterr)
{
	char control[16];
	char bulk[16];
	(void)snprintf(control, sizeof(control), "%d", FAKE_FD_CONTROL);
	(void)snprintf(bulk, sizeof(bulk), "%d", FAKE_FD_BULK);
	const char *const argv[] = {"holt-agent", "--fake", control, bulk, NULL};
	const struct proc_fd fds[] = {
		{console_fd, STDOUT_FILENO},
		{console_fd, STDERR_FILENO},
		{control_fd, FAKE_FD_CONTROL},
		{bulk_fd, FAKE_FD_BULK},
		{lock_fd, FAKE_FD_LOCK},
	};
	const size_t n_fds = sizeof(fds) / sizeof(fds[0]);
	const struct proc_spec spec = {
		.path = agent,
		.argv = argv,
		.fds = fds,
		.n_fds = lock_fd < 0 ? n_fds - 1 : n_fds,
		.flags = PROC_DEATHSIG | PROC_NOCORE,
	};

	return proc_spawn(&spec, ret, reterr);
}

static int fake_start(const struct vm_spec *spec, struct vm *ret, holt_error **reterr)
{
	const char *agent = getenv("HOLT_AGENT");
	struct vm vm = VM_INIT;
	auto_fd control_fd = FD_NONE;
	auto_fd bulk_fd = FD_NONE;
	auto_fd console_fd = FD_NONE;
	int pair[2];

	if (spec->origin != VM_COLD)
		return err_make(reterr, HOLT_EUNSUPPORTED, "the fake engine has no templates");
	if (!agent || agent[0] != '/') {
		err_make(reterr, HOLT_EINVALID, "HOLT_AGENT does not name the agent's program");
		err_stage(reterr, "vm start");
		err_object(reterr, "HOLT_AGENT");
		err_hint(reterr, "set HOLT_AGENT to the absolute path of an agent; the fake engine "
				 "is for tests only");
		return -HOLT_EINVALID;
	}
	int r = channel_open(pair, reterr);
	if (r == 0) {
		vm.control_fd = pair[0];
		control_fd = pair[1];
		r = channel_open(pair, reterr);
	}
	if (r == 0) {
		vm.bulk_fd = pair[0];
		bulk_fd = pair[1];
		r = channel_open(pair, reterr);
	}
	if (r == 0) {
		vm.console_fd = pair[0];
		console_fd = pair[1];
		r = spawn(agent, control_fd, bulk_fd, console_fd, spec->lock_fd, &vm.proc, reterr);
	}
	if (r < 0) {
		err_stage(reterr, "vm start");
		err_object(reterr, agent);
		vm_kill(&vm, NULL);
		return r;
	}
	*ret = vm;
	return 0;
}

const struct vm_engine vm_engine_fake = {.name = "fake", .start = fake_start};
