/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct cli_verb *const verbs[] = {
	&verb_config,
	&verb_cp,
	&verb_doctor,
	&verb_events,
	&verb_exec,
	&verb_image,
	&verb_inspect,
	&verb_kill,
	&verb_logs,
	&verb_pause,
	&verb_port,
	&verb_prune,
	&verb_ps,
	&verb_pull,
	&verb_rename,
	&verb_restart,
	&verb_rm,
	&verb_run,
	&verb_sandbox,
	&verb_start,
	&verb_stats,
	&verb_stop,
	&verb_system,
	&verb_template,
	&verb_unpause,
	&verb_version,
	&verb_wait,
};

#define N_VERBS (sizeof verbs / sizeof verbs[0])

static void log_to_stderr(int level, const char *component, const char *message, void *user)
{
	static const char *const names[] = {"error", "warn", "info", "debug"};
	char shown[4096];

	(void)user;
	(void)cli_escape_str(shown, sizeof shown, message);
	(void)fprintf(stderr, "holt[%ld] %s %s: %s\n", (long)getpid(), names[level & 3], component,
		shown);
}

static int quiet;

void cli_be_quiet(void)
{
	quiet = 1;
}

/* Under the lock of stderr. */
static void (*hide_drawn)(void);

void cli_before_message(void (*hide)(void))
{
	flockfile(stderr);
	hide_drawn = hide;
	funlockfile(stderr);
}

/* What the user has to know, and on a terminal also what he waits for. */
static void tell_user(int level, const char *component, const char *message, void *user)
{
	char shown[4096];

	(void)component;
	(void)user;
	if (quiet && level > HOLT_LOG_WARN)
		return;
	(void)cli_escape_str(shown, sizeof shown, message);
	flockfile(stderr);
	if (hide_drawn)
		hide_drawn();
	(void)fprintf(stderr, "holt: %s%s\n", level <= HOLT_LOG_WARN ? "warning: " : "", shown);
	funlockfile(stderr);
}

/* $HOLT_LOG asks for the library's log on stderr. */
static void set_log(void)
{
	static const char *const names[] = {"error", "warn", "info", "debug"};
	const char *want = getenv("HOLT_LOG");

	holt_log_set(isatty(STDERR_FILENO) ? HOLT_LOG_INFO : HOLT_LOG_WARN, tell_user, NULL);
	for (int i = 0; want && i < 4; i++) {
		if (strcmp(want, names[i]) == 0)
			holt_log_set(i, log_to_stderr, NULL);
	}
}

static void print_group(enum cli_group group, const char *title)
{
	(void)printf("Verbs for %s:\n", title);
	for (size_t i = 0; i < N_VERBS; i++) {
		if (verbs[i]->group == group)
			(void)printf("  %-9s %s\n", verbs[i]->name, verbs[i]->summary);
	}
	(void)printf("\n");
}

static int print_help(void)
{
	(void)printf("Usage: holt VERB [OPTIONS]\n"
		     "Runs commands in micro-VMs made from OCI images.\n\n");
	print_group(CLI_RUNNING, "work in boxes");
	print_group(CLI_BOXES, "the life of boxes");
	print_group(CLI_LOOKING, "a look at boxes");
	print_group(CLI_HOST, "images and the host");
	(void)printf("'holt VERB --help' tells more. Environment:\n"
		     "  HOLT_HOME   directory with all state\n"
		     "  HOLT_ACCEL  auto (default), kvm or tcg\n"
		     "  HOLT_LOG    error, warn, info or debug: log to stderr\n\n"
		     "Example:\n"
		     "  holt run alpine:3 uname -a\n");
	return cli_finish();
}

static const struct cli_verb *find_verb(const char *name)
{
	for (size_t i = 0; i < N_VERBS; i++) {
		if (strcmp(verbs[i]->name, name) == 0)
			return verbs[i];
	}
	return NULL;
}

static int print_verb_help(const struct cli_verb *verb)
{
	(void)fputs(verb->help, stdout);
	return cli_finish();
}

/* "holt help image ls" is "holt image ls --help". */
static int print_subverb_help(const struct cli_verb *verb, char *name, char *subverb)
{
	char help[] = "--help";
	char *words[] = {name, subverb, help, NULL};

	return verb->main(3, words);
}

/* Whether the verb itself is asked for help: before any word that is not an option. */
static int wants_help(int argc, char **argv)
{
	return argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0);
}

/* Descriptors 0, 1 and 2 must be taken, or the next file opened would be mistaken for them. */
static void guard_std_fds(void)
{
	int fd;

	do {
		fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	} while (fd >= 0 && fd <= 2);
	if (fd > 2)
		(void)close(fd);
}

/* The surroundings that a caller may leave us in and that no part of the library may change: a mask
 * that takes our own files away from us, and a limit of file sizes that would kill us. */
static void guard_process(void)
{
	guard_std_fds();
	(void)umask(umask(0) & 077);
	(void)sigaction(SIGXFSZ, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "--help";

	guard_process();
	set_log();
	if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 ||
		(strcmp(name, "help") == 0 && argc < 3))
		return argc > 1 ? print_help() : (print_help(), CLI_USAGE);
	if (strcmp(name, "--version") == 0)
		name = "version";
	const int help = strcmp(name, "help") == 0;
	const struct cli_verb *verb = find_verb(help ? argv[2] : name);
	if (!verb)
		return cli_usage(CLI_USAGE, "", "'%.64s' is not a verb", help ? argv[2] : name);
	if (help && verb->has_subverbs && argc > 3)
		return print_subverb_help(verb, argv[2], argv[3]);
	if (help || wants_help(argc - 1, argv + 1))
		return print_verb_help(verb);
	return verb->main(argc - 1, argv + 1);
}
