/* SPDX-License-Identifier: Apache-2.0 */
#ifndef API_SANDBOX_OPTIONS_H
#define API_SANDBOX_OPTIONS_H

#include "holt/sandbox.h"
#include "holt/sys/backend.h"

#include "base/err.h"

/* What the calls of a sandbox check alike. */

/* @r, with the stage of an error named. */
int api_in_options(int r, holt_error **reterr);

/* 0 is the default of ten minutes. */
holt_call api_call(uint64_t timeout_ms, holt_cancel *cancel);

/* holt_sandbox_options, read and checked, and a sandbox made with them. */
int api_sandbox_read(
	const holt_sandbox_options *options, holt_sandbox_options *ret, holt_error **reterr);
int api_sandbox_make(const holt_backend *backend, void *self, const holt_sandbox_options *options,
	holt_sandbox **ret, holt_error **reterr);

/* -HOLT_EINVALID for a flag that is not @known. */
int api_check_flags(uint32_t flags, uint32_t known, holt_error **reterr);

/* holt_call_options, read and checked. */
int api_call_read(const holt_call_options *options, uint32_t known_flags, holt_call *ret,
	uint32_t *ret_flags, holt_error **reterr);

#endif
