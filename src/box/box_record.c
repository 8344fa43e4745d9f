/* SPDX-License-Identifier: Apache-2.0 */
#include "box/box_record.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/banned.h"

#define RECORD_SIZE_MAX (16u << 20)

/* Without memory some member is missing from @obj; the caller looks at the flag once. */
static void put(json_t *obj, const char *key, json_t *value, bool *failed)
{
	if (!value || json_object_set_new(obj, key, value) < 0)
		*failed = true;
}

static void put_text(json_t *obj, const char *key, const char *s, bool *failed)
{
	if (s)
		put(obj, key, json_from_bytes(s), failed);
}

static const char *const *as_const(char **list)
{
	union {
		char **in;
		const char *const *out;
	} u = {.in = list};

	return u.out;
}

static void put_list(json_t *obj, const char *key, char **list, bool *failed)
{
	if (list)
		put(obj, key, json_from_list(as_const(list)), failed);
}

static json_t *config_json(const struct image_config *c)
{
	json_t *obj = json_object();
	bool failed = !obj;

	put_list(obj, "env", c->env, &failed);
	put_list(obj, "entrypoint", c->entrypoint, &failed);
	put_list(obj, "cmd", c->cmd, &failed);
	put_text(obj, "working_dir", c->working_dir, &failed);
	put_text(obj, "user", c->user, &failed);
	if (!failed)
		return obj;
	json_decref(obj);
	return NULL;
}

static json_t *program_json(const struct process *p)
{
	json_t *obj = json_pack("{s:I, s:I, s:i, s:i, s:I, s:I}", "flags", (json_int_t)p->flags,
		"timeout_ms", (json_int_t)p->timeout_ms, "rows", (int)p->rows, "cols", (int)p->cols,
		"pids_max", (json_int_t)p->pids_max, "replay", (json_int_t)p->replay);
	bool failed = !obj;

	put_list(obj, "argv", p->argv, &failed);
	put_list(obj, "env", p->env, &failed);
	put_text(obj, "cwd", p->cwd, &failed);
	put_text(obj, "user", p->user, &failed);
	if (!failed)
		return obj;
	json_decref(obj);
	return NULL;
}

json_t *box_record_json(const struct box_record *r)
{
	char mac[18];

	(void)snprintf(mac, sizeof mac, "%02x:%02x:%02x:%02x:%02x:%02x", r->mac[0], r->mac[1],
		r->mac[2], r->mac[3], r->mac[4], r->mac[5]);
	json_t *obj = json_pack("{s:s, s:I, s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:s}", "id", r->id,
		"created_ns", (json_int_t)r->created_ns, "keep", (int)r->keep, "memory_mib",
		(json_int_t)r->memory_mib, "cpus", (json_int_t)r->cpus, "disk_bytes",
		(json_int_t)r->disk_bytes, "log_bytes", (json_int_t)r->log_bytes, "stop_signal",
		(json_int_t)r->stop_signal, "stop_grace_ms", (json_int_t)r->stop_grace_ms, "mac",
		mac);
	bool failed = !obj;

	put_text(obj, "image", r->image, &failed);
	put_text(obj, "image_digest", r->image_digest, &failed);
	put_text(obj, "rootfs_digest", r->rootfs_digest, &failed);
	put_text(obj, "hostname", r->hostname, &failed);
	put(obj, "network", net_spec_json(&r->network), &failed);
	put(obj, "config", config_json(&r->config), &failed);
	if (r->has_program)
		put(obj, "program", program_json(&r->program), &failed);
	if (r->pooled)
		put(obj, "pool", pool_record_json(&r->pool), &failed);
	if (!failed)
		return obj;
	json_decref(obj);
	return NULL;
}

/* ---- reading ---- */

static int get_number(
	const json_t *obj, const char *key, int64_t max, uint64_t *ret, holt_error **reterr)
{
	int64_t value = -1;
	const int r = json_get_int(obj, key, 0, max, &value, reterr);

	if (r == 0 && value < 0)
		return err_make(reterr, HOLT_EINVALID, "'%s' is missing", key);
	*ret = (uint64_t)value;
	return r;
}

static int parse_config(const json_t *obj, struct image_config *c, holt_error **reterr)
{
	int r = json_get_list(obj, "env", &c->env, reterr);

	if (r < 0 || (r = json_get_list(obj, "entrypoint", &c->entrypoint, reterr)) < 0 ||
		(r = json_get_list(obj, "cmd", &c->cmd, reterr)) < 0 ||
		(r = json_get_bytes(obj, "working_dir", &c->working_dir, reterr)) < 0)
		return r;
	return json_get_bytes(obj, "user", &c->user, reterr);
}

static int parse_program(const json_t *obj, struct process *p, holt_error **reterr)
{
	uint64_t flags, rows, cols, pids, replay;
	int r = get_number(obj, "flags", UINT32_MAX, &flags, reterr);

	if (r < 0 || (r = get_number(obj, "timeout_ms", INT64_MAX, &p->timeout_ms, reterr)) < 0 ||
		(r = get_number(obj, "rows", UINT16_MAX, &rows, reterr)) < 0 ||
		(r = get_number(obj, "cols", UINT16_MAX, &cols, reterr)) < 0 ||
		(r = get_number(obj, "pids_max", UINT32_MAX, &pids, reterr)) < 0 ||
		(r = get_number(obj, "replay", UINT32_MAX, &replay, reterr)) < 0 ||
		(r = json_get_list(obj, "argv", &p->argv, reterr)) < 0 ||
		(r = json_get_list(obj, "env", &p->env, reterr)) < 0 ||
		(r = json_get_bytes(obj, "cwd", &p->cwd, reterr)) < 0 ||
		(r = json_get_bytes(obj, "user", &p->user, reterr)) < 0)
		return r;
	p->flags = (uint32_t)flags;
	p->rows = (uint16_t)rows;
	p->cols = (uint16_t)cols;
	p->pids_max = (uint32_t)pids;
	p->replay = (uint32_t)replay;
	if (!p->argv || !p->env || !p->cwd || !p->user)
		return err_make(reterr, HOLT_EINVALID, "its program is not complete");
	return 0;
}

static int parse_shape(const json_t *doc, struct box_record *b, holt_error **reterr)
{
	uint64_t created, memory, cpus, signo;
	int r = get_number(doc, "created_ns", INT64_MAX, &created, reterr);

	if (r < 0 || (r = get_number(doc, "memory_mib", UINT32_MAX, &memory, reterr)) < 0 ||
		(r = get_number(doc, "cpus", UINT32_MAX, &cpus, reterr)) < 0 ||
		(r = get_number(doc, "disk_bytes", INT64_MAX, &b->disk_bytes, reterr)) < 0 ||
		(r = get_number(doc, "log_bytes", INT64_MAX, &b->log_bytes, reterr)) < 0 ||
		(r = get_number(doc, "stop_signal", 64, &signo, reterr)) < 0 ||
		(r = get_number(doc, "stop_grace_ms", INT32_MAX, &b->stop_grace_ms, reterr)) < 0)
		return r;
	b->created_ns = (int64_t)created;
	b->memory_mib = (uint32_t)memory;
	b->cpus = (uint32_t)cpus;
	b->stop_signal = (uint32_t)signo;
	b->keep = json_is_true(json_object_get(doc, "keep"));
	return 0;
}

static int parse_names(const json_t *doc, struct box_record *b, holt_error **reterr)
{
	const char *id = NULL;
	const char *mac = NULL;
	unsigned m[6];
	int r = json_get_str(doc, "id", &id, reterr);

	if (r < 0 || (r = json_get_str(doc, "mac", &mac, reterr)) < 0 ||
		(r = json_get_bytes(doc, "image", &b->image, reterr)) < 0 ||
		(r = json_get_bytes(doc, "image_digest", &b->image_digest, reterr)) < 0 ||
		(r = json_get_bytes(doc, "rootfs_digest", &b->rootfs_digest, reterr)) < 0 ||
		(r = json_get_bytes(doc, "hostname", &b->hostname, reterr)) < 0)
		return r;
	if (!id || strlen(id) >= sizeof b->id || !b->image || !b->hostname || !mac ||
		sscanf(mac, "%2x:%2x:%2x:%2x:%2x:%2x", &m[0], &m[1], &m[2], &m[3], &m[4], &m[5]) !=
			6)
		return err_make(
			reterr, HOLT_EINVALID, "its id, image, host name or MAC is missing");
	(void)snprintf(b->id, sizeof b->id, "%s", id);
	for (int i = 0; i < 6; i++)
		b->mac[i] = (uint8_t)m[i];
	return 0;
}

int box_record_parse(const char *text, struct box_record *ret, holt_error **reterr)
{
	struct box_record b = {0};
	auto_json doc = NULL;
	int r = json_parse(text, strlen(text), RECORD_SIZE_MAX, "record of a box", &doc, reterr);

	if (r == 0)
		r = parse_names(doc, &b, reterr);
	if (r == 0)
		r = parse_shape(doc, &b, reterr);
	if (r == 0)
		r = parse_config(json_object_get(doc, "config"), &b.config, reterr);
	const json_t *network = doc ? json_object_get(doc, "network") : NULL;
	if (r == 0 && network)
		r = net_spec_parse(network, &b.network, reterr);
	const json_t *program = doc ? json_object_get(doc, "program") : NULL;
	if (r == 0 && program) {
		b.has_program = true;
		r = parse_program(program, &b.program, reterr);
	}
	const json_t *pool = doc ? json_object_get(doc, "pool") : NULL;
	if (r == 0 && pool) {
		r = pool_record_parse(pool, &b.pool, reterr);
		b.pooled = r == 0;
	}
	if (r < 0) {
		err_wrap(reterr, "cannot read what the index says about a box");
		box_record_done(&b);
		return r;
	}
	*ret = b;
	return 0;
}

static void config_clear(struct image_config *c)
{
	strv_free(c->env);
	strv_free(c->entrypoint);
	strv_free(c->cmd);
	mem_free(c->working_dir);
	mem_free(c->user);
}

void box_record_done(struct box_record *r)
{
	mem_free(r->name);
	mem_free(r->image);
	mem_free(r->image_digest);
	mem_free(r->rootfs_digest);
	mem_free(r->hostname);
	net_spec_done(&r->network);
	config_clear(&r->config);
	process_done(&r->program);
	pool_record_done(&r->pool);
	*r = (struct box_record){0};
}

struct image_config box_record_surroundings(const struct box_record *r)
{
	struct image_config c = r->config;

	if (r->has_program) {
		c.env = r->program.env;
		c.working_dir = r->program.cwd;
		c.user = r->program.user;
	}
	return c;
}
