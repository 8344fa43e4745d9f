/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BOX_BOX_COPY_H
#define BOX_BOX_COPY_H

#include "base/cancel.h"
#include "box/session.h"

/* Copying between host and box. Public face, with the rules: holt/files.h. */

/* As enum holt_copy_flags. */
enum copy_flags { COPY_FOLLOW = 1 << 0, COPY_ARCHIVE = 1 << 1 };

int copy_in(struct session *s, const char *source, const char *target, uint32_t flags,
	holt_cancel *cancel, holt_error **reterr);
int copy_out(struct session *s, const char *source, const char *target, uint32_t flags,
	holt_cancel *cancel, holt_error **reterr);
int copy_in_tar(struct session *s, int fd, const char *target, uint32_t flags, holt_cancel *cancel,
	holt_error **reterr);
int copy_out_tar(struct session *s, const char *source, int fd, uint32_t flags, holt_cancel *cancel,
	holt_error **reterr);

#endif
