/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SANDBOX_RUNNING_H
#define SANDBOX_RUNNING_H

#include "base/cancel.h"
#include "base/err.h"
#include "sandbox/contract.h"

/*
 * One call of an operation, from its checks to what its end means. The theory is in contract.c.
 */

struct holt_sandbox {
	holt_backend backend;
	void *self;
	char *id;
	char **env; /* or NULL */
	char *user_data; /* as it was given */
	bool text;
	void (*terminal)(const char *id, const holt_error *error, void *user);
	void *terminal_user;
	holt_cancel *closing; /* triggered: the sandbox is closed */
	int told; /* atomic: the end of the sandbox was told, and no call has succeeded since */
	int shell; /* atomic: 1 + index of the one that worked last, 0: none yet (contract_exec.c)
		    */
	unsigned owners; /* atomic: how often contract_free has to be called */
	void (*freed)(void *user); /* or NULL */
	void *freed_user;
};

struct running {
	holt_sandbox *sandbox;
	const char *stage;
	const char *object;
	uint64_t timeout_ms; /* as it was asked for */
	uint64_t begun_ms;
	holt_cancel *callers;
	struct cancel_join stop; /* the caller's token and the sandbox's */
	holt_call call; /* what the operation is given */
	bool stopped; /* a function of the caller has ended it */
	holt_error *own; /* or one of ours has, for this reason */
};

/* After it, running_end has to be called. @stage and @object stay borrowed until then. */
int running_begin(struct running *run, holt_sandbox *sandbox, const holt_call *call,
	const char *stage, const char *object, holt_error **reterr);
/* Give the operation what is left of the time, and @extra_ms. Returns what is left without. */
uint64_t running_again(struct running *run, uint64_t extra_ms);
/* What the operation's result @r with @error (consumed) means to the caller. */
int running_end(struct running *run, int r, holt_error *error, holt_error **reterr);
/* For functions that the operation calls: all return what ends it, or 0 where @result is 0. */
int running_stop(struct running *run, int result);
int running_fail(struct running *run, int code, int errnum, const char *hint, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));
int running_fail_memory(struct running *run);

#endif
