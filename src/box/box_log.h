/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BOX_BOX_LOG_H
#define BOX_BOX_LOG_H

#include "base/cancel.h"
#include "wire/wire.h"

/*
 * The kept output of a box's program: records in the file "log" of its directory, written by the
 * keeper. Beyond half of the limit the file becomes "log.1" and a new one begins, so that between
 * half and all of the limit is kept. A disk that is full loses records, never the program.
 */
struct box_log {
	int dir; /* borrowed */
	int fd;
	uint64_t size;
	uint64_t half_bytes;
};

#define BOX_LOG_INIT(dir_, max_) \
	((struct box_log){.dir = (dir_), .fd = -EBADF, .half_bytes = (max_) / 2})

void box_log_write(struct box_log *l, enum wire_channel channel, const uint8_t *data, size_t len);
void box_log_done(struct box_log *l);

/* Reading; public face: holt_log_reader in holt/box.h. */
struct holt_log_reader;

/* @boxes is borrowed for the call, @id names the box's directory in it. */
int box_log_open(int boxes, const char *id, uint64_t tail_lines, struct holt_log_reader **ret,
	holt_error **reterr);
int box_log_next(struct holt_log_reader *r, uint64_t timeout_ms, holt_cancel *cancel,
	const void **ret_data, size_t *ret_len, int *ret_stream, uint64_t *ret_time_ns,
	holt_error **reterr);
void box_log_close(struct holt_log_reader *r);

#endif
