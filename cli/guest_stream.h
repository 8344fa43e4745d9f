/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_GUEST_STREAM_H
#define CLI_GUEST_STREAM_H

#include "cli.h"

/* Bytes that a guest wrote, on their way out, in pieces that end anywhere. */
struct guest_stream {
	FILE *out;
	int terminal; /* nothing of it can be taken for a command; see cli_escape */
	char held[8]; /* a character that has only begun */
	size_t n_held;
};

/* @out is stdout or stderr. */
struct guest_stream guest_stream_to(FILE *out);
/* Returns 0, or -1 with errno. */
int guest_stream_put(struct guest_stream *s, const void *data, size_t len);
/* Nothing more comes. */
int guest_stream_end(struct guest_stream *s);

#endif
