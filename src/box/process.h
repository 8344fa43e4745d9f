/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BOX_PROCESS_H
#define BOX_PROCESS_H

#include "base/err.h"
#include "image/images.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * What is run, made from an image's configuration and the caller's wishes by docker's rules:
 * Entrypoint and Cmd, Env with the caller's on top, WorkingDir, User.
 */
struct process {
	char **argv;
	char **env;
	char *cwd; /* "" = "/" */
	char *user; /* "" = root */
	bool stdin_stream;
};

struct process_wish {
	const char *const *argv;
	const char *const *env;
	const char *cwd;
	const char *user;
	const char *const *entrypoint;
	bool image_command; /* apply Entrypoint and Cmd */
	bool stdin_stream;
};

int process_build(const struct image_config *image, const char *hostname,
	const struct process_wish *wish, struct process *ret, holt_error **reterr);
void process_done(struct process *p);

#endif
