/* SPDX-License-Identifier: Apache-2.0 */
#include "boot.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "guest_banned.h"

/*
 * From the kernel's first program to two open ports. The initramfs holds /init (this program),
 * /modules.list (one path a line, in load order; behind an empty line those that may wait until the
 * machine is ready) and the modules. No helper is run: each would cost
 * a fork and an exec.
 */

#define PORT_WAIT_S 10 /* for the ports to appear */
#define LIST_MAX    (16 * 1024)

static int fail(struct agent *a, int errnum, const char *what, const char *object)
{
	agent_log(a, AGENT_LOG_ERROR, "%s '%s': %s", what, object, strerror(errnum));
	return -errnum;
}

static int mount_basics(struct agent *a)
{
	static const struct {
		const char *type;
		const char *path;
		unsigned long flags;
	} basics[] = {
		{"devtmpfs", "/dev", MS_NOSUID},
		{"proc", "/proc", MS_NOSUID | MS_NODEV | MS_NOEXEC},
		{"sysfs", "/sys", MS_NOSUID | MS_NODEV | MS_NOEXEC},
	};

	for (size_t i = 0; i < sizeof(basics) / sizeof(basics[0]); i++) {
		(void)mkdir(basics[i].path, 0755);
		if (mount(basics[i].type, basics[i].path, basics[i].type, basics[i].flags, NULL) <
				0 &&
			errno != EBUSY)
			return fail(a, errno, "cannot mount", basics[i].path);
	}
	return 0;
}

/* 0, 1 and 2 shall be taken, and by nothing that could block. */
static void settle_std_fds(void)
{
	const int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (fd < 0)
		return;
	for (int i = 0; i < 3; i++)
		if (fd != i)
			(void)dup2(fd, i);
	if (fd > 2)
		(void)close(fd);
}

static int load_module(struct agent *a, const char *path, bool late)
{
	const int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return fail(a, errno, "cannot open module", path);
	if (late && a->n_late < AGENT_LATE_MAX) {
		a->late[a->n_late++] = fd; /* its path goes with the initramfs */
		return 0;
	}
	const int rc = (int)syscall(SYS_finit_module, fd, "", 0);
	const int errnum = errno;
	(void)close(fd);
	if (rc < 0 && errnum != EEXIST)
		return fail(a, errnum, "cannot load module", path);
	(void)unlink(path); /* gives its memory back */
	return 0;
}

static int load_modules(struct agent *a)
{
	static char list[LIST_MAX];
	const int fd = open("/modules.list", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return errno == ENOENT ? 0 : fail(a, errno, "cannot open", "/modules.list");
	const ssize_t n = read(fd, list, sizeof(list) - 1);
	(void)close(fd);
	if (n < 0)
		return fail(a, errno, "cannot read", "/modules.list");
	char *end = NULL;
	bool late = false;
	for (char *line = list; (end = strchr(line, '\n')); line = end + 1) {
		*end = 0;
		late |= !*line;
		const int rc = *line ? load_module(a, line, late) : 0;
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* The device appears a moment after its driver is loaded, and may be busy for another. */
static int open_port(struct agent *a, int number, int *ret_fd)
{
	const uint64_t until_us = agent_now_us() + PORT_WAIT_S * 1000000ull;
	char path[32];
	int fd = -1;

	(void)snprintf(path, sizeof(path), "/dev/vport0p%d", number);
	while ((fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC)) < 0) {
		if (agent_now_us() >= until_us)
			return fail(a, errno, "cannot open port", path);
		(void)poll(NULL, 0, 1);
	}
	*ret_fd = fd;
	return 0;
}

int boot_machine(struct agent *a, int *ret_control_fd, int *ret_bulk_fd)
{
	int rc = mount_basics(a);

	if (rc < 0)
		return rc;
	settle_std_fds();
	a->kmsg_fd = open("/dev/kmsg", O_WRONLY | O_CLOEXEC);
	agent_stage(a, "modules");
	rc = load_modules(a);
	if (rc < 0)
		return rc;
	agent_stage(a, "ports");
	rc = open_port(a, WIRE_PORT_CONTROL, ret_control_fd);
	if (rc < 0)
		return rc;
	return open_port(a, WIRE_PORT_BULK, ret_bulk_fd);
}
