/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BOX_ASSETS_H
#define BOX_ASSETS_H

#include "base/err.h"

#include <stddef.h>

/* What lies beside the library: the keeper, perhaps a guest kernel; and the agent inside it. */

/* Path of holt-keeper: $HOLT_KEEPER, else beside the library, else in "holt" beside it. */
int asset_keeper(char **ret, holt_error **reterr);

/* Directories that may hold a guest kernel, a NULL-terminated list (strv_free). */
int asset_kernel_dirs(char ***ret, holt_error **reterr);

/* The agent's program: $HOLT_AGENT where set, else the one built into the library. @ret_mapped is
 * fresh memory to free, or NULL. */
int asset_agent(const void **ret, size_t *ret_len, void **ret_mapped, holt_error **reterr);

#endif
