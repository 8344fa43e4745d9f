/* SPDX-License-Identifier: Apache-2.0 */
#include "box/event_log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/fsutil.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/banned.h"

#define EVENTS_FILE "events.jsonl"
#define EVENTS_OLD  "events.1.jsonl"
#define EVENTS_MAX  (1u << 20)
#define LINE_MAX_   8192u

static void format_time(uint64_t ns, char *ret, size_t cap)
{
	const time_t s = (time_t)(ns / 1000000000u);
	struct tm tm = {0};

	(void)gmtime_r(&s, &tm);
	(void)snprintf(ret, cap, "%04d-%02d-%02dT%02d:%02d:%02d.%09uZ", tm.tm_year + 1900,
		tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec,
		(unsigned)(ns % 1000000000u));
}

/* Put a full file aside, unless another process has just done so. */
static void rotate(int home, int fd)
{
	struct stat ours;

	if (fstat(fd, &ours) < 0 || ours.st_size < (off_t)EVENTS_MAX || flock(fd, LOCK_EX) < 0)
		return;
	if (fs_is_named(fd, home, EVENTS_FILE))
		(void)renameat(home, EVENTS_FILE, home, EVENTS_OLD);
	(void)flock(fd, LOCK_UN);
}

static void append(int home, const char *text)
{
	auto_free char *line = str_printf("%s\n", text);
	auto_fd fd = openat(
		home, EVENTS_FILE, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd < 0 || !line)
		return;
	(void)!write(fd, line, strlen(line));
	rotate(home, fd);
}

void event_tell(int home, const char *action, const char *id, const char *name, json_t *more)
{
	char when[80];

	format_time(clock_wall_ns(), when, sizeof when);
	auto_json extra = more;
	auto_json doc = json_pack(
		"{s:s, s:s, s:s, s:s}", "time", when, "type", "box", "action", action, "id", id);
	if (!doc || (name && *name && json_object_set_new(doc, "name", json_string(name)) < 0) ||
		(extra && json_object_update(doc, extra) < 0))
		return;
	auto_free char *text = json_text(doc);
	if (text && strlen(text) < LINE_MAX_)
		append(home, text);
}

/*
 * Listening: a descriptor on the file and a buffer of what was read. When the file that is read has
 * lost its name and has no more, the next one is opened. Changes are looked for every POLL_MS: the
 * file systems and limits of inotify are not worth it for people who watch.
 */
#define POLL_MS 50

struct holt_events {
	int home;
	int fd;
	char since[80]; /* RFC 3339 sorts like time */
	char data[LINE_MAX_ * 2];
	size_t len;
	size_t off; /* of the next line */
};

static int open_file(struct holt_events *e, const char *name, off_t at)
{
	e->fd = openat(e->home, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	e->len = e->off = 0;
	if (e->fd < 0)
		return errno == ENOENT ? 0 : -errno;
	return at > 0 && lseek(e->fd, 0, SEEK_END) < 0 ? -errno : 0;
}

int events_open(int home, uint64_t since_ns, struct holt_events **ret, holt_error **reterr)
{
	struct holt_events *e = mem_zalloc(sizeof *e);
	const bool fresh = since_ns == UINT64_MAX;
	int r = 0;

	if (!e)
		return err_nomem(reterr);
	e->home = home;
	e->fd = FD_NONE;
	if (!fresh) {
		format_time(since_ns, e->since, sizeof e->since);
		r = open_file(e, EVENTS_OLD, 0);
	}
	if (r == 0 && e->fd < 0)
		r = open_file(e, EVENTS_FILE, fresh);
	/* A first file that is not there yet may be full and renamed before it is looked for. */
	if (r == 0 && e->fd < 0)
		e->fd = openat(
			home, EVENTS_FILE, O_RDONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (r < 0) {
		events_close(e);
		return err_errno(reterr, -r, "cannot open the home's events");
	}
	*ret = e;
	return 0;
}

/* Whether the open file is the one that is written. */
static bool is_current(const struct holt_events *e)
{
	return fs_is_named(e->fd, e->home, EVENTS_FILE);
}

static ssize_t read_on(struct holt_events *e)
{
	const ssize_t n = read(e->fd, e->data + e->len, sizeof e->data - e->len);

	if (n > 0)
		e->len += (size_t)n;
	return n < 0 ? -errno : n;
}

/* Read on. Returns how many bytes came, or -errno. */
static ssize_t read_more(struct holt_events *e)
{
	if (e->off > 0) {
		memmove(e->data, e->data + e->off, e->len - e->off);
		e->len -= e->off;
		e->off = 0;
	}
	if (e->len == sizeof e->data)
		e->len = 0; /* no line of ours is that long */
	const int r = e->fd < 0 ? open_file(e, EVENTS_FILE, 0) : 0;
	if (r < 0 || e->fd < 0)
		return r;
	ssize_t n = read_on(e);
	if (n != 0 || is_current(e))
		return n;
	/* Its last line may have come between the two looks. */
	n = read_on(e);
	if (n != 0)
		return n;
	e->fd = fd_close(e->fd);
	const int next = open_file(e, EVENTS_FILE, 0);
	return next < 0 ? next : e->fd >= 0;
}

static const char *take_line(struct holt_events *e)
{
	char *line = e->data + e->off;
	char *end = memchr(line, '\n', e->len - e->off);

	if (!end)
		return NULL;
	*end = 0;
	e->off = (size_t)(end + 1 - e->data);
	return line;
}

/* Whether the line is an event that is wanted. */
static bool wanted(const struct holt_events *e, const char *line)
{
	auto_json doc = NULL;
	const char *when = NULL;

	return json_parse(line, strlen(line), LINE_MAX_, "event", &doc, NULL) == 0 &&
	       json_get_str(doc, "time", &when, NULL) == 0 && when &&
	       (!e->since[0] || strcmp(when, e->since) >= 0);
}

int events_next(struct holt_events *e, uint64_t timeout_ms, holt_cancel *cancel, const char **ret,
	holt_error **reterr)
{
	const uint64_t start_ms = clock_mono_ms();
	const struct timespec pause = {.tv_nsec = POLL_MS * 1000000L};

	for (;;) {
		const char *line;
		while ((line = take_line(e))) {
			if (wanted(e, line)) {
				*ret = line;
				return 0;
			}
		}
		const ssize_t n = read_more(e);
		if (n < 0)
			return err_errno(reterr, (int)-n, "cannot read the home's events");
		if (n > 0)
			continue;
		*ret = NULL;
		if (cancel_fired(cancel))
			return err_make(reterr, HOLT_ECANCELLED, "listening was cancelled");
		if (clock_mono_ms() - start_ms >= timeout_ms)
			return 0;
		(void)nanosleep(&pause, NULL);
	}
}

void events_close(struct holt_events *e)
{
	if (!e)
		return;
	(void)fd_close(e->fd);
	mem_free(e);
}
