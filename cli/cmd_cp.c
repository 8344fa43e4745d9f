/* SPDX-License-Identifier: Apache-2.0 */
/*
 * holt cp: the rules for files and directories are the library's; here it is told which side is the
 * box. A word is BOX:PATH unless it is absolute or begins with '.', as docker has it, so that
 * "./a:b" is a file of the host.
 */
#include "foreground.h"

#include <getopt.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

struct place {
	const char *box; /* NULL: the host */
	const char *path; /* "-": a tar archive, on the host */
};

static struct place parse_place(char *word)
{
	char *colon = strchr(word, ':');

	if (!colon || colon == word || *word == '/' || *word == '.')
		return (struct place){NULL, word};
	*colon = 0;
	return (struct place){word, colon + 1};
}

/* A path in a box counts from its root. Returns 0, or -1 where it is too long. */
static int absolute(const char *path, char *dst, size_t cap)
{
	const int n = snprintf(dst, cap, "%s%s", *path == '/' ? "" : "/", path);

	return n < 0 || (size_t)n >= cap ? -1 : 0;
}

static int is_tar(const struct place *place)
{
	return !place->box && strcmp(place->path, "-") == 0;
}

static struct {
	struct place from;
	struct place to;
	uint32_t flags;
} job;

static int copy(holt_box *box, const char *path, holt_cancel *cancel, holt_error **reterr)
{
	if (is_tar(&job.from))
		return holt_copy_in_tar(box, STDIN_FILENO, path, job.flags, cancel, reterr);
	if (is_tar(&job.to))
		return holt_copy_out_tar(box, path, STDOUT_FILENO, job.flags, cancel, reterr);
	if (job.from.box)
		return holt_copy_out(box, path, job.to.path, job.flags, cancel, reterr);
	return holt_copy_in(box, job.from.path, path, job.flags, cancel, reterr);
}

static int work(struct foreground *f, holt_home *home, holt_error **reterr)
{
	const struct place *inside = job.from.box ? &job.from : &job.to;
	char path[PATH_MAX];
	holt_box *box = NULL;

	if (absolute(inside->path, path, sizeof path) < 0)
		return cli_usage(CLI_USAGE, "cp", "the path in the box is too long");
	int r = holt_box_get(home, inside->box, &box, reterr);
	if (r == 0)
		r = copy(box, path, f->cancel, reterr);
	holt_box_close(box);
	return r < 0 ? -1 : CLI_OK;
}

static int check(const struct place *from, const struct place *to)
{
	if (!from->box == !to->box)
		return cli_usage(CLI_USAGE, "cp",
			"one side has to be BOX:PATH, the other a path of the host or -");
	if (!*from->path || !*to->path)
		return cli_usage(CLI_USAGE, "cp", "a path is empty");
	if (is_tar(to) && isatty(STDOUT_FILENO))
		return cli_usage(CLI_USAGE, "cp", "no tar archive is written to a terminal");
	if (is_tar(from) && isatty(STDIN_FILENO))
		return cli_usage(CLI_USAGE, "cp", "no tar archive is read from a terminal");
	return CLI_OK;
}

static int cp_main(int argc, char **argv)
{
	static const struct option options[] = {
		{"archive", no_argument, NULL, 'a'}, {"follow-link", no_argument, NULL, 'L'}, {0}};
	struct foreground f = {.verb = "cp", .work = work, .failure = CLI_FAILED};
	int c;

	while ((c = getopt_long(argc, argv, ":aL", options, NULL)) != -1) {
		if (c == 'a')
			job.flags |= HOLT_COPY_ARCHIVE;
		else if (c == 'L')
			job.flags |= HOLT_COPY_FOLLOW;
		else
			return cli_bad_option(CLI_USAGE, "cp", c, argv);
	}
	if (argc - optind != 2)
		return cli_usage(CLI_USAGE, "cp", "takes a source and a target");
	job.from = parse_place(argv[optind]);
	job.to = parse_place(argv[optind + 1]);
	const int status = check(&job.from, &job.to);
	return status ? status : foreground_run(&f);
}

const struct cli_verb verb_cp = {
	.name = "cp",
	.summary = "copy files into or out of a box",
	.group = CLI_RUNNING,
	.help = "Usage: holt cp [-a] [-L] BOX:PATH PATH|-\n"
		"       holt cp [-a] [-L] PATH|- BOX:PATH\n\n"
		"Copies files and directories by docker's rules: a directory goes into one that\n"
		"is there; with '/.' behind the source, only what is inside goes there. '-' is\n"
		"a tar archive on stdin or stdout. A host path with a colon is written ./a:b.\n\n"
		"Options:\n"
		"  -a, --archive      keep owner and group\n"
		"  -L, --follow-link  a source that is a symbolic link means its target\n\n"
		"Example:\n"
		"  holt cp ./site/. web:/srv && holt cp web:/var/log - | tar t\n",
	.main = cp_main,
};
