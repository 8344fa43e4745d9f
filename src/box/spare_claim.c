/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Claiming a spare: its keeper is knocked at with the box's specification, gives the machine its
 * new identity and says that it is ready; then its directory and the one that the box was made
 * with change places. Until then the box is as it was, so a spare that fails costs only time.
 */
#include "box/spares.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "base/banned.h"

#define READY_WAIT_MS 2000 /* for a claimed one to have its identity */

static int claim_one(struct holt_box *b, int dir, const char *id, const struct keeper_spec *spec,
	holt_cancel *cancel, struct session **ret, int *ret_owner, holt_error **reterr)
{
	struct session *s = NULL;
	struct session_ready ready;
	auto_fd owner = FD_NONE;
	int r = door_claim(dir, id, spec, b->home->loop, &s, &owner, reterr);

	if (r == 0)
		r = session_wait_ready(s, READY_WAIT_MS, cancel, &ready, reterr);
	/* From here on the box is the spare: what it had before goes under the spare's old name. */
	if (r == 0 && renameat2(dir, id, b->home->boxes_fd, b->rec.id, RENAME_EXCHANGE) < 0)
		r = err_errno(reterr, errno, "cannot give the spare the place of the box");
	if (r < 0) {
		session_close(s);
		return r;
	}
	struct box_dir old = b->dir;
	b->dir = BOX_DIR_INIT;
	(void)snprintf(old.id, sizeof old.id, "%s", id);
	(void)!box_dir_destroy(dir, &old);
	*ret = s;
	*ret_owner = take_fd(owner);
	return 0;
}

int spares_claim(struct holt_box *b, const char *key, const struct keeper_spec *spec,
	holt_cancel *cancel, struct session **ret, int *ret_owner, holt_error **reterr)
{
	auto_fd dir = spares_open(b->home, key);
	char **ids = NULL;
	int r = -HOLT_ENOT_FOUND;

	if (dir >= 0 && spares_list(dir, &ids) < 0)
		return err_nomem(reterr);
	for (size_t i = 0; r < 0 && r != -HOLT_ECANCELLED && ids && ids[i]; i++) {
		auto_error error = NULL;

		if (!spares_is_ready(dir, ids[i]))
			continue;
		r = claim_one(b, dir, ids[i], spec, cancel, ret, ret_owner, &error);
		if (r == 0)
			break;
		log_debug("spares", "spare %s is not used: %s", ids[i], holt_error_message(error));
		/* Another claimer was faster, or it has just ended; else it is of no use. */
		if (r != -HOLT_EBUSY && r != -HOLT_ECLOSED)
			spares_end(dir, ids[i]);
	}
	strv_free(ids);
	return r == 0 ? 0 : err_make(reterr, HOLT_ENOT_FOUND, "no spare is ready");
}
