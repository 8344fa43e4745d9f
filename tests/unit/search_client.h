/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_UNIT_SEARCH_CLIENT_H
#define TESTS_UNIT_SEARCH_CLIENT_H

#include "files_client.h"

/*
 * Requests that answer with many results. Those of a grep become "PATH:LINE:TEXT" and a list's
 * "d:PATH" or "f:PATH".
 */

#define FOUND_MAX 4096

struct found {
	char *results[FOUND_MAX];
	size_t n;
	uint64_t line_len; /* of the last one */
	bool failed;
	uint16_t class;
	uint32_t errnum;
	char stage[16];
	char object[2048];
	char text[8192];
	bool truncated;
	uint64_t searched;
	uint64_t skipped;
};

static struct found found;

static void found_clear(void)
{
	for (size_t i = 0; i < found.n; i++)
		free(found.results[i]);
	memset(&found, 0, sizeof(found));
}

static void found_add(const char *head, const struct wire_bytes *path, const char *middle,
	const struct wire_bytes *text)
{
	const size_t size = strlen(head) + path->len + strlen(middle) + (text ? text->len : 0) + 1;
	char *const s = calloc(1, size);
	char *to = s;

	ck_assert_ptr_nonnull(s);
	ck_assert_uint_lt(found.n, FOUND_MAX);
	memcpy(to, head, strlen(head));
	to += strlen(head);
	if (path->len)
		memcpy(to, path->data, path->len);
	to += path->len;
	memcpy(to, middle, strlen(middle));
	to += strlen(middle);
	if (text && text->len)
		memcpy(to, text->data, text->len);
	found.results[found.n++] = s;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void found_take(const struct wire_msg *m)
{
	char line[32];

	switch (m->op) {
	case WIRE_OP_file_entry:
		found_add(m->file_entry.type == WIRE_FILE_DIRECTORY ? "d:" : "f:",
			&m->file_entry.path, "", NULL);
		break;
	case WIRE_OP_file_match:
		(void)snprintf(
			line, sizeof(line), ":%llu:", (unsigned long long)m->file_match.line);
		found.line_len = m->file_match.line_len;
		found_add("", &m->file_match.path, line, &m->file_match.text);
		break;
	case WIRE_OP_file_fail:
		found.failed = true;
		found.class = m->file_fail.class_;
		found.errnum = m->file_fail.errnum;
		copy_text(found.stage, sizeof(found.stage), &m->file_fail.stage);
		copy_text(found.object, sizeof(found.object), &m->file_fail.object);
		copy_text(found.text, sizeof(found.text), &m->file_fail.text);
		break;
	case WIRE_OP_file_done:
		found.truncated = m->file_done.truncated;
		found.searched = m->file_done.searched;
		found.skipped = m->file_done.skipped;
		break;
	default:
		ck_abort_msg("unexpected '%s'", wire_op_name(m->op));
	}
}

/* Sorts all but the first result of a list, which is the root. */
static void search(struct worker *w, const struct wire_msg *m)
{
	struct wire_msg got = {0};

	found_clear();
	put_msg(w, m);
	do {
		get_msg(w, &got);
		found_take(&got);
	} while (got.op != WIRE_OP_file_done && got.op != WIRE_OP_file_fail);
	const size_t first = m->op == WIRE_OP_file_list && found.n > 0;
	if (found.n > first)
		qsort(found.results + first, found.n - first, sizeof(char *), by_text);
}

static struct wire_strs packed_strs(const char *const *list, size_t max)
{
	static struct bytes b;
	struct wire_strs strs = {0};

	free(b.data);
	b = (struct bytes){0};
	if (list)
		pack(&b, list, max, &strs);
	return strs;
}

/* The results are these, in this order, until NULL. */
static void found_is(const char *const *want)
{
	ck_assert_msg(!found.failed, "%s", found.text);
	for (size_t i = 0; i < found.n || want[i]; i++) {
		ck_assert_msg(want[i], "'%s' is too much", found.results[i]);
		ck_assert_msg(i < found.n, "'%s' is missing", want[i]);
		ck_assert_str_eq(found.results[i], want[i]);
	}
}

#define FOUND(...) found_is((const char *const[]){__VA_ARGS__ __VA_OPT__(, ) NULL})

static void found_fails(
	enum wire_file_failure class, int errnum, const char *stage, const char *object)
{
	ck_assert_msg(found.failed, "no failure of '%s'", object);
	ck_assert_msg(found.class == class && found.errnum == (uint32_t)errnum, "%u %u: %s",
		found.class, found.errnum, found.text);
	ck_assert_str_eq(found.stage, stage);
	ck_assert_str_eq(found.object, object);
}

/* @n directories "d" within each other in base/@name; returns the last one. */
__attribute__((unused)) static int make_deep(const char *name, int n, const char *each)
{
	ck_assert_int_eq(mkdir(in_base(name), 0755), 0);
	int fd = open(in_base(name), O_PATH | O_CLOEXEC);

	for (int i = 0; i < n; i++) {
		ck_assert_int_eq(mkdirat(fd, each, 0755), 0);
		const int next = openat(fd, each, O_PATH | O_CLOEXEC);
		ck_assert_int_ge(next, 0);
		(void)close(fd);
		fd = next;
	}
	return fd;
}

static void search_teardown(void)
{
	found_clear();
	files_teardown();
}

#endif
