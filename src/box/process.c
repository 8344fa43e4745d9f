/* SPDX-License-Identifier: Apache-2.0 */
#include "box/process.h"

#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "wire/wire.h"
#include "base/banned.h"

/* One argument or variable: what Linux takes (MAX_ARG_STRLEN). */
#define PROCESS_STRING_MAX 131071u
/* All of argv and env together: what fits into one exec frame, below Linux's own 2 MiB. */
#define PROCESS_BYTES_MAX (2u << 20)

static const char *const nothing[] = {NULL};

/* The caller gets fresh memory either way, so constness is not lost anywhere. */
static int list_join(const char *const *a, const char *const *b, char ***ret, holt_error **reterr)
{
	const size_t n = strv_len(a);
	const size_t m = strv_len(b);
	const char **both = mem_array(n + m + 1, sizeof *both);

	if (!both)
		return err_nomem(reterr);
	for (size_t i = 0; i < n; i++)
		both[i] = a[i];
	for (size_t i = 0; i < m; i++)
		both[n + i] = b[i];
	*ret = strv_dup(both);
	mem_free(both);
	return *ret ? 0 : err_nomem(reterr);
}

static const char *const *as_const(char **list)
{
	union {
		char **in;
		const char *const *out;
	} u = {.in = list};

	return list ? u.out : nothing;
}

static int build_argv(const struct image_config *image, const struct process_wish *w, char ***ret,
	holt_error **reterr)
{
	const char *const *args = w->argv ? w->argv : nothing;
	const char *const *entrypoint = nothing;
	const char *const *rest = args;

	if (w->image_command) {
		entrypoint = w->entrypoint ? w->entrypoint : as_const(image->entrypoint);
		/* An entrypoint of one's own drops the image's Cmd, as docker does. */
		if (!args[0] && !w->entrypoint)
			rest = as_const(image->cmd);
	}
	if (!entrypoint[0] && !rest[0]) {
		(void)err_make(reterr, HOLT_EINVALID, "no command given");
		err_hint(reterr, "the image has neither Entrypoint nor Cmd: name a command");
		return -HOLT_EINVALID;
	}
	return list_join(entrypoint, rest, ret, reterr);
}

static bool same_key(const char *a, const char *b)
{
	const size_t n = strcspn(a, "=");

	return n == strcspn(b, "=") && memcmp(a, b, n) == 0;
}

/* A name, and for @own entries perhaps no value, which takes the variable away. */
static bool var_ok(const char *var, bool own)
{
	return var[0] && var[0] != '=' && (own || strchr(var, '='));
}

/* Put @var into @env of @n entries: later wins, in the place of the earlier. Returns the new n. */
static size_t put_var(const char **env, size_t n, const char *var)
{
	size_t at = 0;

	while (at < n && !same_key(env[at], var))
		at++;
	if (strchr(var, '=')) {
		env[at] = var;
		return at == n ? n + 1 : n;
	}
	for (; at + 1 < n; at++)
		env[at] = env[at + 1];
	return at < n ? n - 1 : n;
}

static int build_env(const struct image_config *image, const char *hostname,
	const struct process_wish *w, char ***ret, holt_error **reterr)
{
	const char *const *own = w->env ? w->env : nothing;
	auto_free char *host_var = str_printf("HOSTNAME=%s", hostname);
	const char *const *of_image = as_const(image->env);
	size_t n = 0;

	auto_free const char **env = mem_array(strv_len(of_image) + strv_len(own) + 2, sizeof *env);
	if (!host_var || !env)
		return err_nomem(reterr);
	n = put_var(env, n, host_var);
	for (size_t i = 0; of_image[i]; i++) {
		/* Docker passes an image's odd entries over; so do we. */
		if (var_ok(of_image[i], false))
			n = put_var(env, n, of_image[i]);
	}
	for (size_t i = 0; own[i]; i++) {
		if (!var_ok(own[i], true)) {
			(void)err_make(reterr, HOLT_EINVALID, "environment variable has no name");
			err_hint(reterr, "write it as NAME=VALUE, or NAME to take it away");
			return -HOLT_EINVALID;
		}
		n = put_var(env, n, own[i]);
	}
	env[n] = NULL;
	*ret = strv_dup(env);
	return *ret ? 0 : err_nomem(reterr);
}

static int check_sizes(const struct process *p, holt_error **reterr)
{
	char *const *const lists[] = {p->argv, p->env};
	size_t total = 0;

	for (size_t i = 0; i < 2; i++) {
		for (size_t j = 0; lists[i][j]; j++) {
			const size_t len = strlen(lists[i][j]);

			if (len > PROCESS_STRING_MAX)
				return err_make(reterr, HOLT_ELIMIT,
					"%s has %zu bytes, more than the limit of %u",
					i ? "an environment variable" : "an argument", len,
					PROCESS_STRING_MAX);
			if (j >= WIRE_STRS_MAX)
				return err_make(reterr, HOLT_ELIMIT, "more than %d %s",
					WIRE_STRS_MAX, i ? "environment variables" : "arguments");
			total += len + 1;
		}
	}
	if (total > PROCESS_BYTES_MAX)
		return err_make(reterr, HOLT_ELIMIT,
			"arguments and environment have %zu bytes, more than the limit of %u",
			total, PROCESS_BYTES_MAX);
	return 0;
}

int process_build(const struct image_config *image, const char *hostname,
	const struct process_wish *w, struct process *ret, holt_error **reterr)
{
	const char *cwd = w->cwd ? w->cwd : image->working_dir;
	const char *user = w->user ? w->user : image->user;
	struct process p = {.flags = w->flags};
	int r;

	if (w->cwd && w->cwd[0] != '/') {
		r = err_make(
			reterr, HOLT_EINVALID, "working directory '%s' is not absolute", w->cwd);
		err_stage(reterr, "exec");
		return r;
	}
	/* As docker does: what a box is made for is made where missing; what one more command asks
	 * for has to be there. */
	if (!w->cwd || w->image_command)
		p.flags |= WIRE_EXEC_MKCWD;
	r = build_argv(image, w, &p.argv, reterr);
	if (r == 0)
		r = build_env(image, hostname, w, &p.env, reterr);
	if (r == 0) {
		p.cwd = str_dup(cwd ? cwd : "");
		p.user = str_dup(user ? user : "");
		r = p.cwd && p.user ? check_sizes(&p, reterr) : err_nomem(reterr);
	}
	if (r < 0) {
		err_stage(reterr, "exec");
		process_done(&p);
		return r;
	}
	*ret = p;
	return 0;
}

void process_done(struct process *p)
{
	strv_free(p->argv);
	strv_free(p->env);
	mem_free(p->cwd);
	mem_free(p->user);
	*p = (struct process){0};
}
