/* SPDX-License-Identifier: Apache-2.0 */
#include "vmm/migrate.h"

#include <stdio.h>
#include <string.h>

#include "vmm/qemu_argv.h"
#include "base/str.h"
#include "base/banned.h"

/*
 * Measured with QEMU 7.2: a template in the making needs no "stop". QEMU stops the guest itself and
 * writes down that it ran, so that a clone runs on without "cont". Memory that is a shared file is
 * left out with x-ignore-shared, which the other side must know too, and which has no option of the
 * command line. A descriptor can be named by number when loading, not when saving, hence "getfd".
 */

#define IGNORE_SHARED "{\"capability\":\"x-ignore-shared\",\"state\":true}"
#define EVENTS        "{\"capability\":\"events\",\"state\":true}"

int migrate_freeze(struct qmp *q, int state_fd, qmp_reply_fn fn, void *user, holt_error **reterr)
{
	int r = qmp_command(q, "migrate-set-capabilities",
		"{\"capabilities\":[" IGNORE_SHARED "," EVENTS "]}", fn, user, reterr);

	if (r == 0)
		r = qmp_command_fd(
			q, "getfd", "{\"fdname\":\"state\"}", state_fd, fn, user, reterr);
	if (r == 0)
		r = qmp_command(q, "migrate", "{\"uri\":\"fd:state\"}", fn, user, reterr);
	return r;
}

int migrate_restore(struct qmp *q, qmp_reply_fn fn, void *user, holt_error **reterr)
{
	char from[64];

	(void)snprintf(from, sizeof from, "{\"uri\":\"fd:%d\"}", QEMU_FD_STATE);
	const int r = qmp_command(q, "migrate-set-capabilities",
		"{\"capabilities\":[" IGNORE_SHARED "]}", fn, user, reterr);
	return r < 0 ? r : qmp_command(q, "migrate-incoming", from, fn, user, reterr);
}

enum migrate_status migrate_progress(const char *event, const json_t *data)
{
	const char *status = NULL;

	if (strcmp(event, "MIGRATION") != 0 || json_get_str(data, "status", &status, NULL) < 0 ||
		!status)
		return MIGRATE_NONE;
	if (strcmp(status, "completed") == 0)
		return MIGRATE_DONE;
	if (strcmp(status, "failed") == 0 || strcmp(status, "cancelled") == 0)
		return MIGRATE_FAILED;
	return MIGRATE_NONE;
}
