/* SPDX-License-Identifier: Apache-2.0 */
#include "net/helper_jail.h"

#include <errno.h>
#include <linux/capability.h>
#include <linux/netlink.h>
#include <seccomp.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/banned.h"

static int limit(int resource, rlim_t most)
{
	struct rlimit l;

	if (getrlimit((__rlimit_resource_t)resource, &l) < 0)
		return -errno;
	if (l.rlim_max > most)
		l.rlim_max = most;
	l.rlim_cur = l.rlim_max;
	return setrlimit((__rlimit_resource_t)resource, &l) < 0 ? -errno : 0;
}

static int limit_all(void)
{
	int r = limit(RLIMIT_NOFILE, HELPER_FDS_MAX);

	if (r == 0)
		r = limit(RLIMIT_CORE, 0);
#ifndef HOLT_SANITIZED
	if (r == 0)
		r = limit(RLIMIT_DATA, HELPER_DATA_MAX);
	/* Where a sanitizer would write its report. */
	if (r == 0)
		r = limit(RLIMIT_FSIZE, 0);
#endif
	return r;
}

static int drop_capabilities(void)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	const struct __user_cap_data_struct none[2] = {{0}};

	(void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -errno;
	return syscall(SYS_capset, &head, none) < 0 ? -errno : 0;
}

/* One a line, alphabetical. */
static const int allowed_calls[] = {
	SCMP_SYS(accept),
	SCMP_SYS(accept4),
	SCMP_SYS(bind),
	SCMP_SYS(brk),
	SCMP_SYS(clock_gettime),
	SCMP_SYS(clock_nanosleep),
	SCMP_SYS(close),
	SCMP_SYS(connect),
	SCMP_SYS(exit),
	SCMP_SYS(exit_group),
	SCMP_SYS(fcntl),
	SCMP_SYS(futex),
	SCMP_SYS(getpeername),
	SCMP_SYS(getpid),
	SCMP_SYS(getrandom),
	SCMP_SYS(getsockname),
	SCMP_SYS(getsockopt),
	SCMP_SYS(gettid),
	SCMP_SYS(gettimeofday),
	SCMP_SYS(ioctl),
	SCMP_SYS(listen),
	SCMP_SYS(madvise),
	SCMP_SYS(mremap),
	SCMP_SYS(munmap),
	SCMP_SYS(nanosleep),
	SCMP_SYS(poll),
	SCMP_SYS(ppoll),
	SCMP_SYS(read),
	SCMP_SYS(recvfrom),
	SCMP_SYS(recvmmsg),
	SCMP_SYS(recvmsg),
	SCMP_SYS(restart_syscall),
	SCMP_SYS(rt_sigprocmask),
	SCMP_SYS(rt_sigreturn),
	SCMP_SYS(sched_yield),
	SCMP_SYS(sendmsg),
	SCMP_SYS(sendto),
	SCMP_SYS(setsockopt),
	SCMP_SYS(shutdown),
	SCMP_SYS(time),
	SCMP_SYS(write),
	SCMP_SYS(writev),
};

/* What nothing of ours ever calls: whoever does is not us any more. The rest is refused only, since
 * a library may try it and live without. */
static const int deadly_calls[] = {
	SCMP_SYS(bpf),
	SCMP_SYS(clone),
	SCMP_SYS(clone3),
	SCMP_SYS(execve),
	SCMP_SYS(execveat),
	SCMP_SYS(io_uring_setup),
	SCMP_SYS(mount),
	SCMP_SYS(process_vm_readv),
	SCMP_SYS(process_vm_writev),
	SCMP_SYS(ptrace),
	SCMP_SYS(setns),
	SCMP_SYS(unshare),
};

static int add_arguments(scmp_filter_ctx ctx)
{
	int r = seccomp_rule_add(
		ctx, SCMP_ACT_ALLOW, SCMP_SYS(socket), 1, SCMP_A0(SCMP_CMP_EQ, AF_INET, 0));

	if (r == 0)
		r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(socket), 1,
			SCMP_A0(SCMP_CMP_EQ, AF_INET6, 0));
	if (r == 0)
		r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(socket), 2,
			SCMP_A0(SCMP_CMP_EQ, AF_NETLINK, 0),
			SCMP_A2(SCMP_CMP_EQ, NETLINK_ROUTE, 0));
	/* Memory never becomes code. */
	if (r == 0)
		r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 1,
			SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
	if (r == 0)
		r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(mprotect), 1,
			SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
	return r;
}

static int limit_calls(void)
{
	scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ERRNO(EPERM));
	int r = ctx ? 0 : -ENOMEM;

	for (size_t i = 0; r == 0 && i < sizeof allowed_calls / sizeof *allowed_calls; i++)
		r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, allowed_calls[i], 0);
	for (size_t i = 0; r == 0 && i < sizeof deadly_calls / sizeof *deadly_calls; i++)
		r = seccomp_rule_add(ctx, SCMP_ACT_KILL_PROCESS, deadly_calls[i], 0);
	if (r == 0)
		r = add_arguments(ctx);
	if (r == 0)
		r = seccomp_load(ctx);
	if (ctx)
		seccomp_release(ctx);
	return r;
}

int helper_jail_enter(const char *empty_dir, holt_error **reterr)
{
	int r = limit_all();

	if (r < 0)
		return err_errno(reterr, -r, "the network helper cannot limit itself");
	/* All that it loads is loaded. */
	if (empty_dir && (chroot(empty_dir) < 0 || chdir("/") < 0))
		return err_errno(reterr, errno, "the network helper cannot give up its files");
	r = drop_capabilities();
	if (r < 0)
		return err_errno(reterr, -r, "the network helper cannot give up its privileges");
#ifdef HOLT_SANITIZED
	/* A sanitizer's own calls are not known. */
	return 0;
#endif
	r = limit_calls();
	if (r < 0)
		return err_errno(
			reterr, -r, "the network helper cannot install its list of system calls");
	return 0;
}
