/* SPDX-License-Identifier: Apache-2.0 */
#include "provider/inside.h"

#include <string.h>

#include "sandbox/contract.h"
#include "base/banned.h"

/*
 * Whether a box that waited still lives. Nothing is taken for a sign of life but the sign itself:
 * an error's text that happens to have "ok" in it is none.
 */
#define HEALTH_MS            5000u
#define VERDICT_MS           2500u /* with less time than that, no answer is no verdict */
#define HEALTH_CAPTURE_BYTES 256u

static bool is_ok(const char *text, size_t len)
{
	while (len > 0 && memchr(" \t\r\n", text[len - 1], 4))
		len--;
	while (len > 0 && memchr(" \t\r\n", *text, 4)) {
		text++;
		len--;
	}
	return len == 2 && memcmp(text, "ok", 2) == 0;
}

static int check_by_command(struct seat *seat, uint64_t timeout_ms, holt_error **reterr)
{
	const struct contract_command what = {.command = "echo ok",
		.call = {.timeout_ms = timeout_ms},
		.capture_bytes = HEALTH_CAPTURE_BYTES};
	struct holt_command *command = NULL;
	holt_exit end;
	size_t len = 0;
	int r = contract_execute(seat->sandbox, &what, &command, reterr);

	if (r < 0)
		return r;
	contract_command_exit(command, &end);
	const char *text = contract_command_output(command, HOLT_STDOUT, &len, NULL);
	if (end.flags & HOLT_EXIT_TIMED_OUT)
		r = err_make(reterr, HOLT_ETIMEOUT, "no answer");
	else if (end.code != 0 || !is_ok(text, len))
		r = err_make(reterr, HOLT_EGUEST_LOST, "the answer is another than expected");
	contract_command_free(command);
	return r;
}

int health_check(struct acquiring *a, struct seat *seat, holt_error **reterr)
{
	struct holt_provider *p = a->p;
	const uint64_t left_ms = acquire_left(a);
	const uint64_t limit_ms = left_ms < HEALTH_MS ? left_ms : HEALTH_MS;
	auto_error error = NULL;
	int r;

	if (limit_ms == 0)
		r = err_make(&error, HOLT_ETIMEOUT, "no time is left for a health check");
	else if (p->config.health_exec)
		r = check_by_command(seat, limit_ms, &error);
	else
		r = p->pool->prove(p->self, seat->box, limit_ms, &error);
	if (r == 0)
		return 0;
	/* What is ours says nothing about the box: no memory, or the caller's time is over before
	 * the guest's. */
	if (r == -HOLT_ENO_MEMORY || (r == -HOLT_ETIMEOUT && limit_ms < VERDICT_MS))
		return error ? err_take(reterr, take_ptr(error)) : err_nomem(reterr);
	return 1;
}
