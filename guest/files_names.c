/* SPDX-License-Identifier: Apache-2.0 */
#include "builtin_files.h"
#include "files_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "guest_banned.h"

/*
 * Requests about names: looking, making directories, moving. Called by the loop in files.c.
 *
 * Paths go to the kernel as they are, so that its rules for links, slashes and lengths are ours; a
 * path of 4,096 bytes or more is ENAMETOOLONG.
 */

static uint8_t type_of(mode_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFREG:
		return WIRE_FILE_REGULAR;
	case S_IFDIR:
		return WIRE_FILE_DIRECTORY;
	case S_IFLNK:
		return WIRE_FILE_SYMLINK;
	case S_IFIFO:
		return WIRE_FILE_FIFO;
	case S_IFCHR:
		return WIRE_FILE_CHAR;
	case S_IFBLK:
		return WIRE_FILE_BLOCK;
	default:
		return WIRE_FILE_SOCKET;
	}
}

void files_send_info(struct files *f, const struct stat *st, const char *target)
{
	files_send(f, &(struct wire_msg){.op = WIRE_OP_file_info,
			      .file_info = {.type = type_of(st->st_mode),
				      .mode = st->st_mode & 07777,
				      .uid = st->st_uid,
				      .gid = st->st_gid,
				      .size = (uint64_t)st->st_size,
				      .mtime_ns = (uint64_t)st->st_mtim.tv_sec * 1000000000u +
						  (uint64_t)st->st_mtim.tv_nsec,
				      .target = files_bytes(target)}});
}

void files_op_stat(struct files *f, const struct wire_msg *m)
{
	const char *const path = files_path(f, &m->file_stat.path);
	const struct wire_bytes object = files_bytes(path);
	const bool follow = m->file_stat.flags & WIRE_STAT_FOLLOW;
	char target[PATH_MAX] = "";
	ssize_t len = 0;
	struct stat st;

	if ((follow ? stat(path, &st) : lstat(path, &st)) < 0 ||
		(S_ISLNK(st.st_mode) && (len = readlink(path, target, sizeof(target) - 1)) < 0)) {
		files_fail(f, WIRE_FILE_FAIL_ERRNO, errno, "stat", &object, "cannot look at");
		return;
	}
	target[len] = 0;
	files_send_info(f, &st, target);
	files_done(f, false, 0, 0);
}

/* Returns 0, also for a directory that is there, or -errno. */
static int make_directory(int at, const char *path)
{
	struct stat st;

	if (mkdirat(at, path, 0755) == 0)
		return 0;
	if (errno != EEXIST)
		return -errno;
	return fstatat(at, path, &st, 0) == 0 && S_ISDIR(st.st_mode) ? 0 : -EEXIST;
}

int files_make_directories(int at, const char *path)
{
	char part[PATH_MAX];
	int rc = make_directory(at, path);

	if (rc != -ENOENT)
		return rc;
	for (size_t len = strspn(path, "/"); path[len];) {
		len += strcspn(path + len, "/");
		if (len >= sizeof(part))
			return -ENAMETOOLONG;
		memcpy(part, path, len);
		part[len] = 0;
		rc = make_directory(at, part);
		if (rc < 0)
			return rc == -EEXIST && path[len] ? -ENOTDIR : rc;
		len += strspn(path + len, "/");
	}
	return rc;
}

void files_op_mkdir(struct files *f, const struct wire_msg *m)
{
	const char *const path = files_path(f, &m->file_mkdir.path);
	const struct wire_bytes object = files_bytes(path);
	int rc = 0;

	if (m->file_mkdir.flags & WIRE_MKDIR_PARENTS)
		rc = files_make_directories(AT_FDCWD, path);
	else if (mkdir(path, 0755) < 0)
		rc = -errno;
	if (rc < 0)
		files_fail(f, WIRE_FILE_FAIL_ERRNO, -rc, "mkdir", &object,
			"cannot make the directory");
	else
		files_done(f, false, 0, 0);
}

/* Which of the two names a failed move is about. */
static bool about_target(const char *from, int errnum)
{
	struct stat st;

	switch (errnum) {
	case EEXIST:
	case ENOTEMPTY:
	case EISDIR:
		return true;
	case ENOENT:
	case ENOTDIR:
	case ENAMETOOLONG:
		return lstat(from, &st) == 0;
	default:
		return false;
	}
}

void files_op_move(struct files *f, const struct wire_msg *m)
{
	const char *const from = files_path(f, &m->file_move.from);
	const char *const to = files_path(f, &m->file_move.to);
	const bool noreplace = m->file_move.flags & WIRE_MOVE_NOREPLACE;

	if (renameat2(AT_FDCWD, from, AT_FDCWD, to, noreplace ? RENAME_NOREPLACE : 0) == 0) {
		files_done(f, false, 0, 0);
		return;
	}
	const int errnum = errno;
	const bool target = about_target(from, errnum);
	const struct wire_bytes object = files_bytes(target ? to : from);
	files_fail(f, WIRE_FILE_FAIL_ERRNO, errnum, "move", &object,
		target ? "cannot move to" : "cannot move");
}
