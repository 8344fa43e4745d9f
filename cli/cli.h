/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include "holt.h"

#include <stddef.h>
#include <stdint.h>

/*
 * The command line is a table of verbs; each is one file that parses its options and makes a few
 * calls of libholt. It knows nothing of the library's inside.
 */
enum cli_status {
	CLI_OK = 0,
	CLI_FAILED = 1, /* holt could not do it */
	CLI_USAGE = 2, /* the command line is wrong */
	CLI_RUN_FAILED = 125 /* either of them, for run: 1 and 2 may be the program's own */
};

struct cli_verb {
	const char *name;
	const char *summary;
	const char *help; /* the whole text of --help */
	int (*main)(int argc, char **argv);
};

extern const struct cli_verb verb_doctor;
extern const struct cli_verb verb_image;
extern const struct cli_verb verb_run;
extern const struct cli_verb verb_version;

/* Print "holt: stage: message", the object where the message lacks it, and the hint, to stderr.
 * Frees
 * @error. Returns @status. */
int cli_error(int status, holt_error *error);

/* Print "holt VERB: text" and where to look, to stderr. Returns @status. */
int cli_usage(int status, const char *verb, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Flush stdout and tell a failure to write. Returns CLI_OK or CLI_FAILED. */
int cli_finish(void);

/* Numbers as users write them; return 0 or -1. "512m", "2g", "1048576": bytes, at least 1. */
int cli_parse_bytes(const char *text, uint64_t *ret);
/* "10", "1.5", "90s", "2m", "1h": milliseconds, at least 1. */
int cli_parse_duration_ms(const char *text, uint64_t *ret);
int cli_parse_count(const char *text, uint32_t *ret);

#endif
