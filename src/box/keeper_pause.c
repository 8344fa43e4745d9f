/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pausing: the agent freezes all programs, then QEMU stops the machine. On the way back the machine
 * runs first, the agent sets the clock and then lets the programs go on: none of them ever sees the
 * time that was missed as a clock that is wrong.
 *
 *   RUNNING --freeze--> done --stop--> PAUSED --cont--> running --freeze off, time--> RUNNING
 *
 * One change at a time, asked for by a client or by the keeper itself (keeper_lease.c). Without a
 * monitor (fake engine) only the programs are stopped.
 */
#include "box/keeper_inside.h"

#include <errno.h>

#include "base/clock.h"
#include "base/banned.h"

void pause_client_gone(struct keeper *k, const struct keeper_client *c)
{
	if (k->pausing.client == c)
		k->pausing.client = NULL;
}

static void answer(struct keeper *k, const char *failure)
{
	struct keeper_client *c = k->pausing.client;

	k->pausing.busy = false;
	k->pausing.client = NULL;
	if (c && c->relay && failure)
		(void)!relay_refuse(c->relay, k->pausing.stream, WIRE_FAIL_INTERNAL, EIO, failure);
	else if (c && c->relay)
		(void)!relay_done(c->relay, k->pausing.stream);
	lease_pause_over(k, failure);
}

static void set_paused(struct keeper *k, bool paused)
{
	k->paused = paused;
	relay_set_paused(k->relay, paused);
	if (k->state == KEEPER_READY) {
		keeper_record(k, paused ? BOX_PAUSED : BOX_RUNNING);
		keeper_tell(k, paused ? "pause" : "unpause", NULL);
	}
}

static int ask_freeze(struct keeper *k, bool on, void (*fn)(void *, const struct wire_msg *))
{
	return relay_ask(k->relay,
		&(struct wire_msg){.op = WIRE_OP_freeze,
			.freeze = {.on = on, .wall_ns = on ? 0 : clock_wall_ns()}},
		fn, k);
}

/* ---- pause ---- */

static void on_stopped(const json_t *data, const holt_error *error, void *user)
{
	struct keeper *k = user;

	(void)data;
	if (!error && k->state != KEEPER_READY) {
		/* A stop came meanwhile, and needs the machine. */
		k->paused = true;
		pause_lift(k);
		answer(k, "the box is just ending");
	} else if (error) {
		/* The programs shall not stay frozen in a machine that runs. */
		(void)!ask_freeze(k, false, NULL);
		answer(k, "QEMU could not stop the machine");
	} else {
		set_paused(k, true);
		answer(k, NULL);
	}
}

static void on_frozen(void *user, const struct wire_msg *msg)
{
	struct keeper *k = user;

	if (!msg || msg->op != WIRE_OP_done || !k->machine) {
		answer(k, "the agent could not stop the programs");
	} else if (k->state != KEEPER_READY || k->machine->vm.qmp_fd < 0) {
		on_stopped(NULL, NULL, k);
	} else if (qmp_command(&k->machine->qmp, "stop", NULL, on_stopped, k, NULL) < 0) {
		(void)!ask_freeze(k, false, NULL);
		answer(k, "QEMU could not be asked to stop the machine");
	}
}

/* ---- unpause ---- */

static void on_thawed(void *user, const struct wire_msg *msg)
{
	struct keeper *k = user;

	if (!msg || msg->op != WIRE_OP_done) {
		answer(k, "the agent could not let the programs go on");
		return;
	}
	set_paused(k, false);
	answer(k, NULL);
}

static void on_running(const json_t *data, const holt_error *error, void *user)
{
	struct keeper *k = user;

	(void)data;
	if (error || ask_freeze(k, false, on_thawed) < 0)
		answer(k, "QEMU could not let the machine go on");
}

void pause_lift(struct keeper *k)
{
	if (!k->paused || !k->machine)
		return;
	k->paused = false;
	relay_set_paused(k->relay, false);
	if (k->machine->vm.qmp_fd >= 0)
		(void)!qmp_command(&k->machine->qmp, "cont", NULL, NULL, NULL, NULL);
	/* Waits in the channel until the machine runs. */
	(void)!ask_freeze(k, false, NULL);
}

/* What k->pausing says. */
static void begin(struct keeper *k)
{
	const bool on = k->pausing.on;
	int r = 0;

	if (!on)
		space_over(k);
	if (k->paused == on)
		answer(k, NULL);
	else if (on)
		r = ask_freeze(k, true, on_frozen);
	else if (k->machine->vm.qmp_fd < 0)
		on_running(NULL, NULL, k);
	else
		r = qmp_command(&k->machine->qmp, "cont", NULL, on_running, k, NULL);
	if (r < 0)
		answer(k, "the machine could not be asked");
}

void pause_begin(struct keeper *k, bool on)
{
	k->pausing = (struct keeper_pausing){.busy = true, .on = on};
	begin(k);
}

void pause_ask(struct keeper *k, struct keeper_client *c, const struct wire_msg *msg)
{
	const bool on = msg->pause.on;

	if (k->state != KEEPER_READY || !k->machine) {
		(void)!relay_refuse(c->relay, msg->stream, WIRE_FAIL_ENDING, ESHUTDOWN,
			"the box is not running");
		return;
	}
	if (k->waiting && !k->paused) {
		(void)!relay_refuse(c->relay, msg->stream, WIRE_FAIL_NO_SPACE, ENOSPC,
			"the box waits for space on the host's disk");
		return;
	}
	if (k->pausing.busy) {
		(void)!relay_refuse(c->relay, msg->stream, WIRE_FAIL_BUSY, EBUSY,
			"the box is just being paused or unpaused");
		return;
	}
	k->pausing = (struct keeper_pausing){
		.client = c, .stream = msg->stream, .busy = true, .on = on};
	begin(k);
}
