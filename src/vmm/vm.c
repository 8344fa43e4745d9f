/* SPDX-License-Identifier: Apache-2.0 */
#include "vmm/vm.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/banned.h"

void vm_kill(struct vm *vm, int *ret_status)
{
	if (vm->proc.pid > 0) {
		int status = 0;

		/* The pidfd cannot name a stranger, and the child is ours to reap. */
		(void)syscall(SYS_pidfd_send_signal, vm->proc.pidfd, SIGKILL, NULL, 0);
		if (proc_wait(vm->proc.pid, &status) == 0 && ret_status)
			*ret_status = status;
		vm->proc.pid = 0;
	}
	vm->proc.pidfd = fd_close(vm->proc.pidfd);
	vm->control_fd = fd_close(vm->control_fd);
	vm->bulk_fd = fd_close(vm->bulk_fd);
	vm->console_fd = fd_close(vm->console_fd);
	vm->qmp_fd = fd_close(vm->qmp_fd);
	vm->net_fd = fd_close(vm->net_fd);
}
