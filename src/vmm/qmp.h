/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VMM_QMP_H
#define VMM_QMP_H

#include "base/buf.h"
#include "base/json.h"

/*
 * QEMU's monitor, as a state machine without a loop: the caller feeds what it reads from
 * vm.qmp_fd and writes what it is given. One thread at a time.
 */
#define QMP_LINE_MAX    65536 /* of one message; what QEMU sends here has some hundred bytes */
#define QMP_COMMAND_MAX 4096 /* of one command, so that an empty socket always takes it whole */
#define QMP_QUEUE_MAX   32 /* commands that may wait */

enum qmp_kind { QMP_GREETING, QMP_RETURN, QMP_ERROR, QMP_EVENT };

/* One message; everything but @doc points into it. */
struct qmp_message {
	enum qmp_kind kind;
	int64_t id; /* of QMP_RETURN and QMP_ERROR: which command this answers */
	const char *name; /* the event's, or the class of the error; not escaped */
	const char *text; /* of the error; not escaped */
	const json_t *data; /* what was returned, or the event's object; may be NULL */
	json_t *doc;
};

/* Decode one line (with or without its end). What is accepted is exactly one of the four kinds with
 * members of the right types. On success the caller ends it with qmp_message_done. */
int qmp_decode(const char *line, size_t len, struct qmp_message *ret, holt_error **reterr);
void qmp_message_done(struct qmp_message *m);

/*
 * The end of a command: @error is NULL and @data what QEMU returned, or @error says why not
 * (HOLT_EIO: QEMU refused; HOLT_EUNSUPPORTED: it does not know the command; HOLT_ECLOSED: the
 * connection ended first). Both are borrowed. It may call qmp_command and qmp_done.
 */
typedef void (*qmp_reply_fn)(const json_t *data, const holt_error *error, void *user);

struct qmp_ops {
	/* Write all of one command, which fits into an empty socket, and with its first byte the
	 * descriptor @fd, unless that is negative: 0 or -errno. */
	int (*write)(const void *data, size_t len, int fd, void *user);
	/* Something happened in the machine ("STOP", "SHUTDOWN", ...); @name is plain upper case
	 * text, @data may be NULL. May be NULL; may call what a qmp_reply_fn may. */
	void (*on_event)(const char *name, const json_t *data, void *user);
};

enum qmp_state {
	QMP_STATE_GREETING, /* nothing has come yet; commands wait */
	QMP_STATE_READY, /* the greeting was there; commands go out one by one */
	QMP_STATE_OVER /* broken or done */
};

struct qmp {
	enum qmp_state state;
	const struct qmp_ops *ops;
	void *user;
	int64_t last_id;
	size_t n_commands;
	struct qmp_command *commands; /* the first one is under way if @sent */
	bool sent;
	struct buf line; /* the beginning of a message */
};

#define QMP_INIT ((struct qmp){.state = QMP_STATE_OVER})

/* Begin with a fresh connection. @ops and @user live as long as @q. Fails only for lack of memory,
 * then as if done. */
int qmp_init(struct qmp *q, const struct qmp_ops *ops, void *user, holt_error **reterr);

/* End: commands that are still open end with HOLT_ECLOSED. Idempotent; allowed in every callback,
 * if the memory of @q outlives the call that it came from. */
void qmp_done(struct qmp *q);

/* What was read. An error (HOLT_EPROTOCOL, or that of a write) is the end of the connection:
 * nothing more is accepted, and qmp_done tells the open commands. */
int qmp_feed(struct qmp *q, const void *data, size_t len, holt_error **reterr);

/* Queue a command. @name lives until its end (a literal); @arguments is the text of a JSON object
 * without line feeds, or NULL. @fn (may be NULL) is called exactly once if this succeeds, and never
 * from inside this call. */
int qmp_command(struct qmp *q, const char *name, const char *arguments, qmp_reply_fn fn, void *user,
	holt_error **reterr);

/* The same with a descriptor for QEMU ("getfd"), which is borrowed until the command's end. */
int qmp_command_fd(struct qmp *q, const char *name, const char *arguments, int fd, qmp_reply_fn fn,
	void *user, holt_error **reterr);

#endif
