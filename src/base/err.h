/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#include "holt/base.h"

/*
 * Error objects. A fallible function takes `holt_error **reterr` last; it may be NULL and must
 * point to NULL. Every maker returns the negative code, so `return err_make(reterr, ...)` works.
 * An error that cannot be allocated becomes a static "out of memory" object.
 */

/* Set @reterr to a new error with @code and a formatted message. Returns -@code. */
int err_make(holt_error **reterr, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* The same for a failed system call: the code follows from @errnum (positive), and ": strerror"
 * is appended. Returns the negative code. */
int err_errno(holt_error **reterr, int errnum, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Out of memory. */
int err_nomem(holt_error **reterr);

/* Put "text: " before the message of an error that is already set. */
void err_wrap(holt_error **reterr, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Add facts to an error that is already set; a fact that is already there is kept. */
void err_stage(holt_error **reterr, const char *stage);
void err_object(holt_error **reterr, const char *object);
void err_hint(holt_error **reterr, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void err_set_errno(holt_error **reterr, int errnum);

/* Move @error into @reterr (frees it where @reterr is NULL). Returns the negative code. */
int err_take(holt_error **reterr, holt_error *error);

/* The code that stands for an errno. */
int err_code_of_errno(int errnum);

static inline void err_freep(holt_error **error)
{
	holt_error_free(*error);
}
#define auto_error __attribute__((cleanup(err_freep))) holt_error *

#endif
