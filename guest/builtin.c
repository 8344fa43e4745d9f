/* SPDX-License-Identifier: Apache-2.0 */
#include "builtin.h"

#include "wire/wire.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "guest_banned.h"

/*
 * The table of built-ins, and what they have in common.
 *
 * exec_child.c calls them in the place of execve, so that everything which holds for programs
 * (user, cgroup, time-out, credit, signals) holds for them. They need nothing from the image but
 * its files. Each is a process that ends soon, hence memory is not freed where the end comes
 * anyway; but each states what bounds it.
 */

static const struct builtin table[] = {
	{WIRE_FILES_BUILTIN, builtin_files},
	{"path-stat", builtin_path_stat},
	{"tar-in", builtin_tar_in},
	{"tar-out", builtin_tar_out},
};

const struct builtin *builtin_find(const char *name)
{
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		if (strcmp(table[i].name, name) == 0)
			return &table[i];
	return NULL;
}

int builtin_write(int fd, const void *data, size_t len)
{
	const uint8_t *p = data;

	while (len > 0) {
		const ssize_t n = write(fd, p, len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		p += n;
		len -= (size_t)n;
	}
	return 0;
}

void builtin_escape(const char *s, char dst[BUILTIN_ESCAPED_SIZE])
{
	static const char hex[] = "0123456789abcdef";
	size_t n = 0;

	for (size_t i = 0; s[i] && i < BUILTIN_OBJECT_MAX; i++) {
		const uint8_t byte = (uint8_t)s[i];
		if (byte >= ' ' && byte < 0x7f && byte != '\\') {
			dst[n++] = s[i];
			continue;
		}
		dst[n++] = '\\';
		dst[n++] = 'x';
		dst[n++] = hex[byte >> 4];
		dst[n++] = hex[byte & 15];
	}
	const bool cut = strnlen(s, BUILTIN_OBJECT_MAX + 1) > BUILTIN_OBJECT_MAX;
	memcpy(dst + n, cut ? "..." : "", cut ? 4 : 1);
}

/* In one write, which a pipe takes whole or in order. */
static void tell(int errnum, const char *stage, const char *escaped, const char *text)
{
	static char line[2 * BUILTIN_ESCAPED_SIZE + 512];
	const int n = snprintf(
		line, sizeof(line), "%d\t%s\t%s\t%s\n", errnum, stage, escaped, text);

	(void)builtin_write(STDERR_FILENO, line, (size_t)n);
}

int builtin_fault(int errnum, const char *stage, const char *object, const char *text)
{
	static char escaped[BUILTIN_ESCAPED_SIZE];

	builtin_escape(object, escaped);
	tell(errnum, stage, escaped, text);
	return -1;
}

int builtin_errno(int errnum, const char *stage, const char *object, const char *what)
{
	static char escaped[BUILTIN_ESCAPED_SIZE];
	static char text[BUILTIN_ESCAPED_SIZE + 256];

	builtin_escape(object, escaped);
	(void)snprintf(text, sizeof(text), "%s '%s': %s", what, escaped, strerror(errnum));
	tell(errnum, stage, escaped, text);
	return -1;
}
