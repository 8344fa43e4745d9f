/* SPDX-License-Identifier: Apache-2.0 */
#include "image/blobs.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/cond.h"
#include "base/digest.h"
#include "base/fd.h"
#include "base/fsutil.h"
#include "base/mem.h"
#include "base/str.h"
#include "image/tarfile.h"
#include "base/banned.h"

/*
 * A blob is arriving (it has the lock of its .part) or whole (a shared lock of its file); the lock
 * becomes a shared one with the name, so that other processes read it from then on. The digest is
 * computed while it is written; what an earlier pull left is read for that before the first byte.
 *
 * Nothing is written through to the disk: after a power cut a blob may be empty or wrong, which its
 * readers notice, as they notice any other damage.
 */

#define LOCK_POLL_NS  20000000 /* between two tries for the lock of another loader */
#define REHASH_BYTES  (1u << 20)
#define PART_NAME_MAX (DIGEST_HEX_LEN + sizeof BLOB_PART)

struct blob {
	int dir; /* of the store, borrowed */
	int fd;
	struct descriptor d;
	char part[PART_NAME_MAX];
	struct digest_ctx *digest; /* of the first @hashed bytes; the loader's */
	uint64_t hashed;
	pthread_mutex_t lock; /* of what follows */
	pthread_cond_t changed;
	bool whole;
	uint64_t have;
	int code; /* of blob_fail */
	char *message;
};

static const char *hex_of(const struct descriptor *d)
{
	return d->digest + 7;
}

static int about(const struct blob *b, int code, holt_error **reterr)
{
	err_object(reterr, b->d.digest);
	return code;
}

/* ---- finding ---- */

/* A blob has another size than it should: either is wrong. A manifest that lies takes nothing from
 * the images that have the blob, too. */
static int judge_size(struct blob *b, int fd, uint64_t size, holt_error **reterr)
{
	const struct tar_source src = {.fd = fd, .size = size};
	char digest[DIGEST_STR_LEN + 1];
	const int code = tar_source_digest(&src, digest, reterr);

	if (code < 0)
		return code;
	if (strcmp(digest, b->d.digest) == 0)
		return err_make(reterr, HOLT_EINVALID,
			"it has %" PRIu64 " bytes, expected %" PRIu64, size, b->d.size);
	if (flock(fd, LOCK_EX | LOCK_NB) == 0 && fs_is_named(fd, b->dir, hex_of(&b->d)))
		(void)unlinkat(b->dir, hex_of(&b->d), 0);
	return 0;
}

/* A whole blob, if there is one: 1 with its descriptor, else 0. */
static int find_whole(struct blob *b, holt_error **reterr)
{
	auto_fd fd = openat(b->dir, hex_of(&b->d), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (fd < 0 && errno == ENOENT)
		return 0;
	if (fd < 0)
		return err_errno(reterr, errno, "cannot open the blob");
	/* Who has it alone is about to remove it. */
	if (flock(fd, LOCK_SH | LOCK_NB) < 0 || !fs_is_named(fd, b->dir, hex_of(&b->d)))
		return 0;
	if (fstat(fd, &st) < 0)
		return err_errno(reterr, errno, "cannot read the blob");
	if ((uint64_t)st.st_size != b->d.size)
		return judge_size(b, fd, (uint64_t)st.st_size, reterr);
	(void)futimens(fd, NULL);
	b->fd = take_fd(fd);
	b->have = b->d.size;
	b->whole = true;
	return 1;
}

/* The part, with its lock: 1, or 0 while another process has it. */
static int find_part(struct blob *b, holt_error **reterr)
{
	struct stat st;
	auto_fd fd = fs_open_lock(b->dir, b->part, false);

	if (fd == -EWOULDBLOCK)
		return 0;
	if (fd < 0)
		return err_errno(reterr, -fd, "cannot open a part of the blob");
	/* Its last loader may have finished since we looked for the whole one. */
	if (faccessat(b->dir, hex_of(&b->d), F_OK, AT_SYMLINK_NOFOLLOW) == 0) {
		(void)unlinkat(b->dir, b->part, 0);
		return 0;
	}
	if (fstat(fd, &st) < 0)
		return err_errno(reterr, errno, "cannot read a part of the blob");
	if ((uint64_t)st.st_size > b->d.size) {
		if (ftruncate(fd, 0) < 0)
			return err_errno(reterr, errno, "cannot empty a part of the blob");
		st.st_size = 0;
	}
	b->fd = take_fd(fd);
	b->have = (uint64_t)st.st_size;
	return 1;
}

static int find(struct blob *b, const volatile int *cancel, holt_error **reterr)
{
	const struct timespec pause = {.tv_nsec = LOCK_POLL_NS};

	for (;;) {
		int r = find_whole(b, reterr);
		if (r == 0)
			r = find_part(b, reterr);
		if (r != 0)
			return r < 0 ? r : 0;
		if (cancel_flag_set(cancel))
			return err_make(reterr, HOLT_ECANCELLED, "the pull was cancelled");
		(void)nanosleep(&pause, NULL);
	}
}

int blob_open(struct image_store *s, const struct descriptor *d, const volatile int *cancel,
	struct blob **ret, holt_error **reterr)
{
	struct blob *b = mem_zalloc(sizeof *b);

	if (!b)
		return err_nomem(reterr);
	*b = (struct blob){.dir = store_blobs_dir(s), .fd = FD_NONE, .d = *d};
	(void)snprintf(b->part, sizeof b->part, "%s" BLOB_PART, hex_of(d));
	(void)pthread_mutex_init(&b->lock, NULL);
	cond_init(&b->changed);
	const int code = find(b, cancel, reterr);
	if (code < 0) {
		(void)about(b, code, reterr);
		blob_close(b);
		return code;
	}
	*ret = b;
	return 0;
}

void blob_close(struct blob *b)
{
	if (!b)
		return;
	if (!b->whole && b->fd >= 0 && b->have == 0)
		(void)unlinkat(b->dir, b->part, 0);
	(void)fd_close(b->fd);
	digest_free(b->digest);
	(void)pthread_cond_destroy(&b->changed);
	(void)pthread_mutex_destroy(&b->lock);
	mem_free(b->message);
	mem_free(b);
}

void blob_discard(struct blob *b)
{
	const char *name = b->whole ? hex_of(&b->d) : b->part;

	/* Others may be reading it, with the same result; their files stay open. */
	if (fs_is_named(b->fd, b->dir, name))
		(void)unlinkat(b->dir, name, 0);
	b->fd = fd_close(b->fd);
	blob_close(b);
}

int blob_fd(const struct blob *b)
{
	return b->fd;
}

/* ---- by any thread ---- */

bool blob_is_whole(struct blob *b)
{
	(void)pthread_mutex_lock(&b->lock);
	const bool whole = b->whole;
	(void)pthread_mutex_unlock(&b->lock);
	return whole;
}

uint64_t blob_have(struct blob *b)
{
	(void)pthread_mutex_lock(&b->lock);
	const uint64_t have = b->have;
	(void)pthread_mutex_unlock(&b->lock);
	return have;
}

int blob_wait(
	struct blob *b, uint64_t at, unsigned timeout_ms, uint64_t *ret_have, holt_error **reterr)
{
	const uint64_t deadline_ms = cond_deadline(timeout_ms);

	(void)pthread_mutex_lock(&b->lock);
	while (b->code == 0 && b->have <= at && cond_wait(&b->changed, &b->lock, deadline_ms))
		;
	const int code = b->code < 0 ? err_make(reterr, -b->code, "%s",
					       b->message ? b->message : "it did not arrive")
				     : 0;
	if (code == 0)
		*ret_have = b->have;
	(void)pthread_mutex_unlock(&b->lock);
	return code;
}

/* ---- by the one that loads ---- */

static void set_have(struct blob *b, uint64_t have)
{
	(void)pthread_mutex_lock(&b->lock);
	b->have = have;
	(void)pthread_cond_broadcast(&b->changed);
	(void)pthread_mutex_unlock(&b->lock);
}

/* The digest of what an earlier loader left. */
static int hash_part(struct blob *b, holt_error **reterr)
{
	auto_free uint8_t *data = NULL;

	if (!b->digest && !(b->digest = digest_new()))
		return err_nomem(reterr);
	if (b->hashed == b->have)
		return 0;
	data = mem_zalloc(REHASH_BYTES);
	if (!data)
		return err_nomem(reterr);
	while (b->hashed < b->have) {
		const uint64_t left = b->have - b->hashed;
		const ssize_t n = pread(b->fd, data,
			left < REHASH_BYTES ? (size_t)left : REHASH_BYTES, (off_t)b->hashed);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return err_errno(reterr, n < 0 ? errno : EIO, "cannot read a part of it");
		digest_update(b->digest, data, (size_t)n);
		b->hashed += (uint64_t)n;
	}
	return 0;
}

/* From the beginning again, over what is there: a reader may be in the midst of it. Who has read
 * some of it reads the same bytes once more, or others, which the digest tells. */
static void restart(struct blob *b)
{
	digest_free(b->digest);
	b->digest = NULL;
	b->hashed = 0;
	set_have(b, 0);
}

int blob_write(void *blob, uint64_t at, const void *data, size_t len, holt_error **reterr)
{
	struct blob *b = blob;
	int code = 0;

	if (at == 0 && b->have > 0)
		restart(b);
	else if (at != b->have)
		code = err_make(reterr, HOLT_EPROTOCOL,
			"the registry sent bytes from %" PRIu64 " on, expected %" PRIu64, at,
			b->have);
	if (code == 0 && len > b->d.size - b->have)
		code = err_make(reterr, HOLT_EINVALID,
			"the registry sends more than its %" PRIu64 " bytes", b->d.size);
	if (code == 0)
		code = hash_part(b, reterr);
	for (size_t done = 0; code == 0 && done < len;) {
		const ssize_t n = pwrite(
			b->fd, (const uint8_t *)data + done, len - done, (off_t)(at + done));
		if (n < 0 && errno != EINTR)
			code = err_errno(reterr, errno, "cannot write what arrives");
		done += n > 0 ? (size_t)n : 0;
	}
	if (code < 0)
		return about(b, code, reterr);
	digest_update(b->digest, data, len);
	b->hashed += len;
	set_have(b, b->have + len);
	return 0;
}

static int check(struct blob *b, holt_error **reterr)
{
	char digest[DIGEST_STR_LEN + 1];

	if (b->have != b->d.size)
		return err_make(reterr, HOLT_EINVALID,
			"it has %" PRIu64 " bytes, expected %" PRIu64, b->have, b->d.size);
	const int code = hash_part(b, reterr);
	if (code < 0)
		return code;
	digest_final(b->digest, digest);
	digest_free(b->digest);
	b->digest = NULL;
	b->hashed = 0;
	if (strcmp(digest, b->d.digest) == 0)
		return 0;
	restart(b);
	return err_make(reterr, HOLT_EINVALID, "what arrived has the digest %s, expected %s",
		digest, b->d.digest);
}

int blob_commit(struct blob *b, holt_error **reterr)
{
	int code = check(b, reterr);

	if (code == 0 && renameat(b->dir, b->part, b->dir, hex_of(&b->d)) < 0)
		code = err_errno(reterr, errno, "cannot name the blob");
	if (code < 0)
		return about(b, code, reterr);
	(void)pthread_mutex_lock(&b->lock);
	b->whole = true;
	(void)pthread_cond_broadcast(&b->changed);
	(void)pthread_mutex_unlock(&b->lock);
	(void)flock(b->fd, LOCK_SH | LOCK_NB);
	return 0;
}

void blob_fail(struct blob *b, int code, const char *message)
{
	(void)pthread_mutex_lock(&b->lock);
	if (b->code == 0) {
		b->code = code;
		b->message = str_dup(message);
	}
	(void)pthread_cond_broadcast(&b->changed);
	(void)pthread_mutex_unlock(&b->lock);
}
