/* SPDX-License-Identifier: Apache-2.0 */
#include "op_directories.h"

#include "exec_user.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "guest_banned.h"

/*
 * Directories of a sandbox: makes each of a list, with those above it, and sees to it that the user
 * may write there: what was made, and what the user could not write, becomes the user's. Those
 * above it are root's. All of them are there, or the first that cannot be is the failure.
 *
 * The agent does it by itself, since a process for it would cost a third of a clone's start. That
 * is a few calls which cannot wait for anybody.
 *
 * The box may have been used before, so a link is followed only where root made it: no user gets a
 * directory that is not his that way.
 */

struct place {
	int fd; /* of the directory so far, O_PATH */
	bool made; /* by us, just now */
};

static int open_part(int at, const char *name, int flags)
{
	const int fd = openat(at, name, O_PATH | O_CLOEXEC | flags);

	return fd < 0 ? -errno : fd;
}

/* What @name is now: an O_PATH descriptor of a directory, or -errno. */
static int enter_part(int at, const char *name)
{
	struct stat st;
	int fd = open_part(at, name, O_NOFOLLOW);

	if (fd < 0)
		return fd;
	int rc = fstat(fd, &st) < 0 ? -errno : 0;
	if (rc == 0 && S_ISLNK(st.st_mode)) {
		(void)close(fd);
		/* The agent's own user is root in every machine. */
		return st.st_uid == geteuid() ? open_part(at, name, O_DIRECTORY) : -ELOOP;
	}
	if (rc == 0 && !S_ISDIR(st.st_mode))
		rc = -ENOTDIR;
	if (rc == 0)
		return fd;
	(void)close(fd);
	return rc;
}

/* One part further. Returns 0 or -errno. */
static int step(struct place *p, const char *name)
{
	p->made = mkdirat(p->fd, name, 0755) == 0;
	if (!p->made && errno != EEXIST) {
		/* On a read-only file system what is there is fine all the same. */
		const int errnum = errno;
		if (faccessat(p->fd, name, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
			return -errnum;
	}
	const int fd = enter_part(p->fd, name);
	if (fd < 0)
		return fd;
	(void)close(p->fd);
	p->fd = fd;
	return 0;
}

static bool in_group(const struct exec_user *u, gid_t gid)
{
	for (size_t i = 0; i < u->n_groups; i++)
		if (u->groups[i] == gid)
			return true;
	return u->gid == gid;
}

/* Whether the mode lets the user do that: bits as of others. Lists of access are not looked at. */
static bool may(const struct exec_user *u, const struct stat *st, mode_t bits)
{
	const unsigned shift = u->uid == st->st_uid ? 6 : in_group(u, st->st_gid) ? 3 : 0;

	return u->uid == 0 || (st->st_mode >> shift & bits) == bits;
}

/* Walk @path from the root, and make what is missing; the user has to get through, too. Returns 0
 * or -errno. */
static int walk(struct place *p, const struct exec_user *u, const char *path)
{
	char name[NAME_MAX + 1];
	struct stat st;
	int rc = 0;

	/* The root itself is nobody's but root's. */
	if (*path != '/' || path[strspn(path, "/")] == 0)
		return -EINVAL;
	p->fd = open_part(AT_FDCWD, "/", O_DIRECTORY);
	if (p->fd < 0)
		return p->fd;
	for (path += strspn(path, "/"); *path && rc == 0; path += strspn(path, "/")) {
		const size_t len = strcspn(path, "/");

		if (len > NAME_MAX)
			return -ENAMETOOLONG;
		memcpy(name, path, len);
		name[len] = 0;
		path += len;
		rc = strcmp(name, "..") == 0 ? -EINVAL : 0;
		if (rc == 0 && (fstat(p->fd, &st) < 0 || !may(u, &st, S_IXOTH)))
			rc = -EACCES;
		if (rc == 0 && strcmp(name, ".") != 0)
			rc = step(p, name);
	}
	return rc;
}

static int make_one(const struct exec_user *u, const char *path)
{
	struct place p = {.fd = -EBADF};
	struct stat st;
	int rc = walk(&p, u, path);

	if (rc == 0 && fstat(p.fd, &st) < 0)
		rc = -errno;
	if (rc == 0 && (st.st_uid != u->uid || st.st_gid != u->gid) &&
		(p.made || !may(u, &st, S_IWOTH | S_IXOTH))) {
		if (fchownat(p.fd, "", u->uid, u->gid, AT_EMPTY_PATH) < 0 || fstat(p.fd, &st) < 0)
			rc = -errno;
	}
	if (rc == 0 && !may(u, &st, S_IWOTH | S_IXOTH))
		rc = -EACCES;
	if (p.fd >= 0)
		(void)close(p.fd);
	return rc;
}

static int make_all(const struct wire_directories *m, struct agent_fail *f)
{
	static struct exec_user user; /* it is large */
	uint32_t pos = 0;
	int rc = 0;

	/* Root is who he is in every image: its files need not be read for that. */
	if (m->user.len == 0)
		user = (struct exec_user){.uid = geteuid(), .gid = getegid()};
	else
		rc = exec_user_find(&m->user, &user, f);

	for (uint32_t i = 0; i < m->paths.count && rc == 0; i++) {
		const char *path = wire_strs_next(&m->paths, &pos);

		rc = make_one(&user, path);
		if (rc < 0)
			(void)agent_fail_set(f, WIRE_FAIL_PATH, -rc, "directories", path,
				"cannot make the directory '%s'", path);
	}
	return rc;
}

void directories_make(struct agent *a, const struct wire_msg *msg)
{
	struct agent_fail f;
	int rc = 0;

	if (a->state != AGENT_READY)
		rc = agent_fail_set(&f, WIRE_FAIL_INVALID, 0, "directories", "",
			"the machine is not set up, or shutting down");
	if (rc == 0)
		rc = make_all(&msg->directories, &f);
	if (rc < 0)
		agent_fail_send(a, msg->stream, &f);
	else
		lane_send(
			&a->control, &(struct wire_msg){.op = WIRE_OP_done, .stream = msg->stream});
}
