/* SPDX-License-Identifier: Apache-2.0 */
#include "box/template_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/digest.h"
#include "base/fd.h"
#include "base/fsutil.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/str.h"
#include "base/banned.h"

#define FACTS_MAX  16384
#define STATE_MAX  (16u << 20) /* of the devices; in practice 60 KB */
#define DISK_BLOCK 512 /* unit of st_blocks */
#define NS_PER_S   1000000000

/* ---- describing ---- */

static struct template_file file_of(const struct stat *st)
{
	return (struct template_file){.size_bytes = st->st_size,
		.mtime_ns = (int64_t)st->st_mtim.tv_sec * NS_PER_S + st->st_mtim.tv_nsec};
}

static int seal_file(int dir, const char *name, struct template_file *ret)
{
	struct stat st;
	auto_fd fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0 || fchmod(fd, 0400) < 0 || fsync(fd) < 0 || fstat(fd, &st) < 0)
		return -errno;
	*ret = file_of(&st);
	return 0;
}

static int state_digest(int dir, char ret[DIGEST_STR_LEN + 1])
{
	auto_free char *data = NULL;
	size_t len = 0;
	const int r = fs_read_file(dir, TEMPLATE_STATE, STATE_MAX, &data, &len);

	return r < 0 ? r : digest_of(data, len, ret);
}

static json_t *file_json(const struct template_file *f)
{
	return json_pack("{s:I, s:I}", "size_bytes", (json_int_t)f->size_bytes, "mtime_ns",
		(json_int_t)f->mtime_ns);
}

static json_t *facts_json(const struct template_facts *f)
{
	const struct template_info *i = &f->info;
	auto_json doc = json_pack("{s:s, s:s, s:o, s:s, s:b, s:b}", "format", TEMPLATE_FORMAT,
		"generation", f->generation, "image", json_from_bytes(i->image), "rootfs_digest",
		i->rootfs_digest, "bare", (int)i->bare, "kvm", (int)i->kvm);
	auto_json shape = json_pack("{s:I, s:I, s:I, s:I, s:I}", "memory_mib",
		(json_int_t)i->memory_mib, "cpus", (json_int_t)i->cpus, "disk_bytes",
		(json_int_t)i->disk_bytes, "build_ms", (json_int_t)i->build_ms, "created_ns",
		(json_int_t)i->created_ns);
	auto_json files = json_pack("{s:o, s:o, s:s}", TEMPLATE_MEMORY, file_json(&f->memory),
		TEMPLATE_STATE, file_json(&f->state), "state_digest", f->state_digest);

	if (!doc || !shape || !files || json_object_update(doc, shape) < 0 ||
		json_object_update(doc, files) < 0 ||
		(*i->directories &&
			json_object_set_new(doc, "directories", json_string(i->directories)) < 0) ||
		(!i->bare && json_object_set_new(doc, TEMPLATE_DISK, file_json(&f->disk)) < 0))
		return NULL;
	return take_ptr(doc);
}

static int write_facts(int dir, const struct template_facts *f)
{
	auto_json doc = facts_json(f);
	auto_free char *text = doc ? json_text(doc) : NULL;

	return text ? fs_write_atomic(dir, TEMPLATE_FACTS, text, strlen(text), 0600) : -ENOMEM;
}

int template_files_seal(int dir, const struct template_want *w, uint64_t build_ms)
{
	struct template_facts f = {.info = {.bare = w->bare,
					   .kvm = w->kvm,
					   .memory_mib = w->memory_mib,
					   .cpus = w->cpus,
					   .disk_bytes = w->disk_bytes,
					   .build_ms = build_ms,
					   .created_ns = (int64_t)clock_wall_ns()}};
	int r = random_hex(f.generation, sizeof f.generation - 1);

	if (r == 0 && template_directories_key(&w->directories, f.info.directories, NULL) < 0)
		r = -ENOMEM;

	f.info.image = str_dup(w->image);
	f.info.rootfs_digest = str_dup(w->rootfs_digest);
	if (r == 0 && (!f.info.image || !f.info.rootfs_digest))
		r = -ENOMEM;
	if (r == 0)
		r = seal_file(dir, TEMPLATE_MEMORY, &f.memory);
	if (r == 0)
		r = seal_file(dir, TEMPLATE_STATE, &f.state);
	if (r == 0 && !w->bare)
		r = seal_file(dir, TEMPLATE_DISK, &f.disk);
	if (r == 0)
		r = state_digest(dir, f.state_digest);
	if (r == 0)
		r = write_facts(dir, &f);
	template_facts_done(&f);
	return r;
}

/* ---- reading ---- */

void template_facts_done(struct template_facts *f)
{
	mem_free(f->info.image);
	mem_free(f->info.rootfs_digest);
	f->info.image = f->info.rootfs_digest = NULL;
}

static int get_text(const json_t *doc, const char *key, char *ret, size_t cap)
{
	const char *text = NULL;

	if (json_get_str(doc, key, &text, NULL) < 0 || !text || strlen(text) >= cap)
		return -EINVAL;
	(void)snprintf(ret, cap, "%s", text);
	return 0;
}

static int get_number(const json_t *doc, const char *key, int64_t max, int64_t *ret)
{
	*ret = -1;
	return json_get_int(doc, key, 0, max, ret, NULL) < 0 || *ret < 0 ? -EINVAL : 0;
}

static int get_file(const json_t *doc, const char *key, struct template_file *ret)
{
	const json_t *file = json_object_get(doc, key);

	if (get_number(file, "size_bytes", INT64_MAX, &ret->size_bytes) < 0)
		return -EINVAL;
	return get_number(file, "mtime_ns", INT64_MAX, &ret->mtime_ns);
}

static int parse_info(const json_t *doc, struct template_info *i)
{
	int64_t memory, cpus, disk, build;

	if (get_number(doc, "memory_mib", UINT32_MAX, &memory) < 0 ||
		get_number(doc, "cpus", UINT32_MAX, &cpus) < 0 ||
		get_number(doc, "disk_bytes", INT64_MAX, &disk) < 0 ||
		get_number(doc, "build_ms", INT64_MAX, &build) < 0 ||
		get_number(doc, "created_ns", INT64_MAX, &i->created_ns) < 0)
		return -EINVAL;
	i->memory_mib = (uint32_t)memory;
	i->cpus = (uint32_t)cpus;
	i->disk_bytes = (uint64_t)disk;
	i->build_ms = (uint64_t)build;
	if (json_object_get(doc, "directories") &&
		get_text(doc, "directories", i->directories, sizeof i->directories) < 0)
		return -EINVAL;
	i->bare = json_is_true(json_object_get(doc, "bare"));
	i->kvm = json_is_true(json_object_get(doc, "kvm"));
	if (json_get_bytes(doc, "image", &i->image, NULL) < 0 ||
		json_get_bytes(doc, "rootfs_digest", &i->rootfs_digest, NULL) < 0)
		return -EINVAL;
	return i->image && i->rootfs_digest ? 0 : -EINVAL;
}

static int parse_facts(const json_t *doc, struct template_facts *f)
{
	char format[8];

	if (get_text(doc, "format", format, sizeof format) < 0 ||
		strcmp(format, TEMPLATE_FORMAT) != 0 ||
		get_text(doc, "generation", f->generation, sizeof f->generation) < 0 ||
		get_text(doc, "state_digest", f->state_digest, sizeof f->state_digest) < 0 ||
		get_file(doc, TEMPLATE_MEMORY, &f->memory) < 0 ||
		get_file(doc, TEMPLATE_STATE, &f->state) < 0 || parse_info(doc, &f->info) < 0)
		return -EINVAL;
	return f->info.bare ? 0 : get_file(doc, TEMPLATE_DISK, &f->disk);
}

int template_facts_read(int dir, struct template_facts *ret)
{
	auto_free char *text = NULL;
	auto_json doc = NULL;
	size_t len = 0;
	int r = fs_read_file(dir, TEMPLATE_FACTS, FACTS_MAX, &text, &len);

	if (r < 0)
		return r;
	*ret = (struct template_facts){0};
	if (json_parse(text, len, FACTS_MAX, TEMPLATE_FACTS, &doc, NULL) < 0)
		return -EINVAL;
	r = parse_facts(doc, ret);
	if (r < 0)
		template_facts_done(ret);
	return r;
}

/* ---- opening ---- */

static int open_as_made(int dir, const char *name, const struct template_file *want, int *ret_fd)
{
	struct stat st;
	const int fd = *ret_fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	const struct template_file have = file_of(&st);
	return S_ISREG(st.st_mode) && have.size_bytes == want->size_bytes &&
			       have.mtime_ns == want->mtime_ns
		       ? 0
		       : -EINVAL;
}

int template_files_open(
	int dir, const struct template_facts *f, struct template *ret, const char **ret_what)
{
	char digest[DIGEST_STR_LEN + 1];
	int r = open_as_made(dir, *ret_what = TEMPLATE_MEMORY, &f->memory, &ret->memory_fd);

	if (r == 0)
		r = open_as_made(dir, *ret_what = TEMPLATE_STATE, &f->state, &ret->state_fd);
	if (r == 0)
		r = state_digest(dir, digest);
	if (r == 0 && strcmp(digest, f->state_digest) != 0)
		r = -EINVAL;
	if (r == 0 && !f->info.bare)
		r = open_as_made(dir, *ret_what = TEMPLATE_DISK, &f->disk, &ret->disk_fd);
	return r;
}

void template_files_measure(int dir, struct template_info *ret)
{
	static const char *const names[] = {TEMPLATE_MEMORY, TEMPLATE_STATE, TEMPLATE_DISK};
	struct stat st;

	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
		if (fstatat(dir, names[i], &st, AT_SYMLINK_NOFOLLOW) == 0)
			ret->size_bytes += (uint64_t)st.st_blocks * DISK_BLOCK;
	}
	if (fstatat(dir, TEMPLATE_FACTS, &st, AT_SYMLINK_NOFOLLOW) == 0)
		ret->used_ns = file_of(&st).mtime_ns;
}
