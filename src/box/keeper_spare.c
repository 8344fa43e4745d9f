/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A spare: a clone that waits, paused, for somebody who wants a box.
 *
 *   BOOTING --setup_done--> READY: park (warms up) --done--> stop --> WAITING
 *                                                                        | claimed by a knock
 *   READY <--setup_done-- hello, setup with its new identity <-- cont -- BOOTING
 *
 * It has no owner and listens only while it waits, so that nobody finds one that is not ready. Its
 * directory lies in spares/ until the claimer gives it the place of the box's own (spare_claim.c).
 * It ends by itself when its time is over or the host's memory gets scarce. Whatever goes wrong
 * ends it: the claimer then does without.
 */
#include "box/keeper_inside.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/fsutil.h"
#include "box/box_dir.h"
#include "box/spare_memory.h"
#include "base/banned.h"

#define LOOK_MS         5000 /* between two looks at the host's memory, at most */
#define MEMINFO_MAX     16384
#define CLAIMER_GONE_MS 200 /* for a claimer that was killed to be gone entirely */

static void spare_look(uv_timer_t *timer);

void spare_failed(struct keeper *k, const char *why)
{
	keeper_end(k, WIRE_END_HOST, EIO, "", "the spare is of no use: %s; last stage '%s'", why,
		k->stage);
}

/* ---- getting ready ---- */

static void look_again(struct keeper *k, uint64_t left_ms)
{
	(void)uv_timer_start(&k->retry, spare_look, left_ms < LOOK_MS ? left_ms : LOOK_MS, 0);
}

static void on_stopped(const json_t *data, const holt_error *error, void *user)
{
	struct keeper *k = user;

	(void)data;
	if (k->state == KEEPER_ENDING)
		return;
	if (error) {
		spare_failed(k, "it could not be paused");
		return;
	}
	k->state = KEEPER_WAITING;
	keeper_set_stage(k, "spare", 5);
	(void)uv_timer_stop(&k->watchdog);
	k->spare.until_ms = clock_mono_ms() + k->spec.lifetime_ms;
	look_again(k, k->spec.lifetime_ms);
	k->record.vmm_pid = k->machine->vm.proc.pid;
	/* Who reads that it waits finds it listening. */
	if (clients_listen(k) < 0)
		spare_failed(k, "it cannot listen");
	else
		keeper_record(k, BOX_PAUSED);
}

static void on_warm(void *user, const struct wire_msg *msg)
{
	struct keeper *k = user;

	if (!msg || !k->machine)
		return; /* it is over anyway */
	if (msg->op != WIRE_OP_done)
		spare_failed(k, "it did not come to rest");
	else if (qmp_command(&k->machine->qmp, "stop", NULL, on_stopped, k, NULL) < 0)
		spare_failed(k, "it could not be paused");
}

void spare_begin(struct keeper *k, struct machine *m)
{
	k->state = KEEPER_READY;
	relay_set_guest(k->relay, &m->guest);
	if (relay_ask(k->relay, &(struct wire_msg){.op = WIRE_OP_park}, on_warm, k) < 0)
		spare_failed(k, "it could not be asked to come to rest");
}

/* ---- waiting ---- */

static bool memory_is_scarce(void)
{
	auto_free char *text = NULL;

	return fs_read_file(AT_FDCWD, "/proc/meminfo", MEMINFO_MAX, &text, NULL) == 0 &&
	       spare_memory_is_scarce(text);
}

static void spare_look(uv_timer_t *timer)
{
	struct keeper *k = timer->data;
	const uint64_t now_ms = clock_mono_ms();

	if (k->state != KEEPER_WAITING)
		return;
	if (now_ms >= k->spare.until_ms || memory_is_scarce())
		keeper_end(k, WIRE_END_STOPPED, 0, "", "the spare is not needed any more");
	else
		look_again(k, k->spare.until_ms - now_ms);
}

/* ---- the claim ---- */

static void on_running(const json_t *data, const holt_error *error, void *user)
{
	struct keeper *k = user;

	(void)data;
	if (error && k->state != KEEPER_ENDING)
		spare_failed(k, "it could not go on");
}

/* What is the box's from now on. */
static int adopt_spec(struct keeper *k, int owner_fd)
{
	struct keeper_spec spec;

	if (keeper_spec_read(owner_fd, &spec, NULL) < 0)
		return -EINVAL;
	/* A reduced one was made for somebody who is content with less. */
	const int r = spec.role != KEEPER_BOX                        ? -EINVAL
		      : k->record.jail.reduced && !spec.jail_reduced ? -EPERM
								     : 0;
	if (r < 0) {
		keeper_spec_done(&spec);
		return r;
	}
	keeper_spec_done(&k->spec);
	k->spec = spec;
	k->log = BOX_LOG_INIT(KEEPER_FD_BOX, spec.log_bytes);
	k->record.started_ns = clock_wall_ns();
	k->started_us = clock_mono_us();
	return 0;
}

void spare_claim(struct keeper *k, int owner_fd, int control_fd, int bulk_fd)
{
	/* All of the specification is in the pipe already, or nothing of it. */
	int r = fd_nonblock(owner_fd);

	if (r == 0)
		r = adopt_spec(k, owner_fd);
	const int watched = keeper_watch_owner(k, owner_fd);
	const int added = client_add(k, control_fd, bulk_fd);
	k->maker = added == 0 ? k->clients : NULL;
	k->detached = false;
	k->state = KEEPER_BOOTING;
	k->machine->greeted = k->machine->set_up = false;
	keeper_set_stage(k, "claim", 5);
	(void)uv_timer_stop(&k->retry);
	(void)uv_timer_start(&k->watchdog, k->watchdog.timer_cb, SPARE_CLAIM_MS, 0);
	if (r < 0 || watched < 0 || added < 0)
		spare_failed(k, "it was claimed in a wrong way");
	else if (qmp_command(&k->machine->qmp, "cont", NULL, on_running, k, NULL) < 0 ||
		 machine_greet(k->machine) < 0)
		spare_failed(k, "it could not go on");
	else
		net_start(k, k->machine);
}

/* ---- the end ---- */

static void remove_among_spares(const struct keeper *k)
{
	char path[sizeof SPARES_DIR + sizeof k->spare.key];

	(void)snprintf(path, sizeof path, SPARES_DIR "/%s", k->spare.key);
	auto_fd dir = openat(KEEPER_FD_HOME, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	/* After a claim there is nothing, or what the box had before and its claimer did not come
	 * to remove. */
	if (dir >= 0)
		(void)!box_dir_remove(dir, k->spare.id);
}

bool spare_leave(struct keeper *k)
{
	auto_fd boxes = openat(KEEPER_FD_HOME, "boxes", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const bool claimed = k->spec.role != KEEPER_SPARE;
	/* Whether the claimer has put our directory into the place of the box's. */
	const bool placed = claimed && boxes >= 0 && fs_is_named(KEEPER_FD_BOX, boxes, k->spec.id);
	struct box_dir d = BOX_DIR_INIT;

	remove_among_spares(k);
	/* A claimer that lives goes on with the box in another way, and holds its locks. */
	if (claimed && !placed && !k->spec.keep && boxes >= 0 &&
		box_dir_lock(boxes, k->spec.id, CLAIMER_GONE_MS, &d) == 0)
		(void)!box_dir_destroy(boxes, &d);
	return placed;
}
