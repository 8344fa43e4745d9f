/* SPDX-License-Identifier: Apache-2.0 */
#include "pull_args.h"

#include <getopt.h>
#include <string.h>

enum { OPT_CA_FILE = 256, OPT_CREDS, OPT_INSECURE, OPT_JSON, OPT_PASSWORD_STDIN, OPT_PLATFORM };

static char password[PULL_PASSWORD_MAX + 1];

static int take_option(struct pull_args *a, const char *verb, int c, char **argv)
{
	switch (c) {
	case 'q':
		a->quiet = 1;
		return CLI_OK;
	case OPT_CA_FILE:
		a->pull.ca_file = optarg;
		return CLI_OK;
	case OPT_CREDS:
		a->pull.username = optarg;
		return CLI_OK;
	case OPT_INSECURE:
		a->pull.flags |= HOLT_PULL_INSECURE;
		return CLI_OK;
	case OPT_JSON:
		a->json = 1;
		return CLI_OK;
	case OPT_PASSWORD_STDIN:
		a->password_stdin = 1;
		return CLI_OK;
	case OPT_PLATFORM:
		a->pull.platform = optarg;
		return CLI_OK;
	default:
		return cli_bad_option(CLI_USAGE, verb, c, argv);
	}
}

/* Everybody on the host sees arguments. What was given is not repeated: it may be a password. */
static int check_login(const struct pull_args *a, const char *verb)
{
	const char *user = a->pull.username;

	if (user && strchr(user, ':'))
		return cli_usage(CLI_USAGE, verb,
			"--creds takes a user name only: the password comes with --password-stdin");
	if (user && !*user)
		return cli_usage(CLI_USAGE, verb, "--creds is not a user name: ''");
	if (!user != !a->password_stdin)
		return cli_usage(
			CLI_USAGE, verb, "--creds USER and --password-stdin belong together");
	return CLI_OK;
}

int pull_args_parse(struct pull_args *a, const char *verb, int argc, char **argv)
{
	static const struct option options[] = {{"ca-file", required_argument, NULL, OPT_CA_FILE},
		{"creds", required_argument, NULL, OPT_CREDS},
		{"insecure", no_argument, NULL, OPT_INSECURE},
		{"json", no_argument, NULL, OPT_JSON},
		{"password-stdin", no_argument, NULL, OPT_PASSWORD_STDIN},
		{"platform", required_argument, NULL, OPT_PLATFORM},
		{"quiet", no_argument, NULL, 'q'}, {0}};
	int status = CLI_OK;
	int c;

	*a = (struct pull_args){.pull = HOLT_PULL_OPTIONS_INIT};
	while (!status && (c = getopt_long(argc, argv, ":q", options, NULL)) != -1)
		status = take_option(a, verb, c, argv);
	if (!status)
		status = check_login(a, verb);
	if (!status && optind + 1 != argc)
		status = cli_usage(CLI_USAGE, verb, "takes one REF");
	a->ref = status ? NULL : argv[optind];
	return status;
}

static int no_password(const char *why)
{
	(void)fprintf(stderr, "holt: the password on standard input %s\n", why);
	return CLI_FAILED;
}

int pull_args_password(struct pull_args *a, FILE *in)
{
	size_t len = fread(password, 1, sizeof password, in);

	if (ferror(in))
		return no_password("cannot be read");
	if (len == sizeof password)
		return no_password("is too long");
	len -= len > 0 && password[len - 1] == '\n';
	len -= len > 0 && password[len - 1] == '\r';
	password[len] = 0;
	if (len == 0)
		return no_password("is empty");
	if (strlen(password) != len || strpbrk(password, "\r\n"))
		return no_password("is more than one line, or has a NUL in it");
	a->pull.password = password;
	return CLI_OK;
}

void pull_args_forget(struct pull_args *a)
{
	explicit_bzero(password, sizeof password);
	a->pull.password = NULL;
}
