/* SPDX-License-Identifier: Apache-2.0 */
/*
 * holt port: what docker's prints: "80/tcp -> 127.0.0.1:8080" for each published port, or only the
 * right side for the one that is asked for.
 */
#include "cli.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

struct wanted {
	long port; /* 0: all */
	const char *proto;
};

static int parse_wanted(const char *text, struct wanted *ret)
{
	char *end = NULL;

	ret->port = strtol(text, &end, 10);
	ret->proto = *end == '/' ? end + 1 : "tcp";
	return text[0] >= '0' && text[0] <= '9' && ret->port >= 1 && ret->port <= 65535 &&
			       (*end == 0 || strcmp(end, "/tcp") == 0 || strcmp(end, "/udp") == 0)
		       ? 0
		       : -1;
}

/* "ADDRESS:HOST:GUEST/PROTO". Returns whether it is one of those that are wanted. */
static int show_port(const char *text, const struct wanted *w)
{
	const char *guest = strrchr(text, ':');
	const char *proto = guest ? strchr(guest, '/') : NULL;

	if (!proto)
		return 0;
	if (w->port == 0)
		(void)printf("%s -> %.*s\n", guest + 1, (int)(guest - text), text);
	else if (strtol(guest + 1, NULL, 10) == w->port && strcmp(proto + 1, w->proto) == 0)
		(void)printf("%.*s\n", (int)(guest - text), text);
	else
		return 0;
	return 1;
}

static int show(const char *name, const struct wanted *w, const char *asked)
{
	holt_home *home = NULL;
	holt_box *box = NULL;
	holt_error *error = NULL;
	const char *const *ports = NULL;
	int found = 0;
	int status = cli_open_box(name, &home, &box);

	if (status)
		return status;
	if (holt_box_ports(box, &ports, &error) < 0)
		status = cli_error(CLI_FAILED, error);
	for (size_t i = 0; status == 0 && ports[i]; i++)
		found |= show_port(ports[i], w);
	cli_close_box(home, box);
	if (status == 0 && w->port && !found) {
		(void)fprintf(
			stderr, "holt port: no port of '%.64s' leads to %.16s\n", name, asked);
		status = CLI_FAILED;
	}
	return cli_finish_with(status);
}

static int port_main(int argc, char **argv)
{
	struct wanted w = {0};
	const int status = cli_no_options("port", argc, argv);

	if (status)
		return status;
	if (optind == argc)
		return cli_usage(CLI_USAGE, "port", "no BOX given");
	if (argc - optind > 2)
		return cli_usage(
			CLI_USAGE, "port", "unexpected argument '%.64s'", argv[optind + 2]);
	if (argc - optind == 2 && parse_wanted(argv[optind + 1], &w) < 0)
		return cli_usage(CLI_USAGE, "port", "not a port such as 80 or 53/udp: '%.64s'",
			argv[optind + 1]);
	return show(argv[optind], &w, argv[optind + 1]);
}

const struct cli_verb verb_port = {
	.name = "port",
	.summary = "list published ports of a box",
	.group = CLI_LOOKING,
	.help = "Usage: holt port BOX [GUEST[/PROTO]]\n\n"
		"Lists the box's ports that are published, and where on this host they are; or\n"
		"only where the one port is.\n\n"
		"Example:\n"
		"  curl http://$(holt port web 80)/\n",
	.main = port_main,
};
