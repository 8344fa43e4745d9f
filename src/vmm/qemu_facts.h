/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VMM_QEMU_FACTS_H
#define VMM_QEMU_FACTS_H

#include <stdbool.h>

/*
 * Does the QEMU that qemu_find finds have the option -run-with, in whose favour later versions drop
 * -chroot? Asked of the program once (30 ms), then known in @cache_dir for as long as the file is
 * the same; NULL: no cache. What cannot be found out is no, and is asked again.
 */
bool qemu_has_run_with(const char *cache_dir);

#endif
