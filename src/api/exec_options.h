/* SPDX-License-Identifier: Apache-2.0 */
#ifndef API_EXEC_OPTIONS_H
#define API_EXEC_OPTIONS_H

#include "holt/exec.h"

#include "box/process.h"

/* holt_exec_options, read and checked, in the words of src/box. */
struct exec_wish {
	struct process_wish wish;
	struct process limits; /* only its time-out, terminal, pids_max and replay */
	holt_cancel *cancel;
};

int exec_wish_read(const holt_exec_options *options, struct exec_wish *ret, holt_error **reterr);

#endif
