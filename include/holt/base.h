/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOLT_BASE_H
#define HOLT_BASE_H

/*
 * What every other header of the library builds on: version, error codes, error objects, logging.
 *
 * Threads: functions of this header may be called from any thread; an error object belongs to the
 * thread that received it.
 */

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HOLT_VERSION_MAJOR 0
#define HOLT_VERSION_MINOR 1
#define HOLT_VERSION_PATCH 0
#define HOLT_VERSION       "0.1.0"

#if defined(__GNUC__) || defined(__clang__)
#define HOLT_API          __attribute__((visibility("default")))
#define HOLT_MUST_CHECK   __attribute__((warn_unused_result))
#define HOLT_NONNULL(...) __attribute__((nonnull(__VA_ARGS__)))
#else
#define HOLT_API
#define HOLT_MUST_CHECK
#define HOLT_NONNULL(...)
#endif

/*
 * Error codes. Functions return 0 or the negative of one of these. A code says what the caller can
 * do about it; the message of the error object says what happened. Values never change.
 */
enum holt_code {
	HOLT_OK = 0,
	HOLT_EINVALID = 1, /* an argument or input is wrong; do not retry unchanged */
	HOLT_ENOT_FOUND = 2, /* the named thing does not exist */
	HOLT_EEXISTS = 3, /* the name is taken */
	HOLT_EDENIED = 4, /* permission is missing */
	HOLT_EBUSY = 5, /* in use by someone else */
	HOLT_ETIMEOUT = 6, /* the deadline passed */
	HOLT_ECANCELLED = 7, /* the caller cancelled */
	HOLT_ELIMIT = 8, /* a stated limit was reached */
	HOLT_ENO_MEMORY = 9, /* an allocation failed */
	HOLT_EUNSUPPORTED = 10, /* this host or build cannot do it */
	HOLT_EUNAVAILABLE = 11, /* not now; try again later */
	HOLT_EGUEST_LOST = 12, /* the VM ended or stopped answering */
	HOLT_EPROTOCOL = 13, /* a peer broke the protocol */
	HOLT_EIO = 14, /* reading or writing failed */
	HOLT_ECLOSED = 15, /* the object was closed */
	HOLT_EINTERNAL = 16 /* a bug in holt */
};

typedef struct holt_error holt_error;

/**
 * holt_error_code - tell the code of an error.
 * @error: an error object; NULL counts as "no error".
 *
 * Returns: a positive value of enum holt_code, or HOLT_OK for NULL.
 * Ownership: nothing changes hands.
 * Threads: the thread that owns @error.
 * Blocks: never.
 * Since: 0.1
 */
HOLT_API int holt_error_code(const holt_error *error);

/**
 * holt_error_errno - tell the errno behind an error.
 * @error: an error object, or NULL.
 *
 * Returns: a positive errno, or 0 where no system call was the cause.
 * Ownership: nothing changes hands.
 * Threads: the thread that owns @error.
 * Blocks: never.
 * Since: 0.1
 */
HOLT_API int holt_error_errno(const holt_error *error);

/**
 * holt_error_message - tell in one line what happened, cause first.
 * @error: an error object, or NULL.
 *
 * Returns: a NUL-terminated string, never NULL; "" for NULL. It may hold bytes that came from an
 * image or a guest, with control characters escaped.
 * Ownership: borrowed until @error is freed.
 * Threads: the thread that owns @error.
 * Blocks: never.
 * Since: 0.1
 */
HOLT_API const char *holt_error_message(const holt_error *error);

/**
 * holt_error_stage - tell during which step it happened, such as "boot" or "import".
 * @error: an error object, or NULL.
 *
 * Returns: a NUL-terminated string, never NULL; "" where no step is recorded.
 * Ownership: borrowed until @error is freed.
 * Threads: the thread that owns @error.
 * Blocks: never.
 * Since: 0.1
 */
HOLT_API const char *holt_error_stage(const holt_error *error);

/**
 * holt_error_object - tell which thing it is about: an image reference, a box id, a path.
 * @error: an error object, or NULL.
 *
 * Returns: a NUL-terminated string, never NULL; "" where no object is recorded.
 * Ownership: borrowed until @error is freed.
 * Threads: the thread that owns @error.
 * Blocks: never.
 * Since: 0.1
 */
HOLT_API const char *holt_error_object(const holt_error *error);

/**
 * holt_error_hint - tell what can be done about it.
 * @error: an error object, or NULL.
 *
 * Returns: a NUL-terminated string, never NULL; "" where there is no advice.
 * Ownership: borrowed until @error is freed.
 * Threads: the thread that owns @error.
 * Blocks: never.
 * Since: 0.1
 */
HOLT_API const char *holt_error_hint(const holt_error *error);

/**
 * holt_error_free - free an error object.
 * @error: an error object, or NULL.
 *
 * Returns: nothing.
 * Ownership: consumes @error.
 * Threads: the thread that owns @error.
 * Blocks: never.
 * Since: 0.1
 */
HOLT_API void holt_error_free(holt_error *error);

/**
 * holt_code_name - tell the stable name of a code, such as "NOT_FOUND".
 * @code: a value of enum holt_code; other values give "UNKNOWN".
 *
 * Returns: a static NUL-terminated string.
 * Ownership: static.
 * Threads: any thread.
 * Blocks: never.
 * Since: 0.1
 */
HOLT_API const char *holt_code_name(int code);

/**
 * holt_version - tell the version of the library that is loaded.
 *
 * Returns: a static NUL-terminated string, "MAJOR.MINOR.PATCH".
 * Ownership: static.
 * Threads: any thread.
 * Blocks: never.
 * Since: 0.1
 */
HOLT_API const char *holt_version(void);

/* A timeout of this value never passes. */
#define HOLT_FOREVER UINT64_MAX

/* Lets one thread cancel a long call of another: give it in the call's options. */
typedef struct holt_cancel holt_cancel;

/**
 * holt_cancel_new - make a token that is not triggered.
 * @ret: receives the token; must not be NULL.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * Returns: 0, or -HOLT_EINVALID or -HOLT_ENO_MEMORY.
 * Ownership: the caller frees *@ret with holt_cancel_free.
 * Threads: any thread.
 * Blocks: never.
 * Since: 0.1
 */
HOLT_API int holt_cancel_new(holt_cancel **ret, holt_error **reterr);

/**
 * holt_cancel_trigger - end every call that was given the token, now and from now on, with
 * HOLT_ECANCELLED.
 * @cancel: a token; NULL does nothing.
 *
 * Returns: nothing.
 * Ownership: nothing changes hands.
 * Threads: any thread; not from a signal handler.
 * Blocks: never for long.
 * Since: 0.1
 */
HOLT_API void holt_cancel_trigger(holt_cancel *cancel);

/**
 * holt_cancel_triggered - tell whether a token was triggered, for code that cannot give it on.
 * @cancel: a token; NULL was never triggered.
 *
 * Returns: 1 or 0.
 * Ownership: nothing changes hands.
 * Threads: any thread.
 * Blocks: never.
 * Since: 0.1
 */
HOLT_API int holt_cancel_triggered(const holt_cancel *cancel);

/**
 * holt_cancel_free - free a token.
 * @cancel: a token that no running call uses any more, or NULL.
 *
 * Returns: nothing.
 * Ownership: consumes @cancel.
 * Threads: any thread.
 * Blocks: never.
 * Since: 0.1
 */
HOLT_API void holt_cancel_free(holt_cancel *cancel);

enum holt_log_level {
	HOLT_LOG_ERROR = 0,
	HOLT_LOG_WARN = 1,
	HOLT_LOG_INFO = 2,
	HOLT_LOG_DEBUG = 3
};

/* Receives one log line without a trailing newline. May be called from any thread, also at once
 * from several; must not call back into the library. */
typedef void (*holt_log_fn)(int level, const char *component, const char *message, void *user);

/**
 * holt_log_set - choose where log lines go; the library is silent until this is called.
 * @level: least important level that is delivered (enum holt_log_level).
 * @fn: the sink; NULL silences the library again.
 * @user: handed to @fn unchanged; may be NULL.
 *
 * Returns: nothing.
 * Ownership: @user stays the caller's and must outlive the sink.
 * Threads: any thread, but not at the same time as another call of this function.
 * Blocks: never.
 * Since: 0.1
 */
HOLT_API void holt_log_set(int level, holt_log_fn fn, void *user);

#ifdef __cplusplus
}
#endif
#endif
