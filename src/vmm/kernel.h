/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VMM_KERNEL_H
#define VMM_KERNEL_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

/*
 * The guest kernel: where it is and which modules it needs, and the initramfs made from these and
 * the agent. A kernel directory looks like an unpacked distribution package: boot/vmlinuz-RELEASE
 * and lib/modules/RELEASE (or usr/lib/modules/RELEASE).
 * Search order: $HOLT_KERNEL (a vmlinuz file, or such a directory; must work if set), the
 * directories @near (what `make install` copied beside the library, or `make setup` unpacked beside
 * the build), the newest usable one under /boot with /lib/modules.
 */
struct kernel {
	char *release;
	char *image; /* path of vmlinuz */
	char *dir; /* of its modules */
	char **modules; /* paths of the .ko files in load order; NULL where the cache has an
			   initramfs of them */
	size_t n_early; /* so many of them are loaded before the guest says hello */
	bool strip; /* its modules load without their signatures, which is quicker */
};

/* @cache_dir may be NULL; the modules are always resolved then. */
int kernel_find(
	const char *const *near, const char *cache_dir, struct kernel *ret, holt_error **reterr);
/* The same, but only what @path names will do: a vmlinuz file, or a directory as above. */
int kernel_find_at(
	const char *path, const char *cache_dir, struct kernel *ret, holt_error **reterr);
/* Resolve the modules of one that has none. */
int kernel_complete(struct kernel *k, holt_error **reterr);
void kernel_done(struct kernel *k);

/* Open the kernel for the machine: the image itself or, where that saves the guest the unpacking,
 * its unpacked form out of @cache_dir (made when missing, as below). *ret_fd is open for reading.
 */
int kernel_open(const struct kernel *k, const char *cache_dir, int *ret_fd, holt_error **reterr);

/* Open an initramfs with @agent as /init and the modules of @k, which is completed where that is
 * needed, building it into @cache_dir (named by
 * the hash of its content, published atomically, any number of processes at once) where it is not
 * there yet. *ret_fd is open for reading. */
int initramfs_open(struct kernel *k, const void *agent, size_t agent_len, const char *cache_dir,
	int *ret_fd, holt_error **reterr);

/* Held while a file is put into the cache, so that it is made once: templates know their kernel by
 * the file that all machines were booted from. Makes the directory; a descriptor, or -errno. */
int kernel_cache_lock(const char *cache_dir);

/* Held while a file is put into the cache, so that it is made once: templates know their kernel by
 * the file that all machines were booted from. Makes the directory; a descriptor, or -errno. */
int kernel_cache_lock(const char *cache_dir);

#endif
