/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BOX_REQUEST_H
#define BOX_REQUEST_H

#include "box/session.h"

/*
 * One question to the keeper or the guest and its one answer. @msg's stream is chosen here. Returns
 * 0 with the answer in *ret (may be NULL; it holds no bytes), the typed error of a fail frame, why
 * the box has ended, HOLT_ETIMEOUT or HOLT_ECANCELLED.
 */
int session_ask(struct session *s, const struct wire_msg *msg, uint64_t timeout_ms,
	holt_cancel *cancel, struct wire_msg *ret, holt_error **reterr);

/* Send what gets no answer of its own. */
int session_tell(struct session *s, const struct wire_msg *msg, holt_error **reterr);

#endif
