/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making a template: a keeper of this role boots a machine whose memory is a file, lets the agent
 * come to rest, has QEMU save the devices, and ends. What it leaves are the memory, the devices'
 * state and the disk of one moment, which belong together.
 *
 *   BOOTING --setup_done (bare: hello)--> network --done--> park --done--> rest --idle--> save
 *                    where it is a pool's  '-- directories -'          ENDING <--completed--'
 *
 * Rest: for a while after its boot a kernel still has work that nobody waits for. Frozen into a
 * template, every clone would begin by doing it (seen: 0.3 to 0.9 s instead of 0.05). So the
 * machine is saved when it has hardly used the processor for QUIET_LOOKS * LOOK_MS.
 *
 * The memory is not in the saved state: the file is the memory (x-ignore-shared). After "completed"
 * the machine stands still, so killing it loses nothing.
 */
#include "box/keeper_inside.h"

#include <errno.h>
#include <time.h>
#include <unistd.h>

#include "base/str.h"
#include "vmm/migrate.h"
#include "base/banned.h"

#define FREEZE_MS   20000 /* from the end of the boot to the end; then there is no template */
#define LOOK_MS     100
#define QUIET_NS    3000000 /* of processor time between two looks: 3 % */
#define QUIET_LOOKS 4
#define LOOKS_MAX   50 /* then it is saved as it is */

void freeze_failed(struct keeper *k, const char *why)
{
	keeper_end(k, WIRE_END_BOOT_FAILED, EIO, "boxes of the image boot without a template",
		"the machine could not be frozen: %s; last stage '%s'", why, k->stage);
}

int freeze_reset(struct keeper *k)
{
	/* Nothing but holes, and of the machine's size. */
	if (ftruncate(KEEPER_FD_STATE, 0) == 0 && ftruncate(KEEPER_FD_MEMORY, 0) == 0 &&
		ftruncate(KEEPER_FD_MEMORY, (off_t)k->spec.memory_mib << 20) == 0)
		return 0;
	const int errnum = errno;
	keeper_end(k, WIRE_END_HOST, errnum, "free some space on the file system of the home",
		"the memory of a template cannot be made: %s", strerror(errnum));
	return -errnum;
}

/* Once for each command. */
static void on_asked(const json_t *data, const holt_error *error, void *user)
{
	struct keeper *k = user;

	(void)data;
	if (error && k->state != KEEPER_ENDING)
		freeze_failed(k, holt_error_message(error));
}

static void save(struct keeper *k)
{
	keeper_set_stage(k, "save", 4);
	if (migrate_freeze(&k->machine->qmp, KEEPER_FD_STATE, on_asked, k, NULL) < 0)
		freeze_failed(k, "QEMU could not be asked to save it");
}

/* Processor time that the machine has had; 0 where it cannot be told. */
static uint64_t machine_cpu_ns(const struct keeper *k)
{
	struct timespec used = {0};
	clockid_t clock;

	if (clock_getcpuclockid(k->machine->vm.proc.pid, &clock) != 0 ||
		clock_gettime(clock, &used) < 0)
		return 0;
	return (uint64_t)used.tv_sec * 1000000000u + (uint64_t)used.tv_nsec;
}

static void on_look(uv_timer_t *timer)
{
	struct keeper *k = timer->data;
	const uint64_t now_ns = k->machine ? machine_cpu_ns(k) : 0;

	if (!k->machine)
		return;
	k->resting.quiet = now_ns - k->resting.cpu_ns < QUIET_NS ? k->resting.quiet + 1 : 0;
	k->resting.cpu_ns = now_ns;
	if (k->resting.quiet < QUIET_LOOKS && ++k->resting.looks < LOOKS_MAX)
		return;
	(void)uv_timer_stop(timer);
	save(k);
}

/* What the agent was asked for is done; otherwise it is over. */
static bool is_done(struct keeper *k, const struct wire_msg *msg)
{
	char text[256];

	if (!msg || !k->machine)
		return false; /* it is over anyway */
	if (msg->op == WIRE_OP_done)
		return true;
	(void)str_escape(text, sizeof text, msg->fail.text.data, msg->fail.text.len, false);
	freeze_failed(k, text);
	return false;
}

static void on_parked(void *user, const struct wire_msg *msg)
{
	struct keeper *k = user;

	if (!is_done(k, msg))
		return;
	keeper_set_stage(k, "rest", 4);
	k->resting = (struct keeper_resting){.cpu_ns = machine_cpu_ns(k)};
	(void)uv_timer_start(&k->retry, on_look, LOOK_MS, LOOK_MS);
}

static void park(struct keeper *k)
{
	keeper_set_stage(k, "park", 4);
	if (relay_ask(k->relay, &(struct wire_msg){.op = WIRE_OP_park}, on_parked, k) < 0)
		freeze_failed(k, "the agent could not be asked to come to rest");
}

static void on_directories(void *user, const struct wire_msg *msg)
{
	struct keeper *k = user;

	if (is_done(k, msg))
		park(k);
}

static void ask_directories(struct keeper *k)
{
	const struct keeper_directories *d = &k->spec.directories;
	const struct wire_msg msg = {.op = WIRE_OP_directories,
		.directories = {.user = bytes_of(d->owner),
			.paths = {
				.data = (const uint8_t *)d->paths, .len = d->len, .count = d->n}}};

	keeper_set_stage(k, "directories", 11);
	if (relay_ask(k->relay, &msg, on_directories, k) < 0)
		freeze_failed(k, "the agent could not be asked for directories");
}

static void ask_or_park(struct keeper *k)
{
	if (k->spec.directories.n > 0)
		ask_directories(k);
	else
		park(k);
}

static void on_network(void *user, const struct wire_msg *msg)
{
	struct keeper *k = user;

	if (is_done(k, msg))
		ask_or_park(k);
}

static void ask_network(struct keeper *k)
{
	keeper_set_stage(k, "network", 7);
	if (net_prepare(k, on_network) < 0)
		freeze_failed(k, "the agent could not be asked to set its network card up");
}

void freeze_begin(struct keeper *k, struct machine *m)
{
	k->state = KEEPER_READY;
	relay_set_guest(k->relay, &m->guest);
	(void)uv_timer_start(&k->watchdog, k->watchdog.timer_cb, FREEZE_MS, 0);
	if (k->net.known)
		ask_network(k);
	else
		ask_or_park(k);
}

void freeze_event(struct keeper *k, const char *name, const json_t *data)
{
	switch (migrate_progress(name, data)) {
	case MIGRATE_DONE:
		keeper_end(k, WIRE_END_FROZEN, 0, "", "the template is complete");
		break;
	case MIGRATE_FAILED:
		freeze_failed(k, "QEMU could not save it");
		break;
	case MIGRATE_NONE:
		break;
	}
}
