/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SANDBOX_ENV_H
#define SANDBOX_ENV_H

#include "base/err.h"

/* -HOLT_EINVALID unless every entry of @env (or NULL) is KEY=VALUE with a POSIX name. */
int env_check(const char *const *env, holt_error **reterr);

/* Put @over on top of @under (each may be NULL), so that every key is there once: a list that
 * mem_free frees, of the strings that were given; NULL where there are none. */
int env_merge(
	const char *const *under, const char *const *over, const char ***ret, holt_error **reterr);

#endif
