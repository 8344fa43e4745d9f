/* SPDX-License-Identifier: Apache-2.0 */
#include "exec_args.h"
#include "terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <string.h>
#include <unistd.h>

int exec_args_bad(const struct exec_args *a, const char *what, const char *value)
{
	return cli_usage(CLI_RUN_FAILED, a->foreground.verb, "%s '%.64s'", what, value);
}

/* holt's own "K=V" of a variable, or NULL. */
static const char *own_variable(const char *name)
{
	const size_t len = strlen(name);
	char **var = environ;

	while (*var && (strncmp(*var, name, len) != 0 || (*var)[len] != '='))
		var++;
	return *var;
}

/* "K=V", or "K" for holt's own value of it, as docker does: unset there is unset here. */
static int add_env(struct exec_args *a, const char *text)
{
	if (*text == 0 || *text == '=')
		return exec_args_bad(a, "environment variable without a name:", text);
	if (a->n_env == ENV_MAX)
		return cli_usage(CLI_RUN_FAILED, a->foreground.verb,
			"more than %d environment variables", ENV_MAX);
	const char *own = strchr(text, '=') ? NULL : own_variable(text);
	a->env[a->n_env++] = own ? own : text;
	return 0;
}

static int add_env_file(struct exec_args *a, const char *path)
{
	if (a->n_env_files == ENV_FILES_MAX)
		return exec_args_bad(a, "too many files, with", path);
	a->env_files[a->n_env_files++] = path;
	return 0;
}

static int set_replay(struct exec_args *a, const char *text)
{
	uint64_t bytes = 0;

	if (cli_parse_bytes(text, &bytes) < 0 || bytes > UINT32_MAX)
		return exec_args_bad(a, "--replay-size is not a size such as 1m:", text);
	a->exec.replay_bytes = (uint32_t)bytes;
	return 0;
}

int exec_args_take(struct exec_args *a, int c, char **argv)
{
	switch (c) {
	case 'd':
		a->foreground.detach = 1;
		return 0;
	case 'e':
		return add_env(a, optarg);
	case 'i':
		a->foreground.interactive = 1;
		return 0;
	case 't':
		a->foreground.tty = 1;
		return 0;
	case 'u':
		a->exec.user = optarg;
		return 0;
	case 'w':
		a->exec.cwd = optarg;
		return *optarg == '/' ? 0 : exec_args_bad(a, "-w is not an absolute path:", optarg);
	case OPT_ENV_FILE:
		return add_env_file(a, optarg);
	case OPT_PIDS_LIMIT:
		return cli_parse_count(optarg, &a->exec.pids_max) < 0
			       ? exec_args_bad(a, "--pids-limit is not a whole number:", optarg)
			       : 0;
	case OPT_REPLAY_SIZE:
		return set_replay(a, optarg);
	case OPT_TIMEOUT:
		return cli_parse_duration_ms(optarg, &a->exec.timeout_ms) < 0
			       ? exec_args_bad(a,
					 "--timeout is not a time such as 10, 1.5s or 2m:", optarg)
			       : 0;
	default:
		return cli_bad_option(CLI_RUN_FAILED, a->foreground.verb, c, argv);
	}
}

/* The whole file, NUL-terminated, behind the ones before it. Returns it, or NULL with errno. */
static char *read_file(const char *path)
{
	static char text[ENV_BYTES_MAX];
	static size_t used;
	char *start = text + used;
	ssize_t n = 1;
	const int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return NULL;
	while (n > 0 && used < sizeof text) {
		n = read(fd, text + used, sizeof text - used);
		used += n > 0 ? (size_t)n : 0;
	}
	const int errnum = n < 0 ? errno : used == sizeof text ? EFBIG : 0;
	(void)close(fd);
	errno = errnum;
	if (errnum)
		return NULL;
	text[used++] = 0;
	return start;
}

/* Docker's format: a "K=V" or a "K" a line, to its end as it is; '#' begins a comment line. */
static int add_env_line(struct exec_args *a, char *line, const char *path)
{
	line += strspn(line, " \t");
	const size_t len = strlen(line);
	if (len && line[len - 1] == '\r')
		line[len - 1] = 0;
	if (*line == 0 || *line == '#')
		return 0;
	if (line[strcspn(line, " \t=")] != '=' && strpbrk(line, " \t"))
		return exec_args_bad(a, "a variable with a blank in its name is in", path);
	if (!strchr(line, '=') && !own_variable(line))
		return 0;
	return add_env(a, line);
}

static int load_env_file(struct exec_args *a, const char *path)
{
	char *text = read_file(path);

	if (!text)
		return cli_usage(CLI_RUN_FAILED, a->foreground.verb,
			"cannot read the env file '%.64s': %s", path, strerror(errno));
	if (strncmp(text, "\xef\xbb\xbf", 3) == 0)
		text += 3;
	while (text) {
		char *line = strsep(&text, "\n");
		const int status = add_env_line(a, line, path);

		if (status)
			return status;
	}
	return 0;
}

/* The files come first, so that -e has the last word wherever it stands. */
static int load_env_files(struct exec_args *a)
{
	static const char *given[ENV_MAX];
	const size_t n = a->n_env;
	int status = 0;

	memcpy(given, a->env, n * sizeof *given);
	a->n_env = 0;
	for (size_t i = 0; i < a->n_env_files && status == 0; i++)
		status = load_env_file(a, a->env_files[i]);
	for (size_t i = 0; i < n && status == 0; i++)
		status = add_env(a, given[i]);
	return status;
}

int exec_args_finish(struct exec_args *a)
{
	struct foreground *f = &a->foreground;
	const int status = a->n_env_files ? load_env_files(a) : 0;

	if (status)
		return status;
	if (f->tty)
		(void)terminal_size(&a->exec.rows, &a->exec.cols);
	f->timeout_ms = a->exec.timeout_ms;
	a->exec.env = a->env;
	a->exec.flags = (f->interactive ? HOLT_EXEC_STDIN : 0) | (f->tty ? HOLT_EXEC_TTY : 0);
	return 0;
}
