/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A box whose disk the host cannot write: the file system is full, or a quota is. An error would
 * make the guest lose what programs believe to be written, and its file system would turn read-only
 * until the next start. So QEMU stops the machine (werror=stop), keeps the write, and the box
 * waits:
 *
 *   running --BLOCK_IO_ERROR, action "stop"--> waiting --is there room? cont--> trying --> running
 *                                                 ^------ the write failed again ----'
 *
 * It is shown as paused, with the reason; new commands are refused; what runs goes on by itself. A
 * stop or kill works as always, but what the guest had not written yet is lost. A box that also was
 * paused by somebody goes on when it is unpaused. While it starts there is nothing to keep: it
 * ends.
 */
#include "box/keeper_inside.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>

#include "base/banned.h"

#define RETRY_MS 1000
/* With less the guest would stop again at once, and other boxes could not even be removed. */
#define ROOM_MIN_BYTES (UINT64_C(4) << 20)

static const char why_waiting[] = "the host cannot write its disk: no space left where the home is";

static void set_waiting(struct keeper *k, bool waiting)
{
	k->waiting = waiting;
	k->trying = false;
	relay_set_full(k->relay, waiting);
	(void)snprintf(k->record.text, sizeof k->record.text, "%s", waiting ? why_waiting : "");
	if (k->state == KEEPER_READY && !k->paused) {
		keeper_record(k, waiting ? BOX_PAUSED : BOX_RUNNING);
		keeper_tell(k, waiting ? "pause" : "unpause",
			waiting ? json_pack("{s:s}", "reason", "no space") : NULL);
	}
}

static bool has_room(void)
{
	struct statvfs st;

	return fstatvfs(KEEPER_FD_BOX, &st) < 0 ||
	       (uint64_t)st.f_bavail * st.f_frsize >= ROOM_MIN_BYTES;
}

static void on_retry(uv_timer_t *timer)
{
	struct keeper *k = timer->data;

	if (k->trying)
		space_over(k); /* it has run since the last look */
	else if (!k->paused && k->machine && has_room())
		k->trying = qmp_command(&k->machine->qmp, "cont", NULL, NULL, NULL, NULL) == 0;
}

void space_over(struct keeper *k)
{
	if (!k->waiting)
		return;
	(void)uv_timer_stop(&k->retry);
	set_waiting(k, false);
}

void space_lost(struct keeper *k)
{
	if (k->state == KEEPER_BOOTING) {
		keeper_end(k, WIRE_END_HOST, ENOSPC, "free some space where the home is",
			"the box could not start: %s", why_waiting);
		return;
	}
	k->trying = false;
	if (k->waiting || k->state == KEEPER_ENDING)
		return;
	set_waiting(k, true);
	(void)uv_timer_start(&k->retry, on_retry, RETRY_MS, RETRY_MS);
}
