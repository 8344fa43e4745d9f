/* SPDX-License-Identifier: Apache-2.0 */
#include "mount.h"

#include "cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "guest_banned.h"

/*
 * The root of the machine: the image (squashfs, read-only) under the disk (ext4, its directories
 * upper and work) as one overlay, which replaces the initramfs. The device with serial "rootfs"
 * holds the image, the one with serial "disk" the disk.
 *
 * All that does not need the disk is done first, so that a bare template (op_park.c) can stop
 * there; the virtual file systems move to the new root with what they are mounted on.
 *
 * What the image says about /tmp, /run and others stays; only what is missing is made. Virtual file
 * systems cover whatever the image has in their place.
 */

#define NEW_ROOT      "/root"
#define LOWER         "/lower"
#define DISK          "/disk"
#define DEVICE_WAIT_S 10

static int fail(
	struct agent_fail *f, int errnum, const char *stage, const char *object, const char *what)
{
	return agent_fail_set(
		f, WIRE_FAIL_MOUNT, errnum, stage, object, "cannot %s '%s'", what, object);
}

/* Find the block device by serial; its path goes to @ret. Returns false if there is none yet. */
static bool try_device(const char *serial, char *ret, size_t cap)
{
	char path[320];
	char have[32];
	bool found = false;
	const size_t len = strlen(serial);
	DIR *dir = opendir("/sys/block");

	if (!dir)
		return false;
	for (const struct dirent *d; !found && (d = readdir(dir));) {
		if (strncmp(d->d_name, "vd", 2) != 0)
			continue;
		(void)snprintf(path, sizeof(path), "/sys/block/%s/serial", d->d_name);
		const int fd = open(path, O_RDONLY | O_CLOEXEC);
		const ssize_t n = fd < 0 ? -1 : read(fd, have, sizeof(have));
		if (fd >= 0)
			(void)close(fd);
		if (n == (ssize_t)len && memcmp(have, serial, len) == 0)
			found = snprintf(ret, cap, "/dev/%s", d->d_name) < (int)cap;
	}
	(void)closedir(dir);
	return found;
}

static int find_device(const char *serial, char *ret, size_t cap, struct agent_fail *f)
{
	const uint64_t until_us = agent_now_us() + DEVICE_WAIT_S * 1000000ull;

	while (!try_device(serial, ret, cap)) {
		if (agent_now_us() >= until_us)
			return fail(f, ENODEV, serial, serial, "find the block device");
		(void)poll(NULL, 0, 1);
	}
	return 0;
}

static int mount_rootfs(struct agent_fail *f)
{
	char device[AGENT_DEVICE_MAX];
	const int rc = find_device("rootfs", device, sizeof(device), f);

	if (rc < 0)
		return rc;
	(void)mkdir(LOWER, 0755);
	if (mount(device, LOWER, "squashfs", MS_RDONLY, NULL) < 0)
		return fail(f, errno, "rootfs", device, "mount");
	return 0;
}

static int find_disk(struct agent *a, struct agent_fail *f)
{
	return *a->disk_device ? 0 : find_device("disk", a->disk_device, sizeof(a->disk_device), f);
}

static int mount_ext4(struct agent *a, struct agent_fail *f)
{
	const int rc = find_disk(a, f);

	if (rc < 0)
		return rc;
	(void)mkdir(DISK, 0755);
	if (mount(a->disk_device, DISK, "ext4", 0, "discard,noinit_itable") < 0)
		return fail(f, errno, "disk", a->disk_device, "mount");
	return 0;
}

static int mount_overlay(struct agent_fail *f)
{
	(void)mkdir(DISK "/upper", 0755);
	(void)mkdir(DISK "/work", 0755);
	(void)mkdir(NEW_ROOT, 0755);
	/* Without redirects a directory of the image could not be renamed (EXDEV). */
	if (mount("overlay", NEW_ROOT, "overlay", 0,
		    "lowerdir=" LOWER ",upperdir=" DISK "/upper,workdir=" DISK
		    "/work,redirect_dir=on") < 0)
		return fail(f, errno, "overlay", NEW_ROOT, "mount the overlay on");
	return 0;
}

/* A real directory in the new root, to mount on; a symlink could lead anywhere. */
static int own_directory(const char *path, mode_t mode, struct agent_fail *f)
{
	struct stat st;

	if (mkdir(path, mode) == 0)
		return 0;
	if (errno != EEXIST || lstat(path, &st) < 0)
		return fail(f, errno, "mounts", path, "make the directory");
	if (!S_ISDIR(st.st_mode))
		return fail(f, ENOTDIR, "mounts", path, "mount on the image's");
	return 0;
}

static int switch_root(struct agent_fail *f)
{
	static const char *const moved[] = {"/dev", "/proc", "/sys"};

	if (chdir(NEW_ROOT) < 0)
		return fail(f, errno, "root", NEW_ROOT, "enter");
	for (size_t i = 0; i < sizeof(moved) / sizeof(moved[0]); i++) {
		const int rc = own_directory(moved[i] + 1, 0755, f);
		if (rc < 0)
			return rc;
		if (mount(moved[i], moved[i] + 1, NULL, MS_MOVE, NULL) < 0)
			return fail(f, errno, "root", moved[i], "move");
	}
	if (mount(".", "/", NULL, MS_MOVE, NULL) < 0 || chroot(".") < 0 || chdir("/") < 0)
		return fail(f, errno, "root", NEW_ROOT, "switch to");
	return 0;
}

static int mount_virtual(struct agent_fail *f)
{
	static const struct {
		const char *type;
		const char *path;
		unsigned long flags;
		const char *options;
	} mounts[] = {
		{"devpts", "/dev/pts", MS_NOSUID | MS_NOEXEC, "mode=0620,ptmxmode=0666,gid=5"},
		{"tmpfs", "/dev/shm", MS_NOSUID | MS_NODEV, "mode=1777"},
		{"mqueue", "/dev/mqueue", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL},
		{"cgroup2", "/sys/fs/cgroup", MS_NOSUID | MS_NODEV | MS_NOEXEC, "nsdelegate"},
	};

	for (size_t i = 0; i < sizeof(mounts) / sizeof(mounts[0]); i++) {
		/* In sysfs the directory is there and no other can be made. */
		(void)mkdir(mounts[i].path, 0755);
		if (mount(mounts[i].type, mounts[i].path, mounts[i].type, mounts[i].flags,
			    mounts[i].options) < 0)
			return fail(f, errno, "mounts", mounts[i].path, "mount");
	}
	return 0;
}

static void make_device_links(void)
{
	(void)!symlink("/proc/self/fd", "/dev/fd");
	(void)!symlink("/proc/self/fd/0", "/dev/stdin");
	(void)!symlink("/proc/self/fd/1", "/dev/stdout");
	(void)!symlink("/proc/self/fd/2", "/dev/stderr");
}

static void make_missing_directories(void)
{
	struct stat st;

	(void)mkdir("/run", 0755);
	(void)mkdir("/tmp", 01777);
	if (lstat("/tmp", &st) == 0 && S_ISDIR(st.st_mode) && (st.st_mode & 07777) != 01777)
		(void)chmod("/tmp", 01777);
}

int mount_image(struct agent *a, struct agent_fail *f)
{
	(void)umask(0);
	agent_stage(a, "rootfs");
	int rc = mount_rootfs(f);
	if (rc < 0)
		return rc;
	agent_stage(a, "mounts");
	rc = mount_virtual(f);
	if (rc < 0)
		return rc;
	make_device_links();
	(void)umask(0022);
	a->cgroup_fd = cgroup_init("/sys/fs/cgroup");
	if (a->cgroup_fd < 0)
		return fail(f, -a->cgroup_fd, "mounts", "/sys/fs/cgroup", "use");
	return 0;
}

/* When the driver found the disk, it looked for partitions. A clone's disk is another one, so
 * nothing may be believed that was read then. It is done here and not in the clone, where it would
 * cost 25 ms: until the clone mounts the disk nobody reads from it. */
int mount_forget_disk(struct agent *a, struct agent_fail *f)
{
	int rc = find_disk(a, f);

	if (rc < 0)
		return rc;
	const int fd = open(a->disk_device, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || ioctl(fd, BLKFLSBUF, 0) < 0)
		rc = fail(f, errno, "disk", a->disk_device, "forget what was read of");
	if (fd >= 0)
		(void)close(fd);
	return rc;
}

int mount_disk(struct agent *a, struct agent_fail *f)
{
	(void)umask(0);
	agent_stage(a, "disk");
	int rc = mount_ext4(a, f);
	if (rc < 0)
		return rc;
	agent_stage(a, "overlay");
	rc = mount_overlay(f);
	if (rc < 0)
		return rc;
	a->disk_fd = open(DISK, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	agent_stage(a, "root");
	rc = switch_root(f);
	if (rc < 0)
		return rc;
	make_missing_directories();
	(void)umask(0022);
	return 0;
}

void mount_end(struct agent *a)
{
	char path[32];

	sync();
	if (a->disk_fd < 0)
		return;
	(void)mount(NULL, "/", NULL, MS_REMOUNT | MS_RDONLY, NULL);
	/* The disk has no path any more since the root was switched. */
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", a->disk_fd);
	if (mount(NULL, path, NULL, MS_REMOUNT | MS_RDONLY, NULL) < 0)
		agent_log(a, AGENT_LOG_WARN, "cannot make the disk read-only: %s", strerror(errno));
}
