/* SPDX-License-Identifier: Apache-2.0 */
#include "builtin_client.h"

/*
 * tar-in against archives that no tar would write, put together here block by block: names that
 * lead out, links in the way, damage of every kind.
 */

#define TAR_BLOCK 512

static void tar_in_fails(const struct bytes *tar, int errnum, const char *stage, const char *object)
{
	const struct input in = {tar->data ? tar->data : (const uint8_t *)"", tar->len};
	struct run r;

	builtin_run((const char *[6]){"tar-in", in_base("to")}, &in, &r);
	check_failure(&r, errnum, stage, object);
}

/* Archives made by hand. */

static const uint8_t zeros[4 * TAR_BLOCK];

static struct bytes t_archive;

static void t_sum(uint8_t *block)
{
	unsigned sum = 0;

	memset(block + 148, ' ', 8);
	for (int i = 0; i < TAR_BLOCK; i++)
		sum += block[i];
	(void)snprintf((char *)block + 148, 8, "%06o", sum);
}

/* A header whose size field says @size, as text. */
static void t_head(const char *name, char type, const char *size, const char *link)
{
	uint8_t block[TAR_BLOCK] = {0};

	memcpy(block, name, strnlen(name, 100));
	memcpy(block + 100, "0000644", 8);
	memcpy(block + 124, size, 12);
	memcpy(block + 136, "00000000001", 12);
	block[156] = (uint8_t)type;
	memcpy(block + 157, link, strnlen(link, 100));
	memcpy(block + 257, "ustar\00000", 8);
	t_sum(block);
	bytes_add(&t_archive, block, sizeof(block));
}

/* An entry with its data. */
static void t_add(const char *name, char type, const char *link, const char *data, size_t len)
{
	char size[24];

	(void)snprintf(size, sizeof(size), "%011zo", len);
	t_head(name, type, size, link);
	bytes_add(&t_archive, data, len);
	bytes_add(&t_archive, zeros, -len % TAR_BLOCK);
}

static void t_end(void)
{
	bytes_add(&t_archive, zeros, (size_t)2 * TAR_BLOCK);
}

static void t_reset(void)
{
	free(t_archive.data);
	t_archive = (struct bytes){0};
}

/* Unpack what was put together, which must fail so, and leave nothing outside. */
static void t_fails(int errnum, const char *stage, const char *object)
{
	sh("rm -rf to out && mkdir to out && echo secret >out/file && ln -s ../out to/link && "
	   "mkdir to/dir && echo old >to/file");
	tar_in_fails(&t_archive, errnum, stage, object);
	shell("echo works", 0, "works\n");
	sh("[ \"$(ls -A out)\" = file ] && [ \"$(cat out/file)\" = secret ] && "
	   "[ $(stat -c %h out/file) = 1 ]");
	t_reset();
}

START_TEST(names_that_lead_out)
{
	static const struct {
		const char *name;
		char type;
		const char *link;
		int errnum;
		const char *stage;
		const char *object;
	} cases[] = {
		{"../x", '0', "", EINVAL, "archive", "../x"},
		{"dir/../../x", '0', "", EINVAL, "archive", "dir/../../x"},
		{"dir/..", '5', "", EINVAL, "archive", "dir/.."},
		{"/../x", '0', "", EINVAL, "archive", "/../x"},
		{"link/x", '0', "", ENOTDIR, "unpack", "link"},
		{"link/x", '5', "", ENOTDIR, "unpack", "link"},
		{"link/file", '2', "x", ENOTDIR, "unpack", "link"},
		{"h", '1', "../out/file", EINVAL, "archive", "../out/file"},
		{"h", '1', "link/file", ENOTDIR, "unpack", "link"},
		{"h", '1', "/etc/passwd", ENOENT, "unpack", "etc/passwd"},
		{"h", '1', "none", ENOENT, "unpack", "none"},
		{"h", '1', "/", EPERM, "unpack", "h"},
		{"h", '1', "", EINVAL, "archive", ""},
		{"", '0', "", EINVAL, "archive", ""},
		{".", '0', "", EISDIR, "unpack", "/"},
		{"dir", '0', "", EISDIR, "unpack", "dir"},
		{"dir", '2', "x", EISDIR, "unpack", "dir"},
		{"dir", '1', "file", EISDIR, "unpack", "dir"},
		{"file", '5', "", EEXIST, "unpack", "file"},
		{"link", '5', "", EEXIST, "unpack", "link"},
		{"file/x", '0', "", ENOTDIR, "unpack", "file"},
		{"x", 'S', "", EOPNOTSUPP, "archive", "x"},
		{"x", 'V', "", EOPNOTSUPP, "archive", "x"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		t_add(cases[i].name, cases[i].type, cases[i].link, "", 0);
		t_end();
		t_fails(cases[i].errnum, cases[i].stage, cases[i].object);
	}
}
END_TEST

/* The archive brings the link itself, then goes through it. */
START_TEST(link_then_through_it)
{
	t_add("l", '2', "../out", "", 0);
	t_add("l/file", '0', "", "bad", 3);
	t_end();
	t_fails(ENOTDIR, "unpack", "l");
	t_add("d/", '5', "", "", 0);
	t_add("d/l", '2', "../../out", "", 0);
	t_add("d/l/sub/", '5', "", "", 0);
	t_end();
	t_fails(ENOTDIR, "unpack", "d/l");
}
END_TEST

/* What is replaced is not written through, also where names were absolute or odd. */
START_TEST(replaces)
{
	sh("mkdir to out && echo secret >out/file && ln -s ../out/file to/link && ln out/file "
	   "to/hard && "
	   "mkdir to/dir && echo stays >to/dir/old && chmod 700 to/dir && mkfifo to/pipe");
	t_add("link", '0', "", "new1", 4);
	t_add("./hard", '0', "", "new2", 4);
	t_add("///dir/./", '5', "", "", 0);
	t_add("/dir//new", '0', "", "new3", 4);
	t_add("pipe", '2', "somewhere", "", 0);
	t_add("hard-2", '1', "./hard", "", 0);
	t_add("hard-2", '1', "hard", "", 0);
	t_add("./", '5', "", "", 0);
	t_add("made/on/the/way", '7', "", "new4", 4);
	t_add("old-dir/", 0, "", "", 0);
	t_end();
	tar_in(NULL, in_base("to"), &t_archive);
	t_reset();
	/* As it is now, only root may look into it. */
	sh("[ $(stat -c %a.%Y to/dir) = 644.1 ] && chmod 755 to/dir && "
	   "[ $(cat to/dir/old) = stays ] && [ $(cat to/dir/new) = new3 ]");
	sh("[ $(cat out/file) = secret ] && [ ! -L to/link ] && [ $(cat to/link) = new1 ] && "
	   "[ $(cat to/hard) = new2 ] && [ to/hard -ef to/hard-2 ] && "
	   "[ $(readlink to/pipe) = somewhere ] && [ $(cat to/made/on/the/way) = new4 ] && "
	   "[ $(stat -c %a to/made/on/the) = 755 ] && [ -d to/old-dir ] && "
	   "[ $(stat -c %a to) != 644 ]");
}
END_TEST

START_TEST(not_an_archive)
{
	static const char page[3000] = "<!DOCTYPE html>";
	static const char gzip[600] = "\x1f\x8b\x08";

	t_fails(EINVAL, "archive", "");
	bytes_add(&t_archive, "x", 1);
	t_fails(EINVAL, "archive", "");
	bytes_add(&t_archive, page, sizeof(page));
	t_fails(EINVAL, "archive", "");
	bytes_add(&t_archive, gzip, sizeof(gzip));
	t_fails(EINVAL, "archive", "");
	/* But an archive of nothing is one. */
	sh("mkdir -p to");
	t_end();
	tar_in(NULL, in_base("to"), &t_archive);
	t_reset();
}
END_TEST

/* Every length that is too short fails; what came before is there. */
START_TEST(truncated)
{
	struct bytes whole = {0};

	t_add("a", '0', "", "first", 5);
	t_add("b", '0', "", "second", 6);
	t_end();
	whole = t_archive;
	t_archive = (struct bytes){0};
	sh("mkdir to");
	for (size_t len = 512; len < (size_t)4 * TAR_BLOCK; len += 103) {
		const struct bytes cut = {whole.data, len};
		tar_in_fails(&cut, EINVAL, "archive", NULL);
		if (len > 1024)
			sh("[ \"$(cat to/a)\" = first ]");
	}
	/* Between the entries, too; but one block of zeros is an end. */
	tar_in_fails(&(struct bytes){whole.data, (size_t)4 * TAR_BLOCK}, EINVAL, "archive", "b");
	tar_in(NULL, in_base("to"), &(struct bytes){whole.data, (size_t)5 * TAR_BLOCK});
	free(whole.data);
}
END_TEST

START_TEST(damaged)
{
	t_add("a", '0', "", "first", 5);
	t_add("b", '0', "", "second", 6);
	t_end();
	t_archive.data[2 * TAR_BLOCK + 3] ^= 1;
	t_fails(EINVAL, "archive", "a");
	t_add("a", '0', "", "first", 5);
	bytes_add(&t_archive, zeros, TAR_BLOCK);
	t_add("b", '0', "", "second", 6);
	t_end();
	t_fails(EINVAL, "archive", "a");
	t_head("a", '0', "0000000009x", "");
	t_end();
	t_fails(EINVAL, "archive", "");
	/* More than there is, more than can be, and less than nothing. */
	t_head("a", '0', "77777777777", "");
	t_end();
	t_fails(EINVAL, "archive", "a");
	t_head("a", '0', "\x80\x00\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff", "");
	t_end();
	t_fails(EINVAL, "archive", "");
	t_head("a", '0', "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", "");
	t_end();
	t_fails(EINVAL, "archive", "");
}
END_TEST

START_TEST(bad_pax)
{
	static const char *const bodies[] = {"x", "12 path=abc\n", "11 path=abc\n",
		"5 p=\n12 path=abc", "12path=abcd\n", "012345678901234567890123 path=x\n",
		"99 path=x\n", "3 =", "1 \n", "4 p\n", "-1 path=x\n", "18 size=-12345678\n",
		"29 size=9999999999999999999\n", "13 mtime=1x3\n", "13 mtime=1.2.\n", "9 mtime=.\n",
		"11 uid=12a\n", " 9 path=x\n"};

	for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
		/* One of them is right. */
		if (strcmp(bodies[i], "12 path=abc\n") == 0)
			continue;
		t_add("x", 'x', "", bodies[i], strlen(bodies[i]));
		t_add("a", '0', "", "", 0);
		t_end();
		t_fails(EINVAL, "archive", "");
	}
	t_add("x", 'x', "", "13 path=ab\0c\n", 13);
	t_add("a", '0', "", "", 0);
	t_end();
	t_fails(EINVAL, "archive", "");
	t_add("x", 'x', "", "24 GNU.sparse.major=1\n23", 22);
	t_archive.data[TAR_BLOCK + 1] = '2';
	t_add("a", '0', "", "", 0);
	t_end();
	t_fails(EOPNOTSUPP, "archive", "");
	t_head("x", 'x', "00007000000", "");
	t_fails(EINVAL, "archive", "");
}
END_TEST

START_TEST(good_pax)
{
	static const char body[] = "12 path=abc\n20 mtime=-1.5000009\n13 comment=x\n"
				   "12 path=abd\n";

	sh("mkdir to");
	t_add("g", 'g', "", "18 path=nonsense\n\n", 18);
	t_add("x", 'x', "", "11 path=no\n", 11);
	t_add("x", 'x', "", body, sizeof(body) - 1);
	t_add("a", '0', "", "data", 4);
	t_add("plain", '0', "", "", 0);
	t_add("L", 'L', "", "gnu-name", 9);
	t_add("K", 'K', "", "gnu-target", 11);
	t_add("l", '2', "x", "", 0);
	t_end();
	tar_in(NULL, in_base("to"), &t_archive);
	t_reset();
	sh("[ \"$(echo $(ls to))\" = 'abd gnu-name plain' ] && [ $(cat to/abd) = data ] && "
	   "[ $(stat -c %.9Y to/abd) = -1.500000900 ] && "
	   "[ $(readlink to/gnu-name) = gnu-target ] && [ $(stat -c %Y to/plain) = 1 ]");
}
END_TEST

START_TEST(giant_names)
{
	static char name[300001];

	memset(name, 'n', sizeof(name) - 1);
	t_add("L", 'L', "", name, 100000);
	t_add("a", '0', "", "", 0);
	t_end();
	t_fails(ENAMETOOLONG, "unpack", NULL);
	for (size_t i = 100; i < sizeof(name) - 1; i += 101)
		name[i] = '/';
	t_add("L", 'L', "", name, 300000);
	t_add("a", '0', "", "", 0);
	t_end();
	t_fails(ENAMETOOLONG, "unpack", NULL);
	/* As long, but of components that can be made. */
	sh("mkdir -p to2");
	t_add("L", 'L', "", name, 99999);
	t_add("a", '0', "", "bottom", 6);
	t_end();
	tar_in(NULL, in_base("to2"), &t_archive);
	t_reset();
	sh("[ $(find to2 -mindepth 1 -type d | wc -l) = 990 ] && "
	   "[ \"$(find to2 -type f -printf '%s %d')\" = '6 991' ]");
}
END_TEST

/* All behind the end is read and thrown away. */
START_TEST(rest_is_drained)
{
	static char rest[1000000];
	struct run r;

	sh("mkdir to");
	t_add("a", '0', "", "data", 4);
	t_end();
	memset(rest, 'r', sizeof(rest));
	bytes_add(&t_archive, rest, sizeof(rest));
	const struct input in = {t_archive.data, t_archive.len};
	builtin_run((const char *[6]){"tar-in", in_base("to")}, &in, &r);
	check_success(&r);
	ck_assert_uint_eq(r.in_pos, t_archive.len);
	run_free(&r);
	t_reset();
	builtin_run((const char *[6]){"tar-in", in_base("none")}, NULL, &r);
	check_failure(&r, ENOENT, "unpack", in_base("none"));
}
END_TEST

int main(void)
{
	TCase *t = tcase_create("archives");

	tcase_set_timeout(t, 60);
	tcase_add_checked_fixture(t, base_setup, base_teardown);
	tcase_add_test(t, names_that_lead_out);
	tcase_add_test(t, link_then_through_it);
	tcase_add_test(t, replaces);
	tcase_add_test(t, not_an_archive);
	tcase_add_test(t, truncated);
	tcase_add_test(t, damaged);
	tcase_add_test(t, bad_pax);
	tcase_add_test(t, good_pax);
	tcase_add_test(t, giant_names);
	tcase_add_test(t, rest_is_drained);
	return run_cases("tar-in", t);
}
