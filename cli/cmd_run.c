/* SPDX-License-Identifier: Apache-2.0 */
/*
 * holt run: a box for one program. Without --name and -d the box goes with its program; with either
 * of them it stays, unless --rm says otherwise. A box that stays also stays when its program could
 * not be started: it can be inspected, and removed.
 */
#include "exec_args.h"
#include "pull_view.h"

#include <getopt.h>
#include <string.h>

static struct run {
	struct exec_args args;
	holt_box_options box;
	const char *allow[HOLT_ALLOW_MAX + 1];
	const char *publish[HOLT_PUBLISH_MAX + 1];
	size_t n_allow, n_publish;
	const char *image;
	const char *entrypoint[2];
	int32_t pull; /* enum holt_pull_policy */
	int quiet;
	int no_template;
	int rm;
} run = {.args = {.exec = HOLT_EXEC_OPTIONS_INIT},
	.box = HOLT_BOX_OPTIONS_INIT,
	.pull = HOLT_PULL_MISSING};

enum {
	OPT_ALLOW = OPT_OF_VERB,
	OPT_CPUS,
	OPT_DISK,
	OPT_ENTRYPOINT,
	OPT_HOSTNAME,
	OPT_LOG_SIZE,
	OPT_NAME,
	OPT_NETWORK,
	OPT_NO_TEMPLATE,
	OPT_PULL,
	OPT_RM,
	OPT_STOP_SIGNAL,
	OPT_STOP_TIMEOUT
};

static int bad(const char *what, const char *value)
{
	return exec_args_bad(&run.args, what, value);
}

static int set_stop_signal(const char *text)
{
	int number = 0;

	if (cli_parse_signal(text, &number) < 0)
		return bad("--stop-signal is not a signal such as TERM or 15:", text);
	run.box.stop_signal = number;
	return 0;
}

/* One more for a list of at most @max. */
static int add_text(const char **list, size_t *n, size_t max, const char *text)
{
	if (*n == max)
		return bad("too many of these options, with", text);
	list[(*n)++] = text;
	return 0;
}

static int take_network_option(int c)
{
	switch (c) {
	case 'p':
		run.box.publish = run.publish;
		return add_text(run.publish, &run.n_publish, HOLT_PUBLISH_MAX, optarg);
	case OPT_ALLOW:
		run.box.allow = run.allow;
		return add_text(run.allow, &run.n_allow, HOLT_ALLOW_MAX, optarg);
	default: /* OPT_NETWORK */
		run.box.network = optarg;
		return 0;
	}
}

/* The options that say what the box is like. */
static int take_box_option(int c)
{
	switch (c) {
	case 'm':
		return cli_parse_mib(optarg, &run.box.memory_mib) < 0
			       ? bad("--memory is not a size such as 512m or 2g:", optarg)
			       : 0;
	case OPT_CPUS:
		return cli_parse_count(optarg, &run.box.cpus) < 0
			       ? bad("--cpus is not a whole number:", optarg)
			       : 0;
	case OPT_DISK:
		return cli_parse_bytes(optarg, &run.box.disk_bytes) < 0
			       ? bad("--disk is not a size such as 10g:", optarg)
			       : 0;
	case OPT_HOSTNAME:
		run.box.hostname = optarg;
		return 0;
	case OPT_LOG_SIZE:
		return cli_parse_bytes(optarg, &run.box.log_bytes) < 0
			       ? bad("--log-size is not a size such as 10m:", optarg)
			       : 0;
	case OPT_NAME:
		run.box.name = optarg;
		return 0;
	case OPT_STOP_SIGNAL:
		return set_stop_signal(optarg);
	default: /* OPT_STOP_TIMEOUT */
		return cli_parse_grace_ms(optarg, &run.box.stop_grace_ms) < 0
			       ? bad("--stop-timeout is not a time such as 10 or 1m:", optarg)
			       : 0;
	}
}

static int take_option(int c, char **argv)
{
	switch (c) {
	case 'm':
	case OPT_CPUS:
	case OPT_DISK:
	case OPT_HOSTNAME:
	case OPT_LOG_SIZE:
	case OPT_NAME:
	case OPT_STOP_SIGNAL:
	case OPT_STOP_TIMEOUT:
		return take_box_option(c);
	case 'p':
	case OPT_ALLOW:
	case OPT_NETWORK:
		return take_network_option(c);
	case OPT_ENTRYPOINT:
		run.entrypoint[0] = *optarg ? optarg : NULL;
		run.args.exec.entrypoint = run.entrypoint;
		return 0;
	case OPT_NO_TEMPLATE:
		run.no_template = 1;
		return 0;
	case OPT_PULL:
		return pull_view_policy(optarg, &run.pull) < 0
			       ? bad("--pull is not missing, always or never:", optarg)
			       : 0;
	case 'q':
		run.quiet = 1;
		return 0;
	case OPT_RM:
		run.rm = 1;
		return 0;
	case 'v':
		return bad("volumes are not supported yet: -v", optarg);
	default:
		return exec_args_take(&run.args, c, argv);
	}
}

static int parse(int argc, char **argv)
{
	static const struct option options[] = {{"allow", required_argument, NULL, OPT_ALLOW},
		{"cpus", required_argument, NULL, OPT_CPUS}, {"detach", no_argument, NULL, 'd'},
		{"disk", required_argument, NULL, OPT_DISK},
		{"entrypoint", required_argument, NULL, OPT_ENTRYPOINT},
		{"env", required_argument, NULL, 'e'},
		{"env-file", required_argument, NULL, OPT_ENV_FILE},
		{"hostname", required_argument, NULL, OPT_HOSTNAME},
		{"interactive", no_argument, NULL, 'i'},
		{"log-size", required_argument, NULL, OPT_LOG_SIZE},
		{"memory", required_argument, NULL, 'm'},
		{"name", required_argument, NULL, OPT_NAME},
		{"network", required_argument, NULL, OPT_NETWORK},
		{"no-template", no_argument, NULL, OPT_NO_TEMPLATE},
		{"pids-limit", required_argument, NULL, OPT_PIDS_LIMIT},
		{"replay-size", required_argument, NULL, OPT_REPLAY_SIZE},
		{"publish", required_argument, NULL, 'p'},
		{"pull", required_argument, NULL, OPT_PULL}, {"quiet", no_argument, NULL, 'q'},
		{"rm", no_argument, NULL, OPT_RM},
		{"stop-signal", required_argument, NULL, OPT_STOP_SIGNAL},
		{"stop-timeout", required_argument, NULL, OPT_STOP_TIMEOUT},
		{"timeout", required_argument, NULL, OPT_TIMEOUT}, {"tty", no_argument, NULL, 't'},
		{"user", required_argument, NULL, 'u'}, {"volume", required_argument, NULL, 'v'},
		{"workdir", required_argument, NULL, 'w'}, {0}};
	int c;

	while ((c = getopt_long(argc, argv, "+:de:im:p:qtu:v:w:", options, NULL)) != -1) {
		const int status = take_option(c, argv);
		if (status)
			return status;
	}
	if (optind == argc)
		return cli_usage(CLI_RUN_FAILED, "run", "no IMAGE given");
	run.image = argv[optind];
	run.args.exec.argv = (const char *const *)(argv + optind + 1);
	return exec_args_finish(&run.args);
}

/* Returns the exit code, or -1 with an error. */
static int start(struct foreground *f, holt_box *box, holt_error **reterr)
{
	holt_start_options options = HOLT_START_OPTIONS_INIT;
	holt_exec *program = NULL;
	const int detach = f->detach;

	options.cancel = f->cancel;
	options.flags = (detach ? HOLT_START_DETACHED : 0) |
			(run.no_template ? HOLT_START_NO_TEMPLATE : 0);
	if (holt_box_start(box, &options, detach ? NULL : &program, reterr) < 0)
		return -1;
	if (!detach) {
		const int code = foreground_pump(f, program, reterr);
		holt_exec_free(program);
		return code;
	}
	(void)printf("%s\n", holt_box_id(box));
	return cli_finish() == CLI_OK ? CLI_OK : CLI_RUN_FAILED;
}

static int run_in_box(struct foreground *f, holt_home *home, holt_error **reterr)
{
	holt_box *box = NULL;
	int code = -1;

	run.args.exec.cancel = f->cancel;
	if (pull_view_have(home, run.image, run.pull, run.quiet, f->cancel, reterr) == 0 &&
		holt_box_create(home, run.image, &run.box, &box, reterr) == 0)
		code = start(f, box, reterr);
	holt_box_close(box);
	return code;
}

static int run_main(int argc, char **argv)
{
	struct foreground *f = &run.args.foreground;

	f->verb = "run";
	f->work = run_in_box;
	const int status = parse(argc, argv);
	if (status)
		return status;
	run.args.exec.flags |= HOLT_EXEC_IMAGE;
	run.box.program = &run.args.exec;
	if ((run.box.name || f->detach) && !run.rm)
		run.box.flags |= HOLT_BOX_KEEP;
	return foreground_run(f);
}

const struct cli_verb verb_run = {
	.name = "run",
	.summary = "run a command in a new box",
	.group = CLI_RUNNING,
	.help = "Usage: holt run [OPTIONS] IMAGE [COMMAND [ARG...]]\n\n"
		"Runs a command, or the image's own, in a new micro-VM. At its end the box is\n"
		"removed; with --name or -d it stays, stopped, until 'holt rm'.\n\n"
		"Options:\n"
		"      --allow TARGET      reach HOST[:PORT], *.DOMAIN[:PORT] or CIDR[:PORT], and\n"
		"                          nothing but what further --allow name\n"
		"      --cpus N            number of CPUs (1)\n"
		"  -d, --detach            let it run on, and print the box's id\n"
		"      --disk SIZE         virtual size of the box's disk (10g)\n"
		"      --entrypoint CMD    instead of the image's Entrypoint; \"\" for none\n"
		"  -e, --env K[=V]         set a variable; without =V take holt's own value\n"
		"      --env-file FILE     a K[=V] a line\n"
		"      --hostname NAME     name of the machine (the box's id)\n"
		"  -i, --interactive       connect stdin\n"
		"      --log-size SIZE     newest output that is kept for 'holt logs' (10m)\n"
		"  -m, --memory SIZE       at least 128m (512m)\n"
		"      --name NAME         call the box so, and keep it\n"
		"      --network MODE      open (default): all but this host; allowlist;\n"
		"                          isolated, or none: nothing\n"
		"      --no-template       boot, instead of beginning as a copy of a template\n"
		"      --pids-limit N      processes and threads at once (4096)\n"
		"  -p, --publish PORTS     [ADDRESS:]HOST:GUEST[/udp]: this host's port HOST\n"
		"                          leads to the box's GUEST; on 127.0.0.1 by default\n"
		"      --pull WHEN         ask for IMAGE: missing (default), where it is not\n"
		"                          here; always; never\n"
		"  -q, --quiet             no progress\n"
		"      --replay-size SIZE  newest output kept for who attaches (256k)\n"
		"      --rm                remove the box at the end all the same\n"
		"      --stop-signal SIG   what 'holt stop' sends (the image's, else TERM)\n"
		"      --stop-timeout TIME before 'holt stop' kills (10)\n"
		"      --timeout TIME      kill the command after TIME, such as 10, 1.5s or 2m\n"
		"  -t, --tty               on a terminal of its own; with -i it has yours\n"
		"  -u, --user USER         name or number, with :GROUP if wanted\n"
		"  -w, --workdir DIR       made where missing\n\n"
		"Exit status: the command's own; 124 after a time-out, 125 if holt failed, 126 if\n"
		"the command cannot be executed, 127 if it was not found, 128+N if signal N\n"
		"killed it.\n\n"
		"Example:\n"
		"  echo 6*7 | holt run -i --timeout 10s demo bc\n",
	.main = run_main,
};
