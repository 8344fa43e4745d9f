/* SPDX-License-Identifier: Apache-2.0 */
/*
 * holt sandbox: listing and searching. What is found is printed as it comes, so that memory stays
 * small; where a search fails midway a JSON document stays without its end. As text, a path is one
 * line: on a terminal escaped, else its bytes, which -0 ends by NUL instead.
 */
#include "sandbox_verbs.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

struct results {
	int json;
	int terminal;
	char end; /* behind a path */
	const char *name; /* of the array */
	uint64_t count;
	int errnum; /* why stdout failed, or 0 */
};

static struct results results_of(const struct sandbox_args *a, const char *name)
{
	return (struct results){
		.json = (a->given & SANDBOX_JSON) != 0,
		.terminal = isatty(STDOUT_FILENO),
		.end = a->given & SANDBOX_NULL ? 0 : '\n',
		.name = name,
	};
}

/* The beginning of the JSON document: late, so that what fails at once prints nothing. */
static void begin_document(const struct results *r)
{
	if (r->json && r->count == 0)
		(void)printf("{\"%s\":[", r->name);
}

static void begin_result(struct results *r)
{
	begin_document(r);
	if (r->json && r->count > 0)
		(void)fputc(',', stdout);
	r->count++;
}

static int end_result(struct results *r)
{
	if (ferror(stdout) && !r->errnum)
		r->errnum = errno;
	return r->errnum;
}

static void put_bytes(const struct results *r, const char *data, size_t len)
{
	char shown[1024];

	if (!r->terminal)
		(void)fwrite(data, 1, len, stdout);
	while (r->terminal && len > 0) {
		size_t used = 0;

		(void)cli_escape(shown, sizeof shown, data, len, 0, &used);
		(void)fputs(shown, stdout);
		data += used;
		len -= used;
	}
}

static void put_path(const struct results *r, const char *path, size_t len)
{
	if (r->json)
		cli_json_string(stdout, path, len, CLI_JSON_PATH);
	else
		put_bytes(r, path, len);
}

const char *sandbox_type_name(int32_t type)
{
	static const char *const names[] = {
		[HOLT_FILE_REGULAR] = "file",
		[HOLT_FILE_DIRECTORY] = "directory",
		[HOLT_FILE_SYMLINK] = "symlink",
		[HOLT_FILE_FIFO] = "fifo",
		[HOLT_FILE_SOCKET] = "socket",
		[HOLT_FILE_CHAR] = "char",
		[HOLT_FILE_BLOCK] = "block",
	};

	return type > 0 && type <= HOLT_FILE_BLOCK ? names[type] : "unknown";
}

/* --all is another bit of each call. */
static uint32_t flags_of(const struct sandbox_args *a, uint32_t all)
{
	return a->flags | (a->given & SANDBOX_ALL ? all : 0);
}

/* What follows the last result. Returns an exit status or -1. */
static int finish(struct results *r, int failed, const holt_search_result *found,
	const char *option, holt_error **reterr)
{
	if (r->errnum)
		return sandbox_failed(reterr, HOLT_EIO, r->errnum, "cannot write to stdout");
	if (failed < 0)
		return -1;
	begin_document(r);
	if (r->json)
		(void)printf("],\"truncated\":%s", found->truncated ? "true" : "false");
	else if (found->truncated)
		(void)fprintf(stderr, "holt: there is more; %s shows it\n", option);
	return CLI_OK;
}

/* ---- ls ---- */

static int put_entry(const holt_entry *entry, void *user)
{
	struct results *r = user;

	begin_result(r);
	if (r->json)
		(void)fputs("{\"path\":", stdout);
	put_path(r, entry->path, entry->path_len);
	if (r->json)
		(void)printf(",\"type\":\"%s\"}", sandbox_type_name(entry->type));
	else
		(void)fputc(r->end, stdout);
	return end_result(r);
}

int sandbox_list(holt_sandbox *sandbox, const struct sandbox_args *a, holt_error **reterr)
{
	struct results r = results_of(a, "entries");
	holt_list_options o = HOLT_LIST_OPTIONS_INIT;
	holt_search_result found = HOLT_SEARCH_RESULT_INIT;

	o.flags = flags_of(a, HOLT_LIST_ALL);
	o.max_depth = a->depth;
	o.max_entries = a->max;
	o.timeout_ms = a->timeout_ms;
	const int failed = holt_sandbox_list(
		sandbox, a->words[0], &o, put_entry, &r, &found, reterr);
	const int status = finish(&r, failed, &found, "--max-entries", reterr);
	if (status == CLI_OK && r.json)
		(void)fputs("}\n", stdout);
	return status;
}

/* ---- glob ---- */

static int put_found(const holt_entry *entry, void *user)
{
	struct results *r = user;

	begin_result(r);
	put_path(r, entry->path, entry->path_len);
	if (!r->json)
		(void)fputc(r->end, stdout);
	return end_result(r);
}

int sandbox_glob(holt_sandbox *sandbox, const struct sandbox_args *a, holt_error **reterr)
{
	struct results r = results_of(a, "paths");
	holt_glob_options o = HOLT_GLOB_OPTIONS_INIT;
	holt_search_result found = HOLT_SEARCH_RESULT_INIT;

	o.flags = flags_of(a, HOLT_GLOB_ALL);
	o.max_results = a->max;
	o.timeout_ms = a->timeout_ms;
	const int failed = holt_sandbox_glob(
		sandbox, a->words[0], a->words[1], &o, put_found, &r, &found, reterr);
	const int status = finish(&r, failed, &found, "--max-results", reterr);
	if (status == CLI_OK && r.json)
		(void)fputs("}\n", stdout);
	return status;
}

/* ---- grep ---- */

static int put_match(const holt_match *match, void *user)
{
	struct results *r = user;
	const unsigned long long number = match->line_number;

	begin_result(r);
	if (r->json)
		(void)fputs("{\"path\":", stdout);
	put_path(r, match->path, match->path_len);
	if (r->json) {
		(void)printf(",\"line_number\":%llu,\"line\":", number);
		cli_json_string(stdout, match->line, match->line_len, CLI_JSON_TEXT);
		(void)fputc('}', stdout);
	} else {
		(void)printf("%c%llu:", r->end ? ':' : 0, number);
		put_bytes(r, match->line, match->line_len);
		(void)fputc('\n', stdout);
	}
	return end_result(r);
}

int sandbox_grep(holt_sandbox *sandbox, const struct sandbox_args *a, holt_error **reterr)
{
	struct results r = results_of(a, "matches");
	holt_grep_options o = HOLT_GREP_OPTIONS_INIT;
	holt_search_result found = HOLT_SEARCH_RESULT_INIT;

	o.flags = flags_of(a, HOLT_GREP_ALL);
	o.max_results = a->max;
	o.glob = a->glob;
	o.timeout_ms = a->timeout_ms;
	const int failed = holt_sandbox_grep(
		sandbox, a->words[0], a->words[1], &o, put_match, &r, &found, reterr);
	const int status = finish(&r, failed, &found, "--max-results", reterr);
	if (status == CLI_OK && r.json)
		(void)printf(",\"searched\":%llu,\"skipped\":%llu}\n",
			(unsigned long long)found.searched, (unsigned long long)found.skipped);
	return status;
}

/* ---- help ---- */

const char sandbox_list_help[] =
	"Usage: holt sandbox ls [OPTIONS] BOX PATH\n\n"
	"Lists a directory: itself, then the directories and files beneath it, one path a\n"
	"line, in no particular order. Symbolic links are left out, and names such as\n"
	".git, .env, build, out or *.log: holt-sandbox(1) has them all.\n\n"
	"Options:\n"
	"  -a, --all           leave out no names\n"
	"      --depth N       1: only what is in it; 0: only itself (2)\n"
	"      --json          print a JSON object with entries and truncated\n"
	"      --max-entries N cut there (10000)\n"
	"  -0, --null          end paths by NUL instead of a line feed\n" SANDBOX_COMMON_HELP
	"Example:\n"
	"  holt sandbox ls --depth 1 web /srv\n";

const char sandbox_glob_help[] =
	"Usage: holt sandbox glob [OPTIONS] BOX ROOT PATTERN\n\n"
	"Finds files beneath ROOT, one path a line. A PATTERN without '/' is for names at\n"
	"any depth, one with '/' for paths from ROOT, where ** is any number of\n"
	"directories. Names such as .git, .env, build, out or *.log are left out.\n\n"
	"Options:\n"
	"  -a, --all           leave out no names\n"
	"      --dirs          find directories, too\n"
	"      --json          print a JSON object with paths and truncated\n"
	"      --max-results N cut there (200)\n"
	"  -0, --null          end paths by NUL instead of a line feed\n" SANDBOX_COMMON_HELP
	"Example:\n"
	"  holt sandbox glob web /srv 'src/**/*.js'\n";

const char sandbox_grep_help[] =
	"Usage: holt sandbox grep [OPTIONS] BOX ROOT PATTERN\n\n"
	"Finds lines of text files beneath ROOT, or of that file: path:line:text. PATTERN\n"
	"is a regular expression of PCRE2; case does not count. Long lines are cut. Names\n"
	"such as .git, .env, build, out or *.log are left out.\n\n"
	"Options:\n"
	"  -a, --all           leave out no names\n"
	"      --case-sensitive\n"
	"                      case counts\n"
	"      --glob G        only files that 'holt sandbox glob' finds with this\n"
	"      --json          print a JSON object with matches, truncated and skipped\n"
	"      --literal       PATTERN is text\n"
	"      --max-results N cut there (100)\n"
	"  -0, --null          end paths by NUL instead of a colon\n" SANDBOX_COMMON_HELP
	"Example:\n"
	"  holt sandbox grep --glob '*.py' web /srv 'def \\w+_main'\n";
