/* SPDX-License-Identifier: Apache-2.0 */
/*
 * holt logs: what the program of a box wrote. The pieces of a log end anywhere, so each stream
 * remembers whether a line is open.
 */
#include "guest_stream.h"

#include <getopt.h>
#include <string.h>

struct stream {
	struct guest_stream guest;
	int in_line;
};

struct logs {
	int follow, times;
	uint64_t tail;
	struct stream streams[2];
};

static void put_lines(struct stream *s, const char *data, size_t len, uint64_t time_ns)
{
	char time[64];

	cli_format_time(time, sizeof time, (int64_t)time_ns);
	while (len > 0) {
		const char *end = memchr(data, '\n', len);
		const size_t n = end ? (size_t)(end - data) + 1 : len;

		if (!s->in_line)
			(void)fprintf(s->guest.out, "%s ", time);
		(void)guest_stream_put(&s->guest, data, n);
		s->in_line = !end;
		data += n;
		len -= n;
	}
}

/* Without a time-out, so that all that is there is written at once, before the wait. Returns as
 * holt_log_next. */
static int next(const struct logs *l, holt_log_reader *log, const void **data, size_t *len,
	int *stream, uint64_t *time_ns, holt_error **reterr)
{
	const int r = holt_log_next(log, 0, NULL, data, len, stream, time_ns, reterr);

	if (r < 0 || *len > 0 || !l->follow)
		return r;
	(void)fflush(stdout);
	return holt_log_next(log, HOLT_FOREVER, NULL, data, len, stream, time_ns, reterr);
}

static int show(struct logs *l, holt_log_reader *log, holt_error **reterr)
{
	struct stream *last = &l->streams[0];

	for (;;) {
		const void *data = NULL;
		size_t len = 0;
		int number = HOLT_STDOUT;
		uint64_t time_ns = 0;
		const int r = next(l, log, &data, &len, &number, &time_ns, reterr);

		if (r < 0 || len == 0)
			return r;
		struct stream *s = &l->streams[number == HOLT_STDERR];
		/* Both may be one terminal: the order is to be seen. */
		if (s != last)
			(void)fflush(last->guest.out);
		last = s;
		if (l->times)
			put_lines(s, data, len, time_ns);
		else
			(void)guest_stream_put(&s->guest, data, len);
		if (ferror(s->guest.out))
			return 0;
	}
}

static int parse(struct logs *l, int argc, char **argv)
{
	static const struct option options[] = {{"follow", no_argument, NULL, 'f'},
		{"tail", required_argument, NULL, 'n'}, {"timestamps", no_argument, NULL, 't'},
		{0}};
	uint32_t count = 0;
	int c;

	while ((c = getopt_long(argc, argv, ":fn:t", options, NULL)) != -1) {
		if (c == 'f') {
			l->follow = 1;
		} else if (c == 't') {
			l->times = 1;
		} else if (c != 'n') {
			return cli_bad_option(CLI_USAGE, "logs", c, argv);
		} else if (strcmp(optarg, "all") == 0) {
			l->tail = UINT64_MAX;
		} else {
			if (strcmp(optarg, "0") != 0 && cli_parse_count(optarg, &count) < 0)
				return cli_usage(CLI_USAGE, "logs",
					"-n is not a number of lines: '%.64s'", optarg);
			l->tail = count;
		}
	}
	if (argc - optind != 1)
		return cli_usage(CLI_USAGE, "logs", "takes one BOX");
	return CLI_OK;
}

static int logs_main(int argc, char **argv)
{
	struct logs l = {.tail = UINT64_MAX};
	holt_home *home = NULL;
	holt_box *box = NULL;
	holt_log_reader *log = NULL;
	holt_error *error = NULL;

	int status = parse(&l, argc, argv);
	if (status)
		return status;
	status = cli_open_box(argv[optind], &home, &box);
	if (status)
		return status;
	l.streams[0].guest = guest_stream_to(stdout);
	l.streams[1].guest = guest_stream_to(stderr);
	int r = holt_box_open_log(box, l.tail, &log, &error);
	if (r == 0)
		r = show(&l, log, &error);
	for (int i = 0; i < 2; i++)
		(void)guest_stream_end(&l.streams[i].guest);
	holt_log_close(log);
	cli_close_box(home, box);
	status = r < 0 ? cli_error(CLI_FAILED, error) : CLI_OK;
	return cli_finish_with(status);
}

const struct cli_verb verb_logs = {
	.name = "logs",
	.summary = "print what the program of a box wrote",
	.group = CLI_LOOKING,
	.help = "Usage: holt logs [-f] [-n N] [-t] BOX\n\n"
		"Prints the newest output that is kept (see --log-size of 'holt run'), stdout to\n"
		"stdout and stderr to stderr. A terminal gets control characters as \\xHH.\n\n"
		"Options:\n"
		"  -f, --follow      go on until the box ends\n"
		"  -n, --tail N      the last N lines only; all\n"
		"  -t, --timestamps  the time of writing in front of each line\n\n"
		"Example:\n"
		"  holt logs -f -n 20 web\n",
	.main = logs_main,
};
