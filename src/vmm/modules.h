/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VMM_MODULES_H
#define VMM_MODULES_H

#include "base/err.h"

#include <stddef.h>

/* Modules that one guest kernel may need, dependencies included; today it is a dozen. */
#define MODULES_MAX 64
/* Largest module file that is read. */
#define MODULE_BYTES_MAX (16u * 1024u * 1024u)

/*
 * The modules that a guest needs from @dir (".../lib/modules/RELEASE"), with all that they depend
 * on, in load order: paths in a fresh list (strv_free). Drivers that are built into the kernel are
 * left out. The first *ret_n_early of them are needed for the start; the rest may load behind it,
 * which saves a tenth of the boot under emulation. Fails with HOLT_EUNSUPPORTED where one is
 * missing, compressed, or not for x86_64.
 */
int modules_resolve(const char *dir, char ***ret_paths, size_t *ret_n_early, holt_error **reterr);

#endif
