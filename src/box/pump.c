/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connecting an exec with the caller's descriptors: one thread per given descriptor, each with
 * plain blocking calls behind a poll that also watches a stop descriptor. The descriptors' flags
 * are not touched (they may be shared with other processes), so a write after POLLOUT is kept to
 * what cannot block: PIPE_BUF bytes for a pipe or terminal, anything for a regular file.
 */
#include "box/box_exec.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/banned.h"

#define PUMP_CHUNK 65536u

struct pump {
	struct holt_exec *e;
	int stop_fd; /* readable: end now */
};

struct pump_end {
	struct pump *p;
	enum wire_channel channel;
	int fd;
	pthread_t thread;
	bool running;
	int errnum; /* of the descriptor, when it failed */
	holt_error *error; /* of the exec, when that failed */
};

/* Wait until @fd is ready. False when told to stop. */
static bool ready(const struct pump_end *end, short events)
{
	struct pollfd fds[] = {
		{.fd = end->fd, .events = events}, {.fd = end->p->stop_fd, .events = POLLIN}};

	while (poll(fds, 2, -1) < 0) {
		if (errno != EINTR)
			return true;
	}
	return !fds[1].revents;
}

/* Returns 0, -ECANCELED when told to stop, or -errno. */
static int write_out(const struct pump_end *end, const uint8_t *data, size_t len)
{
	struct stat st;
	const bool regular = fstat(end->fd, &st) == 0 && S_ISREG(st.st_mode);

	while (len > 0) {
		size_t n = len;

		if (!regular) {
			if (!ready(end, POLLOUT))
				return -ECANCELED;
			n = len < PIPE_BUF ? len : PIPE_BUF;
		}
		const ssize_t done = write(end->fd, data, n);
		if (done < 0 && errno != EINTR && errno != EAGAIN)
			return -errno;
		if (done > 0) {
			data += done;
			len -= (size_t)done;
		}
	}
	return 0;
}

/* Nobody takes its output any more: the program must not wait for ever. One that was only attached
 * to has a ring for that. */
static void give_up(const struct pump *p)
{
	if (exec_attached(p->e))
		exec_leave(p->e);
	else
		(void)exec_signal(p->e, SIGKILL);
}

static void *pump_out(void *arg)
{
	struct pump_end *end = arg;
	uint8_t *chunk = mem_zalloc(PUMP_CHUNK);
	size_t len = 0;

	if (!chunk)
		end->errnum = ENOMEM;
	while (chunk &&
		exec_read(end->p->e, end->channel, chunk, PUMP_CHUNK, HOLT_FOREVER, &len,
			&end->error) == 0 &&
		len > 0) {
		const int r = end->fd >= 0 ? write_out(end, chunk, len) : 0;
		if (r < 0) {
			end->errnum = -r;
			break;
		}
	}
	if (end->errnum)
		give_up(end->p);
	while (chunk && end->errnum &&
		exec_read(end->p->e, end->channel, chunk, PUMP_CHUNK, HOLT_FOREVER, &len, NULL) ==
			0 &&
		len > 0)
		continue;
	mem_free(chunk);
	return NULL;
}

/* A terminal that is gone ends like one where somebody has typed the end of the input. */
static bool hung_up(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, 0) > 0 && (p.revents & (POLLHUP | POLLERR));
}

static void *pump_in(void *arg)
{
	struct pump_end *end = arg;
	uint8_t *chunk = mem_zalloc(PUMP_CHUNK);
	const bool terminal = isatty(end->fd);
	bool over = false;

	while (chunk && !over && ready(end, POLLIN)) {
		const ssize_t n = read(end->fd, chunk, PUMP_CHUNK);
		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		/* Whose terminal is gone has not said that the input is over. */
		if (n <= 0 && terminal && hung_up(end->fd))
			break;
		over = n <= 0 ||
		       exec_write(end->p->e, chunk, (size_t)n, HOLT_FOREVER, NULL, NULL) < 0;
	}
	/* Not where only we end: somebody else may go on writing. */
	if (over || !exec_attached(end->p->e))
		(void)exec_close_stdin(end->p->e);
	mem_free(chunk);
	return NULL;
}

static int end_start(struct pump_end *end)
{
	sigset_t all;
	sigset_t before;

	/* The host program's signals are not for this thread; a broken pipe shows as EPIPE. */
	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	const int r = pthread_create(
		&end->thread, NULL, end->channel == WIRE_STDIN ? pump_in : pump_out, end);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	end->running = r == 0;
	return -r;
}

static void end_join(struct pump_end *end)
{
	if (end->running)
		(void)pthread_join(end->thread, NULL);
	end->running = false;
}

static void pump_stop(const struct pump *p)
{
	const uint64_t one = 1;

	(void)!write(p->stop_fd, &one, sizeof one);
}

/* A descriptor that failed is what the caller must hear of, before what followed from it. */
static int pump_result(struct pump_end *ends, int r, holt_error **reterr)
{
	for (int i = WIRE_STDOUT; i <= WIRE_STDERR; i++) {
		const int errnum = ends[i].errnum;

		if (errnum == 0 || errnum == ECANCELED)
			continue;
		if (reterr && *reterr) {
			holt_error_free(*reterr);
			*reterr = NULL;
		}
		r = err_errno(reterr, errnum, "cannot write the program's %s",
			i == WIRE_STDOUT ? "stdout" : "stderr");
		err_stage(reterr, "output");
		break;
	}
	return r;
}

int exec_pump(struct holt_exec *e, int stdin_fd, int stdout_fd, int stderr_fd,
	struct exec_result *ret, holt_error **reterr)
{
	struct pump p = {.e = e, .stop_fd = eventfd(0, EFD_CLOEXEC)};
	struct pump_end ends[] = {
		{.p = &p, .channel = WIRE_STDIN, .fd = stdin_fd},
		{.p = &p, .channel = WIRE_STDOUT, .fd = stdout_fd},
		{.p = &p, .channel = WIRE_STDERR, .fd = stderr_fd},
	};
	int r = p.stop_fd < 0 ? -errno : 0;

	if (stdin_fd < 0 && !exec_attached(e))
		(void)exec_close_stdin(e);
	for (int i = stdin_fd < 0 ? 1 : 0; i < 3 && r == 0; i++)
		r = end_start(&ends[i]);
	if (r < 0) {
		r = err_errno(reterr, -r, "cannot start a thread for the streams");
		give_up(&p);
	} else {
		r = exec_wait(e, HOLT_FOREVER, ret, reterr);
	}
	/* A program that ended has given all its output to the two threads; otherwise they stop. */
	if (r < 0 && p.stop_fd >= 0)
		pump_stop(&p);
	end_join(&ends[WIRE_STDOUT]);
	end_join(&ends[WIRE_STDERR]);
	if (p.stop_fd >= 0)
		pump_stop(&p);
	end_join(&ends[WIRE_STDIN]);
	(void)fd_close(p.stop_fd);
	r = pump_result(ends, r, reterr);
	for (int i = 0; i < 3; i++)
		holt_error_free(ends[i].error);
	return r;
}
