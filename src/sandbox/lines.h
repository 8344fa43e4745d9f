/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SANDBOX_LINES_H
#define SANDBOX_LINES_H

#include "holt/sys/backend.h"

#include <stdbool.h>

/*
 * Lines of a file as they are handed over: a line ends with LF and nothing else; its LF and all CRs
 * before it go, and between two lines is one LF. What comes in may be cut anywhere; nothing is kept
 * of it but two numbers.
 */
struct lines {
	bool ended; /* a LF stands before what comes next */
	uint64_t crs; /* not handed over yet, since a LF may follow */
};

/* Hand what is known of the next @len bytes to @fn. Returns 0, or what @fn returned otherwise. CRs
 * that are still held at the end of the file belong to the end of its last line. */
int lines_feed(struct lines *l, const void *data, size_t len, holt_data_fn fn, void *user);

#endif
