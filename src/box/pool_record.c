/* SPDX-License-Identifier: Apache-2.0 */
#include "box/pool_record.h"

#include "base/mem.h"
#include "base/str.h"
#include "base/banned.h"

static int put(json_t *obj, const char *key, json_t *value)
{
	return value ? json_object_set_new(obj, key, value) : -1;
}

static const char *const *as_const(char **list)
{
	union {
		char **in;
		const char *const *out;
	} u = {.in = list};

	return u.out;
}

json_t *pool_record_json(const struct pool_record *p)
{
	json_t *obj = json_pack("{s:s}", "fingerprint", p->fingerprint);

	if (obj && (!p->user || put(obj, "user", json_from_data(p->user, p->user_len)) == 0) &&
		(!p->thread || put(obj, "thread", json_from_data(p->thread, p->thread_len)) == 0) &&
		(!p->accel || put(obj, "accel", json_from_bytes(p->accel)) == 0) &&
		(!p->owner || put(obj, "owner", json_from_bytes(p->owner)) == 0) &&
		(!p->directories ||
			put(obj, "directories", json_from_list(as_const(p->directories))) == 0))
		return obj;
	json_decref(obj);
	return NULL;
}

int pool_record_parse(const json_t *obj, struct pool_record *ret, holt_error **reterr)
{
	struct pool_record p = {0};
	int r = json_get_data(obj, "user", &p.user, &p.user_len, reterr);

	if (r == 0)
		r = json_get_data(obj, "thread", &p.thread, &p.thread_len, reterr);
	if (r == 0)
		r = json_get_bytes(obj, "fingerprint", &p.fingerprint, reterr);
	if (r == 0)
		r = json_get_bytes(obj, "accel", &p.accel, reterr);
	if (r == 0)
		r = json_get_bytes(obj, "owner", &p.owner, reterr);
	if (r == 0)
		r = json_get_list(obj, "directories", &p.directories, reterr);
	if (r == 0 && !p.fingerprint)
		r = err_make(reterr, HOLT_EINVALID, "'fingerprint' is missing");
	if (r < 0) {
		pool_record_done(&p);
		return r;
	}
	*ret = p;
	return 0;
}

/* With a NUL behind it. */
static char *data_dup(const char *data, size_t len)
{
	char *copy = mem_zalloc(len + 1);

	for (size_t i = 0; copy && i < len; i++)
		copy[i] = data[i];
	return copy;
}

int pool_record_copy(const struct pool_record *from, struct pool_record *ret, holt_error **reterr)
{
	struct pool_record p = {.user = from->user ? data_dup(from->user, from->user_len) : NULL,
		.user_len = from->user_len,
		.thread = from->thread ? data_dup(from->thread, from->thread_len) : NULL,
		.thread_len = from->thread_len,
		.fingerprint = str_dup(from->fingerprint),
		.accel = from->accel ? str_dup(from->accel) : NULL,
		.owner = from->owner ? str_dup(from->owner) : NULL,
		.directories = from->directories ? strv_dup(as_const(from->directories)) : NULL};

	if (p.fingerprint && (!from->user || p.user) && (!from->thread || p.thread) &&
		(!from->accel || p.accel) && (!from->owner || p.owner) &&
		(!from->directories || p.directories)) {
		*ret = p;
		return 0;
	}
	pool_record_done(&p);
	return err_nomem(reterr);
}

void pool_record_done(struct pool_record *p)
{
	mem_free(p->user);
	mem_free(p->thread);
	mem_free(p->fingerprint);
	mem_free(p->accel);
	mem_free(p->owner);
	strv_free(p->directories);
	*p = (struct pool_record){0};
}
