/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A template's memory stays as it is, theory of operation.
 *
 * A clone maps its template's memory privately (MAP_PRIVATE: its writes go to pages of its own),
 * yet QEMU opens the file for reading and writing; up to version 8.1 no option of its gives
 * writable memory from a file that is open for reading. With such a descriptor whoever escapes from
 * one guest into its QEMU could write into the memory that every later clone begins with. So QEMU
 * gets a descriptor that is open for reading only, and this object, loaded before its libraries
 * (LD_PRELOAD), which makes exactly that one call to open QEMU_MEMORY_PATH a reading one. Private
 * mappings need no more than that to be writable. The mode of the file (0400) would do the same for
 * an ordinary user, with an error instead of a mapping; it means nothing to root.
 *
 * All open calls that QEMU's own code may use are replaced by the bare system call, whose meaning
 * glibc's add nothing to on x86_64 (there are only large files; the calls are points of
 * cancellation, which QEMU does not use). What libraries do inside themselves does not come by
 * here.
 *
 * QEMU finds the object as a descriptor too (qemu.c), since LD_PRELOAD splits paths at blanks and
 * colons, and may run without any path; it is closed here, before QEMU's first line runs. This file
 * links nothing but libc, and it is in no other process than that of a clone.
 */
/* With these the headers would put other functions in the place of those that are defined here. */
#undef _FORTIFY_SOURCE
#undef _FILE_OFFSET_BITS

#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>
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
EXPORT int open_checked(const char *path, int flags) __asm__("__open_2");
EXPORT int open64_checked(const char *path, int flags) __asm__("__open64_2");
EXPORT int openat_checked(int dirfd, const char *path, int flags) __asm__("__openat_2");
EXPORT int openat64_checked(int dirfd, const char *path, int flags) __asm__("__openat64_2");

__attribute__((constructor)) static void forget_shim(void)
{
	(void)close(QEMU_FD_SHIM);
}

static int open_for(int dirfd, const char *path, int flags, mode_t mode)
{
	if ((flags & O_ACCMODE) == O_RDWR && strcmp(path, QEMU_MEMORY_PATH) == 0)
		flags = (flags & ~(O_ACCMODE | O_CREAT | O_TRUNC)) | O_RDONLY;
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
