/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store of templates (template.h): keys, opening with every check, listing, removing.
 */
#include "box/template.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/digest.h"
#include "base/fd.h"
#include "base/fsutil.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "box/spares.h"
#include "box/template_files.h"
#include "vmm/qemu.h"
#include "vmm/qemu_argv.h"
#include "base/banned.h"

#define CPUINFO       "/proc/cpuinfo"
#define CPUINFO_MAX   (4u << 20)
#define KEY_TEXT_MAX  16384 /* a command line and a few names */
#define TEMPLATES_MAX 4096 /* that are listed */

/* ---- keys ---- */

/* A file is known by its inode and times; reading 50 MB for each start would take longer than one.
 */
static int add_file(struct buf *b, const char *name, const struct stat *st)
{
	return buf_printf(b, "%s %" PRIu64 " %" PRIu64 " %" PRIi64 " %" PRIi64 ".%09ld\n", name,
		(uint64_t)st->st_dev, (uint64_t)st->st_ino, (int64_t)st->st_size,
		(int64_t)st->st_mtim.tv_sec, st->st_mtim.tv_nsec);
}

const char *template_cached_name(int fd, const char *prefix, char path[PATH_MAX])
{
	static const char deleted[] = " (deleted)";
	char link[32];

	(void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	const ssize_t len = readlink(link, path, PATH_MAX - 1);
	if (len <= 0)
		return NULL;
	path[len] = 0;
	if (str_ends(path, deleted))
		path[len - (ssize_t)strlen(deleted)] = 0;
	const char *slash = strrchr(path, '/');
	return slash && str_starts(slash + 1, prefix) ? slash + 1 : NULL;
}

static int add_open_file(struct buf *b, const char *name, int fd, const char *cache_prefix)
{
	char path[PATH_MAX];
	struct stat st;
	const char *cached = template_cached_name(fd, cache_prefix, path);

	if (cached)
		return buf_printf(b, "%s\n", cached);
	return fstat(fd, &st) < 0 ? -errno : add_file(b, name, &st);
}

static int add_qemu(struct buf *b, holt_error **reterr)
{
	auto_free char *path = NULL;
	struct stat st;
	int r = qemu_find(&path, reterr);

	if (r < 0)
		return r;
	r = stat(path, &st) < 0 ? -errno : add_file(b, path, &st);
	return r < 0 ? err_errno(reterr, -r, "cannot look at '%s'", path) : 0;
}

static int add_command_line(struct buf *b, const struct template_want *w, holt_error **reterr)
{
	const struct vm_spec spec = {.origin = VM_FREEZE,
		.bare = w->bare,
		.kvm = w->kvm,
		.memory_mib = w->memory_mib,
		.cpus = w->cpus,
		.tsc_khz = w->tsc_khz,
		.disk_bytes = w->disk_bytes};
	char **argv = NULL;
	int r = qemu_argv_build(&spec, &argv, reterr);

	if (r < 0)
		return r;
	for (size_t i = 0; r == 0 && argv[i]; i++)
		r = buf_printf(b, "%s\n", argv[i]);
	strv_free(argv);
	return r < 0 ? err_errno(reterr, -r, "cannot note the command line") : 0;
}

/* With hardware virtualization the guest has the host's processor, and its kernel's idea of it. */
static int add_host(struct buf *b)
{
	auto_free char *text = NULL;
	struct utsname host;
	char *next = NULL;
	int r = fs_read_file(AT_FDCWD, CPUINFO, CPUINFO_MAX, &text, NULL);

	if (r == 0 && uname(&host) == 0)
		r = buf_printf(b, "%s\n", host.release);
	/* The first processor stands for all. */
	for (char *line = text; r == 0 && line && *line && *line != '\n'; line = next) {
		next = strchr(line, '\n');
		if (!next)
			break;
		*next++ = 0;
		if (str_starts(line, "model name") || str_starts(line, "stepping") ||
			str_starts(line, "microcode") || str_starts(line, "flags"))
			r = buf_printf(b, "%s\n", line);
	}
	return r;
}

static int short_digest(const void *data, size_t len, char ret[TEMPLATE_KEY_LEN + 1])
{
	char digest[DIGEST_STR_LEN + 1];

	if (digest_of(data, len, digest) < 0)
		return -ENOMEM;
	(void)snprintf(ret, TEMPLATE_KEY_LEN + 1, "%s", strchr(digest, ':') + 1);
	return 0;
}

int template_directories_key(
	const struct keeper_directories *d, char ret[TEMPLATE_KEY_LEN + 1], holt_error **reterr)
{
	auto_buf b = BUF_INIT(sizeof *d);

	ret[0] = 0;
	if (d->n == 0)
		return 0;
	int r = buf_append(&b, d->owner, strlen(d->owner) + 1);
	if (r == 0)
		r = buf_append(&b, d->paths, d->len);
	if (r == 0)
		r = short_digest(b.data, b.len, ret);
	return r < 0 ? err_nomem(reterr) : 0;
}

int template_key_again(const struct template_want *w, const char *directories,
	char ret[TEMPLATE_KEY_LEN + 1], holt_error **reterr)
{
	auto_buf b = BUF_INIT(KEY_TEXT_MAX);
	int r = buf_printf(&b, "holt template " TEMPLATE_FORMAT " %d\n%s\n%" PRIu64 "\n", w->bare,
		w->rootfs_digest, w->disk_bytes);

	if (r == 0 && *directories)
		r = buf_printf(&b, "directories %s\n", directories);
	if (r == 0)
		r = add_open_file(&b, "kernel", w->kernel_fd, "vmlinux-");
	if (r == 0)
		r = add_open_file(&b, "initramfs", w->initrd_fd, "initramfs-");
	if (r == 0 && w->kvm)
		r = add_host(&b);
	if (r < 0)
		return err_errno(reterr, -r, "cannot look at the guest's kernel");
	if ((r = add_qemu(&b, reterr)) < 0 || (r = add_command_line(&b, w, reterr)) < 0)
		return r;
	return short_digest(b.data, b.len, ret) < 0 ? err_nomem(reterr) : 0;
}

int template_key(const struct template_want *w, char ret[TEMPLATE_KEY_LEN + 1], holt_error **reterr)
{
	char directories[TEMPLATE_KEY_LEN + 1];
	const int r = template_directories_key(&w->directories, directories, reterr);

	return r < 0 ? r : template_key_again(w, directories, ret, reterr);
}

/* ---- opening ---- */

void template_done(struct template *t)
{
	t->memory_fd = fd_close(t->memory_fd);
	t->state_fd = fd_close(t->state_fd);
	t->disk_fd = fd_close(t->disk_fd);
}

static int open_dir(int templates, const char *key)
{
	const int fd = openat(templates, key, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

static int open_checked(int dir, const char *key, struct template *t, const char **ret_what)
{
	struct template_facts f = {0};
	int r = template_facts_read(dir, &f);

	*ret_what = TEMPLATE_FACTS;
	if (r == 0) {
		(void)snprintf(t->key, sizeof t->key, "%s", key);
		(void)snprintf(t->generation, sizeof t->generation, "%s", f.generation);
		r = template_files_open(dir, &f, t, ret_what);
	}
	template_facts_done(&f);
	return r;
}

int template_open(
	struct holt_home *home, const char *key, struct template *ret, holt_error **reterr)
{
	auto_fd dir = open_dir(home->templates_fd, key);
	struct template t = TEMPLATE_INIT;
	const char *what = "";
	int r = dir < 0 ? dir : open_checked(dir, key, &t, &what);

	if (r == 0) {
		/* For the choice of what goes first; it does not matter if it fails. */
		(void)utimensat(dir, TEMPLATE_FACTS, NULL, 0);
		*ret = t;
		return 0;
	}
	template_done(&t);
	if (r == -ENOMEM || r == -EMFILE || r == -ENFILE)
		return err_errno(reterr, -r, "cannot open the template");
	/* One that was removed since it was opened misses files, too. */
	if (dir >= 0 && fs_is_named(dir, home->templates_fd, key)) {
		log_warn("template", "removing template %s: '%s' is not as it was made", key, what);
		(void)!template_remove(home, key);
	}
	(void)err_make(reterr, HOLT_ENOT_FOUND, "no template '%s'", key);
	return -HOLT_ENOT_FOUND;
}

/* ---- all of them ---- */

static bool is_key(const char *name)
{
	return strlen(name) == TEMPLATE_KEY_LEN &&
	       strspn(name, "0123456789abcdef") == TEMPLATE_KEY_LEN;
}

/* Call @fn for each name in the directory. */
static int each_name(
	struct holt_home *home, int (*fn)(struct holt_home *, const char *, void *), void *user)
{
	const int fd = openat(home->templates_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;
	int r = 0;

	if (!dir) {
		r = -errno;
		(void)fd_close(fd);
		return r;
	}
	while (r == 0 && (entry = readdir(dir))) {
		if (entry->d_name[0] != '.')
			r = fn(home, entry->d_name, user);
	}
	(void)closedir(dir);
	return r;
}

struct listing {
	struct template_info *list;
	size_t n;
};

static int list_one(struct holt_home *home, const char *name, void *user)
{
	struct listing *l = user;
	struct template_facts f = {0};
	auto_fd dir = is_key(name) ? open_dir(home->templates_fd, name) : FD_NONE;

	if (dir < 0 || l->n >= TEMPLATES_MAX || template_facts_read(dir, &f) < 0)
		return 0;
	struct template_info *more = mem_resize(l->list, l->n + 1, sizeof *more);
	if (!more) {
		template_facts_done(&f);
		return -ENOMEM;
	}
	l->list = more;
	more[l->n++] = f.info;
	(void)snprintf(more[l->n - 1].key, sizeof more->key, "%s", name);
	template_files_measure(dir, &more[l->n - 1]);
	f.info = (struct template_info){0};
	template_facts_done(&f);
	return 0;
}

static int newest_first(const void *a, const void *b)
{
	const struct template_info *x = a;
	const struct template_info *y = b;

	return (x->used_ns < y->used_ns) - (x->used_ns > y->used_ns);
}

int template_list(
	struct holt_home *home, struct template_info **ret, size_t *ret_n, holt_error **reterr)
{
	struct listing l = {0};
	const int r = each_name(home, list_one, &l);

	if (r < 0) {
		template_list_free(l.list, l.n);
		return err_errno(reterr, -r, "cannot list the templates");
	}
	if (l.n > 0)
		qsort(l.list, l.n, sizeof *l.list, newest_first);
	*ret = l.list;
	*ret_n = l.n;
	return 0;
}

void template_info_done(struct template_info *i)
{
	mem_free(i->image);
	mem_free(i->rootfs_digest);
	i->image = i->rootfs_digest = NULL;
}

void template_list_free(struct template_info *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		template_info_done(&list[i]);
	mem_free(list);
}

int template_remove(struct holt_home *home, const char *key)
{
	const int r = box_dir_remove(home->templates_fd, key);

	/* They would keep its memory on the disk. */
	if (r == 0)
		(void)!spares_shed(home, key, 0, NULL, NULL);
	return r;
}

/* The first @keep stay whatever they take. */
static int prune(struct holt_home *home, uint64_t max_bytes, size_t keep, size_t *ret_n,
	uint64_t *ret_bytes, holt_error **reterr)
{
	struct template_info *list = NULL;
	size_t n = 0;
	size_t gone = 0;
	uint64_t kept_bytes = 0;
	uint64_t gone_bytes = 0;
	int r = template_list(home, &list, &n, reterr);

	if (r < 0)
		return r;
	for (size_t i = 0; i < n && r == 0; i++) {
		kept_bytes += list[i].size_bytes;
		if (i < keep || kept_bytes <= max_bytes)
			continue;
		kept_bytes -= list[i].size_bytes;
		r = template_remove(home, list[i].key);
		gone += r == 0;
		gone_bytes += r == 0 ? list[i].size_bytes : 0;
	}
	template_list_free(list, n);
	if (r < 0)
		return err_errno(reterr, -r, "cannot remove a template");
	if (ret_n)
		*ret_n = gone;
	if (ret_bytes)
		*ret_bytes = gone_bytes;
	return 0;
}

int template_prune(struct holt_home *home, uint64_t max_bytes, size_t *ret_n, uint64_t *ret_bytes,
	holt_error **reterr)
{
	return prune(home, max_bytes, 0, ret_n, ret_bytes, reterr);
}

void template_keep_budget(struct holt_home *home)
{
	(void)!prune(home, home->template_bytes, 1, NULL, NULL, NULL);
}

/* One that nobody holds is left from a maker who was killed. Only its holder may remove it. */
static void sweep_lock(struct holt_home *home, const char *name)
{
	auto_fd lock = fs_open_lock(home->templates_fd, name, false);

	if (lock >= 0)
		(void)unlinkat(home->templates_fd, name, 0);
}

/* A directory that is no template and whose locks are free is left from a maker who was killed. */
static int sweep_one(struct holt_home *home, const char *name, void *user)
{
	struct box_dir d = BOX_DIR_INIT;

	(void)user;
	if (box_dir_is_gone(name))
		(void)!fs_remove_tree(home->templates_fd, name);
	else if (str_ends(name, TEMPLATE_LOCK))
		sweep_lock(home, name);
	else if (!is_key(name) && box_dir_lock(home->templates_fd, name, 0, &d) == 0)
		(void)!box_dir_destroy(home->templates_fd, &d);
	return 0;
}

void template_sweep(struct holt_home *home)
{
	(void)!each_name(home, sweep_one, NULL);
}
