/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copying, theory of operation: both sides are looked at (copy_facts.c), the plan says what is
 * packed and where it is unpacked (copy_plan.c), then a tar stream runs between the host's packer
 * or unpacker (image/hosttar.h) and a built-in of the agent, "tar-in" or "tar-out". There is no
 * thread and no pipe between them: the packer writes to the exec's stdin, the unpacker reads its
 * stdout, both under its credit, so that memory is bounded and a slow side slows the other.
 *
 * Nothing the box says is believed: names are checked by the unpacker. Its exit status ends a copy:
 * a stream that merely stops is an error. Where both sides fail, the cause is told: the side that
 * failed first, as far as the other one's error only says that the stream broke.
 *
 * Thread: the caller's, which waits; cancellation reaches it in the exec's waits and between
 * pieces.
 */
#include "box/box_copy.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "box/box_builtin.h"
#include "box/copy_facts.h"
#include "image/hosttar.h"
#include "base/banned.h"

/* What may come behind an archive: the rest of its last record. */
#define COPY_TRAILER_MAX (1u << 20)

struct stream {
	struct holt_exec *e;
	bool eof;
};

/* Both sides and what is to be done. */
struct copy {
	struct copy_facts source;
	struct copy_facts target;
	char *source_real;
	char *target_real;
	struct copy_plan plan;
};

static void copy_done(struct copy *c)
{
	copy_plan_done(&c->plan);
	mem_free(c->source_real);
	mem_free(c->target_real);
}

static uint32_t tar_flags(uint32_t flags)
{
	return flags & COPY_ARCHIVE ? HOSTTAR_OWNERS : 0;
}

/* Every error of a copy has a stage, and a hint for what the host can do about it. */
static int explain(int r, holt_error **reterr)
{
	if (r == 0)
		return 0;
	err_stage(reterr, "copy");
	if (r == -HOLT_ELIMIT)
		err_hint(reterr, "make room where the copy goes");
	else if (r == -HOLT_EDENIED)
		err_hint(reterr, "check who may read the source and write where the copy goes");
	else if (r == -HOLT_EPROTOCOL)
		err_hint(reterr, "something in the box meddles with the copy");
	else if (r == -HOLT_EIO)
		err_hint(reterr, "check the disk, and that nobody writes to the source meanwhile");
	else if (r == -HOLT_EINVALID)
		err_hint(reterr, "move what is in the way, or choose another target");
	else if (r == -HOLT_ECANCELLED)
		err_hint(reterr, "what was copied so far is there; copy again for the rest");
	return r;
}

static int open_dir(const char *path, int flags, int *ret, holt_error **reterr)
{
	const int fd = open(path, flags | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0) {
		const int r = err_errno(reterr, errno, "cannot open '%s'", path);
		err_object(reterr, path);
		return r;
	}
	*ret = fd;
	return 0;
}

/* ---- into the box ---- */

static int to_exec(void *user, const void *data, size_t len, holt_error **reterr)
{
	const struct stream *stream = user;

	return exec_write(stream->e, data, len, HOLT_FOREVER, NULL, reterr);
}

static int start_tar_in(struct session *s, const char *dir, uint32_t flags, holt_cancel *cancel,
	struct holt_exec **ret, holt_error **reterr)
{
	const char *const keep[] = {"tar-in", "-a", dir, NULL};
	const char *const plain[] = {"tar-in", dir, NULL};

	return box_builtin_start(s, flags & COPY_ARCHIVE ? keep : plain, true, cancel, ret, reterr);
}

static int send_tree(struct holt_exec *e, const struct copy_plan *plan, uint32_t flags,
	holt_cancel *cancel, holt_error **reterr)
{
	struct stream stream = {.e = e};
	const struct hosttar_pipe out = {
		.write = to_exec, .user = &stream, .cancel = cancel_flag(cancel)};
	auto_fd dir = FD_NONE;
	auto_error error = NULL;
	int r = open_dir(plan->from_dir, O_PATH, &dir, reterr);

	if (r < 0)
		return r;
	r = hosttar_pack(dir, plan->from_name, plan->as, tar_flags(flags), &out, &error);
	/* The box takes no more: it has met the end of the archive, or an error, which counts. */
	if (r < 0 && r != -HOLT_ECLOSED)
		return err_take(reterr, take_ptr(error));
	if (r == 0)
		(void)exec_close_stdin(e);
	return box_builtin_end(e, reterr);
}

int copy_in(struct session *s, const char *source, const char *target, uint32_t flags,
	holt_cancel *cancel, holt_error **reterr)
{
	struct copy c = {0};
	struct holt_exec *e = NULL;
	int r = copy_facts_host(
		source, (flags & COPY_FOLLOW) != 0, &c.source, &c.source_real, reterr);

	if (r == 0)
		r = copy_facts_guest(s, target, true, cancel, &c.target, &c.target_real, reterr);
	if (r == 0)
		r = copy_plan_make(&c.source, &c.target, &c.plan, reterr);
	if (r == 0)
		r = start_tar_in(s, c.plan.to_dir, flags, cancel, &e, reterr);
	if (r == 0)
		r = send_tree(e, &c.plan, flags, cancel, reterr);
	exec_free(e);
	copy_done(&c);
	return explain(r, reterr);
}

int copy_in_tar(struct session *s, int fd, const char *target, uint32_t flags, holt_cancel *cancel,
	holt_error **reterr)
{
	struct copy c = {0};
	struct holt_exec *e = NULL;
	int r = copy_facts_guest(s, target, true, cancel, &c.target, &c.target_real, reterr);

	if (r == 0 && c.target.type != COPY_DIR) {
		const bool missing = c.target.type == COPY_MISSING;
		r = err_make(reterr, missing ? HOLT_ENOT_FOUND : HOLT_EINVALID, "'%s' %s", target,
			missing ? "does not exist in the box" : "is not a directory in the box");
		err_object(reterr, target);
		err_hint(reterr, "an archive is unpacked in a directory that is there");
	}
	if (r == 0)
		r = start_tar_in(s, c.target.real, flags, cancel, &e, reterr);
	if (r == 0)
		r = box_builtin_pump(e, fd, -1, reterr);
	exec_free(e);
	copy_done(&c);
	return explain(r, reterr);
}

/* ---- out of the box ---- */

static int from_exec(void *user, void *data, size_t size, size_t *ret_len, holt_error **reterr)
{
	struct stream *stream = user;
	const int r = exec_read(stream->e, WIRE_STDOUT, data, size, HOLT_FOREVER, ret_len, reterr);

	stream->eof = r == 0 && *ret_len == 0;
	return r;
}

static int start_tar_out(struct session *s, const struct copy_plan *plan, holt_cancel *cancel,
	struct holt_exec **ret, holt_error **reterr)
{
	const char *const argv[] = {"tar-out", plan->from_dir, plan->from_name, plan->as, NULL};

	return box_builtin_start(s, argv, false, cancel, ret, reterr);
}

/* Nothing but padding may follow, and not without end. */
static int drain(struct stream *stream, holt_error **reterr)
{
	char piece[4096];
	size_t total = 0;

	while (!stream->eof) {
		size_t n = 0;
		const int r = from_exec(stream, piece, sizeof piece, &n, reterr);
		if (r < 0)
			return r;
		total += n;
		if (total > COPY_TRAILER_MAX)
			return err_make(reterr, HOLT_EPROTOCOL,
				"the box goes on sending behind the end of the archive");
	}
	return 0;
}

static int receive_tree(struct holt_exec *e, const struct copy_plan *plan, uint32_t flags,
	holt_cancel *cancel, holt_error **reterr)
{
	struct stream stream = {.e = e};
	const struct hosttar_pipe in = {
		.read = from_exec, .user = &stream, .cancel = cancel_flag(cancel)};
	auto_fd dir = FD_NONE;
	auto_error error = NULL;
	int r = open_dir(plan->to_dir, O_RDONLY, &dir, reterr);

	if (r < 0)
		return r;
	r = hosttar_unpack(dir, plan->as, tar_flags(flags), &in, &error);
	if (r == 0)
		r = drain(&stream, &error);
	/* A stream that is cut: the box knows why. */
	if (r == 0 || (r == -HOLT_EPROTOCOL && stream.eof)) {
		const int end = box_builtin_end(e, reterr);
		if (end < 0 || r == 0)
			return end;
	}
	return err_take(reterr, take_ptr(error));
}

static int check_owner(uint32_t flags, holt_error **reterr)
{
	if (!(flags & COPY_ARCHIVE) || geteuid() == 0)
		return 0;
	const int r = err_make(
		reterr, HOLT_EDENIED, "only root may give files to other owners on the host");
	err_hint(reterr, "copy without the archive flag, or as root");
	return r;
}

int copy_out(struct session *s, const char *source, const char *target, uint32_t flags,
	holt_cancel *cancel, holt_error **reterr)
{
	struct copy c = {0};
	struct holt_exec *e = NULL;
	int r = check_owner(flags, reterr);

	if (r == 0)
		r = copy_facts_guest(s, source, (flags & COPY_FOLLOW) != 0, cancel, &c.source,
			&c.source_real, reterr);
	if (r == 0)
		r = copy_facts_host(target, true, &c.target, &c.target_real, reterr);
	if (r == 0)
		r = copy_plan_make(&c.source, &c.target, &c.plan, reterr);
	if (r == 0)
		r = start_tar_out(s, &c.plan, cancel, &e, reterr);
	if (r == 0)
		r = receive_tree(e, &c.plan, flags, cancel, reterr);
	exec_free(e);
	copy_done(&c);
	return explain(r, reterr);
}

int copy_out_tar(struct session *s, const char *source, int fd, uint32_t flags, holt_cancel *cancel,
	holt_error **reterr)
{
	/* As into a directory: under its own name, or what is inside. */
	struct copy c = {.target = {.path = "/", .real = "/", .type = COPY_DIR}};
	struct holt_exec *e = NULL;
	int r = copy_facts_guest(
		s, source, (flags & COPY_FOLLOW) != 0, cancel, &c.source, &c.source_real, reterr);

	if (r == 0)
		r = copy_plan_make(&c.source, &c.target, &c.plan, reterr);
	if (r == 0)
		r = start_tar_out(s, &c.plan, cancel, &e, reterr);
	if (r == 0)
		r = box_builtin_pump(e, -1, fd, reterr);
	exec_free(e);
	copy_done(&c);
	return explain(r, reterr);
}
