/* SPDX-License-Identifier: Apache-2.0 */
#include "builtin_client.h"

/*
 * Directories of sandboxes, made by a real agent under the fake engine on the host's files. Who
 * owns what is looked at where root runs this.
 */

#define UID 4711
#define GID 4712

static bool is_root(void)
{
	return geteuid() == 0;
}

/* The user that directories are made for: a number, which needs no entry in any file. */
static const char *user(void)
{
	return is_root() ? "4711:4712" : "";
}

/* What the agent answers. */
static void ask(const char *as, const char *const *paths, size_t n, struct wire_msg *ret)
{
	struct bytes list = {0};
	struct wire_msg m = {
		.op = WIRE_OP_directories, .stream = 8, .directories = {.user = text(as)}};

	pack(&list, paths, n, &m.directories.paths);
	send_msg(&m);
	free(list.data);
	do
		ck_assert(recv_msg(ret, now_ms() + WAIT_MS));
	while (ret->op == WIRE_OP_log || ret->op == WIRE_OP_stage);
	ck_assert_uint_eq(ret->stream, 8);
}

static void make_ok(const char *a, const char *b)
{
	const char *const paths[] = {a, b};
	struct wire_msg m;

	ask(user(), paths, b ? 2 : 1, &m);
	ck_assert_msg(m.op == WIRE_OP_done, "%.*s", m.op == WIRE_OP_fail ? (int)m.fail.text.len : 0,
		m.op == WIRE_OP_fail ? (const char *)m.fail.text.data : "");
}

static void check_fail(const struct wire_msg *m, unsigned class, int errnum, const char *object)
{
	ck_assert_str_eq(wire_op_name(m->op), "fail");
	ck_assert_uint_eq(m->fail.class_, class);
	ck_assert_msg(m->fail.errnum == (uint32_t)errnum, "%s: errno %u, not %d", object,
		m->fail.errnum, errnum);
	ck_assert_uint_eq(m->fail.object.len, strlen(object));
	ck_assert_int_eq(memcmp(m->fail.object.data, object, strlen(object)), 0);
}

static void make_fails(const char *path, int errnum)
{
	struct wire_msg m;

	ask(user(), &path, 1, &m);
	check_fail(&m, WIRE_FAIL_PATH, errnum, path);
}

/* base/name as "MODE UID:GID", where root is 0:0 for whoever runs this. */
static void check_dir(const char *name, bool users, unsigned mode)
{
	struct stat st;

	ck_assert_int_eq(lstat(in_base(name), &st), 0);
	ck_assert(S_ISDIR(st.st_mode));
	ck_assert_uint_eq(st.st_mode & 07777, mode);
	ck_assert_uint_eq(st.st_uid, users && is_root() ? UID : geteuid());
	ck_assert_uint_eq(st.st_gid, users && is_root() ? GID : getegid());
}

/* The directory of the test is closed to others otherwise. */
static void open_base(void)
{
	ck_assert_int_eq(chmod(base, 0755), 0);
}

/* C-158 */
START_TEST(makes_them_for_the_user)
{
	open_base();
	make_ok(in_base("a/b/workspace"), in_base("a/b/uploads"));
	check_dir("a", false, 0755);
	check_dir("a/b", false, 0755);
	check_dir("a/b/workspace", true, 0755);
	check_dir("a/b/uploads", true, 0755);
	/* Again, with what is in them. */
	sh("echo kept >a/b/workspace/file");
	make_ok(in_base("a/b/workspace/"), in_base("a//./b/uploads"));
	sh("test \"$(cat a/b/workspace/file)\" = kept");
	struct wire_msg m;
	ask(user(), NULL, 0, &m);
	ck_assert_uint_eq(m.op, WIRE_OP_done);
}
END_TEST

/* What the user may write to stays as it is; what he may not becomes his. */
START_TEST(leaves_what_is_fine)
{
	open_base();
	sh("mkdir all own && chmod 1777 all && chmod 755 own");
	make_ok(in_base("all"), in_base("own"));
	check_dir("all", false, 01777);
	check_dir("own", true, 0755);
}
END_TEST

START_TEST(tells_what_cannot_be)
{
	char longer[NAME_MAX + 3];
	struct wire_msg m;

	open_base();
	sh(": >file && ln -s nowhere dangling");
	make_fails(in_base("file"), ENOTDIR);
	make_fails(in_base("file/x"), ENOTDIR);
	make_fails(in_base("dangling/x"), ENOENT);
	make_fails("relative", EINVAL);
	make_fails("/", EINVAL);
	make_fails("", EINVAL);
	make_fails(in_base("a/../b"), EINVAL);
	memset(longer, 'x', sizeof longer - 1);
	longer[0] = '/';
	longer[sizeof longer - 1] = 0;
	const char *const too_long = longer;
	ask(user(), &too_long, 1, &m);
	ck_assert_uint_eq(m.op, WIRE_OP_fail);
	ck_assert_uint_eq(m.fail.errnum, ENAMETOOLONG);
	const char *const path = in_base("x");
	ask("nobody-knows-him", &path, 1, &m);
	check_fail(&m, WIRE_FAIL_USER, 0, "nobody-knows-him");
	ck_assert_int_lt(access(path, F_OK), 0);
}
END_TEST

/* A directory that the user cannot get to is of no use to him. */
START_TEST(tells_what_the_user_cannot_reach)
{
	if (!is_root())
		return;
	open_base();
	sh("mkdir closed && chmod 700 closed");
	make_fails(in_base("closed/x"), EACCES);
	/* One that is his already, and that he has closed to himself. */
	sh("mkdir own && chmod 555 own && chown 4711:4712 own");
	make_fails(in_base("own"), EACCES);
}
END_TEST

/* Who has been in the box before gets nothing by the links that he left. */
START_TEST(follows_links_of_root_only)
{
	open_base();
	sh("mkdir real target && chmod 755 real target && ln -s real roots");
	make_ok(in_base("roots/x"), in_base("roots"));
	check_dir("real/x", true, 0755);
	check_dir("real", true, 0755);
	if (!is_root())
		return;
	sh("ln -s target users && chown -h 4711:4712 users");
	make_fails(in_base("users"), ELOOP);
	make_fails(in_base("users/x"), ELOOP);
	check_dir("target", false, 0755);
	ck_assert_int_lt(access(in_base("target/x"), F_OK), 0);
}
END_TEST

int main(void)
{
	TCase *t = tcase_create("directories");

	tcase_set_timeout(t, 60);
	tcase_add_checked_fixture(t, base_setup, base_teardown);
	tcase_add_test(t, makes_them_for_the_user);
	tcase_add_test(t, leaves_what_is_fine);
	tcase_add_test(t, tells_what_cannot_be);
	tcase_add_test(t, tells_what_the_user_cannot_reach);
	tcase_add_test(t, follows_links_of_root_only);
	return run_cases("directories", t);
}
