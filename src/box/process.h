/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BOX_PROCESS_H
#define BOX_PROCESS_H

#include "base/err.h"
#include "image/images.h"
#include "wire/wire.h"

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
	uint32_t flags; /* WIRE_EXEC_ */
	uint64_t timeout_ms; /* 0 = none */
	uint16_t rows; /* of the terminal */
	uint16_t cols;
	uint32_t pids_max; /* 0 = the agent's default */
	uint32_t replay; /* bytes of output kept, 0 = the keeper's default */
};

struct process_wish {
	const char *const *argv;
	const char *const *env;
	const char *cwd;
	const char *user;
	const char *const *entrypoint;
	bool image_command; /* apply Entrypoint and Cmd */
	uint32_t flags; /* WIRE_EXEC_ */
};

int process_build(const struct image_config *image, const char *hostname,
	const struct process_wish *wish, struct process *ret, holt_error **reterr);
void process_done(struct process *p);

#endif
