/* SPDX-License-Identifier: Apache-2.0 */
/* The options of holt sandbox: one table of all, of which each verb offers some. They may stand
 * anywhere in front of "--". */
#include "sandbox_verbs.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

/* ---- values: 0, or -1 for one that is none ---- */

static int take_timeout(struct sandbox_args *a, const char *text)
{
	return cli_parse_timeout_ms(text, &a->timeout_ms);
}

/* 0 is @none, the library's word for it: its 0 is the default. */
static int take_number(const char *text, uint32_t max, uint32_t none, uint32_t *ret)
{
	uint32_t number = 0;

	if (strcmp(text, "0") != 0 && (cli_parse_count(text, &number) < 0 || number > max))
		return -1;
	*ret = number ? number : none;
	return 0;
}

static int take_depth(struct sandbox_args *a, const char *text)
{
	return take_number(text, HOLT_DEPTH_MAX, HOLT_LIST_DEPTH_ROOT, &a->depth);
}

/* The root is an entry, so there is no list of none. */
static int take_entries(struct sandbox_args *a, const char *text)
{
	return take_number(text, HOLT_LIST_ENTRIES_MAX, 0, &a->max) < 0 || !a->max ? -1 : 0;
}

static int take_results(struct sandbox_args *a, const char *text)
{
	return take_number(text, HOLT_RESULTS_MAX, HOLT_NO_RESULTS, &a->max);
}

/* A line, or nothing. Returns what follows it. */
static const char *parse_line(const char *text, int64_t *ret)
{
	char *end = NULL;

	errno = 0;
	const long long line = strtoll(text, &end, 10);
	if (end != text && errno == 0)
		*ret = line;
	return errno ? "?" : end;
}

/* "2:5", "2:", ":5", "3". Numbers that are too small mean what Python's users of the contract
 * expect: the first line, or nothing. */
static int take_lines(struct sandbox_args *a, const char *text)
{
	const int64_t unset = INT64_MIN;
	int64_t last = unset;

	if (text[strspn(text, "0123456789:-")] || !*text)
		return -1;
	a->first_line = 1;
	const char *rest = parse_line(text, &a->first_line);
	if (*rest == 0)
		last = a->first_line;
	else if (*rest == ':' && strcmp(text, ":") != 0)
		rest = parse_line(rest + 1, &last);
	if (*rest)
		return -1;
	a->last_line = last == unset ? 0 : last < 1 ? -1 : last;
	a->flags |= HOLT_READ_LINES;
	return 0;
}

static int take_glob(struct sandbox_args *a, const char *text)
{
	a->glob = text;
	return *text ? 0 : -1;
}

static int take_user(struct sandbox_args *a, const char *text)
{
	a->open.user = text;
	return *text ? 0 : -1;
}

static int take_user_data(struct sandbox_args *a, const char *text)
{
	a->open.user_data = text;
	return *text == '/' ? 0 : -1;
}

static int take_workdir(struct sandbox_args *a, const char *text)
{
	a->open.cwd = text;
	return *text == '/' ? 0 : -1;
}

static int take_config(struct sandbox_args *a, const char *text)
{
	a->pool.config = text;
	return *text ? 0 : -1;
}

static int take_image(struct sandbox_args *a, const char *text)
{
	a->pool.image = text;
	return *text ? 0 : -1;
}

static int take_pool(struct sandbox_args *a, const char *text)
{
	a->pool.pool = text;
	return *text ? 0 : -1;
}

static int take_pull(struct sandbox_args *a, const char *text)
{
	a->pool.pull = text;
	return strcmp(text, "missing") == 0 || strcmp(text, "always") == 0 ||
			       strcmp(text, "never") == 0
		       ? 0
		       : -1;
}

/* The empty user is a user, too. */
static int take_for(struct sandbox_args *a, const char *text)
{
	a->for_user = text;
	return 0;
}

static int take_thread(struct sandbox_args *a, const char *text)
{
	a->thread = text;
	return 0;
}

static int take_ttl(struct sandbox_args *a, const char *text)
{
	return cli_parse_duration_ms(text, &a->ttl_ms) < 0 || a->ttl_ms > HOLT_LEASE_MS_MAX ? -1
											    : 0;
}

/* ---- the options ---- */

#define LONG_ONLY 256 /* and the row's number, where there is no letter */

static const struct row {
	uint32_t option; /* enum sandbox_option */
	const char *name;
	char letter; /* 0: none */
	uint32_t flag; /* that it sets in the call's */
	int (*take)(struct sandbox_args *a, const char *text); /* NULL: it has no value */
	const char *wanted; /* what the value is not, in an error */
} rows[] = {
	{SANDBOX_ALL, "all", 'a', 0, NULL, NULL},
	{SANDBOX_CASE_SENSITIVE, "case-sensitive", 0, HOLT_GREP_CASE_SENSITIVE, NULL, NULL},
	{SANDBOX_CONFIG, "config", 0, 0, take_config, "a file"},
	{SANDBOX_DEPTH, "depth", 0, 0, take_depth, "a whole number up to 1000"},
	{SANDBOX_DIRS, "dirs", 0, HOLT_GLOB_DIRECTORIES, NULL, NULL},
	{SANDBOX_EXCLUSIVE, "exclusive", 0, HOLT_WRITE_EXCLUSIVE, NULL, NULL},
	{SANDBOX_FOR, "for", 0, 0, take_for, "a user"},
	{SANDBOX_FORCE, "force", 'f', HOLT_REMOVE_FORCE, NULL, NULL},
	{SANDBOX_GLOB, "glob", 0, 0, take_glob, "a pattern"},
	{SANDBOX_IMAGE, "image", 0, 0, take_image, "an image"},
	{SANDBOX_JSON, "json", 0, 0, NULL, NULL},
	{SANDBOX_LINES, "lines", 0, 0, take_lines, "lines such as 2:5, 2:, :5 or 3"},
	{SANDBOX_LITERAL, "literal", 0, HOLT_GREP_LITERAL, NULL, NULL},
	{SANDBOX_MAX_ENTRIES, "max-entries", 0, 0, take_entries, "a number from 1 to 1000000"},
	{SANDBOX_MAX_RESULTS, "max-results", 0, 0, take_results, "a number up to 1000000"},
	{SANDBOX_NO_CLOBBER, "no-clobber", 'n', HOLT_MOVE_NOREPLACE, NULL, NULL},
	{SANDBOX_NO_FOLLOW, "no-follow", 'P', HOLT_STAT_NOFOLLOW, NULL, NULL},
	{SANDBOX_NULL, "null", '0', 0, NULL, NULL},
	{SANDBOX_PARENTS, "parents", 'p', HOLT_MKDIR_PARENTS, NULL, NULL},
	{SANDBOX_POOL, "pool", 0, 0, take_pool, "the name of a pool"},
	{SANDBOX_PULL, "pull", 0, 0, take_pull, "missing, always or never"},
	{SANDBOX_QUIET, "quiet", 'q', 0, NULL, NULL},
	{SANDBOX_RECURSIVE, "recursive", 'r', HOLT_REMOVE_RECURSIVE, NULL, NULL},
	{SANDBOX_THREAD, "thread", 0, 0, take_thread, "a thread"},
	{SANDBOX_TIMEOUT, "timeout", 0, 0, take_timeout, "a time such as 10, 500ms or 2m"},
	{SANDBOX_TTL, "ttl", 0, 0, take_ttl, "a time up to 24h such as 10m"},
	{SANDBOX_USER, "user", 'u', 0, take_user, "a user"},
	{SANDBOX_USER_DATA, "user-data", 0, 0, take_user_data, "an absolute path"},
	{SANDBOX_WORKDIR, "workdir", 'w', 0, take_workdir, "an absolute path"},
};

#define N_ROWS (sizeof rows / sizeof rows[0])

static int value_of(const struct row *row)
{
	return row->letter ? row->letter : LONG_ONLY + (int)(row - rows);
}

/* NULL for '?' and ':'. */
static const struct row *find_row(int value)
{
	for (const struct row *row = rows; row < rows + N_ROWS; row++) {
		if (value_of(row) == value)
			return row;
	}
	return NULL;
}

/* Make getopt_long's tables of those that a verb has. */
static void offer(uint32_t options, char *letters, struct option *longs)
{
	*letters++ = ':';
	for (const struct row *row = rows; row < rows + N_ROWS; row++) {
		if (!(options & row->option))
			continue;
		*longs++ = (struct option){row->name, row->take ? required_argument : no_argument,
			NULL, value_of(row)};
		if (row->letter)
			*letters++ = row->letter;
		if (row->letter && row->take)
			*letters++ = ':';
	}
	*letters = 0;
	*longs = (struct option){0};
}

static int take_option(struct sandbox_args *a, const struct row *row)
{
	a->given |= row->option;
	a->flags |= row->flag;
	if (!row->take || row->take(a, optarg) == 0)
		return CLI_OK;
	return cli_usage(
		CLI_USAGE, a->verb, "--%s is not %s: '%.64s'", row->name, row->wanted, optarg);
}

/* What is no option may be meant as a path. */
static int bad_option(const struct sandbox_args *a, int c, char **argv)
{
	return cli_bad_option_with(CLI_USAGE, a->verb, c, argv,
		" ('--' stands in front of a path or pattern that begins with '-')");
}

int sandbox_args_check_scope(const struct sandbox_args *a, int failure)
{
	if (!a->for_user != !a->thread)
		return cli_usage(failure, a->verb, "--for USER and --thread T belong together");
	if ((a->pool.image || a->pool.pull) && !a->for_user)
		return cli_usage(failure, a->verb, "--%s is for --for USER --thread T",
			a->pool.image ? "image" : "pull");
	return CLI_OK;
}

static int take_words(struct sandbox_args *a, const struct sandbox_verb *verb, int n, char **words)
{
	const char *names = verb->words;
	int wanted = *names != 0;

	if (a->for_user)
		names = strchr(names, ' ') ? strchr(names, ' ') + 1 : "";
	for (const char *p = verb->words; (p = strchr(p, ' ')); p++)
		wanted++;
	wanted -= a->for_user && wanted;
	if (n != wanted)
		return cli_usage(CLI_USAGE, a->verb, "takes %s%s", *names ? names : "no argument",
			a->for_user && *verb->words ? " behind --for and --thread" : "");
	if (n > 0 && !a->for_user)
		a->box = *words++, n--;
	for (int i = 0; i < n; i++)
		a->words[i] = words[i];
	return CLI_OK;
}

int sandbox_args_parse(
	struct sandbox_args *a, const struct sandbox_verb *verb, int argc, char **argv)
{
	char letters[2 * N_ROWS + 2];
	struct option longs[N_ROWS + 1];
	int status = CLI_OK;
	int c;

	offer(verb->options, letters, longs);
	while (!status && (c = getopt_long(argc, argv, letters, longs, NULL)) != -1) {
		const struct row *row = find_row(c);

		status = row ? take_option(a, row) : bad_option(a, c, argv);
	}
	if (!status)
		status = sandbox_args_check_scope(a, CLI_USAGE);
	return status ? status : take_words(a, verb, argc - optind, argv + optind);
}
