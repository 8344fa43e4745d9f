/* SPDX-License-Identifier: Apache-2.0 */
#include "files_client.h"

/*
 * What the built-in "files" is asked and how it ends, and reading, looked at with the file system
 * of the host.
 */

/* What is asked first and what is wrong with it. */

START_TEST(versions)
{
	struct run r;

	builtin_run((const char *[6]){"files", "2"}, NULL, &r);
	check_failure(&r, EPROTONOSUPPORT, "request", "2");
	builtin_run((const char *[6]){"files"}, NULL, &r);
	check_failure(&r, EPROTONOSUPPORT, "request", "");
	/* The end of the input between two requests is no failure. */
	builtin_run((const char *[6]){"files", "1"}, &(struct input){(const uint8_t *)"", 0}, &r);
	check_success(&r);
	ck_assert_uint_eq(r.out[0].len, 0);
	run_free(&r);
}
END_TEST

/* Frames that end the worker; each is sent behind a good request. */
static const struct {
	const char *what;
	uint16_t op;
	bool cut;
	bool garbage;
} broken[] = {
	{"garbage", 0, false, true},
	{"a frame that is cut", WIRE_OP_file_stat, true, false},
	{"the end of content without content", WIRE_OP_file_end, false, false},
	{"a write without its content", WIRE_OP_file_write, false, false},
	{"a request in the middle of content", WIRE_OP_file_read, false, false},
};

START_TEST(broken_input)
{
	struct worker *const w = worker_start(NULL);
	struct answer a;
	struct wire_msg m = {.op = broken[_i].op};

	ck_assert_int_eq(chdir(base), 0);
	put_file("f", "old", 3);
	ask_stat(w, "f", 0, &a);
	is_done(&a);
	if (broken[_i].garbage)
		put_bytes(w, (const uint8_t *)"GET / HTTP/1.0\r\n", 16);
	if (m.op == WIRE_OP_file_stat)
		put_bytes(w, (const uint8_t *)"\x20\0\0\0\x62\0", 6);
	if (m.op == WIRE_OP_file_end)
		put_end(w, false);
	if (m.op == WIRE_OP_file_write || m.op == WIRE_OP_file_read) {
		put_write(w, "f", 0);
		put_content(w, "new", 3);
	}
	if (m.op == WIRE_OP_file_read) {
		m.file_read.path = text("f");
		put_msg(w, &m);
	}
	put_eof(w);
	while (!w->run.exited)
		turn();
	check_failure(&w->run, EPROTO, "request", "");
	check_content("f", "old", 3);
	n_workers = 0;
	local("[ $(ls -A | wc -l) = 1 ]");
}
END_TEST

/* Reading. */

static void check_lines(struct worker *w, const char *name, uint64_t first, uint64_t last,
	const char *want, size_t len)
{
	struct answer a;

	ask_read(w, name, (struct wire_file_read){.first_line = first, .last_line = last}, &a);
	ck_assert_msg(!a.failed, "%s", a.text);
	ck_assert_msg(a.informed, "no file_info");
	ck_assert_msg(a.data.len == len && (len == 0 || memcmp(a.data.data, want, len) == 0),
		"lines %d to %d are '%.*s'", (int)first, (int)last, (int)a.data.len,
		(const char *)a.data.data);
	is_done(&a);
}

/* C-83, C-84: only LF ends a line. */
START_TEST(lines_of_the_golden_file)
{
	static const char golden[] = "progress 10%\rprogress 100%\npage one\fpage two\n"
				     "head\xe2\x80\xa8tail\r\nnext\xc2\x85line\n";
	const char *const two = strchr(golden, '\n') + 1;
	const char *const three = strchr(two, '\n') + 1;
	const char *const four = strchr(three, '\n') + 1;
	const char *const end = golden + strlen(golden);
	struct worker *const w = worker_start(NULL);

	put_file("g", golden, strlen(golden));
	check_lines(w, "g", 0, 0, golden, strlen(golden));
	check_lines(w, "g", 1, 1, golden, (size_t)(two - golden));
	check_lines(w, "g", 2, 3, two, (size_t)(four - two));
	check_lines(w, "g", 3, 3, three, (size_t)(four - three));
	check_lines(w, "g", 4, 4, four, (size_t)(end - four));
	check_lines(w, "g", 3, 0, three, (size_t)(end - three));
	check_lines(w, "g", 4, 99, four, (size_t)(end - four));
	check_lines(w, "g", 5, 0, "", 0);
	check_lines(w, "g", 3, 2, "", 0);
	check_lines(w, "g", UINT64_MAX, UINT64_MAX, "", 0);
	/* With 0 as the first line the last one does not count. */
	check_lines(w, "g", 0, 1, golden, strlen(golden));
	put_file("g", "a\n\nb", 4);
	check_lines(w, "g", 2, 2, "\n", 1);
	check_lines(w, "g", 3, 3, "b", 1);
	check_lines(w, "g", 4, 4, "", 0);
	put_file("g", "", 0);
	check_lines(w, "g", 0, 0, "", 0);
	check_lines(w, "g", 1, 1, "", 0);
}
END_TEST

/* Lines across the borders of buffers: 40,000 lines of 1 to 50 bytes, and a long one. */
START_TEST(lines_of_a_large_file)
{
	struct worker *const w = worker_start(NULL);
	struct bytes all = {.data = malloc(2 * MIB)};
	size_t begin[40001];

	ck_assert_ptr_nonnull(all.data);
	for (unsigned i = 0; i < 40000; i++) {
		begin[i] = all.len;
		memset(all.data + all.len, '0' + i % 10, i % 50);
		all.len += i % 50;
		all.data[all.len++] = '\n';
	}
	begin[40000] = all.len;
	memset(all.data + all.len, 'x', 700000);
	all.len += 700000;
	put_file("l", all.data, all.len);
	const char *const text = (const char *)all.data;
	check_lines(w, "l", 0, 0, text, all.len);
	check_lines(w, "l", 40001, 0, text + begin[40000], 700000);
	check_lines(w, "l", 40000, 40000, text + begin[39999], begin[40000] - begin[39999]);
	for (unsigned i = 9000; i < 12000; i += 251)
		check_lines(w, "l", i, i + 99, text + begin[i - 1], begin[i + 99] - begin[i - 1]);
	free(all.data);
}
END_TEST

START_TEST(read_limits)
{
	struct worker *const w = worker_start(NULL);
	uint8_t *const data = noise(3 * MIB);
	struct answer a;

	put_file("n", data, 3 * MIB);
	ask_read(w, "n", (struct wire_file_read){.max_bytes = 3 * MIB}, &a);
	ck_assert_uint_eq(a.data.len, 3 * MIB);
	ck_assert_int_eq(memcmp(a.data.data, data, 3 * MIB), 0);
	ck_assert_uint_eq(a.info.size, 3 * MIB);
	ck_assert_uint_eq(a.info.type, WIRE_FILE_REGULAR);
	is_done(&a);
	/* Too large is known before the first byte. */
	ask_read(w, "n", (struct wire_file_read){.max_bytes = 3 * MIB - 1}, &a);
	ck_assert_uint_eq(a.data.len, 0);
	is_failure(&a, EFBIG, "read", "n");
	put_file("t", "one\ntwo\n", 8);
	ask_read(w, "t", (struct wire_file_read){.first_line = 2, .max_bytes = 4}, &a);
	ck_assert_uint_eq(a.data.len, 4);
	is_done(&a);
	ask_read(w, "t", (struct wire_file_read){.first_line = 2, .max_bytes = 3}, &a);
	is_failure(&a, EFBIG, "read", "t");
	/* Files of the kernel say that they are empty. */
	ask_read(w, "/proc/self/status", (struct wire_file_read){0}, &a);
	ck_assert_uint_eq(a.info.size, 0);
	ck_assert_ptr_nonnull(memmem(a.data.data, a.data.len, "Name:", 5));
	is_done(&a);
	ask_read(w, "/proc/self/status", (struct wire_file_read){.max_bytes = 10}, &a);
	is_failure(&a, EFBIG, "read", "/proc/self/status");
	free(data);
}
END_TEST

/* What cannot be read, and that none of it waits. */
START_TEST(read_failures)
{
	struct worker *const w = worker_of_user();
	const struct wire_file_read all = {0};
	struct answer a;
	char path[WIRE_PATH_MAX + 1];

	local("mkdir d; mkfifo p; ln -s nowhere dangling; ln -s loop loop; : >secret; "
	      "chmod 000 secret; ln -s d/../secret way");
	const int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_storage address = {.ss_family = AF_UNIX};
	ck_assert_int_eq(chdir(base), 0);
	memcpy((uint8_t *)&address + sizeof(sa_family_t), "s", 2);
	ck_assert_int_eq(bind(s, (const void *)&address, sizeof(sa_family_t) + 2), 0);
	(void)close(s);
	static const struct {
		const char *path;
		int errnum;
	} cases[] = {
		{"d", EISDIR},
		{"p", EINVAL},
		{"s", EINVAL},
		{"/dev/null", EINVAL},
		{"missing", ENOENT},
		{"missing/f", ENOENT},
		{"dangling", ENOENT},
		{"loop", ELOOP},
		{"secret", EACCES},
		{"way", EACCES},
		{"secret/f", ENOTDIR},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		ask_read(w, cases[i].path, all, &a);
		ck_assert(!a.informed);
		is_failure(&a, cases[i].errnum, "read", cases[i].path);
	}
	/* The object of a long path is its beginning. */
	memset(path, 'x', WIRE_PATH_MAX);
	path[WIRE_PATH_MAX] = 0;
	ask_read(w, path, all, &a);
	path[1024] = 0;
	is_failure(&a, ENAMETOOLONG, "read", path);
	ck_assert_ptr_nonnull(strstr(a.text, "xxx...'"));
	ask_read(w, "no\nsuch\x01", all, &a);
	is_failure(&a, ENOENT, "read", "no\nsuch\x01");
	ck_assert_ptr_nonnull(strstr(a.text, "'no\\x0asuch\\x01'"));
}
END_TEST

static const char *const odd_names[] = {"-rf", " ", "a b ", "new\nline", "it's \"quoted\"",
	"$HOME;`x`", "back\\slash", "\xe6\x96\x87\xe4\xbb\xb6", "\xff\xfe", "*?[", "...", "a..",
	"~", "#", "\x7f"};

/* C-77, C-98: names and contents are bytes. */
START_TEST(odd_names_and_all_bytes)
{
	struct worker *const w = worker_start(NULL);
	uint8_t all[256];
	struct answer a;

	for (unsigned i = 0; i < 256; i++)
		all[i] = (uint8_t)i;
	for (size_t i = 0; i < sizeof(odd_names) / sizeof(odd_names[0]); i++) {
		ask_write(w, odd_names[i], 0, all, sizeof(all), &a);
		is_done(&a);
		ask_write(w, odd_names[i], WIRE_WRITE_APPEND, "x", 1, &a);
		is_done(&a);
		ask_read(w, odd_names[i], (struct wire_file_read){0}, &a);
		ck_assert_uint_eq(a.data.len, 257);
		ck_assert_int_eq(memcmp(a.data.data, all, 256), 0);
		is_done(&a);
		ck_assert_uint_eq(look(odd_names[i]).st_size, 257);
	}
	local("[ $(ls -A | wc -l) = 16 ]");
}
END_TEST

int main(void)
{
	TCase *t = tcase_create("files");

	tcase_set_timeout(t, 60);
	tcase_add_checked_fixture(t, files_setup, files_teardown);
	tcase_add_test(t, versions);
	tcase_add_loop_test(t, broken_input, 0, (int)(sizeof(broken) / sizeof(broken[0])));
	tcase_add_test(t, lines_of_the_golden_file);
	tcase_add_test(t, lines_of_a_large_file);
	tcase_add_test(t, read_limits);
	tcase_add_test(t, read_failures);
	tcase_add_test(t, odd_names_and_all_bytes);
	return run_cases("files", t);
}
