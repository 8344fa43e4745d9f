/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VMM_MIGRATE_H
#define VMM_MIGRATE_H

#include "vmm/qmp.h"

/*
 * Freezing a machine (VM_FREEZE) into a template and waking clones of it (VM_CLONE): the commands
 * for QEMU's monitor. The memory is a file already; what travels is the state of the devices.
 *
 * Both functions queue all commands at once. @fn (may be NULL) is called for each of them that was
 * queued, with the error of the first that QEMU refuses; the ones after it then fail as well.
 */

/* Save the devices into the regular file @state_fd (open for writing, empty, at its begin; borrowed
 * until the last reply). QEMU stops the guest by itself; then, and only when migrate_progress has
 * said MIGRATE_DONE, memory, disk and state belong together, and QEMU can be ended. */
#define MIGRATE_FREEZE_COMMANDS 3
int migrate_freeze(struct qmp *q, int state_fd, qmp_reply_fn fn, void *user, holt_error **reterr);

/* Load the devices from QEMU_FD_STATE and let the guest run on. With a state that does not fit,
 * QEMU says why on its console and ends with status 1. */
#define MIGRATE_RESTORE_COMMANDS 2
int migrate_restore(struct qmp *q, qmp_reply_fn fn, void *user, holt_error **reterr);

enum migrate_status {
	MIGRATE_NONE, /* the event is about something else, or a step on the way */
	MIGRATE_DONE,
	MIGRATE_FAILED
};

/* What an event of the monitor says about it. */
enum migrate_status migrate_progress(const char *event, const json_t *data);

#endif
