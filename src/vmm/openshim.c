/* SPDX-License-Identifier: Apache-2.0 */
/*
 * QEMU's files are the descriptors that it has, theory of operation.
 *
 * QEMU takes kernel, initramfs and a template's memory by path only, so they are given to it as
 * /proc/self/fd/N. Opening such a path is opening the file anew, with all that its owner, its mode
 * and the jail have to say: it needs a /proc, and a user who may. So this object, loaded before
 * QEMU's libraries (LD_PRELOAD), answers these very paths, and /dev/kvm, with a duplicate of the
 * descriptor itself. What was opened for QEMU is all that there is.
 *
 * With that a template stays as it is. A clone maps its template's memory privately (MAP_PRIVATE:
 * its writes go to pages of its own), yet QEMU opens the file for reading and writing; up to
 * version 8.1 no option of its gives writable memory from a file that is open for reading. With
 * such a descriptor whoever escapes from one guest into its QEMU could write into the memory that
 * every later clone begins with. The duplicate is open for reading only, as the descriptor is, and
 * private mappings need no more than that to be writable.
 *
 * All open calls that QEMU and its libraries may use are replaced by the bare system call, whose
 * meaning glibc's add nothing to on x86_64 (there are only large files; the calls are points of
 * cancellation, which QEMU does not use); so is fopen, whose own call inside glibc does not come by
 * here.
 *
 * QEMU finds its own files beside /proc/self/exe. Where there is no /proc, the kernel has told the
 * program's name in another way.
 *
 * The loader finds the object as a descriptor too (qemu.c), since LD_PRELOAD splits paths at blanks
 * and colons, and under another user there may be no path to it. It stays open: nobody can change
 * it, and a script that QEMU is started by has it loaded first. This file links nothing but libc.
 */
/* With these the headers would put other functions in the place of those that are defined here. */
#undef _FORTIFY_SOURCE
#undef _FILE_OFFSET_BITS

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "vmm/qemu_argv.h"
#include "base/banned.h"

/* The names are glibc's: those with two underscores are what calls with two arguments become in a
 * fortified program. Its headers declare them under conditions, and not in all versions. */
#define EXPORT __attribute__((visibility("default")))

EXPORT int open(const char *path, int flags, ...);
EXPORT int open64(const char *path, int flags, ...);
EXPORT int openat(int dirfd, const char *path, int flags, ...);
EXPORT int openat64(int dirfd, const char *path, int flags, ...);
EXPORT ssize_t readlink(const char *path, char *buf, size_t size);
EXPORT ssize_t readlink_checked(const char *path, char *buf, size_t size, size_t room) __asm__(
	"__readlink_chk");
EXPORT FILE *fopen(const char *path, const char *mode);
EXPORT FILE *fopen64(const char *path, const char *mode);
EXPORT int open_checked(const char *path, int flags) __asm__("__open_2");
EXPORT int open64_checked(const char *path, int flags) __asm__("__open64_2");
EXPORT int openat_checked(int dirfd, const char *path, int flags) __asm__("__openat_2");
EXPORT int openat64_checked(int dirfd, const char *path, int flags) __asm__("__openat64_2");

static const struct {
	const char *path;
	int fd;
} files[] = {
	{QEMU_KERNEL_PATH, QEMU_FD_KERNEL},
	{QEMU_INITRD_PATH, QEMU_FD_INITRD},
	{QEMU_MEMORY_PATH, QEMU_FD_MEMORY},
	{QEMU_KVM_PATH, QEMU_FD_KVM},
};

/* The descriptor that stands for @path, or -1. */
static int fd_of(const char *path)
{
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		if (strcmp(path, files[i].path) == 0)
			return files[i].fd;
	}
	return -1;
}

/* From its beginning, as one that was just opened. */
static int duplicate(int fd)
{
	const int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);

	if (copy >= 0)
		(void)lseek(copy, 0, SEEK_SET);
	return copy;
}

static int open_for(int dirfd, const char *path, int flags, mode_t mode)
{
	const int fd = fd_of(path);

	if (fd >= 0)
		return duplicate(fd);
	return (int)syscall(SYS_openat, dirfd, path, flags, mode);
}

static bool has_mode(int flags)
{
	return (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE;
}

#define DEFINE_OPEN(name, dirfd, ...)                                                   \
	int name(__VA_ARGS__, int flags, ...)                                           \
	{                                                                               \
		va_list ap;                                                             \
                                                                                        \
		va_start(ap, flags);                                                    \
		const mode_t mode = has_mode(flags) ? (mode_t)va_arg(ap, unsigned) : 0; \
		va_end(ap);                                                             \
		return open_for(dirfd, path, flags, mode);                              \
	}
DEFINE_OPEN(open, AT_FDCWD, const char *path)
DEFINE_OPEN(open64, AT_FDCWD, const char *path)
DEFINE_OPEN(openat, dirfd, int dirfd, const char *path)
DEFINE_OPEN(openat64, dirfd, int dirfd, const char *path)

int open_checked(const char *path, int flags)
{
	return open_for(AT_FDCWD, path, flags, 0);
}

int open64_checked(const char *path, int flags)
{
	return open_for(AT_FDCWD, path, flags, 0);
}

int openat_checked(int dirfd, const char *path, int flags)
{
	return open_for(dirfd, path, flags, 0);
}

int openat64_checked(int dirfd, const char *path, int flags)
{
	return open_for(dirfd, path, flags, 0);
}

/* The modes that there are: "r", "w" or "a", then "+", "x", "e" and what means nothing here. */
static int flags_of(const char *mode)
{
	const bool both = strchr(mode, '+') != NULL;
	int flags = both ? O_RDWR : mode[0] == 'r' ? O_RDONLY : O_WRONLY;

	if (mode[0] == 'w')
		flags |= O_CREAT | O_TRUNC;
	if (mode[0] == 'a')
		flags |= O_CREAT | O_APPEND;
	if (strchr(mode, 'x'))
		flags |= O_EXCL;
	if (strchr(mode, 'e'))
		flags |= O_CLOEXEC;
	return flags;
}

FILE *fopen(const char *path, const char *mode)
{
	const int fd = open_for(AT_FDCWD, path, flags_of(mode), 0666);
	FILE *file = fd < 0 ? NULL : fdopen(fd, mode);

	if (fd >= 0 && !file) {
		const int saved = errno;
		(void)close(fd);
		errno = saved;
	}
	return file;
}

FILE *fopen64(const char *path, const char *mode)
{
	return fopen(path, mode);
}

/* As it was given to exec, which the keeper and any script in between do with a whole path. */
static ssize_t own_program(char *buf, size_t size)
{
	const char *name = (const char *)(uintptr_t)getauxval(AT_EXECFN);
	char path[PATH_MAX];

	if (!name || name[0] != '/' || !realpath(name, path))
		return -1;
	const size_t len = strnlen(path, size);
	memcpy(buf, path, len);
	return (ssize_t)len;
}

ssize_t readlink(const char *path, char *buf, size_t size)
{
	const ssize_t len = strcmp(path, "/proc/self/exe") == 0 ? own_program(buf, size) : -1;

	return len >= 0 ? len : (ssize_t)syscall(SYS_readlink, path, buf, size);
}

ssize_t readlink_checked(const char *path, char *buf, size_t size, size_t room)
{
	return readlink(path, buf, size < room ? size : room);
}
