/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BOX_BOX_RECORD_H
#define BOX_BOX_RECORD_H

#include "base/json.h"
#include "base/net_link.h"
#include "box/pool_record.h"
#include "box/process.h"

/*
 * All that is fixed when a box is made, as one JSON text in the index. It holds what is needed of
 * the image, so that the box does not depend on the image any more.
 */
struct box_record {
	char id[33];
	char *name; /* NULL: none; kept beside the record, since it may change */
	char *image; /* as it was given */
	char *image_digest;
	char *rootfs_digest; /* NULL in records of earlier versions */
	int64_t created_ns;
	bool keep;
	uint32_t memory_mib;
	uint32_t cpus;
	uint64_t disk_bytes;
	uint64_t log_bytes;
	uint32_t stop_signal;
	uint64_t stop_grace_ms;
	char *hostname;
	uint8_t mac[6];
	struct net_spec network; /* isolated in records of earlier versions */
	struct image_config config; /* env, entrypoint, cmd, working_dir, user */
	bool has_program;
	struct process program;
	bool pooled; /* a box of a pool: then this is known of it */
	struct pool_record pool;
};

json_t *box_record_json(const struct box_record *r);
int box_record_parse(const char *text, struct box_record *ret, holt_error **reterr);
void box_record_done(struct box_record *r);
/* What a command of the box finds as its own: what the box's program has, else what the image says.
 * Borrows from @r. */
struct image_config box_record_surroundings(const struct box_record *r);

#endif
