/* SPDX-License-Identifier: Apache-2.0 */
#include "vmm/jail.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/fsutil.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/str.h"
#include "base/banned.h"

#define CGROUP_ROOT      "/sys/fs/cgroup"
#define CGROUP_MAGIC     0x63677270
#define CGROUP_FILE_MAX  65536
#define LANDLOCK_VERSION 1u /* LANDLOCK_CREATE_RULESET_VERSION, newer than Debian 12's headers */

static const struct {
	const char *name;
	uint64_t clone_flag; /* a namespace that is tried; 0 = another kind of layer */
} kinds[JAIL_LAYERS] = {
	[JAIL_SECCOMP] = {"seccomp", 0},
	[JAIL_USER_NS] = {"user namespace", CLONE_NEWUSER},
	[JAIL_LANDLOCK] = {"landlock", 0},
	[JAIL_MOUNT_NS] = {"mount namespace", CLONE_NEWNS},
	[JAIL_PID_NS] = {"pid namespace", CLONE_NEWPID},
	[JAIL_NET_NS] = {"network namespace", CLONE_NEWNET},
	[JAIL_IPC_NS] = {"ipc namespace", CLONE_NEWIPC},
	[JAIL_CGROUP] = {"cgroup", 0},
};

static void found(struct jail_finding *f, bool available, const char *fmt, ...)
	__attribute__((format(__printf__, 3, 4)));
static void found(struct jail_finding *f, bool available, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(f->reason, sizeof(f->reason), fmt, ap);
	va_end(ap);
	f->available = available;
}

/* Root may make the namespace directly; everybody else inside a user namespace of his own. */
static void try_namespace(struct jail_finding *f, uint64_t flag)
{
	if (flag != CLONE_NEWUSER && proc_try_clone(flag) == 0) {
		found(f, true, "allowed to this user directly");
		return;
	}
	const int r = proc_try_clone(CLONE_NEWUSER | flag);
	if (r == 0)
		found(f, true, flag == CLONE_NEWUSER ? "allowed" : "allowed in a user namespace");
	else if (r == -ENOSPC)
		found(f, false, "the limit in /proc/sys/user is reached or 0");
	else if (r == -EPERM || r == -EACCES)
		found(f, false,
			"refused by this host's policy (sysctl, security module or container)");
	else
		found(f, false, "not available: %s", strerrordesc_np(-r));
}

static void try_landlock(struct jail_finding *f)
{
	const long abi = syscall(SYS_landlock_create_ruleset, NULL, (size_t)0, LANDLOCK_VERSION);

	if (abi >= 1)
		found(f, true, "ABI %ld", abi);
	else if (errno == EOPNOTSUPP)
		found(f, false, "in this kernel, but switched off at boot (lsm=)");
	else
		found(f, false, "not in this kernel: %s", strerrordesc_np(errno));
}

static void try_seccomp(struct jail_finding *f)
{
	const uint32_t action = SECCOMP_RET_KILL_PROCESS;

	if (syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0)
		found(f, true, "filters can end a process");
	else
		found(f, false, "no filters in this kernel: %s", strerrordesc_np(errno));
}

static void try_cgroup(struct jail_finding *f)
{
	auto_free char *text = NULL;
	struct statfs fs;

	if (statfs(CGROUP_ROOT, &fs) < 0 || fs.f_type != CGROUP_MAGIC) {
		found(f, false, "'" CGROUP_ROOT "' is not a version 2 hierarchy");
		return;
	}
	if (fs_read_file(AT_FDCWD, "/proc/self/cgroup", CGROUP_FILE_MAX, &text, NULL) < 0 ||
		!str_starts(text, "0::/")) {
		found(f, false, "this process is in no version 2 cgroup");
		return;
	}
	const char *own = text + strlen("0::");
	auto_free char *path = str_printf(
		CGROUP_ROOT "%.*s/cgroup.procs", (int)strcspn(own, "\n"), own);
	if (path && access(path, W_OK) == 0)
		found(f, true, "own cgroup is writable");
	else
		found(f, false, "own cgroup is not writable: %s", strerrordesc_np(errno));
}

void jail_probe(struct jail_report *ret)
{
	for (int i = 0; i < JAIL_LAYERS; i++) {
		struct jail_finding *f = &ret->layers[i];
		*f = (struct jail_finding){.name = kinds[i].name};
		if (kinds[i].clone_flag)
			try_namespace(f, kinds[i].clone_flag);
	}
	try_seccomp(&ret->layers[JAIL_SECCOMP]);
	try_landlock(&ret->layers[JAIL_LANDLOCK]);
	try_cgroup(&ret->layers[JAIL_CGROUP]);
	ret->sufficient = ret->layers[JAIL_SECCOMP].available &&
			  (ret->layers[JAIL_USER_NS].available ||
				  ret->layers[JAIL_LANDLOCK].available);
}
