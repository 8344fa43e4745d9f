/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BOX_TEMPLATE_H
#define BOX_TEMPLATE_H

#include "box/box_home.h"
#include "box/keeper_start.h"

#include <limits.h>

/*
 * Templates: machines that were booted once, came to rest, and were saved. A box that begins as a
 * clone of one has its own copy of the disk and maps the memory privately, so that its pages are
 * the template's until it writes to them.
 *
 *   templates/<key>/memory         the guest's memory, mode 0400; nobody ever writes to it again
 *   templates/<key>/state          QEMU's devices
 *   templates/<key>/disk.raw       the disk of that moment; a bare template has none
 *   templates/<key>/template.json  what it is, and sizes, times and a digest of the files: a
 * template that differs from them is removed, never used. Its own time of modification is when the
 * template was used last. templates/<key>.lock           held by the process that makes it
 *   templates/<id>/                one in the making, with a box's two locks
 *
 * The key is a hash of everything that the machine was made of, so a template is never outdated:
 * what has another kernel, agent, QEMU, command line or shape has another key.
 *
 * A template may go at any time: who has opened it keeps its files.
 */
#define TEMPLATE_KEY_LEN 32

/* What a template is made of, or looked for by. All is borrowed. */
struct template_want {
	const char *image; /* as the user calls it, for listing */
	const char *rootfs_digest;
	bool bare; /* without a mounted disk: for boxes that have one already */
	uint32_t memory_mib;
	uint32_t cpus;
	uint64_t disk_bytes;
	bool kvm;
	uint32_t tsc_khz;
	int kernel_fd;
	int initrd_fd;
	int rootfs_fd;
	uint64_t boot_timeout_ms;
	holt_cancel *cancel;
	/* That it has besides: a pool's boxes begin with them. Of a bare one there are none. */
	struct keeper_directories directories;
};

/* An open one. */
struct template
{
	char key[TEMPLATE_KEY_LEN + 1];
	char generation[33];
	int memory_fd;
	int state_fd;
	int disk_fd; /* FD_NONE of a bare one */
};

#define TEMPLATE_INIT \
	((struct template){.memory_fd = -EBADF, .state_fd = -EBADF, .disk_fd = -EBADF})

/* What is known of one for listing. */
struct template_info {
	char key[TEMPLATE_KEY_LEN + 1];
	char *image;
	char *rootfs_digest;
	bool bare;
	bool kvm;
	uint32_t memory_mib;
	uint32_t cpus;
	uint64_t disk_bytes;
	char directories[TEMPLATE_KEY_LEN + 1]; /* template_directories_key */
	uint64_t size_bytes; /* that its files take on the disk */
	uint64_t build_ms;
	int64_t created_ns;
	int64_t used_ns;
	unsigned spares_ready; /* by template_image_list */
	unsigned spares_wanted;
};

/* The part of a key that is about directories: empty where there are none. */
int template_directories_key(
	const struct keeper_directories *d, char ret[TEMPLATE_KEY_LEN + 1], holt_error **reterr);

/* The key of one that is described, made of today's kernel, initramfs and QEMU as @w has them. */
int template_key_again(const struct template_want *w, const char *directories,
	char ret[TEMPLATE_KEY_LEN + 1], holt_error **reterr);

int template_key(
	const struct template_want *w, char ret[TEMPLATE_KEY_LEN + 1], holt_error **reterr);

/* What lies in the cache has the digest of what it was made from as its name, and may be made again
 * at any time; anything else is known by its inode. The name of an open file that begins with
 * @prefix, in @path, or NULL. */
const char *template_cached_name(int fd, const char *prefix, char path[PATH_MAX]);

/* Open the one with that key, and note that it was used. HOLT_ENOT_FOUND where there is none, or
 * one that is torn, which is then removed. */
int template_open(
	struct holt_home *home, const char *key, struct template *ret, holt_error **reterr);
void template_done(struct template *t);

/* Open it, after making it if it is not there. Of any number of processes that want it one makes it
 * and the others wait, as long as two boots may take. template_build.c. */
int template_make(struct holt_home *home, const struct template_want *w, struct template *ret,
	holt_error **reterr);

/* What the keeper of a machine is told that is nobody's box (yet): a template's or a spare's. */
int template_machine(const struct template_want *w, enum keeper_role role, const char *id,
	struct keeper_spec *ret, holt_error **reterr);

/* All that are complete, the one used last first: a fresh array. */
int template_list(
	struct holt_home *home, struct template_info **ret, size_t *ret_n, holt_error **reterr);
void template_list_free(struct template_info *list, size_t n);
/* What one points to. */
void template_info_done(struct template_info *i);

/* Remove one, and end its spares: 0, or -errno. */
int template_remove(struct holt_home *home, const char *key);

/* Remove those used longest ago until all together take at most @max_bytes; *ret_n and *ret_bytes
 * tell how many and how much went (both may be NULL). */
int template_prune(struct holt_home *home, uint64_t max_bytes, size_t *ret_n, uint64_t *ret_bytes,
	holt_error **reterr);

/* The same with the home's own budget, for who has just made one: this stays, since one that does
 * not fit would be made again for each box. */
void template_keep_budget(struct holt_home *home);

/* What killed makers left. */
void template_sweep(struct holt_home *home);

#endif
