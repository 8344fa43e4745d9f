/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOLT_SEARCH_H
#define HOLT_SEARCH_H

/*
 * Finding files and lines in a sandbox. Both search beneath a root: a directory, a symbolic link to
 * one, or for grep a single file. Below the root no symbolic link is followed or found. Names that
 * agents do not want to see (.git, node_modules, build, *.log ...: holt_sandbox_ignored) are left
 * out with all beneath them, unless they are the root or above it, or HOLT_GLOB_ALL or
 * HOLT_GREP_ALL asks for them. A missing root is an error, never an empty result; so is a directory
 * that cannot be read, where it has to be looked into: not one that is left out, nor one beneath
 * which the glob pattern matches nothing. What the kernel makes up (/proc, /sys) is searched only
 * where the root is in it.
 *
 * Glob patterns. Without '/': for the name of a file, at any depth. With '/': for its path from the
 * root, segment by segment; "**" as a whole segment stands for any number of segments, also none.
 * In a segment: '*', '?', [seq] and [!seq]; a leading dot is not special, there is no escape
 * character, an unclosed '[' is itself. A character is one of UTF-8, or a stray byte. Case counts.
 * "." segments and double or last slashes are dropped; a leading slash never matches.
 *
 * Grep patterns are regular expressions of PCRE2, matched against one line at a time. A line ends
 * with LF; CRs in front of that, or at the end of the file, are not part of it. Letters are
 * Unicode's, files are taken as UTF-8, and bytes that are not match nothing but what is literally
 * searched for. A newline in a pattern separates alternatives. Of long patterns PCRE2 takes some
 * 30,000 characters, of a repetition 65,535.
 *
 * What is valid for Python's re means the same, also (?P<name>...), \u4e00, \U0001F600, {,3}, and
 * \A and \Z, the ends of the line, but for this. Refused are (?a), (?u), \N{name}, halves of
 * surrogate pairs (\ud83d), and classes like [.x.] and [=x=]. [[:digit:]] and the like are POSIX
 * classes, \v is every vertical white space, \s does not hold \x1c to \x1f, \B holds in an empty
 * line, and where case does not count the dotless and the dotted I of Turkish are no other i.
 * PCRE2's own \h, \K, \R, \Q...\E, \p{...} and (?<name>...) are known besides; \C is refused.
 *
 * A file with a NUL in its first 8,192 bytes is binary and not searched; of a text file with a line
 * of more than HOLT_GREP_LINE_BYTES_MAX bytes the rest is not searched. Both are counted as
 * skipped.
 */

#include "sandbox.h"
#include "sys/backend.h" /* enum holt_glob_flags, holt_grep_flags */

#ifdef __cplusplus
extern "C" {
#endif

#define HOLT_GLOB_RESULTS_DEFAULT 200u
#define HOLT_GREP_RESULTS_DEFAULT 100u
#define HOLT_RESULTS_MAX          1000000u
#define HOLT_NO_RESULTS           UINT32_MAX /* a maximum of none, where 0 is the default */
#define HOLT_PATTERN_BYTES_MAX    65535u
#define HOLT_GREP_LINE_BYTES_MAX  8388608u
#define HOLT_GREP_LINE_CHARS      200u /* longer lines are handed over as 197 and "..." */

typedef struct holt_glob_options {
	size_t struct_size; /* set by HOLT_GLOB_OPTIONS_INIT */
	uint32_t flags; /* enum holt_glob_flags */
	uint32_t max_results; /* up to HOLT_RESULTS_MAX; 0: 200; HOLT_NO_RESULTS */
	uint64_t timeout_ms; /* of the whole call; 0: 600,000; HOLT_FOREVER */
	holt_cancel *cancel; /* ends the call with HOLT_ECANCELLED; may be NULL */
} holt_glob_options;

#define HOLT_GLOB_OPTIONS_INIT                           \
	{                                                \
		sizeof(holt_glob_options), 0, 0, 0, NULL \
	}

typedef struct holt_grep_options {
	size_t struct_size; /* set by HOLT_GREP_OPTIONS_INIT */
	uint32_t flags; /* enum holt_grep_flags */
	uint32_t max_results; /* up to HOLT_RESULTS_MAX; 0: 100; HOLT_NO_RESULTS */
	const char *glob; /* only files that holt_sandbox_glob would find with it (a root that is a
			     file: by its name); NULL: all */
	uint64_t timeout_ms; /* of the whole call; 0: 600,000; HOLT_FOREVER */
	holt_cancel *cancel; /* ends the call with HOLT_ECANCELLED; may be NULL */
} holt_grep_options;

#define HOLT_GREP_OPTIONS_INIT                                 \
	{                                                      \
		sizeof(holt_grep_options), 0, 0, NULL, 0, NULL \
	}

/**
 * holt_sandbox_glob - find files by their path.
 * @sandbox: a sandbox; must not be NULL.
 * @root: a directory; one that is a regular file has nothing beneath it; must not be NULL.
 * @pattern: see above; not empty and not "."; must not be NULL.
 * @options: may be NULL.
 * @entry: gets every regular file, and directory if asked for, in no particular order, never the
 * root; must not be NULL.
 * @user: handed to @entry; may be NULL.
 * @ret: filled in as far as its struct_size goes; may be NULL.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * Returns: 0; -HOLT_EINVALID for a bad path, pattern or option; -HOLT_EDENIED for a path with ".."
 * in it or where a directory cannot be read; -HOLT_ENOT_FOUND for a missing root; -HOLT_ELIMIT for
 * a tree that is too deep; -HOLT_ETIMEOUT, -HOLT_ECANCELLED, -HOLT_ECLOSED, -HOLT_EGUEST_LOST,
 * -HOLT_EBUSY, -HOLT_EUNAVAILABLE, -HOLT_EIO, -HOLT_ENO_MEMORY. What @entry got before a failure
 * stays true.
 * Ownership: nothing changes hands.
 * Threads: any thread.
 * Blocks: at most options.timeout_ms.
 * Since: 0.1
 */
HOLT_API int holt_sandbox_glob(holt_sandbox *sandbox, const char *root, const char *pattern,
	const holt_glob_options *options, holt_entry_fn entry, void *user, holt_search_result *ret,
	holt_error **reterr);

/**
 * holt_sandbox_grep - find lines by their text.
 * @sandbox: a sandbox; must not be NULL.
 * @root: a directory or a regular file; must not be NULL.
 * @pattern: 1 to HOLT_PATTERN_BYTES_MAX bytes; case does not count unless
 * HOLT_GREP_CASE_SENSITIVE; must not be NULL.
 * @options: may be NULL.
 * @match: gets every line that matches, once; must not be NULL.
 * @user: handed to @match; may be NULL.
 * @ret: filled in as far as its struct_size goes; may be NULL.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * Returns: as holt_sandbox_glob; -HOLT_EINVALID for a pattern that cannot be compiled;
 * -HOLT_EDENIED also where a file cannot be read; -HOLT_ELIMIT for a pattern that needs too many
 * steps on some line.
 * Ownership: nothing changes hands.
 * Threads: any thread.
 * Blocks: at most options.timeout_ms.
 * Since: 0.1
 */
HOLT_API int holt_sandbox_grep(holt_sandbox *sandbox, const char *root, const char *pattern,
	const holt_grep_options *options, holt_match_fn match, void *user, holt_search_result *ret,
	holt_error **reterr);

/**
 * holt_sandbox_ignored - tell the names that listing and searching leave out.
 *
 * Returns: patterns for one segment of a path, NULL-terminated.
 * Ownership: static.
 * Threads: any thread.
 * Blocks: never.
 * Since: 0.1
 */
HOLT_API const char *const *holt_sandbox_ignored(void);

#ifdef __cplusplus
}
#endif
#endif
