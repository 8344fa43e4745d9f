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

/* -HOLT_EINVALID for a flag that is not @known. */
int api_check_flags(uint32_t flags, uint32_t known, holt_error **reterr);

/* holt_call_options, read and checked. */
int api_call_read(const holt_call_options *options, uint32_t known_flags, holt_call *ret,
	uint32_t *ret_flags, holt_error **reterr);

#endif
