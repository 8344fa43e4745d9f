/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copying from holt.h down to the agent's built-ins, with the agent as a plain process
 * (keeper_fake.c): its root is the host's, so both sides can be looked at. On real machines:
 * tests/vm/copy.bats.
 */
#include <check.h>
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "holt.h"

#include "base/clock.h"
#include "base/fsutil.h"

static char dir[64];
static holt_home *home;
static holt_box *box;

/* A script in the directory of the test; `exit 1` in it fails the test. */
static void shell(const char *script)
{
	const pid_t pid = fork();
	int status = -1;

	if (pid == 0) {
		if (chdir(dir) == 0)
			execl("/bin/sh", "sh", "-ec", script, (char *)NULL);
		_exit(127);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_msg(status == 0, "%d from: %s", status, script);
}

/* A path beneath the test's directory: four may be in use at a time. */
static const char *at(const char *name)
{
	static char paths[4][256];
	static unsigned next;
	char *path = paths[next++ % 4];

	snprintf(path, sizeof paths[0], "%s/%s", dir, name);
	return path;
}

static void setup(void)
{
	holt_home_options o = HOLT_HOME_OPTIONS_INIT;
	holt_image_import_options io = HOLT_IMAGE_IMPORT_OPTIONS_INIT;
	holt_error *e = NULL;

	strcpy(dir, "/tmp/holt-copy-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	shell("mkdir r host box && echo x >r/x && tar -C r -cf r.tar .");
	o.path = at("home");
	ck_assert_int_eq(holt_home_open(&o, &home, &e), 0);
	io.name = "t";
	ck_assert_int_eq(holt_image_import(home, at("r.tar"), &io, NULL, &e), 0);
	ck_assert_int_eq(holt_box_create(home, "t", NULL, &box, &e), 0);
	const int r = holt_box_start(box, NULL, NULL, &e);
	ck_assert_msg(r == 0, "%s", holt_error_message(e));
}

static void teardown(void)
{
	holt_box_close(box);
	holt_home_close(home);
	ck_assert_int_eq(fs_remove_tree(AT_FDCWD, dir), 0);
}

/* The result of a copy: 0, or an error that has all that a user needs. */
static int checked(int r, holt_error *e)
{
	ck_assert_int_eq(r, -holt_error_code(e));
	if (r < 0) {
		ck_assert_str_ne(holt_error_message(e), "");
		ck_assert_msg(*holt_error_stage(e), "no stage: %s", holt_error_message(e));
		ck_assert_msg(*holt_error_hint(e), "no hint: %s", holt_error_message(e));
	}
	holt_error_free(e);
	return r;
}

static int copy_in(const char *source, const char *target, uint32_t flags)
{
	holt_error *e = NULL;
	const int r = holt_copy_in(box, source, target, flags, NULL, &e);

	return checked(r, e);
}

static int copy_out(const char *source, const char *target, uint32_t flags)
{
	holt_error *e = NULL;
	const int r = holt_copy_out(box, source, target, flags, NULL, &e);

	return checked(r, e);
}

static int copy_in_tar(int fd, const char *target, holt_cancel *cancel)
{
	holt_error *e = NULL;
	const int r = holt_copy_in_tar(box, fd, target, 0, cancel, &e);

	return checked(r, e);
}

static int copy_out_tar(const char *source, int fd, holt_cancel *cancel)
{
	holt_error *e = NULL;
	const int r = holt_copy_out_tar(box, source, fd, 0, cancel, &e);

	return checked(r, e);
}

static const char make_tree[] =
	"mkdir -p host/t/d/e && echo f >host/t/f && ln host/t/f host/t/h && ln -s /etc host/t/l &&"
	"printf x >'host/t/d/new\nline' && touch -d 2001-02-03 host/t/d/e && chmod 750 host/t/d &&"
	"mkfifo host/t/p && head -c 3000000 /dev/urandom >host/t/big && i=0 && "
	"while [ $i -lt 300 ]; do echo $i >host/t/d/$i; i=$((i+1)); done";

START_TEST(a_tree_in_and_out)
{
	shell(make_tree);
	ck_assert_int_eq(copy_in(at("host/t"), at("box/t"), 0), 0);
	ck_assert_int_eq(copy_out(at("box/t"), at("host/back"), 0), 0);
	shell("diff -r --no-dereference -x p host/t box/t && diff -r --no-dereference -x p host/t "
	      "host/back &&"
	      "for i in box/t host/back; do test $i/f -ef $i/h && test -p $i/p &&"
	      "test $(stat -c %a $i/d) = 750 && test $(readlink $i/l) = /etc &&"
	      "test $(stat -c %Y $i/d/e) = $(stat -c %Y host/t/d/e); done");
}
END_TEST

START_TEST(the_forms_of_a_path)
{
	shell("mkdir host/d box/d && echo f >host/f && echo g >host/d/g && ln -s d host/l &&"
	      "ln -s gone box/dangling");
	ck_assert_int_eq(copy_in(at("host/f"), at("box/new"), 0), 0);
	ck_assert_int_eq(copy_in(at("host/f"), at("box/d"), 0), 0);
	ck_assert_int_eq(copy_in(at("host/f"), at("box/dangling"), 0), 0);
	ck_assert_int_eq(copy_in(at("host/d/."), at("box/d"), 0), 0);
	ck_assert_int_eq(copy_in(at("host/d"), at("box/d/"), 0), 0);
	ck_assert_int_eq(copy_in(at("host/l"), at("box/link"), 0), 0);
	ck_assert_int_eq(copy_in(at("host/l"), at("box/followed"), HOLT_COPY_FOLLOW), 0);
	shell("cd box && cmp new ../host/f && cmp d/f ../host/f && cmp gone ../host/f &&"
	      "test -L dangling && cmp d/g ../host/d/g && cmp d/d/g ../host/d/g &&"
	      "test $(readlink link) = d && cmp followed/g ../host/d/g && ! test -L followed");
	ck_assert_int_eq(copy_out(at("box/link/."), at("host/out"), 0), 0);
	ck_assert_int_eq(copy_out(at("box/link"), at("host/named"), HOLT_COPY_FOLLOW), 0);
	shell("diff -r box/d host/out && diff -r box/d host/named");
}
END_TEST

START_TEST(what_is_refused)
{
	shell("echo f >host/f && mkdir host/d && echo f >box/f && mkdir -p box/d/f && mkfifo "
	      "box/p");
	ck_assert_int_eq(copy_in(at("host/none"), at("box/x"), 0), -HOLT_ENOT_FOUND);
	ck_assert_int_eq(copy_in(at("host/f"), at("box/none/x"), 0), -HOLT_ENOT_FOUND);
	ck_assert_int_eq(copy_in(at("host/f"), at("box/none/"), 0), -HOLT_ENOT_FOUND);
	ck_assert_int_eq(copy_in(at("host/f"), at("box/f/"), 0), -HOLT_EINVALID);
	ck_assert_int_eq(copy_in(at("host/d"), at("box/f"), 0), -HOLT_EINVALID);
	/* Found by the box's own half, in the midst. */
	ck_assert_int_eq(copy_in(at("host/f"), at("box/d"), 0), -HOLT_EINVALID);
	ck_assert_int_eq(copy_in(at("host/f"), "/dev/null", 0), -HOLT_EINVALID);
	ck_assert_int_eq(copy_in("", at("box/x"), 0), -HOLT_EINVALID);
	ck_assert_int_eq(copy_in(at("host/f"), "relative", 0), -HOLT_EINVALID);
	ck_assert_int_eq(copy_in(at("host/f"), "", 0), -HOLT_EINVALID);
	ck_assert_int_eq(copy_in(at("host/f"), at("box/x"), 4), -HOLT_EINVALID);
	ck_assert_int_eq(copy_out(at("box/none"), at("host/x"), 0), -HOLT_ENOT_FOUND);
	ck_assert_int_eq(copy_out(at("box/f"), at("host/none/x"), 0), -HOLT_ENOT_FOUND);
	ck_assert_int_eq(copy_out(at("box/d"), at("host/f"), 0), -HOLT_EINVALID);
	ck_assert_int_eq(copy_out("/dev/null", at("host/x"), 0), -HOLT_EINVALID);
	ck_assert_int_eq(copy_in_tar(-1, at("box"), NULL), -HOLT_EINVALID);
	ck_assert_int_eq(holt_copy_in(NULL, "x", "/x", 0, NULL, NULL), -HOLT_EINVALID);
	ck_assert_int_eq(holt_copy_out(box, NULL, "/x", 0, NULL, NULL), -HOLT_EINVALID);
	ck_assert_int_eq(holt_copy_in_tar(box, 0, NULL, 0, NULL, NULL), -HOLT_EINVALID);
	ck_assert_int_eq(holt_copy_out_tar(NULL, "/x", 0, 0, NULL, NULL), -HOLT_EINVALID);
	shell("test ! -e host/x && test ! -e box/x && test -d box/d/f");
}
END_TEST

START_TEST(archives)
{
	shell(make_tree);
	shell("tar -C host -cf in.tar t && mkdir box/sub && head -c 20000 in.tar >cut.tar");
	int fd = open(at("in.tar"), O_RDONLY | O_CLOEXEC);
	ck_assert_int_eq(copy_in_tar(fd, at("box/sub"), NULL), 0);
	close(fd);
	fd = open(at("out.tar"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	ck_assert_int_eq(copy_out_tar(at("box/sub/t"), fd, NULL), 0);
	close(fd);
	shell("mkdir x && tar -C x -xf out.tar && diff -r --no-dereference -x p host/t x/t");
	fd = open(at("inside.tar"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	ck_assert_int_eq(copy_out_tar(at("box/sub/t/."), fd, NULL), 0);
	close(fd);
	shell("rm -rf x && mkdir x && tar -C x -xf inside.tar && diff -r --no-dereference -x p "
	      "host/t x");

	fd = open(at("host/t/big"), O_RDONLY | O_CLOEXEC);
	ck_assert_int_eq(copy_in_tar(fd, at("box"), NULL), -HOLT_EINVALID);
	close(fd);
	fd = open(at("cut.tar"), O_RDONLY | O_CLOEXEC);
	ck_assert_int_eq(copy_in_tar(fd, at("box"), NULL), -HOLT_EINVALID);
	close(fd);
	fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	ck_assert_int_eq(copy_in_tar(fd, at("box/none"), NULL), -HOLT_ENOT_FOUND);
	ck_assert_int_eq(copy_in_tar(fd, at("box/sub/t/f"), NULL), -HOLT_EINVALID);
	close(fd);
	fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
	ck_assert_int_eq(copy_out_tar(at("box/sub/t"), fd, NULL), -HOLT_ELIMIT);
	ck_assert_int_eq(copy_out_tar(at("box/none"), fd, NULL), -HOLT_ENOT_FOUND);
	close(fd);
}
END_TEST

static void *trigger(void *cancel)
{
	usleep(100000);
	holt_cancel_trigger(cancel);
	return NULL;
}

START_TEST(cancelled)
{
	static const char *const names[] = {"tar-in", "in", "out", "tar-out"};
	int fds[2];

	shell("truncate -s 1T host/endless && truncate -s 1T box/endless");
	ck_assert_int_eq(pipe2(fds, O_CLOEXEC), 0);
	for (int i = 0; i < 4; i++) {
		holt_cancel *cancel = NULL;
		holt_error *e = NULL;
		pthread_t thread;
		int r;
		ck_assert_int_eq(holt_cancel_new(&cancel, NULL), 0);
		ck_assert_int_eq(pthread_create(&thread, NULL, trigger, cancel), 0);
		const uint64_t start = clock_mono_ms();
		if (i == 0)
			r = holt_copy_in_tar(box, fds[0], at("box"), 0, cancel, &e);
		else if (i == 1)
			r = holt_copy_in(box, at("host/endless"), at("box/in"), 0, cancel, &e);
		else if (i == 2)
			r = holt_copy_out(box, at("box/endless"), at("host/out"), 0, cancel, &e);
		else
			r = holt_copy_out_tar(box, at("box/endless"), fds[1], 0, cancel, &e);
		ck_assert_msg(
			r == -HOLT_ECANCELLED, "%s: %d %s", names[i], r, holt_error_message(e));
		ck_assert_uint_lt(clock_mono_ms() - start, 2000);
		(void)checked(r, e);
		ck_assert_int_eq(pthread_join(thread, NULL), 0);
		holt_cancel_free(cancel);
	}
	close(fds[0]);
	close(fds[1]);
	/* Half a file is no file, and the box takes the next one. */
	shell("test ! -e host/out && echo f >host/f");
	ck_assert_int_eq(copy_in(at("host/f"), at("box/f"), 0), 0);
	shell("cmp host/f box/f");
}
END_TEST

static size_t open_files(void)
{
	size_t n = 0;
	DIR *d = opendir("/proc/self/fd");

	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

START_TEST(nothing_stays_open)
{
	shell("mkdir host/d && echo f >host/d/f");
	ck_assert_int_eq(copy_in(at("host/d"), at("box/d"), 0), 0);
	const size_t before = open_files();
	for (int i = 0; i < 10; i++) {
		ck_assert_int_eq(copy_in(at("host/d"), at("box/d"), 0), 0);
		ck_assert_int_eq(copy_out(at("box/d"), at("host/e"), 0), 0);
		ck_assert_int_lt(copy_in(at("host/none"), at("box/d"), 0), 0);
		ck_assert_int_lt(copy_in(at("host/d"), at("box/d/d/f"), 0), 0);
		ck_assert_int_lt(copy_out(at("box/d"), at("host/d/f"), 0), 0);
	}
	ck_assert_uint_eq(open_files(), before);
}
END_TEST

int main(void)
{
	setenv("HOLT_KEEPER", TEST_KEEPER, 1);
	setenv("HOLT_AGENT", TEST_AGENT, 1);
	Suite *s = suite_create("box_copy");
	TCase *tc = tcase_create("box_copy");

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, a_tree_in_and_out);
	tcase_add_test(tc, the_forms_of_a_path);
	tcase_add_test(tc, what_is_refused);
	tcase_add_test(tc, archives);
	tcase_add_test(tc, cancelled);
	tcase_add_test(tc, nothing_stays_open);
	suite_add_tcase(s, tc);
	SRunner *sr = srunner_create(s);
	srunner_run_all(sr, CK_NORMAL);
	const int failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
