/* SPDX-License-Identifier: Apache-2.0 */
/* holt sandbox: files. Content comes from stdin and goes to stdout piece by piece, so it may be of
 * any size. */
#include "guest_stream.h"
#include "sandbox_verbs.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- out ---- */

struct sink {
	struct guest_stream stream;
	int errnum; /* why stdout failed, or 0 */
};

static int put(const void *data, size_t len, void *user)
{
	struct sink *s = user;

	if (guest_stream_put(&s->stream, data, len) < 0)
		s->errnum = errno;
	return s->errnum;
}

/* Returns an exit status or -1. */
static int end_output(struct sink *s, int r, holt_error **reterr)
{
	(void)guest_stream_end(&s->stream);
	if (s->errnum)
		return sandbox_failed(reterr, HOLT_EIO, s->errnum, "cannot write to stdout");
	return r < 0 ? -1 : CLI_OK;
}

int sandbox_read(holt_sandbox *sandbox, const struct sandbox_args *a, holt_error **reterr)
{
	struct sink s = {.stream = guest_stream_to(stdout)};
	holt_read_options o = HOLT_READ_OPTIONS_INIT;

	o.flags = a->flags;
	o.first_line = a->first_line;
	o.last_line = a->last_line;
	o.timeout_ms = a->timeout_ms;
	const int r = holt_sandbox_read_to(sandbox, a->words[0], &o, put, &s, reterr);
	return end_output(&s, r, reterr);
}

static holt_call_options call_options(const struct sandbox_args *a)
{
	holt_call_options o = HOLT_CALL_OPTIONS_INIT;

	o.flags = a->flags;
	o.timeout_ms = a->timeout_ms;
	return o;
}

int sandbox_download(holt_sandbox *sandbox, const struct sandbox_args *a, holt_error **reterr)
{
	struct sink s = {.stream = guest_stream_to(stdout)};
	const holt_call_options o = call_options(a);
	const int r = holt_sandbox_download_to(sandbox, a->words[0], &o, put, &s, reterr);

	return end_output(&s, r, reterr);
}

/* ---- in ---- */

struct source {
	uint64_t end_ms; /* when the call's time is over; HOLT_FOREVER */
	int errnum; /* why stdin failed, or 0; ETIMEDOUT where it was too slow */
};

static uint64_t now_ms(void)
{
	struct timespec now = {0};

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static struct source source_of(const struct sandbox_args *a)
{
	const uint64_t ms = a->timeout_ms ? a->timeout_ms : HOLT_SANDBOX_TIMEOUT_MS_DEFAULT;
	const uint64_t now = now_ms();

	return (struct source){.end_ms = ms > HOLT_FOREVER - now ? HOLT_FOREVER : now + ms};
}

/* The library cannot end a call that waits for stdin. Returns 0, or an errno. */
static int await_stdin(const struct source *s)
{
	struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
	int n = 0;

	while (n == 0 || (n < 0 && errno == EINTR)) {
		const uint64_t now = now_ms();

		if (now >= s->end_ms)
			return ETIMEDOUT;
		const uint64_t left = s->end_ms == HOLT_FOREVER ? INT_MAX : s->end_ms - now;
		n = poll(&in, 1, left < INT_MAX ? (int)left : INT_MAX);
	}
	return n < 0 ? errno : 0;
}

static int give(void *data, size_t size, size_t *ret_len, void *user)
{
	struct source *s = user;
	ssize_t n = -1;

	errno = EINTR;
	while (n < 0 && (errno == EINTR || errno == EAGAIN)) {
		s->errnum = await_stdin(s);
		if (s->errnum)
			return s->errnum;
		n = read(STDIN_FILENO, data, size);
	}
	s->errnum = n < 0 ? errno : 0;
	*ret_len = n < 0 ? 0 : (size_t)n;
	return s->errnum;
}

typedef int put_fn(holt_sandbox *sandbox, const char *path, holt_source_fn source, void *user,
	const holt_call_options *options, holt_error **reterr);

static int put_content(
	holt_sandbox *sandbox, const struct sandbox_args *a, put_fn *store, holt_error **reterr)
{
	struct source s = source_of(a);
	const holt_call_options o = call_options(a);
	const int r = store(sandbox, a->words[0], give, &s, &o, reterr);

	if (s.errnum == ETIMEDOUT)
		return sandbox_failed(
			reterr, HOLT_ETIMEOUT, 0, "the time was over before the end of stdin");
	if (s.errnum)
		return sandbox_failed(reterr, HOLT_EIO, s.errnum, "cannot read stdin");
	return r < 0 ? -1 : CLI_OK;
}

int sandbox_write(holt_sandbox *sandbox, const struct sandbox_args *a, holt_error **reterr)
{
	return put_content(sandbox, a, holt_sandbox_write_from, reterr);
}

int sandbox_append(holt_sandbox *sandbox, const struct sandbox_args *a, holt_error **reterr)
{
	return put_content(sandbox, a, holt_sandbox_append_from, reterr);
}

/* ---- names ---- */

int sandbox_make_directory(holt_sandbox *sandbox, const struct sandbox_args *a, holt_error **reterr)
{
	const holt_call_options o = call_options(a);

	return holt_sandbox_make_directory(sandbox, a->words[0], &o, reterr) < 0 ? -1 : CLI_OK;
}

int sandbox_remove(holt_sandbox *sandbox, const struct sandbox_args *a, holt_error **reterr)
{
	const holt_call_options o = call_options(a);

	return holt_sandbox_remove(sandbox, a->words[0], &o, reterr) < 0 ? -1 : CLI_OK;
}

int sandbox_move(holt_sandbox *sandbox, const struct sandbox_args *a, holt_error **reterr)
{
	const holt_call_options o = call_options(a);

	return holt_sandbox_move(sandbox, a->words[0], a->words[1], &o, reterr) < 0 ? -1 : CLI_OK;
}

int sandbox_stat(holt_sandbox *sandbox, const struct sandbox_args *a, holt_error **reterr)
{
	const holt_call_options o = call_options(a);
	holt_file_info info = HOLT_FILE_INFO_INIT;
	char mtime[64];

	if (holt_sandbox_stat(sandbox, a->words[0], &o, &info, reterr) < 0)
		return -1;
	const char *const type = sandbox_type_name(info.type);
	const unsigned long long size = info.size_bytes;
	cli_format_time(mtime, sizeof mtime, info.mtime_ns);
	if (a->given & SANDBOX_JSON)
		(void)printf("{\"type\":\"%s\",\"mode\":\"%04o\",\"uid\":%u,\"gid\":%u,"
			     "\"size\":%llu,\"mtime\":\"%s\"}\n",
			type, info.mode, info.uid, info.gid, size, mtime);
	else
		(void)printf("%s %04o %u %u %llu %s\n", type, info.mode, info.uid, info.gid, size,
			mtime);
	return CLI_OK;
}

/* ---- help ---- */

const char sandbox_read_help[] =
	"Usage: holt sandbox read [OPTIONS] BOX PATH\n\n"
	"Prints a regular file, byte for byte; a terminal gets control characters as\n"
	"\\xHH. A line ends with a line feed and with nothing else.\n\n"
	"Options:\n"
	"      --lines N:M     lines N to M only, without the last one's end; N:, :M, "
	"N\n" SANDBOX_COMMON_HELP "Example:\n"
	"  holt sandbox read --lines 2:5 web /etc/passwd\n";

const char sandbox_download_help[] =
	"Usage: holt sandbox download [OPTIONS] BOX PATH\n\n"
	"Prints a regular file beneath the user-data directory, of at most 100 MiB, byte\n"
	"for byte. A path that is written otherwise is refused; symbolic links in the box\n"
	"are followed. A terminal gets control characters as \\xHH.\n\n"
	"Options:\n"
	"      --user-data DIR where downloads come from (/mnt/user-data)\n" SANDBOX_COMMON_HELP
	"Example:\n"
	"  holt sandbox download web /mnt/user-data/outputs/plot.png >plot.png\n";

#define WRITE_OPTIONS \
	"Options:\n"  \
	"      --exclusive     fail where something is there\n" SANDBOX_COMMON_HELP

const char sandbox_write_help[] =
	"Usage: holt sandbox write [OPTIONS] BOX PATH\n\n"
	"Replaces the content of a file by stdin, in one step: who reads sees the old or\n"
	"the new, whole; but in place is written where the directory may not be written\n"
	"to, the owner cannot be kept, or PATH is a mount point or no regular file.\n"
	"Missing directories are made. Mode and owner stay.\n\n" WRITE_OPTIONS "Example:\n"
	"  holt sandbox write web /srv/index.html <index.html\n";

const char sandbox_update_help[] =
	"Usage: holt sandbox update [OPTIONS] BOX PATH\n\n"
	"Replaces the content of a file by the bytes of stdin. In a box that is the same\n"
	"as 'holt sandbox write'.\n\n" WRITE_OPTIONS "Example:\n"
	"  holt sandbox update web /srv/logo.png <logo.png\n";

const char sandbox_append_help[] =
	"Usage: holt sandbox append [OPTIONS] BOX PATH\n\n"
	"Adds stdin at the end of a file, or makes it. What others add meanwhile is not\n"
	"lost. Missing directories are made.\n\n" WRITE_OPTIONS "Example:\n"
	"  date | holt sandbox append web notes/log.txt\n";

const char sandbox_stat_help[] =
	"Usage: holt sandbox stat [OPTIONS] BOX PATH\n\n"
	"Prints type, mode, uid, gid, size in bytes and time of modification in one line.\n"
	"Types are file, directory, symlink, fifo, socket, char and block.\n\n"
	"Options:\n"
	"      --json          print a JSON object\n"
	"  -P, --no-follow     look at a symbolic link itself\n" SANDBOX_COMMON_HELP "Example:\n"
	"  holt sandbox stat --json web /etc/passwd\n";

const char sandbox_make_directory_help[] = "Usage: holt sandbox mkdir [OPTIONS] BOX PATH\n\n"
					   "Makes a directory.\n\n"
					   "Options:\n"
					   "  -p, --parents       make those above, too; one that "
					   "is there is fine\n" SANDBOX_COMMON_HELP "Example:\n"
					   "  holt sandbox mkdir -p web /srv/data/in\n";

const char sandbox_remove_help[] =
	"Usage: holt sandbox rm [OPTIONS] BOX PATH\n\n"
	"Removes a file, a symbolic link itself, or an empty directory.\n\n"
	"Options:\n"
	"  -f, --force         what is missing is no failure\n"
	"  -r, --recursive     a directory with all that is in it\n" SANDBOX_COMMON_HELP
	"Example:\n"
	"  holt sandbox rm -rf web /srv/data\n";

const char sandbox_move_help[] =
	"Usage: holt sandbox mv [OPTIONS] BOX FROM TO\n\n"
	"Gives a file or a directory another name. A file replaces a file, a directory an\n"
	"empty directory; nothing is moved into a directory that is there.\n\n"
	"Options:\n"
	"  -n, --no-clobber    fail where something is there\n" SANDBOX_COMMON_HELP "Example:\n"
	"  holt sandbox mv web /srv/new.html /srv/index.html\n";
