/* SPDX-License-Identifier: Apache-2.0 */
/*
 * holt sandbox exec: one command line in a shell of the box. Its streams and its exit code are the
 * program's; with --text or --json they become one text, and the exit code 0.
 */
#include "exec_args.h"
#include "guest_stream.h"
#include "pull_view.h"
#include "sandbox_verbs.h"

#include <errno.h>
#include <getopt.h>
#include <string.h>

static struct {
	struct exec_args exec; /* variables, user and directory */
	int text, json;
	const char *command;
	int errnum; /* why an output stream failed, or 0 */
} job = {.exec = {.foreground = {.verb = "sandbox exec"}, .exec = HOLT_EXEC_OPTIONS_INIT}};

enum {
	OPT_TEXT = OPT_OF_VERB,
	OPT_JSON,
	OPT_CONFIG,
	OPT_FOR,
	OPT_IMAGE,
	OPT_POOL,
	OPT_PULL,
	OPT_THREAD
};

/* ---- the command line ---- */

static int usage(const char *text)
{
	return cli_usage(CLI_RUN_FAILED, "sandbox exec", "%s", text);
}

static int take_option(struct sandbox_args *a, int c, char **argv)
{
	switch (c) {
	case OPT_CONFIG:
		a->pool.config = optarg;
		return CLI_OK;
	case OPT_FOR:
		a->for_user = optarg;
		return CLI_OK;
	case OPT_IMAGE:
		a->pool.image = optarg;
		return CLI_OK;
	case OPT_POOL:
		a->pool.pool = optarg;
		return CLI_OK;
	case OPT_PULL:
		a->pool.pull = optarg;
		return pull_view_policy(optarg, &(int32_t){0}) < 0
			       ? exec_args_bad(&job.exec,
					 "--pull is not missing, always or never:", optarg)
			       : CLI_OK;
	case OPT_THREAD:
		a->thread = optarg;
		return CLI_OK;
	case OPT_TEXT:
		job.text = 1;
		return CLI_OK;
	case OPT_JSON:
		job.json = 1;
		return CLI_OK;
	case OPT_TIMEOUT:
		return cli_parse_timeout_ms(optarg, &a->timeout_ms) < 0
			       ? exec_args_bad(&job.exec,
					 "--timeout is not a time such as 10, 500ms or 2m:", optarg)
			       : CLI_OK;
	default:
		return exec_args_take(&job.exec, c, argv);
	}
}

/* BOX [--] COMMAND, where the command is one word; without BOX for a user's thread. */
static int take_words(struct sandbox_args *a, int n, char **words)
{
	if (n == 0 && !a->for_user)
		return usage("no BOX given");
	if (!a->for_user) {
		a->box = *words++;
		n--;
	}
	if (n > 0 && !a->for_user && strcmp(*words, "--") == 0) {
		words++;
		n--;
	} else if (n > 0 && !a->for_user && **words == '-') {
		return usage("options stand in front of BOX, and '--' in front of a COMMAND that "
			     "begins with '-'");
	}
	if (n == 0)
		return usage("no COMMAND given");
	if (n > 1)
		return usage("COMMAND is one string for the shell: put it in quotes");
	job.command = *words;
	return CLI_OK;
}

static int parse(struct sandbox_args *a, int argc, char **argv)
{
	static const struct option options[] = {{"config", required_argument, NULL, OPT_CONFIG},
		{"env", required_argument, NULL, 'e'},
		{"env-file", required_argument, NULL, OPT_ENV_FILE},
		{"for", required_argument, NULL, OPT_FOR},
		{"image", required_argument, NULL, OPT_IMAGE},
		{"json", no_argument, NULL, OPT_JSON}, {"pool", required_argument, NULL, OPT_POOL},
		{"pull", required_argument, NULL, OPT_PULL}, {"text", no_argument, NULL, OPT_TEXT},
		{"thread", required_argument, NULL, OPT_THREAD},
		{"timeout", required_argument, NULL, OPT_TIMEOUT},
		{"user", required_argument, NULL, 'u'}, {"workdir", required_argument, NULL, 'w'},
		{0}};
	int status = CLI_OK;
	int c;

	while (!status && (c = getopt_long(argc, argv, "+:e:u:w:", options, NULL)) != -1)
		status = take_option(a, c, argv);
	if (!status && job.text && job.json)
		status = usage("--text and --json cannot be had both");
	if (!status)
		status = sandbox_args_check_scope(a, CLI_RUN_FAILED);
	if (!status)
		status = take_words(a, argc - optind, argv + optind);
	if (!status)
		status = exec_args_finish(&job.exec);
	for (size_t i = 0; !status && i < job.exec.n_env; i++) {
		if (!strchr(job.exec.env[i], '='))
			status = exec_args_bad(&job.exec, "there is no variable", job.exec.env[i]);
	}
	a->open.user = job.exec.exec.user;
	a->open.cwd = job.exec.exec.cwd;
	return status;
}

/* ---- the command ---- */

static holt_command_options command_options(const struct sandbox_args *a)
{
	holt_command_options o = HOLT_COMMAND_OPTIONS_INIT;

	o.env = job.exec.env;
	o.timeout_ms = a->timeout_ms;
	return o;
}

static int pass_on(int stream, const void *data, size_t len, void *user)
{
	FILE *out = stream == HOLT_STDERR ? stderr : stdout;

	(void)user;
	if (fwrite(data, 1, len, out) != len || fflush(out) != 0)
		job.errnum = errno;
	return job.errnum;
}

/* Returns the program's exit code, or -1. */
static int run_raw(holt_sandbox *sandbox, const struct sandbox_args *a, holt_error **reterr)
{
	holt_command_options o = command_options(a);
	holt_exit result = HOLT_EXIT_INIT;
	holt_command *command = NULL;

	o.output = pass_on;
	const int r = holt_sandbox_execute(sandbox, job.command, &o, &command, reterr);
	if (r == 0)
		(void)holt_command_exit(command, &result);
	holt_command_free(command);
	if (job.errnum)
		return sandbox_failed(reterr, HOLT_EIO, job.errnum, "cannot write the output");
	if (r < 0)
		return -1;
	foreground_tell(&result, a->timeout_ms ? a->timeout_ms : HOLT_SANDBOX_TIMEOUT_MS_DEFAULT);
	return result.code;
}

static int run_text(holt_sandbox *sandbox, const struct sandbox_args *a, holt_error **reterr)
{
	struct guest_stream out = guest_stream_to(stdout);
	const holt_command_options o = command_options(a);
	char *text = NULL;
	size_t len = 0;

	if (holt_sandbox_execute_text(sandbox, job.command, &o, &text, &len, reterr) < 0)
		return -1;
	(void)guest_stream_put(&out, text, len);
	(void)guest_stream_end(&out);
	holt_free(text);
	return CLI_OK;
}

/* Returns whether something is missing in it. */
static int print_stream(const holt_command *command, int stream, const char *name)
{
	uint64_t total = 0;
	size_t len = 0;
	const char *data = holt_command_output(command, stream, &len, &total);

	(void)printf(",\"%s\":", name);
	cli_json_string(stdout, data, len, CLI_JSON_TEXT);
	(void)printf(",\"%s_bytes\":%llu", name, (unsigned long long)total);
	return total > len;
}

static void print_json(const holt_command *command)
{
	static const char *const words[] = {"false", "true"};
	holt_exit result = HOLT_EXIT_INIT;

	(void)holt_command_exit(command, &result);
	(void)printf("{\"exit_code\":%d,\"signal\":%d,\"timed_out\":%s,\"oom\":%s", result.code,
		result.signal, words[(result.flags & HOLT_EXIT_TIMED_OUT) != 0],
		words[(result.flags & HOLT_EXIT_OOM) != 0]);
	const int out_cut = print_stream(command, HOLT_STDOUT, "stdout");
	const int err_cut = print_stream(command, HOLT_STDERR, "stderr");
	(void)printf(",\"truncated\":%s,\"duration_us\":%llu}\n", words[out_cut || err_cut],
		(unsigned long long)result.duration_us);
}

static int run_json(holt_sandbox *sandbox, const struct sandbox_args *a, holt_error **reterr)
{
	const holt_command_options o = command_options(a);
	holt_command *command = NULL;

	if (holt_sandbox_execute(sandbox, job.command, &o, &command, reterr) < 0)
		return -1;
	print_json(command);
	holt_command_free(command);
	return CLI_OK;
}

int sandbox_exec_main(int argc, char **argv, const void *user)
{
	struct sandbox_args a = {.verb = "sandbox exec", .open = HOLT_SANDBOX_OPTIONS_INIT};
	const int status = parse(&a, argc, argv);

	(void)user;
	return status ? status
		      : sandbox_run(&a, job.text   ? run_text
					: job.json ? run_json
						   : run_raw);
}

const char sandbox_exec_help[] =
	"Usage: holt sandbox exec [OPTIONS] BOX [--] COMMAND\n\n"
	"Runs COMMAND, one string, in a shell of its own (bash -lc, else sh -lc), without\n"
	"stdin. Nothing but files is left for the next one. The exit status is the\n"
	"command's, or that of 'holt run' where Holt fails; with --text or --json 0.\n\n"
	"Options:\n"
	"  -e, --env K[=V]     set a variable; without =V take holt's own value\n"
	"      --env-file FILE a K[=V] a line\n"
	"      --json          print a JSON object: exit_code, timed_out, stdout, stderr\n"
	"                      and more\n"
	"      --text          print one text: output, then what is to be said of the "
	"end\n" SANDBOX_COMMON_HELP "Example:\n"
	"  holt sandbox exec --timeout 2s web 'cd work && make 2>&1 | tail'\n";
