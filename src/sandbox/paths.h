/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SANDBOX_PATHS_H
#define SANDBOX_PATHS_H

#include "base/err.h"

#include <stdbool.h>

/* -HOLT_EINVALID for a path that is empty or too long, -HOLT_EDENIED for one with a segment "..",
 * whether slashes or backslashes are around it. Anything else is fine and stays as it is. */
int path_check(const char *path, holt_error **reterr);

/* The directory that downloads come from: absolute, and as above. */
int path_check_user_data(const char *path, holt_error **reterr);

/* path_check, and -HOLT_EDENIED for what is not beneath @user_data. Slashes in front do not matter:
 * *ret is the absolute path, which mem_free frees. */
int path_of_download(const char *path, const char *user_data, char **ret, holt_error **reterr);

/* -HOLT_EINVALID for a glob pattern that is empty, too long, or nothing but "." and slashes. */
int glob_pattern_check(const char *pattern, holt_error **reterr);

#endif
