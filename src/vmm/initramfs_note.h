/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VMM_INITRAMFS_NOTE_H
#define VMM_INITRAMFS_NOTE_H

#include "vmm/kernel.h"

/*
 * What an initramfs in the cache was made from, so that the next process need not make it again to
 * see that it is the right one. The agent is not noted: who uses the archive compares it.
 */

/* Name of the archive that was made from the kernel's modules as they are now: fresh memory, or
 * NULL. Of @k only release, image and dir are needed. */
char *initramfs_note_read(const struct kernel *k, const char *cache_dir);

/* Note that the archive @name was made from @k. Where that cannot be done there is no note. */
void initramfs_note_write(const struct kernel *k, const char *cache_dir, const char *name);

#endif
