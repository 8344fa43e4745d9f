/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BOX_BOX_BUILTIN_H
#define BOX_BOX_BUILTIN_H

#include "box/box_exec.h"

/*
 * Functions of the agent that run like programs: streams, credit and cancellation are
 * those of an exec. One that fails exits with 1 and says why in one line on stderr: errno, stage,
 * object and text, with tabs between them.
 */

struct box_builtin {
	const char *const *argv; /* NULL-terminated; the first is the function's name */
	const char *user; /* "" = root */
	const char *cwd;
	uint32_t flags; /* WIRE_EXEC_ besides BUILTIN */
	uint64_t start_ms; /* as of exec_start_within */
};
int box_builtin_start_as(struct session *s, const struct box_builtin *b, holt_cancel *cancel,
	struct holt_exec **ret, holt_error **reterr);
/* As root in "/". */
int box_builtin_start(struct session *s, const char *const *argv, bool stdin_stream,
	holt_cancel *cancel, struct holt_exec **ret, holt_error **reterr);

/* Wait for its end: 0, or its failure as a typed error. Its stdout must have been read. */
int box_builtin_end(struct holt_exec *e, holt_error **reterr);

/* The same, with descriptors for its streams; -1 for none. */
int box_builtin_pump(struct holt_exec *e, int stdin_fd, int stdout_fd, holt_error **reterr);

/* Its failure as an error: @result and the bytes of its stderr. Exposed for the tests. */
int box_builtin_failure(
	const struct exec_result *result, const char *line, size_t len, holt_error **reterr);

#endif
