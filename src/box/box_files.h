/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BOX_BOX_FILES_H
#define BOX_BOX_FILES_H

#include "box/lifecycle.h"

#include <string.h>

/*
 * Requests about the files of a box, each done by one of its file workers (file_worker.h), which
 * are kept for the next. Any thread; any number of requests at once, of which FILES_BUSY_MAX are
 * under way.
 */
struct box_files;

#define FILES_BUSY_MAX 64
#define FILES_IDLE_MAX 4

/* @user and @cwd as in struct process; @make_cwd as for an image's own. Connects to nothing yet. */
int box_files_new(struct holt_box *box, const char *user, const char *cwd, bool make_cwd,
	struct box_files **ret, holt_error **reterr);
/* No request runs any more. */
void box_files_free(struct box_files *f);

/* What a frame of an answer is to the one who asked. */
enum files_verdict {
	FILES_FINE,
	FILES_ENOUGH, /* the caller wants no more: the call is cancelled */
	FILES_DISORDER /* this was not asked for: the guest is not to be trusted */
};

struct files_request {
	const struct wire_msg *msg;
	const char *path; /* that it is about */
	/* Gets every frame of the answer, file_done too, but for file_fail. */
	enum files_verdict (*take)(void *user, const struct wire_msg *m);
	void *user;
	/* The content of a file_write, in a buffer of the call's. */
	holt_source_fn source;
	void *source_user;
};

/* NULL is empty. */
static inline struct wire_bytes files_bytes(const char *s)
{
	return (struct wire_bytes){(const uint8_t *)s, s ? (uint32_t)strlen(s) : 0};
}

/* What can be asked for; box_files_call does it for the request's path. */
int files_check_path(const char *path, holt_error **reterr);

/* Returns 0 after a file_done, else the negative code. */
int box_files_call(struct box_files *f, const struct files_request *q, const holt_call *call,
	holt_error **reterr);

#endif
