/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The monitor's protocol, theory of operation. A message is a JSON object on a line.
 *
 *   GREETING --{"QMP": ...}--> READY --nonsense, a failed write, qmp_done--> OVER
 *
 * Commands wait in one queue, whose first is qmp_capabilities, and go out one at a time: the next
 * one when the one before is answered. QEMU works on them in this order anyway. So a reply can only
 * answer the command that is under way, a command is one write, to which a descriptor may be
 * attached, and it always finds the socket empty: nothing of the output is kept here.
 *
 * QEMU is not trusted: a guest may have taken it over. A line has at most QMP_LINE_MAX bytes, the
 * parser is bounded by that and by its depth, texts are cut and escaped before they get into an
 * error. Events only pass through, so that a flood of them costs time and no memory.
 */
#include "vmm/qmp.h"

#include <errno.h>
#include <string.h>

#include "base/fd.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/banned.h"

#define CAPABILITIES_ID 1 /* of the first command */
#define CLASS_MAX       64 /* of QEMU's words that get into an error */
#define TEXT_MAX        512
#define EVENT_NAME_MAX  64

struct qmp_command {
	const char *name;
	char *line;
	size_t len;
	int fd; /* borrowed; FD_NONE */
	int64_t id;
	qmp_reply_fn fn;
	void *user;
	struct qmp_command *next;
};

/* ---- one message ---- */

static int bad(holt_error **reterr, const char *what)
{
	return err_make(reterr, HOLT_EPROTOCOL, "QEMU's monitor sent %s", what);
}

/* Upper case words, so that a name may be printed and compared without a second look. */
static bool is_event_name(const char *name)
{
	const size_t len = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789");

	return len > 0 && len < EVENT_NAME_MAX && name[len] == '\0';
}

static int decode_id(const json_t *doc, struct qmp_message *m, holt_error **reterr)
{
	m->id = -1;
	if (json_get_int(doc, "id", 0, INT64_MAX, &m->id, NULL) < 0 || m->id < 0)
		return bad(reterr, "an answer without the number of its command");
	return 0;
}

static int decode_error(const json_t *error, struct qmp_message *m, holt_error **reterr)
{
	if (!json_is_object(error) || json_get_str(error, "class", &m->name, NULL) < 0 ||
		json_get_str(error, "desc", &m->text, NULL) < 0 || !m->name || !m->text)
		return bad(reterr, "an error without class and text");
	return decode_id(m->doc, m, reterr);
}

static int decode_event(struct qmp_message *m, holt_error **reterr)
{
	m->data = json_object_get(m->doc, "data");
	if (json_get_str(m->doc, "event", &m->name, NULL) < 0 || !m->name ||
		!is_event_name(m->name) || (m->data && !json_is_object(m->data)))
		return bad(reterr, "an event without a proper name or data");
	return 0;
}

static int decode_kind(struct qmp_message *m, holt_error **reterr)
{
	static const char *const keys[] = {[QMP_GREETING] = "QMP",
		[QMP_RETURN] = "return",
		[QMP_ERROR] = "error",
		[QMP_EVENT] = "event"};
	const json_t *value = NULL;
	unsigned found = 0;

	for (unsigned i = 0; i < sizeof keys / sizeof keys[0]; i++) {
		const json_t *v = json_object_get(m->doc, keys[i]);

		if (v) {
			m->kind = (enum qmp_kind)i;
			value = v;
			found++;
		}
	}
	if (found != 1)
		return bad(reterr, "a message of no known kind");
	switch (m->kind) {
	case QMP_GREETING:
		return json_is_object(value) ? 0 : bad(reterr, "a greeting without content");
	case QMP_RETURN:
		m->data = value;
		return decode_id(m->doc, m, reterr);
	case QMP_ERROR:
		return decode_error(value, m, reterr);
	case QMP_EVENT:
	default:
		return decode_event(m, reterr);
	}
}

int qmp_decode(const char *line, size_t len, struct qmp_message *ret, holt_error **reterr)
{
	struct qmp_message m = {.kind = QMP_GREETING};
	auto_error why = NULL;

	if (json_parse(line, len, QMP_LINE_MAX, "a message", &m.doc, &why) < 0)
		return err_make(reterr, HOLT_EPROTOCOL, "QEMU's monitor sent nonsense: %s",
			holt_error_message(why));
	const int r = decode_kind(&m, reterr);
	if (r < 0) {
		qmp_message_done(&m);
		return r;
	}
	*ret = m;
	return 0;
}

void qmp_message_done(struct qmp_message *m)
{
	json_decref(m->doc);
	*m = (struct qmp_message){.kind = QMP_GREETING};
}

/* ---- commands ---- */

static void command_free(struct qmp_command *c)
{
	mem_free(c->line);
	mem_free(c);
}

static void command_drop(struct qmp *q, struct qmp_command *c)
{
	LL_DELETE(q->commands, c);
	q->n_commands--;
	command_free(c);
}

/* Take the first command out of the queue and tell its owner. */
static void command_end(struct qmp *q, const json_t *data, const holt_error *error)
{
	const struct qmp_command *c = q->commands;
	const qmp_reply_fn fn = c->fn;
	void *user = c->user;

	q->sent = false;
	command_drop(q, q->commands);
	if (fn)
		fn(data, error, user);
}

static int send_next(struct qmp *q, holt_error **reterr)
{
	struct qmp_command *c = q->commands;

	if (q->state != QMP_STATE_READY || q->sent || !c)
		return 0;
	const int r = q->ops->write(c->line, c->len, c->fd, q->user);
	if (r < 0)
		return err_errno(reterr, -r, "cannot write to QEMU's monitor");
	q->sent = true;
	return 0;
}

/* Queue a new command, which *ret borrows. */
static int command_new(struct qmp *q, const char *name, const char *arguments, int fd,
	qmp_reply_fn fn, void *user, struct qmp_command **ret, holt_error **reterr)
{
	struct qmp_command *c = mem_zalloc(sizeof *c);

	if (!c)
		return err_nomem(reterr);
	*c = (struct qmp_command){
		.name = name, .fd = fd, .id = ++q->last_id, .fn = fn, .user = user};
	c->line = str_printf("{\"execute\":\"%s\",\"id\":%lld%s%s}\n", name, (long long)c->id,
		arguments ? ",\"arguments\":" : "", arguments ? arguments : "");
	if (!c->line) {
		command_free(c);
		return err_nomem(reterr);
	}
	c->len = strlen(c->line);
	if (c->len > QMP_COMMAND_MAX) {
		command_free(c);
		return err_make(
			reterr, HOLT_ELIMIT, "the command has more than %d bytes", QMP_COMMAND_MAX);
	}
	LL_APPEND(q->commands, c);
	q->n_commands++;
	*ret = c;
	return 0;
}

/* The end of the connection; the owners of open commands learn of it in qmp_done. */
static int broken(struct qmp *q, int r, holt_error **reterr)
{
	q->state = QMP_STATE_OVER;
	err_stage(reterr, "qmp");
	err_object(reterr, "QEMU");
	err_hint(reterr, "stop the box; 'holt doctor' tells which QEMU this is");
	return r;
}

static int command_refused(int r, const char *name, holt_error **reterr)
{
	err_stage(reterr, "qmp");
	err_object(reterr, name);
	err_hint(reterr, "the machine does not answer; stop or remove the box");
	return r;
}

int qmp_command_fd(struct qmp *q, const char *name, const char *arguments, int fd, qmp_reply_fn fn,
	void *user, holt_error **reterr)
{
	struct qmp_command *c = NULL;

	if (q->state == QMP_STATE_OVER) {
		err_make(reterr, HOLT_ECLOSED, "the connection to QEMU's monitor is over");
		return command_refused(-HOLT_ECLOSED, name, reterr);
	}
	if (q->n_commands >= QMP_QUEUE_MAX) {
		err_make(reterr, HOLT_EBUSY, "%zu commands wait for QEMU already", q->n_commands);
		return command_refused(-HOLT_EBUSY, name, reterr);
	}
	int r = command_new(q, name, arguments, fd, fn, user, &c, reterr);
	if (r < 0)
		return command_refused(r, name, reterr);
	r = send_next(q, reterr);
	if (r < 0) {
		command_drop(q, c);
		return broken(q, r, reterr);
	}
	return 0;
}

int qmp_command(struct qmp *q, const char *name, const char *arguments, qmp_reply_fn fn, void *user,
	holt_error **reterr)
{
	return qmp_command_fd(q, name, arguments, FD_NONE, fn, user, reterr);
}

/* ---- the connection ---- */

/* What QEMU said against a command, as an error of ours. */
static void refusal(const struct qmp_command *c, const struct qmp_message *m, holt_error **reterr)
{
	char class[CLASS_MAX];
	char text[TEXT_MAX];
	const bool unknown = strcmp(m->name, "CommandNotFound") == 0;

	(void)str_escape(class, sizeof class, m->name, strlen(m->name), false);
	(void)str_escape(text, sizeof text, m->text, strlen(m->text), false);
	(void)err_make(reterr, unknown ? HOLT_EUNSUPPORTED : HOLT_EIO, "QEMU refused '%s': %s (%s)",
		c->name, text, class);
	err_stage(reterr, "qmp");
	err_object(reterr, c->name);
	err_hint(reterr, unknown ? "install a newer QEMU or set HOLT_QEMU"
				 : "the box's state may not allow it; see 'holt inspect'");
}

static int take_answer(struct qmp *q, const struct qmp_message *m, holt_error **reterr)
{
	auto_error error = NULL;

	if (!q->sent || m->id != q->commands->id)
		return bad(reterr, "an answer to a command that is not under way");
	if (m->kind == QMP_ERROR)
		refusal(q->commands, m, &error);
	if (error && m->id == CAPABILITIES_ID)
		return err_take(reterr, take_ptr(error)); /* QEMU takes no other command */
	command_end(q, m->data, error);
	return send_next(q, reterr);
}

static int take_message(struct qmp *q, const struct qmp_message *m, holt_error **reterr)
{
	const bool greeting = m->kind == QMP_GREETING;

	if (greeting != (q->state == QMP_STATE_GREETING))
		return bad(
			reterr, greeting ? "a second greeting" : "a message before its greeting");
	switch (m->kind) {
	case QMP_GREETING:
		q->state = QMP_STATE_READY;
		return send_next(q, reterr);
	case QMP_EVENT:
		if (q->ops->on_event)
			q->ops->on_event(m->name, m->data, q->user);
		return 0;
	case QMP_RETURN:
	case QMP_ERROR:
	default:
		return take_answer(q, m, reterr);
	}
}

static int take_line(struct qmp *q, holt_error **reterr)
{
	struct qmp_message m;

	int r = qmp_decode((const char *)q->line.data, q->line.len, &m, reterr);
	if (r < 0)
		return r;
	q->line.len = 0;
	r = take_message(q, &m, reterr);
	qmp_message_done(&m);
	return r;
}

int qmp_feed(struct qmp *q, const void *data, size_t len, holt_error **reterr)
{
	const char *at = data;
	int r = 0;

	if (q->state == QMP_STATE_OVER)
		return broken(q,
			err_make(reterr, HOLT_ECLOSED, "the connection to QEMU's monitor is over"),
			reterr);
	while (len > 0 && r == 0 && q->state != QMP_STATE_OVER) {
		const char *lf = memchr(at, '\n', len);
		const size_t n = lf ? (size_t)(lf - at) + 1 : len;

		const int appended = buf_append(&q->line, at, n);
		if (appended == -EMSGSIZE)
			r = bad(reterr, "a message longer than the limit");
		else if (appended < 0)
			r = err_nomem(reterr);
		else if (lf)
			r = take_line(q, reterr);
		at += n;
		len -= n;
	}
	return r < 0 ? broken(q, r, reterr) : 0;
}

int qmp_init(struct qmp *q, const struct qmp_ops *ops, void *user, holt_error **reterr)
{
	*q = (struct qmp){.ops = ops, .user = user, .line = BUF_INIT(QMP_LINE_MAX)};
	const int r = qmp_command(q, "qmp_capabilities", NULL, NULL, NULL, reterr);
	if (r < 0)
		qmp_done(q);
	return r;
}

void qmp_done(struct qmp *q)
{
	auto_error error = NULL;

	q->state = QMP_STATE_OVER;
	buf_done(&q->line);
	if (!q->commands)
		return;
	(void)err_make(&error, HOLT_ECLOSED, "the connection to QEMU's monitor ended");
	err_stage(&error, "qmp");
	err_object(&error, "QEMU");
	err_hint(&error, "the machine is ending or does not answer any more");
	while (q->commands)
		command_end(q, NULL, error);
}
