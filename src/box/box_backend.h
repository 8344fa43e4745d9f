/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BOX_BOX_BACKEND_H
#define BOX_BOX_BACKEND_H

#include "box/lifecycle.h"
#include "holt/sys/backend.h"

/*
 * A box as a backend of the sandbox contract: commands are execs, everything about files goes
 * through the agent's built-in "files" (box_files.h).
 */
extern const holt_backend box_backend;

/* Its @self. @user and @cwd as in holt_sandbox_options; NULL is what the box's program has, else
 * the image. Connects to nothing yet. Freed by box_backend.close. */
int box_backend_new(
	struct holt_box *box, const char *user, const char *cwd, void **ret, holt_error **reterr);
/* Once it is closed: for who keeps the box for it. */
void box_backend_on_close(void *self, void (*closed)(void *user), void *user);

#endif
