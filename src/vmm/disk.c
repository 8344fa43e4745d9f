/* SPDX-License-Identifier: Apache-2.0 */
#include "vmm/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/fsutil.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/str.h"
#include "base/banned.h"

/*
 * Empty disks. mke2fs makes one per size into the cache ("disk-SIZE.ext4"), under a lock, in a
 * temporary file that is renamed when it is complete; a disk of a box is a sparse copy of it, or of
 * a template's disk.
 *
 * The file system is made for a quick first mount and a small footprint:
 * - inode tables are zero already (holes) and marked so: the guest starts no background zeroing;
 * - no checksums of metadata, which cost time under emulation and guard against failing media only;
 * - a journal of 16 MiB, because every block of it will be written to and then stays allocated;
 * - no blocks reserved for root, no room to grow.
 * Every feature is named, so that the host's mke2fs.conf does not matter.
 */

#define DISK_MIN_BYTES    (UINT64_C(64) << 20)
#define DISK_MAX_BYTES    (UINT64_C(16) << 40) /* what ext4 without 64-bit block numbers holds */
#define BLOCK_BYTES       4096
#define SMALL_DISK_BYTES  (UINT64_C(1) << 30)
#define JOURNAL_MIB       16
#define JOURNAL_SMALL_MIB 4
#define MKE2FS_TIMEOUT_MS 60000
/* All disks are copies of one, so the identifiers may as well be fixed. */
#define FS_UUID "686f6c74-0000-4000-8000-6469736b0000"

static const char fs_features[] =
	"none,has_journal,ext_attr,dir_index,filetype,extent,flex_bg,sparse_super,large_file,"
	"huge_file,dir_nlink,extra_isize,uninit_bg";
static const char fs_extended[] =
	"lazy_itable_init=0,lazy_journal_init=1,root_owner=0:0,hash_seed=" FS_UUID;

static int fail(holt_error **reterr, int r, const char *what, const char *path)
{
	const int code = err_errno(reterr, -r, "cannot %s '%s'", what, path);

	err_object(reterr, path);
	if (r == -ENOSPC || r == -EDQUOT)
		err_hint(reterr, "free some space on the file system of '%s'", path);
	return code;
}

static const char *mke2fs_path(void)
{
	static const char *const places[] = {
		"/sbin/mke2fs", "/usr/sbin/mke2fs", "/usr/local/sbin/mke2fs", "/usr/bin/mke2fs"};

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		if (access(places[i], X_OK) == 0)
			return places[i];
	}
	return NULL;
}

static int mke2fs(const char *path, uint64_t size_bytes, holt_error **reterr)
{
	const char *program = mke2fs_path();
	if (!program) {
		err_make(reterr, HOLT_ENOT_FOUND, "'mke2fs' is not installed");
		err_object(reterr, "mke2fs");
		err_hint(reterr, "install e2fsprogs");
		return -HOLT_ENOT_FOUND;
	}
	auto_free char *blocks = str_printf("%" PRIu64, size_bytes / BLOCK_BYTES);
	auto_free char *journal = str_printf(
		"size=%d", size_bytes < SMALL_DISK_BYTES ? JOURNAL_SMALL_MIB : JOURNAL_MIB);
	if (!blocks || !journal)
		return err_nomem(reterr);
	const char *const argv[] = {"mke2fs", "-q", "-F", "-t", "ext4", "-b", "4096", "-I", "256",
		"-i", "16384", "-m", "0", "-O", fs_features, "-J", journal, "-U", FS_UUID, "-E",
		fs_extended, path, blocks, NULL};
	const int r = proc_run(program, argv, MKE2FS_TIMEOUT_MS, NULL, reterr);
	if (r < 0) {
		err_wrap(reterr, "cannot make a file system in '%s'", path);
		err_object(reterr, path);
	}
	return r;
}

/* Make the blank disk @path; the caller holds the lock, so a temporary file that is there was
 * left behind by a process that died. */
static int blank_make(const char *path, uint64_t size_bytes, holt_error **reterr)
{
	auto_free char *temp = str_printf("%s.tmp", path);
	if (!temp)
		return err_nomem(reterr);
	auto_fd fd = open(temp, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0)
		return fail(reterr, -errno, "create", temp);
	int r = 0;
	if (ftruncate(fd, (off_t)size_bytes) < 0)
		r = fail(reterr, -errno, "resize", temp);
	if (r == 0)
		r = mke2fs(temp, size_bytes, reterr);
	if (r == 0 && (fsync(fd) < 0 || fchmod(fd, 0400) < 0))
		r = fail(reterr, -errno, "write", temp);
	if (r == 0) {
		const int published = fs_publish(AT_FDCWD, temp, AT_FDCWD, path);
		if (published < 0)
			r = fail(reterr, published, "publish", path);
	}
	if (r < 0)
		(void)unlink(temp);
	return r;
}

/* Open the blank disk of a size, making it where it is missing. */
static int blank_open(const char *cache_dir, uint64_t size_bytes, int *ret_fd, holt_error **reterr)
{
	auto_free char *path = str_printf("%s/disk-%" PRIu64 ".ext4", cache_dir, size_bytes);
	auto_free char *lock_path = path ? str_printf("%s.lock", path) : NULL;
	if (!lock_path)
		return err_nomem(reterr);
	auto_fd fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT) {
		int r = fs_mkdirs(cache_dir);
		if (r < 0)
			return fail(reterr, r, "create", cache_dir);
		auto_fd lock = fs_open_lock(AT_FDCWD, lock_path, true);
		if (lock < 0)
			return fail(reterr, lock, "lock", lock_path);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0 && errno == ENOENT) {
			r = blank_make(path, size_bytes, reterr);
			if (r < 0)
				return r;
			fd = open(path, O_RDONLY | O_CLOEXEC);
		}
	}
	if (fd < 0)
		return fail(reterr, -errno, "open", path);
	*ret_fd = take_fd(fd);
	return 0;
}

/* The copy is whole: let it bear @name, in the place of what does. @named: it is called @temp. */
static int disk_name(int fd, int dirfd, const char *name, const char *temp, bool named)
{
	int r = named ? -EEXIST : fs_give_name(fd, dirfd, name);

	if (r != -EEXIST)
		return r;
	r = named ? 0 : fs_give_name(fd, dirfd, temp);
	if (r == 0 && renameat(dirfd, temp, dirfd, name) < 0)
		r = -errno;
	return r;
}

int disk_clone(int source_fd, int dirfd, const char *name, holt_error **reterr)
{
	auto_free char *temp = str_printf("%s.tmp", name);
	bool named = false;

	if (!temp)
		return err_nomem(reterr);
	/* A copier that was killed may leave its half, but only where files need a name. */
	if (unlinkat(dirfd, temp, 0) < 0 && errno != ENOENT) {
		const int r = fail(reterr, -errno, "remove", temp);
		err_stage(reterr, "disk");
		return r;
	}
	auto_fd fd = fs_open_nameless(dirfd, name, temp, 0600, &named);
	int r = fd < 0 ? fail(reterr, fd, "create disk", name) : 0;
	if (r == 0) {
		r = fs_copy_sparse(source_fd, fd);
		if (r < 0)
			r = fail(reterr, r, "write disk", name);
	}
	if (r == 0) {
		r = disk_name(fd, dirfd, name, temp, named);
		if (r < 0)
			r = fail(reterr, r, "name disk", name);
	}
	if (r < 0) {
		(void)unlinkat(dirfd, temp, 0);
		err_stage(reterr, "disk");
	}
	return r;
}

int disk_create(const char *cache_dir, int dirfd, const char *name, uint64_t size_bytes,
	holt_error **reterr)
{
	auto_fd blank = FD_NONE;

	if (size_bytes < DISK_MIN_BYTES || size_bytes > DISK_MAX_BYTES ||
		size_bytes % BLOCK_BYTES != 0) {
		err_make(reterr, HOLT_EINVALID,
			"disk size %" PRIu64 " is not a multiple of %d between 64 MiB and 16 TiB",
			size_bytes, BLOCK_BYTES);
		err_object(reterr, name);
		err_hint(reterr, "choose a disk size within these limits");
		err_stage(reterr, "disk");
		return -HOLT_EINVALID;
	}
	int r = faccessat(dirfd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0
			? fail(reterr, -EEXIST, "create disk", name)
			: blank_open(cache_dir, size_bytes, &blank, reterr);
	if (r == 0)
		r = disk_clone(blank, dirfd, name, reterr);
	if (r < 0)
		err_stage(reterr, "disk");
	return r;
}
