/* SPDX-License-Identifier: Apache-2.0 */
#include "builtin_client.h"

#include <archive.h>
#include <archive_entry.h>
#include <sys/wait.h>

/*
 * The built-ins of the agent, run by a real agent under the fake engine, on directories of the
 * host. What they write is read by GNU tar and by libarchive, and the other way round. A tree is
 * compared by a listing of everything that a copy has to keep. What only root may do (owners,
 * device nodes) is looked at where root runs this.
 */

static bool is_root(void)
{
	return geteuid() == 0;
}

/* An archive on its way through the test. */
static struct bytes tar_out(const char *dir, const char *name, const char *as)
{
	struct run r;

	builtin_run((const char *[6]){"tar-out", dir, name, as}, NULL, &r);
	check_success(&r);
	free(r.out[1].data);
	ck_assert_uint_eq(r.out[0].len % 512, 0);
	return r.out[0];
}

static void save(const char *name, const struct bytes *b)
{
	const int fd = open(in_base(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, b->data, b->len), (ssize_t)b->len);
	(void)close(fd);
}

static struct bytes load(const char *name)
{
	const int fd = open(in_base(name), O_RDONLY | O_CLOEXEC);
	struct bytes b = {0};
	uint8_t buf[65536];
	ssize_t n = 0;

	ck_assert_int_ge(fd, 0);
	while ((n = read(fd, buf, sizeof(buf))) > 0)
		bytes_add(&b, buf, (size_t)n);
	(void)close(fd);
	return b;
}

/* Two trees beneath base are the same: types, modes, owners, times, targets, sizes, contents. */
static void check_same(const char *a, const char *b, const char *keeps)
{
	char line[1024];

	(void)snprintf(line, sizeof(line),
		"list() { (cd \"$1\" && find . -mindepth 1 ! -type s -printf "
		"'%%p %%y %%m %s %%l\\0' | LC_ALL=C sort -z; find . -mindepth 1 -type f -print0 | "
		"LC_ALL=C sort -z | xargs -0r cksum); }; list %s >a.list; list %s >b.list; "
		"[ -s a.list ] && diff -a a.list b.list >&2",
		keeps, a, b);
	sh(line);
}

#define KEEPS_ALL   "%U:%G %T@ %n"
#define KEEPS_SECS  "%U:%G %Ts %n"
#define KEEPS_TIMES "%T@"

/* Something of every kind, with names that are hard to copy. */
static void make_tree(void)
{
	sh("umask 022; mkdir -p from/t/d/e from/t/empty && cd from/t && echo one >f1 && "
	   "ln f1 d/f1-again && ln -s ../nowhere d/link && ln -s / root && mkfifo pipe && "
	   "head -c 700000 /dev/urandom >big && head -c 512 /dev/zero >block && : >nothing && "
	   "printf x >\"$(printf 'new\\nline\\ttab')\" && printf y >\"$(printf '\\377\\376bad')\" "
	   "&& "
	   "printf z >-rf && printf w >'*' && printf v >'a\\b:c' && chmod 4755 f1 && chmod 2750 "
	   "big "
	   "&& chmod 1777 empty && chmod 700 d && chmod 400 block && "
	   "touch -d '1969-12-31 23:59:58.25 UTC' nothing && touch -d '2001-02-03 "
	   "04:05:06.123456789' "
	   "d/e d big && touch -hd '2011-01-01 00:00:00.5' root");
	sh("n() { printf \"%0$1d\" $2; } && cd from/t && echo deep >$(n 255 1) && mkdir -p "
	   "$(n 150 2)/$(n 200 3) && echo in >$(n 150 2)/$(n 200 3)/$(n 100 4) && "
	   "ln -s $(n 130 5) long-link && printf u >\"$(n 120 7; printf '\\374')\"");
	if (is_root())
		sh("cd from/t && mknod null c 1 3 && mknod loop b 7 300000 && chown 1000:1001 f1 "
		   "&& "
		   "chown 2000000000:2100000000 d big && chown -h 7:8 root && chmod 4755 f1 && "
		   "chmod 2750 big && mkdir to && chown 5:5 to");
}

START_TEST(unknown_name)
{
	const struct job j = {.argv = {"cat"}, .flags = WIRE_EXEC_BUILTIN};
	struct run r;

	job_run(&j, &r);
	ck_assert(r.failed);
	ck_assert_uint_eq(r.fail.class_, WIRE_FAIL_NOT_FOUND);
	ck_assert_uint_eq(r.fail.errnum, ENOENT);
	run_free(&r);
	/* The names of built-ins are no programs. */
	const struct job program = {.argv = {"path-stat", "/"}};
	job_run(&program, &r);
	ck_assert(r.failed);
	run_free(&r);
	shell("echo works", 0, "works\n");
}
END_TEST

/* What path-stat says beneath base: TYPE, RESOLVED (in base), TARGET; or an errno. */
struct stat_case {
	const char *path;
	bool follow;
	char type;
	const char *resolved;
	const char *target;
	int errnum;
};

static const struct stat_case stat_cases[] = {
	{"file", false, 'f', "file", "", 0},
	{"file/", false, 0, NULL, NULL, ENOTDIR},
	{"file/x", false, 0, NULL, NULL, ENOTDIR},
	{"dir", false, 'd', "dir", "", 0},
	{"dir/", false, 'd', "dir", "", 0},
	{"dir/.", false, 'd', "dir", "", 0},
	{"dir/sub/..", false, 'd', "dir", "", 0},
	{"./dir//sub/", false, 'd', "dir/sub", "", 0},
	{"to-dir", false, 'l', "to-dir", "dir", 0},
	{"to-dir", true, 'd', "dir", "", 0},
	{"to-dir/", false, 'd', "dir", "", 0},
	{"to-dir/sub", false, 'd', "dir/sub", "", 0},
	{"to-dir/new", false, '-', "dir/new", "", 0},
	{"dir/new/", false, '-', "dir/new", "", 0},
	{"to-file", true, 'f', "file", "", 0},
	{"to-file/", false, 0, NULL, NULL, ENOTDIR},
	{"to-file/x", false, 0, NULL, NULL, ENOTDIR},
	{"nowhere", false, 'l', "nowhere", "dir/gone", 0},
	{"nowhere", true, '-', "dir/gone", "", 0},
	{"chain", true, '-', "dir/gone", "", 0},
	{"no-parent", true, 0, NULL, NULL, ENOENT},
	{"loop", false, 'l', "loop", "loop", 0},
	{"loop", true, 0, NULL, NULL, ELOOP},
	{"gone", false, '-', "gone", "", 0},
	{"gone/x", false, 0, NULL, NULL, ENOENT},
	{"gone/..", false, 0, NULL, NULL, ENOENT},
	{"gone/.", false, 0, NULL, NULL, ENOENT},
	{"pipe", false, 'p', "pipe", "", 0},
	{"a\nb\xff", false, 'f', "a\nb\xff", "", 0},
};

static void check_stat(const struct stat_case *t, struct run *r)
{
	char want[64];

	check_success(r);
	ck_assert_uint_gt(r->out[0].len, 0);
	const char *const numbers = (const char *)r->out[0].data;
	ck_assert_int_eq(numbers[r->out[0].len - 1], 0);
	const char *const resolved = numbers + strlen(numbers) + 1;
	const char *const target = resolved + strlen(resolved) + 1;
	ck_assert_uint_eq(r->out[0].len, (size_t)(target - numbers) + strlen(target) + 1);
	ck_assert_msg(numbers[0] == t->type, "'%s': %s", t->path, numbers);
	ck_assert_str_eq(resolved, in_base(t->resolved));
	ck_assert_str_eq(target, t->target);
	if (strcmp(t->path, "file") == 0) {
		(void)snprintf(
			want, sizeof(want), "f 4640 %u %u 5 -2 250000000", geteuid(), getegid());
		ck_assert_str_eq(numbers, want);
	}
	if (t->type == '-')
		ck_assert_str_eq(numbers, "- 0 0 0 0 0 0");
	run_free(r);
}

START_TEST(path_stat)
{
	struct run r;

	sh("printf 12345 >file && chmod 4640 file && touch -d '1969-12-31 23:59:58.25 UTC' file && "
	   "mkdir -p dir/sub && ln -s dir to-dir && ln -s file to-file && ln -s dir/gone nowhere "
	   "&& "
	   "ln -s \"$PWD/nowhere\" chain && ln -s gone/gone no-parent && ln -s loop loop && "
	   "mkfifo pipe && : >\"$(printf 'a\\nb\\377')\"");
	for (size_t i = 0; i < sizeof(stat_cases) / sizeof(stat_cases[0]); i++) {
		const struct stat_case *const t = &stat_cases[i];
		const char *const path = in_base(t->path);
		builtin_run(t->follow ? (const char *[6]){"path-stat", "-L", path}
				      : (const char *[6]){"path-stat", path},
			NULL, &r);
		if (t->errnum)
			check_failure(&r, t->errnum, "stat", path);
		else
			check_stat(t, &r);
	}
	builtin_run((const char *[6]){"path-stat", "//"}, NULL, &r);
	check_success(&r);
	ck_assert_mem_eq(r.out[0].data + r.out[0].len - 4, "\0/\0\0", 4);
	run_free(&r);
	builtin_run((const char *[6]){"path-stat", ""}, NULL, &r);
	check_failure(&r, ENOENT, "stat", "");
	builtin_run((const char *[6]){"path-stat"}, NULL, &r);
	check_failure(&r, EINVAL, "request", "");
	builtin_run((const char *[6]){"path-stat", "/no\n\\\xc3\xa4/x"}, NULL, &r);
	check_failure(&r, ENOENT, "stat", "/no\\x0a\\x5c\\xc3\\xa4/x");
}
END_TEST

START_TEST(path_stat_too_long)
{
	static char path[8000];
	struct run r;

	memset(path, '/', sizeof(path) - 1);
	builtin_run((const char *[6]){"path-stat", path}, NULL, &r);
	check_failure(&r, ENAMETOOLONG, "stat", NULL);
}
END_TEST

START_TEST(out_and_in)
{
	make_tree();
	struct bytes tar = tar_out(in_base("from"), "t", "as");

	sh("mkdir to");
	tar_in(is_root() ? "-a" : NULL, in_base("to"), &tar);
	check_same("from/t", "to/as", KEEPS_ALL);
	free(tar.data);

	/* The contents alone, through a link to the directory, on top of what is there. */
	sh("ln -s t from/link; ln -s to/as into");
	struct run r;
	builtin_run((const char *[6]){"tar-out", "-L", in_base("from"), "link", "."}, NULL, &r);
	check_success(&r);
	tar_in(is_root() ? "-a" : NULL, in_base("into"), &r.out[0]);
	check_same("from/t", "to/as", KEEPS_ALL);
	run_free(&r);
}
END_TEST

START_TEST(out_of_one_file)
{
	sh("mkdir from to; echo hi >from/f; ln -s f from/l");
	struct bytes tar = tar_out(in_base("from"), "f", "g");
	tar_in(NULL, in_base("to"), &tar);
	free(tar.data);
	tar = tar_out(in_base("from"), "l", "l");
	tar_in(NULL, in_base("to"), &tar);
	free(tar.data);
	sh("[ \"$(cat to/g)\" = hi ] && [ \"$(readlink to/l)\" = f ]");
	struct run r;
	builtin_run((const char *[6]){"tar-out", "-L", in_base("from"), "l", "h"}, NULL, &r);
	check_success(&r);
	tar_in(NULL, in_base("to"), &r.out[0]);
	run_free(&r);
	sh("[ -f to/h ] && [ ! -L to/h ] && [ \"$(cat to/h)\" = hi ]");

	builtin_run((const char *[6]){"tar-out", in_base("from"), "f", "."}, NULL, &r);
	check_failure(&r, ENOTDIR, "read", "f");
	builtin_run((const char *[6]){"tar-out", in_base("from"), "none", "x"}, NULL, &r);
	check_failure(&r, ENOENT, "read", "x");
	builtin_run((const char *[6]){"tar-out", in_base("none"), "f", "x"}, NULL, &r);
	check_failure(&r, ENOENT, "read", in_base("none"));
	builtin_run((const char *[6]){"tar-out", in_base("from"), "..", "x"}, NULL, &r);
	check_failure(&r, EINVAL, "request", "");
}
END_TEST

START_TEST(gnu_tar_reads)
{
	make_tree();
	struct bytes tar = tar_out(in_base("from"), "t", "as");

	save("t.tar", &tar);
	free(tar.data);
	sh("mkdir to && tar --numeric-owner -xpf t.tar -C to");
	check_same("from/t", "to/as", KEEPS_ALL);
	/* Where all names are UTF-8 it has nothing to remark. */
	sh("rm from/t/0*\"$(printf '\\374')\" from/t/nothing");
	tar = tar_out(in_base("from"), "t", ".");
	save("t.tar", &tar);
	free(tar.data);
	sh("mkdir to2 && tar --numeric-owner -xpf t.tar -C to2 2>said && [ ! -s said ]");
	check_same("from/t", "to2", KEEPS_ALL);
}
END_TEST

/* Each format with what it can keep; v7 and ustar know neither long names nor our devices. */
static const struct {
	const char *format;
	const char *keeps;
	bool small;
} formats[] = {
	{"posix", KEEPS_ALL, false},
	{"gnu", KEEPS_SECS, false},
	{"oldgnu", KEEPS_SECS, false},
	{"ustar", KEEPS_SECS, true},
	{"v7", KEEPS_SECS, true},
};

START_TEST(gnu_tar_writes)
{
	char line[256];

	make_tree();
	if (formats[_i].small)
		sh("cd from/t && rm -rf 0* long-link null loop nothing pipe && "
		   "if [ $(id -u) = 0 ]; then chown 3:4 d big; chmod 2750 big; fi");
	(void)snprintf(line, sizeof(line),
		"mkdir to && tar --format=%s --numeric-owner -cf t.tar -C from t",
		formats[_i].format);
	sh(line);
	struct bytes tar = load("t.tar");
	tar_in(is_root() ? "-a" : NULL, in_base("to"), &tar);
	check_same("from/t", "to/t", formats[_i].keeps);
	free(tar.data);
}
END_TEST

/* What libarchive makes of an archive in the C locale. */
static void libarchive_reads(const struct bytes *tar, bool bad_names_only)
{
	struct archive *a = archive_read_new();
	struct archive_entry *e = NULL;
	int n = 0;
	int rc = 0;

	ck_assert_int_eq(archive_read_support_format_tar(a), ARCHIVE_OK);
	ck_assert_int_eq(archive_read_open_memory(a, tar->data, tar->len), ARCHIVE_OK);
	while ((rc = archive_read_next_header(a, &e)) == ARCHIVE_OK || rc == ARCHIVE_WARN) {
		char path[PATH_MAX];
		struct stat st;
		(void)snprintf(
			path, sizeof(path), "%s/%s", in_base("from"), archive_entry_pathname(e));
		ck_assert_msg(lstat(path, &st) == 0, "'%s' is not there", path);
		if (!archive_entry_hardlink(e))
			ck_assert_uint_eq(archive_entry_mode(e), st.st_mode);
		ck_assert_int_eq(archive_entry_uid(e), st.st_uid);
		ck_assert_int_eq(archive_entry_mtime(e), st.st_mtim.tv_sec);
		ck_assert_int_eq(archive_entry_mtime_nsec(e), st.st_mtim.tv_nsec);
		if (S_ISREG(st.st_mode) && !archive_entry_hardlink(e))
			ck_assert_int_eq(archive_entry_size(e), st.st_size);
		if (bad_names_only)
			ck_assert_int_eq(rc, ARCHIVE_OK);
		n++;
	}
	ck_assert_int_eq(rc, ARCHIVE_EOF);
	ck_assert_int_gt(n, 8);
	(void)archive_read_free(a);
}

START_TEST(libarchive_both_ways)
{
	make_tree();
	/* It takes the fraction of a time before 1970 for one that leads away from it. */
	sh("touch -d '1969-12-31 23:59:58 UTC' from/t/nothing");
	struct bytes tar = tar_out(in_base("from"), "t", "t");
	libarchive_reads(&tar, true);
	free(tar.data);
	/* Long names in UTF-8: the same bytes, with a warning. */
	sh("cd from/t && for i in 1 2 3 4 5 6; do n=\"$n$(printf '\\303\\244%030d' 7)\"; done; : "
	   ">\"$n\"");
	tar = tar_out(in_base("from"), "t", "t");
	libarchive_reads(&tar, false);
	free(tar.data);
}
END_TEST

static int (*const writers[])(struct archive *) = {archive_write_set_format_pax,
	archive_write_set_format_pax_restricted, archive_write_set_format_ustar,
	archive_write_set_format_gnutar, archive_write_set_format_v7tar};

START_TEST(libarchive_writes)
{
	struct archive *a = archive_write_new();
	struct archive_entry *e = archive_entry_new();
	static uint8_t buf[65536];
	size_t len = 0;

	ck_assert_int_eq(writers[_i](a), ARCHIVE_OK);
	ck_assert_int_eq(archive_write_open_memory(a, buf, sizeof(buf), &len), ARCHIVE_OK);
	archive_entry_set_pathname(e, "d/\xc3\xa4\xff");
	archive_entry_set_filetype(e, AE_IFREG);
	archive_entry_set_perm(e, 0640);
	archive_entry_set_size(e, 3);
	archive_entry_set_mtime(e, 1000000000, 0);
	ck_assert_int_ge(archive_write_header(a, e), ARCHIVE_WARN);
	ck_assert_int_eq(archive_write_data(a, "abc", 3), 3);
	archive_entry_clear(e);
	archive_entry_set_pathname(e, "h");
	archive_entry_set_filetype(e, AE_IFREG);
	archive_entry_set_hardlink(e, "d/\xc3\xa4\xff");
	ck_assert_int_ge(archive_write_header(a, e), ARCHIVE_WARN);
	archive_entry_free(e);
	ck_assert_int_eq(archive_write_close(a), ARCHIVE_OK);
	(void)archive_write_free(a);

	sh("mkdir to");
	tar_in(NULL, in_base("to"), &(struct bytes){buf, len});
	sh("[ \"$(cat to/h)\" = abc ] && [ \"$(stat -c '%h %a %Y' to/d/*)\" = '2 640 1000000000' ] "
	   "&& "
	   "[ to/h -ef \"$(printf 'to/d/\\303\\244\\377')\" ]");
}
END_TEST

/* @n directories of this name within each other, in base/from; returns the last one. */
static int make_deep(const char *name, int n)
{
	int fd = -1;

	ck_assert_int_eq(mkdir(in_base("from"), 0755), 0);
	fd = open(in_base("from"), O_PATH | O_CLOEXEC);
	for (int i = 0; i < n; i++) {
		ck_assert_int_eq(mkdirat(fd, name, 0755), 0);
		const int next = openat(fd, name, O_PATH | O_CLOEXEC);
		ck_assert_int_ge(next, 0);
		(void)close(fd);
		fd = next;
	}
	return fd;
}

/* Deeper than any path the kernel takes, with the longest names. */
START_TEST(deep_tree)
{
	char name[NAME_MAX + 1] = {0};

	memset(name, 'n', NAME_MAX);
	const int fd = make_deep(name, 40);
	ck_assert_int_eq(mkdirat(fd, "bottom", 0711), 0);
	(void)close(fd);
	sh("mkdir to");
	struct bytes tar = tar_out(base, "from", "as");
	tar_in(NULL, in_base("to"), &tar);
	free(tar.data);
	sh("(cd from && find . -printf '%P %m %T@ %s\\n') >a; (cd to/as && find . -printf '%P %m "
	   "%T@ "
	   "%s\\n') >b; grep -q '/bottom 711 ' a && diff a b >&2");
}
END_TEST

START_TEST(too_deep)
{
	struct run r;

	(void)close(make_deep("d", 1001));
	builtin_run((const char *[6]){"tar-out", base, "from", "."}, NULL, &r);
	check_failure(&r, ENAMETOOLONG, "read", NULL);
}
END_TEST

/* Without credit the archive stands still in its first file; meanwhile the tree changes. */
static void change_while_read(const char *line)
{
	const struct job j = {.argv = {"tar-out", in_base("from"), "t", "t"},
		.flags = WIRE_EXEC_BUILTIN,
		.credit = 100000,
		.stingy = true};
	const struct job generous = {.argv = {"tar-out"}};
	struct run r;

	sh("mkdir -p from/t to && head -c 2000000 /dev/zero | tr '\\0' a >from/t/one && cp "
	   "from/t/one "
	   "from/t/two");
	job_start(&j, &r);
	while (r.out[0].len < 100000)
		ck_assert(!job_wait(&j, &r, 50));
	const char *const seen = memmem(r.out[0].data, 3000, "t/one", 5) ? "one" : "two";
	char full[512];
	(void)snprintf(full, sizeof(full), "f=%s; cd '%s/from/t' && %s", seen, base, line);
	/* Not by the agent's client, which is busy with the archive. */
	ck_assert_int_eq(symlink(seen, in_base("seen")), 0);
	const pid_t pid = fork();
	if (pid == 0) {
		(void)execl("/bin/sh", "sh", "-c", full, (char *)NULL);
		_exit(127);
	}
	int status = 0;
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	grant(&r, WIRE_STDOUT, WINDOW);
	ck_assert(job_wait(&generous, &r, WAIT_MS));
	check_success(&r);
	tar_in(NULL, in_base("to"), &r.out[0]);
	run_free(&r);
}

START_TEST(file_shrinks)
{
	change_while_read("truncate -s 1000000 $f");
	sh("f=to/t/$(readlink seen); [ $(stat -c %s $f) = 2000000 ] && [ $(tr -d a <$f | wc -c) = "
	   "1000000 ] && [ $(ls to/t | wc -l) = 2 ]");
}
END_TEST

START_TEST(file_grows)
{
	change_while_read("head -c 999999 /dev/zero >>$f");
	sh("f=to/t/$(readlink seen); [ $(stat -c %s $f) = 2000000 ] && [ $(tr -d a <$f | wc -c) = "
	   "0 ] "
	   "&& [ $(ls to/t | wc -l) = 2 ]");
}
END_TEST

START_TEST(file_vanishes)
{
	change_while_read("mv $f keep && rm -f one two");
	sh("f=$(readlink seen); [ \"$(ls to/t | grep -v keep)\" = $f ] && "
	   "[ $(stat -c %s to/t/$f) = 2000000 ]");
}
END_TEST

START_TEST(default_owner)
{
	if (!is_root())
		return;
	make_tree();
	struct bytes tar = tar_out(in_base("from"), "t", ".");
	sh("mkdir to && chmod 2755 to && chown 9:9 to");
	tar_in(NULL, in_base("to"), &tar);
	check_same("from/t", "to", KEEPS_TIMES);
	sh("[ -z \"$(find to -mindepth 1 ! -uid 0 -o -mindepth 1 ! -gid 0)\" ] && "
	   "[ $(stat -c %a:%u:%g to) = 2755:9:9 ]");
	free(tar.data);
}
END_TEST

/* A directory is closed to its own contents only behind them, and its time is its own. */
START_TEST(directories_last)
{
	sh("mkdir -p from/d/e to && echo x >from/d/e/f && chmod 500 from/d/e && chmod 511 from/d "
	   "&& "
	   "touch -d '2001-02-03 04:05:06.5' from/d/e from/d");
	struct bytes tar = tar_out(in_base("from"), "d", "d");
	tar_in(NULL, in_base("to"), &tar);
	check_same("from", "to", KEEPS_TIMES);
	free(tar.data);
}
END_TEST

/* The user of the exec does the work. */
START_TEST(as_user)
{
	if (!is_root())
		return;
	sh("mkdir from to && echo x >from/f && chmod 600 from/f && chmod 755 . && chmod 777 to");
	struct job j = {.argv = {"tar-out", base, "from", "."},
		.flags = WIRE_EXEC_BUILTIN,
		.user = "4242:4343"};
	struct run r;
	job_run(&j, &r);
	check_failure(&r, EACCES, "read", "f");
	sh("chmod 644 from/f");
	struct bytes tar = tar_out(base, "from", ".");
	j.argv[0] = "tar-in";
	j.argv[1] = in_base("to");
	j.argv[2] = j.argv[3] = NULL;
	j.in = tar.data;
	j.in_len = tar.len;
	job_run(&j, &r);
	check_success(&r);
	run_free(&r);
	free(tar.data);
	sh("[ $(stat -c %u:%g to/f) = 4242:4343 ]");
}
END_TEST

/* K07: time-outs are those of execs. */
START_TEST(timed_out)
{
	static struct run r;
	const struct job j = {.argv = {"tar-in", base},
		.flags = WIRE_EXEC_BUILTIN | WIRE_EXEC_STDIN,
		.timeout_ms = 200};

	job_start(&j, &r);
	ck_assert(job_wait(&j, &r, WAIT_MS));
	check_exit(&r, WIRE_SIGNALED, SIGKILL, WIRE_EXIT_TIMED_OUT);
	check_out(&r.out[0], "");
	check_out(&r.out[1], "");
	run_free(&r);
}
END_TEST

int main(void)
{
	TCase *t = tcase_create("built-ins");

	tcase_set_timeout(t, 60);
	tcase_add_checked_fixture(t, base_setup, base_teardown);
	tcase_add_test(t, unknown_name);
	tcase_add_test(t, path_stat);
	tcase_add_test(t, path_stat_too_long);
	tcase_add_test(t, out_and_in);
	tcase_add_test(t, out_of_one_file);
	tcase_add_test(t, gnu_tar_reads);
	tcase_add_loop_test(t, gnu_tar_writes, 0, (int)(sizeof(formats) / sizeof(formats[0])));
	tcase_add_test(t, libarchive_both_ways);
	tcase_add_loop_test(t, libarchive_writes, 0, (int)(sizeof(writers) / sizeof(writers[0])));
	tcase_add_test(t, deep_tree);
	tcase_add_test(t, too_deep);
	tcase_add_test(t, file_shrinks);
	tcase_add_test(t, file_grows);
	tcase_add_test(t, file_vanishes);
	tcase_add_test(t, default_owner);
	tcase_add_test(t, directories_last);
	tcase_add_test(t, as_user);
	tcase_add_test(t, timed_out);
	return run_cases("builtin", t);
}
