/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox/paths.h"

#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "sandbox/contract.h"
#include "base/banned.h"

/*
 * What is refused about a path before anybody looks at a file. This keeps honest mistakes in
 * bounds, not an attacker: commands may name any path, and what protects the host is the machine
 * around.
 *
 * A backslash is an ordinary byte of a name. Only here it also separates, since what drives a
 * sandbox may come from a world where it does.
 */

static int refuse(int code, const char *path, const char *hint, holt_error **reterr)
{
	err_stage(reterr, "path");
	err_object(reterr, path);
	err_hint(reterr, "%s", hint);
	return -code;
}

static bool has_dotdot(const char *path)
{
	for (;;) {
		const size_t len = strcspn(path, "/\\");

		if (len == 2 && path[0] == '.' && path[1] == '.')
			return true;
		if (!path[len])
			return false;
		path += len + 1;
	}
}

int path_check(const char *path, holt_error **reterr)
{
	if (!path[0]) {
		(void)err_make(reterr, HOLT_EINVALID, "path must be a non-empty string");
		return refuse(HOLT_EINVALID, path, "'.' is the working directory", reterr);
	}
	if (strlen(path) > CONTRACT_PATH_BYTES_MAX) {
		(void)err_make(reterr, HOLT_EINVALID, "path is longer than %u bytes",
			CONTRACT_PATH_BYTES_MAX);
		return refuse(HOLT_EINVALID, NULL, "shorten it", reterr);
	}
	if (has_dotdot(path)) {
		(void)err_make(reterr, HOLT_EDENIED,
			"Access denied: path traversal detected in '%s'", path);
		return refuse(HOLT_EDENIED, path, "name the file without '..'", reterr);
	}
	return 0;
}

int path_check_user_data(const char *path, holt_error **reterr)
{
	const int r = path_check(path, reterr);

	if (r < 0 || path[0] == '/')
		return r;
	(void)err_make(reterr, HOLT_EINVALID, "'%s' is not an absolute path", path);
	return refuse(HOLT_EINVALID, path, "begin the user-data directory with '/'", reterr);
}

static const char *without_slashes(const char *path)
{
	return path + strspn(path, "/");
}

static bool is_beneath(const char *path, const char *dir)
{
	size_t len = strlen(dir);

	while (len > 0 && dir[len - 1] == '/')
		len--;
	return len == 0 || (strncmp(path, dir, len) == 0 && (!path[len] || path[len] == '/'));
}

int path_of_download(const char *path, const char *user_data, char **ret, holt_error **reterr)
{
	const int r = path_check(path, reterr);

	if (r < 0)
		return r;
	const char *relative = without_slashes(path);
	if (!is_beneath(relative, without_slashes(user_data))) {
		(void)err_make(reterr, HOLT_EDENIED, "Access denied: path must be under '%s': '%s'",
			user_data, path);
		return refuse(HOLT_EDENIED, path, "copy the file there first", reterr);
	}
	char *absolute = str_printf("/%s", relative);
	if (!absolute)
		return err_nomem(reterr);
	*ret = absolute;
	return 0;
}

/* What "." segments and slashes leave of a pattern; a slash in front stays, since it means
 * something: nothing. */
static bool is_empty_pattern(const char *pattern)
{
	while (pattern[0]) {
		const size_t len = strcspn(pattern, "/");

		if (len > 1 || (len == 1 && pattern[0] != '.'))
			return false;
		pattern += pattern[len] ? len + 1 : len;
	}
	return true;
}

int glob_pattern_check(const char *pattern, holt_error **reterr)
{
	if (strlen(pattern) > CONTRACT_PATTERN_BYTES_MAX)
		(void)err_make(reterr, HOLT_EINVALID, "pattern is longer than %u bytes",
			CONTRACT_PATTERN_BYTES_MAX);
	else if (pattern[0] != '/' && is_empty_pattern(pattern))
		(void)err_make(reterr, HOLT_EINVALID, "glob pattern '%s' names nothing", pattern);
	else
		return 0;
	return refuse(HOLT_EINVALID, NULL, "'*' matches every name", reterr);
}
