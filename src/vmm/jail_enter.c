/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The way into the jail: in the child, between fork and exec, from the hook of proc.h. Only bare
 * system calls and stack memory: the process is a copy of one that may have had threads.
 *
 * Root makes the namespaces with its own power, then becomes a user that owns nothing, then makes a
 * user namespace around itself; everybody else begins in a user namespace and has that power inside
 * it. Either way the end is the same: a user that is 65534 in its namespace, and outside somebody
 * who is of no use. The root directory is made of copies of mounts (open_tree), which are complete
 * before the first thing is hidden, so no path is in another's way.
 *
 * Whatever fails is the end of the start: which layers there are was tried before
 * (jail_prepare.c).
 */
#include "vmm/jail_inside.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/banned.h"

/* Who it is in its user namespace: the number that means nobody. */
#define INSIDE_ID "65534"

#define VMM_NOFILE 512 /* QEMU has about 40 */
#define TMPFS_SIZE "1m" /* what is copied there, with room */

/* ---- the user ---- */

/* "65534 ID 1" */
static size_t id_map(char out[48], unsigned id)
{
	static const char inside[] = INSIDE_ID " ";
	char digits[16];
	size_t n = 0;
	size_t len = sizeof inside - 1;

	memcpy(out, inside, len);
	do {
		digits[n++] = (char)('0' + id % 10);
		id /= 10;
	} while (id);
	while (n > 0)
		out[len++] = digits[--n];
	out[len++] = ' ';
	out[len++] = '1';
	return len;
}

static int write_at(int dir, const char *name, const char *text, size_t len)
{
	const int fd = openat(dir, name, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return -1;
	const ssize_t n = write(fd, text, len);
	const int saved = errno;
	(void)close(fd);
	errno = saved;
	return n == (ssize_t)len ? 0 : -1;
}

static int write_maps(const struct jail *jail, int self)
{
	char map[48];

	if (write_at(self, "setgroups", "deny", 4) < 0 ||
		write_at(self, "uid_map", map, id_map(map, jail->uid)) < 0)
		return -1;
	return write_at(self, "gid_map", map, id_map(map, jail->gid));
}

/* Only who may set capabilities can give up those of programs to come; the others have none. */
static void forbid_caps(uint64_t keep)
{
	for (unsigned long cap = 0; cap < 64; cap++) {
		if (!(keep & 1ull << cap))
			(void)prctl(PR_CAPBSET_DROP, cap, 0, 0, 0);
	}
}

static int set_caps(uint64_t keep, uint64_t inherited)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	const uint32_t low = (uint32_t)keep;
	const uint32_t high = (uint32_t)(keep >> 32);
	const struct __user_cap_data_struct data[2] = {
		{low, low, (uint32_t)inherited}, {high, high, (uint32_t)(inherited >> 32)}};

	forbid_caps(keep);
	(void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	return syscall(SYS_capset, &head, data) < 0 ? -1 : 0;
}

uint64_t jail_permitted_caps(void)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {{0}};

	return syscall(SYS_capget, &head, data) < 0
		       ? 0
		       : (uint64_t)data[1].permitted << 32 | data[0].permitted;
}

int jail_drop_caps(uint64_t keep)
{
	return set_caps(keep, 0);
}

int jail_keep_caps(uint64_t keep)
{
	if (set_caps(keep, keep) < 0)
		return -1;
	for (unsigned long cap = 0; cap < 64; cap++) {
		if ((keep & 1ull << cap) &&
			prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, cap, 0, 0) < 0)
			return -1;
	}
	return 0;
}

static uint64_t caps_of(const struct jail *jail)
{
	uint64_t caps = jail->may_chroot ? 1ull << CAP_SYS_CHROOT : 0;

	if (jail->kind == JAIL_OF_NET && jail->own_user && !jail->map)
		caps |= 1ull << CAP_NET_BIND_SERVICE;
	return caps;
}

/* The capabilities that are left of root's go with it, unless some are to be kept. */
static int change_user(const struct jail *jail)
{
	const uint64_t keep = jail->kind == JAIL_OF_NET ? caps_of(jail) : 0;

	forbid_caps(keep);
	if (prctl(PR_SET_KEEPCAPS, keep ? 1 : 0, 0, 0, 0) < 0 ||
		syscall(SYS_setgroups, (size_t)0, NULL) < 0 ||
		syscall(SYS_setresgid, jail->gid, jail->gid, jail->gid) < 0 ||
		syscall(SYS_setresuid, jail->uid, jail->uid, jail->uid) < 0)
		return -1;
	/* What is in /proc/self is to be this user's; exec decides anew. */
	return prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
}

/* ---- the root directory ---- */

static int copy_mount(const char *path)
{
	struct mount_attr attr = {
		.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV};
	const int fd = (int)syscall(SYS_open_tree, AT_FDCWD, path,
		OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE | AT_SYMLINK_NOFOLLOW);

	if (fd < 0)
		return -1;
	if (syscall(SYS_mount_setattr, fd, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr, sizeof attr) <
		0)
		return -1;
	return fd;
}

static int new_tmpfs(void)
{
	const int fs = (int)syscall(SYS_fsopen, "tmpfs", FSOPEN_CLOEXEC);

	if (fs < 0 || syscall(SYS_fsconfig, fs, FSCONFIG_SET_STRING, "size", TMPFS_SIZE, 0) < 0 ||
		syscall(SYS_fsconfig, fs, FSCONFIG_SET_STRING, "mode", "0755", 0) < 0 ||
		syscall(SYS_fsconfig, fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return -1;
	const int root = (int)syscall(
		SYS_fsmount, fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
	(void)close(fs);
	return root;
}

/* All directories above @path, which begins with a slash, in the current one. */
static int make_parents(const char *path)
{
	char dir[PATH_MAX];

	for (size_t i = 1; path[i] != '\0' && i < sizeof dir; i++) {
		if (path[i] != '/')
			continue;
		memcpy(dir, path + 1, i - 1);
		dir[i - 1] = '\0';
		if (mkdir(dir, 0755) < 0 && errno != EEXIST)
			return -1;
	}
	return 0;
}

static int make_file(const char *path)
{
	const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0555);

	if (fd >= 0)
		(void)fchmod(fd, 0555);
	return fd;
}

static int place(const struct jail_path *p, int mount_fd)
{
	const char *name = p->path + 1;

	if (make_parents(p->path) < 0)
		return -1;
	if (p->target)
		return symlink(p->target, name);
	if (p->dir) {
		if (mkdir(name, 0755) < 0)
			return -1;
	} else {
		const int fd = make_file(name);
		if (fd < 0)
			return -1;
		(void)close(fd);
	}
	return (int)syscall(SYS_move_mount, mount_fd, "", AT_FDCWD, name, MOVE_MOUNT_F_EMPTY_PATH);
}

/* There is no /proc: what the program and its loader look for there are files of these names. */
static int place_proc(const struct jail *jail)
{
	char chunk[4096];
	off_t at = 0;

	if (make_parents("/proc/self/fd/") < 0 ||
		(jail->program && symlink(jail->program, "proc/self/exe") < 0))
		return -1;
	if (jail->preload_fd < 0)
		return 0;
	const int fd = make_file(jail->preload_path + 1);
	if (fd < 0)
		return -1;
	ssize_t n;
	while ((n = pread(jail->preload_fd, chunk, sizeof chunk, at)) > 0) {
		if (write(fd, chunk, (size_t)n) != n)
			return -1;
		at += n;
	}
	(void)close(fd);
	return n < 0 ? -1 : 0;
}

/* From here on the current directory is the new root. */
static int fill_root(const struct jail *jail, const int *mounts)
{
	struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY};

	for (size_t i = 0; i < jail->n_paths; i++) {
		if (place(&jail->paths[i], mounts[i]) < 0)
			return -1;
	}
	if (mkdir(&JAIL_EMPTY_DIR[1], 0555) < 0 || place_proc(jail) < 0)
		return -1;
	return (int)syscall(SYS_mount_setattr, AT_FDCWD, "", AT_EMPTY_PATH, &attr, sizeof attr);
}

static int change_root(const struct jail *jail)
{
	int mounts[JAIL_PATHS_MAX];
	const char *over = NULL;

	/* The directories are for another user. */
	(void)umask(022);
	if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return -1;
	for (size_t i = 0; i < jail->n_paths; i++) {
		const struct jail_path *p = &jail->paths[i];

		mounts[i] = p->target ? FD_NONE : copy_mount(p->path);
		if (!p->target && mounts[i] < 0)
			return -1;
		if (p->dir)
			over = p->path;
	}
	const int root = new_tmpfs();
	if (root < 0 || !over)
		return -1;
	/* Anywhere: nothing there is needed any more. */
	if (syscall(SYS_move_mount, root, "", AT_FDCWD, over, MOVE_MOUNT_F_EMPTY_PATH) < 0 ||
		fchdir(root) < 0 || fill_root(jail, mounts) < 0)
		return -1;
	/* The old root comes to lie over the new one, and goes. */
	if (syscall(SYS_pivot_root, ".", ".") < 0 || umount2(".", MNT_DETACH) < 0)
		return -1;
	(void)umask(077);
	return chdir("/");
}

/* ---- the rest ---- */

static int lower(int which, rlim_t to)
{
	struct rlimit lim;

	if (getrlimit(which, &lim) < 0)
		return -1;
	if (lim.rlim_max > to)
		lim.rlim_max = to;
	if (lim.rlim_cur > lim.rlim_max)
		lim.rlim_cur = lim.rlim_max;
	return setrlimit(which, &lim);
}

/* None of processes: that one counts all of a user, and an ordinary one has others. */
static int set_limits(const struct jail *jail)
{
	if (lower(RLIMIT_CORE, 0) < 0 || lower(RLIMIT_MEMLOCK, 0) < 0 ||
		lower(RLIMIT_MSGQUEUE, 0) < 0 || lower(RLIMIT_NICE, 0) < 0 ||
		lower(RLIMIT_RTPRIO, 0) < 0)
		return -1;
	return lower(jail->kind == JAIL_OF_VMM ? RLIMIT_NOFILE : RLIMIT_FSIZE,
		jail->kind == JAIL_OF_VMM ? VMM_NOFILE : 0);
}

static int confine_paths(const struct jail *jail)
{
	if (jail->new_root &&
		jail_landlock_allow(jail->landlock_fd, "/proc", jail->landlock_read) < 0)
		return -1;
	return syscall(SYS_landlock_restrict_self, jail->landlock_fd, 0u) < 0 ? -1 : 0;
}

static int failed(const char *step, const char **ret_step)
{
	*ret_step = step;
	return errno > 0 ? -errno : -EIO;
}

static int enter_namespaces(const struct jail *jail, const char **ret_step)
{
	const bool root_first = jail->new_root && jail->direct;
	int self = FD_NONE;

	if (jail->map)
		self = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (jail->map && self < 0)
		return failed(JAIL_STEP_USERNS, ret_step);
	if (root_first && change_root(jail) < 0)
		return failed(JAIL_STEP_MOUNT, ret_step);
	if (jail->own_user && change_user(jail) < 0)
		return failed(JAIL_STEP_USER, ret_step);
	if (jail->late_flags && syscall(SYS_unshare, jail->late_flags) < 0)
		return failed(JAIL_STEP_USERNS, ret_step);
	if (jail->map && write_maps(jail, self) < 0)
		return failed(JAIL_STEP_USERNS, ret_step);
	if (self >= 0)
		(void)close(self);
	if (jail->new_root && !root_first && change_root(jail) < 0)
		return failed(JAIL_STEP_MOUNT, ret_step);
	return 0;
}

int jail_enter(void *user, const char **ret_step)
{
	struct jail *jail = user;
	const int r = enter_namespaces(jail, ret_step);

	if (r < 0)
		return r;
	if (!jail->no_limits && set_limits(jail) < 0)
		return failed(JAIL_STEP_LIMITS, ret_step);
	if (jail->landlock_fd >= 0 && confine_paths(jail) < 0)
		return failed(JAIL_STEP_LANDLOCK, ret_step);
	if (jail_keep_caps(caps_of(jail)) < 0)
		return failed(JAIL_STEP_CAPS, ret_step);
	if (jail->filter && jail_filter_install(jail->filter, jail->n_filter) < 0)
		return failed(JAIL_STEP_FILTER, ret_step);
	return 0;
}
