/* SPDX-License-Identifier: Apache-2.0 */
#include "api/exec_options.h"

#include <signal.h>
#include <string.h>

#include "api/options.h"
#include "box/box_exec.h"
#include "box/lifecycle.h"
#include "base/banned.h"

#define ROWS_DEFAULT        24
#define COLS_DEFAULT        80
#define EXIT_CODE_HOLT      125
#define EXIT_CODE_NOT_EXEC  126
#define EXIT_CODE_NOT_FOUND 127

static int check_options(const holt_exec_options *o, holt_error **reterr)
{
	const uint32_t known = HOLT_EXEC_STDIN | HOLT_EXEC_IMAGE | HOLT_EXEC_TTY | HOLT_EXEC_KEEP;

	if (o->flags & ~known)
		return err_make(reterr, HOLT_EINVALID, "unknown flags 0x%x", o->flags & ~known);
	if (o->entrypoint && !(o->flags & HOLT_EXEC_IMAGE))
		return err_make(reterr, HOLT_EINVALID, "entrypoint needs HOLT_EXEC_IMAGE");
	if (o->replay_bytes > HOLT_REPLAY_BYTES_MAX)
		return err_make(reterr, HOLT_EINVALID, "replay_bytes is %u, more than %u",
			o->replay_bytes, HOLT_REPLAY_BYTES_MAX);
	return 0;
}

int exec_wish_read(const holt_exec_options *options, struct exec_wish *ret, holt_error **reterr)
{
	holt_exec_options o;
	int r = options_read(&o, sizeof o, sizeof o, options, "holt_exec_options", reterr);

	if (r == 0)
		r = check_options(&o, reterr);
	if (r < 0)
		return r;
	const bool tty = o.flags & HOLT_EXEC_TTY;
	ret->wish = (struct process_wish){.argv = o.argv,
		.env = o.env,
		.cwd = o.cwd,
		.user = o.user,
		.entrypoint = o.entrypoint,
		.image_command = o.flags & HOLT_EXEC_IMAGE,
		.flags = (o.flags & HOLT_EXEC_STDIN ? WIRE_EXEC_STDIN : 0u) |
			 (tty ? WIRE_EXEC_TTY : 0u) |
			 (o.flags & HOLT_EXEC_KEEP ? WIRE_EXEC_KEEP : 0u)};
	/* Longer than a machine lives is without limit, as HOLT_FOREVER says. */
	ret->limits = (struct process){.timeout_ms = o.timeout_ms > INT64_MAX ? 0 : o.timeout_ms,
		.rows = !tty     ? 0
			: o.rows ? o.rows
				 : ROWS_DEFAULT,
		.cols = !tty     ? 0
			: o.cols ? o.cols
				 : COLS_DEFAULT,
		.pids_max = o.pids_max ? o.pids_max : HOLT_PIDS_MAX_DEFAULT,
		.replay = o.replay_bytes ? o.replay_bytes : HOLT_REPLAY_BYTES_DEFAULT};
	ret->cancel = o.cancel;
	return 0;
}

static int start(holt_box *box, const struct exec_wish *w, holt_exec **ret, holt_error **reterr)
{
	const struct image_config own = box_record_surroundings(&box->rec);
	struct process process = {0};
	struct session *session = NULL;
	int r = process_build(&own, box->rec.hostname, &w->wish, &process, reterr);

	if (r == 0)
		r = box_connect(box, DOOR_WAIT_MS, &session, reterr);
	if (r == 0) {
		process.timeout_ms = w->limits.timeout_ms;
		process.rows = w->limits.rows;
		process.cols = w->limits.cols;
		process.pids_max = w->limits.pids_max;
		process.replay = w->limits.replay;
		r = exec_start(session, &process, w->cancel, ret, reterr);
	}
	process_done(&process);
	return r;
}

HOLT_API int holt_exec_start(
	holt_box *box, const holt_exec_options *options, holt_exec **ret, holt_error **reterr)
{
	struct exec_wish wish = {0};

	if (!box || !options || !ret)
		return api_null(!box ? "box" : !options ? "options" : "ret", reterr);
	const int r = exec_wish_read(options, &wish, reterr);
	if (r < 0) {
		err_stage(reterr, "options");
		return r;
	}
	return start(box, &wish, ret, reterr);
}

HOLT_API uint32_t holt_exec_number(holt_exec *exec)
{
	return exec ? exec_number(exec) : 0;
}

HOLT_API int holt_exec_attach(
	holt_box *box, uint32_t number, holt_cancel *cancel, holt_exec **ret, holt_error **reterr)
{
	struct session *session = NULL;

	if (!box || !ret)
		return api_null(box ? "ret" : "box", reterr);
	const int r = box_connect(box, DOOR_WAIT_MS, &session, reterr);
	return r < 0 ? r : exec_attach(session, number, cancel, ret, reterr);
}

HOLT_API uint64_t holt_exec_gap(holt_exec *exec, int stream)
{
	if (!exec || (stream != HOLT_STDOUT && stream != HOLT_STDERR))
		return 0;
	return exec_gap(exec, (enum wire_channel)stream);
}

HOLT_API int holt_exec_resize(holt_exec *exec, uint16_t rows, uint16_t cols)
{
	return exec && rows && cols ? exec_resize(exec, rows, cols) : -HOLT_EINVALID;
}

HOLT_API int holt_exec_event_fd(holt_exec *exec, int *ret_fd, holt_error **reterr)
{
	if (!exec || !ret_fd)
		return api_null(exec ? "ret_fd" : "exec", reterr);
	return exec_event_fd(exec, ret_fd, reterr);
}

HOLT_API int holt_exec_read(holt_exec *exec, int stream, void *data, size_t size,
	uint64_t timeout_ms, size_t *ret_len, holt_error **reterr)
{
	if (!exec || !data || !ret_len)
		return api_null(!exec ? "exec" : !data ? "data" : "ret_len", reterr);
	if ((stream != HOLT_STDOUT && stream != HOLT_STDERR) || size == 0)
		return err_make(reterr, HOLT_EINVALID, "%s",
			size ? "stream is neither HOLT_STDOUT nor HOLT_STDERR" : "size is 0");
	return exec_read(exec, (enum wire_channel)stream, data, size, timeout_ms, ret_len, reterr);
}

HOLT_API int holt_exec_write(holt_exec *exec, const void *data, size_t size, uint64_t timeout_ms,
	size_t *ret_len, holt_error **reterr)
{
	if (!exec || !data)
		return api_null(exec ? "data" : "exec", reterr);
	return exec_write(exec, data, size, timeout_ms, ret_len, reterr);
}

HOLT_API int holt_exec_close_stdin(holt_exec *exec)
{
	return exec ? exec_close_stdin(exec) : -HOLT_EINVALID;
}

HOLT_API int holt_exec_signal(holt_exec *exec, int signal_nr)
{
	if (!exec || signal_nr < 1 || signal_nr > 64)
		return -HOLT_EINVALID;
	return exec_signal(exec, (uint32_t)signal_nr);
}

static int fill_exit(const struct exec_result *result, holt_exit *ret, holt_error **reterr)
{
	holt_exit e;

	exec_tell_exit(result, &e);
	return options_write(ret, &e, sizeof e, sizeof e, "holt_exit", reterr);
}

HOLT_API int holt_exec_wait(
	holt_exec *exec, uint64_t timeout_ms, holt_exit *ret, holt_error **reterr)
{
	struct exec_result result = {0};

	if (!exec || !ret)
		return api_null(exec ? "ret" : "exec", reterr);
	const int r = exec_wait(exec, timeout_ms, &result, reterr);
	return r < 0 ? r : fill_exit(&result, ret, reterr);
}

HOLT_API int holt_exec_pump(holt_exec *exec, int stdin_fd, int stdout_fd, int stderr_fd,
	holt_exit *ret, holt_error **reterr)
{
	struct exec_result result = {0};

	if (!exec || !ret)
		return api_null(exec ? "ret" : "exec", reterr);
	const int r = exec_pump(exec, stdin_fd, stdout_fd, stderr_fd, &result, reterr);
	return r < 0 ? r : fill_exit(&result, ret, reterr);
}

HOLT_API void holt_exec_free(holt_exec *exec)
{
	exec_free(exec);
}

HOLT_API int holt_error_exit_code(const holt_error *error)
{
	const bool exec = strcmp(holt_error_stage(error), "exec") == 0;

	if (!error)
		return 0;
	if (exec && holt_error_code(error) == HOLT_ENOT_FOUND)
		return EXIT_CODE_NOT_FOUND;
	if (exec && holt_error_code(error) == HOLT_EDENIED)
		return EXIT_CODE_NOT_EXEC;
	if (exec && holt_error_code(error) == HOLT_ETIMEOUT)
		return EXEC_CODE_TIMEOUT;
	return EXIT_CODE_HOLT;
}

HOLT_API int holt_run(holt_home *home, const char *image, const holt_box_options *box_options,
	const holt_exec_options *exec_options, int stdin_fd, int stdout_fd, int stderr_fd,
	holt_exit *ret, holt_error **reterr)
{
	holt_box_options b;
	holt_exec_options o;
	holt_start_options start_options = HOLT_START_OPTIONS_INIT;
	holt_box *box = NULL;
	holt_exec *exec = NULL;

	if (!exec_options || !ret)
		return api_null(exec_options ? "ret" : "exec", reterr);
	int r = options_read(&o, sizeof o, sizeof o, exec_options, "holt_exec_options", reterr);
	if (r == 0)
		r = options_read(&b, sizeof b, sizeof b, box_options, "holt_box_options", reterr);
	if (r < 0)
		return r;
	o.struct_size = sizeof o;
	b.struct_size = sizeof b;
	b.program = &o;
	start_options.cancel = o.cancel;
	if (stdin_fd >= 0)
		o.flags |= HOLT_EXEC_STDIN;
	r = holt_box_create(home, image, &b, &box, reterr);
	if (r == 0)
		r = holt_box_start(box, &start_options, &exec, reterr);
	if (r == 0)
		r = holt_exec_pump(exec, stdin_fd, stdout_fd, stderr_fd, ret, reterr);
	holt_exec_free(exec);
	holt_box_close(box);
	return r;
}
