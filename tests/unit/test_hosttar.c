/* SPDX-License-Identifier: Apache-2.0 */
/* Files as a tar stream and back: what is kept, other people's tar on both ends, limits. */
#include "hosttar_fixture.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/proc.h"

/* ---- what is kept ---- */

static const char *const odd_names[] = {"new\nline", "\xff\xfe", "-dash", " ", "*", "\x1b[31m",
	"\xc3\xbc", "...", "back\\slash", "t"};

static void make_tree(void)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	const int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	ck_assert_int_eq(mkdirat(src, "tree", 0755), 0);
	const int tree = openat(src, "tree", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	write_text(tree, "file", "hello");
	ck_assert_int_eq(fchmodat(tree, "file", 0751, 0), 0);
	set_time(tree, "file", 1234567890, 123456789);
	ck_assert_int_eq(linkat(tree, "file", tree, "hard", 0), 0);
	ck_assert_int_eq(symlinkat("/etc", tree, "link"), 0);
	set_time(tree, "link", 1000000000, 5);
	ck_assert_int_eq(mkfifoat(tree, "fifo", 0640), 0);
	ck_assert_int_eq(mkdirat(tree, "sub", 0755), 0);
	ck_assert_int_eq(mkdirat(tree, "empty", 0700), 0);
	for (size_t i = 0; i < sizeof odd_names / sizeof odd_names[0]; i++) {
		char path[64];
		snprintf(path, sizeof path, "sub/%s", odd_names[i]);
		write_text(tree, path, odd_names[i]);
	}
	snprintf(addr.sun_path, sizeof addr.sun_path, "%s/src/tree/socket", dir);
	ck_assert_int_eq(bind(s, (struct sockaddr *)&addr, sizeof addr), 0);
	close(s);
	ck_assert_int_eq(fchmodat(tree, "sub", 0555, 0), 0);
	set_time(tree, "sub", 1111111111, 999999999);
	set_time(tree, "empty", -5, 0);
	close(tree);
}

static void check_tree(const char *name)
{
	const int t = openat(dst, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char target[16] = "";

	ck_assert_int_ge(t, 0);
	has_text(t, "file", "hello");
	const struct stat file = look(t, "file");
	ck_assert_uint_eq(file.st_mode, S_IFREG | 0751);
	ck_assert_int_eq(file.st_mtim.tv_sec, 1234567890);
	ck_assert_int_eq(file.st_mtim.tv_nsec, 123456789);
	ck_assert_uint_eq(file.st_uid, geteuid());
	ck_assert_uint_eq(look(t, "hard").st_ino, file.st_ino);
	ck_assert_int_eq(readlinkat(t, "link", target, sizeof target), 4);
	ck_assert_str_eq(target, "/etc");
	ck_assert_int_eq(look(t, "link").st_mtim.tv_sec, 1000000000);
	ck_assert_uint_eq(look(t, "fifo").st_mode, S_IFIFO | 0640);
	ck_assert(!is_there(t, "socket"));
	const struct stat sub = look(t, "sub");
	ck_assert_uint_eq(sub.st_mode, S_IFDIR | 0555);
	ck_assert_int_eq(sub.st_mtim.tv_sec, 1111111111);
	ck_assert_int_eq(sub.st_mtim.tv_nsec, 999999999);
	ck_assert_uint_eq(look(t, "empty").st_mode, S_IFDIR | 0700);
	ck_assert_int_eq(look(t, "empty").st_mtim.tv_sec, -5);
	for (size_t i = 0; i < sizeof odd_names / sizeof odd_names[0]; i++) {
		char path[64];
		snprintf(path, sizeof path, "sub/%s", odd_names[i]);
		has_text(t, path, odd_names[i]);
	}
	close(t);
	/* So that an ordinary user can remove it. */
	char path[64];
	snprintf(path, sizeof path, "%s/sub", name);
	ck_assert_int_eq(fchmodat(dst, path, 0755, 0), 0);
}

START_TEST(a_tree_comes_back_as_it_was)
{
	make_tree();
	unpack(pack("tree", "t", 0), "t", 0);
	check_tree("t");
	/* Once more over itself: replaced and merged, nothing doubled. */
	unpack(pack("tree", "t", 0), "t", 0);
	check_tree("t");
	/* What is inside, into a directory that keeps its own mode and time. */
	ck_assert_int_eq(mkdirat(dst, "in", 0711), 0);
	const int in = openat(dst, "in", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const int saved = dst;
	dst = in;
	unpack(pack("tree", ".", 0), ".", 0);
	dst = saved;
	close(in);
	check_tree("in");
	ck_assert_uint_eq(look(dst, "in").st_mode, S_IFDIR | 0711);
	ck_assert_int_eq(fchmodat(src, "tree/sub", 0755, 0), 0);
}
END_TEST

START_TEST(the_same_through_gnu_tar)
{
	char file[100];
	char into[100];
	auto_free char *output = NULL;
	auto_error e = NULL;

	make_tree();
	struct tarbuf b = pack("tree", "t", 0);
	write_file(top, "x.tar", b.data, b.len);
	free(b.data);
	snprintf(file, sizeof file, "%s/x.tar", dir);
	snprintf(into, sizeof into, "%s/dst", dir);
	const char *const out[] = {"tar", "-C", into, "-xpf", file, NULL};
	ck_assert_msg(proc_run("/bin/tar", out, 10000, &output, &e) == 0, "%s", output);
	check_tree("t");

	snprintf(into, sizeof into, "%s/src", dir);
	const char *const in[] = {"tar", "-C", into, "--format=pax", "--transform=s,^tree,u,S",
		"-cf", file, "tree", NULL};
	mem_free(take_ptr(output));
	ck_assert_msg(proc_run("/bin/tar", in, 10000, &output, &e) == 0, "%s", output);
	char *data = NULL;
	ck_assert_int_eq(fs_read_file(top, "x.tar", 1 << 20, &data, &b.len), 0);
	b.data = (uint8_t *)data;
	ck_assert_int_eq(unpack_code(b, "u", 0, &e), 0);
	mem_free(data);
	check_tree("u");
	ck_assert_int_eq(fchmodat(src, "tree/sub", 0755, 0), 0);
}
END_TEST

START_TEST(files_of_all_sizes)
{
	static const size_t sizes[] = {0, 1, 511, 512, 513, 65535, 65536, 65537, 3000001};

	ck_assert_int_eq(mkdirat(src, "t", 0755), 0);
	for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
		char name[32];
		uint8_t *data = malloc(sizes[i] + 1);
		for (size_t at = 0; at < sizes[i]; at++)
			data[at] = (uint8_t)(at * 7 + (at >> 8) + i);
		snprintf(name, sizeof name, "t/%zu", sizes[i]);
		write_file(src, name, data, sizes[i]);
		free(data);
	}
	unpack(pack("t", "t", 0), "t", 0);
	for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
		char name[32];
		char *a = NULL;
		char *b = NULL;
		size_t a_len;
		size_t b_len;
		snprintf(name, sizeof name, "t/%zu", sizes[i]);
		ck_assert_int_eq(fs_read_file(src, name, 4u << 20, &a, &a_len), 0);
		ck_assert_int_eq(fs_read_file(dst, name, 4u << 20, &b, &b_len), 0);
		ck_assert_uint_eq(a_len, sizes[i]);
		ck_assert_uint_eq(b_len, sizes[i]);
		if (a_len)
			ck_assert_mem_eq(a, b, a_len);
		mem_free(a);
		mem_free(b);
	}
}
END_TEST

START_TEST(holes_stay_holes)
{
	const int fd = openat(src, "f", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

	ck_assert_int_eq(pwrite(fd, "begin", 5, 0), 5);
	ck_assert_int_eq(pwrite(fd, "end", 3, 8 << 20), 3);
	ck_assert_int_eq(ftruncate(fd, 16 << 20), 0);
	close(fd);
	piece = 0;
	unpack(pack("f", "t", 0), "t", 0);
	const struct stat st = look(dst, "t");
	ck_assert_int_eq(st.st_size, 16 << 20);
	ck_assert_int_lt(st.st_blocks, (1 << 20) / 512);
	char text[4] = "";
	const int back = openat(dst, "t", O_RDONLY | O_CLOEXEC);
	ck_assert_int_eq(pread(back, text, 3, 8 << 20), 3);
	ck_assert_str_eq(text, "end");
	close(back);
}
END_TEST

START_TEST(deeper_than_a_path_may_be_long)
{
	enum { LEVELS = 60 };
	char name[201];
	int at = openat(src, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	memset(name, 'd', 200);
	name[200] = 0;
	for (int i = 0; i < LEVELS; i++) {
		ck_assert_int_eq(mkdirat(at, name, 0755), 0);
		const int next = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		close(at);
		at = next;
	}
	write_text(at, "file", "deep");
	close(at);
	unpack(pack(name, "t", 0), "t", 0);
	at = openat(dst, "t", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (int i = 1; i < LEVELS; i++) {
		const int next = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		ck_assert_int_ge(next, 0);
		close(at);
		at = next;
	}
	has_text(at, "file", "deep");
	close(at);
}
END_TEST

START_TEST(depth_has_a_limit)
{
	struct memory m = {0};
	const struct hosttar_pipe out = {.write = memory_write, .user = &m};
	auto_error e = NULL;
	int at = openat(src, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	for (int i = 0; i <= HOSTTAR_DEPTH_MAX; i++) {
		ck_assert_int_eq(mkdirat(at, "d", 0755), 0);
		const int next = openat(at, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		close(at);
		at = next;
	}
	close(at);
	ck_assert_int_eq(hosttar_pack(src, "d", "t", 0, &out, &e), -HOLT_ELIMIT);
	ck_assert_str_ne(holt_error_hint(e), "");
	free(m.b.data);
	/* fs_remove_tree has a smaller one. */
	char path[100];
	snprintf(path, sizeof path, "%s/src/d", dir);
	const char *const rm[] = {"rm", "-r", path, NULL};
	ck_assert_int_eq(proc_run("/bin/rm", rm, 10000, NULL, NULL), 0);
}
END_TEST

START_TEST(owners_and_special_bits)
{
	const struct ent table[] = {
		{.type = 'f', .path = "t", .mode = 06755, .uid = 12345, .gid = 54321}, {0}};
	struct stat st;
	auto_error e = NULL;

	unpack(fixture_tar(table, NULL), "t", 0);
	st = look(dst, "t");
	ck_assert_uint_eq(st.st_mode & 07777, 0755);
	ck_assert_uint_eq(st.st_uid, geteuid());
	const struct tarbuf b = fixture_tar(table, NULL);
	const int r = unpack_code(b, "t", HOSTTAR_OWNERS, &e);
	free(b.data);
	if (geteuid() != 0) {
		ck_assert_int_eq(r, -HOLT_EDENIED);
		ck_assert(!is_there(dst, "t"));
		return;
	}
	ck_assert_int_eq(r, 0);
	st = look(dst, "t");
	ck_assert_uint_eq(st.st_mode & 07777, 06755);
	ck_assert_uint_eq(st.st_uid, 12345);
	ck_assert_uint_eq(st.st_gid, 54321);
}
END_TEST

static void first_header(struct tarbuf b, int64_t *ret_uid, int64_t *ret_gid, unsigned *ret_mode)
{
	const struct tar_source source = {.data = b.data, .size = b.len};
	struct tar_reader *tar = NULL;
	struct tar_entry e;

	ck_assert_int_eq(tar_open(&source, NULL, &tar, NULL), 0);
	ck_assert_int_eq(tar_next(tar, &e, NULL), 1);
	*ret_uid = e.uid;
	*ret_gid = e.gid;
	*ret_mode = e.mode;
	tar_close(tar);
	free(b.data);
}

START_TEST(owners_in_the_stream)
{
	int64_t uid;
	int64_t gid;
	unsigned mode;

	write_text(src, "f", "x");
	ck_assert_int_eq(fchmodat(src, "f", 04755, 0), 0);
	const struct stat st = look(src, "f");
	first_header(pack("f", "t", 0), &uid, &gid, &mode);
	ck_assert_int_eq(uid, 0);
	ck_assert_int_eq(gid, 0);
	ck_assert_uint_eq(mode, S_IFREG | 0755);
	first_header(pack("f", "t", HOSTTAR_OWNERS), &uid, &gid, &mode);
	ck_assert_int_eq(uid, st.st_uid);
	ck_assert_int_eq(gid, st.st_gid);
	ck_assert_uint_eq(mode, S_IFREG | 04755);
}
END_TEST

START_TEST(an_umask_changes_nothing)
{
	const struct ent table[] = {ENT_DIR("t"), ENT_DIR("t/d"), ENT_FILE("t/d/f", "x"), {0}};

	umask(0777);
	unpack(fixture_tar(table, NULL), "t", 0);
	umask(022);
	ck_assert_uint_eq(look(dst, "t/d").st_mode & 07777, 0755);
	ck_assert_uint_eq(look(dst, "t/d/f").st_mode & 07777, 0644);
}
END_TEST

/* ---- what stands in the way ---- */

START_TEST(k09_what_is_there_already)
{
	write_text(dst, "file", "old");
	ck_assert_int_eq(linkat(dst, "file", dst, "other-name", 0), 0);
	unpack(fixture_tar(LAYER(ENT_FILE("file", "new")), NULL), "file", 0);
	has_text(dst, "file", "new");
	has_text(dst, "other-name", "old");

	/* A link is replaced, what it leads to stays (see teardown). */
	ck_assert_int_eq(symlinkat("../outside/secret", dst, "t"), 0);
	unpack(fixture_tar(LAYER(ENT_FILE("t", "new")), NULL), "t", 0);
	has_text(dst, "t", "new");
	ck_assert_int_eq(unlinkat(dst, "t", 0), 0);
	ck_assert_int_eq(symlinkat("../outside", dst, "t"), 0);
	refused(LAYER(ENT_DIR("t"), ENT_FILE("t/secret", "new")), HOLT_EINVALID,
		"'t' is a directory in the box and a link here");
	ck_assert_int_eq(unlinkat(dst, "t", 0), 0);
	unpack(fixture_tar(LAYER(ENT_DIR("t"), ENT_FILE("t/secret", "new")), NULL), "t", 0);
	has_text(dst, "t/secret", "new");

	refused(LAYER(ENT_FILE("t", "x")), HOLT_EINVALID, "'t' is a file in the box");
	refused(LAYER(ENT_DIR("t"), ENT_DIR("t/secret")), HOLT_EINVALID,
		"'t/secret' is a directory in the box");
	has_text(dst, "t/secret", "new");
	/* Merged: what else is there stays. */
	unpack(fixture_tar(LAYER(ENT_DIR("t"), ENT_FILE("t/more", "x")), NULL), "t", 0);
	has_text(dst, "t/secret", "new");
}
END_TEST

/* ---- limits and failures ---- */

START_TEST(a_file_that_does_not_fit)
{
	const struct rlimit limit = {.rlim_cur = 100000, .rlim_max = 100000};
	auto_error e = NULL;
	char *data = malloc(200001);

	memset(data, 'x', 200000);
	data[200000] = 0;
	const struct tarbuf b = fixture_tar(
		LAYER(ENT_DIR("t"), ENT_FILE("t/small", "x"), ENT_FILE("t/big", data)), NULL);
	const struct sigaction ignore = {.sa_handler = SIG_IGN};
	ck_assert_int_eq(sigaction(SIGXFSZ, &ignore, NULL), 0);
	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
	ck_assert_int_eq(unpack_code(b, "t", 0, &e), -HOLT_ELIMIT);
	ck_assert_int_eq(holt_error_errno(e), EFBIG);
	ck_assert_str_eq(holt_error_object(e), "t/big");
	/* What was whole stays, half a file does not. */
	has_text(dst, "t/small", "x");
	ck_assert(!is_there(dst, "t/big"));
	ck_assert_uint_eq(look(dst, "t").st_mode & 07777, 0755);
	free(b.data);
	free(data);
}
END_TEST

static int full_write(void *user, const void *data, size_t len, holt_error **reterr)
{
	(void)user;
	(void)data;
	(void)len;
	return err_make(reterr, HOLT_EGUEST_LOST, "gone");
}

START_TEST(errors_of_the_pipe_come_through)
{
	const struct hosttar_pipe out = {.write = full_write};
	auto_error e = NULL;

	/* At once, however much is left of the file. */
	write_text(src, "f", "x");
	const int fd = openat(src, "f", O_WRONLY | O_CLOEXEC);
	ck_assert_int_eq(ftruncate(fd, (off_t)1 << 40), 0);
	close(fd);
	ck_assert_int_eq(hosttar_pack(src, "f", "t", 0, &out, &e), -HOLT_EGUEST_LOST);
	ck_assert_str_eq(holt_error_message(e), "gone");
	holt_error_free(take_ptr(e));
	ck_assert_int_eq(hosttar_pack(src, "none", "t", 0, &out, &e), -HOLT_ENOT_FOUND);
	ck_assert_str_eq(holt_error_object(e), "t");
}
END_TEST

START_TEST(a_cancelled_copy_stops)
{
	int count = 3;
	struct memory m = {.piece = 512, .cancel_at = &count};
	const struct hosttar_pipe in = {.read = memory_read, .user = &m, .cancel = &m.cancel};
	struct memory w = {.cancel = 1};
	const struct hosttar_pipe out = {.write = memory_write, .user = &w, .cancel = &w.cancel};
	auto_error e = NULL;

	m.b = fixture_tar(LAYER(ENT_DIR("t"), ENT_FILE("t/a", "a"), ENT_FILE("t/b", "b"),
				  ENT_FILE("t/c", "c")),
		NULL);
	ck_assert_int_eq(hosttar_unpack(dst, "t", 0, &in, &e), -HOLT_ECANCELLED);
	ck_assert(!is_there(dst, "t/c"));
	holt_error_free(take_ptr(e));
	ck_assert_int_eq(hosttar_pack(top, "src", "t", 0, &out, &e), -HOLT_ECANCELLED);
	ck_assert_uint_eq(w.b.len, 0);
	free(m.b.data);
}
END_TEST

START_TEST(without_memory)
{
	int failures[2] = {0};

	ck_assert_int_eq(mkdirat(src, "t", 0755), 0);
	write_text(src, "t/f", "x");
	ck_assert_int_eq(linkat(src, "t/f", src, "t/h", 0), 0);
	const struct tarbuf whole = pack("t", "t", 0);
	for (unsigned long n = 1; n < 30; n++) {
		struct memory m = {0};
		const struct hosttar_pipe out = {.write = memory_write, .user = &m};
		for (int i = 0; i < 2; i++) {
			auto_error e = NULL;
			mem_fail_at(n);
			const int r = i ? unpack_code(whole, "t", 0, &e)
					: hosttar_pack(src, "t", "t", 0, &out, &e);
			mem_fail_at(0);
			ck_assert_int_eq(r, -holt_error_code(e));
			ck_assert(r == 0 || r == -HOLT_ENO_MEMORY);
			failures[i] += r != 0;
		}
		free(m.b.data);
	}
	/* At least the state and each of the paths. */
	ck_assert_int_ge(failures[0], 2);
	ck_assert_int_ge(failures[1], 4);
	ck_assert_int_lt(failures[0] + failures[1], 29);
	free(whole.data);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {a_tree_comes_back_as_it_was, the_same_through_gnu_tar,
		files_of_all_sizes, holes_stay_holes, deeper_than_a_path_may_be_long,
		depth_has_a_limit, owners_and_special_bits, owners_in_the_stream,
		an_umask_changes_nothing, k09_what_is_there_already, a_file_that_does_not_fit,
		errors_of_the_pipe_come_through, a_cancelled_copy_stops, without_memory};

	return fixture_run("hosttar", tests, sizeof tests / sizeof tests[0], setup, teardown, 60);
}
