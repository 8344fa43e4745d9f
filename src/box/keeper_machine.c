/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One attempt at a VM: its process, the channel to its agent, its console and monitor. The guest's
 * frames are hostile: before READY only hello, stage, log, setup_done and fail are accepted, after
 * it only log and what the relay allows.
 */
#include "box/keeper_inside.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/random.h"
#include "base/str.h"
#include "vmm/migrate.h"
#include "base/banned.h"

#define BOOT_ATTEMPTS   2
#define GUEST_QUEUE_MAX (8u << 20) /* bytes waiting for the guest, per lane */
#define CLONE_MS        10000 /* from QEMU's start to a clone's setup_done; then it boots cold */
#define LOST_GRACE_MS   500 /* from the channel's end to QEMU's exit status */

/* Keep the newest bytes of what the console and the agent's log say. */
static void tail_add(struct keeper *k, const void *data, size_t len)
{
	if (len > sizeof k->tail) {
		data = (const char *)data + (len - sizeof k->tail);
		len = sizeof k->tail;
	}
	const size_t keep = k->tail_len + len > sizeof k->tail ? sizeof k->tail - len : k->tail_len;
	memmove(k->tail, k->tail + (k->tail_len - keep), keep);
	memcpy(k->tail + keep, data, len);
	k->tail_len = keep + len;
}

/* ---- its end ---- */

static void machine_unref(struct machine *m)
{
	if (--m->handles == 0)
		mem_free(m);
}

static void machine_handle_closed(uv_handle_t *handle)
{
	machine_unref(handle->data);
}

static void guest_closed(struct channel *ch)
{
	machine_unref(ch->user);
}

static void close_handle(uv_poll_t *poll)
{
	(void)uv_poll_stop(poll);
	uv_close((uv_handle_t *)poll, machine_handle_closed);
}

int machine_end(struct machine *m)
{
	int status = 0;

	if (m->ending)
		return 0;
	m->ending = true;
	if (m->k->machine == m)
		m->k->machine = NULL;
	relay_set_guest(m->k->relay, NULL);
	net_end(m->k);
	close_handle(&m->exited);
	close_handle(&m->console);
	if (m->vm.qmp_fd >= 0) {
		qmp_done(&m->qmp);
		close_handle(&m->monitor);
	}
	channel_close(&m->guest);
	vm_kill(&m->vm, &status);
	return status;
}

/* A template is a shortcut: without it the box boots, and tells why. Its disk is that of a machine
 * that lost power, at worst. */
static void clone_failed(struct keeper *k, const char *why)
{
	char tail[128];
	char text[sizeof k->record.note];

	(void)str_escape(tail, sizeof tail, k->tail, k->tail_len, false);
	(void)snprintf(text, sizeof text, "no clone: %s; last stage '%s'; console: %s", why,
		k->stage, k->tail_len ? tail : "(silent)");
	/* Again, for a character that was cut in two: a note that is no text cannot be written. */
	(void)str_escape(k->record.note, sizeof k->record.note, text, strlen(text), false);
	k->origin = VM_COLD;
	k->attempts = 0;
	machine_start(k);
}

/* The end of one attempt: once more, or the end of the box with all that is known. */
static void boot_failed(struct keeper *k, int errnum, const char *why)
{
	char tail[CONSOLE_TAIL + 1024];

	if (k->machine)
		(void)machine_end(k->machine);
	if (k->spare.is) {
		spare_failed(k, why);
		return;
	}
	if (k->origin == VM_CLONE) {
		clone_failed(k, why);
		return;
	}
	/* Without a template the box boots, so that is tried once. */
	if (k->attempts < BOOT_ATTEMPTS && k->origin == VM_COLD) {
		machine_start(k);
		return;
	}
	(void)str_escape(tail, sizeof tail, k->tail, k->tail_len, true);
	keeper_end(k, WIRE_END_BOOT_FAILED, errnum,
		"run 'holt doctor'; if the machine is very busy, try again or allow more time",
		"%s, in attempt %u of %d; last stage '%s'; console: %s", why, k->attempts,
		k->origin == VM_COLD ? BOOT_ATTEMPTS : 1, k->stage,
		k->tail_len ? tail : "(silent)");
}

static void machine_exited(struct machine *m)
{
	struct keeper *k = m->k;
	const int status = machine_end(m);
	char text[160];

	if (k->state != KEEPER_BOOTING) {
		keeper_vm_ended(k, status);
		return;
	}
	if (WIFSIGNALED(status))
		(void)snprintf(text, sizeof text, "the VM was killed by signal %d (%s)",
			WTERMSIG(status), sigdescr_np(WTERMSIG(status)));
	else
		(void)snprintf(text, sizeof text, "the VM ended by itself with status %d",
			WEXITSTATUS(status));
	boot_failed(k, 0, text);
}

/* For the attempt that is under way. */
static uint64_t boot_limit_ms(const struct keeper *k)
{
	const uint64_t limit_ms = k->spec.boot_timeout_ms;

	return k->origin == VM_CLONE && limit_ms > CLONE_MS ? CLONE_MS : limit_ms;
}

void machine_lost_timeout(struct keeper *k)
{
	char why[96];

	if (k->machine && k->machine->lost) {
		machine_exited(k->machine);
		return;
	}
	(void)snprintf(why, sizeof why, "the guest did not start within %llu ms",
		(unsigned long long)boot_limit_ms(k));
	if (k->state == KEEPER_BOOTING)
		boot_failed(k, ETIMEDOUT, why);
	else if (k->origin == VM_FREEZE)
		freeze_failed(k, "it was not saved in time");
	else if (k->spec.role == KEEPER_SPARE)
		spare_failed(k, why);
}

/* ---- what the guest says ---- */

static void guest_broke(struct machine *m, const char *what)
{
	struct keeper *k = m->k;

	if (k->state == KEEPER_BOOTING && k->attempts < BOOT_ATTEMPTS) {
		boot_failed(k, EPROTO, what);
		return;
	}
	keeper_end(k, WIRE_END_PROTOCOL, EPROTO,
		"something in the guest has taken over its agent, or the agent is from another "
		"version",
		"the guest broke the protocol and was ended: %s", what);
}

int machine_greet(struct machine *m)
{
	const struct wire_msg hello = {.op = WIRE_OP_hello,
		.hello = {.magic = WIRE_MAGIC,
			.version = WIRE_VERSION,
			.oldest = WIRE_OLDEST,
			.build = bytes_of(HOLT_VERSION)}};

	return channel_send(&m->guest, &hello);
}

static int send_setup(struct machine *m)
{
	const struct keeper_spec *spec = &m->k->spec;
	uint8_t seed[WIRE_SEED_SIZE];
	char machine_id[WIRE_MACHINE_ID_LEN + 1];

	/* The box's id, which is half as long, twice: the same at each start. */
	(void)snprintf(machine_id, sizeof machine_id, "%.16s%.16s", spec->id, spec->id);
	if (random_bytes(seed, sizeof seed) < 0)
		return -EIO;
	const struct wire_msg setup = {.op = WIRE_OP_setup,
		.setup = {.wall_ns = clock_wall_ns(),
			.seed = {seed, sizeof seed},
			.hostname = bytes_of(spec->hostname),
			.machine_id = bytes_of(machine_id),
			.mac = {spec->mac, sizeof spec->mac}}};
	return channel_send(&m->guest, &setup);
}

/* A clone answers a hello, all others say theirs first. */
static int answer_hello(struct machine *m)
{
	struct keeper *k = m->k;
	const int r = k->origin == VM_CLONE ? 0 : machine_greet(m);

	if (r < 0 || k->origin != VM_FREEZE || !k->spec.bare)
		return r < 0 ? r : send_setup(m);
	freeze_begin(k, m);
	return 0;
}

/* A clone of a template boots instead, with what there is now. */
static void setup_failed(struct machine *m, int errnum, const char *text)
{
	struct keeper *k = m->k;

	if (k->origin == VM_CLONE) {
		boot_failed(k, errnum, text);
		return;
	}
	keeper_end(k, WIRE_END_SETUP_FAILED, errnum,
		"if the image is damaged, remove it and import it again",
		"the guest could not set itself up: %s", text);
}

static void guest_hello(struct machine *m, const struct wire_hello *hello)
{
	struct keeper *k = m->k;

	if (m->greeted || hello->magic != WIRE_MAGIC || hello->version < WIRE_OLDEST ||
		hello->oldest > WIRE_VERSION) {
		guest_broke(m, "its hello is not one that this version understands");
		return;
	}
	m->greeted = true;
	k->hello_us = clock_mono_us() - k->started_us;
	keeper_set_stage(k, "hello", 5);
	k->net.known = (hello->features & WIRE_FEATURE_NETWORK) != 0;
	if (net_wanted(k) && !k->net.known)
		setup_failed(m, EPROTONOSUPPORT,
			"its agent is of an earlier version, which knows no network");
	else if (answer_hello(m) < 0)
		boot_failed(k, EIO, "cannot send the setup to the guest");
	else if (k->machine == m && k->state == KEEPER_BOOTING)
		net_greeted(k);
}

static void guest_setup_failed(struct machine *m, const struct wire_fail *fail)
{
	char text[512];

	keeper_set_stage(m->k, fail->stage.data, fail->stage.len);
	(void)str_escape(text, sizeof text, fail->text.data, fail->text.len, false);
	setup_failed(m, (int)fail->errnum, text);
}

/* It is set up, and so is its network. */
void machine_ready_perhaps(struct machine *m)
{
	if (m->k->state == KEEPER_BOOTING && m->set_up && net_is_ready(m->k))
		keeper_ready(m->k, m);
}

static void guest_set_up(struct machine *m)
{
	struct keeper *k = m->k;

	m->set_up = true;
	if (k->origin == VM_FREEZE)
		freeze_begin(k, m);
	else if (k->spec.role == KEEPER_SPARE)
		spare_begin(k, m);
	else
		machine_ready_perhaps(m);
}

static void guest_boot_frame(struct machine *m, const struct wire_msg *msg)
{
	struct keeper *k = m->k;

	switch (msg->op) {
	case WIRE_OP_hello:
		guest_hello(m, &msg->hello);
		return;
	case WIRE_OP_stage:
		keeper_set_stage(k, msg->stage.name.data, msg->stage.name.len);
		return;
	case WIRE_OP_setup_done:
		if (m->greeted && !m->set_up && msg->stream == 0) {
			guest_set_up(m);
			return;
		}
		break;
	case WIRE_OP_done:
		if (m->set_up && msg->stream == NET_STREAM && net_guest_done(k)) {
			machine_ready_perhaps(m);
			return;
		}
		break;
	case WIRE_OP_fail:
		if (msg->stream == 0 || (msg->stream == NET_STREAM && k->net.told)) {
			guest_setup_failed(m, &msg->fail);
			return;
		}
		break;
	default:
		break;
	}
	guest_broke(m, "a frame that does not belong into the start");
}

static void guest_frame(struct channel *ch, enum wire_lane lane, const struct wire_msg *msg)
{
	struct machine *m = ch->user;
	struct keeper *k = m->k;
	const char *what = "";

	(void)lane;
	if (msg->op == WIRE_OP_log) {
		tail_add(k, msg->log.text.data, msg->log.text.len);
		tail_add(k, "\n", 1);
		return;
	}
	if (k->state == KEEPER_BOOTING) {
		guest_boot_frame(m, msg);
		return;
	}
	if (k->origin == VM_FREEZE && msg->op == WIRE_OP_stage) {
		keeper_set_stage(k, msg->stage.name.data, msg->stage.name.len);
		return;
	}
	const int r = relay_from_guest(k->relay, msg, &what);
	if (r == -EPROTO)
		guest_broke(m, what);
	else if (r < 0)
		clients_drop_broken(k);
}

static void guest_lost(struct channel *ch, int errnum, const char *what)
{
	struct machine *m = ch->user;

	if (m->ending)
		return;
	if (errnum == EPROTO) {
		guest_broke(m, what);
		return;
	}
	/* QEMU is ending: its exit status says why, and comes at once. */
	m->lost = true;
	relay_set_guest(m->k->relay, NULL);
	(void)uv_timer_stop(&m->k->watchdog);
	(void)uv_timer_start(&m->k->watchdog, m->k->watchdog.timer_cb, LOST_GRACE_MS, 0);
}

static void guest_drained(struct channel *ch, enum wire_lane lane)
{
	struct machine *m = ch->user;

	clients_resume(m->k, lane);
}

static const struct channel_ops guest_ops = {
	.on_frame = guest_frame,
	.on_lost = guest_lost,
	.on_drain = guest_drained,
	.on_closed = guest_closed,
};

/* ---- events of its process ---- */

static void on_vm_exit(uv_poll_t *poll, int status, int events)
{
	(void)status;
	(void)events;
	machine_exited(poll->data);
}

static void on_console(uv_poll_t *poll, int status, int events)
{
	struct machine *m = poll->data;
	char chunk[4096];

	(void)events;
	const ssize_t n = status < 0 ? 0 : read(m->vm.console_fd, chunk, sizeof chunk);
	if (n > 0)
		tail_add(m->k, chunk, (size_t)n);
	else if (n == 0 || errno != EAGAIN)
		(void)uv_poll_stop(poll);
}

static void on_monitor(uv_poll_t *poll, int status, int events)
{
	struct machine *m = poll->data;
	char chunk[4096];

	(void)events;
	const ssize_t n = status < 0 ? 0 : read(m->vm.qmp_fd, chunk, sizeof chunk);
	if (n < 0 && errno == EAGAIN)
		return;
	/* Without a monitor the box cannot be paused; that is all. */
	if (n <= 0 || qmp_feed(&m->qmp, chunk, (size_t)n, NULL) < 0) {
		(void)uv_poll_stop(poll);
		qmp_done(&m->qmp);
	}
}

static int monitor_write(const void *data, size_t len, int fd, void *user)
{
	struct machine *m = user;
	const ssize_t n = fd_send(m->vm.qmp_fd, data, len, fd);

	return n == (ssize_t)len ? 0 : n < 0 ? (int)n : -EIO;
}

static void monitor_event(const char *name, const json_t *data, void *user)
{
	struct machine *m = user;
	const char *action = NULL;

	if (!m->ending && m->k->origin == VM_FREEZE)
		freeze_event(m->k, name, data);
	else if (!m->ending && strcmp(name, "BLOCK_IO_ERROR") == 0 &&
		 json_get_str(data, "action", &action, NULL) == 0 && action &&
		 strcmp(action, "stop") == 0)
		space_lost(m->k);
}

static const struct qmp_ops monitor_ops = {.write = monitor_write, .on_event = monitor_event};

/* ---- start ---- */

/* QEMU says why on its console, and ends. */
static void on_restoring(const json_t *data, const holt_error *error, void *user)
{
	struct machine *m = user;

	(void)data;
	if (error && !m->ending)
		tail_add(m->k, holt_error_message(error), strlen(holt_error_message(error)));
}

/* It wakes where the template came to rest: waiting for a hello. */
static int machine_wake(struct machine *m)
{
	return migrate_restore(&m->qmp, on_restoring, m, NULL) < 0 ? -EIO : machine_greet(m);
}

static int machine_poll(struct machine *m, uv_poll_t *poll, int fd, uv_poll_cb fn)
{
	poll->data = m;
	if (uv_poll_init(&m->k->loop, poll, fd) < 0)
		return -EIO;
	m->handles++;
	return uv_poll_start(poll, UV_READABLE, fn) < 0 ? -EIO : 0;
}

static int machine_watch(struct machine *m)
{
	int r = machine_poll(m, &m->exited, m->vm.proc.pidfd, on_vm_exit);

	if (r == 0)
		r = machine_poll(m, &m->console, m->vm.console_fd, on_console);
	if (r == 0 && m->vm.qmp_fd >= 0)
		r = machine_poll(m, &m->monitor, m->vm.qmp_fd, on_monitor);
	if (r == 0 && m->vm.qmp_fd >= 0)
		r = qmp_init(&m->qmp, &monitor_ops, m, NULL);
	if (r < 0)
		return r;
	m->handles++;
	return channel_init(&m->guest, &m->k->loop, WIRE_AS_HOST, take_fd(m->vm.control_fd),
		take_fd(m->vm.bulk_fd), GUEST_QUEUE_MAX, &guest_ops, m);
}

static struct vm_spec vm_spec_of(const struct keeper *k)
{
	const uint8_t *mac = k->spec.mac;

	return (struct vm_spec){.origin = k->origin,
		.bare = k->spec.bare,
		.kvm = k->spec.kvm,
		.loud = k->attempts > 0 && k->origin == VM_COLD,
		.memory_mib = k->spec.memory_mib,
		.cpus = k->spec.cpus,
		.tsc_khz = k->spec.tsc_khz,
		.mac = {mac[0], mac[1], mac[2], mac[3], mac[4], mac[5]},
		.kernel_fd = KEEPER_FD_KERNEL,
		.initrd_fd = KEEPER_FD_INITRD,
		.rootfs_fd = KEEPER_FD_ROOTFS,
		.disk_fd = KEEPER_FD_DISK,
		.lock_fd = KEEPER_FD_VM_LOCK,
		.memory_fd = k->origin == VM_COLD ? FD_NONE : KEEPER_FD_MEMORY,
		.state_fd = k->origin == VM_CLONE ? KEEPER_FD_STATE : FD_NONE,
		.disk_bytes = k->spec.disk_bytes,
		.box_id = k->spec.id,
		.reduced = k->spec.jail_reduced,
		.run_with = k->spec.run_with};
}

/* A clone lacks something that a boot does not need; what a boot lacks is not there a second time
 * either. */
static void start_failed(struct keeper *k, const holt_error *error)
{
	if (*holt_error_stage(error))
		keeper_set_stage(k, holt_error_stage(error), strlen(holt_error_stage(error)));
	if (k->origin == VM_CLONE)
		boot_failed(k, holt_error_errno(error), holt_error_message(error));
	else
		keeper_end(k, WIRE_END_HOST, holt_error_errno(error), holt_error_hint(error),
			"cannot start the VM: %s", holt_error_message(error));
}

void keeper_note_jail(struct box_jail *ret, const struct jail_state *jail)
{
	size_t len = 0;

	*ret = (struct box_jail){.known = jail->on != 0 || jail->missing[0],
		.reduced = jail->reduced,
		.uid = jail->uid};
	for (int i = 0; i < JAIL_LAYERS; i++) {
		if (jail->on & 1u << i)
			len += (size_t)snprintf(ret->layers + len, sizeof ret->layers - len, "%s%s",
				len ? ", " : "", jail_layer_name((enum jail_layer)i));
	}
	(void)str_escape(
		ret->missing, sizeof ret->missing, jail->missing, strlen(jail->missing), false);
}

void machine_start(struct keeper *k)
{
	auto_error error = NULL;
	const struct vm_spec spec = vm_spec_of(k);

	if (k->origin == VM_FREEZE && freeze_reset(k) < 0)
		return;
	struct machine *m = mem_zalloc(sizeof *m);
	k->attempts++;
	k->tail_len = 0;
	keeper_set_stage(k, "vmm", 3);
	k->started_us = clock_mono_us();
	if (!m) {
		keeper_end(k, WIRE_END_HOST, ENOMEM, "", "no memory for the keeper");
		return;
	}
	m->k = k;
	m->vm = VM_INIT;
	m->qmp = QMP_INIT;
	if (k->engine->start(&spec, &m->vm, &error) < 0) {
		mem_free(m);
		start_failed(k, error);
		return;
	}
	k->vmm_us = clock_mono_us() - k->started_us;
	keeper_note_jail(&k->record.jail, &m->vm.jail);
	keeper_set_stage(k, "kernel", 6);
	k->machine = m;
	if (machine_watch(m) < 0) {
		/* Only without descriptors or memory; the process ends and its VM with it. */
		vm_kill(&m->vm, NULL);
		_exit(1);
	}
	(void)uv_timer_start(&k->watchdog, k->watchdog.timer_cb, boot_limit_ms(k), 0);
	if (k->origin == VM_CLONE && machine_wake(m) < 0)
		boot_failed(k, EIO, "the monitor or the guest could not be reached");
	else if (k->spec.role != KEEPER_SPARE)
		net_start(k, m);
}
