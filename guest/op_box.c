/* SPDX-License-Identifier: Apache-2.0 */
#include "op_box.h"

#include "cgroup.h"
#include "op_exec.h"
#include "op_sys.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "guest_banned.h"

/*
 * Requests about all execs together: how much they use, and to stop and go on.
 *
 *   running --freeze on--> freezing --all stopped--> frozen --freeze off--> running
 *                             | not within FREEZE_US, or freeze off
 *                             +--> running, and the request fails
 *
 * While freezing the agent serves everybody else. An exec that is being killed still dies while it
 * is frozen; all other signals wait for it. Without cgroups (in tests) the leaders' process groups
 * are stopped by signal.
 */

#define FREEZE_US 1000000

static void send_done(struct agent *a, uint32_t stream)
{
	lane_send(&a->control, &(struct wire_msg){.op = WIRE_OP_done, .stream = stream});
}

static void send_fault(struct agent *a, uint32_t stream, int errnum, const char *text)
{
	struct agent_fail f;

	(void)agent_fail_set(&f, errnum ? WIRE_FAIL_INTERNAL : WIRE_FAIL_INVALID, errnum, "freeze",
		"", "%s", text);
	agent_fail_send(a, stream, &f);
}

/* Waking the loop is enough, see box_freeze_turn. */
static void on_events(struct watch *w, uint32_t events)
{
	(void)w;
	(void)events;
}

void box_thaw(struct agent *a)
{
	struct freezing *f = &a->freezing;

	if (f->until_us) {
		f->until_us = 0;
		agent_close(a, &f->watch);
		send_fault(a, f->stream, ECANCELED, "the programs go on again");
	}
	if (a->frozen && a->cgroup_fd >= 0)
		(void)cgroup_freeze(a->cgroup_fd, false);
	else if (a->frozen)
		exec_signal_all(a, SIGCONT);
	a->frozen = false;
}

/* Returns 0 or -errno. Without cgroups all stop at once. */
static int begin(struct agent *a)
{
	struct freezing *f = &a->freezing;
	int rc = 0;

	a->frozen = true;
	if (a->cgroup_fd < 0) {
		exec_signal_all(a, SIGSTOP);
		return 0;
	}
	rc = cgroup_freeze(a->cgroup_fd, true);
	const int fd = rc < 0 ? rc : cgroup_events_open(a->cgroup_fd);
	if (fd < 0)
		return fd;
	f->watch.fn = on_events;
	rc = agent_watch(a, &f->watch, fd, EPOLLPRI);
	if (rc < 0)
		agent_close(a, &f->watch);
	f->until_us = rc < 0 ? 0 : agent_now_us() + FREEZE_US;
	return rc;
}

static void freeze(struct agent *a, uint32_t stream)
{
	if (a->freezing.until_us) {
		send_fault(a, stream, 0, "the machine is being frozen already");
		return;
	}
	const int rc = a->frozen ? 0 : begin(a);
	if (rc < 0) {
		box_thaw(a);
		send_fault(a, stream, -rc, "cannot freeze the programs");
	} else if (a->freezing.until_us) {
		a->freezing.stream = stream;
		box_freeze_turn(a, agent_now_us());
	} else {
		send_done(a, stream);
	}
}

void box_freeze_turn(struct agent *a, uint64_t now_us)
{
	struct freezing *f = &a->freezing;
	const bool all = cgroup_events_frozen(f->watch.fd);

	if (!agent_can_reply(a) || (!all && now_us < f->until_us))
		return;
	agent_close(a, &f->watch);
	f->until_us = 0;
	if (all) {
		send_done(a, f->stream);
		return;
	}
	box_thaw(a);
	send_fault(a, f->stream, ETIMEDOUT, "some programs do not stop");
}

void box_freeze(struct agent *a, const struct wire_msg *msg)
{
	if (a->state != AGENT_READY) {
		send_fault(a, msg->stream, 0, "the machine is not set up, or shutting down");
	} else if (msg->freeze.on) {
		freeze(a, msg->stream);
	} else {
		/* They shall see no other time than the right one. */
		sys_set_clock(a, msg->freeze.wall_ns);
		box_thaw(a);
		send_done(a, msg->stream);
	}
}

/* The value of a line "Key:  number kB" in bytes, or 0. */
static uint64_t meminfo_value(const char *text, const char *key)
{
	const char *line = strstr(text, key);

	return line ? strtoull(line + strlen(key), NULL, 10) * 1024 : 0;
}

void box_memory(uint64_t *ret_total, uint64_t *ret_free, uint64_t *ret_available)
{
	char text[512]; /* they are the first three lines */
	const int fd = open("/proc/meminfo", O_RDONLY | O_CLOEXEC);
	const ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);

	if (fd >= 0)
		(void)close(fd);
	text[n > 0 ? n : 0] = 0;
	*ret_total = meminfo_value(text, "MemTotal:");
	*ret_free = meminfo_value(text, "MemFree:");
	*ret_available = meminfo_value(text, "MemAvailable:");
}

void box_stats(struct agent *a, uint32_t stream)
{
	struct wire_stats_reply r = {.uptime_us = agent_now_us(), .execs = a->n_execs};
	uint64_t unused = 0;
	uint64_t available = 0;
	struct statfs fs;

	box_memory(&r.memory_total, &unused, &available);
	r.memory_used = r.memory_total > available ? r.memory_total - available : 0;
	if (a->disk_fd >= 0 && fstatfs(a->disk_fd, &fs) == 0) {
		r.disk_total = (uint64_t)fs.f_blocks * (uint64_t)fs.f_bsize;
		r.disk_used = (uint64_t)(fs.f_blocks - fs.f_bfree) * (uint64_t)fs.f_bsize;
	}
	if (a->cgroup_fd >= 0) {
		r.cpu_us = cgroup_cpu_us(a->cgroup_fd);
		r.processes = cgroup_processes(a->cgroup_fd);
	}
	lane_send(&a->control,
		&(struct wire_msg){.op = WIRE_OP_stats_reply, .stream = stream, .stats_reply = r});
}
