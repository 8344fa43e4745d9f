/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/banned.h"

/* A message longer than this is cut. */
#define ERR_MESSAGE_MAX 8192

struct holt_error {
	int code;
	int errnum;
	char *message;
	char *stage;
	char *object;
	char *hint;
	bool fixed; /* the static object: never written, never freed */
};

static char nomem_message[] = "out of memory";
static holt_error nomem_error = {
	.code = HOLT_ENO_MEMORY, .errnum = ENOMEM, .message = nomem_message, .fixed = true};

static const char *const code_names[] = {
	[HOLT_OK] = "OK",
	[HOLT_EINVALID] = "INVALID",
	[HOLT_ENOT_FOUND] = "NOT_FOUND",
	[HOLT_EEXISTS] = "EXISTS",
	[HOLT_EDENIED] = "DENIED",
	[HOLT_EBUSY] = "BUSY",
	[HOLT_ETIMEOUT] = "TIMEOUT",
	[HOLT_ECANCELLED] = "CANCELLED",
	[HOLT_ELIMIT] = "LIMIT",
	[HOLT_ENO_MEMORY] = "NO_MEMORY",
	[HOLT_EUNSUPPORTED] = "UNSUPPORTED",
	[HOLT_EUNAVAILABLE] = "UNAVAILABLE",
	[HOLT_EGUEST_LOST] = "GUEST_LOST",
	[HOLT_EPROTOCOL] = "PROTOCOL",
	[HOLT_EIO] = "IO",
	[HOLT_ECLOSED] = "CLOSED",
	[HOLT_EINTERNAL] = "INTERNAL",
};

int err_code_of_errno(int errnum)
{
	switch (errnum) {
	case 0:
		return HOLT_EINTERNAL;
	case ENOENT:
	case ENODEV:
	case ESRCH:
		return HOLT_ENOT_FOUND;
	case EEXIST:
		return HOLT_EEXISTS;
	case EACCES:
	case EPERM:
	case EROFS:
		return HOLT_EDENIED;
	case EBUSY:
	case EWOULDBLOCK:
	case ETXTBSY:
		return HOLT_EBUSY;
	case ETIMEDOUT:
		return HOLT_ETIMEOUT;
	case ECANCELED:
		return HOLT_ECANCELLED;
	case ENOMEM:
		return HOLT_ENO_MEMORY;
	case EINVAL:
	case ENAMETOOLONG:
	case ENOTDIR:
	case EISDIR:
	case ELOOP:
	case EILSEQ:
	case EBADMSG:
		return HOLT_EINVALID;
	case EFBIG:
	case EMSGSIZE:
	case E2BIG:
	case EMFILE:
	case ENFILE:
	case ENOSPC:
	case EDQUOT:
		return HOLT_ELIMIT;
	case ENOSYS:
	case EOPNOTSUPP:
		return HOLT_EUNSUPPORTED;
	default:
		return HOLT_EIO;
	}
}

static void error_set(holt_error **reterr, int code, int errnum, char *message)
{
	holt_error *error = mem_zalloc(sizeof *error);

	if (!error || !message) {
		mem_free(error);
		mem_free(message);
		*reterr = &nomem_error;
		return;
	}
	error->code = code;
	error->errnum = errnum;
	error->message = message;
	*reterr = error;
}

static char *format(const char *fmt, va_list ap) __attribute__((format(__printf__, 1, 0)));

static char *format(const char *fmt, va_list ap)
{
	char text[ERR_MESSAGE_MAX];
	char safe[ERR_MESSAGE_MAX];

	(void)vsnprintf(text, sizeof text, fmt, ap);
	/* Names and console text of strangers end up in messages, and messages on terminals. */
	(void)str_escape(safe, sizeof safe, text, strlen(text), true);
	return str_dup(safe);
}

int err_make(holt_error **reterr, int code, const char *fmt, ...)
{
	va_list ap;

	if (reterr) {
		va_start(ap, fmt);
		error_set(reterr, code, 0, format(fmt, ap));
		va_end(ap);
	}
	return -code;
}

int err_errno(holt_error **reterr, int errnum, const char *fmt, ...)
{
	const int code = err_code_of_errno(errnum);
	char reason[128];
	va_list ap;

	if (!reterr)
		return -code;
	va_start(ap, fmt);
	auto_free char *text = format(fmt, ap);
	va_end(ap);
	const char *why = strerror_r(errnum, reason, sizeof reason);
	error_set(reterr, code, errnum, text ? str_printf("%s: %s", text, why) : NULL);
	return -code;
}

int err_nomem(holt_error **reterr)
{
	if (reterr)
		*reterr = &nomem_error;
	return -HOLT_ENO_MEMORY;
}

void err_wrap(holt_error **reterr, const char *fmt, ...)
{
	va_list ap;

	if (!reterr || !*reterr || (*reterr)->fixed)
		return;
	va_start(ap, fmt);
	auto_free char *prefix = format(fmt, ap);
	va_end(ap);
	char *whole = prefix ? str_printf("%s: %s", prefix, (*reterr)->message) : NULL;
	if (!whole)
		return;
	mem_free((*reterr)->message);
	(*reterr)->message = whole;
}

/* Facts are best effort: without memory the message still stands. */
static void set_fact(char **slot, char *value)
{
	if (*slot)
		mem_free(value);
	else
		*slot = value;
}

void err_stage(holt_error **reterr, const char *stage)
{
	if (reterr && *reterr && !(*reterr)->fixed)
		set_fact(&(*reterr)->stage, str_dup(stage));
}

void err_object(holt_error **reterr, const char *object)
{
	if (reterr && *reterr && !(*reterr)->fixed && object)
		set_fact(&(*reterr)->object, str_dup(object));
}

void err_hint(holt_error **reterr, const char *fmt, ...)
{
	va_list ap;

	if (!reterr || !*reterr || (*reterr)->fixed)
		return;
	va_start(ap, fmt);
	set_fact(&(*reterr)->hint, format(fmt, ap));
	va_end(ap);
}

void err_set_errno(holt_error **reterr, int errnum)
{
	if (reterr && *reterr && !(*reterr)->fixed)
		(*reterr)->errnum = errnum;
}

int err_take(holt_error **reterr, holt_error *error)
{
	const int code = error->code;

	if (reterr)
		*reterr = error;
	else
		holt_error_free(error);
	return -code;
}

HOLT_API int holt_error_code(const holt_error *error)
{
	return error ? error->code : HOLT_OK;
}

HOLT_API int holt_error_errno(const holt_error *error)
{
	return error ? error->errnum : 0;
}

HOLT_API const char *holt_error_message(const holt_error *error)
{
	return error ? error->message : "";
}

HOLT_API const char *holt_error_stage(const holt_error *error)
{
	return error && error->stage ? error->stage : "";
}

HOLT_API const char *holt_error_object(const holt_error *error)
{
	return error && error->object ? error->object : "";
}

/* What helps against the reason, where the place of the failure knew nothing better. */
static const char *hint_of_errno(int errnum)
{
	switch (errnum) {
	case EAGAIN:
		return "allow more processes (ulimit -u), or try again";
	case EDQUOT:
	case ENOSPC:
		return "free some space";
	case EFBIG:
		return "allow larger files (ulimit -f)";
	case EMFILE:
	case ENFILE:
		return "allow more open files (ulimit -n)";
	case EROFS:
		return "choose a place that can be written to";
	default:
		return "";
	}
}

HOLT_API const char *holt_error_hint(const holt_error *error)
{
	if (!error)
		return "";
	return error->hint ? error->hint : hint_of_errno(error->errnum);
}

HOLT_API void holt_error_free(holt_error *error)
{
	if (!error || error->fixed)
		return;
	mem_free(error->message);
	mem_free(error->stage);
	mem_free(error->object);
	mem_free(error->hint);
	mem_free(error);
}

HOLT_API const char *holt_code_name(int code)
{
	const size_t n = sizeof code_names / sizeof code_names[0];

	return code >= 0 && (size_t)code < n ? code_names[code] : "UNKNOWN";
}

HOLT_API const char *holt_version(void)
{
	return HOLT_VERSION;
}
