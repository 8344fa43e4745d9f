/* SPDX-License-Identifier: Apache-2.0 */
#include "box/box_backend.h"

#include <assert.h>

#include "base/mem.h"
#include "base/str.h"
#include "box/box_files.h"
#include "box/box_search.h"
#include "box/call_bounds.h"
#include "base/banned.h"

/*
 * The table of operations for a box: each function turns its arguments into one message of the
 * wire and gives the frames of the answer to the caller's functions. What is checked here is what
 * only the one who asked can know: that nothing comes which was not asked for, in the order that
 * was agreed, within the numbers that were given. A guest that lies in such things has been taken
 * over, hence HOLT_EPROTOCOL, which the contract takes as the end of the sandbox.
 *
 * Paths are passed on as they are; the agent resolves them as the sandbox's user.
 */

#define OUTPUT_CHUNK 65536u

struct backend {
	struct holt_box *box;
	char *user; /* NULL: the box's own */
	char *cwd;
	struct box_files *files;
	void (*closed)(void *user); /* NULL: nobody has to know */
	void *closed_user;
};

static_assert((int)HOLT_FILE_REGULAR == (int)WIRE_FILE_REGULAR &&
		      (int)HOLT_FILE_DIRECTORY == (int)WIRE_FILE_DIRECTORY &&
		      (int)HOLT_FILE_SYMLINK == (int)WIRE_FILE_SYMLINK &&
		      (int)HOLT_FILE_FIFO == (int)WIRE_FILE_FIFO &&
		      (int)HOLT_FILE_SOCKET == (int)WIRE_FILE_SOCKET &&
		      (int)HOLT_FILE_CHAR == (int)WIRE_FILE_CHAR &&
		      (int)HOLT_FILE_BLOCK == (int)WIRE_FILE_BLOCK,
	"types of files have the same numbers on both sides");

/* ---- life ---- */

static void backend_close(void *self)
{
	struct backend *b = self;

	if (!b)
		return;
	void (*closed)(void *user) = b->closed;
	void *user = b->closed_user;

	box_files_free(b->files);
	mem_free(b->user);
	mem_free(b->cwd);
	mem_free(b);
	if (closed)
		closed(user);
}

void box_backend_on_close(void *self, void (*closed)(void *user), void *user)
{
	struct backend *b = self;

	b->closed = closed;
	b->closed_user = user;
}

static const char *either(const char *wish, const char *own)
{
	return wish ? wish : own ? own : "";
}

int box_backend_new(
	struct holt_box *box, const char *user, const char *cwd, void **ret, holt_error **reterr)
{
	const struct image_config own = box_record_surroundings(&box->rec);
	struct backend *b = mem_zalloc(sizeof *b);

	if (!b)
		return err_nomem(reterr);
	b->box = box;
	b->user = user ? str_dup(user) : NULL;
	b->cwd = cwd ? str_dup(cwd) : NULL;
	int r = (user && !b->user) || (cwd && !b->cwd) ? err_nomem(reterr) : 0;
	if (r == 0)
		r = box_files_new(box, either(user, own.user), either(cwd, own.working_dir), !cwd,
			&b->files, reterr);
	if (r < 0) {
		backend_close(b);
		return r;
	}
	*ret = b;
	return 0;
}

/* ---- commands ---- */

/* Hand over all output as it comes. */
static int hand_output(struct holt_exec *e, const holt_backend_command *c,
	const struct call_bounds *bounds, holt_error **reterr)
{
	auto_free uint8_t *chunk = mem_zalloc(OUTPUT_CHUNK);
	unsigned open = EXEC_READY(WIRE_STDOUT) | EXEC_READY(WIRE_STDERR);
	unsigned ready = 0;

	if (!chunk)
		return err_nomem(reterr);
	while (open) {
		int r = call_bounds_check(bounds, reterr);

		if (r == 0)
			r = exec_poll(e, open, call_bounds_left(bounds), &ready, reterr);
		for (int i = WIRE_STDOUT; i <= WIRE_STDERR && r == 0; i++) {
			size_t n = 0;

			if (!(ready & EXEC_READY(i)))
				continue;
			r = exec_read(e, (enum wire_channel)i, chunk, OUTPUT_CHUNK, 0, &n, reterr);
			if (r == 0 && n == 0)
				open &= ~EXEC_READY(i);
			else if (r == 0 && c->output(i, chunk, n, c->user) != 0)
				r = err_make(
					reterr, HOLT_ECANCELLED, "the caller wants no more output");
		}
		if (r < 0)
			return r;
	}
	return 0;
}

static int start_command(struct backend *b, const holt_backend_command *c,
	const struct call_bounds *bounds, struct holt_exec **ret, holt_error **reterr)
{
	const struct image_config own = box_record_surroundings(&b->box->rec);
	const struct process_wish wish = {
		.argv = c->argv, .env = c->env, .cwd = b->cwd, .user = b->user};
	struct process p = {0};
	struct session *session = NULL;
	int r = process_build(&own, b->box->rec.hostname, &wish, &p, reterr);

	/* As docker makes the image's own. */
	if (!b->cwd)
		p.flags |= WIRE_EXEC_MKCWD;
	/* Longer than a machine lives is without limit; none at all would be that, too. */
	p.timeout_ms = c->timeout_ms > INT64_MAX ? 0 : c->timeout_ms > 0 ? c->timeout_ms : 1;
	if (r == 0)
		r = box_connect_within(
			b->box, call_bounds_left(bounds), bounds->cancel, &session, reterr);
	if (r == 0)
		r = exec_start_within(
			session, &p, call_bounds_left(bounds), bounds->cancel, ret, reterr);
	process_done(&p);
	return r;
}

static int backend_execute(void *self, const holt_backend_command *command, const holt_call *call,
	holt_exit *ret, holt_error **reterr)
{
	struct backend *b = self;
	const struct call_bounds bounds = call_bounds_of(call);
	struct holt_exec *e = NULL;
	struct exec_result result = {0};
	int r = start_command(b, command, &bounds, &e, reterr);

	if (r == 0)
		r = hand_output(e, command, &bounds, reterr);
	if (r == 0)
		r = exec_wait(e, call_bounds_left(&bounds), &result, reterr);
	if (r == 0)
		exec_tell_exit(&result, ret);
	/* What still runs is killed with it. */
	exec_free(e);
	if (r < 0) {
		err_stage(reterr, "exec");
		err_object(reterr, b->box->rec.id);
	}
	return r;
}

/* ---- what is common to requests about files ---- */

static int ask(struct backend *b, const struct wire_msg *msg, const char *path,
	enum files_verdict (*take)(void *user, const struct wire_msg *m), void *user,
	const holt_call *call, holt_error **reterr)
{
	const struct files_request q = {.msg = msg, .path = path, .take = take, .user = user};

	return box_files_call(b->files, &q, call, reterr);
}

static bool plain_done(const struct wire_msg *m)
{
	return m->op == WIRE_OP_file_done && !m->file_done.truncated && !m->file_done.searched &&
	       !m->file_done.skipped;
}

/* Of what yields nothing. */
static enum files_verdict take_done(void *user, const struct wire_msg *m)
{
	(void)user;
	return plain_done(m) ? FILES_FINE : FILES_DISORDER;
}

/* ---- content ---- */

struct reading {
	holt_data_fn data;
	void *user;
	uint64_t left; /* bytes that may still come */
	bool begun; /* the file is described */
};

static enum files_verdict take_content(void *user, const struct wire_msg *m)
{
	struct reading *r = user;

	if (!r->begun) {
		r->begun = m->op == WIRE_OP_file_info;
		return r->begun && m->file_info.type == WIRE_FILE_REGULAR ? FILES_FINE
									  : FILES_DISORDER;
	}
	if (m->op != WIRE_OP_file_data)
		return take_done(NULL, m);
	const struct wire_bytes *bytes = &m->file_data.bytes;
	if (bytes->len > r->left)
		return FILES_DISORDER;
	r->left -= bytes->len;
	return r->data(bytes->data, bytes->len, r->user) == 0 ? FILES_FINE : FILES_ENOUGH;
}

static int backend_read(void *self, const char *path, const holt_backend_read *what,
	holt_data_fn data, void *user, const holt_call *call, holt_error **reterr)
{
	struct reading r = {
		.data = data, .user = user, .left = what->max_bytes ? what->max_bytes : UINT64_MAX};
	const struct wire_msg msg = {.op = WIRE_OP_file_read,
		.file_read = {.first_line = what->first_line,
			.last_line = what->first_line ? what->last_line : 0,
			.max_bytes = what->max_bytes,
			.path = files_bytes(path)}};

	return ask(self, &msg, path, take_content, &r, call, reterr);
}

static int backend_download(void *self, const char *path, uint64_t max_bytes, holt_data_fn data,
	void *user, const holt_call *call, holt_error **reterr)
{
	const holt_backend_read what = {.max_bytes = max_bytes};

	return backend_read(self, path, &what, data, user, call, reterr);
}

struct content {
	holt_source_fn source;
	void *user;
};

static int put_content(struct backend *b, const char *path, uint32_t flags, uint32_t more,
	const struct content *c, const holt_call *call, holt_error **reterr)
{
	const uint32_t wire_flags = (flags & HOLT_WRITE_PARENTS ? WIRE_WRITE_PARENTS : 0) |
				    (flags & HOLT_WRITE_EXCLUSIVE ? WIRE_WRITE_EXCLUSIVE : 0) |
				    more;
	const struct wire_msg msg = {.op = WIRE_OP_file_write,
		.file_write = {.flags = wire_flags, .path = files_bytes(path)}};
	const struct files_request q = {.msg = &msg,
		.path = path,
		.take = take_done,
		.source = c->source,
		.source_user = c->user};

	return box_files_call(b->files, &q, call, reterr);
}

static int backend_write(void *self, const char *path, uint32_t flags, holt_source_fn source,
	void *user, const holt_call *call, holt_error **reterr)
{
	const struct content c = {source, user};

	return put_content(self, path, flags, 0, &c, call, reterr);
}

static int backend_append(void *self, const char *path, uint32_t flags, holt_source_fn source,
	void *user, const holt_call *call, holt_error **reterr)
{
	const struct content c = {source, user};

	return put_content(self, path, flags, WIRE_WRITE_APPEND, &c, call, reterr);
}

/* ---- names ---- */

struct look {
	struct wire_file_info info;
	bool there;
};

static enum files_verdict take_info(void *user, const struct wire_msg *m)
{
	struct look *l = user;

	if (m->op == WIRE_OP_file_done)
		return l->there ? take_done(NULL, m) : FILES_DISORDER;
	if (m->op != WIRE_OP_file_info || l->there || m->file_info.mode > 07777)
		return FILES_DISORDER;
	l->info = m->file_info;
	l->there = true;
	return FILES_FINE;
}

static int backend_stat(void *self, const char *path, uint32_t flags, const holt_call *call,
	holt_file_info *ret, holt_error **reterr)
{
	struct look l = {.there = false};
	const struct wire_msg msg = {.op = WIRE_OP_file_stat,
		.file_stat = {.flags = flags & HOLT_STAT_NOFOLLOW ? 0 : WIRE_STAT_FOLLOW,
			.path = files_bytes(path)}};
	const int r = ask(self, &msg, path, take_info, &l, call, reterr);

	if (r == 0)
		*ret = (holt_file_info){.struct_size = sizeof *ret,
			.type = l.info.type,
			.mode = l.info.mode,
			.uid = l.info.uid,
			.gid = l.info.gid,
			.size_bytes = l.info.size,
			.mtime_ns = (int64_t)l.info.mtime_ns};
	return r;
}

static int backend_make_directory(
	void *self, const char *path, uint32_t flags, const holt_call *call, holt_error **reterr)
{
	const struct wire_msg msg = {.op = WIRE_OP_file_mkdir,
		.file_mkdir = {.flags = flags & HOLT_MKDIR_PARENTS ? WIRE_MKDIR_PARENTS : 0,
			.path = files_bytes(path)}};

	return ask(self, &msg, path, take_done, NULL, call, reterr);
}

static int backend_move(void *self, const char *from, const char *to, uint32_t flags,
	const holt_call *call, holt_error **reterr)
{
	const struct wire_msg msg = {.op = WIRE_OP_file_move,
		.file_move = {.flags = flags & HOLT_MOVE_NOREPLACE ? WIRE_MOVE_NOREPLACE : 0,
			.from = files_bytes(from),
			.to = files_bytes(to)}};
	const int r = files_check_path(to, reterr);

	return r < 0 ? r : ask(self, &msg, from, take_done, NULL, call, reterr);
}

static int backend_remove(
	void *self, const char *path, uint32_t flags, const holt_call *call, holt_error **reterr)
{
	const struct wire_msg msg = {.op = WIRE_OP_file_remove,
		.file_remove = {
			.flags = (flags & HOLT_REMOVE_RECURSIVE ? WIRE_REMOVE_RECURSIVE : 0u) |
				 (flags & HOLT_REMOVE_FORCE ? WIRE_REMOVE_FORCE : 0u),
			.path = files_bytes(path)}};

	return ask(self, &msg, path, take_done, NULL, call, reterr);
}

/* ---- searching ---- */

static int backend_list(void *self, const holt_backend_search *what, holt_entry_fn entry,
	void *user, const holt_call *call, holt_search_result *ret, holt_error **reterr)
{
	const struct backend *b = self;

	return box_search_list(b->files, what, entry, user, call, ret, reterr);
}

static int backend_glob(void *self, const holt_backend_search *what, holt_entry_fn entry,
	void *user, const holt_call *call, holt_search_result *ret, holt_error **reterr)
{
	const struct backend *b = self;

	return box_search_glob(b->files, what, entry, user, call, ret, reterr);
}

static int backend_grep(void *self, const holt_backend_search *what, holt_match_fn match,
	void *user, const holt_call *call, holt_search_result *ret, holt_error **reterr)
{
	const struct backend *b = self;

	return box_search_grep(b->files, what, match, user, call, ret, reterr);
}

const holt_backend box_backend = {
	.struct_size = sizeof box_backend,
	.name = "box",
	.execute = backend_execute,
	.read = backend_read,
	.write = backend_write,
	.append = backend_append,
	.update = backend_write,
	.download = backend_download,
	.list = backend_list,
	.stat = backend_stat,
	.make_directory = backend_make_directory,
	.move = backend_move,
	.remove = backend_remove,
	.glob = backend_glob,
	.grep = backend_grep,
	.close = backend_close,
};
