/* SPDX-License-Identifier: Apache-2.0 */
#include "box/copy_facts.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/str.h"
#include "box/box_builtin.h"
#include "base/banned.h"

#define FACTS_LINKS_MAX 40 /* as the kernel's own limit */
#define FACTS_BYTES_MAX 16384u /* of path-stat: two paths and some numbers */

/* The path without slashes and "." behind it, in fresh memory: then it has a last name, also where
 * nothing is there yet. */
static char *strip(const char *path)
{
	size_t len = strlen(path);

	for (;;) {
		if (len > 1 && path[len - 1] == '/')
			len--;
		else if (len > 2 && path[len - 1] == '.' && path[len - 2] == '/')
			len -= 2;
		else
			break;
	}
	if (len == 2 && path[0] == '/' && path[1] == '.')
		len = 1;
	return str_ndup(path, len);
}

static enum copy_type type_of(mode_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFDIR:
		return COPY_DIR;
	case S_IFREG:
	case S_IFLNK:
	case S_IFIFO:
		return COPY_FILE;
	default:
		return COPY_OTHER;
	}
}

/* ---- the host ---- */

static int fail_host(const char *path, int errnum, holt_error **reterr)
{
	const int r = err_errno(reterr, errnum, "cannot find '%s' on the host", path);

	err_stage(reterr, "copy");
	err_object(reterr, path);
	err_hint(reterr, "check the path and who may look at it");
	return r;
}

/* The directory of @path as the kernel sees it, and the last name: a fresh path, or NULL with
 * errno. */
static char *real_of_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;
	auto_free char *dir = slash ? str_ndup(path, (size_t)(slash - path) + 1) : str_dup(".");
	char real[PATH_MAX];

	errno = ENOMEM;
	if (!dir || !realpath(dir, real))
		return NULL;
	return str_printf("%s/%s", strcmp(real, "/") == 0 ? "" : real, name);
}

static char *real_of_all(const char *path)
{
	char real[PATH_MAX];

	return realpath(path, real) ? str_dup(real) : NULL;
}

/* Where the link at @path leads: a fresh path, or NULL with errno (EINVAL: it is no link). */
static char *link_target(const char *path)
{
	char target[PATH_MAX];
	const ssize_t n = readlink(path, target, sizeof target - 1);
	const char *slash = strrchr(path, '/');

	if (n < 0)
		return NULL;
	target[n] = 0;
	if (target[0] == '/' || !slash)
		return str_dup(target);
	return str_printf("%.*s/%s", (int)(slash - path), path, target);
}

/* @path has a last name. Sets its type and place; 0 or -errno. */
static int look(const char *path, bool follow, enum copy_type *ret_type, char **ret_real)
{
	auto_free char *at = str_dup(path);
	struct stat st;

	for (int links = 0; at && links < FACTS_LINKS_MAX; links++) {
		if (fstatat(AT_FDCWD, at, &st, follow ? 0 : AT_SYMLINK_NOFOLLOW) == 0) {
			/* ".." and "." have no name of their own. */
			const bool all = follow || copy_path_wants_dir(at);
			*ret_type = type_of(st.st_mode);
			*ret_real = all ? real_of_all(at) : real_of_name(at);
			return *ret_real ? 0 : -errno;
		}
		if (errno != ENOENT)
			return -errno;
		char *next = follow ? link_target(at) : NULL;
		if (!next) {
			*ret_type = COPY_MISSING;
			*ret_real = real_of_name(at);
			return *ret_real ? 0 : -errno;
		}
		mem_free(at);
		at = strip(next);
		mem_free(next);
	}
	return at ? -ELOOP : -ENOMEM;
}

int copy_facts_host(
	const char *path, bool follow, struct copy_facts *ret, char **ret_real, holt_error **reterr)
{
	auto_free char *plain = strip(path);
	enum copy_type type = COPY_MISSING;

	if (!plain)
		return err_nomem(reterr);
	if (!*plain)
		return fail_host(path, ENOENT, reterr);
	const int r = look(plain, follow || copy_path_wants_dir(path), &type, ret_real);
	if (r < 0)
		return fail_host(path, -r, reterr);
	*ret = (struct copy_facts){.path = path, .real = *ret_real, .type = type};
	return 0;
}

/* ---- the box ---- */

int copy_facts_parse(const char *text, size_t len, enum copy_type *ret_type, const char **ret_real)
{
	const char *facts_end = len > 0 ? memchr(text, 0, len) : NULL;

	if (!facts_end || facts_end - text < 2 || text[1] != ' ')
		return -EPROTO;
	const char *real = facts_end + 1;
	const size_t left = len - (size_t)(real - text);
	if (left == 0 || !memchr(real, 0, left) || real[0] != '/')
		return -EPROTO;
	/* Its last name may become the name of a copy. */
	if (real[1] && copy_path_wants_dir(real))
		return -EPROTO;
	switch (text[0]) {
	case 'd':
		*ret_type = COPY_DIR;
		break;
	case 'f':
	case 'l':
	case 'p':
		*ret_type = COPY_FILE;
		break;
	case '-':
		*ret_type = COPY_MISSING;
		break;
	case 'b':
	case 'c':
	case 's':
		*ret_type = COPY_OTHER;
		break;
	default:
		return -EPROTO;
	}
	*ret_real = real;
	return 0;
}

/* All that it prints, which is not much. */
static int read_all(struct holt_exec *e, struct buf *out, holt_error **reterr)
{
	size_t n = 1;

	while (n > 0) {
		char piece[4096];
		int r = exec_read(e, WIRE_STDOUT, piece, sizeof piece, HOLT_FOREVER, &n, reterr);
		if (r < 0)
			return r;
		r = buf_append(out, piece, n);
		if (r == -EMSGSIZE)
			return err_make(
				reterr, HOLT_EPROTOCOL, "the box says too much about a path");
		if (r < 0)
			return err_nomem(reterr);
	}
	return 0;
}

static int run_path_stat(struct session *s, const char *path, bool follow, holt_cancel *cancel,
	struct buf *out, holt_error **reterr)
{
	const char *const with[] = {"path-stat", "-L", path, NULL};
	const char *const without[] = {"path-stat", path, NULL};
	struct holt_exec *e = NULL;
	int r = box_builtin_start(s, follow ? with : without, false, cancel, &e, reterr);

	if (r == 0)
		r = read_all(e, out, reterr);
	if (r == 0)
		r = box_builtin_end(e, reterr);
	exec_free(e);
	return r;
}

int copy_facts_guest(struct session *s, const char *path, bool follow, holt_cancel *cancel,
	struct copy_facts *ret, char **ret_real, holt_error **reterr)
{
	auto_free char *plain = strip(path);
	auto_buf text = BUF_INIT(FACTS_BYTES_MAX);
	enum copy_type type = COPY_MISSING;
	const char *real = NULL;

	if (!plain)
		return err_nomem(reterr);
	const int r = run_path_stat(
		s, plain, follow || copy_path_wants_dir(path), cancel, &text, reterr);
	if (r < 0)
		return r;
	if (copy_facts_parse((const char *)text.data, text.len, &type, &real) < 0) {
		(void)err_make(
			reterr, HOLT_EPROTOCOL, "the box's word on '%s' makes no sense", path);
		err_stage(reterr, "copy");
		err_object(reterr, path);
		err_hint(reterr, "the agent of the box was taken over; do not trust the box");
		return -HOLT_EPROTOCOL;
	}
	*ret_real = str_dup(real);
	if (!*ret_real)
		return err_nomem(reterr);
	*ret = (struct copy_facts){.path = path, .real = *ret_real, .type = type};
	return 0;
}
