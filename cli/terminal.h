/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_TERMINAL_H
#define CLI_TERMINAL_H

#include <stdint.h>

/*
 * The caller's terminal while a program in a box has it: raw, so that every byte, also those that
 * make signals, is the program's. One terminal per process; one thread at a time.
 */

/* Make the terminal at stdin raw until terminal_restore or the end of the process, whatever ends it
 * short of SIGKILL. A second call makes it raw again. Returns 0, or -1 with errno. */
int terminal_raw(void);

/* Give it back as it was; nothing where it is not raw. */
void terminal_restore(void);

/* The size of the terminal that is stdout, else stdin, else stderr. Returns 0, or -1 for none. */
int terminal_size(uint16_t *ret_rows, uint16_t *ret_cols);

#endif
