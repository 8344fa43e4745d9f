/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BOX_FILE_WORKER_H
#define BOX_FILE_WORKER_H

#include "box/call_bounds.h"
#include "box/lifecycle.h"

/*
 * One file worker: a process of the agent's built-in "files" and the frames to and from it. Used by
 * one thread at a time, who owns it. Nothing that it says is trusted.
 */
struct file_worker;

/* Start one as @user ("" = root) in @cwd, which is made where it is missing if @make_cwd.
 * HOLT_EUNSUPPORTED where the box's agent has no such built-in. */
int file_worker_start(struct holt_box *box, const char *user, const char *cwd, bool make_cwd,
	const struct call_bounds *bounds, struct file_worker **ret, holt_error **reterr);
/* Kills the process if it still runs. NULL is fine. */
void file_worker_free(struct file_worker *w);

/* Who waits from now on. */
void file_worker_own(struct file_worker *w, holt_cancel *cancel);

/* Whether it has ended or said something; without waiting. */
bool file_worker_stirs(struct file_worker *w);
/* Whether bytes behind the last frame have come with it. */
bool file_worker_unread(const struct file_worker *w);
/* Whether its process, or the box, is known to have ended. */
bool file_worker_over(struct file_worker *w);

/* Send a frame, or bytes that are one. HOLT_ECLOSED where the worker has ended. */
int file_worker_send(struct file_worker *w, const struct wire_msg *m,
	const struct call_bounds *bounds, holt_error **reterr);
int file_worker_send_raw(struct file_worker *w, const void *data, size_t len,
	const struct call_bounds *bounds, holt_error **reterr);

/* The next frame, good until the next call. HOLT_ECLOSED where the worker has ended, HOLT_EPROTOCOL
 * for nonsense. */
int file_worker_next(struct file_worker *w, const struct call_bounds *bounds, struct wire_msg *ret,
	holt_error **reterr);

/* Why a worker that has ended did that, as an error. Returns the negative code. */
int file_worker_death(struct file_worker *w, const struct call_bounds *bounds, holt_error **reterr);

#endif
