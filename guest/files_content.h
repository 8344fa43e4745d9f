/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GUEST_FILES_CONTENT_H
#define GUEST_FILES_CONTENT_H

#include "builtin_files.h"

/*
 * The content of a write, which is kept until it is complete: so a client that gives up, or goes,
 * has changed nothing. The first CONTENT_HEAD bytes stay in memory, the rest goes to a file without
 * a name, on the disk where that is possible; or all of it goes to such a file that the caller
 * made, to become the target itself.
 */
#define CONTENT_HEAD (1024u * 1024)

struct content {
	uint8_t *head; /* NULL: nothing stays in memory */
	size_t head_len;
	int fd; /* of the rest, or -EBADF */
	bool ended; /* the client said so */
	bool aborted; /* and that it is not to be used */
};

#define CONTENT_INIT         \
	(struct content)     \
	{                    \
		.fd = -EBADF \
	}

/* Take the content of the current request. The rest may go to the directory @dir_fd; where the
 * caller has set @c->fd, everything goes there. Returns 0 or -errno, then with @c->ended unset;
 * look at @c->aborted. */
int content_receive(struct content *c, struct files *f, int dir_fd);
/* Read over what is left of it. */
void content_drain(struct content *c, struct files *f);
/* Write all of it to @fd, what is in memory with one write. Returns 0 or -errno; *ret_written is
 * set in both cases. */
int content_copy(const struct content *c, int fd, uint64_t *ret_written);
void content_done(struct content *c);

/* A file without a name in the directory @dir_fd, which can get one. Returns a descriptor or
 * -errno: EOPNOTSUPP where the file system has none (an overlay, before Linux 6.10). */
int content_unnamed(int dir_fd);

/* A temporary name; try others while it is taken. */
#define CONTENT_NAME_SIZE  16
#define CONTENT_NAME_TRIES 100
void content_make_name(char name[CONTENT_NAME_SIZE]);

/* A new file with a temporary name in the directory @dir_fd, locked (flock) as long as it is open:
 * one without a lock was left behind by a process that was killed, and a later call removes it once
 * it comes to that name. Returns a descriptor or -errno. */
int content_named(int dir_fd, char name[CONTENT_NAME_SIZE]);

#endif
