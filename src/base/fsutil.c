/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fsutil.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/str.h"
#include "base/banned.h"

#define FS_TREE_DEPTH_MAX 64
#define FS_COPY_CHUNK     (1u << 20)

int fs_mkdirs(const char *path)
{
	auto_free char *copy = str_dup(path);

	if (!copy)
		return -ENOMEM;
	for (char *p = copy + 1; *copy; p++) {
		if (*p != '/' && *p != 0)
			continue;
		const char saved = *p;
		*p = 0;
		if (mkdir(copy, 0700) < 0 && errno != EEXIST) {
			const int failed = errno;
			struct stat st;
			/* A read-only or foreign parent is fine as long as it is there. */
			if (stat(copy, &st) < 0)
				return -failed;
			if (!S_ISDIR(st.st_mode))
				return -ENOTDIR;
		}
		if (!saved)
			break;
		*p = saved;
	}
	struct stat st;
	if (stat(path, &st) < 0)
		return -errno;
	return S_ISDIR(st.st_mode) ? 0 : -ENOTDIR;
}

int fs_sync_dir(int dirfd)
{
	auto_fd fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	return fsync(fd) < 0 ? -errno : 0;
}

int fs_publish(int olddir, const char *oldname, int newdir, const char *newname)
{
	if (renameat(olddir, oldname, newdir, newname) < 0)
		return -errno;
	const char *slash = strrchr(newname, '/');
	if (!slash)
		return fs_sync_dir(newdir);
	auto_free char *parent = str_ndup(newname, (size_t)(slash - newname) + 1);
	if (!parent)
		return -ENOMEM;
	auto_fd fd = openat(newdir, parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	return fsync(fd) < 0 ? -errno : 0;
}

int fs_open_nameless(int dirfd, const char *name, const char *temp, mode_t mode, bool *ret_named)
{
	const char *slash = strrchr(name, '/');
	auto_free char *parent = slash ? str_ndup(name, (size_t)(slash - name) + 1) : str_dup(".");

	if (!parent)
		return -ENOMEM;
	int fd = openat(dirfd, parent, O_RDWR | O_TMPFILE | O_CLOEXEC, mode);
	*ret_named = fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL);
	if (*ret_named)
		fd = openat(dirfd, temp, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
	return fd < 0 ? -errno : fd;
}

int fs_give_name(int fd, int dirfd, const char *name)
{
	char self[40];

	(void)snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
	return linkat(AT_FDCWD, self, dirfd, name, AT_SYMLINK_FOLLOW) < 0 ? -errno : 0;
}

int fs_write_atomic(int dirfd, const char *name, const void *data, size_t len, mode_t mode)
{
	char suffix[13];
	bool named = false;
	int r = random_hex(suffix, 12);

	if (r < 0)
		return r;
	auto_free char *temp = str_printf("%s.%s.tmp", name, suffix);
	if (!temp)
		return -ENOMEM;
	auto_fd fd = fs_open_nameless(dirfd, name, temp, mode, &named);
	if (fd < 0)
		return fd;
	r = fd_write_full(fd, data, len);
	if (r == 0 && fsync(fd) < 0)
		r = -errno;
	if (r == 0 && !named) {
		r = fs_give_name(fd, dirfd, temp);
		named = r == 0;
	}
	if (r == 0)
		r = fs_publish(dirfd, temp, dirfd, name);
	if (r < 0 && named)
		(void)unlinkat(dirfd, temp, 0);
	return r;
}

int fs_replace(int dirfd_, const char *name, const void *data, size_t len, mode_t mode)
{
	auto_free char *temp = str_printf("%s.tmp", name);

	if (!temp)
		return -ENOMEM;
	auto_fd fd = openat(
		dirfd_, temp, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, mode);
	if (fd < 0)
		return -errno;
	int r = fd_write_full(fd, data, len);
	if (r == 0 && renameat(dirfd_, temp, dirfd_, name) < 0)
		r = -errno;
	if (r < 0)
		(void)unlinkat(dirfd_, temp, 0);
	return r;
}

int fs_read_file(int dirfd, const char *name, size_t max, char **ret_data, size_t *ret_len)
{
	auto_fd fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	size_t cap = 4096;
	size_t len = 0;
	auto_free char *data = mem_zalloc(cap + 1);
	while (data) {
		const ssize_t n = fd_read_full(fd, data + len, cap - len);
		if (n < 0)
			return (int)n;
		len += (size_t)n;
		if (len > max)
			return -EFBIG;
		if (len < cap) {
			data[len] = 0;
			if (ret_len)
				*ret_len = len;
			*ret_data = take_ptr(data);
			return 0;
		}
		cap *= 2;
		char *more = mem_resize(data, cap + 1, 1);
		if (!more)
			break;
		data = more;
	}
	return -ENOMEM;
}

static bool is_dot(const char *name)
{
	return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* Remove what one directory holds directly; a subdirectory that cannot go yet is returned open in
 * *ret_sub (with its name in @sub_name), so that the caller goes down without recursion. */
static int remove_entries(DIR *dir, char *sub_name, size_t cap, int *ret_sub)
{
	struct dirent *entry;

	rewinddir(dir);
	while ((errno = 0, entry = readdir(dir))) {
		if (is_dot(entry->d_name))
			continue;
		if (unlinkat(dirfd(dir), entry->d_name, 0) == 0 || errno == ENOENT)
			continue;
		if (errno != EISDIR && errno != EPERM)
			return -errno;
		if (unlinkat(dirfd(dir), entry->d_name, AT_REMOVEDIR) == 0)
			continue;
		if (errno != ENOTEMPTY && errno != EEXIST)
			return -errno;
		const int sub = openat(
			dirfd(dir), entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (sub < 0)
			return -errno;
		(void)snprintf(sub_name, cap, "%s", entry->d_name);
		*ret_sub = sub;
		return 1;
	}
	return -errno;
}

int fs_remove_tree(int dirfd_, const char *name)
{
	DIR *stack[FS_TREE_DEPTH_MAX];
	char names[FS_TREE_DEPTH_MAX][256];
	size_t depth = 0;
	int r = 0;

	if (unlinkat(dirfd_, name, 0) == 0 || errno == ENOENT)
		return 0;
	if (errno != EISDIR && errno != EPERM)
		return -errno;
	int fd = openat(dirfd_, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	stack[depth] = fdopendir(fd);
	if (!stack[depth]) {
		(void)fd_close(fd);
		return -ENOMEM;
	}
	depth++;
	while (depth > 0) {
		fd = FD_NONE;
		r = remove_entries(stack[depth - 1], names[depth - 1], sizeof names[0], &fd);
		if (r < 0)
			break;
		if (r == 0) {
			(void)closedir(stack[--depth]);
			if (depth > 0 &&
				unlinkat(dirfd(stack[depth - 1]), names[depth - 1], AT_REMOVEDIR) <
					0 &&
				errno != ENOENT) {
				r = -errno;
				break;
			}
			continue;
		}
		DIR *sub = depth < FS_TREE_DEPTH_MAX ? fdopendir(fd) : NULL;
		if (!sub) {
			(void)fd_close(fd);
			r = depth < FS_TREE_DEPTH_MAX ? -ENOMEM : -ELOOP;
			break;
		}
		stack[depth++] = sub;
	}
	while (depth > 0)
		(void)closedir(stack[--depth]);
	if (r < 0)
		return r;
	return unlinkat(dirfd_, name, AT_REMOVEDIR) < 0 && errno != ENOENT ? -errno : 0;
}

int fs_trylock(int fd)
{
	return flock(fd, LOCK_EX | LOCK_NB) < 0 ? -errno : 0;
}

int fs_lock(int fd)
{
	while (flock(fd, LOCK_EX) < 0) {
		if (errno != EINTR)
			return -errno;
	}
	return 0;
}

bool fs_is_named(int fd, int dirfd_, const char *name)
{
	struct stat held;
	struct stat named;

	return fstat(fd, &held) == 0 && fstatat(dirfd_, name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
	       held.st_dev == named.st_dev && held.st_ino == named.st_ino;
}

int fs_open_lock(int dirfd_, const char *name, bool wait)
{
	for (;;) {
		auto_fd fd = openat(dirfd_, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
		if (fd < 0)
			return -errno;
		const int r = wait ? fs_lock(fd) : fs_trylock(fd);
		if (r < 0)
			return r;
		if (fs_is_named(fd, dirfd_, name))
			return take_fd(fd);
		/* Its last holder removed the file meanwhile: lock the new one. */
	}
}

/* Copy [from, to) of both files. */
static int copy_range(int src, int dst, off_t from, off_t to)
{
	while (from < to) {
		off_t in = from;
		off_t out = from;
		ssize_t n = copy_file_range(src, &in, dst, &out, (size_t)(to - from), 0);
		if (n < 0 && (errno == EXDEV || errno == ENOSYS || errno == EINVAL ||
				     errno == EOPNOTSUPP)) {
			auto_free char *chunk = mem_zalloc(FS_COPY_CHUNK);
			if (!chunk)
				return -ENOMEM;
			const off_t left = to - from;
			n = pread(src, chunk,
				left < (off_t)FS_COPY_CHUNK ? (size_t)left : FS_COPY_CHUNK, from);
			if (n > 0)
				n = pwrite(dst, chunk, (size_t)n, from);
		}
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return -EIO; /* the source shrank */
		from += n;
	}
	return 0;
}

int fs_copy_sparse(int src, int dst)
{
	struct stat st;

	if (fstat(src, &st) < 0)
		return -errno;
	if (ioctl(dst, FICLONE, src) == 0)
		return 0;
	if (ftruncate(dst, st.st_size) < 0)
		return -errno;
	for (off_t at = 0; at < st.st_size;) {
		const off_t data = lseek(src, at, SEEK_DATA);
		if (data < 0 && errno == ENXIO)
			return 0;
		if (data < 0)
			return -errno;
		off_t hole = lseek(src, data, SEEK_HOLE);
		if (hole < 0)
			return -errno;
		const int r = copy_range(src, dst, data, hole);
		if (r < 0)
			return r;
		at = hole;
	}
	return 0;
}

int fs_free_bytes(const char *path, uint64_t *ret)
{
	struct statvfs st;

	if (statvfs(path, &st) < 0)
		return -errno;
	*ret = (uint64_t)st.f_bavail * st.f_frsize;
	return 0;
}
