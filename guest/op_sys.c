/* SPDX-License-Identifier: Apache-2.0 */
#include "op_sys.h"

#include "cgroup.h"
#include "guest_mem.h"
#include "guest_proc.h"
#include "clone_identity.h"
#include "mount.h"
#include "op_box.h"
#include "op_exec.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/reboot.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "guest_banned.h"

/*
 * What concerns the machine itself: becoming one (setup), answering pings, ending.
 *
 * setup comes again in a clone, see op_park.c: clock, random numbers, names and address are then
 * set anew, in this order, mounts stay.
 */

#define LATE_US     1000000 /* from ready to the modules that nothing waits for, if it is idle then */
#define KILL_ROUNDS 64 /* generations of children that are killed at the end of a --fake agent */

void sys_set_clock(struct agent *a, uint64_t wall_ns)
{
	const struct timespec ts = {
		.tv_sec = (time_t)(wall_ns / 1000000000), .tv_nsec = (long)(wall_ns % 1000000000)};

	if (wall_ns && !a->fake && clock_settime(CLOCK_REALTIME, &ts) < 0)
		agent_log(a, AGENT_LOG_WARN, "cannot set the clock: %s", strerror(errno));
}

/* Bring up the loopback device. */
static void start_loopback(struct agent *a)
{
	struct ifreq ifr = {.ifr_name = "lo"};
	const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || ioctl(fd, SIOCGIFFLAGS, &ifr) < 0) {
		agent_log(a, AGENT_LOG_WARN, "no loopback device: %s", strerror(errno));
	} else {
		ifr.ifr_flags |= IFF_UP;
		(void)ioctl(fd, SIOCSIFFLAGS, &ifr);
	}
	if (fd >= 0)
		(void)close(fd);
}

static void put_setting(const char *path, const char *text)
{
	const int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	(void)!write(fd, text, strlen(text));
	(void)close(fd);
}

static uint64_t get_setting(const char *path)
{
	char text[32];
	const int fd = open(path, O_RDONLY | O_CLOEXEC);
	const ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);

	if (fd >= 0)
		(void)close(fd);
	text[n > 0 ? n : 0] = 0;
	return strtoull(text, NULL, 10);
}

/* When memory runs out, a kernel with its old page reclaim may read the same few file pages again
 * and again for minutes before it kills anything (seen in 4 of 6 machines of 512 MiB). The newer
 * one can be told to kill as soon as it cannot keep pages for half a second. Kernels without it
 * (before 6.1) stay as they are.
 *
 * That rule holds whenever pages are reclaimed in the background, and a kernel also does so where
 * memory is only cut into pieces ("boost"). It then kills with plenty left, so this is off. */
static void settle_memory(void)
{
	put_setting("/sys/kernel/mm/lru_gen/min_ttl_ms", "500");
	put_setting("/sys/kernel/mm/lru_gen/enabled", "y");
	put_setting("/proc/sys/vm/watermark_boost_factor", "0");
}

/* Execs get of what is free now, when the kernel has mounted all. What else is called available
 * are caches of the kernel that need not give way, and with fewer free than its high watermark (3/2
 * of min_free_kbytes) it reclaims in the background and kills. */
static void limit_execs(const struct agent *a)
{
	const uint64_t high = get_setting("/proc/sys/vm/min_free_kbytes") * 1024 * 3 / 2;
	uint64_t total = 0;
	uint64_t unused = 0;
	uint64_t available = 0;

	box_memory(&total, &unused, &available);
	cgroup_keep_reserve(a->cgroup_fd, unused > high ? unused - high : unused);
}

int sys_mount_image(struct agent *a, struct agent_fail *f)
{
	if (a->fake || a->mounts >= AGENT_MOUNTED_IMAGE)
		return 0;
	const int rc = mount_image(a, f);
	if (rc < 0)
		return rc;
	a->mounts = AGENT_MOUNTED_IMAGE;
	start_loopback(a);
	settle_memory();
	return 0;
}

int sys_mount_bare(struct agent *a, struct agent_fail *f)
{
	const int rc = sys_mount_image(a, f);

	return rc < 0 || a->fake || a->mounts == AGENT_MOUNTED_DISK ? rc : mount_forget_disk(a, f);
}

static int mount_all(struct agent *a, struct agent_fail *f)
{
	int rc = sys_mount_image(a, f);

	if (rc < 0 || a->mounts == AGENT_MOUNTED_DISK)
		return rc;
	rc = mount_disk(a, f);
	if (rc < 0)
		return rc;
	a->mounts = AGENT_MOUNTED_DISK;
	limit_execs(a);
	return 0;
}

void sys_prepare(struct agent *a)
{
	struct agent_fail f;

	if (a->fake || a->state == AGENT_OVER)
		return;
	if (a->bare)
		(void)sys_mount_image(a, &f);
	else
		(void)mount_all(a, &f);
}

static int become_machine(struct agent *a, const struct wire_setup *req, struct agent_fail *f)
{
	sys_set_clock(a, req->wall_ns);
	int rc = identity_seed(&req->seed, f);
	if (rc == 0)
		rc = mount_all(a, f);
	if (rc < 0)
		return rc;
	agent_stage(a, "names");
	return identity_take(a, req, f);
}

static void load_late(struct agent *a)
{
	for (uint32_t i = 0; i < a->n_late; i++)
		if (syscall(SYS_finit_module, a->late[i], "", 0) < 0 && errno != EEXIST)
			agent_log(a, AGENT_LOG_WARN, "cannot load a late module: %s",
				strerror(errno));
}

static void forget_late(struct agent *a)
{
	for (uint32_t i = 0; i < a->n_late; i++)
		(void)close(a->late[i]);
	a->n_late = 0;
}

void sys_load_late(struct agent *a)
{
	bool placed = false;
	const pid_t pid = gproc_fork(-1, &placed);

	if (pid == 0) {
		(void)setpriority(PRIO_PROCESS, 0, 19);
		load_late(a);
		_exit(0);
	}
	if (pid < 0)
		agent_log(a, AGENT_LOG_WARN, "cannot fork for late modules: %s", strerror(-pid));
	a->late_pid = pid < 0 ? 0 : pid;
	forget_late(a);
}

void sys_finish_late(struct agent *a)
{
	if (a->late_pid > 0)
		(void)waitpid(a->late_pid, NULL, 0);
	a->late_pid = 0;
	load_late(a);
	forget_late(a);
}

void sys_setup(struct agent *a, const struct wire_setup *req)
{
	struct agent_fail f;

	if (a->state == AGENT_LEAVING)
		return;
	if (!a->fake && become_machine(a, req, &f) < 0) {
		agent_log(a, AGENT_LOG_ERROR, "setup failed in stage %s: %s", f.stage, f.text);
		agent_fail_send(a, 0, &f);
		return;
	}
	a->state = AGENT_READY;
	a->late_us = agent_now_us() + LATE_US;
	lane_send(&a->control, &(struct wire_msg){.op = WIRE_OP_setup_done,
				       .setup_done = {.uptime_us = agent_now_us()}});
}

void sys_ping(struct agent *a, const struct wire_msg *msg)
{
	lane_send(&a->control, &(struct wire_msg){.op = WIRE_OP_pong,
				       .stream = msg->stream,
				       .pong = {.token = msg->ping.token}});
}

/* Everything but ourselves, or in tests what we know of. */
static void signal_everyone(struct agent *a, int signo)
{
	if (a->fake)
		exec_signal_all(a, signo);
	else
		(void)kill(-1, signo);
}

void sys_shutdown(struct agent *a, const struct wire_shutdown *req)
{
	const uint64_t leave_us = agent_now_us() + (uint64_t)req->grace_ms * 1000;

	if (a->state == AGENT_LEAVING) {
		/* The second one is in more of a hurry, or nothing changes. */
		a->leave_us = leave_us < a->leave_us ? leave_us : a->leave_us;
		return;
	}
	a->state = AGENT_LEAVING;
	a->leave_us = leave_us;
	box_thaw(a);
	if (req->grace_ms) {
		signal_everyone(a, SIGTERM);
		signal_everyone(a, SIGCONT);
	}
	a->childless = waitid(P_ALL, 0, &(siginfo_t){0}, WEXITED | WNOHANG | WNOWAIT) < 0;
}

/* Children that lost their parent become ours, so that killing ours again and again gets all. */
static void kill_children(void)
{
	char buf[4096];

	for (int i = 0; i < KILL_ROUNDS; i++) {
		char *p = buf;
		const int fd = open("/proc/thread-self/children", O_RDONLY | O_CLOEXEC);
		const ssize_t n = fd < 0 ? 0 : read(fd, buf, sizeof(buf) - 1);
		if (fd >= 0)
			(void)close(fd);
		if (n <= 0)
			return;
		buf[n] = 0;
		for (long pid; (pid = strtol(p, &p, 10)) > 0;)
			if (kill((pid_t)pid, SIGKILL) == 0)
				(void)waitpid((pid_t)pid, NULL, 0);
	}
}

void sys_kill_all(struct agent *a)
{
	if (a->fake) {
		exec_signal_all(a, SIGKILL);
		kill_children();
		return;
	}
	(void)kill(-1, SIGKILL);
	while (waitpid(-1, NULL, 0) > 0)
		;
}

void sys_end(struct agent *a)
{
	(void)lane_flush(&a->control);
	sys_kill_all(a);
	if (a->fake)
		_exit(a->failed);
	mount_end(a);
	/* The machine is told to end on a reset as well, should it have no power switch. */
	(void)reboot(RB_POWER_OFF);
	(void)reboot(RB_AUTOBOOT);
	for (;;)
		(void)pause();
}
