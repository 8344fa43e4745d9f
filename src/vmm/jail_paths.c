/* SPDX-License-Identifier: Apache-2.0 */
#include "vmm/jail_inside.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/banned.h"

/*
 * What a program in a jail can see of the host's files: where libraries and QEMU's own files lie,
 * as they are installed by any distribution, and the place of the program where it is elsewhere.
 * All of that is the same for everybody on the host.
 */

static const char *const system_paths[] = {
	"/usr",
	"/lib",
	"/lib32",
	"/lib64",
	"/libx32",
	"/bin",
	"/sbin",
	"/etc/ld.so.cache",
	"/etc/alternatives",
	"/nix/store",
	"/gnu/store",
};

static bool is_beneath(const char *path, const char *dir)
{
	const size_t len = strlen(dir);

	return strncmp(path, dir, len) == 0 && (path[len] == '/' || path[len] == '\0');
}

static bool is_covered(const struct jail *jail, const char *path)
{
	for (size_t i = 0; i < jail->n_paths; i++) {
		if (!jail->paths[i].target && is_beneath(path, jail->paths[i].path))
			return true;
	}
	return false;
}

/* A path that is not there is none. */
static int add_path(struct jail *jail, const char *path)
{
	char target[PATH_MAX];
	struct stat st;

	if (lstat(path, &st) < 0 || is_covered(jail, path))
		return 0;
	if (jail->n_paths == JAIL_PATHS_MAX)
		return -E2BIG;
	struct jail_path *p = &jail->paths[jail->n_paths];
	if (S_ISLNK(st.st_mode)) {
		const ssize_t len = readlink(path, target, sizeof target - 1);
		if (len < 0)
			return 0;
		target[len] = '\0';
		p->target = str_dup(target);
		if (!p->target)
			return -ENOMEM;
	}
	p->dir = S_ISDIR(st.st_mode);
	p->path = str_dup(path);
	jail->n_paths++;
	return p->path ? 0 : -ENOMEM;
}

/* A tree of its own, as /opt/qemu: its parts by name, since the directory above could be a home. */
static int add_prefix(struct jail *jail, const char *prefix, size_t len)
{
	static const char *const parts[] = {"bin", "lib", "lib64", "libexec", "share"};
	int r = 0;

	for (size_t i = 0; i < sizeof parts / sizeof parts[0] && r == 0; i++) {
		auto_free char *path = str_printf("%.*s/%s", (int)len, prefix, parts[i]);
		r = path ? add_path(jail, path) : -ENOMEM;
	}
	return r;
}

static int add_program(struct jail *jail)
{
	const char *slash = strrchr(jail->program, '/');
	const size_t len = slash ? (size_t)(slash - jail->program) : 0;

	if (is_covered(jail, jail->program))
		return 0;
	if (len >= strlen("/bin") && strncmp(slash - strlen("/bin"), "/bin", strlen("/bin")) == 0)
		return add_prefix(jail, jail->program, len - strlen("/bin"));
	if (len == 0)
		return add_path(jail, jail->program);
	auto_free char *dir = str_ndup(jail->program, len);
	return dir ? add_path(jail, dir) : -ENOMEM;
}

int jail_list_paths(struct jail *jail)
{
	int r = 0;

	for (size_t i = 0; i < sizeof system_paths / sizeof system_paths[0] && r == 0; i++)
		r = add_path(jail, system_paths[i]);
	return r < 0 || !jail->program ? r : add_program(jail);
}
