/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VMM_QEMU_H
#define VMM_QEMU_H

#include "base/err.h"

/* Oldest QEMU that is known to work. */
#define QEMU_OLDEST_MAJOR 7
#define QEMU_OLDEST_MINOR 2

/* Path of the program: $HOLT_QEMU (absolute; must work if set), else the first of $PATH. Fresh
 * memory. Fails with HOLT_ENOT_FOUND. */
int qemu_find(char **ret_path, holt_error **reterr);

/* Run `QEMU --version`; *ret_version is like "7.2.22", fresh memory. HOLT_EUNSUPPORTED where it is
 * too old. Takes about 30 ms. */
int qemu_version(const char *path, char **ret_version, holt_error **reterr);

#endif
