/* SPDX-License-Identifier: Apache-2.0 */
/*
 * holt run: one program in a box of its own. The main thread boots, pumps the streams and cleans
 * up; a second thread takes SIGINT, SIGTERM, SIGHUP and SIGQUIT: the first goes to the program
 * where it runs already, every other one ends the call.
 */
#include "cli.h"

#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ENV_MAX 8192

struct run {
	holt_box_options box;
	holt_exec_options exec;
	const char *image;
	char *env[ENV_MAX + 1];
	size_t n_env;
	const char *entrypoint[2];
	int interactive;

	pthread_mutex_t lock; /* of what the signal thread looks at */
	holt_cancel *cancel;
	holt_exec *running;
	int forwarded;
	int signal; /* that ended the call, or 0 */
};

static int bad(const char *what, const char *value)
{
	return cli_usage(CLI_RUN_FAILED, "run", "%s '%.64s'", what, value);
}

/* "K=V", or "K" for holt's own value of it, as docker does: unset there is unset here. */
static int add_env(struct run *r, char *text)
{
	if (*text == 0 || *text == '=')
		return bad("environment variable without a name:", text);
	if (r->n_env == ENV_MAX)
		return cli_usage(CLI_RUN_FAILED, "run", "more than %d times -e", ENV_MAX);
	if (strchr(text, '=')) {
		r->env[r->n_env++] = text;
		return 0;
	}
	const size_t len = strlen(text);
	char **var = environ;
	while (*var && (strncmp(*var, text, len) != 0 || (*var)[len] != '='))
		var++;
	r->env[r->n_env++] = *var ? *var : text;
	return 0;
}

static int set_memory(struct run *r, const char *text)
{
	uint64_t bytes = 0;

	if (cli_parse_bytes(text, &bytes) < 0 || bytes >> 20 == 0 || bytes >> 20 > UINT32_MAX)
		return bad("--memory is not a size such as 512m or 2g:", text);
	r->box.memory_mib = (uint32_t)(bytes >> 20);
	return 0;
}

enum { OPT_CPUS = 256, OPT_ENTRYPOINT, OPT_HOSTNAME, OPT_MEMORY, OPT_RM, OPT_TIMEOUT, OPT_LATER };

static int take_option(struct run *r, int c, char **argv)
{
	switch (c) {
	case 'e':
		return add_env(r, optarg);
	case 'i':
		r->interactive = 1;
		return 0;
	case 'u':
		r->exec.user = optarg;
		return 0;
	case 'w':
		r->exec.cwd = optarg;
		return *optarg == '/' ? 0 : bad("-w is not an absolute path:", optarg);
	case 'm':
	case OPT_MEMORY:
		return set_memory(r, optarg);
	case OPT_CPUS:
		return cli_parse_count(optarg, &r->box.cpus) < 0
			       ? bad("--cpus is not a whole number:", optarg)
			       : 0;
	case OPT_ENTRYPOINT:
		r->entrypoint[0] = *optarg ? optarg : NULL;
		r->exec.entrypoint = r->entrypoint;
		return 0;
	case OPT_HOSTNAME:
		r->box.hostname = optarg;
		return 0;
	case OPT_RM:
		return 0;
	case OPT_TIMEOUT:
		return cli_parse_duration_ms(optarg, &r->exec.timeout_ms) < 0
			       ? bad("--timeout is not a time such as 10, 1.5s or 2m:", optarg)
			       : 0;
	case 'd':
	case 'p':
	case 't':
	case 'v':
	case OPT_LATER:
		return bad("not supported yet:", argv[optind - 1]);
	case ':':
		return bad("a value is missing for", argv[optind - 1]);
	default:
		return bad("unknown option", argv[optind - 1]);
	}
}

static int parse(struct run *r, int argc, char **argv)
{
	static const struct option options[] = {{"cpus", required_argument, NULL, OPT_CPUS},
		{"detach", no_argument, NULL, 'd'},
		{"entrypoint", required_argument, NULL, OPT_ENTRYPOINT},
		{"env", required_argument, NULL, 'e'},
		{"hostname", required_argument, NULL, OPT_HOSTNAME},
		{"interactive", no_argument, NULL, 'i'},
		{"memory", required_argument, NULL, OPT_MEMORY},
		{"name", required_argument, NULL, OPT_LATER},
		{"publish", required_argument, NULL, 'p'}, {"rm", no_argument, NULL, OPT_RM},
		{"timeout", required_argument, NULL, OPT_TIMEOUT}, {"tty", no_argument, NULL, 't'},
		{"user", required_argument, NULL, 'u'}, {"volume", required_argument, NULL, 'v'},
		{"workdir", required_argument, NULL, 'w'}, {0}};
	int c;

	while ((c = getopt_long(argc, argv, "+:de:im:p:tu:v:w:", options, NULL)) != -1) {
		const int status = take_option(r, c, argv);
		if (status)
			return status;
	}
	if (optind == argc)
		return cli_usage(CLI_RUN_FAILED, "run", "no IMAGE given");
	r->image = argv[optind];
	r->exec.argv = (const char *const *)(argv + optind + 1);
	r->exec.env = (const char *const *)r->env;
	r->exec.flags = HOLT_EXEC_IMAGE | (r->interactive ? HOLT_EXEC_STDIN : 0);
	return 0;
}

static void on_signal(struct run *r, int sig)
{
	(void)pthread_mutex_lock(&r->lock);
	if (r->running && !r->forwarded) {
		r->forwarded = 1;
		(void)holt_exec_signal(r->running, sig);
	} else {
		r->signal = sig;
		holt_cancel_trigger(r->cancel);
	}
	(void)pthread_mutex_unlock(&r->lock);
}

static const int ending_signals[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1};

/* All of them; but a hang-up that the caller wants ignored, as nohup does, stays ignored. (A shell
 * starts its background jobs with SIGINT ignored, which is no such wish.) */
static sigset_t awaited_signals(void)
{
	struct sigaction hup;
	sigset_t set;

	(void)sigemptyset(&set);
	for (size_t i = 0; i < sizeof ending_signals / sizeof ending_signals[0]; i++)
		(void)sigaddset(&set, ending_signals[i]);
	if (sigaction(SIGHUP, NULL, &hup) == 0 && hup.sa_handler == SIG_IGN)
		(void)sigdelset(&set, SIGHUP);
	return set;
}

static void *signal_thread(void *arg)
{
	const sigset_t set = awaited_signals();
	int sig = 0;

	/* SIGUSR1 of our own process is main's word that it is over. */
	while (sigwait(&set, &sig) == 0 && sig != SIGUSR1)
		on_signal(arg, sig);
	return NULL;
}

static int block_signals(void)
{
	const sigset_t set = awaited_signals();

	return pthread_sigmask(SIG_BLOCK, &set, NULL);
}

static void set_running(struct run *r, holt_exec *exec)
{
	(void)pthread_mutex_lock(&r->lock);
	r->running = exec;
	(void)pthread_mutex_unlock(&r->lock);
}

/* Returns the exit code, or -1 with an error. */
static int run_in_box(struct run *r, holt_home *home, holt_error **reterr)
{
	holt_exit result = HOLT_EXIT_INIT;
	holt_box *box = NULL;
	holt_exec *exec = NULL;

	holt_start_options start = HOLT_START_OPTIONS_INIT;
	start.cancel = r->cancel;
	r->box.program = &r->exec;
	int status = holt_box_create(home, r->image, &r->box, &box, reterr);
	if (status == 0)
		status = holt_box_start(box, &start, &exec, reterr);
	if (status == 0) {
		set_running(r, exec);
		status = holt_exec_pump(exec, r->interactive ? STDIN_FILENO : -1, STDOUT_FILENO,
			STDERR_FILENO, &result, reterr);
		set_running(r, NULL);
	}
	holt_exec_free(exec);
	holt_box_close(box);
	if (status == 0 && (result.flags & HOLT_EXIT_TIMED_OUT))
		(void)fprintf(stderr,
			"holt: the command was killed after its time-out of %llu ms\n",
			(unsigned long long)r->exec.timeout_ms);
	if (status == 0 && (result.flags & HOLT_EXIT_OOM))
		(void)fprintf(stderr, "holt: the command ran out of memory; see --memory\n");
	return status == 0 ? result.code : -1;
}

/* What a shell expects of a writer whose reader is gone. */
static int broken_pipe(void)
{
	sigset_t set;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGPIPE);
	(void)pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	(void)raise(SIGPIPE);
	return 128 + SIGPIPE;
}

static int run_signals(struct run *r, holt_home *home)
{
	holt_error *error = NULL;
	pthread_t signals;

	if (pthread_create(&signals, NULL, signal_thread, r) != 0)
		return cli_usage(CLI_RUN_FAILED, "run", "cannot start a thread");
	int code = run_in_box(r, home, &error);
	(void)pthread_kill(signals, SIGUSR1);
	(void)pthread_join(signals, NULL);
	if (code < 0 && r->signal) {
		holt_error_free(error);
		return 128 + r->signal;
	}
	if (code < 0 && holt_error_errno(error) == EPIPE &&
		strcmp(holt_error_stage(error), "output") == 0) {
		holt_error_free(error);
		return broken_pipe();
	}
	return code < 0 ? cli_error(holt_error_exit_code(error), error) : code;
}

static int run_main(int argc, char **argv)
{
	static struct run r = {.box = HOLT_BOX_OPTIONS_INIT,
		.exec = HOLT_EXEC_OPTIONS_INIT,
		.lock = PTHREAD_MUTEX_INITIALIZER};
	holt_home *home = NULL;
	holt_error *error = NULL;

	int status = parse(&r, argc, argv);
	if (status)
		return status;
	(void)block_signals();
	if (holt_cancel_new(&r.cancel, &error) < 0 || holt_home_open(NULL, &home, &error) < 0) {
		holt_cancel_free(r.cancel);
		return cli_error(CLI_RUN_FAILED, error);
	}
	r.exec.cancel = r.cancel;
	status = run_signals(&r, home);
	holt_home_close(home);
	holt_cancel_free(r.cancel);
	return status;
}

const struct cli_verb verb_run = {
	.name = "run",
	.summary = "run a command in a new box",
	.help = "Usage: holt run [OPTIONS] IMAGE [COMMAND [ARG...]]\n\n"
		"Runs a command in a new micro-VM made from IMAGE, and removes it when the\n"
		"command has ended. Without COMMAND the image's Entrypoint and Cmd run.\n\n"
		"Options:\n"
		"      --cpus N          number of CPUs (1)\n"
		"      --entrypoint CMD  instead of the image's Entrypoint; \"\" for none\n"
		"  -e, --env K[=V]       set a variable; without =V take holt's own value\n"
		"      --hostname NAME   name of the machine (the box's id)\n"
		"  -i, --interactive     connect stdin\n"
		"  -m, --memory SIZE     such as 512m (the default) or 2g, at least 128m\n"
		"      --rm              remove the box at the end; always so\n"
		"      --timeout TIME    kill the command after TIME, such as 10, 1.5s or 2m\n"
		"  -u, --user USER       name or number, with :GROUP if wanted\n"
		"  -w, --workdir DIR     made where missing\n\n"
		"Exit status: the command's own; 124 after a time-out, 125 if holt failed, 126 if\n"
		"the command cannot be executed, 127 if it was not found, 128+N if signal N\n"
		"killed it.\n\n"
		"Example:\n"
		"  echo 6*7 | holt run -i --timeout 10s demo bc\n",
	.main = run_main,
};
