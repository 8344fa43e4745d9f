/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include "holt.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/*
 * The command line is a table of verbs; each is one file that parses its options and makes a few
 * calls of libholt. It knows nothing of the library's inside.
 */
enum cli_status {
	CLI_OK = 0,
	CLI_FAILED = 1, /* holt could not do it */
	CLI_USAGE = 2, /* the command line is wrong */
	CLI_RUN_FAILED =
		125 /* either of them, for run and exec: 1 and 2 may be the program's own */
};

enum cli_group { CLI_RUNNING, CLI_BOXES, CLI_LOOKING, CLI_HOST };

struct cli_verb {
	const char *name;
	const char *summary;
	const char *help; /* the whole text of --help */
	int (*main)(int argc, char **argv);
	enum cli_group group; /* where the list of verbs has it */
	int has_subverbs; /* the first argument is a verb of its own */
};

extern const struct cli_verb verb_config;
extern const struct cli_verb verb_cp;
extern const struct cli_verb verb_doctor;
extern const struct cli_verb verb_events;
extern const struct cli_verb verb_exec;
extern const struct cli_verb verb_image;
extern const struct cli_verb verb_inspect;
extern const struct cli_verb verb_kill;
extern const struct cli_verb verb_logs;
extern const struct cli_verb verb_pause;
extern const struct cli_verb verb_port;
extern const struct cli_verb verb_prune;
extern const struct cli_verb verb_ps;
extern const struct cli_verb verb_pull;
extern const struct cli_verb verb_rename;
extern const struct cli_verb verb_restart;
extern const struct cli_verb verb_rm;
extern const struct cli_verb verb_run;
extern const struct cli_verb verb_sandbox;
extern const struct cli_verb verb_start;
extern const struct cli_verb verb_stats;
extern const struct cli_verb verb_stop;
extern const struct cli_verb verb_system;
extern const struct cli_verb verb_template;
extern const struct cli_verb verb_unpause;
extern const struct cli_verb verb_version;
extern const struct cli_verb verb_wait;

/* Print "holt: stage: message", the object where the message lacks it, and the hint, to stderr.
 * Frees @error. Returns @status. */
int cli_error(int status, holt_error *error);

/* Print "holt VERB: text" and where to look, to stderr. Returns @status. */
int cli_usage(int status, const char *verb, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* cli_usage for what getopt_long refused: @c is '?' or ':'. */
int cli_bad_option(int status, const char *verb, int c, char **argv);
/* The same, with @note behind an unknown option. */
int cli_bad_option_with(int status, const char *verb, int c, char **argv, const char *note);

/* From now on nothing is told of what the user waits for. */
void cli_be_quiet(void);

/* Call @hide in front of each message that the library has for the user, on whatever thread, so
 * that it can take away what is drawn on stderr; NULL: nothing any more. */
void cli_before_message(void (*hide)(void));

/* Flush stdout and tell a failure to write. Returns CLI_OK or CLI_FAILED. */
int cli_finish(void);

/* cli_finish for a verb whose work ended with @status: the first failure counts. */
int cli_finish_with(int status);

/* Numbers as users write them; return 0 or -1. "512m", "2g", "1048576": bytes, at least 1. */
int cli_parse_bytes(const char *text, uint64_t *ret);
/* The same of memory, in whole MiB, at least 1. */
int cli_parse_mib(const char *text, uint32_t *ret);
/* "10", "1.5", "500ms", "90s", "2m", "1h": milliseconds, at least 1. */
int cli_parse_duration_ms(const char *text, uint64_t *ret);
/* The same, but "0" is HOLT_FOREVER. */
int cli_parse_timeout_ms(const char *text, uint64_t *ret);
/* The same, but "0" is HOLT_NO_GRACE. */
int cli_parse_grace_ms(const char *text, uint64_t *ret);
int cli_parse_count(const char *text, uint32_t *ret);
/* "15", "TERM", "SIGTERM", "RTMIN+3": 1 to 64. */
int cli_parse_signal(const char *text, int *ret);
/* "2026-11-30T12:00:00.5Z", seconds since 1970, or a duration with its unit, meaning so long ago:
 * nanoseconds since 1970. */
int cli_parse_time_ns(const char *text, uint64_t *ret);

enum cli_escape_flags {
	CLI_ESCAPE_LINES = 1 << 0, /* keep newline and tab, drop a return in front of a newline */
	CLI_ESCAPE_MORE = 1 << 1 /* more follows: leave what cannot be judged without it */
};

/* Write @src to @dst, NUL-terminated, with "\xHH" for every byte that is no printable UTF-8, until
 * either is used up. Whatever comes from a box, an image or a user goes through this on its way to
 * a terminal. Returns the length; @ret_used, which may be NULL, receives how much of @src it is. */
size_t cli_escape(
	char *dst, size_t cap, const void *src, size_t len, unsigned flags, size_t *ret_used);
size_t cli_escape_str(char *dst, size_t cap, const char *src);

/* The character at @text of @left bytes, 1 or more. Returns how many bytes it has; 0 for no UTF-8,
 * -1 where the rest of it is missing. */
int cli_decode(const void *text, size_t left, uint32_t *ret_code);
int cli_is_printable(uint32_t code);

/* Columns that an escaped text takes on a terminal. */
size_t cli_columns(const char *text);
/* Cut an escaped text to @columns, the last of which is then an ellipsis. */
void cli_cut(char *text, size_t cap, size_t columns);

/* "3 minutes", "About an hour". */
void cli_format_age(char *dst, size_t cap, int64_t seconds);
/* "1.5 GB" with @base 1000, "1.5 GiB" with 1024. */
void cli_format_bytes(char *dst, size_t cap, uint64_t bytes, unsigned base);
/* "2026-11-30T12:00:00.123456789Z", of nanoseconds since 1970. */
void cli_format_time(char *dst, size_t cap, int64_t ns);
uint64_t cli_now_ns(void);

/* Print JSON that is known to be well-formed; what a terminal could mistake for a command is
 * written as \u00HH. With @pretty one member a line, indented by @depth and more. */
void cli_json_print(FILE *out, const char *json, int pretty, int depth);
/* What becomes of bytes that are no UTF-8. A path holds no NUL, so the former can be turned back.
 */
enum cli_json_bytes {
	CLI_JSON_PATH, /* each is "\u0000" and two hex digits */
	CLI_JSON_TEXT /* each is U+FFFD */
};
/* Print a string; as above with what is not printable. */
void cli_json_string(FILE *out, const void *data, size_t len, enum cli_json_bytes rule);
/* The text of a member of an object that has no other inside, without quotes; escapes stay as they
 * are. Returns its length, or 0 with *@ret "" where there is none. */
size_t cli_json_member(const char *json, const char *name, const char **ret);

#define CLI_TABLE_COLUMNS 12

/* Rows of escaped text, printed in columns that are as wide as they have to be. */
struct cli_table {
	FILE *rows;
	char *text;
	size_t len;
	size_t columns;
	size_t widths[CLI_TABLE_COLUMNS];
};

/* Rows are arrays of as many strings as there are @heads (which end with NULL). What goes wrong is
 * told by cli_table_close. */
void cli_table_open(struct cli_table *t, const char *const *heads);
void cli_table_row(struct cli_table *t, const char *const *cells);
/* Print all to stdout, each line with @line_end, or nothing where that is NULL. Returns CLI_OK or
 * CLI_FAILED. */
int cli_table_close(struct cli_table *t, const char *line_end);

/* Do one thing to one box. */
typedef int (*cli_box_fn)(holt_box *box, const void *user, holt_error **reterr);

/* Do it to each box in @names, which ends with NULL; print the name as it was given after a
 * success unless CLI_EACH_QUIET. Returns CLI_OK, or CLI_FAILED where any of them failed; CLI_USAGE
 * where there is no name. */
enum cli_each_flags {
	CLI_EACH_QUIET = 1 << 0,
	CLI_EACH_MAY_MISS = 1 << 1 /* a box that is not there is told, and is no failure */
};
int cli_each_box(const char *verb, char **names, cli_box_fn act, const void *user, unsigned flags);

/* What a verb without options has to do before its arguments. */
int cli_no_options(const char *verb, int argc, char **argv);

/* Open the home, find one box. Returns CLI_OK, or CLI_FAILED after telling why. */
int cli_open_box(const char *name, holt_home **ret_home, holt_box **ret_box);
void cli_close_box(holt_home *home, holt_box *box);

#endif
