/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GUEST_TAR_FORMAT_H
#define GUEST_TAR_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TAR_BLOCK 512
/* A name is at most this long: a thousand components of the longest kind. */
#define TAR_NAME_MAX (256u * 1024)
/* The body of an extended header: two names and what else there may be. */
#define TAR_EXT_MAX (1024u * 1024)
/* What tar_encode makes of one entry: extended header, its body, header. */
#define TAR_HEAD_MAX (2 * TAR_NAME_MAX + 4 * TAR_BLOCK)

enum tar_type {
	TAR_FILE = '0',
	TAR_HARD_LINK = '1',
	TAR_SYMLINK = '2',
	TAR_CHAR = '3',
	TAR_BLOCK_DEVICE = '4',
	TAR_DIR = '5',
	TAR_FIFO = '6',
	/* What tar_next keeps to itself: */
	TAR_PAX = 'x',
	TAR_PAX_GLOBAL = 'g',
	TAR_GNU_NAME = 'L',
	TAR_GNU_LINK = 'K'
};

struct tar_entry {
	char type; /* enum tar_type, or whatever an archive holds */
	const char *name;
	const char *link; /* target; "" where there is none */
	uint32_t mode; /* permission bits only */
	uint64_t uid;
	uint64_t gid;
	uint64_t size; /* bytes of data; at most INT64_MAX */
	int64_t mtime_s;
	uint32_t mtime_ns;
	uint32_t dev_major;
	uint32_t dev_minor;
};

/* Room for the names of one header, which are not NUL-terminated there. */
struct tar_names {
	char name[155 + 1 + 100 + 1];
	char link[100 + 1];
};

/* What an extended header says; strings are NULL where it does not. */
struct tar_pax {
	const char *name;
	const char *link;
	bool has_size;
	bool has_uid;
	bool has_gid;
	bool has_mtime;
	bool sparse; /* the data of the entry is in one of GNU tar's sparse formats */
	uint64_t size;
	uint64_t uid;
	uint64_t gid;
	int64_t mtime_s;
	uint32_t mtime_ns;
};

bool tar_is_zero(const uint8_t block[TAR_BLOCK]);
/* Read a header; the strings of @ret lie in @names. Returns 0, or -EINVAL for a wrong checksum or a
 * number that is none. */
int tar_decode(const uint8_t block[TAR_BLOCK], struct tar_names *names, struct tar_entry *ret);
/* Read the body of an extended header, which is changed and to which the strings of @ret point.
 * Returns 0, or -EINVAL. */
int tar_pax_decode(char *body, size_t len, struct tar_pax *ret);
/* Put what @pax says over @e. */
void tar_pax_apply(const struct tar_pax *pax, struct tar_entry *e);

/* Write header blocks for @e, with an extended header where the plain one cannot say it all.
 * Returns their length, or 0 if a string is longer than TAR_NAME_MAX or @cap is too small. */
size_t tar_encode(const struct tar_entry *e, uint8_t *buf, size_t cap);

#endif
