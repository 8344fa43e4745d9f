/* SPDX-License-Identifier: Apache-2.0 */
#include "builtin_files.h"

#include "builtin.h"
#include "files_parts.h"
#include "guest_mem.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "guest_banned.h"

/*
 * files VERSION
 *
 * The loop of the built-in "files": takes requests of the wire's FILES lane from stdin, one after
 * the other, and answers on stdout. It runs as the sandbox's user in the sandbox's directory, and
 * until stdin ends; it may be killed at any time.
 *
 * A request is one frame, for a write followed by its content. Functions that take content take all
 * of it, also when they have already answered with a failure, so that the next frame is a request
 * again. Whatever breaks that order ends the process with a fault on stderr; the host starts
 * another.
 *
 * Output is collected up to OUT_FLUSH bytes, which costs fewer turns of the agent's pump, and goes
 * out at the end of each request. Memory: both buffers, and up to PATHS_MAX copies of paths.
 *
 * Nothing here knows of time-outs: a request that takes too long is ended with the process.
 */

#define OUT_FLUSH (64u * 1024)
#define PATHS_MAX 4 /* of one request */
#define TEXT_MAX  256

struct files {
	uint8_t *in;
	size_t in_cap;
	size_t in_pos; /* of the first byte that was not handed out */
	size_t in_len;
	uint8_t *out;
	size_t out_cap;
	size_t out_len;
	char *paths[PATHS_MAX];
	unsigned n_paths;
};

static const struct {
	uint16_t op;
	void (*run)(struct files *f, const struct wire_msg *m);
} requests[] = {
	{WIRE_OP_file_glob, files_op_glob},
	{WIRE_OP_file_grep, files_op_grep},
	{WIRE_OP_file_list, files_op_list},
	{WIRE_OP_file_mkdir, files_op_mkdir},
	{WIRE_OP_file_move, files_op_move},
	{WIRE_OP_file_read, files_op_read},
	{WIRE_OP_file_remove, files_op_remove},
	{WIRE_OP_file_stat, files_op_stat},
	{WIRE_OP_file_write, files_op_write},
};

static void end_broken(const char *text) __attribute__((noreturn));
static void end_broken(const char *text)
{
	(void)builtin_fault(EPROTO, "request", "", text);
	_exit(1);
}

static void end_without_memory(void) __attribute__((noreturn));
static void end_without_memory(void)
{
	(void)builtin_fault(ENOMEM, "request", "", "no memory to work on files");
	_exit(1);
}

static void flush(struct files *f)
{
	/* Who would be told is gone. */
	if (builtin_write(STDOUT_FILENO, f->out, f->out_len) < 0)
		_exit(1);
	f->out_len = 0;
}

/* Read more, to have @need bytes from in_pos on. Returns false at the end of the input. */
static bool fill(struct files *f, size_t need)
{
	if (need > f->in_cap - f->in_pos) {
		memmove(f->in, f->in + f->in_pos, f->in_len - f->in_pos);
		f->in_len -= f->in_pos;
		f->in_pos = 0;
	}
	while (f->in_len - f->in_pos < need) {
		const ssize_t n = read(STDIN_FILENO, f->in + f->in_len, f->in_cap - f->in_len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		f->in_len += (size_t)n;
	}
	return true;
}

/* Returns false where the input ends in front of a frame. */
static bool take_frame(struct files *f, struct wire_msg *ret)
{
	size_t used = 0;

	for (;;) {
		const enum wire_status rc = wire_decode(WIRE_AS_GUEST, WIRE_FILES,
			f->in + f->in_pos, f->in_len - f->in_pos, ret, &used);
		if (rc == WIRE_OK)
			break;
		if (rc != WIRE_MORE)
			end_broken("a message about files is broken");
		if (fill(f, used))
			continue;
		if (f->in_len > f->in_pos)
			end_broken("the input ends in a message");
		return false;
	}
	f->in_pos += used;
	return true;
}

void files_next(struct files *f, struct wire_msg *ret)
{
	if (!take_frame(f, ret))
		end_broken("the input ends in a request");
}

bool files_content(struct files *f, struct wire_bytes *ret, bool *ret_aborted)
{
	struct wire_msg m;

	files_next(f, &m);
	if (m.op == WIRE_OP_file_data) {
		*ret = m.file_data.bytes;
		return true;
	}
	if (m.op != WIRE_OP_file_end)
		end_broken("a message about files comes in the middle of content");
	*ret_aborted = m.file_end.abort_;
	return false;
}

void files_send(struct files *f, const struct wire_msg *m)
{
	size_t len = 0;
	const enum wire_status rc = wire_encode(
		m, f->out + f->out_len, f->out_cap - f->out_len, &len);

	/* All that is sent was made to fit. */
	if (rc != WIRE_OK)
		end_broken("an answer does not fit into a message");
	f->out_len += len;
	if (f->out_len >= OUT_FLUSH)
		flush(f);
}

void files_done(struct files *f, bool truncated, uint64_t searched, uint64_t skipped)
{
	files_send(f,
		&(struct wire_msg){.op = WIRE_OP_file_done,
			.file_done = {
				.truncated = truncated, .searched = searched, .skipped = skipped}});
	flush(f);
}

struct wire_bytes files_bytes(const char *s)
{
	return (struct wire_bytes){.data = (const uint8_t *)s, .len = (uint32_t)strlen(s)};
}

/* As much of @object as a failure holds, with a NUL. */
static void copy_object(const struct wire_bytes *object, char dst[BUILTIN_OBJECT_MAX + 2])
{
	/* One byte more, so that it shows in the text that it was cut. */
	const size_t len = object->len < BUILTIN_OBJECT_MAX + 1 ? object->len
								: BUILTIN_OBJECT_MAX + 1;

	if (len > 0)
		memcpy(dst, object->data, len);
	dst[len] = 0;
}

void files_fail(struct files *f, enum wire_file_failure class, int errnum, const char *stage,
	const struct wire_bytes *object, const char *fmt, ...)
{
	static char escaped[BUILTIN_ESCAPED_SIZE];
	static char text[TEXT_MAX + BUILTIN_ESCAPED_SIZE + 128];
	char name[BUILTIN_OBJECT_MAX + 2] = "";
	struct wire_msg m = {.op = WIRE_OP_file_fail,
		.file_fail = {.class_ = class, .errnum = (uint32_t)errnum}};
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(text, TEXT_MAX, fmt, args);
	va_end(args);
	const size_t len = strlen(text);
	if (object) {
		copy_object(object, name);
		builtin_escape(name, escaped);
		name[BUILTIN_OBJECT_MAX] = 0;
	}
	if (class == WIRE_FILE_FAIL_ERRNO)
		(void)snprintf(text + len, sizeof(text) - len, "%s%s%s: %s", object ? " '" : "",
			object ? escaped : "", object ? "'" : "", strerror(errnum));
	m.file_fail.stage = files_bytes(stage);
	m.file_fail.object = files_bytes(name);
	m.file_fail.text = files_bytes(text);
	files_send(f, &m);
	flush(f);
}

char *files_path(struct files *f, const struct wire_bytes *path)
{
	assert(f->n_paths < PATHS_MAX);
	char *const copy = gmem_array((size_t)path->len + 1, 1);

	if (!copy)
		end_without_memory();
	memcpy(copy, path->data, path->len);
	f->paths[f->n_paths++] = copy;
	return copy;
}

static void free_paths(struct files *f)
{
	while (f->n_paths > 0)
		gmem_free(f->paths[--f->n_paths]);
}

static void serve(struct files *f, const struct wire_msg *m)
{
	for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
		if (requests[i].op != m->op)
			continue;
		requests[i].run(f, m);
		free_paths(f);
		return;
	}
	end_broken("a message about files is no request");
}

static void prepare(void)
{
	struct rlimit limit;

	/* A fifo whose reader leaves must not end the process; see flush() for stdout. */
	(void)sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
	/* A file that becomes too large is a failure of its request. */
	(void)sigaction(SIGXFSZ, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
	/* Walks hold a descriptor for each directory they are in. */
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		limit.rlim_cur = limit.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &limit);
	}
}

int builtin_files(int argc, char *const *argv)
{
	static struct files files;
	struct files *const f = &files;
	struct wire_msg m;

	if (argc != 2 || strcmp(argv[1], WIRE_FILES_VERSION) != 0) {
		(void)builtin_fault(EPROTONOSUPPORT, "request", argc > 1 ? argv[1] : "",
			"this agent does files in version " WIRE_FILES_VERSION " only");
		return 1;
	}
	prepare();
	f->in_cap = wire_frame_max(WIRE_AS_GUEST, WIRE_FILES);
	f->out_cap = OUT_FLUSH + wire_frame_max(WIRE_AS_HOST, WIRE_FILES);
	f->in = gmem_array(f->in_cap, 1);
	f->out = gmem_array(f->out_cap, 1);
	if (!f->in || !f->out)
		end_without_memory();
	while (take_frame(f, &m))
		serve(f, &m);
	return 0;
}
