/* SPDX-License-Identifier: Apache-2.0 */
#include "box/copy_plan.h"

#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/banned.h"

/* The last name of a path without slashes behind it: where it begins, and its length. */
static const char *last_name(const char *path, size_t *ret_len)
{
	size_t end = strlen(path);

	while (end > 0 && path[end - 1] == '/')
		end--;
	size_t start = end;
	while (start > 0 && path[start - 1] != '/')
		start--;
	*ret_len = end - start;
	return path + start;
}

static bool is_name(const char *name, size_t len, const char *what)
{
	return len == strlen(what) && memcmp(name, what, len) == 0;
}

bool copy_path_wants_dir(const char *path)
{
	size_t len;
	const char *name = last_name(path, &len);

	return name[len] == '/' || len == 0 || is_name(name, len, ".") || is_name(name, len, "..");
}

/* "dir/." means what is inside; so does the root, which has no name. */
static bool means_inside(const struct copy_facts *source)
{
	size_t len;
	const char *name = last_name(source->path, &len);

	if (is_name(name, len, "."))
		return true;
	(void)last_name(source->real, &len);
	return len == 0;
}

/* The name that the copy of @source has in a directory: as written, and for ".." as it is. */
static char *source_name(const struct copy_facts *source)
{
	size_t len;
	const char *name = last_name(source->path, &len);

	if (len == 0 || is_name(name, len, ".") || is_name(name, len, ".."))
		name = last_name(source->real, &len);
	return str_ndup(name, len);
}

static int refuse(int code, const char *object, const char *hint, const char *text,
	const char *path, holt_error **reterr)
{
	(void)err_make(reterr, code, "'%s' %s", path, text);
	err_stage(reterr, "copy");
	err_object(reterr, object);
	err_hint(reterr, "%s", hint);
	return -code;
}

static int check_source(const struct copy_facts *s, holt_error **reterr)
{
	switch (s->type) {
	case COPY_MISSING:
		return refuse(HOLT_ENOT_FOUND, s->path, "check the path of what is to be copied",
			"does not exist", s->path, reterr);
	case COPY_OTHER:
		return refuse(HOLT_EINVALID, s->path,
			"files, directories, links and fifos can be copied",
			"is a device or a socket", s->path, reterr);
	case COPY_FILE:
		if (copy_path_wants_dir(s->path))
			return refuse(HOLT_EINVALID, s->path, "leave out what is behind its name",
				"is not a directory", s->path, reterr);
		return 0;
	case COPY_DIR:
		return 0;
	}
	return err_make(reterr, HOLT_EINTERNAL, "no such type: %d", (int)s->type);
}

static int check_target(const struct copy_facts *s, const struct copy_facts *t, holt_error **reterr)
{
	const bool wants_dir = copy_path_wants_dir(t->path);

	if (t->type == COPY_DIR)
		return 0;
	if (t->type == COPY_MISSING) {
		if (s->type == COPY_FILE && wants_dir)
			return refuse(HOLT_ENOT_FOUND, t->path,
				"make the directory first, or leave out the slash for a file of "
				"this "
				"name",
				"does not exist, so no file can go into it", t->path, reterr);
		return 0;
	}
	if (wants_dir)
		return refuse(HOLT_EINVALID, t->path, "leave out what is behind its name",
			"is not a directory", t->path, reterr);
	if (t->type == COPY_OTHER)
		return refuse(HOLT_EINVALID, t->path, "name a file, a directory or a new name",
			"is a device or a socket, which a copy does not replace", t->path, reterr);
	if (s->type == COPY_DIR)
		return refuse(HOLT_EINVALID, t->path, "name a directory or a new name",
			"is not a directory, so no directory can take its place", t->path, reterr);
	return 0;
}

/* Split an absolute path into directory and name; the root is "." in itself. */
static int split(const char *real, char **ret_dir, char **ret_name)
{
	size_t len;
	const char *name = last_name(real, &len);
	size_t dir_len = (size_t)(name - real);

	while (dir_len > 1 && real[dir_len - 1] == '/')
		dir_len--;
	*ret_dir = dir_len ? str_ndup(real, dir_len) : str_dup("/");
	*ret_name = len ? str_ndup(name, len) : str_dup(".");
	return *ret_dir && *ret_name ? 0 : -1;
}

static int fill(const struct copy_facts *s, const struct copy_facts *t, struct copy_plan *p)
{
	const bool inside = s->type == COPY_DIR && means_inside(s);

	if (split(s->real, &p->from_dir, &p->from_name) < 0)
		return -1;
	if (t->type != COPY_DIR)
		return split(t->real, &p->to_dir, &p->as);
	p->to_dir = str_dup(t->real);
	p->as = inside ? str_dup(".") : source_name(s);
	return p->to_dir && p->as ? 0 : -1;
}

int copy_plan_make(const struct copy_facts *source, const struct copy_facts *target,
	struct copy_plan *ret, holt_error **reterr)
{
	struct copy_plan p = {0};
	int r = check_source(source, reterr);

	if (r == 0)
		r = check_target(source, target, reterr);
	if (r < 0)
		return r;
	if (fill(source, target, &p) < 0) {
		copy_plan_done(&p);
		return err_nomem(reterr);
	}
	*ret = p;
	return 0;
}

void copy_plan_done(struct copy_plan *plan)
{
	mem_free(plan->from_dir);
	mem_free(plan->from_name);
	mem_free(plan->as);
	mem_free(plan->to_dir);
	*plan = (struct copy_plan){0};
}
