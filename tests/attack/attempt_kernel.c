/* SPDX-License-Identifier: Apache-2.0 */
/* What an intruder tries on the kernel: mounts, modules, namespaces, privileges, odd interfaces. */
#include "attempt.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/keyctl.h>
#include <linux/perf_event.h>
#include <linux/userfaultfd.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

static long closed(long fd)
{
	if (fd >= 0)
		(void)CALL(SYS_close, fd);
	return fd;
}

/* A call that makes no sense, by arguments that the kernel looks at only after it has asked for
 * the right to make it at all. */
static long allowed(long r)
{
	return r == -EPERM || r == -EACCES || r == -ENOSYS || r == -ENOENT ? r : 0;
}

static long mount_new(void)
{
	return closed(CALL(SYS_fsopen, word("tmpfs"), 1L));
}

static long mount_there(void)
{
	const char *dir = prey("open-dir");
	const long r = CALL(SYS_mount, word("none"), word(dir), word("tmpfs"), 0L, 0L);

	if (r == 0)
		(void)CALL(SYS_umount2, word(dir), 0L);
	return r;
}

/* Nothing is mounted there. */
static long unmount(void)
{
	return allowed(CALL(SYS_umount2, word(prey("open-dir")), 0L));
}

static long move_root(void)
{
	return allowed(CALL(SYS_pivot_root, word("/"), word("/")));
}

/* The old way out: to have a root beneath oneself, and to go up. */
static long leave_root(void)
{
	(void)CALL(SYS_chroot, word(prey("open-dir")));
	for (int i = 0; i < 16; i++)
		(void)CALL(SYS_chdir, word(".."));
	(void)CALL(SYS_chroot, word("."));
	return closed(CALL(
		SYS_openat, (long)AT_FDCWD, word("/usr/lib"), (long)(O_RDONLY | O_DIRECTORY), 0L));
}

static long new_mounts(void)
{
	return CALL(SYS_unshare, (long)CLONE_NEWNS);
}

static long new_network(void)
{
	return CALL(SYS_unshare, (long)CLONE_NEWNET);
}

static long host_network(void)
{
	char path[64];

	(void)snprintf(path, sizeof path, "/proc/%ld/ns/net", prey_number("victim"));
	const long fd = CALL(SYS_openat, (long)AT_FDCWD, word(path), (long)O_RDONLY, 0L);
	const long r = fd < 0 ? fd : CALL(SYS_setns, fd, 0L);
	(void)closed(fd);
	return r;
}

static long load_module(void)
{
	return allowed(CALL(SYS_init_module, 0L, 0L, word("")));
}

static long load_module_file(void)
{
	return allowed(CALL(SYS_finit_module, (long)held_disk, word(""), 0L));
}

static long make_bpf(void)
{
	const union bpf_attr attr = {
		.map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 4, .max_entries = 1};

	return closed(CALL(SYS_bpf, (long)BPF_MAP_CREATE, word(&attr), (long)sizeof attr));
}

static long watch_events(void)
{
	const struct perf_event_attr attr = {.type = PERF_TYPE_SOFTWARE,
		.size = sizeof attr,
		.config = PERF_COUNT_SW_DUMMY,
		.exclude_kernel = 1,
		.exclude_hv = 1};

	return closed(CALL(SYS_perf_event_open, word(&attr), 0L, -1L, -1L, 0L));
}

static long ask_keys(void)
{
	return CALL(SYS_keyctl, (long)KEYCTL_GET_KEYRING_ID, (long)KEY_SPEC_SESSION_KEYRING, 1L);
}

static long add_key(void)
{
	return CALL(SYS_add_key, word("user"), word("intruder"), word("x"), 1L,
		(long)KEY_SPEC_PROCESS_KEYRING);
}

static long handle_faults(void)
{
	return closed(CALL(SYS_userfaultfd, (long)(O_CLOEXEC | UFFD_USER_MODE_ONLY)));
}

static long make_ring(void)
{
	char params[120] = {0};

	return closed(CALL(SYS_io_uring_setup, 1L, word(params)));
}

static long reach_ports(void)
{
	return CALL(SYS_iopl, 3L);
}

static long restart_host(void)
{
	/* Wrong magic numbers. */
	return allowed(CALL(SYS_reboot, 1L, 1L, 0L, 0L));
}

static long read_kernel_log(void)
{
	return CALL(SYS_syslog, 10L, 0L, 0L); /* its size */
}

static long become_root(void)
{
	return CALL(SYS_setuid, 0L);
}

static long become_root_group(void)
{
	return CALL(SYS_setresgid, 0L, 0L, 0L);
}

static long take_groups(void)
{
	const gid_t root = 0;

	return CALL(SYS_setgroups, 1L, word(&root));
}

static long raise_limit(void)
{
	const struct rlimit none = {RLIM_INFINITY, RLIM_INFINITY};

	return CALL(SYS_prlimit64, 0L, (long)RLIMIT_FSIZE, word(&none), 0L);
}

/* A program with the set-user-ID bit would give it privileges. */
static long gain_by_exec(void)
{
	return CALL(SYS_prctl, (long)PR_GET_NO_NEW_PRIVS, 0L, 0L, 0L, 0L) == 0 ? 0 : -EPERM;
}

/* It is somebody that the host knows. */
static long be_somebody(void)
{
	return CALL(SYS_getuid) == 65534 ? -EPERM : 0;
}

const struct attempt kernel_attempts[] = {
	{"mount-new", mount_new},
	{"mount-there", mount_there},
	{"unmount", unmount},
	{"move-root", move_root},
	{"leave-root", leave_root},
	{"new-mounts", new_mounts},
	{"new-network", new_network},
	{"host-network", host_network},
	{"load-module", load_module},
	{"load-module-file", load_module_file},
	{"make-bpf", make_bpf},
	{"watch-events", watch_events},
	{"ask-keys", ask_keys},
	{"add-key", add_key},
	{"handle-faults", handle_faults},
	{"make-ring", make_ring},
	{"reach-ports", reach_ports},
	{"restart-host", restart_host},
	{"read-kernel-log", read_kernel_log},
	{"become-root", become_root},
	{"become-root-group", become_root_group},
	{"take-groups", take_groups},
	{"raise-limit", raise_limit},
	{"gain-by-exec", gain_by_exec},
	{"be-somebody", be_somebody},
	{NULL, NULL},
};
