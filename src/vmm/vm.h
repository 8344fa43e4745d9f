/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VMM_VM_H
#define VMM_VM_H

#include "base/err.h"
#include "base/proc.h"
#include "vmm/jail.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * A virtual machine as an engine sees it: files as descriptors, two lanes to the agent, a console.
 * Engines are rows of one table; "qemu" is the real one, "fake" runs the agent as a plain process
 * on socket pairs and serves tests.
 */
enum vm_origin {
	VM_COLD, /* boots, in memory of its own */
	VM_FREEZE, /* boots, in memory that is the file memory_fd: a template in the making */
	VM_CLONE /* goes on from state_fd, with a private copy (on write) of memory_fd */
};

struct vm_spec {
	enum vm_origin origin;
	bool bare; /* with VM_FREEZE: the guest shall wait before it mounts its disk */
	bool kvm; /* use hardware virtualization; otherwise TCG */
	bool loud; /* with VM_COLD: serial console from the first instruction on (slow under TCG) */
	uint32_t memory_mib;
	uint32_t cpus;
	uint32_t tsc_khz; /* host TSC, 0 = unknown */
	uint8_t mac[6]; /* with VM_COLD; others have a fixed one, until the agent changes it */
	int kernel_fd; /* all borrowed; the caller closes them after start; none with VM_CLONE */
	int initrd_fd;
	int rootfs_fd; /* squashfs, read-only */
	int disk_fd; /* ext4 image, O_RDWR */
	int lock_fd; /* vm.lock with its flock; lives as long as the VM */
	int memory_fd; /* with VM_FREEZE open for reading and writing, with VM_CLONE for reading */
	int state_fd; /* with VM_CLONE: the devices, for reading */
	uint64_t disk_bytes; /* virtual size, for the file-size limit */
	const char *box_id; /* for the jail */
	bool reduced; /* the jail may be less than what is required */
	bool run_with; /* QEMU has the option, see qemu_facts.h */
	/* Set by the engine itself, from what the jail offers; no part of what a machine is. */
	const char *chroot_dir; /* an empty directory, or NULL */
	bool no_sandbox; /* a test has taken QEMU's own filter away */
};

struct vm {
	struct proc proc; /* pid, pidfd */
	int control_fd; /* non-blocking stream sockets */
	int bulk_fd;
	int console_fd; /* read side: guest console and QEMU's own messages */
	int qmp_fd; /* QEMU's monitor (qmp.h), non-blocking; none with the fake engine */
	int net_fd; /* the network card's other end, one frame a datagram; likewise */
	struct jail_state jail; /* all 0 with the fake engine */
};

#define VM_INIT                                 \
	((struct vm){.proc = {.pidfd = -EBADF}, \
		.control_fd = -EBADF,           \
		.bulk_fd = -EBADF,              \
		.console_fd = -EBADF,           \
		.qmp_fd = -EBADF,               \
		.net_fd = -EBADF})

struct vm_engine {
	const char *name;
	/* Start the machine. The calling thread must live as long as the VM (parent-death signal).
	 * On success the caller owns *ret and ends it with vm_kill. */
	int (*start)(const struct vm_spec *spec, struct vm *ret, holt_error **reterr);
};

extern const struct vm_engine vm_engine_qemu;
extern const struct vm_engine vm_engine_fake;

/* Kill the machine if it lives, reap it, close the descriptors; idempotent. *ret_status (may be
 * NULL) is the wait status. */
void vm_kill(struct vm *vm, int *ret_status);

#endif
