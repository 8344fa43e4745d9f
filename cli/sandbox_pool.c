/* SPDX-License-Identifier: Apache-2.0 */
/*
 * holt sandbox: the sandboxes of a pool. What a call acquires is held by the call's process, and
 * let go by its end, however it ends; a lease is what stays.
 */
#include "sandbox_verbs.h"

#include <string.h>

#define TTL_MS_DEFAULT 600000u
#define CELL_COLUMNS   32
#define CELL_MAX       512

/* ---- whose ---- */

int sandbox_acquire_scope(struct pool *pool, const struct sandbox_args *a,
	const holt_acquire_options *options, char ret_id[HOLT_SANDBOX_ID_MAX + 1],
	holt_error **reterr)
{
	holt_scope scope = HOLT_SCOPE_INIT;

	scope.user = a->for_user;
	scope.user_len = strlen(a->for_user);
	scope.thread = a->thread;
	scope.thread_len = strlen(a->thread);
	return holt_provider_acquire(pool->provider, &scope, options, ret_id, reterr);
}

/* The id that was given, or that of the user's thread. */
static int id_of(const struct sandbox_args *a, char token[HOLT_SCOPE_TOKEN_LEN + 1],
	const char **ret_id, holt_error **reterr)
{
	*ret_id = a->for_user ? token : a->box;
	if (!a->for_user)
		return 0;
	return holt_scope_token(
		a->for_user, strlen(a->for_user), a->thread, strlen(a->thread), token, reterr);
}

/* ---- acquire and release ---- */

int sandbox_acquire(struct pool *pool, const struct sandbox_args *a, holt_error **reterr)
{
	holt_acquire_options options = HOLT_ACQUIRE_OPTIONS_INIT;
	char id[HOLT_SANDBOX_ID_MAX + 1] = "";

	options.timeout_ms = a->timeout_ms;
	options.lease_ms = a->ttl_ms ? a->ttl_ms : TTL_MS_DEFAULT;
	if (sandbox_acquire_scope(pool, a, &options, id, reterr) < 0)
		return -1;
	/* Ours; the lease stays. */
	if (holt_provider_release(pool->provider, id, reterr) < 0)
		return -1;
	if (a->given & SANDBOX_JSON)
		(void)printf("{\"id\":\"%s\",\"box\":\"holt-%s-%s\",\"ttl_ms\":%llu}\n", id,
			pool_name(pool), id, (unsigned long long)options.lease_ms);
	else
		(void)printf("%s\n", id);
	return CLI_OK;
}

int sandbox_release(struct pool *pool, const struct sandbox_args *a, holt_error **reterr)
{
	char token[HOLT_SCOPE_TOKEN_LEN + 1] = "";
	const char *id = NULL;

	if (id_of(a, token, &id, reterr) < 0)
		return -1;
	return holt_provider_end_lease(pool->provider, id, reterr) < 0 ? -1 : CLI_OK;
}

/* ---- ps ---- */

struct listing {
	struct cli_table table;
	uint32_t given; /* enum sandbox_option */
	size_t prefix; /* of names, in front of the id */
	int64_t now_ms;
};

static void put_cell(char cell[CELL_MAX], const char *text, size_t len)
{
	if (!text) {
		(void)snprintf(cell, CELL_MAX, "-");
		return;
	}
	(void)cli_escape(cell, CELL_MAX, text, len, 0, NULL);
	cli_cut(cell, CELL_MAX, CELL_COLUMNS);
}

/* How far a moment is from now; "-" for none. */
static void put_time(char cell[CELL_MAX], int64_t when_ms, int64_t distance_ms, const char *ago)
{
	char age[64];

	cli_format_age(age, sizeof age, distance_ms > 0 ? distance_ms / 1000 : 0);
	(void)snprintf(cell, CELL_MAX, "%s%s", when_ms ? age : "-", when_ms ? ago : "");
}

/* What is left of a lease of 10m is "10 minutes" and not 9 from its first moment on. */
static int64_t rounded_up(int64_t left_ms)
{
	return left_ms + (left_ms > 59000 ? 59999 : 999);
}

static const char *text_or_none(const char *text)
{
	return *text ? text : NULL;
}

static void add_row(struct listing *l, const holt_pool_entry *e, const char *id)
{
	static char user[CELL_MAX], thread[CELL_MAX], holder[CELL_MAX];
	char ids[CELL_MAX], since[CELL_MAX], lease[CELL_MAX];
	const char *const label = text_or_none(e->holder_label);
	const char *const cells[] = {
		ids, user, thread, holt_pool_state_name(e->state), since, lease, holder};

	put_cell(ids, id, strlen(id));
	put_cell(user, e->known ? e->user : NULL, e->user_len);
	put_cell(thread, e->known ? e->thread : NULL, e->thread_len);
	put_time(since, e->since_ms, l->now_ms - e->since_ms, " ago");
	put_time(lease, e->lease_until_ms, rounded_up(e->lease_until_ms - l->now_ms), "");
	put_cell(holder, label, label ? strlen(label) : 0);
	cli_table_row(&l->table, cells);
}

static void print_text(const char *name, const char *text, size_t len)
{
	(void)printf(",\"%s\":", name);
	if (text)
		cli_json_string(stdout, text, len, CLI_JSON_TEXT);
	else
		(void)fputs("null", stdout);
}

static void print_time(const char *name, int64_t ms)
{
	char time[64];

	cli_format_time(time, sizeof time, ms * 1000000);
	print_text(name, ms > 0 ? time : NULL, strlen(time));
}

static void print_string(const char *name, const char *text)
{
	print_text(name, text_or_none(text), strlen(text));
}

static void print_entry(const holt_pool_entry *e, const char *id)
{
	(void)printf("{\"id\":");
	cli_json_string(stdout, id, strlen(id), CLI_JSON_TEXT);
	print_string("box", e->name);
	print_string("instance", e->instance);
	print_text("user", e->known ? e->user : NULL, e->user_len);
	print_text("thread", e->known ? e->thread : NULL, e->thread_len);
	print_string("fingerprint", e->fingerprint);
	print_string("state", holt_pool_state_name(e->state));
	print_time("since", e->since_ms);
	print_time("lease_until", e->lease_until_ms);
	print_string("holder", e->holder);
	print_string("holder_label", e->holder_label);
	(void)printf("}\n");
}

static int show_entry(const holt_pool_entry *e, void *user)
{
	struct listing *l = user;
	const char *const id = strlen(e->name) > l->prefix ? e->name + l->prefix : e->name;

	if (l->given & SANDBOX_JSON)
		print_entry(e, id);
	else if (l->given & SANDBOX_QUIET)
		(void)printf("%s\n", id);
	else
		add_row(l, e, id);
	return 0;
}

int sandbox_ps(struct pool *pool, const struct sandbox_args *a, holt_error **reterr)
{
	static const char *const heads[] = {
		"SANDBOX ID", "USER", "THREAD", "STATE", "SINCE", "LEASE", "HOLDER", NULL};
	struct listing l = {.given = a->given,
		.prefix = strlen("holt--") + strlen(pool_name(pool)),
		.now_ms = (int64_t)(cli_now_ns() / 1000000)};
	const int is_table = !(a->given & (SANDBOX_JSON | SANDBOX_QUIET));

	cli_table_open(&l.table, heads);
	const int r = holt_provider_list(pool->provider, show_entry, &l, reterr);
	const int told = cli_table_close(&l.table, r == 0 && is_table ? "\n" : NULL);
	return r < 0 ? -1 : told;
}

/* ---- stats ---- */

int sandbox_stats(struct pool *pool, const struct sandbox_args *a, holt_error **reterr)
{
	holt_provider_stats s = HOLT_PROVIDER_STATS_INIT;

	if (holt_provider_get_stats(pool->provider, &s, reterr) < 0)
		return -1;
	if (a->given & SANDBOX_JSON)
		(void)printf("{\"pool\":\"%s\",\"replicas\":%u,\"active\":%u,\"warm\":%u,"
			     "\"stopped\":%u,\"making\":%u}\n",
			pool_name(pool), s.replicas, s.active, s.warm, s.stopped, s.making);
	else
		(void)printf("pool      %s\nreplicas  %u\nactive    %u\nwarm      %u\n"
			     "stopped   %u\nmaking    %u\n",
			pool_name(pool), s.replicas, s.active, s.warm, s.stopped, s.making);
	return CLI_OK;
}

/* ---- the command line ---- */

int sandbox_pool_main(int argc, char **argv, const void *user)
{
	const struct sandbox_pool_verb *verb = user;
	struct sandbox_args a = {.verb = verb->args.name};
	struct pool pool = {0};
	holt_error *error = NULL;
	int status = sandbox_args_parse(&a, &verb->args, argc, argv);

	if (!status && verb->call == sandbox_acquire && !a.for_user)
		status = cli_usage(CLI_USAGE, a.verb, "needs --for USER and --thread T");
	if (status)
		return status;
	status = -1;
	if (pool_open(&a.pool, &pool, &error) == 0 && pool_provider(&pool, NULL, &error) == 0)
		status = verb->call(&pool, &a, &error);
	pool_close(&pool);
	return status < 0 ? cli_error(CLI_FAILED, error) : cli_finish_with(status);
}

/* ---- help ---- */

#define CONFIG_HELP                                                                \
	"      --config FILE   configuration ($HOLT_CONFIG, else the defaults);\n" \
	"                      see holt-config(1)\n"

#define POOL_HELP "      --pool NAME     of that pool (that of the configuration)\n"

const char sandbox_acquire_help[] =
	"Usage: holt sandbox acquire [OPTIONS] --for USER --thread T\n\n"
	"Makes sure that the thread's sandbox is there, and prints its id. It is the same\n"
	"one each time, unless it was given up meanwhile: then it is a fresh one. A lease\n"
	"keeps it from being given up; it needs no process, and another acquire begins it\n"
	"anew. The id is a BOX for the other verbs.\n\n"
	"Options:\n" CONFIG_HELP "      --for USER      whose\n"
	"      --image IMAGE   what it is made of (that of the configuration)\n"
	"      --json          print a JSON object: id, box, ttl_ms\n" POOL_HELP
	"      --pull WHEN     ask the registry for the image: missing, always or never\n"
	"                      (that of the configuration, else missing)\n"
	"      --thread T      in which conversation\n"
	"      --timeout TIME  for the whole call (that of the configuration)\n"
	"      --ttl TIME      of the lease, up to 24h (10m)\n\n"
	"Example:\n"
	"  id=$(holt sandbox acquire --for ann --thread 7 --image demo)\n";

const char sandbox_release_help[] =
	"Usage: holt sandbox release [OPTIONS] ID\n"
	"       holt sandbox release [OPTIONS] --for USER --thread T\n\n"
	"Ends the lease of 'holt sandbox acquire'. The sandbox is warm then, unless a\n"
	"process has it: it waits for its thread until its idle time is over.\n\n"
	"Options:\n" CONFIG_HELP "      --for USER      whose\n" POOL_HELP
	"      --thread T      in which conversation\n\n"
	"Example:\n"
	"  holt sandbox release 3f0a1c2b4d5e6f70\n";

const char sandbox_ps_help[] =
	"Usage: holt sandbox ps [OPTIONS]\n\n"
	"Lists the sandboxes of a pool, whichever process made them. Active ones are held\n"
	"by a process or a lease, warm ones wait for their threads, and of stopped ones\n"
	"only the files are there.\n\n"
	"Options:\n" CONFIG_HELP "      --json          a JSON object a line\n" POOL_HELP
	"  -q, --quiet         ids only\n\n"
	"Example:\n"
	"  holt sandbox ps --json | jq -r 'select(.state == \"warm\").id'\n";

const char sandbox_stats_help[] =
	"Usage: holt sandbox stats [OPTIONS]\n\n"
	"Counts the sandboxes of a pool: active, warm, stopped, and those being made;\n"
	"replicas is how many may live before a new one takes a warm one's place.\n\n"
	"Options:\n" CONFIG_HELP "      --json          print a JSON object\n" POOL_HELP "\n"
	"Example:\n"
	"  holt sandbox stats --json\n";
