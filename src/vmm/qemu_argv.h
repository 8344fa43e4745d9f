/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VMM_QEMU_ARGV_H
#define VMM_QEMU_ARGV_H

#include "vmm/vm.h"

/*
 * The one place that knows QEMU's command line. Pure: the same specification gives the same words;
 * tests/golden/qemu-*.txt holds them.
 */

/* Numbers of the descriptors in QEMU's process; qemu.c puts them there. */
enum qemu_fd {
	QEMU_FD_KERNEL = 3,
	QEMU_FD_INITRD = 4,
	QEMU_FD_ROOTFS = 5,
	QEMU_FD_DISK = 6,
	QEMU_FD_CONTROL = 7,
	QEMU_FD_BULK = 8,
	QEMU_FD_CONSOLE = 9,
	QEMU_FD_NET = 10,
	QEMU_FD_LOCK = 11,
	QEMU_FD_QMP = 12,
	QEMU_FD_MEMORY = 13,
	QEMU_FD_STATE = 14,
	QEMU_FD_SHIM = 15, /* see openshim.c */
	QEMU_FD_KVM = 16
};

/* How QEMU names what it takes by path only; openshim.c answers with the descriptors. */
#define QEMU_KERNEL_PATH "/proc/self/fd/3"
#define QEMU_INITRD_PATH "/proc/self/fd/4"
#define QEMU_MEMORY_PATH "/proc/self/fd/13"
#define QEMU_KVM_PATH    "/dev/kvm"

/* Names of the two ports and serial numbers of the two disks, as the agent looks for them. The
 * port names are also in the wire protocol, which this folder must not include; a test compares. */
#define QEMU_PORT_CONTROL  1
#define QEMU_PORT_BULK     2
#define QEMU_SERIAL_ROOTFS "rootfs"
#define QEMU_SERIAL_DISK   "disk"

/* What the kernel command line of a bare template says to the agent; in the wire protocol too. */
#define QEMU_BARE_ENV "holt_bare=1"

/* Shapes a machine may have; microvm itself allows 288 cpus, ours is a limit against nonsense. */
#define QEMU_MEMORY_MIN_MIB 128
#define QEMU_MEMORY_MAX_MIB (1024 * 1024)
#define QEMU_CPUS_MAX       64

/* The words for @spec, argv[0] included, as a NULL-terminated list (strv_free). Fails with
 * HOLT_EINVALID for a shape outside the limits, or for lack of memory. With VM_FREEZE they are the
 * same for every box of a shape, with VM_CLONE they differ from those in nothing that a guest can
 * see. */
int qemu_argv_build(const struct vm_spec *spec, char ***ret_argv, holt_error **reterr);

/* The kernel command line alone, in fresh memory; NULL for lack of memory. */
char *qemu_kernel_cmdline(const struct vm_spec *spec);

#endif
