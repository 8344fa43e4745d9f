/* SPDX-License-Identifier: Apache-2.0 */
/* holt pull, which is holt image pull: from a registry into the store. */
#include "cmd_pull.h"
#include "foreground.h"
#include "pull_args.h"
#include "pull_view.h"

static struct pull_args args;

static int print_result(holt_image *image)
{
	(void)printf("%s\n", args.json ? holt_image_json(image) : holt_image_digest(image));
	return cli_finish();
}

static int pull(struct foreground *f, holt_home *home, holt_error **reterr)
{
	holt_image *image = NULL;
	const unsigned flags = args.quiet ? PULL_VIEW_QUIET : args.json ? PULL_VIEW_JSON : 0;

	args.pull.cancel = f->cancel;
	const int r = pull_view(home, args.ref, &args.pull, flags, &image, reterr);
	pull_args_forget(&args);
	if (r < 0)
		return -1;
	const int status = print_result(image);
	holt_image_free(image);
	return status;
}

static int pull_as(const char *verb, int argc, char **argv)
{
	struct foreground f = {.verb = verb, .failure = CLI_FAILED, .work = pull};
	int status = pull_args_parse(&args, verb, argc, argv);

	if (!status && args.password_stdin)
		status = pull_args_password(&args, stdin);
	return status ? status : foreground_run(&f);
}

static int pull_main(int argc, char **argv)
{
	return pull_as("pull", argc, argv);
}

int image_pull_main(int argc, char **argv, const void *user)
{
	(void)user;
	return pull_as("image pull", argc, argv);
}

#define OPTIONS                                                                            \
	"Loads an image from its registry, and prints its digest. Layers that are there\n" \
	"already are not loaded again, and what a pull that was cut short has loaded is\n" \
	"kept for the next one. REF is [REGISTRY[:PORT]/]NAME[:TAG][@DIGEST]; without\n"   \
	"REGISTRY it is one of Docker Hub, without TAG 'latest'.\n\n"                      \
	"Options:\n"                                                                       \
	"      --ca-file FILE      trust the authorities in FILE (PEM) instead of the\n"   \
	"                          system's\n"                                             \
	"      --creds USER        log in as USER, with --password-stdin; otherwise as\n"  \
	"                          docker's configuration says\n"                          \
	"      --insecure          any certificate will do, or plain http\n"               \
	"      --json              print events, an object a line, and the image last\n"   \
	"      --password-stdin    read the password from standard input\n"                \
	"      --platform P        linux/amd64, the only one that runs here\n"             \
	"  -q, --quiet             no progress\n\n"

const char image_pull_help[] = "Usage: holt image pull [OPTIONS] REF\n\n" OPTIONS "Example:\n"
			       "  holt image pull registry.example.org/tools:1.2\n";

const struct cli_verb verb_pull = {
	.name = "pull",
	.summary = "load an image from a registry",
	.group = CLI_HOST,
	.help = "Usage: holt pull [OPTIONS] REF\n\n" OPTIONS "Example:\n"
		"  holt pull alpine:3 && holt run alpine:3 uname\n"
		"  holt pull --creds ann --password-stdin registry.example.org/a <password\n",
	.main = pull_main,
};
