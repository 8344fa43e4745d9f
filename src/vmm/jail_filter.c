/* SPDX-License-Identifier: Apache-2.0 */
#include "vmm/jail_inside.h"

#include <errno.h>
#include <linux/fs.h>
#include <linux/fsverity.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/banned.h"

/*
 * System calls that QEMU has no use for, since all it works with is handed to it, and which are the
 * way from a hijacked process into the kernel or to other processes. They are refused with an error
 * rather than the end of the process: what libraries only try does no harm. QEMU's own -sandbox is
 * added when it has started, and ends the process.
 *
 * The program is made in the parent and only installed in the child. Whom a signal may be sent to
 * is not known before: the child writes its own number where JAIL_PID_MARK stands.
 */

#define FILTER_MAX 4096 /* instructions that the kernel takes (BPF_MAXINSNS) */

/* Everybody's. */
static const int denied[] = {
	SCMP_SYS(ptrace),
	SCMP_SYS(process_vm_readv),
	SCMP_SYS(process_vm_writev),
	SCMP_SYS(process_madvise),
	SCMP_SYS(kcmp),
	SCMP_SYS(pidfd_getfd),
	SCMP_SYS(mount),
	SCMP_SYS(umount2),
	SCMP_SYS(pivot_root),
	SCMP_SYS(open_tree),
	SCMP_SYS(move_mount),
	SCMP_SYS(fsopen),
	SCMP_SYS(fsconfig),
	SCMP_SYS(fsmount),
	SCMP_SYS(fspick),
	SCMP_SYS(mount_setattr),
	SCMP_SYS(unshare),
	SCMP_SYS(setns),
	SCMP_SYS(init_module),
	SCMP_SYS(finit_module),
	SCMP_SYS(delete_module),
	SCMP_SYS(bpf),
	SCMP_SYS(perf_event_open),
	SCMP_SYS(keyctl),
	SCMP_SYS(add_key),
	SCMP_SYS(request_key),
	SCMP_SYS(kexec_load),
	SCMP_SYS(kexec_file_load),
	SCMP_SYS(reboot),
	SCMP_SYS(swapon),
	SCMP_SYS(swapoff),
	SCMP_SYS(open_by_handle_at),
	SCMP_SYS(name_to_handle_at),
	SCMP_SYS(userfaultfd),
	SCMP_SYS(io_uring_setup),
	SCMP_SYS(io_uring_enter),
	SCMP_SYS(io_uring_register),
	SCMP_SYS(fanotify_init),
	SCMP_SYS(quotactl),
	SCMP_SYS(acct),
	SCMP_SYS(syslog),
	SCMP_SYS(iopl),
	SCMP_SYS(ioperm),
	SCMP_SYS(modify_ldt),
	SCMP_SYS(personality),
	SCMP_SYS(settimeofday),
	SCMP_SYS(clock_settime),
	SCMP_SYS(clock_adjtime),
	SCMP_SYS(adjtimex),
	SCMP_SYS(sethostname),
	SCMP_SYS(setdomainname),
	SCMP_SYS(vhangup),
	SCMP_SYS(lookup_dcookie),
	SCMP_SYS(mknod),
	SCMP_SYS(mknodat),
};

static const int denied_to_vmm[] = {
	SCMP_SYS(socket),
	SCMP_SYS(socketpair),
	SCMP_SYS(connect),
	SCMP_SYS(bind),
	SCMP_SYS(listen),
	SCMP_SYS(accept),
	SCMP_SYS(accept4),
	SCMP_SYS(pidfd_open),
	SCMP_SYS(pidfd_send_signal),
	SCMP_SYS(tkill),
	SCMP_SYS(rt_sigqueueinfo),
	SCMP_SYS(rt_tgsigqueueinfo),
	SCMP_SYS(setuid),
	SCMP_SYS(setgid),
	SCMP_SYS(setreuid),
	SCMP_SYS(setregid),
	SCMP_SYS(setresuid),
	SCMP_SYS(setresgid),
	SCMP_SYS(setgroups),
	SCMP_SYS(setfsuid),
	SCMP_SYS(setfsgid),
	SCMP_SYS(capset),
	SCMP_SYS(chmod),
	SCMP_SYS(fchmod),
	SCMP_SYS(fchmodat),
	SCMP_SYS(chown),
	SCMP_SYS(fchown),
	SCMP_SYS(lchown),
	SCMP_SYS(fchownat),
	SCMP_SYS(setxattr),
	SCMP_SYS(lsetxattr),
	SCMP_SYS(fsetxattr),
	SCMP_SYS(utime),
	SCMP_SYS(utimes),
	SCMP_SYS(futimesat),
	SCMP_SYS(utimensat),
};

/* With a descriptor for reading the owner of a file can change these of it, and a box of an
 * ordinary user has the number of its owner. */
static const uint64_t denied_ioctls[] = {
	FS_IOC_SETFLAGS, FS_IOC32_SETFLAGS, FS_IOC_FSSETXATTR, FS_IOC_ENABLE_VERITY};

/* A process with a thread or two of its own, which starts nothing. */
static const int denied_to_self[] = {
	SCMP_SYS(execve),
	SCMP_SYS(execveat),
	SCMP_SYS(chroot),
	SCMP_SYS(capset),
	SCMP_SYS(setxattr),
	SCMP_SYS(lsetxattr),
	SCMP_SYS(fsetxattr),
};

static const uint64_t namespaces[] = {CLONE_NEWUSER, CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWNET,
	CLONE_NEWIPC, CLONE_NEWUTS, CLONE_NEWCGROUP, 0x80 /* CLONE_NEWTIME */};

/* A library that is older than a system call has no number for it. */
static int deny(scmp_filter_ctx ctx, const int *calls, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const int r = calls[i] < 0
				      ? 0
				      : seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), calls[i], 0);
		if (r < 0)
			return r;
	}
	return 0;
}

/* The kernel looks at the lower half only. */
static int deny_ioctls(scmp_filter_ctx ctx)
{
	int r = 0;

	for (size_t i = 0; i < sizeof denied_ioctls / sizeof denied_ioctls[0] && r == 0; i++)
		r = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(ioctl), 1,
			SCMP_A1(SCMP_CMP_MASKED_EQ, 0xffffffffu, denied_ioctls[i]));
	return r;
}

static int deny_namespaces(scmp_filter_ctx ctx)
{
	int r = 0;

	for (size_t i = 0; i < sizeof namespaces / sizeof namespaces[0] && r == 0; i++)
		r = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(clone), 1,
			SCMP_A0(SCMP_CMP_MASKED_EQ, namespaces[i], namespaces[i]));
	/* A filter cannot see its flags; libraries fall back to clone. */
	if (r == 0)
		r = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
	return r;
}

/* Threads signal each other, and abort() the process itself. */
static int deny_signals(scmp_filter_ctx ctx)
{
	static const int calls[] = {SCMP_SYS(kill), SCMP_SYS(tgkill)};
	int r = 0;

	for (size_t i = 0; i < sizeof calls / sizeof calls[0] && r == 0; i++)
		r = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), calls[i], 1,
			SCMP_A0(SCMP_CMP_NE, JAIL_PID_MARK, 0));
	/* Which is also how a process asks for limits of its own: number 0. */
	if (r == 0)
		r = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(prlimit64), 1,
			SCMP_A0(SCMP_CMP_NE, 0, 0));
	return r;
}

/* The program as the kernel takes it. */
static int export(scmp_filter_ctx ctx, struct sock_filter **ret, unsigned short *ret_n)
{
	auto_fd fd = memfd_create("filter", MFD_CLOEXEC);

	if (fd < 0)
		return -errno;
	const int r = seccomp_export_bpf(ctx, fd);
	const off_t size = r < 0 ? 0 : lseek(fd, 0, SEEK_CUR);
	const size_t n = (size_t)size / sizeof(struct sock_filter);
	if (r < 0 || size <= 0 || n > FILTER_MAX)
		return r < 0 ? r : -E2BIG;
	auto_free struct sock_filter *filter = mem_array(n, sizeof *filter);
	if (!filter)
		return -ENOMEM;
	if (pread(fd, filter, (size_t)size, 0) != size)
		return -EIO;
	*ret = take_ptr(filter);
	*ret_n = (unsigned short)n;
	return 0;
}

int jail_filter_make(struct sock_filter **ret, unsigned short *ret_n)
{
	scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ALLOW);

	if (!ctx)
		return -ENOMEM;
	int r = deny(ctx, denied, sizeof denied / sizeof denied[0]);
	if (r == 0)
		r = deny(ctx, denied_to_vmm, sizeof denied_to_vmm / sizeof denied_to_vmm[0]);
	if (r == 0)
		r = deny_ioctls(ctx);
	if (r == 0)
		r = deny_namespaces(ctx);
	if (r == 0)
		r = deny_signals(ctx);
	if (r == 0)
		r = export(ctx, ret, ret_n);
	seccomp_release(ctx);
	return r;
}

int jail_filter_make_self(struct sock_filter **ret, unsigned short *ret_n)
{
	scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ALLOW);

	if (!ctx)
		return -ENOMEM;
	int r = deny(ctx, denied, sizeof denied / sizeof denied[0]);
	if (r == 0)
		r = deny(ctx, denied_to_self, sizeof denied_to_self / sizeof denied_to_self[0]);
	/* The host's other sockets are none of its business; those of clients are open. */
	if (r == 0)
		r = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(socket), 1,
			SCMP_A0(SCMP_CMP_NE, AF_UNIX, 0));
	if (r == 0)
		r = deny_namespaces(ctx);
	if (r == 0)
		r = deny_signals(ctx);
	if (r == 0)
		r = export(ctx, ret, ret_n);
	seccomp_release(ctx);
	return r;
}

int jail_filter_install(struct sock_filter *filter, unsigned short n)
{
	const struct sock_fprog program = {.len = n, .filter = filter};
	const unsigned own = (unsigned)syscall(SYS_getpid);

	for (unsigned short i = 0; i < n; i++) {
		if (filter[i].k == JAIL_PID_MARK && BPF_CLASS(filter[i].code) == BPF_JMP)
			filter[i].k = own;
	}
	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0u, &program) < 0 ? -1 : 0;
}
