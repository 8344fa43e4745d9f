/* SPDX-License-Identifier: Apache-2.0 */
/* holt image export: an image of the store as an archive, whole or not at all. */
#include "cmd_image.h"
#include "cli.h"
#include "foreground.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct {
	const char *ref;
	const char *file; /* NULL: standard output */
	char temp[PATH_MAX];
} job;

static int fail_file(const char *what)
{
	char shown[512];
	const int errnum = errno;

	(void)cli_escape_str(shown, sizeof shown, job.file);
	(void)fprintf(
		stderr, "holt: image export: cannot %s '%s': %s\n", what, shown, strerror(errnum));
	return CLI_FAILED;
}

/* A new file beside the one that is asked for, so that renaming it is all that is left to do. */
static int open_temp(void)
{
	const char *slash = strrchr(job.file, '/');
	const int dir_len = slash ? (int)(slash - job.file) + 1 : 0;
	int fd = -1;

	for (unsigned at = 0; fd < 0 && at < 100; at++) {
		const int n = snprintf(job.temp, sizeof job.temp, "%.*s.holt-export-%d-%u", dir_len,
			job.file, (int)getpid(), at);
		if (n < 0 || (size_t)n >= sizeof job.temp) {
			errno = ENAMETOOLONG;
			return -1;
		}
		fd = open(job.temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
		if (fd < 0 && errno != EEXIST)
			return -1;
	}
	return fd;
}

static int export_to_file(struct foreground *f, holt_home *home, holt_error **reterr)
{
	const int fd = open_temp();

	if (fd < 0)
		return fail_file("make a file beside");
	int r = holt_image_export(home, job.ref, fd, f->cancel, reterr);
	const int synced = r < 0 ? 0 : fsync(fd);
	const int closed = close(fd);
	if (r < 0)
		r = -1;
	else if (synced < 0 || closed < 0)
		r = fail_file("write");
	else if (rename(job.temp, job.file) < 0)
		r = fail_file("replace");
	if (r != CLI_OK)
		(void)unlink(job.temp);
	return r;
}

static int work(struct foreground *f, holt_home *home, holt_error **reterr)
{
	if (job.file)
		return export_to_file(f, home, reterr);
	return holt_image_export(home, job.ref, STDOUT_FILENO, f->cancel, reterr) < 0 ? -1 : CLI_OK;
}

int image_export_main(int argc, char **argv, const void *user)
{
	static const struct option options[] = {{"output", required_argument, NULL, 'o'}, {0}};
	struct foreground f = {.verb = "image export", .work = work, .failure = CLI_FAILED};
	struct stat st;
	int c;

	(void)user;
	while ((c = getopt_long(argc, argv, ":o:", options, NULL)) != -1) {
		if (c != 'o')
			return cli_bad_option(CLI_USAGE, "image", c, argv);
		job.file = optarg;
	}
	if (optind + 1 != argc)
		return cli_usage(CLI_USAGE, "image", "export takes one IMAGE");
	if (!job.file && isatty(STDOUT_FILENO))
		return cli_usage(
			CLI_USAGE, "image", "no archive is written to a terminal; use -o FILE");
	if (job.file && stat(job.file, &st) == 0 && !S_ISREG(st.st_mode))
		return cli_usage(CLI_USAGE, "image", "-o takes a file, and no other kind is there");
	job.ref = argv[optind];
	return foreground_run(&f);
}

const char image_export_help[] =
	"Usage: holt image export IMAGE [-o FILE]\n\n"
	"Writes the image as an OCI archive (a tar file of an OCI image layout), with its\n"
	"root file system as one layer. The same image gives the same bytes.\n\n"
	"Options:\n"
	"  -o, --output FILE  write to FILE, which appears when it is complete; default:\n"
	"                     standard output\n\n"
	"Example:\n"
	"  holt image export tools -o tools.tar && skopeo inspect oci-archive:tools.tar\n";
