/* SPDX-License-Identifier: Apache-2.0 */
#include "box/disk_origin.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fsutil.h"
#include "base/mem.h"
#include "base/banned.h"

#define ORIGIN_FILE "disk.origin"
#define BOOT_ID     "/proc/sys/kernel/random/boot_id"
#define BOOT_ID_MAX 64
#define TEXT_MAX    128 /* a generation and a boot */

static int origin_text(const char *generation, char ret[TEXT_MAX])
{
	auto_free char *boot_id = NULL;
	const int r = fs_read_file(AT_FDCWD, BOOT_ID, BOOT_ID_MAX, &boot_id, NULL);

	if (r < 0)
		return r;
	const int len = snprintf(ret, TEXT_MAX, "%s %s", generation, boot_id);
	return len < TEXT_MAX ? 0 : -EINVAL;
}

int disk_origin_write(int dir, const char *generation)
{
	char text[TEXT_MAX];
	const int r = origin_text(generation, text);

	return r < 0 ? r : fs_replace(dir, ORIGIN_FILE, text, strlen(text), 0600);
}

bool disk_origin_untouched(int dir)
{
	auto_free char *have = NULL;
	char boot[TEXT_MAX];

	if (fs_read_file(dir, ORIGIN_FILE, TEXT_MAX, &have, NULL) < 0 || origin_text("", boot) < 0)
		return false;
	const char *space = strchr(have, ' ');
	return space && strcmp(space, boot) == 0;
}

bool disk_origin_take(int dir, const char *generation)
{
	char want[TEXT_MAX];
	auto_free char *have = NULL;

	if (fs_read_file(dir, ORIGIN_FILE, TEXT_MAX, &have, NULL) < 0) {
		(void)unlinkat(dir, ORIGIN_FILE, 0);
		return false;
	}
	/* Where it cannot be taken away, the disk must not change either. */
	return unlinkat(dir, ORIGIN_FILE, 0) == 0 && origin_text(generation, want) == 0 &&
	       strcmp(have, want) == 0;
}
