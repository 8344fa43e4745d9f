/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/contract.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "sandbox/env.h"
#include "sandbox/paths.h"
#include "sandbox/running.h"
#include "sandbox/text.h"
#include "base/banned.h"

/*
 * The sandbox, and what every call of one has in common.
 *
 *   arguments are checked -> running_begin -> one or more operations of the backend -> running_end
 *        INVALID, DENIED       CLOSED            with functions of ours in between
 *
 * A sandbox has no lock. That it is closed is a token which has been triggered; each running call
 * has a token of its own, joined to that one and to the caller's, so that closing and cancelling
 * reach the backend in the same way. What else changes are two numbers that are set atomically: the
 * shell that worked last, and whether the end of the sandbox was told.
 *
 * What a failure means is decided in running_end and nowhere else:
 *
 *   a function of ours failed       that error, whatever the backend made of it
 *   a function of the caller's did  CANCELLED, also where the backend took no notice
 *   the sandbox is closed meanwhile CLOSED, where the backend was cancelled or is gone; never
 *                                   terminal, so that a sandbox that was put away tells nobody
 *                                   about its successor
 *   TIMEOUT                         the same, and the message names the time
 *   CLOSED                          GUEST_LOST: it was not we who ended it
 *   GUEST_LOST, PROTOCOL            terminal: the function that wants to know is called, once
 *                                   until a call succeeds again, on this thread, when the call
 *                                   holds nothing any more
 */

#define ID_BYTES_MAX 255u

static int open_copies(holt_sandbox *s, const struct contract_wish *wish, holt_error **reterr)
{
	if (wish->env && wish->env[0] && !(s->env = strv_dup(wish->env)))
		return err_nomem(reterr);
	s->id = str_dup(wish->id);
	s->user_data = str_dup(wish->user_data);
	return s->id && s->user_data ? cancel_new(&s->closing, reterr) : err_nomem(reterr);
}

static int check_wish(const struct contract_wish *wish, holt_error **reterr)
{
	int r = env_check(wish->env, reterr);

	if (r == 0 && (!wish->id[0] || strlen(wish->id) > ID_BYTES_MAX)) {
		r = err_make(reterr, HOLT_EINVALID, "an id has 1 to %u bytes", ID_BYTES_MAX);
		err_stage(reterr, "options");
		err_object(reterr, wish->id);
	}
	return r < 0 ? r : path_check_user_data(wish->user_data, reterr);
}

int contract_open(const holt_backend *backend, void *self, const struct contract_wish *wish,
	holt_sandbox **ret, holt_error **reterr)
{
	int r = check_wish(wish, reterr);

	if (r < 0)
		return r;
	holt_sandbox *s = mem_zalloc(sizeof *s);
	if (!s)
		return err_nomem(reterr);
	s->backend = *backend;
	s->text = wish->text;
	s->terminal = wish->terminal;
	s->terminal_user = wish->terminal_user;
	s->owners = 1;
	r = open_copies(s, wish, reterr);
	if (r < 0) {
		s->backend.close = NULL;
		contract_free(s);
		return r;
	}
	s->self = self;
	*ret = s;
	return 0;
}

const char *contract_id(const holt_sandbox *sandbox)
{
	return sandbox->id;
}

void contract_close(holt_sandbox *sandbox)
{
	if (sandbox)
		cancel_trigger(sandbox->closing);
}

bool contract_is_closed(const holt_sandbox *sandbox)
{
	return cancel_fired(sandbox->closing);
}

holt_sandbox *contract_ref(holt_sandbox *sandbox)
{
	(void)__atomic_add_fetch(&sandbox->owners, 1, __ATOMIC_RELAXED);
	return sandbox;
}

void contract_on_free(holt_sandbox *sandbox, void (*freed)(void *user), void *user)
{
	sandbox->freed = freed;
	sandbox->freed_user = user;
}

void contract_free(holt_sandbox *sandbox)
{
	if (!sandbox || __atomic_sub_fetch(&sandbox->owners, 1, __ATOMIC_ACQ_REL) > 0)
		return;
	contract_close(sandbox);
	if (sandbox->backend.close)
		sandbox->backend.close(sandbox->self);
	cancel_free(sandbox->closing);
	strv_free(sandbox->env);
	mem_free(sandbox->user_data);
	mem_free(sandbox->id);
	if (sandbox->freed)
		sandbox->freed(sandbox->freed_user);
	mem_free(sandbox);
}

bool contract_is_terminal(const holt_error *error)
{
	const int code = holt_error_code(error);

	return code == HOLT_EGUEST_LOST || code == HOLT_EPROTOCOL;
}

bool contract_is_retryable(const holt_error *error)
{
	const int code = holt_error_code(error);

	return code == HOLT_EUNAVAILABLE || code == HOLT_EBUSY;
}

char *contract_error_text(const holt_error *error)
{
	const char *message = holt_error_message(error);
	const char *word = contract_is_terminal(error)    ? "vsock disconnected"
			   : contract_is_retryable(error) ? "retry later"
							  : NULL;

	if (!word || strstr(message, word))
		return str_printf("Error: %s", message);
	return str_printf("Error: %s (%s)", message, word);
}

static int closed(const holt_sandbox *s, holt_error **reterr)
{
	(void)err_make(reterr, HOLT_ECLOSED, "sandbox has been closed");
	err_stage(reterr, "sandbox");
	err_object(reterr, s->id);
	err_hint(reterr, "open another one");
	return -HOLT_ECLOSED;
}

int running_begin(struct running *run, holt_sandbox *sandbox, const holt_call *call,
	const char *stage, const char *object, holt_error **reterr)
{
	if (cancel_fired(sandbox->closing))
		return closed(sandbox, reterr);
	if (cancel_fired(call->cancel)) {
		(void)err_make(reterr, HOLT_ECANCELLED, "cancelled before it began");
		err_stage(reterr, stage);
		err_object(reterr, object);
		return -HOLT_ECANCELLED;
	}
	run->sandbox = sandbox;
	run->stage = stage;
	run->object = object;
	run->timeout_ms = call->timeout_ms;
	run->begun_ms = clock_mono_ms();
	run->callers = call->cancel;
	run->stopped = false;
	run->own = NULL;
	cancel_join_begin(&run->stop, call->cancel, sandbox->closing);
	run->call = (holt_call){.timeout_ms = call->timeout_ms, .cancel = &run->stop.token};
	return 0;
}

uint64_t running_again(struct running *run, uint64_t extra_ms)
{
	const uint64_t gone = clock_mono_ms() - run->begun_ms;

	if (run->timeout_ms == HOLT_FOREVER)
		return HOLT_FOREVER;
	/* Not 0, which says something else to many. */
	const uint64_t left = run->timeout_ms > gone ? run->timeout_ms - gone : 1;
	run->call.timeout_ms = left < HOLT_FOREVER - extra_ms ? left + extra_ms : HOLT_FOREVER;
	return left;
}

int running_stop(struct running *run, int result)
{
	if (result)
		run->stopped = true;
	return run->stopped;
}

int running_fail(struct running *run, int code, int errnum, const char *hint, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	if (!run->own) {
		va_start(ap, fmt);
		(void)vsnprintf(text, sizeof text, fmt, ap);
		va_end(ap);
		(void)err_make(&run->own, code, "%s", text);
		err_set_errno(&run->own, errnum);
		err_hint(&run->own, "%s", hint);
	}
	return 1;
}

int running_fail_memory(struct running *run)
{
	if (!run->own)
		(void)err_nomem(&run->own);
	return 1;
}

/* The same error under another code, with @before in front of its message. */
static holt_error *recode(holt_error *error, int code, const char *before)
{
	const char *message = holt_error_message(error);
	const char *hint = holt_error_hint(error);
	holt_error *other = NULL;

	(void)err_make(
		&other, code, "%s%s%s", before, before[0] && message[0] ? ": " : "", message);
	err_set_errno(&other, holt_error_errno(error));
	if (holt_error_stage(error)[0])
		err_stage(&other, holt_error_stage(error));
	if (holt_error_object(error)[0])
		err_object(&other, holt_error_object(error));
	if (hint[0])
		err_hint(&other, "%s", hint);
	holt_error_free(error);
	return other;
}

/* The error that stands for a backend's result, whatever it did about the rules. */
static holt_error *error_of(const struct running *run, int r, holt_error *error)
{
	holt_error *other = NULL;

	if (error)
		return error;
	(void)err_make(&other, r < 0 && r >= -HOLT_EINTERNAL ? -r : HOLT_EINTERNAL,
		"'%s' failed and does not say why", run->sandbox->backend.name);
	return other;
}

static holt_error *cancelled(void)
{
	holt_error *error = NULL;

	(void)err_make(&error, HOLT_ECANCELLED, "cancelled");
	return error;
}

static holt_error *meaning(const struct running *run, holt_error *error)
{
	const int code = holt_error_code(error);
	char time[TEXT_TIME_SIZE];
	char before[TEXT_TIME_SIZE + 16];

	if (cancel_fired(run->sandbox->closing) &&
		(contract_is_terminal(error) || code == HOLT_ECLOSED ||
			(code == HOLT_ECANCELLED && !cancel_fired(run->callers)))) {
		holt_error_free(error);
		error = NULL;
		(void)closed(run->sandbox, &error);
		return error;
	}
	if (code == HOLT_ECLOSED)
		return recode(error, HOLT_EGUEST_LOST, "");
	if (code != HOLT_ETIMEOUT)
		return error;
	text_time(time, sizeof time, run->timeout_ms);
	(void)snprintf(before, sizeof before, "timed out after %s", time);
	error = recode(error, code, before);
	err_hint(&error, "allow it more time");
	return error;
}

static void tell(holt_sandbox *s, const holt_error *error)
{
	if (contract_is_terminal(error) && s->terminal &&
		!__atomic_exchange_n(&s->told, 1, __ATOMIC_SEQ_CST))
		s->terminal(s->id, error, s->terminal_user);
}

int running_end(struct running *run, int r, holt_error *error, holt_error **reterr)
{
	const bool foreign = !run->own && !run->stopped && r != 0;
	holt_error *what = run->own;

	cancel_join_end(&run->stop);
	if (foreign) {
		what = meaning(run, error_of(run, r, error));
		error = NULL;
	} else if (!what && run->stopped) {
		what = cancelled();
	}
	holt_error_free(error);
	if (!what && __atomic_load_n(&run->sandbox->told, __ATOMIC_RELAXED))
		__atomic_store_n(&run->sandbox->told, 0, __ATOMIC_SEQ_CST);
	if (!what)
		return 0;
	err_stage(&what, run->stage);
	err_object(&what, run->object);
	if (foreign)
		tell(run->sandbox, what);
	return err_take(reterr, what);
}
