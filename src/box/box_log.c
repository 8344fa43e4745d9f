/* SPDX-License-Identifier: Apache-2.0 */
#include "box/box_log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"
#include "box/box_state.h"
#include "base/banned.h"

#define LOG_FILE  "log"
#define LOG_OLD   "log.1"
#define LOG_MAGIC 0x474f4c48u /* "HLOG" */
#define POLL_MS   50

/* Read and written on the same machine, so as it lies in memory. */
struct record {
	uint32_t magic;
	uint32_t len; /* of the data behind it, 1 to WIRE_DATA_MAX */
	uint64_t wall_ns;
	uint8_t stream; /* enum wire_channel */
	uint8_t zero[7];
};

/* ---- writing ---- */

static bool open_for_writing(struct box_log *l)
{
	struct stat st;

	if (l->fd >= 0)
		return true;
	l->fd = openat(
		l->dir, LOG_FILE, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
	l->size = l->fd >= 0 && fstat(l->fd, &st) == 0 ? (uint64_t)st.st_size : 0;
	return l->fd >= 0;
}

void box_log_write(struct box_log *l, enum wire_channel channel, const uint8_t *data, size_t len)
{
	struct record head = {.magic = LOG_MAGIC,
		.len = (uint32_t)len,
		.wall_ns = clock_wall_ns(),
		.stream = (uint8_t)channel};
	/* writev changes nothing. */
	union {
		const uint8_t *in;
		void *out;
	} bytes = {.in = data};
	const struct iovec parts[] = {{.iov_base = &head, .iov_len = sizeof head},
		{.iov_base = bytes.out, .iov_len = len}};

	if (len == 0 || !open_for_writing(l))
		return;
	const ssize_t n = writev(l->fd, parts, 2);
	if (n != (ssize_t)(sizeof head + len)) {
		/* Half a record would hide what comes behind it. */
		(void)!ftruncate(l->fd, (off_t)l->size);
		return;
	}
	l->size += (uint64_t)n;
	if (l->size >= l->half_bytes) {
		l->fd = fd_close(l->fd);
		(void)renameat(l->dir, LOG_FILE, l->dir, LOG_OLD);
	}
}

void box_log_done(struct box_log *l)
{
	l->fd = fd_close(l->fd);
}

/* ---- reading ---- */

struct holt_log_reader {
	int boxes;
	int dir;
	int fd;
	char id[40];
	uint64_t skip_lines; /* still to be passed over */
	struct record head;
	uint8_t data[WIRE_DATA_MAX];
};

static int open_named(struct holt_log_reader *r, const char *name)
{
	r->fd = openat(r->dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	return r->fd < 0 && errno != ENOENT ? -errno : 0;
}

static bool is_head(const struct record *h)
{
	static const uint8_t zero[sizeof h->zero];

	return h->magic == LOG_MAGIC && h->len > 0 && h->len <= WIRE_DATA_MAX &&
	       (h->stream == WIRE_STDOUT || h->stream == WIRE_STDERR) &&
	       memcmp(h->zero, zero, sizeof zero) == 0;
}

/* A keeper was killed in the middle of a record: go on at the next one behind @at. 1 if the file
 * is there now, 0 where there is none yet, or -errno. */
static int find_head(struct holt_log_reader *r, off_t at)
{
	for (;;) {
		const ssize_t n = pread(r->fd, r->data, sizeof r->data, at);

		if (n < (ssize_t)sizeof r->head)
			return n < 0 ? -errno : 0;
		for (size_t i = 0; i + sizeof r->head <= (size_t)n; i++) {
			memcpy(&r->head, r->data + i, sizeof r->head);
			if (is_head(&r->head))
				return lseek(r->fd, at + (off_t)i, SEEK_SET) < 0 ? -errno : 1;
		}
		at += n - (ssize_t)sizeof r->head + 1;
	}
}

/* The next record into head and data: 1, 0 where there is none (yet), or -errno. */
static int read_record(struct holt_log_reader *r)
{
	for (;;) {
		const off_t at = lseek(r->fd, 0, SEEK_CUR);
		ssize_t n = at < 0 ? -errno : fd_read_full(r->fd, &r->head, sizeof r->head);

		if (n == (ssize_t)sizeof r->head && !is_head(&r->head)) {
			const int found = find_head(r, at + 1);
			if (found > 0)
				continue;
			n = found;
		} else if (n == (ssize_t)sizeof r->head) {
			n = fd_read_full(r->fd, r->data, r->head.len);
			if (n == (ssize_t)r->head.len)
				return 1;
		}
		if (n < 0)
			return (int)n;
		/* Still being written. */
		return lseek(r->fd, at, SEEK_SET) < 0 ? -errno : 0;
	}
}

/* Whether the open file is not the one that is written any more. */
static bool is_old(const struct holt_log_reader *r)
{
	struct stat ours;
	struct stat named;

	return fstat(r->fd, &ours) < 0 ||
	       fstatat(r->dir, LOG_FILE, &named, AT_SYMLINK_NOFOLLOW) < 0 ||
	       ours.st_ino != named.st_ino;
}

/* The next record of both files. As read_record. */
static int next_record(struct holt_log_reader *r)
{
	for (;;) {
		int rc = r->fd < 0 ? open_named(r, LOG_FILE) : 0;
		if (rc < 0 || r->fd < 0)
			return rc;
		rc = read_record(r);
		if (rc != 0)
			return rc;
		if (!is_old(r))
			return 0;
		/* Its last record may have come between the two looks. */
		rc = read_record(r);
		if (rc != 0)
			return rc;
		struct stat named;
		if (fstatat(r->dir, LOG_FILE, &named, AT_SYMLINK_NOFOLLOW) < 0)
			return 0;
		r->fd = fd_close(r->fd);
	}
}

static uint64_t count_lines(const uint8_t *data, size_t len)
{
	uint64_t n = 0;

	for (const uint8_t *p = data; (p = memchr(p, '\n', (size_t)(data + len - p))); p++)
		n++;
	return n;
}

/* Begin with the oldest record. */
static int rewind_all(struct holt_log_reader *r)
{
	r->fd = fd_close(r->fd);
	return open_named(r, LOG_OLD);
}

static int skip_to_tail(struct holt_log_reader *r, uint64_t tail_lines)
{
	uint64_t lines = 0;
	bool open_line = false;
	int rc = rewind_all(r);

	if (rc < 0 || tail_lines == UINT64_MAX)
		return rc;
	while ((rc = next_record(r)) > 0) {
		lines += count_lines(r->data, r->head.len);
		open_line = r->data[r->head.len - 1] != '\n';
	}
	lines += open_line;
	r->skip_lines = lines > tail_lines ? lines - tail_lines : 0;
	return rc < 0 ? rc : rewind_all(r);
}

int box_log_open(int boxes, const char *id, uint64_t tail_lines, struct holt_log_reader **ret,
	holt_error **reterr)
{
	struct holt_log_reader *r = mem_zalloc(sizeof *r);
	int rc;

	if (!r)
		return err_nomem(reterr);
	r->fd = FD_NONE;
	r->boxes = openat(boxes, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	r->dir = openat(boxes, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	(void)snprintf(r->id, sizeof r->id, "%s", id);
	rc = r->dir < 0 || r->boxes < 0 ? -errno : skip_to_tail(r, tail_lines);
	if (rc < 0) {
		box_log_close(r);
		return rc == -ENOENT ? err_make(reterr, HOLT_ENOT_FOUND, "the box is removed")
				     : err_errno(reterr, -rc, "cannot read the box's log");
	}
	*ret = r;
	return 0;
}

/* What is left of the record behind the lines that are not wanted. */
static size_t pass_lines(struct holt_log_reader *r, const uint8_t **ret)
{
	const uint8_t *p = r->data;
	const uint8_t *end = r->data + r->head.len;

	while (r->skip_lines > 0 && p < end) {
		const uint8_t *lf = memchr(p, '\n', (size_t)(end - p));
		if (!lf)
			return 0;
		p = lf + 1;
		r->skip_lines--;
	}
	*ret = p;
	return (size_t)(end - p);
}

static bool may_grow(const struct holt_log_reader *r)
{
	struct box_state s;

	box_state_look(r->boxes, r->id, &s);
	return s.phase != BOX_EXITED && s.phase != BOX_GONE && s.phase != BOX_CREATED;
}

int box_log_next(struct holt_log_reader *r, uint64_t timeout_ms, holt_cancel *cancel,
	const void **ret_data, size_t *ret_len, int *ret_stream, uint64_t *ret_time_ns,
	holt_error **reterr)
{
	const uint64_t start_ms = clock_mono_ms();
	const struct timespec pause = {.tv_nsec = POLL_MS * 1000000L};
	bool last_look = false;

	for (;;) {
		const uint8_t *data = NULL;
		const int rc = next_record(r);
		const size_t len = rc > 0 ? pass_lines(r, &data) : 0;

		if (rc < 0)
			return err_errno(reterr, -rc, "cannot read the box's log");
		if (rc > 0 && len == 0)
			continue;
		if (rc > 0 || last_look || clock_mono_ms() - start_ms >= timeout_ms) {
			*ret_data = data;
			*ret_len = len;
			*ret_stream = r->head.stream;
			if (ret_time_ns)
				*ret_time_ns = r->head.wall_ns;
			return 0;
		}
		if (cancel_fired(cancel))
			return err_make(reterr, HOLT_ECANCELLED, "reading the log was cancelled");
		/* What was written before the end is there after it. */
		last_look = !may_grow(r);
		if (!last_look)
			(void)nanosleep(&pause, NULL);
	}
}

void box_log_close(struct holt_log_reader *r)
{
	if (!r)
		return;
	(void)fd_close(r->fd);
	(void)fd_close(r->dir);
	(void)fd_close(r->boxes);
	mem_free(r);
}
