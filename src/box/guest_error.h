/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BOX_GUEST_ERROR_H
#define BOX_GUEST_ERROR_H

#include "base/err.h"
#include "wire/wire.h"

/* A fail frame as a typed error with stage, object and hint. Returns the negative code. */
int guest_error(const struct wire_fail *m, holt_error **reterr);

#endif
