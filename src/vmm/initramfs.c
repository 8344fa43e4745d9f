/* SPDX-License-Identifier: Apache-2.0 */
#include "vmm/kernel.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vmm/initramfs_note.h"
#include "vmm/modinfo.h"
#include "vmm/modules.h"
#include "base/buf.h"
#include "base/digest.h"
#include "base/fd.h"
#include "base/fsutil.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/banned.h"

/*
 * The initramfs: a cpio archive ("newc", uncompressed, since the guest would unpack it slowly) with
 *   /init            the agent
 *   /modules/NN-x.ko the modules, numbered in load order
 *   /modules.list    their paths, one a line; an empty line stands before those that may load late
 * It is built in memory, hashed, and written only if no file of that name is in the cache. Times
 * and inode numbers are fixed, to make the same content the same bytes, so that any number of
 * processes may do so at once. As that takes longer than all else that a process does for a clone,
 * there is a note of what the archive was made from (initramfs_note.h): one whose note holds, and
 * which begins with the agent, is taken as it is. So whatever changes, no stale archive is ever
 * used.
 */

#define ARCHIVE_MAX (128u * 1024u * 1024u) /* a guest of the smallest memory could hold no more */
#define LIST_MAX    8192
#define CPIO_ALIGN  4
#define HEAD_MAX    256 /* of an entry with a short name */
#define AGENT_MODE  (S_IFREG | 0755)

static const uint8_t zeros[CPIO_ALIGN];

/* What stands before the data of an entry: header, name with NUL, padding. */
static int cpio_head(struct buf *b, const char *name, uint32_t mode, size_t len)
{
	const size_t name_size = strlen(name) + 1;

	/* magic, ino, mode, uid, gid, nlink, mtime, size, dev x2, rdev x2, name size, check */
	int r = buf_printf(b, "070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X", 0u,
		mode, 0u, 0u, 1u, 0u, (unsigned)len, 0u, 0u, 0u, 0u, (unsigned)name_size, 0u);
	if (r == 0)
		r = buf_append(b, name, name_size);
	if (r == 0)
		r = buf_append(b, zeros, -b->len % CPIO_ALIGN);
	return r;
}

static int cpio_add(struct buf *b, const char *name, uint32_t mode, const void *data, size_t len)
{
	int r = cpio_head(b, name, mode, len);

	if (r == 0)
		r = buf_append(b, data, len);
	if (r == 0)
		r = buf_append(b, zeros, -b->len % CPIO_ALIGN);
	return r;
}

static int fail_buf(int r, holt_error **reterr)
{
	return r == -ENOMEM
		       ? err_nomem(reterr)
		       : err_make(reterr, HOLT_ELIMIT, "agent and modules are larger than %u MiB",
				 ARCHIVE_MAX >> 20);
}

static int add_module(struct buf *archive, struct buf *list, const struct kernel *k, size_t i,
	holt_error **reterr)
{
	const char *path = k->modules[i];
	const char *slash = strrchr(path, '/');
	auto_free char *name = str_printf("modules/%02zu-%s", i, slash ? slash + 1 : path);
	auto_free char *data = NULL;
	size_t len = 0;

	if (!name)
		return err_nomem(reterr);
	int r = fs_read_file(AT_FDCWD, path, MODULE_BYTES_MAX, &data, &len);
	if (r < 0) {
		r = err_errno(reterr, -r, "cannot read module '%s'", path);
		err_object(reterr, path);
		return r;
	}
	if (k->strip)
		len = module_unsigned_len(data, len);
	r = cpio_add(archive, name, S_IFREG | 0644, data, len);
	if (r == 0)
		r = buf_printf(list, "/%s\n", name);
	return r < 0 ? fail_buf(r, reterr) : 0;
}

static int archive_build(struct buf *archive, const struct kernel *k, const void *agent,
	size_t agent_len, holt_error **reterr)
{
	auto_buf list = BUF_INIT(LIST_MAX);

	int r = cpio_add(archive, "init", AGENT_MODE, agent, agent_len);
	if (r == 0)
		r = cpio_add(archive, "modules", S_IFDIR | 0755, NULL, 0);
	if (r < 0)
		return fail_buf(r, reterr);
	for (size_t i = 0; k->modules[i]; i++) {
		if (i == k->n_early && buf_appends(&list, "\n") < 0)
			return fail_buf(-ENOMEM, reterr);
		r = add_module(archive, &list, k, i, reterr);
		if (r < 0)
			return r;
	}
	r = cpio_add(archive, "modules.list", S_IFREG | 0644, list.data, list.len);
	if (r == 0)
		r = cpio_add(archive, "TRAILER!!!", 0, NULL, 0);
	return r < 0 ? fail_buf(r, reterr) : 0;
}

/* Open the file of @len bytes that @path names; FD_NONE where there is none such. */
static int open_sized(const char *path, size_t len)
{
	struct stat st;
	auto_fd fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || fstat(fd, &st) < 0 || (uint64_t)st.st_size != len)
		return FD_NONE;
	return take_fd(fd);
}

/* Of any number of processes one writes it; a descriptor or -errno. */
static int open_made(const struct buf *archive, const char *cache_dir, const char *path)
{
	int fd = open_sized(path, archive->len);

	if (fd >= 0)
		return fd;
	auto_fd lock = kernel_cache_lock(cache_dir);
	if (lock < 0)
		return lock;
	fd = open_sized(path, archive->len);
	if (fd >= 0)
		return fd;
	const int r = fs_write_atomic(AT_FDCWD, path, archive->data, archive->len, 0400);
	fd = r == 0 ? open(path, O_RDONLY | O_CLOEXEC) : FD_NONE;
	return r < 0 ? r : fd < 0 ? -errno : fd;
}

static int archive_publish(const struct buf *archive, const struct kernel *k, const char *cache_dir,
	int *ret_fd, holt_error **reterr)
{
	char digest[DIGEST_STR_LEN + 1];

	int r = digest_of(archive->data, archive->len, digest);
	if (r < 0)
		return err_nomem(reterr);
	auto_free char *path = str_printf(
		"%s/initramfs-%s.cpio", cache_dir, strchr(digest, ':') + 1);
	if (!path)
		return err_nomem(reterr);
	const int fd = open_made(archive, cache_dir, path);
	if (fd < 0) {
		r = err_errno(reterr, -fd, "cannot write initramfs '%s'", path);
		err_object(reterr, path);
		return r;
	}
	initramfs_note_write(k, cache_dir, strrchr(path, '/') + 1);
	*ret_fd = fd;
	return 0;
}

static bool begins_with(const uint8_t *bytes, size_t size, const void *agent, size_t agent_len)
{
	auto_buf head = BUF_INIT(HEAD_MAX);

	return cpio_head(&head, "init", AGENT_MODE, agent_len) == 0 && size >= head.len &&
	       agent_len <= size - head.len && memcmp(bytes, head.data, head.len) == 0 &&
	       memcmp(bytes + head.len, agent, agent_len) == 0;
}

/* The archive that is known to be the right one, or FD_NONE. */
static int open_noted(
	const struct kernel *k, const void *agent, size_t agent_len, const char *cache_dir)
{
	auto_free char *name = initramfs_note_read(k, cache_dir);
	auto_free char *path = name ? str_printf("%s/%s", cache_dir, name) : NULL;
	auto_fd fd = path ? open(path, O_RDONLY | O_CLOEXEC) : FD_NONE;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || st.st_size <= 0)
		return FD_NONE;
	const size_t size = (size_t)st.st_size;
	void *bytes = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
	if (bytes == MAP_FAILED)
		return FD_NONE;
	const bool right = begins_with(bytes, size, agent, agent_len);
	(void)munmap(bytes, size);
	return right ? take_fd(fd) : FD_NONE;
}

int initramfs_open(struct kernel *k, const void *agent, size_t agent_len, const char *cache_dir,
	int *ret_fd, holt_error **reterr)
{
	auto_buf archive = BUF_INIT(ARCHIVE_MAX);

	const int noted = open_noted(k, agent, agent_len, cache_dir);
	if (noted >= 0) {
		*ret_fd = noted;
		return 0;
	}
	int r = k->modules ? 0 : kernel_complete(k, reterr);
	if (r == 0)
		r = archive_build(&archive, k, agent, agent_len, reterr);
	if (r == 0)
		r = archive_publish(&archive, k, cache_dir, ret_fd, reterr);
	if (r < 0)
		err_stage(reterr, "initramfs");
	return r;
}
