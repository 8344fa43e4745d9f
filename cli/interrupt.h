/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_INTERRUPT_H
#define CLI_INTERRUPT_H

#include "holt.h"

/*
 * For verbs that leave nothing half done when they are interrupted: from interrupt_watch on SIGINT,
 * SIGTERM and SIGHUP (unless it is ignored) fire a cancel token; the second one ends the process at
 * once. Call it before any other thread exists.
 */
int interrupt_watch(holt_cancel **ret, holt_error **reterr);
/* The signal that came, or 0. */
int interrupt_signal(void);

#endif
