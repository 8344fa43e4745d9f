/* SPDX-License-Identifier: Apache-2.0 */
#include "vmm/jail_inside.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/banned.h"

/*
 * Landlock by its system calls. The numbers are the kernel's, which are newer than the headers of
 * distributions: everything that a version knows is denied, and read and execute are given back for
 * the paths that a program loads from.
 */
#define LANDLOCK_VERSION  1u /* LANDLOCK_CREATE_RULESET_VERSION */
#define RULE_PATH_BENEATH 1
#define FS_EXECUTE        (1u << 0)
#define FS_READ_FILE      (1u << 2)
#define FS_READ_DIR       (1u << 3)
#define FS_OF_VERSION_1   0x1fffu
#define FS_REFER          (1u << 13) /* 2 */
#define FS_TRUNCATE       (1u << 14) /* 3 */
#define FS_IOCTL_DEV      (1u << 15) /* 5 */
#define NET_BIND_CONNECT  3u /* 4: TCP */
#define SCOPE_ABSTRACT    1u /* 6 */
#define SCOPE_SIGNAL      2u /* 6 */

struct ruleset_attr {
	uint64_t fs;
	uint64_t net;
	uint64_t scoped;
};

struct path_attr {
	uint64_t access;
	int32_t parent_fd;
} __attribute__((packed));

int jail_landlock_abi(void)
{
	const long abi = syscall(SYS_landlock_create_ruleset, NULL, (size_t)0, LANDLOCK_VERSION);

	return abi < 0 ? -errno : (int)abi;
}

static struct ruleset_attr all_of(int abi, bool network)
{
	struct ruleset_attr a = {.fs = FS_OF_VERSION_1};

	if (abi >= 2)
		a.fs |= FS_REFER;
	if (abi >= 3)
		a.fs |= FS_TRUNCATE;
	if (abi >= 5)
		a.fs |= FS_IOCTL_DEV;
	if (abi >= 4 && !network)
		a.net = NET_BIND_CONNECT;
	if (abi >= 6)
		a.scoped = SCOPE_ABSTRACT | SCOPE_SIGNAL;
	return a;
}

/* How much of the structure a kernel knows; what is beyond must not be there. */
static size_t size_of(int abi)
{
	return abi >= 6   ? sizeof(struct ruleset_attr)
	       : abi >= 4 ? offsetof(struct ruleset_attr, scoped)
			  : offsetof(struct ruleset_attr, net);
}

static int allow_fd(int ruleset, int fd, uint64_t access)
{
	const struct path_attr rule = {.access = access, .parent_fd = fd};

	return syscall(SYS_landlock_add_rule, ruleset, RULE_PATH_BENEATH, &rule, 0u) < 0 ? -1 : 0;
}

int jail_landlock_allow(int ruleset, const char *path, uint64_t access)
{
	const int fd = open(path, O_PATH | O_CLOEXEC);

	if (fd < 0)
		return -1;
	const int r = allow_fd(ruleset, fd, access);
	(void)close(fd);
	return r;
}

int jail_landlock_open(struct jail *jail)
{
	const int abi = jail_landlock_abi();

	if (abi < 1)
		return abi < 0 ? abi : -EOPNOTSUPP;
	const struct ruleset_attr attr = all_of(abi, jail->kind == JAIL_OF_NET);
	auto_fd fd = (int)syscall(SYS_landlock_create_ruleset, &attr, size_of(abi), 0u);
	if (fd < 0)
		return -errno;
	jail->landlock_read = FS_EXECUTE | FS_READ_FILE | FS_READ_DIR;
	for (size_t i = 0; i < jail->n_paths; i++) {
		const struct jail_path *p = &jail->paths[i];
		const uint64_t access = p->dir ? jail->landlock_read : FS_EXECUTE | FS_READ_FILE;

		if (!p->target && jail_landlock_allow(fd, p->path, access) < 0)
			return -errno;
	}
	jail->landlock_fd = fcntl(fd, F_DUPFD_CLOEXEC, JAIL_FD_SAFE);
	return jail->landlock_fd < 0 ? -errno : 0;
}

/* Where the host says how names are resolved, and how much memory it has. */
static const char *const self_reads[] = {"/etc", "/run", "/proc", "/dev"};

int jail_landlock_self(int home)
{
	const int abi = jail_landlock_abi();

	if (abi < 1)
		return 0;
	struct ruleset_attr attr = all_of(abi, false);
	/* It ends QEMU, which is not in this domain. */
	attr.scoped = 0;
	auto_fd fd = (int)syscall(SYS_landlock_create_ruleset, &attr, size_of(abi), 0u);
	if (fd < 0 || allow_fd(fd, home, attr.fs) < 0)
		return -errno;
	for (size_t i = 0; i < sizeof self_reads / sizeof self_reads[0]; i++) {
		/* A host without one of them has nothing there to read. */
		if (jail_landlock_allow(fd, self_reads[i], FS_READ_FILE | FS_READ_DIR) < 0 &&
			errno != ENOENT)
			return -errno;
	}
	return syscall(SYS_landlock_restrict_self, (int)fd, 0u) < 0 ? -errno : 0;
}
