/* SPDX-License-Identifier: Apache-2.0 */
#include "exec_user.h"

#include "guest_mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "guest_banned.h"

/*
 * Who a program runs as, by docker's rules:
 *   ""            root (or whoever the agent is, in tests), with what the files say about it
 *   "user"        a name, or a number, which needs no entry; its groups come from /etc/group
 *   "user:group"  that group only, no supplementary ones
 * A name is looked for before a number is taken as one. The files are read here and not by libc,
 * whose lookup would load modules into a static binary; they belong to the image and are not
 * trusted to be files, or short, or well-formed.
 */

#define FILE_MAX (4u * 1024 * 1024)
#define SPEC_MAX 512
#define ID_MAX   0x7fffffffu

struct lines {
	char *data; /* NUL-terminated; eaten line by line */
	char *next;
};

static bool parse_id(const char *s, uint32_t *ret)
{
	uint64_t v = 0;

	if (!*s)
		return false;
	for (; *s; s++) {
		if (*s < '0' || *s > '9')
			return false;
		v = v * 10 + (uint64_t)(*s - '0');
		if (v > ID_MAX)
			return false;
	}
	*ret = (uint32_t)v;
	return true;
}

/* A missing file is an empty one. */
static int lines_open(const char *path, struct lines *ret)
{
	struct stat st;
	size_t len = 0;
	int rc = 0;
	/* It could be a FIFO: do not wait for a writer. */
	const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	*ret = (struct lines){0};
	if (fd < 0)
		return errno == ENOENT || errno == ENOTDIR ? 0 : -errno;
	if (fstat(fd, &st) < 0)
		rc = -errno;
	else if (!S_ISREG(st.st_mode))
		rc = -EINVAL;
	else if (st.st_size > FILE_MAX)
		rc = -EFBIG;
	else if (!(ret->data = gmem_zalloc((size_t)st.st_size + 1)))
		rc = -ENOMEM;
	while (rc == 0 && len < (size_t)st.st_size) {
		const ssize_t n = read(fd, ret->data + len, (size_t)st.st_size - len);
		if (n < 0 && errno != EINTR)
			rc = -errno;
		if (n == 0)
			break;
		len += n > 0 ? (size_t)n : 0;
	}
	(void)close(fd);
	ret->next = ret->data;
	return rc;
}

/* The next line cut at its colons into at most @n fields; missing ones are empty. */
static bool lines_next(struct lines *l, char **fields, size_t n)
{
	static char empty[1];
	char *line = l->next;

	if (!line || !*line)
		return false;
	char *end = strchr(line, '\n');
	if (end)
		*end = 0;
	l->next = end ? end + 1 : NULL;
	for (size_t i = 0; i < n; i++) {
		fields[i] = line ? line : empty;
		char *colon = line ? strchr(line, ':') : NULL;
		if (colon)
			*colon = 0;
		line = colon ? colon + 1 : NULL;
	}
	return true;
}

static bool list_has(char *list, const char *name)
{
	const size_t len = strlen(name);

	while (*list) {
		const size_t n = strcspn(list, ",");
		if (n == len && memcmp(list, name, n) == 0)
			return true;
		list += n + (list[n] == ',');
	}
	return false;
}

/* Find @want (NULL: the number in ret->uid). *ret_name is its login name, "" without an entry. */
static int find_user(const char *want, struct exec_user *ret, char *ret_name, struct agent_fail *f)
{
	struct lines l;
	char *fields[7];
	uint32_t uid = 0;
	uint32_t gid = 0;
	bool found = false;
	int rc = lines_open("/etc/passwd", &l);

	if (rc < 0)
		rc = agent_fail_set(
			f, WIRE_FAIL_USER, -rc, "user", "/etc/passwd", "cannot read '/etc/passwd'");
	while (rc == 0 && !found && lines_next(&l, fields, 7)) {
		if (!parse_id(fields[2], &uid) || !parse_id(fields[3], &gid))
			continue;
		found = want ? strcmp(fields[0], want) == 0 || strcmp(fields[2], want) == 0
			     : uid == ret->uid;
	}
	if (found) {
		ret->uid = uid;
		ret->gid = gid;
		if (*fields[5] && strlen(fields[5]) < sizeof(ret->home))
			memcpy(ret->home, fields[5], strlen(fields[5]) + 1);
		if (strlen(fields[0]) < SPEC_MAX)
			memcpy(ret_name, fields[0], strlen(fields[0]) + 1);
	} else if (rc == 0 && want) {
		if (!parse_id(want, &ret->uid))
			rc = agent_fail_set(f, WIRE_FAIL_USER, 0, "user", want,
				"no user '%s' in the image's /etc/passwd", want);
		ret->gid = 0;
	}
	gmem_free(l.data);
	return rc;
}

/* @want: that group becomes the only one. NULL: collect the groups that list @member. */
static int find_groups(
	const char *want, const char *member, struct exec_user *ret, struct agent_fail *f)
{
	struct lines l;
	char *fields[4];
	uint32_t gid = 0;
	bool found = false;
	int rc = lines_open("/etc/group", &l);

	if (rc < 0)
		rc = agent_fail_set(
			f, WIRE_FAIL_USER, -rc, "user", "/etc/group", "cannot read '/etc/group'");
	while (rc == 0 && !found && lines_next(&l, fields, 4)) {
		if (!parse_id(fields[2], &gid))
			continue;
		if (want)
			found = strcmp(fields[0], want) == 0 || strcmp(fields[2], want) == 0;
		else if (list_has(fields[3], member) && ret->n_groups < EXEC_GROUPS_MAX)
			ret->groups[ret->n_groups++] = gid;
	}
	if (found)
		ret->gid = gid;
	else if (rc == 0 && want && !parse_id(want, &ret->gid))
		rc = agent_fail_set(f, WIRE_FAIL_USER, 0, "user", want,
			"no group '%s' in the image's /etc/group", want);
	gmem_free(l.data);
	return rc;
}

int exec_user_find(const struct wire_bytes *spec, struct exec_user *ret, struct agent_fail *f)
{
	char user[SPEC_MAX];
	char name[SPEC_MAX] = "";

	*ret = (struct exec_user){.uid = geteuid(), .gid = getegid(), .home = "/"};
	if (agent_copy_str(user, sizeof(user), spec) < 0)
		return agent_fail_set(f, WIRE_FAIL_USER, EINVAL, "user", "",
			"the user is longer than %d bytes or has a NUL in it", SPEC_MAX - 1);
	char *group = strchr(user, ':');
	if (group)
		*group++ = 0;
	int rc = find_user(*user ? user : NULL, ret, name, f);
	if (rc == 0 && group && *group)
		rc = find_groups(group, NULL, ret, f);
	else if (rc == 0 && *name)
		rc = find_groups(NULL, name, ret, f);
	return rc;
}
