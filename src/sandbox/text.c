/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/banned.h"

/*
 * A command in one text. Output is bytes, and a capture may be cut in the middle of a character:
 * what is no UTF-8 is replaced by U+FFFD, one for each longest part of a character, which is what
 * decoders with replacement agree on.
 *
 *   stdout [+ note of a cut]  LF  stderr [+ note of a cut]     no LF where one of them is empty
 *   LF and the notice of a time-out, or LF and "Exit Code: N"  neither after a success
 */

#define REPLACEMENT "\xEF\xBF\xBD"

/* Besides the output. */
#define TEXT_EXTRA_MAX 1024u

void text_time(char *dst, size_t size, uint64_t ms)
{
	if (ms == HOLT_FOREVER)
		(void)snprintf(dst, size, "any time");
	else if (ms % 1000 == 0)
		(void)snprintf(dst, size, "%" PRIu64 " second%s", ms / 1000, ms == 1000 ? "" : "s");
	else
		(void)snprintf(dst, size, "%g seconds", (double)ms / 1000);
}

/* How many bytes a character has that begins with @first, and what its second byte may be; 0 where
 * none begins so. The ranges keep out overlong forms, surrogates and what is beyond U+10FFFF. */
static size_t utf8_begin(unsigned char first, unsigned char *ret_low, unsigned char *ret_high)
{
	*ret_low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
	*ret_high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
	if (first < 0x80)
		return 1;
	if (first < 0xC2 || first > 0xF4)
		return 0;
	return first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
}

size_t text_utf8_step(const unsigned char *p, size_t len, bool *ret_valid)
{
	unsigned char low;
	unsigned char high;
	const size_t need = utf8_begin(p[0], &low, &high);
	size_t n = 1;

	while (n < need && n < len && p[n] >= low && p[n] <= high) {
		low = 0x80;
		high = 0xBF;
		n++;
	}
	*ret_valid = n == need;
	return n;
}

size_t text_chars(const char *p, size_t len, size_t n)
{
	size_t at = 0;
	bool valid;

	for (; n > 0 && at < len; n--) {
		const size_t step = text_utf8_step((const unsigned char *)p + at, len - at, &valid);

		at += valid ? step : 1;
	}
	return at;
}

static int append_utf8(struct buf *b, const void *data, size_t len)
{
	const unsigned char *p = data;
	size_t good = 0; /* bytes at @p that need no replacement */
	bool valid = true;
	int r = 0;

	while (r == 0 && good < len) {
		const size_t n = text_utf8_step(p + good, len - good, &valid);

		if (valid) {
			good += n;
			continue;
		}
		r = buf_append(b, p, good);
		r = r ? r : buf_appends(b, REPLACEMENT);
		p += good + n;
		len -= good + n;
		good = 0;
	}
	return r ? r : buf_append(b, p, good);
}

static int append_stream(struct buf *b, const struct text_stream *s)
{
	int r = append_utf8(b, s->data, s->len);

	if (r == 0 && s->total > s->len)
		r = buf_printf(b,
			"\n... [output truncated after %zu of %" PRIu64
			" bytes; remaining output discarded] ...",
			s->len, s->total);
	return r;
}

static int append_end(struct buf *b, const holt_exit *exit, uint64_t timeout_ms)
{
	const char *between = b->len ? "\n" : "";
	char time[TEXT_TIME_SIZE];

	if (exit->flags & HOLT_EXIT_TIMED_OUT) {
		text_time(time, sizeof time, timeout_ms);
		return buf_printf(b,
			"%sCommand timed out after %s and was terminated. Start what has to run "
			"for long in the background ('command > file 2>&1 &') and look at its file "
			"later, or allow more time.",
			between, time);
	}
	if (exit->code)
		return b->len ? buf_printf(b, "\nExit Code: %d", exit->code)
			      : buf_printf(b, "Command exited with code %d", exit->code);
	return b->len ? 0 : buf_appends(b, "(no output)");
}

char *text_compose(const struct text_stream *out, const struct text_stream *err,
	const holt_exit *exit, uint64_t timeout_ms, size_t *ret_len)
{
	/* Each byte may become a replacement. */
	auto_buf b = BUF_INIT(TEXT_EXTRA_MAX + 3 * (out->len + err->len));
	int r = append_stream(&b, out);

	if (r == 0 && out->len && err->len)
		r = buf_appends(&b, "\n");
	if (r == 0)
		r = append_stream(&b, err);
	if (r == 0)
		r = append_end(&b, exit, timeout_ms);
	if (r < 0)
		return NULL;
	char *text = (char *)b.data;
	*ret_len = b.len;
	b.data = NULL;
	return text;
}
