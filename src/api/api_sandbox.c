/* SPDX-License-Identifier: Apache-2.0 */
#include "holt/sandbox.h"

#include "api/options.h"
#include "api/sandbox_options.h"
#include "base/mem.h"
#include "sandbox/contract.h"
#include "base/banned.h"

/* Opening, commands and errors of a sandbox: arguments are checked here, the rest is src/sandbox.
 */

/* As long as a table of the first version is. */
#define BACKEND_LEAST sizeof(holt_backend)

int api_in_options(int r, holt_error **reterr)
{
	if (r < 0)
		err_stage(reterr, "options");
	return r;
}

holt_call api_call(uint64_t timeout_ms, holt_cancel *cancel)
{
	return (holt_call){.timeout_ms = timeout_ms ? timeout_ms : HOLT_SANDBOX_TIMEOUT_MS_DEFAULT,
		.cancel = cancel};
}

int api_check_flags(uint32_t flags, uint32_t known, holt_error **reterr)
{
	if (!(flags & ~known))
		return 0;
	return api_in_options(
		err_make(reterr, HOLT_EINVALID, "unknown flags 0x%x", flags & ~known), reterr);
}

int api_call_read(const holt_call_options *options, uint32_t known_flags, holt_call *ret,
	uint32_t *ret_flags, holt_error **reterr)
{
	holt_call_options o;
	int r = options_read(&o, sizeof o, sizeof o, options, "holt_call_options", reterr);

	if (r == 0)
		r = api_check_flags(o.flags, known_flags, reterr);
	if (r < 0)
		return api_in_options(r, reterr);
	*ret = api_call(o.timeout_ms, o.cancel);
	*ret_flags = o.flags;
	return 0;
}

int api_sandbox_read(
	const holt_sandbox_options *options, holt_sandbox_options *ret, holt_error **reterr)
{
	int r = options_read(
		ret, sizeof *ret, sizeof *ret, options, "holt_sandbox_options", reterr);

	if (r == 0)
		r = api_check_flags(ret->flags, HOLT_SANDBOX_TEXT, reterr);
	return api_in_options(r, reterr);
}

int api_sandbox_make(const holt_backend *backend, void *self, const holt_sandbox_options *o,
	holt_sandbox **ret, holt_error **reterr)
{
	const struct contract_wish wish = {.id = o->id,
		.env = o->env,
		.user_data = o->user_data ? o->user_data : HOLT_USER_DATA_DEFAULT,
		.text = o->flags & HOLT_SANDBOX_TEXT,
		.terminal = o->terminal,
		.terminal_user = o->terminal_user};

	return contract_open(backend, self, &wish, ret, reterr);
}

static int check_backend(const holt_backend *b, holt_error **reterr)
{
	if (b->name && b->execute && b->read && b->write && b->append && b->update && b->download &&
		b->list && b->stat && b->make_directory && b->move && b->remove && b->glob &&
		b->grep)
		return 0;
	return err_make(reterr, HOLT_EINVALID, "backend '%s' has no %s", b->name ? b->name : "",
		b->name ? "function for some operation" : "name");
}

HOLT_API int holt_sandbox_open_backend(const holt_backend *backend, void *self,
	const struct holt_sandbox_options *options, holt_sandbox **ret, holt_error **reterr)
{
	holt_sandbox_options o = HOLT_SANDBOX_OPTIONS_INIT;
	holt_backend b = {0};

	if (!backend || !options || !ret)
		return api_null(!backend ? "backend" : !options ? "options" : "ret", reterr);
	int r = options_read(&b, sizeof b, BACKEND_LEAST, backend, "holt_backend", reterr);
	if (r == 0)
		r = check_backend(&b, reterr);
	if (r == 0)
		r = api_sandbox_read(options, &o, reterr);
	if (r < 0)
		return api_in_options(r, reterr);
	if (!o.id)
		return api_in_options(api_null("id", reterr), reterr);
	if (o.user || o.cwd)
		return api_in_options(
			err_make(reterr, HOLT_EINVALID, "user and cwd are the backend's business"),
			reterr);
	return api_sandbox_make(&b, self, &o, ret, reterr);
}

HOLT_API const char *holt_sandbox_id(holt_sandbox *sandbox)
{
	return sandbox ? contract_id(sandbox) : "";
}

HOLT_API void holt_sandbox_close(holt_sandbox *sandbox)
{
	contract_close(sandbox);
}

HOLT_API void holt_sandbox_free(holt_sandbox *sandbox)
{
	contract_free(sandbox);
}

static int read_command(const char *command, const holt_command_options *options,
	struct contract_command *ret, holt_error **reterr)
{
	holt_command_options o;
	int r = options_read(&o, sizeof o, sizeof o, options, "holt_command_options", reterr);

	if (r == 0 && o.capture_bytes)
		r = api_check_range(
			"capture_bytes", o.capture_bytes, 1, HOLT_CAPTURE_BYTES_MAX, reterr);
	if (r < 0)
		return api_in_options(r, reterr);
	*ret = (struct contract_command){.command = command,
		.env = o.env,
		.call = api_call(o.timeout_ms, o.cancel),
		.capture_bytes = o.capture_bytes ? o.capture_bytes : HOLT_CAPTURE_BYTES_DEFAULT,
		.output = o.output,
		.user = o.user};
	return 0;
}

HOLT_API int holt_sandbox_execute(holt_sandbox *sandbox, const char *command,
	const holt_command_options *options, holt_command **ret, holt_error **reterr)
{
	struct contract_command what = {0};

	if (!sandbox || !command || !ret)
		return api_null(!sandbox ? "sandbox" : !command ? "command" : "ret", reterr);
	const int r = read_command(command, options, &what, reterr);
	return r < 0 ? r : contract_execute(sandbox, &what, ret, reterr);
}

HOLT_API int holt_sandbox_execute_text(holt_sandbox *sandbox, const char *command,
	const holt_command_options *options, char **ret, size_t *ret_len, holt_error **reterr)
{
	struct contract_command what = {0};
	size_t len = 0;

	if (!sandbox || !command || !ret)
		return api_null(!sandbox ? "sandbox" : !command ? "command" : "ret", reterr);
	int r = read_command(command, options, &what, reterr);
	if (r == 0 && what.output)
		r = api_in_options(
			err_make(reterr, HOLT_EINVALID, "output is set, and a text wanted"),
			reterr);
	if (r == 0)
		r = contract_execute_text(sandbox, &what, ret, &len, reterr);
	if (r == 0 && ret_len)
		*ret_len = len;
	return r;
}

HOLT_API int holt_command_exit(const holt_command *command, holt_exit *ret)
{
	holt_exit e;

	if (!command || !ret)
		return -HOLT_EINVALID;
	contract_command_exit(command, &e);
	return options_write(ret, &e, sizeof e, sizeof e, "holt_exit", NULL);
}

HOLT_API const char *holt_command_output(
	const holt_command *command, int stream, size_t *ret_len, uint64_t *ret_total)
{
	if (command && ret_len && (stream == HOLT_STDOUT || stream == HOLT_STDERR))
		return contract_command_output(command, stream, ret_len, ret_total);
	if (ret_len)
		*ret_len = 0;
	if (ret_total)
		*ret_total = 0;
	return "";
}

HOLT_API int holt_command_text(
	const holt_command *command, char **ret, size_t *ret_len, holt_error **reterr)
{
	size_t len = 0;

	if (!command || !ret)
		return api_null(command ? "ret" : "command", reterr);
	const int r = contract_command_text(command, ret, &len, reterr);
	if (r == 0 && ret_len)
		*ret_len = len;
	return r;
}

HOLT_API void holt_command_free(holt_command *command)
{
	contract_command_free(command);
}

HOLT_API int holt_error_failure(const holt_error *error)
{
	if (contract_is_terminal(error))
		return HOLT_FAILURE_TERMINAL;
	return contract_is_retryable(error) ? HOLT_FAILURE_RETRYABLE : HOLT_FAILURE_NONE;
}

HOLT_API int holt_error_text(const holt_error *error, char **ret, holt_error **reterr)
{
	if (!ret)
		return api_null("ret", reterr);
	char *text = contract_error_text(error);
	if (!text)
		return err_nomem(reterr);
	*ret = text;
	return 0;
}

HOLT_API int holt_error_set(holt_error **reterr, int code, int errnum, const char *stage,
	const char *object, const char *message)
{
	const bool known = code > HOLT_OK && code <= HOLT_EINTERNAL;
	const int r = err_make(reterr, known ? code : HOLT_EINTERNAL, "%s", message ? message : "");

	err_set_errno(reterr, errnum);
	if (stage)
		err_stage(reterr, stage);
	err_object(reterr, object);
	return r;
}

HOLT_API void holt_free(void *data)
{
	mem_free(data);
}
