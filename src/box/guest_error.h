/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BOX_GUEST_ERROR_H
#define BOX_GUEST_ERROR_H

#include "base/err.h"
#include "wire/wire.h"

/* A fail frame as a typed error with stage, object and hint. Returns the negative code. */
int guest_error(const struct wire_fail *m, holt_error **reterr);

/* The same for a file_fail frame, answer to the request @op. */
int guest_file_error(const struct wire_file_fail *m, uint16_t op, holt_error **reterr);

/* The code that stands for an errno of the guest, where a path was the matter. */
int guest_errno_code(uint64_t errnum);

/* Foreign bytes as text that is safe for a terminal, in fresh memory; NULL without memory. */
char *guest_text(struct wire_bytes b);

#endif
