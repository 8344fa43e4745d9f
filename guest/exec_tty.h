/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GUEST_EXEC_TTY_H
#define GUEST_EXEC_TTY_H

#include "exec_stream.h"

/* Make the terminal of an exec, instead of its pipes; *ret_slave is for the program. 0 or -errno;
 * what was made until then goes with the exec. */
int exec_tty_open(struct exec *e, const struct wire_exec *req, int *ret_slave);
/* 0 means that it is not known. */
void exec_tty_resize(struct exec *e, uint16_t rows, uint16_t cols);
/* The bytes that tell the program of the end of its input; returns how many, which may be none. */
uint32_t exec_tty_eof(const struct exec *e, uint8_t ret[EXEC_TTY_EOF_MAX]);
/* Take it away from all who have it; output ends here. */
void exec_tty_hangup(struct exec *e);

/* Is there nothing to read now, and nothing under way? */
bool exec_tty_is_dry(int master);
/* How much may be there to read at most. */
uint32_t exec_tty_owed(int master);

#endif
