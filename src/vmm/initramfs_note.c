/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The note is a text file in the cache, one a kernel release:
 *
 *   the name of the archive
 *   FACTS PATH      of the archive, the code that made it, the kernel's lists and configuration,
 *                   each module; FACTS are device, inode, size, times of content and of inode, or
 * "-" for a file that is not there
 *
 * It holds as long as every line is what it would be now. The time of the inode cannot be set by
 * anybody, so a file that was written is never taken for the one before; what was written in the
 * two seconds before the note is not noted at all, as a clock may be that coarse.
 */
#include "vmm/initramfs_note.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fsutil.h"
#include "base/mem.h"
#include "base/str.h"
#include "vmm/modules.h"
#include "base/banned.h"

#define NOTE_MAX  (64u * 1024u) /* MODULES_MAX paths and a few more, of some 150 bytes each */
#define FACTS_MAX 160
#define COARSE_S  2
#define FIXED     5 /* lines that stand before those of the modules */

static char *note_path(const struct kernel *k, const char *cache_dir)
{
	return str_printf("%s/initramfs-%s.note", cache_dir, k->release);
}

/* *ret_newest_s becomes the newest time if that is newer; may be NULL. */
static void facts_of(const char *path, char ret[FACTS_MAX], int64_t *ret_newest_s)
{
	struct stat st;

	if (stat(path, &st) < 0) {
		(void)snprintf(ret, FACTS_MAX, "-");
		return;
	}
	(void)snprintf(ret, FACTS_MAX,
		"%" PRIu64 " %" PRIu64 " %" PRIi64 " %" PRIi64 ".%09ld %" PRIi64 ".%09ld",
		(uint64_t)st.st_dev, (uint64_t)st.st_ino, (int64_t)st.st_size,
		(int64_t)st.st_mtim.tv_sec, st.st_mtim.tv_nsec, (int64_t)st.st_ctim.tv_sec,
		st.st_ctim.tv_nsec);
	const int64_t newest = st.st_mtim.tv_sec > st.st_ctim.tv_sec ? st.st_mtim.tv_sec
								     : st.st_ctim.tv_sec;
	if (ret_newest_s && newest > *ret_newest_s)
		*ret_newest_s = newest;
}

/* The file that holds this code: another build may pack another archive. */
static const char *own_file(void)
{
	static const char anchor = 0;
	Dl_info info;

	return dladdr(&anchor, &info) && info.dli_fname ? info.dli_fname : "";
}

/* The path that one of the first lines is about: fresh memory, or NULL. */
static char *fixed_path(const struct kernel *k, const char *cache_dir, const char *name, size_t i)
{
	const char *slash = strrchr(k->image, '/');

	switch (i) {
	case 0:
		return str_printf("%s/%s", cache_dir, name);
	case 1:
		return str_dup(own_file());
	case 2:
		return str_printf("%s/modules.order", k->dir);
	case 3:
		return str_printf("%s/modules.builtin", k->dir);
	default:
		return str_printf("%.*sconfig-%s", slash ? (int)(slash - k->image) + 1 : 0,
			k->image, k->release);
	}
}

static int add_line(struct buf *b, const char *path, int64_t *newest_s)
{
	char facts[FACTS_MAX];

	facts_of(path, facts, newest_s);
	return strchr(path, '\n') ? -1 : buf_printf(b, "%s %s\n", facts, path);
}

static bool is_line(const char *line, const char *path)
{
	char facts[FACTS_MAX];

	facts_of(path, facts, NULL);
	const size_t len = strlen(facts);
	return strncmp(line, facts, len) == 0 && line[len] == ' ' &&
	       strcmp(line + len + 1, path) == 0;
}

/* Cut a line off the text. */
static char *next_line(char **text)
{
	char *line = *text;
	char *end = strchr(line, '\n');

	if (!end)
		return NULL;
	*end = '\0';
	*text = end + 1;
	return line;
}

static bool all_hold(const struct kernel *k, const char *cache_dir, const char *name, char *text)
{
	for (size_t i = 0; i < FIXED; i++) {
		auto_free char *path = fixed_path(k, cache_dir, name, i);
		const char *line = next_line(&text);
		if (!path || !line || !is_line(line, path))
			return false;
	}
	for (const char *line; (line = next_line(&text));) {
		const char *path = strchr(line, '/');
		if (!path || !is_line(line, path))
			return false;
	}
	return *text == '\0';
}

char *initramfs_note_read(const struct kernel *k, const char *cache_dir)
{
	auto_free char *path = note_path(k, cache_dir);
	auto_free char *data = NULL;

	if (!path || fs_read_file(AT_FDCWD, path, NOTE_MAX, &data, NULL) < 0)
		return NULL;
	char *text = data;
	const char *name = next_line(&text);
	if (!name || !*name || strchr(name, '/') || !all_hold(k, cache_dir, name, text))
		return NULL;
	return str_dup(name);
}

void initramfs_note_write(const struct kernel *k, const char *cache_dir, const char *name)
{
	auto_free char *path = note_path(k, cache_dir);
	auto_buf b = BUF_INIT(NOTE_MAX);
	int64_t newest_s = 0;
	int r = path ? buf_printf(&b, "%s\n", name) : -1;

	/* The archive itself is as its maker published it, however young. */
	for (size_t i = 0; r == 0 && i < FIXED; i++) {
		auto_free char *fixed = fixed_path(k, cache_dir, name, i);
		r = fixed ? add_line(&b, fixed, i > 0 ? &newest_s : NULL) : -1;
	}
	for (size_t i = 0; r == 0 && k->modules[i]; i++)
		r = k->modules[i][0] == '/' ? add_line(&b, k->modules[i], &newest_s) : -1;
	if (r == 0 && newest_s + COARSE_S < (int64_t)(clock_wall_ns() / 1000000000))
		(void)!fs_write_atomic(AT_FDCWD, path, b.data, b.len, 0600);
}
