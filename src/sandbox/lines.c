/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/lines.h"

#include <string.h>

#include "base/banned.h"

/* Bytes of one line that end neither it nor this piece. */
static size_t plain_len(const char *p, size_t len)
{
	const char *lf = memchr(p, '\n', len);
	const size_t line = lf ? (size_t)(lf - p) : len;
	const char *cr = memchr(p, '\r', line);

	return cr ? (size_t)(cr - p) : line;
}

static int give_crs(struct lines *l, holt_data_fn fn, void *user)
{
	char crs[512];
	int r = 0;

	memset(crs, '\r', sizeof crs);
	while (r == 0 && l->crs > 0) {
		const size_t n = l->crs < sizeof crs ? (size_t)l->crs : sizeof crs;

		r = fn(crs, n, user);
		l->crs -= n;
	}
	return r;
}

int lines_feed(struct lines *l, const void *data, size_t len, holt_data_fn fn, void *user)
{
	const char *p = data;
	int r = 0;

	while (r == 0 && len > 0) {
		size_t n = 1;

		/* Whatever this byte is, it belongs to a line of its own. */
		if (l->ended)
			r = fn("\n", 1, user);
		l->ended = false;
		if (*p == '\n') {
			l->ended = true;
			l->crs = 0;
		} else if (*p == '\r') {
			l->crs++;
		} else {
			n = plain_len(p, len);
			r = r ? r : give_crs(l, fn, user);
			r = r ? r : fn(p, n, user);
		}
		p += n;
		len -= n;
	}
	return r;
}
