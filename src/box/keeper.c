/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keeper process: owner of one box's VM. Theory of operation.
 *
 * It is started by the library with everything it needs as descriptors (keeper.h) and stays when
 * its maker ends only as long as the owner pipe is open. One uv loop, one thread: QEMU's
 * parent-death signal follows that thread.
 *
 *   BOOTING --hello, setup_done--> READY --anything ends--> ENDING --handles closed--> exit
 *      |  attempt 1 fails: the same again, loud (serial console), so that the error has a cause
 *
 * A machine is one attempt: a VM, the channel to its agent, its console. It dies as a whole and is
 * freed when its last handle has closed. The guest's frames are hostile: before READY only hello,
 * stage, log, setup_done and fail are accepted, after it only log and what the relay allows.
 *
 * Ending: tell the client why, kill the VM, remove the box's directory, then close the client's
 * sockets: whoever sees their end-of-file finds nothing left.
 */
#include "box/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/digest.h"
#include "base/fd.h"
#include "base/fsutil.h"
#include "base/mem.h"
#include "base/str.h"
#include "box/channel.h"
#include "box/relay.h"
#include "base/banned.h"

#define BOOT_ATTEMPTS    2
#define CONSOLE_TAIL     3072u /* bytes of console kept for an error */
#define GUEST_QUEUE_MAX  (8u << 20) /* bytes waiting for the guest, per lane */
#define GUEST_QUEUE_HIGH (4u << 20) /* above this, clients are not read */
#define CLIENT_QUEUE_MAX (64u << 20) /* bytes waiting for a client that does not read */
#define LOST_GRACE_MS    500 /* from the channel's end to QEMU's exit status */
#define DISK_GENERATION  1

enum keeper_state { KEEPER_BOOTING, KEEPER_READY, KEEPER_ENDING };

struct keeper;

struct machine {
	struct keeper *k;
	struct vm vm;
	struct channel guest;
	uv_poll_t exited;
	uv_poll_t console;
	int handles; /* still open: the two above and the channel */
	bool ending;
	bool greeted;
	bool lost;
};

struct keeper {
	const struct vm_engine *engine;
	struct keeper_spec spec;
	uv_loop_t loop;
	uv_poll_t owner;
	uv_signal_t term;
	uv_timer_t watchdog;
	enum keeper_state state;
	unsigned attempts;
	struct machine *machine; /* the current one, or NULL */
	struct channel client;
	struct relay_client *relay_client; /* NULL: the client has left */
	struct relay *relay;
	char stage[64];
	char tail[CONSOLE_TAIL];
	size_t tail_len;
	uint64_t started_us;
	uint64_t vmm_us;
	uint64_t hello_us;
};

static void machine_start(struct keeper *k);

static struct wire_bytes bytes_of(const char *s)
{
	return (struct wire_bytes){.data = (const uint8_t *)s, .len = (uint32_t)strlen(s)};
}

static void set_stage(struct keeper *k, const void *name, size_t len)
{
	(void)str_escape(k->stage, sizeof k->stage, name, len, false);
}

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

/* ---- machine ---- */

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

/* Kill it and let its handles go; it frees itself later. Returns the wait status. */
static int machine_end(struct machine *m)
{
	int status = 0;

	if (m->ending)
		return 0;
	m->ending = true;
	if (m->k->machine == m)
		m->k->machine = NULL;
	relay_set_guest(m->k->relay, NULL);
	(void)uv_poll_stop(&m->exited);
	(void)uv_poll_stop(&m->console);
	uv_close((uv_handle_t *)&m->exited, machine_handle_closed);
	uv_close((uv_handle_t *)&m->console, machine_handle_closed);
	channel_close(&m->guest);
	vm_kill(&m->vm, &status);
	return status;
}

/* ---- the end ---- */

static void ignore_close(uv_handle_t *handle)
{
	(void)handle;
}

static void keeper_end(struct keeper *k, enum wire_end_reason reason, int errnum, const char *hint,
	const char *fmt, ...) __attribute__((format(__printf__, 5, 6)));

static void keeper_end(struct keeper *k, enum wire_end_reason reason, int errnum, const char *hint,
	const char *fmt, ...)
{
	char text[CONSOLE_TAIL * 2];
	va_list ap;

	if (k->state == KEEPER_ENDING)
		return;
	k->state = KEEPER_ENDING;
	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	const struct wire_msg ended = {.op = WIRE_OP_ended,
		.ended = {.reason = (uint16_t)reason,
			.errnum = (uint32_t)errnum,
			.stage = bytes_of(k->stage),
			.text = bytes_of(text),
			.hint = bytes_of(hint)}};
	if (k->relay_client)
		(void)!channel_send(&k->client, &ended);
	if (k->machine)
		(void)machine_end(k->machine);
	/* What cannot be removed now is removed by the next process that opens the home. */
	(void)!fs_remove_tree(KEEPER_FD_BOXES, k->spec.id);
	relay_client_remove(k->relay, k->relay_client);
	k->relay_client = NULL;
	channel_close(&k->client);
	uv_close((uv_handle_t *)&k->owner, ignore_close);
	uv_close((uv_handle_t *)&k->term, ignore_close);
	uv_close((uv_handle_t *)&k->watchdog, ignore_close);
}

static void describe_exit(int status, char *text, size_t cap, int *ret_signal)
{
	*ret_signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
	if (WIFSIGNALED(status))
		(void)snprintf(text, cap, "the VM was killed by signal %d (%s)", WTERMSIG(status),
			sigdescr_np(WTERMSIG(status)));
	else
		(void)snprintf(
			text, cap, "the VM ended by itself with status %d", WEXITSTATUS(status));
}

/* The end of one attempt: once more, or the end of the box with all that is known. */
static void boot_failed(struct keeper *k, int errnum, const char *why)
{
	char tail[CONSOLE_TAIL + 1024];

	if (k->machine)
		(void)machine_end(k->machine);
	if (k->attempts < BOOT_ATTEMPTS) {
		machine_start(k);
		return;
	}
	(void)str_escape(tail, sizeof tail, k->tail, k->tail_len, true);
	keeper_end(k, WIRE_END_BOOT_FAILED, errnum,
		"run 'holt doctor'; if the machine is very busy, try again or allow more time",
		"%s, in attempt %u of %d; last stage '%s'; console: %s", why, k->attempts,
		BOOT_ATTEMPTS, k->stage, k->tail_len ? tail : "(silent)");
}

static void machine_failed(struct machine *m, const char *what)
{
	struct keeper *k = m->k;
	char text[160];
	int signal_nr = 0;

	describe_exit(machine_end(m), text, sizeof text, &signal_nr);
	if (k->state == KEEPER_BOOTING)
		boot_failed(k, 0, what ? what : text);
	else
		keeper_end(k, WIRE_END_VM_CRASHED, signal_nr,
			"its disk is gone with it; run the command again", "%s", text);
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

static int send_setup(struct machine *m)
{
	const struct keeper_spec *spec = &m->k->spec;
	uint8_t seed[WIRE_SEED_SIZE];
	char machine_id[WIRE_MACHINE_ID_LEN + 1];

	if (random_bytes(seed, sizeof seed) < 0 || random_hex(machine_id, WIRE_MACHINE_ID_LEN) < 0)
		return -EIO;
	const struct wire_msg hello = {.op = WIRE_OP_hello,
		.hello = {.magic = WIRE_MAGIC,
			.version = WIRE_VERSION,
			.oldest = WIRE_OLDEST,
			.build = bytes_of(HOLT_VERSION)}};
	const struct wire_msg setup = {.op = WIRE_OP_setup,
		.setup = {.wall_ns = clock_wall_ns(),
			.disk_generation = DISK_GENERATION,
			.seed = {seed, sizeof seed},
			.hostname = bytes_of(spec->hostname),
			.machine_id = bytes_of(machine_id)}};
	const int r = channel_send(&m->guest, &hello);
	return r < 0 ? r : channel_send(&m->guest, &setup);
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
	set_stage(k, "hello", 5);
	if (send_setup(m) < 0)
		machine_failed(m, "cannot send the setup to the guest");
}

static void guest_ready(struct machine *m)
{
	struct keeper *k = m->k;
	const struct wire_msg ready = {.op = WIRE_OP_ready,
		.ready = {.vmm_us = k->vmm_us,
			.hello_us = k->hello_us,
			.ready_us = clock_mono_us() - k->started_us,
			.vmm_pid = (uint32_t)m->vm.proc.pid,
			.attempts = k->attempts,
			.accel = bytes_of(k->spec.kvm ? "kvm" : "tcg")}};

	k->state = KEEPER_READY;
	set_stage(k, "running", 7);
	(void)uv_timer_stop(&k->watchdog);
	/* No further attempt: only QEMU keeps these now. */
	for (int fd = KEEPER_FD_KERNEL; fd <= KEEPER_FD_VM_LOCK; fd++)
		(void)fd_close(fd);
	relay_set_guest(k->relay, &m->guest);
	if (k->relay_client)
		(void)!channel_send(&k->client, &ready);
}

static void guest_setup_failed(struct machine *m, const struct wire_fail *fail)
{
	struct keeper *k = m->k;
	char text[512];

	set_stage(k, fail->stage.data, fail->stage.len);
	(void)str_escape(text, sizeof text, fail->text.data, fail->text.len, false);
	keeper_end(k, WIRE_END_SETUP_FAILED, (int)fail->errnum,
		"if the image is damaged, remove it and import it again",
		"the guest could not set itself up: %s", text);
}

static void guest_boot_frame(struct machine *m, const struct wire_msg *msg)
{
	struct keeper *k = m->k;

	switch (msg->op) {
	case WIRE_OP_hello:
		guest_hello(m, &msg->hello);
		return;
	case WIRE_OP_stage:
		set_stage(k, msg->stage.name.data, msg->stage.name.len);
		return;
	case WIRE_OP_setup_done:
		if (m->greeted && msg->stream == 0) {
			guest_ready(m);
			return;
		}
		break;
	case WIRE_OP_fail:
		if (msg->stream == 0) {
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
	const int r = relay_from_guest(k->relay, msg, &what);
	if (r == -EPROTO) {
		guest_broke(m, what);
	} else if (r < 0) {
		/* The client does not take what it asked for. */
		relay_client_remove(k->relay, k->relay_client);
		k->relay_client = NULL;
		channel_close(&k->client);
	}
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

	channel_resume(&m->k->client, lane);
}

static const struct channel_ops guest_ops = {
	.on_frame = guest_frame,
	.on_lost = guest_lost,
	.on_drain = guest_drained,
	.on_closed = guest_closed,
};

/* ---- what the client says ---- */

static void client_gone(struct keeper *k)
{
	relay_client_remove(k->relay, k->relay_client);
	k->relay_client = NULL;
}

static void client_frame(struct channel *ch, enum wire_lane lane, const struct wire_msg *msg)
{
	struct keeper *k = ch->user;
	const char *what = "";

	if (k->state != KEEPER_READY || !k->relay_client)
		return;
	if (relay_from_client(k->relay, k->relay_client, msg, &what) < 0) {
		client_gone(k);
		channel_close(ch);
		return;
	}
	if (k->machine && channel_queued(&k->machine->guest, lane) > GUEST_QUEUE_HIGH)
		channel_pause(ch, lane);
}

/* The box goes on without its client: only the owner pipe decides about its end. */
static void client_lost(struct channel *ch, int errnum, const char *what)
{
	(void)errnum;
	(void)what;
	client_gone(ch->user);
}

static void client_closed(struct channel *ch)
{
	(void)ch;
}

static const struct channel_ops client_ops = {
	.on_frame = client_frame,
	.on_lost = client_lost,
	.on_closed = client_closed,
};

/* ---- events of the host ---- */

static void on_vm_exit(uv_poll_t *poll, int status, int events)
{
	(void)status;
	(void)events;
	machine_failed(poll->data, NULL);
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

static void on_watchdog(uv_timer_t *timer)
{
	struct keeper *k = timer->data;
	char why[96];

	if (k->machine && k->machine->lost) {
		machine_failed(k->machine, NULL);
		return;
	}
	(void)snprintf(why, sizeof why, "the guest did not start within %llu ms",
		(unsigned long long)k->spec.boot_timeout_ms);
	if (k->state == KEEPER_BOOTING)
		boot_failed(k, ETIMEDOUT, why);
}

static void on_owner(uv_poll_t *poll, int status, int events)
{
	(void)status;
	(void)events;
	keeper_end(poll->data, WIRE_END_OWNER_GONE, 0, "", "its owner is gone");
}

static void on_term(uv_signal_t *handle, int signum)
{
	keeper_end(handle->data, WIRE_END_STOPPED, 0, "",
		"the keeper was asked to end by signal %d", signum);
}

/* ---- start ---- */

static int machine_watch(struct machine *m)
{
	struct keeper *k = m->k;

	m->exited.data = m->console.data = m;
	if (uv_poll_init(&k->loop, &m->exited, m->vm.proc.pidfd) < 0)
		return -EIO;
	m->handles++;
	if (uv_poll_init(&k->loop, &m->console, m->vm.console_fd) < 0)
		return -EIO;
	m->handles++;
	const int r = channel_init(&m->guest, &k->loop, WIRE_AS_HOST, take_fd(m->vm.control_fd),
		take_fd(m->vm.bulk_fd), GUEST_QUEUE_MAX, &guest_ops, m);
	if (r < 0)
		return r;
	m->handles++;
	(void)uv_poll_start(&m->exited, UV_READABLE, on_vm_exit);
	(void)uv_poll_start(&m->console, UV_READABLE, on_console);
	return 0;
}

static void machine_start(struct keeper *k)
{
	auto_error error = NULL;
	struct machine *m = mem_zalloc(sizeof *m);
	const struct vm_spec spec = {.kvm = k->spec.kvm,
		.loud = k->attempts > 0,
		.memory_mib = k->spec.memory_mib,
		.cpus = k->spec.cpus,
		.tsc_khz = k->spec.tsc_khz,
		.mac = {k->spec.mac[0], k->spec.mac[1], k->spec.mac[2], k->spec.mac[3],
			k->spec.mac[4], k->spec.mac[5]},
		.kernel_fd = KEEPER_FD_KERNEL,
		.initrd_fd = KEEPER_FD_INITRD,
		.rootfs_fd = KEEPER_FD_ROOTFS,
		.disk_fd = KEEPER_FD_DISK,
		.lock_fd = KEEPER_FD_VM_LOCK,
		.disk_bytes = k->spec.disk_bytes};

	k->attempts++;
	k->tail_len = 0;
	set_stage(k, "vmm", 3);
	k->started_us = clock_mono_us();
	if (!m) {
		keeper_end(k, WIRE_END_HOST, ENOMEM, "", "no memory for the keeper");
		return;
	}
	m->k = k;
	m->vm = VM_INIT;
	if (k->engine->start(&spec, &m->vm, &error) < 0) {
		mem_free(m);
		keeper_end(k, WIRE_END_HOST, holt_error_errno(error), holt_error_hint(error),
			"cannot start the VM: %s", holt_error_message(error));
		return;
	}
	k->vmm_us = clock_mono_us() - k->started_us;
	set_stage(k, "kernel", 6);
	k->machine = m;
	if (machine_watch(m) < 0) {
		/* Only without descriptors or memory; the process ends and its VM with it. */
		vm_kill(&m->vm, NULL);
		_exit(1);
	}
	(void)uv_timer_start(&k->watchdog, on_watchdog, k->spec.boot_timeout_ms, 0);
}

static int keeper_init(struct keeper *k)
{
	if (uv_loop_init(&k->loop) < 0)
		return -ENOMEM;
	k->relay = relay_new();
	if (!k->relay || channel_init(&k->client, &k->loop, WIRE_AS_KEEPER, KEEPER_FD_CONTROL,
				 KEEPER_FD_BULK, CLIENT_QUEUE_MAX, &client_ops, k) < 0)
		return -ENOMEM;
	k->relay_client = relay_client_add(k->relay, &k->client);
	k->owner.data = k->term.data = k->watchdog.data = k;
	if (!k->relay_client || uv_poll_init(&k->loop, &k->owner, KEEPER_FD_OWNER) < 0 ||
		uv_signal_init(&k->loop, &k->term) < 0 || uv_timer_init(&k->loop, &k->watchdog) < 0)
		return -ENOMEM;
	/* Nothing more is ever written there: readable means end-of-file. */
	if (uv_poll_start(&k->owner, UV_READABLE | UV_DISCONNECT, on_owner) < 0 ||
		uv_signal_start(&k->term, on_term, SIGTERM) < 0)
		return -EIO;
	return 0;
}

int keeper_main(const struct vm_engine *engine)
{
	struct keeper k = {.engine = engine, .state = KEEPER_BOOTING};
	auto_error error = NULL;

	for (int fd = KEEPER_FD_OWNER; fd < KEEPER_FD_END; fd++) {
		if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
			return 2;
	}
	if (keeper_spec_read(KEEPER_FD_OWNER, &k.spec, &error) < 0)
		return 2;
	if (keeper_init(&k) < 0)
		return 1;
	machine_start(&k);
	(void)uv_run(&k.loop, UV_RUN_DEFAULT);
	relay_free(k.relay);
	(void)uv_loop_close(&k.loop);
	return 0;
}
