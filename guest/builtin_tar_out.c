/* SPDX-License-Identifier: Apache-2.0 */
#include "builtin.h"

#include "guest_mem.h"
#include "tar_format.h"
#include "tar_links.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "guest_banned.h"

/*
 * tar-out [-L] DIR NAME AS
 *
 * Writes DIR/NAME as a POSIX archive in which it is called AS; with AS "." the entries of that
 * directory stand at the top, without one for itself. -L follows NAME where it is a link; other
 * links are always stored as links.
 *
 * Stored are files, directories, symbolic links, fifos and device nodes, with mode, numeric owner
 * and time in nanoseconds; a file with several names once, and its other names as hard links, as
 * far as tar_links.h remembers. Sockets are left out, and so are extended attributes. Holes of
 * files become zeros. Directories of other file systems are entered, unless the kernel makes up
 * what is in them (procfs and its kin; see made_up): those are stored empty.
 *
 * The tree may change meanwhile. What vanishes, or becomes something else, between being seen and
 * being opened is left out; a file that shrinks is filled up with zeros, one that grows is cut,
 * since its size was written before. Nothing but what hangs beneath DIR/NAME by its names is ever
 * opened: each step opens one name in an open directory and follows no link.
 *
 * Limits: DEPTH_MAX directories within each other, each of which holds a descriptor (so that the
 * 1,024 of every program suffice) and a buffer of directory entries (8 MiB in all); beyond, the
 * copy fails. Paths never go to the kernel, so that their length does not matter.
 */

#define DEPTH_MAX   1000
#define OUT_SIZE    (256u * 1024)
#define DIRENT_SIZE 8192

_Static_assert(DEPTH_MAX *(NAME_MAX + 1) + 2 * (NAME_MAX + 1) < TAR_NAME_MAX, "names must fit");

/* A directory that is being read. */
struct level {
	int fd;
	dev_t dev;
	size_t name_len; /* of its name in the archive, with the slash */
	size_t pos; /* in entries */
	size_t len;
	char *entries; /* DIRENT_SIZE; kept for the next directory of this depth */
};

struct pack {
	struct level levels[DEPTH_MAX];
	size_t depth;
	struct tar_links links;
	char name[TAR_NAME_MAX + 1]; /* of the current entry, in the archive */
	uint8_t head[TAR_HEAD_MAX];
	uint8_t out[OUT_SIZE];
	size_t out_len;
};

/* Functions return 0 or -1, and then have told why. */

static int fail_entry(const struct pack *p, int errnum, const char *what)
{
	return builtin_errno(errnum, "read", p->name, what);
}

static int flush(struct pack *p)
{
	const int rc = builtin_write(STDOUT_FILENO, p->out, p->out_len);

	p->out_len = 0;
	if (rc < 0)
		return builtin_errno(-rc, "write", p->name, "cannot write the archive at");
	return 0;
}

static int put(struct pack *p, const uint8_t *data, size_t len)
{
	while (len > 0) {
		const size_t room = OUT_SIZE - p->out_len;
		const size_t n = len < room ? len : room;
		memcpy(p->out + p->out_len, data, n);
		p->out_len += n;
		data += n;
		len -= n;
		if (p->out_len == OUT_SIZE && flush(p) < 0)
			return -1;
	}
	return 0;
}

static int put_zeros(struct pack *p, uint64_t len)
{
	while (len > 0) {
		const size_t room = OUT_SIZE - p->out_len;
		const size_t n = len < room ? (size_t)len : room;
		memset(p->out + p->out_len, 0, n);
		p->out_len += n;
		len -= n;
		if (p->out_len == OUT_SIZE && flush(p) < 0)
			return -1;
	}
	return 0;
}

/* The data of a file of which @size bytes were promised; read straight into the output. */
static int put_file(struct pack *p, int fd, uint64_t size)
{
	uint64_t left = size;

	while (left > 0) {
		const size_t room = OUT_SIZE - p->out_len;
		const ssize_t n = read(fd, p->out + p->out_len, left < room ? (size_t)left : room);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return fail_entry(p, errno, "cannot read");
		if (n == 0)
			break;
		p->out_len += (size_t)n;
		left -= (uint64_t)n;
		if (p->out_len == OUT_SIZE && flush(p) < 0)
			return -1;
	}
	return put_zeros(p, left + -size % TAR_BLOCK);
}

static int put_head(
	struct pack *p, const struct stat *st, char type, uint64_t size, const char *link)
{
	const struct tar_entry e = {
		.type = type,
		.name = p->name,
		.link = link,
		.mode = st->st_mode & 07777,
		.uid = st->st_uid,
		.gid = st->st_gid,
		.size = size,
		.mtime_s = st->st_mtim.tv_sec,
		.mtime_ns = (uint32_t)st->st_mtim.tv_nsec,
		.dev_major = S_ISCHR(st->st_mode) || S_ISBLK(st->st_mode) ? major(st->st_rdev) : 0,
		.dev_minor = S_ISCHR(st->st_mode) || S_ISBLK(st->st_mode) ? minor(st->st_rdev) : 0,
	};
	const size_t len = tar_encode(&e, p->head, sizeof(p->head));

	if (len == 0)
		return fail_entry(p, ENAMETOOLONG, "cannot store");
	return put(p, p->head, len);
}

/* Whether an error says that the entry is not there any more, or not as it was. */
static bool is_gone(int errnum)
{
	return errnum == ENOENT || errnum == ENOTDIR || errnum == ELOOP || errnum == ENXIO;
}

static int pack_file(struct pack *p, int at, const char *name, int follow)
{
	/* If it has become a fifo or a terminal meanwhile, neither waits nor takes it. */
	const int fd = openat(
		at, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | (follow ? 0 : O_NOFOLLOW));
	const char *first = NULL;
	struct stat st;
	int rc = 0;

	if (fd < 0)
		return is_gone(errno) && p->depth > 0 ? 0 : fail_entry(p, errno, "cannot open");
	if (fstat(fd, &st) < 0)
		rc = fail_entry(p, errno, "cannot look at");
	else if (S_ISREG(st.st_mode)) {
		if (st.st_nlink > 1)
			first = tar_links_seen(&p->links, st.st_dev, st.st_ino, p->name);
		const uint64_t size = first ? 0 : (uint64_t)st.st_size;
		rc = put_head(p, &st, first ? TAR_HARD_LINK : TAR_FILE, size, first ? first : "");
		if (rc == 0)
			rc = put_file(p, fd, size);
	}
	(void)close(fd);
	return rc;
}

static int pack_symlink(struct pack *p, int at, const char *name, const struct stat *st)
{
	char target[PATH_MAX];
	const ssize_t n = readlinkat(at, name, target, sizeof(target) - 1);

	if (n < 0)
		return is_gone(errno) || errno == EINVAL ? 0 : fail_entry(p, errno, "cannot read");
	target[n] = 0;
	return put_head(p, st, TAR_SYMLINK, 0, target);
}

/* Whether @fd lies in a file system whose files are the kernel's talk. */
static bool made_up(int fd)
{
	static const uint32_t kinds[] = {BPF_FS_MAGIC, CGROUP2_SUPER_MAGIC, CGROUP_SUPER_MAGIC,
		DEBUGFS_MAGIC, DEVPTS_SUPER_MAGIC, PROC_SUPER_MAGIC, SECURITYFS_MAGIC, SYSFS_MAGIC,
		TRACEFS_MAGIC};
	struct statfs fs;

	if (fstatfs(fd, &fs) < 0)
		return false;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if ((uint32_t)fs.f_type == kinds[i])
			return true;
	return false;
}

/* Make the directory @fd the one that is read next. It is consumed, also on failure. */
static int push(struct pack *p, int fd, dev_t dev)
{
	struct level *const l = &p->levels[p->depth];

	if (p->depth == DEPTH_MAX) {
		(void)close(fd);
		return builtin_fault(
			ENAMETOOLONG, "read", p->name, "directories lie more than 1000 deep");
	}
	if (!l->entries)
		l->entries = gmem_array(DIRENT_SIZE, 1);
	if (!l->entries) {
		(void)close(fd);
		return fail_entry(p, ENOMEM, "cannot read");
	}
	*l = (struct level){
		.fd = fd, .dev = dev, .name_len = strlen(p->name), .entries = l->entries};
	p->depth++;
	return 0;
}

static int pack_directory(struct pack *p, int at, const char *name, int follow)
{
	const int fd = openat(
		at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | (follow ? 0 : O_NOFOLLOW));
	const bool top = p->depth == 0;
	const size_t len = strlen(p->name);
	struct stat st;

	if (fd < 0)
		return is_gone(errno) && !top ? 0 : fail_entry(p, errno, "cannot open");
	if (fstat(fd, &st) < 0) {
		(void)close(fd);
		return fail_entry(p, errno, "cannot look at");
	}
	if (top && strcmp(p->name, ".") == 0) {
		p->name[0] = 0;
		return push(p, fd, st.st_dev);
	}
	memcpy(p->name + len, "/", 2);
	const int rc = put_head(p, &st, TAR_DIR, 0, "");
	if (rc < 0 || (!top && st.st_dev != p->levels[p->depth - 1].dev && made_up(fd))) {
		(void)close(fd);
		return rc;
	}
	return push(p, fd, st.st_dev);
}

/* One name in an open directory. */
static int pack_entry(struct pack *p, int at, const char *name, bool follow)
{
	struct stat st;

	if (fstatat(at, name, &st, follow ? 0 : AT_SYMLINK_NOFOLLOW) < 0)
		return is_gone(errno) && p->depth > 0 ? 0 : fail_entry(p, errno, "cannot look at");
	switch (st.st_mode & S_IFMT) {
	case S_IFREG:
		return pack_file(p, at, name, follow);
	case S_IFDIR:
		return pack_directory(p, at, name, follow);
	case S_IFLNK:
		return pack_symlink(p, at, name, &st);
	case S_IFIFO:
		return put_head(p, &st, TAR_FIFO, 0, "");
	case S_IFCHR:
		return put_head(p, &st, TAR_CHAR, 0, "");
	case S_IFBLK:
		return put_head(p, &st, TAR_BLOCK_DEVICE, 0, "");
	default:
		return 0;
	}
}

/* The next name of a directory: 1, 0 at its end, -1 with errno. */
static int level_next(struct level *l, const char **ret)
{
	for (;;) {
		if (l->pos == l->len) {
			const ssize_t n = getdents64(l->fd, l->entries, DIRENT_SIZE);
			if (n <= 0)
				return n < 0 && errno != ENOENT ? -1 : 0;
			l->pos = 0;
			l->len = (size_t)n;
		}
		/* The kernel has aligned them. */
		const void *const at = l->entries + l->pos;
		const struct dirent64 *const d = at;
		l->pos += d->d_reclen;
		if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
			continue;
		*ret = d->d_name;
		return 1;
	}
}

static int walk(struct pack *p)
{
	while (p->depth > 0) {
		struct level *const l = &p->levels[p->depth - 1];
		const char *name = NULL;
		p->name[l->name_len] = 0;
		const int rc = level_next(l, &name);
		if (rc < 0)
			return fail_entry(p, errno, "cannot read the directory");
		if (rc == 0) {
			(void)close(l->fd);
			p->depth--;
			continue;
		}
		memcpy(p->name + l->name_len, name, strlen(name) + 1);
		if (pack_entry(p, l->fd, name, false) < 0)
			return -1;
	}
	return 0;
}

static int pack(struct pack *p, const char *dir, const char *name, const char *as, bool follow)
{
	struct stat st;
	const int fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return builtin_errno(errno, "read", dir, "cannot open");
	memcpy(p->name, as, strlen(as) + 1);
	if (strcmp(as, ".") == 0) {
		if (fstatat(fd, name, &st, follow ? 0 : AT_SYMLINK_NOFOLLOW) < 0)
			return builtin_errno(errno, "read", name, "cannot look at");
		if (!S_ISDIR(st.st_mode))
			return builtin_errno(ENOTDIR, "read", name, "cannot take the contents of");
	}
	if (pack_entry(p, fd, name, follow) < 0 || walk(p) < 0)
		return -1;
	p->name[0] = 0;
	return put_zeros(p, (uint64_t)2 * TAR_BLOCK) < 0 ? -1 : flush(p);
}

static bool is_name(const char *s)
{
	return *s && !strchr(s, '/') && strlen(s) <= NAME_MAX && strcmp(s, "..") != 0;
}

int builtin_tar_out(int argc, char *const *argv)
{
	const bool follow = argc > 1 && strcmp(argv[1], "-L") == 0;
	char *const *const args = argv + 1 + follow;

	if (argc != 4 + follow || !is_name(args[1]) || !is_name(args[2])) {
		(void)builtin_fault(EINVAL, "request", "",
			"tar-out takes [-L] DIR NAME AS, two of them without a slash");
		return 1;
	}
	struct pack *const p = gmem_zalloc(sizeof(*p));
	if (!p) {
		(void)builtin_fault(ENOMEM, "read", "", "no memory for the archive");
		return 1;
	}
	return pack(p, args[0], args[1], args[2], follow) < 0;
}
