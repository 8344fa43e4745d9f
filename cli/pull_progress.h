/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_PULL_PROGRESS_H
#define CLI_PULL_PROGRESS_H

#include "cli.h"

/*
 * What a pull is doing, for who waits for it: on a terminal a line for each layer and one for all
 * of them, redrawn where they stand; elsewhere a line for what matters, and no codes.
 */

#define PROGRESS_LAYERS_MAX 512 /* an image has no more */
#define PROGRESS_DRAW_MS    100
#define DIGEST_SHOWN        12

enum progress_flags {
	PROGRESS_TERMINAL = 1 << 0,
	PROGRESS_NEWS = 1 << 1 /* nothing about an image that is up to date */
};

struct progress_layer {
	int phase; /* enum holt_pull_phase */
	int seen; /* something was said about it */
	char digest[DIGEST_SHOWN + 1];
	uint64_t done_bytes;
	uint64_t total_bytes;
	uint64_t from_bytes; /* were there when it began */
};

/* One thread at a time, but for progress_hide. */
struct pull_progress {
	FILE *out;
	const char *name; /* borrowed */
	unsigned flags;
	unsigned rows; /* of the terminal; the caller keeps them right */
	unsigned columns;
	unsigned drawn; /* lines of ours that stand above the cursor; under the lock of @out */
	unsigned layers;
	uint64_t total_bytes; /* of all layers */
	uint64_t begun_ms;
	uint64_t drawn_ms; /* 0: never */
	struct progress_layer layer[PROGRESS_LAYERS_MAX];
};

void progress_init(struct pull_progress *p, FILE *out, const char *name, unsigned flags);

/* An event, and the time in milliseconds from any beginning. */
void progress_event(struct pull_progress *p, const holt_pull_event *e, uint64_t now_ms);

/* Take away what is drawn, for another text or for good; the next event draws it again. */
void progress_hide(struct pull_progress *p);

#endif
