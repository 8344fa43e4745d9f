/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/contract.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/str.h"
#include "sandbox/lines.h"
#include "sandbox/paths.h"
#include "sandbox/running.h"
#include "base/banned.h"

/*
 * Files: what is refused, how much is handed over, and lines. Bytes flow through; only the calls
 * that collect them hold a whole file, up to a limit.
 *
 * Limits are counted here, over what is handed over, whatever the backend does about its own: it is
 * told where that is the same, since it can often refuse before the first byte.
 */

struct reading {
	struct running run;
	bool download;
	bool by_lines;
	struct lines lines;
	uint64_t max; /* 0: none */
	uint64_t given;
	struct buf *into; /* or, where it is NULL, what comes next */
	holt_data_fn data;
	void *user;
};

static int over_limit(struct reading *r)
{
	if (r->download)
		return running_fail(&r->run, HOLT_ELIMIT, EFBIG,
			"copy it out of the box, or read it piece by piece",
			"File exceeds maximum download size of %u bytes",
			CONTRACT_DOWNLOAD_BYTES_MAX);
	return running_fail(&r->run, HOLT_ELIMIT, EFBIG, "read it piece by piece, or allow more",
		"more than the maximum of %" PRIu64 " bytes", r->max);
}

static int give(const void *data, size_t len, void *user)
{
	struct reading *r = user;

	if (r->run.stopped || r->run.own)
		return 1;
	if (r->max && len > r->max - r->given)
		return over_limit(r);
	r->given += len;
	if (len == 0)
		return 0;
	if (!r->into)
		return running_stop(&r->run, r->data(data, len, r->user));
	return buf_append(r->into, data, len) < 0 ? running_fail_memory(&r->run) : 0;
}

static int on_data(const void *data, size_t len, void *user)
{
	struct reading *r = user;

	return r->by_lines ? lines_feed(&r->lines, data, len, give, r) : give(data, len, r);
}

static int drop(const void *data, size_t len, void *user)
{
	(void)data;
	(void)len;
	(void)user;
	return 0;
}

static bool is_over_limit(int code, const holt_error *error)
{
	return code == -HOLT_ELIMIT && holt_error_errno(error) == EFBIG;
}

/* No line is wanted, but a file that cannot be read shall fail: ask for as little as can be. One
 * that has more is there. */
static int read_nothing(struct reading *r, const char *path, holt_error **reterr)
{
	const holt_backend_read what = {.first_line = 1, .last_line = 1, .max_bytes = 1};
	holt_sandbox *s = r->run.sandbox;
	const int code = s->backend.read(s->self, path, &what, drop, NULL, &r->run.call, reterr);

	if (!is_over_limit(code, *reterr))
		return code;
	holt_error_free(*reterr);
	*reterr = NULL;
	return 0;
}

static int read_range(
	struct reading *r, const char *path, const struct contract_read *what, holt_error **reterr)
{
	holt_sandbox *s = r->run.sandbox;
	holt_backend_read range = {.max_bytes = what->max_bytes};

	if (what->lines) {
		range.first_line = what->first_line > 1 ? (uint64_t)what->first_line : 1;
		range.last_line = what->last_line > 0 ? (uint64_t)what->last_line : 0;
		/* What goes from the ends of lines does not count. */
		range.max_bytes = 0;
		if (what->last_line < 0 || (range.last_line && range.last_line < range.first_line))
			return read_nothing(r, path, reterr);
	}
	return s->backend.read(s->self, path, &range, on_data, r, &r->run.call, reterr);
}

static int read_checked(holt_sandbox *sandbox, const char *path, const struct contract_read *what,
	const holt_call *call, struct reading *reading, holt_error **reterr)
{
	holt_error *error = NULL;

	reading->max = what->max_bytes;
	reading->by_lines = what->lines;
	int r = running_begin(&reading->run, sandbox, call, "read", path, reterr);
	if (r < 0)
		return r;
	r = read_range(reading, path, what, &error);
	return running_end(&reading->run, r, error, reterr);
}

int contract_read_to(holt_sandbox *sandbox, const char *path, const struct contract_read *what,
	const holt_call *call, holt_data_fn data, void *user, holt_error **reterr)
{
	struct reading reading = {.data = data, .user = user};
	const int r = path_check(path, reterr);

	return r < 0 ? r : read_checked(sandbox, path, what, call, &reading, reterr);
}

/* Hand over the buffer's memory; there is always a NUL behind the bytes. */
static int take_bytes(struct buf *b, char **ret, size_t *ret_len, holt_error **reterr)
{
	if (!b->data && buf_append(b, "", 0) < 0)
		return err_nomem(reterr);
	*ret_len = b->len;
	*ret = (char *)take_ptr(b->data);
	return 0;
}

/* What a read fails with, as content. */
static int read_text(const holt_error *error, char **ret, size_t *ret_len, holt_error **reterr)
{
	static const char prefix[] = "Error: ";
	auto_free char *text = contract_error_text(error);

	if (!text)
		return err_nomem(reterr);
	const char *message = text + sizeof prefix - 1;
	message += strspn(message, " \t\r\n");
	size_t len = strlen(message);
	while (len > 0 && strchr(" \t\r\n", message[len - 1]))
		len--;
	char *trimmed = len ? str_printf("%s%.*s", prefix, (int)len, message)
			    : str_printf("%scannot read file", prefix);
	if (!trimmed)
		return err_nomem(reterr);
	*ret_len = strlen(trimmed);
	*ret = trimmed;
	return 0;
}

int contract_read(holt_sandbox *sandbox, const char *path, const struct contract_read *what,
	const holt_call *call, char **ret, size_t *ret_len, holt_error **reterr)
{
	auto_buf b = BUF_INIT(what->max_bytes);
	auto_error error = NULL;
	struct reading reading = {.into = &b};
	int r = path_check(path, reterr);

	if (r < 0)
		return r;
	r = read_checked(sandbox, path, what, call, &reading, &error);
	if (r == 0)
		return take_bytes(&b, ret, ret_len, reterr);
	if (sandbox->text && r != -HOLT_ENO_MEMORY)
		return read_text(error, ret, ret_len, reterr);
	return err_take(reterr, take_ptr(error));
}

static int download(holt_sandbox *sandbox, const char *path, const holt_call *call,
	struct reading *reading, holt_error **reterr)
{
	auto_free char *absolute = NULL;
	holt_error *error = NULL;
	int r = path_of_download(path, sandbox->user_data, &absolute, reterr);

	if (r == 0)
		r = running_begin(&reading->run, sandbox, call, "download", path, reterr);
	if (r < 0)
		return r;
	reading->max = CONTRACT_DOWNLOAD_BYTES_MAX;
	reading->download = true;
	r = sandbox->backend.download(sandbox->self, absolute, reading->max, on_data, reading,
		&reading->run.call, &error);
	if (is_over_limit(r, error))
		(void)over_limit(reading);
	return running_end(&reading->run, r, error, reterr);
}

int contract_download_to(holt_sandbox *sandbox, const char *path, const holt_call *call,
	holt_data_fn data, void *user, holt_error **reterr)
{
	struct reading reading = {.data = data, .user = user};

	return download(sandbox, path, call, &reading, reterr);
}

int contract_download(holt_sandbox *sandbox, const char *path, const holt_call *call, char **ret,
	size_t *ret_len, holt_error **reterr)
{
	auto_buf b = BUF_INIT(CONTRACT_DOWNLOAD_BYTES_MAX);
	struct reading reading = {.into = &b};
	const int r = download(sandbox, path, call, &reading, reterr);

	return r < 0 ? r : take_bytes(&b, ret, ret_len, reterr);
}

struct writing {
	struct running run;
	holt_source_fn source;
	void *user;
};

static int on_source(void *data, size_t size, size_t *ret_len, void *user)
{
	struct writing *w = user;
	size_t len = 0;

	if (w->run.stopped || w->run.own)
		return 1;
	if (running_stop(&w->run, w->source(data, size, &len, w->user)))
		return 1;
	if (len > size)
		return running_fail(&w->run, HOLT_EINVALID, 0, "return no more than was asked for",
			"the source gave %zu bytes where %zu have room", len, size);
	*ret_len = len;
	return 0;
}

int contract_write_from(holt_sandbox *sandbox, enum contract_write how, const char *path,
	uint32_t flags, const holt_call *call, holt_source_fn source, void *user,
	holt_error **reterr)
{
	static const char *const stages[] = {"write", "append", "update"};
	const holt_backend *b = &sandbox->backend;
	struct writing writing = {.source = source, .user = user};
	holt_error *error = NULL;
	int r = path_check(path, reterr);

	if (r == 0)
		r = running_begin(&writing.run, sandbox, call, stages[how], path, reterr);
	if (r < 0)
		return r;
	const __typeof__(b->write) operation = how == CONTRACT_APPEND   ? b->append
					       : how == CONTRACT_UPDATE ? b->update
									: b->write;
	r = operation(sandbox->self, path, flags | HOLT_WRITE_PARENTS, on_source, &writing,
		&writing.run.call, &error);
	return running_end(&writing.run, r, error, reterr);
}

struct memory {
	const char *data;
	size_t len;
};

static int from_memory(void *data, size_t size, size_t *ret_len, void *user)
{
	struct memory *m = user;
	const size_t n = m->len < size ? m->len : size;

	if (n)
		memcpy(data, m->data, n);
	m->data += n;
	m->len -= n;
	*ret_len = n;
	return 0;
}

int contract_write(holt_sandbox *sandbox, enum contract_write how, const char *path, uint32_t flags,
	const holt_call *call, const void *data, size_t len, holt_error **reterr)
{
	struct memory memory = {.data = len ? data : "", .len = len};

	return contract_write_from(sandbox, how, path, flags, call, from_memory, &memory, reterr);
}

int contract_stat(holt_sandbox *sandbox, const char *path, uint32_t flags, const holt_call *call,
	holt_file_info *ret, holt_error **reterr)
{
	struct running run;
	holt_file_info info = HOLT_FILE_INFO_INIT;
	holt_error *error = NULL;
	int r = path_check(path, reterr);

	if (r == 0)
		r = running_begin(&run, sandbox, call, "stat", path, reterr);
	if (r < 0)
		return r;
	r = sandbox->backend.stat(sandbox->self, path, flags, &run.call, &info, &error);
	r = running_end(&run, r, error, reterr);
	if (r == 0)
		*ret = info;
	return r;
}

int contract_make_directory(holt_sandbox *sandbox, const char *path, uint32_t flags,
	const holt_call *call, holt_error **reterr)
{
	struct running run;
	holt_error *error = NULL;
	int r = path_check(path, reterr);

	if (r == 0)
		r = running_begin(&run, sandbox, call, "mkdir", path, reterr);
	if (r < 0)
		return r;
	r = sandbox->backend.make_directory(sandbox->self, path, flags, &run.call, &error);
	return running_end(&run, r, error, reterr);
}

int contract_move(holt_sandbox *sandbox, const char *from, const char *to, uint32_t flags,
	const holt_call *call, holt_error **reterr)
{
	struct running run;
	holt_error *error = NULL;
	int r = path_check(from, reterr);

	if (r == 0)
		r = path_check(to, reterr);
	if (r == 0)
		r = running_begin(&run, sandbox, call, "move", from, reterr);
	if (r < 0)
		return r;
	r = sandbox->backend.move(sandbox->self, from, to, flags, &run.call, &error);
	return running_end(&run, r, error, reterr);
}

int contract_remove(holt_sandbox *sandbox, const char *path, uint32_t flags, const holt_call *call,
	holt_error **reterr)
{
	struct running run;
	holt_error *error = NULL;
	int r = path_check(path, reterr);

	if (r == 0)
		r = running_begin(&run, sandbox, call, "remove", path, reterr);
	if (r < 0)
		return r;
	r = sandbox->backend.remove(sandbox->self, path, flags, &run.call, &error);
	return running_end(&run, r, error, reterr);
}
