/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_FOREGROUND_H
#define CLI_FOREGROUND_H

#include "cli.h"

/*
 * A command that has the caller's streams, signals and terminal: what run and exec share, and what
 * cp needs to leave nothing half done when it is interrupted. Main
 * fills in all but @cancel and calls foreground_run; that calls @work, on the same thread, with
 * @cancel ready for the options of every call that may take long.
 */
struct foreground {
	const char *verb;
	int interactive; /* stdin goes to the program */
	int tty; /* the program has a terminal */
	int detach; /* the program runs on without us: only signals matter here */
	int attached; /* the program was there before, and outlives a hang-up */
	int failure; /* exit status where holt fails; 0: as run and exec have it */
	uint64_t timeout_ms; /* of the program, for the text that tells of it; 0: not known */
	holt_cancel *cancel;
	/* Returns the exit code, or -1 with an error. */
	int (*work)(struct foreground *f, holt_home *home, holt_error **reterr);
};

/* Returns the exit status of holt; tells every error. */
int foreground_run(struct foreground *f);

/* For @work: connect @exec with the streams and the terminal until it ends. Returns as @work. */
int foreground_pump(struct foreground *f, holt_exec *exec, holt_error **reterr);

/* Say on stderr what is to be known besides the exit code. @timeout_ms is 0 where it is not known.
 */
void foreground_tell(const holt_exit *result, uint64_t timeout_ms);

#endif
