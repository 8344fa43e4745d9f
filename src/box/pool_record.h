/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BOX_POOL_RECORD_H
#define BOX_POOL_RECORD_H

#include "base/json.h"

/*
 * What is stored with a box of a pool before it exists for anybody: whose it is, and what it was
 * made of (holt/sys/pool.h). Users and threads are any bytes; none at all is another thing than an
 * empty one.
 */
struct pool_record {
	char *user; /* NULL: none */
	size_t user_len;
	char *thread; /* NULL: none */
	size_t thread_len;
	char *fingerprint;
	char *accel; /* as it is wished; NULL: whatever works */
	char **directories; /* that it has at each start; NULL: none */
	char *owner; /* of them; NULL: the image's user */
};

json_t *pool_record_json(const struct pool_record *p);
/* @obj is such an object. */
int pool_record_parse(const json_t *obj, struct pool_record *ret, holt_error **reterr);
int pool_record_copy(const struct pool_record *from, struct pool_record *ret, holt_error **reterr);
void pool_record_done(struct pool_record *p);

#endif
