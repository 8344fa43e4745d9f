/* SPDX-License-Identifier: Apache-2.0 */
#ifndef IMAGE_TARFILE_H
#define IMAGE_TARFILE_H

#include "base/digest.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Reading a tar stream, plain or compressed with gzip, zstd or xz, from a part of a file or from
 * memory, with the digests of both forms on the way. One reader belongs to one thread.
 */

#define TAR_PATH_MAX   4096 /* bytes of a path or link target in an entry */
#define TAR_XATTR_MAX  (64u << 10) /* bytes of one extended attribute, as in Linux */
#define TAR_XATTRS_MAX 256 /* extended attributes of one entry */
#define TAR_STREAM_MAX (UINT64_C(1) << 40) /* bytes of a stream when decompressed */

struct tar_source {
	int fd; /* read with pread; ignored where @data is set */
	const void *data; /* or: bytes in memory */
	uint64_t offset;
	uint64_t size;
	/* Where bytes are still arriving: waits until there is more than @at of them (counted from
	 * @offset) and tells how much; NULL: all are there. */
	int (*wait)(void *user, uint64_t at, uint64_t *ret_have, holt_error **reterr);
	void *user;
	uint64_t stream_max; /* bytes when decompressed; 0: TAR_STREAM_MAX */
};

/* What an import tells its readers; all of it may be zero. */
struct tar_watch {
	void (*progress)(uint64_t done, uint64_t total, void *user);
	void *user;
	const volatile int *cancel;
	uint64_t done; /* bytes read by all readers so far */
	uint64_t total;
};

struct tar_xattr {
	const char *name;
	const void *value;
	size_t size;
};

struct tar_entry {
	const char *path;
	const char *hardlink; /* target path where the entry is a hard link, else NULL */
	const char *symlink; /* target where it is a symlink, else NULL */
	uint32_t mode; /* type and permissions as in struct stat; 0 type for a hard link */
	int64_t uid;
	int64_t gid;
	int64_t mtime_s;
	uint32_t dev_major;
	uint32_t dev_minor;
	uint64_t size;
	const struct tar_xattr *xattrs;
	size_t n_xattrs;
	bool acl; /* has POSIX ACLs, which are not kept */
};

struct tar_reader;

int tar_open(const struct tar_source *src, struct tar_watch *watch, struct tar_reader **ret,
	holt_error **reterr);
void tar_close(struct tar_reader *r);

/* The next entry, valid until the next call: 1, or 0 at the end. */
int tar_next(struct tar_reader *r, struct tar_entry *ret, holt_error **reterr);

/* The next piece of the entry's data, valid until the next call: 1, or 0 at the end. Pieces come
 * in order; what lies between them is a hole. */
int tar_data(struct tar_reader *r, const void **ret_data, size_t *ret_len, uint64_t *ret_offset,
	holt_error **reterr);

/* Where the data of the current entry begins in the source, counted from its offset; for streams
 * without compression and entries that are not empty. Consumes data. */
int tar_data_offset(struct tar_reader *r, uint64_t *ret, holt_error **reterr);

/* After the last entry: read on to the end of the source, refuse anything but zeros behind the
 * archive, and give the digest of the source's bytes and of the tar stream. */
int tar_finish(struct tar_reader *r, char ret_source[DIGEST_STR_LEN + 1],
	char ret_stream[DIGEST_STR_LEN + 1], holt_error **reterr);

/* The digest of all bytes of a source. */
int tar_source_digest(
	const struct tar_source *src, char ret[DIGEST_STR_LEN + 1], holt_error **reterr);

/* Whether the archive ended with its mark (a block of zeros) rather than just stopping. */
bool tar_has_end_mark(const struct tar_reader *r);

/* Bytes of the stream, decompressed, so far. */
uint64_t tar_stream_bytes(const struct tar_reader *r);

/* Fails where the import is to end. For work between two reads that takes long. */
int tar_check_cancel(struct tar_reader *r, holt_error **reterr);

bool tar_is_compressed(const struct tar_reader *r);

/* Copy the decompressed stream to a file; stops before its file system is full. */
int tar_decompress(
	const struct tar_source *src, struct tar_watch *watch, int out, holt_error **reterr);

#endif
