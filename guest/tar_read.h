/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GUEST_TAR_READ_H
#define GUEST_TAR_READ_H

#include "tar_format.h"

#define TAR_READ_SIZE (256u * 1024)

/* A string or body that stands in front of the entry it belongs to. */
struct tar_text {
	char *data;
	size_t cap;
};

/* An archive on its way in from @fd. */
struct tar_reader {
	int fd;
	const char *fault; /* set where something fails */
	uint8_t *buf;
	size_t pos;
	size_t len;
	bool ended; /* of the descriptor */
	bool begun; /* a good header was seen */
	uint64_t data_left; /* of this entry */
	uint32_t padding_left;
	struct tar_names names;
	struct tar_text long_name;
	struct tar_text long_link;
	struct tar_text pax_body;
};

/* Returns 0, or -ENOMEM. */
int tar_reader_init(struct tar_reader *r, int fd);
void tar_reader_done(struct tar_reader *r);
/* The next entry: 1, 0 at the end of the archive, or -errno. The strings of @ret live until the
 * next call; data that nobody took is skipped. */
int tar_next(struct tar_reader *r, struct tar_entry *ret);
/* Data of the entry: 1 with a piece that lives until the next call, 0 at its end, or -errno. */
int tar_data(struct tar_reader *r, const uint8_t **ret, size_t *ret_len);
/* Read what stands behind the archive, to the end. */
int tar_drain(struct tar_reader *r);

#endif
