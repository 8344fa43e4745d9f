/* SPDX-License-Identifier: Apache-2.0 */
#include "box/box_builtin.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"
#include "box/guest_error.h"
#include "base/banned.h"

/* One line with a path of 1 KiB in it twice, each byte perhaps escaped to four. */
#define BUILTIN_LINE_MAX 16384u

int box_builtin_start_as(struct session *s, const struct box_builtin *b, holt_cancel *cancel,
	struct holt_exec **ret, holt_error **reterr)
{
	char *env[] = {NULL};
	struct process p = {.argv = strv_dup(b->argv),
		.env = env,
		.cwd = str_dup(b->cwd),
		.user = str_dup(b->user),
		.flags = WIRE_EXEC_BUILTIN | b->flags};
	const int r = !p.argv || !p.cwd || !p.user
			      ? err_nomem(reterr)
			      : exec_start_within(s, &p, b->start_ms, cancel, ret, reterr);

	strv_free(p.argv);
	mem_free(p.cwd);
	mem_free(p.user);
	return r;
}

int box_builtin_start(struct session *s, const char *const *argv, bool stdin_stream,
	holt_cancel *cancel, struct holt_exec **ret, holt_error **reterr)
{
	const struct box_builtin b = {.argv = argv,
		.user = "",
		.cwd = "/",
		.flags = stdin_stream ? WIRE_EXEC_STDIN : 0,
		.start_ms = HOLT_FOREVER};

	return box_builtin_start_as(s, &b, cancel, ret, reterr);
}

/* What a copy finds in its way is a mistake like others. */
static int code_of(uint64_t errnum)
{
	return errnum == EEXIST ? HOLT_EINVALID : guest_errno_code(errnum);
}

static const char *hint_of(int code)
{
	switch (code) {
	case HOLT_ENOT_FOUND:
		return "check the path in the box";
	case HOLT_EDENIED:
		return "in the box this may not be read or written even by root";
	case HOLT_ELIMIT:
		return "make room in the box, or make a box with a larger disk";
	case HOLT_EINVALID:
		return "check what is there in the box, and what is to be copied";
	default:
		return "try again; look at the box's disk if it stays";
	}
}

/* Cut the next field off at its tab, or at the end; its text, safe for a terminal, in fresh memory.
 */
static char *field(char **line)
{
	const size_t len = strcspn(*line, "\t");
	char *text = mem_zalloc(4 * len + 1);

	if (text)
		(void)str_escape(text, 4 * len + 1, *line, len, false);
	*line += len + ((*line)[len] ? 1 : 0);
	return text;
}

static int fail_line(char *line, holt_error **reterr)
{
	auto_free char *number = field(&line);
	auto_free char *stage = field(&line);
	auto_free char *object = field(&line);
	auto_free char *text = field(&line);
	uint64_t errnum = 0;

	if (!number || !stage || !object || !text)
		return err_nomem(reterr);
	const bool numbered = str_to_u64(number, 4095, &errnum) == 0;
	const int code = numbered ? code_of(errnum) : HOLT_EPROTOCOL;
	(void)err_make(reterr, code, "%s", *text ? text : "the box could not copy");
	err_set_errno(reterr, (int)errnum);
	err_stage(reterr, *stage ? stage : "copy");
	err_object(reterr, *object ? object : NULL);
	err_hint(reterr, "%s", hint_of(code));
	return -code;
}

int box_builtin_failure(
	const struct exec_result *result, const char *line, size_t len, holt_error **reterr)
{
	const char *end = len > 0 ? memchr(line, '\n', len) : NULL;
	const bool oom = (result->flags & WIRE_EXIT_OOM) != 0;
	int r;

	if (!result->signaled && len > 0) {
		auto_free char *copy = str_ndup(line, end ? (size_t)(end - line) : len);
		return copy ? fail_line(copy, reterr) : err_nomem(reterr);
	}
	if (result->signaled)
		r = err_make(reterr, oom ? HOLT_ELIMIT : HOLT_EIO,
			oom ? "the box has no memory left for the copy"
			    : "the box's part of the copy was killed by signal %u",
			result->code);
	else
		r = err_make(reterr, HOLT_EIO, "the box's part of the copy ended with code %u",
			result->code);
	err_stage(reterr, "copy");
	err_hint(reterr, "%s",
		oom ? "end something in the box, or make a box with more memory" : hint_of(-r));
	return r;
}

/* What it says on stderr, up to the line's limit. */
static int read_stderr(struct holt_exec *e, char *line, size_t *ret_len, holt_error **reterr)
{
	size_t len = 0;
	size_t n = 1;

	while (n > 0 && len < BUILTIN_LINE_MAX) {
		const int r = exec_read(e, WIRE_STDERR, line + len, BUILTIN_LINE_MAX - len,
			HOLT_FOREVER, &n, reterr);
		if (r < 0)
			return r;
		len += n;
	}
	*ret_len = len;
	return 0;
}

int box_builtin_end(struct holt_exec *e, holt_error **reterr)
{
	auto_free char *line = mem_zalloc(BUILTIN_LINE_MAX);
	struct exec_result result;
	size_t len = 0;

	if (!line)
		return err_nomem(reterr);
	int r = read_stderr(e, line, &len, reterr);
	/* Who goes on talking would never end. */
	if (r == 0 && len == BUILTIN_LINE_MAX)
		(void)exec_signal(e, SIGKILL);
	if (r == 0)
		r = exec_wait(e, HOLT_FOREVER, &result, reterr);
	if (r == 0 && (result.signaled || result.code != 0))
		r = box_builtin_failure(&result, line, len, reterr);
	return r;
}

int box_builtin_pump(struct holt_exec *e, int stdin_fd, int stdout_fd, holt_error **reterr)
{
	auto_free char *line = mem_zalloc(BUILTIN_LINE_MAX);
	struct exec_result result;
	int fds[2] = {FD_NONE, FD_NONE};
	ssize_t len = 0;

	if (!line)
		return err_nomem(reterr);
	int r = fd_pipe(fds);
	if (r < 0)
		return err_errno(reterr, -r, "cannot make a pipe");
	/* A pipe holds more than the line; who writes more waits until the copy is cancelled. */
	r = exec_pump(e, stdin_fd, stdout_fd, fds[1], &result, reterr);
	fds[1] = fd_close(fds[1]);
	if (r == 0 && (result.signaled || result.code != 0)) {
		len = fd_read_full(fds[0], line, BUILTIN_LINE_MAX);
		r = box_builtin_failure(&result, line, len > 0 ? (size_t)len : 0, reterr);
	}
	fds[0] = fd_close(fds[0]);
	return r;
}
