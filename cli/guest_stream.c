/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a guest wrote, on its way to stdout or stderr. Into a file or a pipe it goes as it is; on a
 * terminal nothing of it can be taken for a command. Pieces end anywhere, so a stream remembers a
 * character that has only begun.
 */
#include "guest_stream.h"

#include <string.h>
#include <unistd.h>

#define CHUNK 1024

struct guest_stream guest_stream_to(FILE *out)
{
	return (struct guest_stream){.out = out, .terminal = isatty(fileno(out))};
}

/* With @more, a character at the end that may go on is held back. */
static void put_escaped(struct guest_stream *s, const char *data, size_t len, int more)
{
	while (len > 0 || (s->n_held && !more)) {
		char in[CHUNK];
		char out[4 * CHUNK + 8];
		size_t n = s->n_held;
		size_t used = 0;
		const size_t taken = len < sizeof in - n ? len : sizeof in - n;

		memcpy(in, s->held, n);
		memcpy(in + n, data, taken);
		n += taken;
		data += taken;
		len -= taken;
		const size_t written = cli_escape(out, sizeof out, in, n,
			CLI_ESCAPE_LINES | (more || len ? CLI_ESCAPE_MORE : 0), &used);
		(void)fwrite(out, 1, written, s->out);
		s->n_held = n - used;
		memcpy(s->held, in + used, s->n_held);
	}
}

int guest_stream_put(struct guest_stream *s, const void *data, size_t len)
{
	if (s->terminal)
		put_escaped(s, data, len, 1);
	else
		(void)fwrite(data, 1, len, s->out);
	return ferror(s->out) ? -1 : 0;
}

int guest_stream_end(struct guest_stream *s)
{
	put_escaped(s, "", 0, 0);
	return ferror(s->out) ? -1 : 0;
}
