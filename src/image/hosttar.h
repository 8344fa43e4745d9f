/* SPDX-License-Identifier: Apache-2.0 */
#ifndef IMAGE_HOSTTAR_H
#define IMAGE_HOSTTAR_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

/*
 * Files as a stream: a file or a tree of the host becomes a POSIX.1-2001 tar stream
 * (hosttar_pack.c), and one that comes from a guest, which is hostile, becomes files of the host
 * (hosttar_unpack.c). Names are bytes. Neither holds more than one piece of a file in memory.
 *
 * Kept: regular files, directories, symbolic links, hard links, fifos; modes; times of
 * modification. Left out: device nodes, sockets, extended attributes.
 */

#define HOSTTAR_DEPTH_MAX 256 /* directories within each other: each takes one descriptor */
#define HOSTTAR_PATH_MAX  65536 /* bytes of a path in the stream: that many names of 255 bytes */
#define HOSTTAR_LINKS_MAX \
	65536 /* names remembered for hard links; more become files of their own */

enum hosttar_flags {
	/* Keep owner, group, set-id and sticky bits. Otherwise it is 0:0 in the stream and the
	 * caller on disk, without these bits. */
	HOSTTAR_OWNERS = 1 << 0
};

/* Where a packed stream goes, and where one that is unpacked comes from. 0 or a negative code with
 * @reterr; *ret_len 0 is the end. Called on the caller's thread, under the C locale. */
typedef int hosttar_write_fn(void *user, const void *data, size_t len, holt_error **reterr);
typedef int hosttar_read_fn(
	void *user, void *data, size_t size, size_t *ret_len, holt_error **reterr);

struct hosttar_pipe {
	hosttar_write_fn *write; /* pack */
	hosttar_read_fn *read; /* unpack */
	void *user;
	const volatile int *cancel; /* not 0: stop with HOLT_ECANCELLED; may be NULL */
};

/* Pack @name in @dirfd, under the name @as; "." stands for what is inside a directory, without the
 * directory itself. What vanishes beneath @name meanwhile is left out. */
int hosttar_pack(int dirfd, const char *name, const char *as, uint32_t flags,
	const struct hosttar_pipe *out, holt_error **reterr);

/*
 * Make what the stream holds, strictly beneath @dirfd. All entries must have @top as their first
 * component; "." takes what is inside, and leaves @dirfd itself as it is. A directory is merged
 * into one that is there, and refused where anything else is (HOLT_EINVALID), also a link to one.
 * Anything else takes the place of what is there, and never writes through it; but not of a
 * directory (HOLT_EINVALID). HOLT_EPROTOCOL: what hosttar_pack would never write, or a cut stream.
 * What was made before an error stays, except a file that was not whole.
 */
int hosttar_unpack(int dirfd, const char *top, uint32_t flags, const struct hosttar_pipe *in,
	holt_error **reterr);

#endif
