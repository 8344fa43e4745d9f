/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BOX_LIFECYCLE_H
#define BOX_LIFECYCLE_H

#include "box/cancel.h"
#include "box/box_home.h"
#include "box/session.h"

/* Making and ending a box: everything between an image's name and a session that takes commands. */
struct box_wish {
	uint32_t memory_mib;
	uint32_t cpus;
	uint64_t disk_bytes;
	uint64_t boot_timeout_ms;
	const char *hostname; /* NULL: the id */
	const char *accel; /* NULL: auto */
	holt_cancel *cancel;
};

struct holt_box {
	struct holt_home *home;
	char id[33];
	char hostname[65];
	struct image *image;
	int owner_fd; /* write end: the keeper ends the box when it closes */
	struct session *session;
	struct session_ready ready;
};

int box_start(struct holt_home *home, const char *image, const struct box_wish *wish,
	struct holt_box **ret, holt_error **reterr);
void box_close(struct holt_box *b);

#endif
