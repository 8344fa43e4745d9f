/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOLT_FILES_H
#define HOLT_FILES_H

/*
 * Copying between the host and a box, by docker's rules:
 *
 *   a file to a name that does not exist   makes that file; its directory must exist
 *   a file to a directory                  makes the file of the same name in it
 *   a file to a name that ends in '/'      must be a directory
 *   a directory to a name that does not exist   makes it and copies what is inside
 *   a directory to a directory             makes the directory of the same name in it, or, where
 *                                          the source ends in "/.", copies what is inside
 *   a directory to a file                  is refused
 *
 * A target that is a symbolic link means what it leads to. Beneath it nothing is followed: links
 * are copied as links, a file takes the place of a file or link that is there, and a directory is
 * merged into a directory but never into a link to one. A device or socket is no source and no
 * target. What is copied out can never leave the destination, whatever the box does meanwhile;
 * names are bytes. In the box, root does the work.
 *
 * Kept: modes, times, symbolic and hard links, fifos. On the host directories may be 256 deep
 * (HOLT_ELIMIT beyond); of a file with several names that are more than 65,536, some become files
 * of their own. A file that is interrupted is removed on the host, and what stood there is gone.
 */

#include "box.h"

#ifdef __cplusplus
extern "C" {
#endif

enum holt_copy_flags {
	HOLT_COPY_FOLLOW = 1 << 0, /* a source that is a symbolic link means its target */
	HOLT_COPY_ARCHIVE = 1 << 1 /* keep owner and group (out: needs root); otherwise root owns
				      what is copied in, and the caller what is copied out */
};

/**
 * holt_copy_in - copy a file or a directory into a box.
 * @box: a running box; must not be NULL.
 * @source: path on the host; must not be NULL.
 * @target: absolute path in the box; must not be NULL.
 * @flags: enum holt_copy_flags.
 * @cancel: ends the copy with HOLT_ECANCELLED; may be NULL.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * Returns: 0; -HOLT_ENOT_FOUND for a source or a target's directory that does not exist;
 * -HOLT_EINVALID for a directory on a file; -HOLT_EDENIED; -HOLT_ELIMIT (disk full), -HOLT_ECLOSED
 * for a box that does not run; -HOLT_EBUSY for a paused one; -HOLT_EGUEST_LOST, -HOLT_ECANCELLED,
 * -HOLT_EIO, -HOLT_ENO_MEMORY. What was copied before a failure stays.
 * Ownership: nothing changes hands.
 * Threads: any thread.
 * Blocks: until all is copied.
 * Since: 0.1
 */
HOLT_API int holt_copy_in(holt_box *box, const char *source, const char *target, uint32_t flags,
	holt_cancel *cancel, holt_error **reterr);

/**
 * holt_copy_out - copy a file or a directory out of a box.
 * @box: a running box; must not be NULL.
 * @source: absolute path in the box; must not be NULL.
 * @target: path on the host; must not be NULL.
 * @flags: enum holt_copy_flags.
 * @cancel: ends the copy with HOLT_ECANCELLED; may be NULL.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * Device nodes and sockets are left out.
 *
 * Returns: as holt_copy_in; -HOLT_EPROTOCOL where the box sends what no copy holds.
 * Ownership: nothing changes hands.
 * Threads: any thread.
 * Blocks: until all is copied.
 * Since: 0.1
 */
HOLT_API int holt_copy_out(holt_box *box, const char *source, const char *target, uint32_t flags,
	holt_cancel *cancel, holt_error **reterr);

/**
 * holt_copy_in_tar - unpack a tar archive in a box.
 * @box: a running box; must not be NULL.
 * @fd: read to its end; not compressed.
 * @target: absolute path of a directory in the box; must not be NULL.
 * @flags: enum holt_copy_flags.
 * @cancel: ends the copy with HOLT_ECANCELLED; may be NULL.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * Returns: as holt_copy_in; -HOLT_EINVALID for what is not a tar archive.
 * Ownership: @fd stays the caller's.
 * Threads: any thread.
 * Blocks: until all is copied.
 * Since: 0.1
 */
HOLT_API int holt_copy_in_tar(holt_box *box, int fd, const char *target, uint32_t flags,
	holt_cancel *cancel, holt_error **reterr);

/**
 * holt_copy_out_tar - write a file or a directory of a box as a tar archive.
 * @box: a running box; must not be NULL.
 * @source: absolute path in the box; must not be NULL.
 * @fd: receives a POSIX.1-2001 archive with owners and modes.
 * @flags: enum holt_copy_flags.
 * @cancel: ends the copy with HOLT_ECANCELLED; may be NULL.
 * @reterr: receives the error; may be NULL, must point to NULL.
 *
 * Returns: as holt_copy_in.
 * Ownership: @fd stays the caller's.
 * Threads: any thread.
 * Blocks: until all is copied.
 * Since: 0.1
 */
HOLT_API int holt_copy_out_tar(holt_box *box, const char *source, int fd, uint32_t flags,
	holt_cancel *cancel, holt_error **reterr);

#ifdef __cplusplus
}
#endif
#endif
