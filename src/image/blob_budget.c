/* SPDX-License-Identifier: Apache-2.0 */
#include "image/blobs.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/fsutil.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/banned.h"

/* What may go of the blobs. By any process at any time: the locks tell what is in use (blobs.h). */

#define BLOB_NAME_MAX (DIGEST_HEX_LEN + sizeof BLOB_PART)

struct kept {
	char name[BLOB_NAME_MAX];
	struct timespec used;
	uint64_t bytes;
};

struct kept_list {
	struct kept *items;
	size_t n;
	size_t cap;
	uint64_t bytes;
};

/* Only what is a blob's by its name. */
static bool is_ours(const char *name)
{
	const size_t hex = strspn(name, "0123456789abcdef");

	return hex == DIGEST_HEX_LEN && (!name[hex] || strcmp(name + hex, BLOB_PART) == 0);
}

static bool add(struct kept_list *l, int dir, const char *name)
{
	struct stat st;

	if (!is_ours(name) || fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return true;
	if (l->n == l->cap) {
		const size_t cap = l->cap ? 2 * l->cap : 64;
		struct kept *items = mem_resize(l->items, cap, sizeof *items);
		if (!items)
			return false;
		l->items = items;
		l->cap = cap;
	}
	struct kept *k = &l->items[l->n++];
	*k = (struct kept){.used = st.st_mtim, .bytes = (uint64_t)st.st_blocks * 512};
	memcpy(k->name, name, strlen(name) + 1);
	l->bytes += k->bytes;
	return true;
}

static void list(struct kept_list *l, int dir)
{
	const int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *e;

	if (!d) {
		(void)fd_close(fd);
		return;
	}
	while ((e = readdir(d)) && add(l, dir, e->d_name))
		;
	(void)closedir(d);
}

static int by_use(const void *a, const void *b)
{
	const struct kept *x = a;
	const struct kept *y = b;

	if (x->used.tv_sec != y->used.tv_sec)
		return x->used.tv_sec < y->used.tv_sec ? -1 : 1;
	return (x->used.tv_nsec > y->used.tv_nsec) - (x->used.tv_nsec < y->used.tv_nsec);
}

/* Nobody else has it as long as the descriptor is open. */
static int take_unused(int dir, const char *name)
{
	auto_fd fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0 || !fs_is_named(fd, dir, name))
		return FD_NONE;
	return take_fd(fd);
}

static bool remove_unused(int dir, const char *name)
{
	auto_fd fd = take_unused(dir, name);

	return fd >= 0 && unlinkat(dir, name, 0) == 0;
}

void blobs_look(struct image_store *s, struct blobs_use *ret)
{
	const int dir = store_blobs_dir(s);
	struct kept_list l = {0};

	list(&l, dir);
	*ret = (struct blobs_use){.n = l.n, .bytes = l.bytes};
	for (size_t i = 0; i < l.n; i++) {
		auto_fd fd = take_unused(dir, l.items[i].name);
		if (fd >= 0)
			ret->free_bytes += l.items[i].bytes;
		else
			ret->n_busy++;
	}
	mem_free(l.items);
}

uint64_t blobs_trim(struct image_store *s, uint64_t max_bytes)
{
	const int dir = store_blobs_dir(s);
	struct kept_list l = {0};
	uint64_t gone = 0;

	list(&l, dir);
	if (l.bytes > max_bytes)
		qsort(l.items, l.n, sizeof *l.items, by_use);
	for (size_t i = 0; i < l.n && l.bytes - gone > max_bytes; i++) {
		if (remove_unused(dir, l.items[i].name))
			gone += l.items[i].bytes;
	}
	mem_free(l.items);
	return gone;
}
