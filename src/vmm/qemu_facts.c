/* SPDX-License-Identifier: Apache-2.0 */
#include "vmm/qemu_facts.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "vmm/qemu.h"
#include "base/fd.h"
#include "base/fsutil.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/banned.h"

#define CACHE_NAME        "qemu.json"
#define CACHE_BYTES_MAX   8192
#define PROGRAM_BYTES_MAX (INT64_C(1) << 30)
#define HELP              "chroot=dir" /* of -run-with; the older option is "-chroot dir" */

/* A program that was replaced is another one. */
static char *program_key(const char *path)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return NULL;
	return str_printf("%s %" PRIu64 " %" PRIu64 " %" PRId64 " %" PRId64 ".%09ld", path,
		(uint64_t)st.st_dev, (uint64_t)st.st_ino, (int64_t)st.st_size,
		(int64_t)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
}

static bool cache_read(const char *path, const char *key, bool *ret)
{
	auto_free char *text = NULL;
	auto_json doc = NULL;
	const char *cached_key = NULL;
	size_t len = 0;

	if (fs_read_file(AT_FDCWD, path, CACHE_BYTES_MAX, &text, &len) < 0 ||
		json_parse(text, len, CACHE_BYTES_MAX, path, &doc, NULL) < 0 ||
		json_get_str(doc, "key", &cached_key, NULL) < 0 || !cached_key ||
		strcmp(cached_key, key) != 0 || !json_is_boolean(json_object_get(doc, "run_with")))
		return false;
	*ret = json_is_true(json_object_get(doc, "run_with"));
	return true;
}

/* A cache that cannot be written costs time only. */
static void cache_write(const char *cache_dir, const char *path, const char *key, bool run_with)
{
	auto_json doc = json_pack("{s:s, s:b}", "key", key, "run_with", (int)run_with);
	auto_free char *text = doc ? json_text(doc) : NULL;

	if (text && fs_mkdirs(cache_dir) == 0)
		(void)!fs_write_atomic(AT_FDCWD, path, text, strlen(text), 0600);
}

/* The program tells its options in its help, so the words are in the file. It is not run for that:
 * what it is jailed from it would be free to do. */
static bool has_words(const char *program, bool *ret)
{
	auto_fd fd = open(program, O_RDONLY | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || st.st_size <= 0 || st.st_size > PROGRAM_BYTES_MAX)
		return false;
	void *const text = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (text == MAP_FAILED)
		return false;
	*ret = memmem(text, (size_t)st.st_size, HELP, sizeof HELP - 1) != NULL;
	(void)munmap(text, (size_t)st.st_size);
	return true;
}

bool qemu_has_run_with(const char *cache_dir)
{
	auto_free char *program = NULL;
	bool run_with = false;

	if (qemu_find(&program, NULL) < 0)
		return false;
	auto_free char *key = program_key(program);
	auto_free char *path = cache_dir ? str_printf("%s/" CACHE_NAME, cache_dir) : NULL;
	if (key && path && cache_read(path, key, &run_with))
		return run_with;
	if (has_words(program, &run_with) && key && path)
		cache_write(cache_dir, path, key, run_with);
	return run_with;
}
