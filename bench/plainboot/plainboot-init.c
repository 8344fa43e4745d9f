/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The init of the "plain boot" baseline: what a virtual machine costs that does nothing. It loads
 * the modules of /modules.list, if the initramfs has one, then says one line on the console and
 * resets the machine, which ends a QEMU that runs with -no-reboot.
 *
 * Static, PID 1, one thread; each step that fails is said on the console and the machine still
 * ends.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#define LIST_MAX        4096 /* bytes of /modules.list */
#define CONSOLE_WAIT_MS 2000 /* hvc0 appears a moment after its driver was loaded */

static char failure[256]; /* the first thing that went wrong */

static int load_modules(void)
{
	char list[LIST_MAX];
	int loaded = 0;
	const int list_fd = open("/modules.list", O_RDONLY | O_CLOEXEC);

	if (list_fd < 0)
		return 0;
	const ssize_t len = read(list_fd, list, sizeof(list) - 1);
	(void)close(list_fd);
	list[len > 0 ? len : 0] = '\0';
	char *save = NULL;
	for (char *path = strtok_r(list, "\n", &save); path; path = strtok_r(NULL, "\n", &save)) {
		const int fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd >= 0 && syscall(SYS_finit_module, fd, "", 0) == 0)
			loaded++;
		else if (!failure[0])
			(void)snprintf(failure, sizeof(failure), ", cannot load '%s': %s", path,
				strerror(errno));
		(void)close(fd);
	}
	return loaded;
}

/* ttyS0 if the kernel writes to it, else hvc0; both are what /dev/console leads to. */
static int open_console(void)
{
	(void)mkdir("/dev", 0755);
	(void)mknod("/dev/console", S_IFCHR | 0600, makedev(5, 1));
	for (int ms = 0; ms < CONSOLE_WAIT_MS; ms++) {
		const int fd = open("/dev/console", O_WRONLY | O_NOCTTY | O_CLOEXEC);
		if (fd >= 0)
			return fd;
		const struct timespec pause_time = {.tv_nsec = 1000000};
		(void)nanosleep(&pause_time, NULL);
	}
	return -1;
}

static long uptime_us(void)
{
	struct timespec now = {0};

	(void)clock_gettime(CLOCK_BOOTTIME, &now);
	return (long)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

int main(void)
{
	const long start_us = uptime_us();
	const int loaded = load_modules();
	const long loaded_us = uptime_us();
	const int console = open_console();

	(void)dprintf(console,
		"plainboot: init at %ld us, %d modules at %ld us, console at %ld us%s\n", start_us,
		loaded, loaded_us, uptime_us(), failure);
	(void)reboot(RB_AUTOBOOT);
	for (;;)
		(void)pause();
}
