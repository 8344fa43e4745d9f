/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A keeper whose jail can be weakened: HOLT_KEEPER=<build>/tests/weak/holt-keeper. What it leaves
 * out is in the file "weak" beside it (one line, names as in vmm/jail.h), or nothing without such a
 * file. A test copies the directory, since others may use it at the same time.
 */
#include "vmm/jail.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#define NAME "weak"

const char *jail_weakness(void)
{
	static char text[256];
	char path[PATH_MAX + sizeof NAME];
	const ssize_t len = readlink("/proc/self/exe", path, PATH_MAX);

	if (text[0])
		return text;
	if (len <= 0 || len == PATH_MAX)
		return "nothing";
	path[len] = '\0';
	char *slash = strrchr(path, '/');
	memcpy(slash ? slash + 1 : path, NAME, sizeof NAME);
	const int fd = open(path, O_RDONLY | O_CLOEXEC);
	const ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
	if (fd >= 0)
		(void)close(fd);
	text[n > 0 ? n : 0] = '\0';
	text[strcspn(text, "\n")] = '\0';
	if (!text[0])
		memcpy(text, "nothing", sizeof "nothing");
	return text;
}
