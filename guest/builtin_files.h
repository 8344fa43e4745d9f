/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GUEST_BUILTIN_FILES_H
#define GUEST_BUILTIN_FILES_H

#include "wire/wire.h"

#include <stdbool.h>

/*
 * The built-in "files": a process of the sandbox's user that serves one request of the wire's FILES
 * lane after the other, from stdin to stdout, until stdin ends. files.c has the loop and the table
 * of requests; each files_op_ function answers one with what it yields and then files_done or
 * files_fail. Where the client is gone the process simply ends (files_send exits), so that no
 * function has to think about it; what must not be left behind then has no name yet.
 */
struct files;

/* The next frame of the client, which points into the input's buffer until the call after. Ends the
 * process where there is none or a broken one. */
void files_next(struct files *f, struct wire_msg *ret);
/* Queue a frame; goes out when the buffer is full, and with files_done and files_fail. */
void files_send(struct files *f, const struct wire_msg *m);

void files_done(struct files *f, bool truncated, uint64_t searched, uint64_t skipped);
/* @object is the path concerned, or NULL; it must not lie in the input where content was read
 * since. With class WIRE_FILE_FAIL_ERRNO the text becomes: TEXT 'OBJECT': the name of the errno, so
 * that "cannot open" is enough. With others it is taken as it is. At most 255 bytes without them.
 */
void files_fail(struct files *f, enum wire_file_failure class, int errnum, const char *stage,
	const struct wire_bytes *object, const char *fmt, ...)
	__attribute__((format(printf, 6, 7)));

/* A NUL-terminated copy of a checked path, good until the next request; at most four a request.
 * Ends the process without memory. */
char *files_path(struct files *f, const struct wire_bytes *path);
/* A string, for messages. */
struct wire_bytes files_bytes(const char *s);

/* files_io.c */
void files_op_read(struct files *f, const struct wire_msg *m);
void files_op_write(struct files *f, const struct wire_msg *m);
/* files_names.c */
void files_op_stat(struct files *f, const struct wire_msg *m);
void files_op_mkdir(struct files *f, const struct wire_msg *m);
void files_op_move(struct files *f, const struct wire_msg *m);
/* files_remove.c */
void files_op_remove(struct files *f, const struct wire_msg *m);
/* files_search.c */
void files_op_list(struct files *f, const struct wire_msg *m);
void files_op_glob(struct files *f, const struct wire_msg *m);
/* files_grep.c */
void files_op_grep(struct files *f, const struct wire_msg *m);

#endif
