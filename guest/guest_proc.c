/* SPDX-License-Identifier: Apache-2.0 */
#include "guest_proc.h"

#include <errno.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#define GUEST_ALLOW_FORK
#include "guest_banned.h"

pid_t gproc_fork(int cgroup_fd, bool *ret_placed)
{
	if (cgroup_fd >= 0) {
		struct clone_args args = {
			.flags = CLONE_INTO_CGROUP,
			.exit_signal = SIGCHLD,
			.cgroup = (uint64_t)cgroup_fd,
		};
		/* No thread and no lock is around, so that the bare call is as good as fork. */
		const long pid = syscall(SYS_clone3, &args, sizeof(args));
		if (pid >= 0) {
			*ret_placed = true;
			return (pid_t)pid;
		}
		if (errno != ENOSYS && errno != EINVAL && errno != E2BIG)
			return -errno;
	}
	const pid_t pid = fork();
	if (pid < 0)
		return -errno;
	*ret_placed = false;
	return pid;
}
