/* SPDX-License-Identifier: Apache-2.0 */
/* What an intruder tries with files: to read what is the host's, to write what is everybody's. */
#include "attempt.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define HANDLE_BYTES 128
#define FDS_MAX      512

static long open_path(const char *path, int flags)
{
	const long fd = CALL(SYS_openat, (long)AT_FDCWD, word(path), (long)flags, 0600L);

	if (fd >= 0)
		(void)CALL(SYS_close, fd);
	return path[0] == '\0' ? -EINVAL : fd;
}

static long open_shadow(void)
{
	return open_path("/etc/shadow", O_RDONLY);
}

static long open_passwd(void)
{
	return open_path("/etc/passwd", O_RDONLY);
}

/* What QEMU and its libraries were loaded from. */
static long open_loaded(void)
{
	return open_path("/usr/lib", O_RDONLY | O_DIRECTORY);
}

static long open_home(void)
{
	return open_path(prey("home"), O_RDONLY | O_DIRECTORY);
}

/* A file that every user of the host may read. */
static long open_public(void)
{
	return open_path(prey("public"), O_RDONLY);
}

/* Only its owner may. */
static long open_secret(void)
{
	return open_path(prey("secret"), O_RDONLY);
}

static long open_other_disk(void)
{
	return open_path(prey("disk"), O_RDWR);
}

static long open_other_descriptor(void)
{
	char path[64];

	(void)snprintf(path, sizeof path, "/proc/%ld/fd", prey_number("victim"));
	return open_path(path, O_RDONLY | O_DIRECTORY);
}

static long open_other_memory(void)
{
	char path[64];

	(void)snprintf(path, sizeof path, "/proc/%ld/mem", prey_number("victim"));
	return open_path(path, O_RDWR);
}

static long open_template_memory(void)
{
	return open_path(prey("memory"), O_RDWR);
}

static long open_template_state(void)
{
	return open_path(prey("state"), O_RDWR);
}

static long open_template_disk(void)
{
	return open_path(prey("template-disk"), O_RDWR);
}

/* A way around modes: whoever may make devices, or open files by number, needs no path. */
static long open_by_handle(void)
{
	union {
		struct file_handle h;
		char room[sizeof(struct file_handle) + HANDLE_BYTES];
	} handle = {.h = {.handle_bytes = HANDLE_BYTES}};
	int mount_id = 0;

	const long r = CALL(SYS_name_to_handle_at, (long)held_disk, word(""), word(&handle),
		word(&mount_id), (long)AT_EMPTY_PATH);
	if (r < 0)
		return r;
	return CALL(SYS_open_by_handle_at, (long)held_disk, word(&handle), (long)O_RDONLY);
}

static long create(const char *dir)
{
	char path[1024];

	(void)snprintf(path, sizeof path, "%s/holt-intruder", dir);
	const long fd = CALL(SYS_openat, (long)AT_FDCWD, word(path),
		(long)(O_CREAT | O_WRONLY | O_EXCL | O_CLOEXEC), 0600L);
	if (fd >= 0) {
		(void)CALL(SYS_close, fd);
		(void)CALL(SYS_unlink, word(path));
	}
	return fd;
}

static long create_tmp(void)
{
	return create("/tmp");
}

static long create_shm(void)
{
	return create("/dev/shm");
}

static long create_here(void)
{
	return create(".");
}

/* Everybody may write there. */
static long create_public(void)
{
	return create(prey("open-dir"));
}

static long create_nameless(void)
{
	return open_path(prey("open-dir"), O_TMPFILE | O_RDWR);
}

static long make_device(void)
{
	char path[1024];

	(void)snprintf(path, sizeof path, "%s/holt-intruder", prey("open-dir"));
	const long r = CALL(SYS_mknod, word(path), (long)(S_IFCHR | 0600), 0x103L);
	if (r == 0)
		(void)CALL(SYS_unlink, word(path));
	return r;
}

/* ---- what it holds ---- */

/* Is it one of them, by whatever way it was opened? */
static const char *name_held(const struct stat *st)
{
	for (const struct held *h = held_files; h->name; h++) {
		struct stat have;

		if (h->fd >= 0 && CALL(SYS_fstat, (long)h->fd, word(&have)) == 0 &&
			have.st_dev == st->st_dev && have.st_ino == st->st_ino)
			return h->name;
	}
	return NULL;
}

/* Every descriptor of this process; one is enough. */
static long try_held(long (*fn)(int fd, const struct stat *st))
{
	long r = -EBADF;

	for (int fd = 3; fd < FDS_MAX && r < 0; fd++) {
		struct stat st;
		const char *name = CALL(SYS_fstat, (long)fd, word(&st)) == 0 ? name_held(&st)
									     : NULL;

		if (name)
			r = fn(fd, &st);
		if (name && r >= 0)
			tell("held", name);
	}
	return r;
}

static long write_same(int fd, const struct stat *st)
{
	char c = 0;

	(void)st;
	(void)CALL(SYS_pread64, (long)fd, word(&c), 1L, 0L);
	return CALL(SYS_pwrite64, (long)fd, word(&c), 1L, 0L);
}

static long truncate_same(int fd, const struct stat *st)
{
	return CALL(SYS_ftruncate, (long)fd, (long)st->st_size);
}

static long allocate_same(int fd, const struct stat *st)
{
	(void)st;
	return CALL(SYS_fallocate, (long)fd, (long)FALLOC_FL_KEEP_SIZE, 0L, 1L);
}

static long map_shared(int fd, const struct stat *st)
{
	(void)st;
	const long at = CALL(SYS_mmap, 0L, 4096L, (long)(PROT_READ | PROT_WRITE), (long)MAP_SHARED,
		(long)fd, 0L);
	if (at >= 0)
		(void)CALL(SYS_munmap, at, 4096L);
	return at;
}

static long mode_same(int fd, const struct stat *st)
{
	return CALL(SYS_fchmod, (long)fd, (long)(st->st_mode & 07777));
}

static long owner_same(int fd, const struct stat *st)
{
	return CALL(SYS_fchown, (long)fd, (long)st->st_uid, (long)st->st_gid);
}

/* Whoever compares times would take the file for changed. */
static long times_same(int fd, const struct stat *st)
{
	const struct timespec times[2] = {st->st_atim, st->st_mtim};

	return CALL(SYS_utimensat, (long)fd, 0L, word(times), 0L);
}

static long name_it(int fd, const struct stat *st)
{
	(void)st;
	return CALL(SYS_fsetxattr, (long)fd, word("user.intruder"), word(""), 0L, 0L);
}

/* Flags that an owner may set, with a descriptor that is open for reading. */
static long flags_same(int fd, const struct stat *st)
{
	int flags = 0;
	const long r = CALL(SYS_ioctl, (long)fd, (long)FS_IOC_GETFLAGS, word(&flags));

	(void)st;
	return r < 0 ? r : CALL(SYS_ioctl, (long)fd, (long)FS_IOC_SETFLAGS, word(&flags));
}

static long open_again(int fd, const struct stat *st)
{
	char path[64];

	(void)st;
	(void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	return open_path(path, O_RDWR);
}

static long held_write(void)
{
	return try_held(write_same);
}

static long held_truncate(void)
{
	return try_held(truncate_same);
}

static long held_allocate(void)
{
	return try_held(allocate_same);
}

static long held_map(void)
{
	return try_held(map_shared);
}

static long held_mode(void)
{
	return try_held(mode_same);
}

static long held_owner(void)
{
	return try_held(owner_same);
}

static long held_times(void)
{
	return try_held(times_same);
}

static long held_attribute(void)
{
	return try_held(name_it);
}

static long held_flags(void)
{
	return try_held(flags_same);
}

static long held_open_again(void)
{
	return try_held(open_again);
}

/* ---- more than its share ---- */

/* A byte, 4 GiB behind the end. */
static long fill_disk(void)
{
	struct stat st;
	long r = CALL(SYS_fstat, (long)held_disk, word(&st));

	if (r == 0)
		r = CALL(SYS_pwrite64, (long)held_disk, word(""), 1L,
			(long)(st.st_size + (4ll << 30)));
	if (r > 0)
		(void)CALL(SYS_ftruncate, (long)held_disk, (long)st.st_size);
	return r;
}

static long fill_disk_by_allocating(void)
{
	struct stat st;
	long r = CALL(SYS_fstat, (long)held_disk, word(&st));

	if (r == 0)
		r = CALL(SYS_fallocate, (long)held_disk, 0L, (long)(st.st_size + (4ll << 30)),
			4096L);
	if (r == 0)
		(void)CALL(SYS_ftruncate, (long)held_disk, (long)st.st_size);
	return r;
}

/* More descriptors than a machine can need. */
static long exhaust_descriptors(void)
{
	static int fds[4096];
	size_t n = 0;
	long r = 0;

	while (n < 2000 && (r = CALL(SYS_dup, (long)held_disk)) >= 0)
		fds[n++] = (int)r;
	for (size_t i = 0; i < n; i++)
		(void)CALL(SYS_close, (long)fds[i]);
	return r;
}

const struct attempt file_attempts[] = {
	{"open-shadow", open_shadow},
	{"open-passwd", open_passwd},
	{"open-loaded", open_loaded},
	{"open-home", open_home},
	{"open-public", open_public},
	{"open-secret", open_secret},
	{"open-other-disk", open_other_disk},
	{"open-other-descriptors", open_other_descriptor},
	{"open-other-memory", open_other_memory},
	{"open-template-memory", open_template_memory},
	{"open-template-state", open_template_state},
	{"open-template-disk", open_template_disk},
	{"open-by-handle", open_by_handle},
	{"create-tmp", create_tmp},
	{"create-shm", create_shm},
	{"create-here", create_here},
	{"create-public", create_public},
	{"create-nameless", create_nameless},
	{"make-device", make_device},
	{"held-write", held_write},
	{"held-truncate", held_truncate},
	{"held-allocate", held_allocate},
	{"held-map", held_map},
	{"held-mode", held_mode},
	{"held-owner", held_owner},
	{"held-times", held_times},
	{"held-attribute", held_attribute},
	{"held-flags", held_flags},
	{"held-open-again", held_open_again},
	{"fill-disk", fill_disk},
	{"fill-disk-by-allocating", fill_disk_by_allocating},
	{"exhaust-descriptors", exhaust_descriptors},
	{NULL, NULL},
};
