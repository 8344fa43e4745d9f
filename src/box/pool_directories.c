/* SPDX-License-Identifier: Apache-2.0 */
#include "box/pool_directories.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "box/request.h"
#include "base/banned.h"

/* A guest that hangs is not waited for longer, whatever the call's time is. */
#define TIMEOUT_MS 20000u
/* Of all paths together, far below what a frame can hold. */
#define PATHS_MAX 65536u

/* Strings one after the other, each with its NUL, as the wire packs them. */
static int pack(char *const *list, struct buf *out, struct wire_strs *ret, holt_error **reterr)
{
	uint32_t n = 0;
	int r = 0;

	for (; list[n] && r == 0; n++)
		r = buf_append(out, list[n], strlen(list[n]) + 1);
	if (r == -ENOMEM)
		return err_nomem(reterr);
	if (r < 0)
		return err_make(reterr, HOLT_ELIMIT, "the directories' names are longer than %u",
			PATHS_MAX);
	*ret = (struct wire_strs){.data = out->data, .len = (uint32_t)out->len, .count = n};
	return 0;
}

static const char *owner_of(const struct holt_box *b)
{
	const struct image_config own = box_record_surroundings(&b->rec);

	return b->rec.pool.owner ? b->rec.pool.owner : own.user ? own.user : "";
}

void pool_directories_fill(
	const char *const *list, const char *owner, struct keeper_directories *ret)
{
	struct keeper_directories d = {0};

	*ret = d;
	if (!list || strlen(owner) >= sizeof d.owner)
		return;
	(void)snprintf(d.owner, sizeof d.owner, "%s", owner);
	for (; list[d.n]; d.n++) {
		const size_t size = strlen(list[d.n]) + 1;

		if (size > sizeof d.paths - d.len)
			return;
		memcpy(d.paths + d.len, list[d.n], size);
		d.len += (uint32_t)size;
	}
	*ret = d;
}

void pool_directories_of(const struct holt_box *b, struct keeper_directories *ret)
{
	union {
		char **in;
		const char *const *out;
	} list = {.in = b->rec.pool.directories};

	pool_directories_fill(list.out, owner_of(b), ret);
}

int pool_directories_make(struct holt_box *b, const struct call_bounds *bounds, holt_error **reterr)
{
	const struct pool_record *pool = &b->rec.pool;
	const char *user = owner_of(b);
	struct wire_msg msg = {.op = WIRE_OP_directories,
		.directories = {.user = {(const uint8_t *)user, (uint32_t)strlen(user)}}};
	auto_buf paths = BUF_INIT(PATHS_MAX);
	struct session *s = NULL;

	if (b->furnished || !pool->directories || !pool->directories[0])
		return 0;
	int r = pack(pool->directories, &paths, &msg.directories.paths, reterr);
	if (r == 0)
		r = call_bounds_check(bounds, reterr);
	const uint64_t left_ms = call_bounds_left(bounds);
	const uint64_t time_ms = left_ms < TIMEOUT_MS ? left_ms : TIMEOUT_MS;
	if (r == 0)
		r = box_connect_within(b, time_ms, bounds->cancel, &s, reterr);
	if (r == 0)
		r = session_ask(s, &msg, time_ms, bounds->cancel, NULL, reterr);
	if (r < 0)
		err_stage(reterr, "directories");
	return r;
}
