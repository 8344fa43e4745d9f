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

#define KILL_ROUNDS 32 /* where the kernel has no cgroup.kill (before 5.14) */

static int write_at(int dirfd, const char *name, const char *text)
{
	const int fd = openat(dirfd, name, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	const int rc = write(fd, text, strlen(text)) < 0 ? -errno : 0;
	(void)close(fd);
	return rc;
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
	(void)write_at(root, "cgroup.subtree_control", controllers);
	if (fd >= 0)
		(void)write_at(fd, "cgroup.subtree_control", controllers);
	(void)close(root);
	return fd < 0 ? -errno : fd;
}

int cgroup_make(int parent_fd, uint32_t serial)
{
	char name[16];

	(void)snprintf(name, sizeof(name), "%u", serial);
	if (mkdirat(parent_fd, name, 0755) < 0)
		return -errno;
	const int fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
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
	char text[512];
	const int events = openat(fd, "memory.events", O_RDONLY | O_CLOEXEC);

	if (events < 0)
		return false;
	const ssize_t n = read(events, text, sizeof(text) - 1);
	(void)close(events);
	text[n > 0 ? n : 0] = 0;
	const char *line = strstr(text, "\noom_kill ");
	return line && strtoul(line + strlen("\noom_kill "), NULL, 10) > 0;
}

bool cgroup_remove(int parent_fd, uint32_t serial)
{
	char name[16];

	(void)snprintf(name, sizeof(name), "%u", serial);
	return unlinkat(parent_fd, name, AT_REMOVEDIR) == 0 || errno == ENOENT;
}
