/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GUEST_BOOT_H
#define GUEST_BOOT_H

#include "agent.h"

/* PID 1 in the initramfs: virtual file systems, modules, ports. Returns 0 or -errno; the console
 * knows more. */
int boot_machine(struct agent *a, int *ret_control_fd, int *ret_bulk_fd);

#endif
