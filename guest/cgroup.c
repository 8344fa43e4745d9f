/* SPDX-License-Identifier: Apache-2.0 */
#include "cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "guest_banned.h"

/*
 * All execs live below one group, "holt", so that they can be frozen, counted and limited together,
 * and so that the agent, which stays outside, competes for the processor with one group and not
 * with each of their processes.
 *
 * Execs as a whole get less memory than there is: when they run out, the kernel looks for a victim
 * among them, and RESERVE_MIN to RESERVE_MAX are left for the agent and the kernel. The victim is
 * the largest process, and with it its whole exec (memory.oom.group).
 *
 * It has to be this limit that they reach, and not the end of the machine's memory. There the
 * kernel looks for victims as long as a page is missing, also while the files of the last one are
 * still being freed, and where it finds no other one, it panics.
 */

#define KILL_ROUNDS  32 /* where the kernel has no cgroup.kill (before 5.14) */
#define RESERVE_MIN  (8ull << 20)
#define RESERVE_MAX  (24ull << 20)
#define RESERVE_PART 16 /* of what is available */

static int write_at(int dirfd, const char *name, const char *text)
{
	const int fd = openat(dirfd, name, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	const int rc = write(fd, text, strlen(text)) < 0 ? -errno : 0;
	(void)close(fd);
	return rc;
}

static int write_number(int dirfd, const char *name, uint64_t value)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
	return write_at(dirfd, name, text);
}

/* The number behind @key, which is "" or a word and a space at the start of a line; 0 if there is
 * none. */
static uint64_t number_of(const char *text, const char *key)
{
	const size_t len = strlen(key);

	for (; text; text = strchr(text, '\n')) {
		text += *text == '\n';
		if (strncmp(text, key, len) == 0)
			return strtoull(text + len, NULL, 10);
	}
	return 0;
}

static uint64_t read_number(int dirfd, const char *name, const char *key)
{
	char text[1024];
	const int fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return 0;
	const ssize_t n = read(fd, text, sizeof(text) - 1);
	(void)close(fd);
	text[n > 0 ? n : 0] = 0;
	return number_of(text, key);
}

int cgroup_init(const char *mount)
{
	static const char controllers[] = "+memory +pids";
	const int root = open(mount, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (root < 0)
		return -errno;
	(void)mkdirat(root, "holt", 0755);
	const int fd = openat(root, "holt", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	/* Without controllers the groups still serve to find and kill. */
	if (write_at(root, "cgroup.subtree_control", "+cpu +memory +pids") < 0)
		(void)write_at(root, "cgroup.subtree_control", controllers);
	if (fd >= 0)
		(void)write_at(fd, "cgroup.subtree_control", controllers);
	(void)close(root);
	return fd < 0 ? -errno : fd;
}

void cgroup_keep_reserve(int parent_fd, uint64_t available)
{
	uint64_t reserve = available / RESERVE_PART;

	reserve = reserve < RESERVE_MIN ? RESERVE_MIN : reserve;
	reserve = reserve > RESERVE_MAX ? RESERVE_MAX : reserve;
	reserve = reserve > available / 2 ? available / 2 : reserve;
	if (available > 0)
		(void)write_number(parent_fd, "memory.max", available - reserve);
}

int cgroup_open(int parent_fd, uint32_t serial)
{
	char name[16];

	(void)snprintf(name, sizeof(name), "%u", serial);
	const int fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int make_directory(int parent_fd, uint32_t serial)
{
	char name[16];

	(void)snprintf(name, sizeof(name), "%u", serial);
	return mkdirat(parent_fd, name, 0755) < 0 && errno != EEXIST ? -errno : 0;
}

void cgroup_make_ahead(int parent_fd, uint32_t serial)
{
	(void)make_directory(parent_fd, serial);
}

int cgroup_make(int parent_fd, uint32_t serial, uint32_t pids_max)
{
	const int rc = make_directory(parent_fd, serial);

	if (rc < 0)
		return rc;
	const int fd = cgroup_open(parent_fd, serial);
	if (fd < 0)
		return fd;
	(void)write_number(fd, "pids.max", pids_max);
	/* Out of memory ends the whole exec, so that its leader is not left with half of it. */
	(void)write_at(fd, "memory.oom.group", "1");
	return fd;
}

int cgroup_enter(int fd)
{
	return write_at(fd, "cgroup.procs", "0");
}

/* Signal each process of the list; returns how many there were. */
static int signal_each(int fd, int signo)
{
	char buf[8192];
	size_t len = 0;
	ssize_t n = 0;
	int count = 0;
	const int procs = openat(fd, "cgroup.procs", O_RDONLY | O_CLOEXEC);

	if (procs < 0)
		return 0;
	while ((n = read(procs, buf + len, sizeof(buf) - 1 - len)) > 0) {
		char *line = buf;
		char *end = NULL;
		len += (size_t)n;
		buf[len] = 0;
		while ((end = strchr(line, '\n'))) {
			const long pid = strtol(line, NULL, 10);
			if (pid > 0 && kill((pid_t)pid, signo) == 0)
				count++;
			line = end + 1;
		}
		len -= (size_t)(line - buf);
		memmove(buf, line, len);
	}
	(void)close(procs);
	return count;
}

void cgroup_signal(int fd, int signo)
{
	if (signo == SIGKILL && write_at(fd, "cgroup.kill", "1") == 0)
		return;
	if (signo != SIGKILL) {
		(void)signal_each(fd, signo);
		return;
	}
	/* Frozen, so that it cannot fork faster than it is killed. */
	(void)write_at(fd, "cgroup.freeze", "1");
	for (int i = 0; i < KILL_ROUNDS && signal_each(fd, SIGKILL) > 0; i++)
		;
	(void)write_at(fd, "cgroup.freeze", "0");
}

bool cgroup_oom(int fd)
{
	return read_number(fd, "memory.events", "oom_kill ") > 0;
}

int cgroup_freeze(int fd, bool on)
{
	return write_at(fd, "cgroup.freeze", on ? "1" : "0");
}

int cgroup_events_open(int fd)
{
	const int events = openat(fd, "cgroup.events", O_RDONLY | O_CLOEXEC);

	return events < 0 ? -errno : events;
}

bool cgroup_events_frozen(int events_fd)
{
	char text[256];
	const ssize_t n = pread(events_fd, text, sizeof(text) - 1, 0);

	text[n > 0 ? n : 0] = 0;
	return number_of(text, "frozen ") == 1;
}

uint64_t cgroup_cpu_us(int fd)
{
	return read_number(fd, "cpu.stat", "usage_usec ");
}

uint32_t cgroup_processes(int fd)
{
	return (uint32_t)read_number(fd, "pids.current", "");
}

bool cgroup_remove(int parent_fd, uint32_t serial)
{
	char name[16];

	(void)snprintf(name, sizeof(name), "%u", serial);
	return unlinkat(parent_fd, name, AT_REMOVEDIR) == 0 || errno == ENOENT;
}
