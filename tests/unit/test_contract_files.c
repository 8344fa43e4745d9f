/* SPDX-License-Identifier: Apache-2.0 */
/* Files through the contract: guards before anything, lines, limits, and the text form. */
#include "contract_fixture.h"

#define N(array) (sizeof(array) / sizeof(array)[0])

#define GOLDEN                                                                               \
	"progress 10%\rprogress 100%\n", "page one\fpage two\n", "head\xE2\x80\xA8tail\r\n", \
		"next\xC2\x85line\n"

/* What a backend sends of the golden file: whole lines, with their ends. */
static void answer_lines(int first, int last)
{
	static const char *const lines[] = {GOLDEN};
	static struct piece pieces[N(lines)];
	size_t n = 0;

	for (int i = first; i <= last && i <= (int)N(lines); i++)
		pieces[n++] = (struct piece){0, lines[i - 1], strlen(lines[i - 1]), NULL};
	answer(&(struct answer){.pieces = pieces, .n_pieces = n});
}

static void check_read(const holt_read_options *o, const char *want)
{
	holt_error *error = NULL;
	char *data = NULL;
	size_t len = 0;

	if (holt_sandbox_read(sandbox, "/f", o, &data, &len, &error) < 0)
		ck_abort_msg("%s", holt_error_message(error));
	ck_assert_uint_eq(len, strlen(want));
	ck_assert_str_eq(data, want);
	holt_free(data);
}

START_TEST(a_whole_file_is_unchanged)
{
	answer_lines(1, 4);
	check_read(NULL, "progress 10%\rprogress 100%\npage one\fpage two\nhead\xE2\x80\xA8tail\r\n"
			 "next\xC2\x85line\n");
	ck_assert_str_eq(stub.op, "read");
	ck_assert_str_eq(stub.path, "/f");
	ck_assert_uint_eq(stub.read.first_line, 0);
	ck_assert_uint_eq(stub.read.max_bytes, HOLT_READ_BYTES_DEFAULT);
	ck_assert_uint_gt(stub.call.timeout_ms, 599000);
	answer_lines(1, 0);
	check_read(NULL, "");
}
END_TEST

/* C-81 to C-84 */
START_TEST(six_ranges_of_the_golden_file)
{
	static const struct {
		int64_t first, last;
		int from, to; /* what the backend is asked for; 0: nothing of it */
		const char *want;
	} rows[] = {
		{2, 3, 2, 3, "page one\fpage two\nhead\xE2\x80\xA8tail"},
		{3, 0, 3, 0, "head\xE2\x80\xA8tail\nnext\xC2\x85line"},
		{0, 2, 1, 2, "progress 10%\rprogress 100%\npage one\fpage two"},
		{4, 4, 4, 4, "next\xC2\x85line"},
		{5, 0, 5, 0, ""},
		{3, 3, 3, 3, "head\xE2\x80\xA8tail"},
		{-7, 1, 1, 1, "progress 10%\rprogress 100%"},
		{INT64_MIN, INT64_MAX, 1, -1,
			"progress 10%\rprogress 100%\npage one\fpage two\nhead\xE2\x80\xA8tail\n"
			"next\xC2\x85line"},
	};

	for (size_t i = 0; i < N(rows); i++) {
		holt_read_options o = HOLT_READ_OPTIONS_INIT;

		o.flags = HOLT_READ_LINES;
		o.first_line = rows[i].first;
		o.last_line = rows[i].last;
		answer_lines(rows[i].from, rows[i].to > 0 ? rows[i].to : 4);
		check_read(&o, rows[i].want);
		ck_assert_int_eq((int)stub.read.first_line, rows[i].from);
		if (rows[i].to >= 0)
			ck_assert_int_eq((int)stub.read.last_line, rows[i].to);
		ck_assert_uint_eq(stub.read.max_bytes, 0);
	}
}
END_TEST

START_TEST(an_empty_range_still_needs_a_file)
{
	static const int64_t ranges[][2] = {{3, 2}, {1, -1}, {INT64_MAX, 1}, {-5, INT64_MIN}};
	holt_read_options o = HOLT_READ_OPTIONS_INIT;
	holt_error *error = NULL;
	char *data = NULL;
	size_t len = 0;

	o.flags = HOLT_READ_LINES;
	for (size_t i = 0; i < N(ranges); i++) {
		o.first_line = ranges[i][0];
		o.last_line = ranges[i][1];
		answer_lines(1, 1);
		check_read(&o, "");
		ck_assert_uint_eq(stub.read.max_bytes, 1);
		answer(&(struct answer){.code = HOLT_ELIMIT, .errnum = EFBIG, .message = "more"});
		check_read(&o, "");
		answer_error(HOLT_ENOT_FOUND, "no '/f'");
		const int r = holt_sandbox_read(sandbox, "/f", &o, &data, &len, &error);
		check_error(r, &error, HOLT_ENOT_FOUND, "no '/f'");
	}
}
END_TEST

/* C-85, C-86: what is read line by line is what is read at once. */
START_TEST(lines_one_by_one)
{
	static const char *const files[] = {"", "\n", "one", "one\n", "one\n\n", "a\rb\n", "a\r\nb",
		("a\rb\nc\fd\ne\xE2\x80\xA8"
		 "f\r\n\rg"),
		"trailing cr\r"};

	for (size_t i = 0; i < N(files); i++) {
		const size_t len = strlen(files[i]);
		size_t n = len && files[i][len - 1] != '\n';
		size_t lines = 0;

		for (size_t k = 0; k < len; k++)
			n += files[i][k] == '\n';
		for (const char *at = files[i]; *at; lines++) {
			const char *lf = strchr(at, '\n');
			const size_t line = lf ? (size_t)(lf - at) + 1 : strlen(at);
			const struct piece piece = {0, at, line, NULL};
			size_t kept = line;
			char want[64] = "";
			holt_read_options o = HOLT_READ_OPTIONS_INIT;

			while (kept > 0 && (at[kept - 1] == '\n' || at[kept - 1] == '\r'))
				kept--;
			memcpy(want, at, kept);
			o.flags = HOLT_READ_LINES;
			o.first_line = o.last_line = (int64_t)lines + 1;
			answer(&(struct answer){.pieces = &piece, .n_pieces = 1});
			check_read(&o, want);
			at += line;
		}
		ck_assert_uint_eq(lines, n);
	}
}
END_TEST

static const struct piece ten[] = {{0, "01234", 5, NULL}, {0, "5678\n", 5, NULL}};

START_TEST(limits_of_reading)
{
	holt_read_options o = HOLT_READ_OPTIONS_INIT;
	holt_error *error = NULL;
	char *data = NULL;
	size_t len = 0;

	for (int deaf = 0; deaf < 2; deaf++) {
		answer(&(struct answer){.pieces = ten, .n_pieces = N(ten), .deaf = deaf});
		o.max_bytes = 10;
		check_read(&o, "012345678\n");
		ck_assert_uint_eq(stub.read.max_bytes, 10);
		o.max_bytes = 9;
		o.flags = 0;
		const int r = holt_sandbox_read(sandbox, "/f", &o, &data, &len, &error);
		ck_assert_int_eq(holt_error_errno(error), EFBIG);
		ck_assert_str_eq(holt_error_object(error), "/f");
		ck_assert_ptr_null(strstr(holt_error_hint(error), "ulimit"));
		check_error(r, &error, HOLT_ELIMIT, "9 bytes");
		/* The ends of lines do not count where they are not handed over. */
		o.flags = HOLT_READ_LINES;
		check_read(&o, "012345678");
		o.flags = 0;
	}
}
END_TEST

static char seen[64];
static size_t seen_len;

static int see(const void *data, size_t len, void *user)
{
	memcpy(seen + seen_len, data, len);
	seen_len += len;
	return user != NULL;
}

START_TEST(piece_by_piece)
{
	holt_read_options o = HOLT_READ_OPTIONS_INIT;
	holt_error *error = NULL;

	answer(&(struct answer){.pieces = ten, .n_pieces = N(ten)});
	seen_len = 0;
	ck_assert_int_eq(holt_sandbox_read_to(sandbox, "/f", NULL, see, NULL, NULL), 0);
	ck_assert_uint_eq(seen_len, 10);
	ck_assert_uint_eq(stub.read.max_bytes, 0);
	for (int i = 0; i < 4; i++) {
		answer(&(struct answer){.pieces = ten, .n_pieces = N(ten), .deaf = i & 1});
		o.flags = i & 2 ? HOLT_READ_LINES : 0;
		seen_len = 0;
		const int r = holt_sandbox_read_to(sandbox, "/f", &o, see, &o, &error);
		ck_assert_uint_eq(seen_len, 5);
		check_error(r, &error, HOLT_ECANCELLED, "");
	}
}
END_TEST

/* C-78, C-281 */
START_TEST(failures_as_content)
{
	holt_sandbox_options so = HOLT_SANDBOX_OPTIONS_INIT;
	holt_error *error = NULL;
	char *data = NULL;
	size_t len = 0;

	teardown();
	so.flags = HOLT_SANDBOX_TEXT;
	stub_open(&so);
	answer_error(HOLT_ENOT_FOUND, " cat: /f: No such file or directory\n");
	check_read(NULL, "Error: cat: /f: No such file or directory");
	answer_error(HOLT_ENOT_FOUND, "");
	check_read(NULL, "Error: cannot read file");
	answer_error(HOLT_EGUEST_LOST, "the VM ended");
	check_read(NULL, "Error: the VM ended (vsock disconnected)");
	ck_assert_int_eq(atomic_load(&told), 1);
	/* Never for a path that is refused. */
	int r = holt_sandbox_read(sandbox, "/../f", NULL, &data, &len, &error);
	check_error(r, &error, HOLT_EDENIED, "path traversal detected in '/../f'");
	r = holt_sandbox_read(sandbox, "", NULL, &data, &len, &error);
	check_error(r, &error, HOLT_EINVALID, "path must be a non-empty string");
	/* Only reading has it. */
	r = holt_sandbox_write(sandbox, "/f", "x", 1, NULL, &error);
	check_error(r, &error, HOLT_EGUEST_LOST, "the VM ended");
	holt_sandbox_close(sandbox);
	check_read(NULL, "Error: sandbox has been closed");
}
END_TEST

/* C-99 to C-103 */
START_TEST(downloads)
{
	holt_error *error = NULL;
	char *data = NULL;
	size_t len = 0;
	const struct piece bytes[] = {{0, "a\0\xFF\r\n", 5, NULL}};

	answer(&(struct answer){.pieces = bytes, .n_pieces = 1});
	ck_assert_int_eq(
		holt_sandbox_download(sandbox, "mnt/user-data/x", NULL, &data, &len, NULL), 0);
	ck_assert_str_eq(stub.op, "download");
	ck_assert_str_eq(stub.path, "/mnt/user-data/x");
	ck_assert_uint_eq(stub.max_bytes, 104857600);
	ck_assert_uint_eq(len, 5);
	ck_assert_int_eq(memcmp(data, "a\0\xFF\r\n", 6), 0);
	holt_free(data);
	seen_len = 0;
	ck_assert_int_eq(
		holt_sandbox_download_to(sandbox, "/mnt/user-data/x", NULL, see, NULL, NULL), 0);
	ck_assert_uint_eq(seen_len, 5);
	/* Guards come before anything. */
	const int calls = atomic_load(&stub.calls);
	int r = holt_sandbox_download(sandbox, "/etc/../x", NULL, &data, &len, &error);
	check_error(r, &error, HOLT_EDENIED, "path traversal detected in '/etc/../x'");
	r = holt_sandbox_download(sandbox, "/etc/passwd", NULL, &data, &len, &error);
	check_error(r, &error, HOLT_EDENIED,
		"Access denied: path must be under '/mnt/user-data': '/etc/passwd'");
	ck_assert_int_eq(atomic_load(&stub.calls), calls);
	answer_error(HOLT_ENOT_FOUND, "not found");
	r = holt_sandbox_download(sandbox, "/mnt/user-data/x", NULL, &data, &len, &error);
	check_error(r, &error, HOLT_ENOT_FOUND, "not found");
}
END_TEST

static char megabyte[1 << 20];

/* C-101: what counts is what comes, whatever the backend says. */
START_TEST(a_download_has_a_limit)
{
	static const char want[] = "File exceeds maximum download size of 104857600 bytes";
	static struct piece pieces[101];
	holt_error *error = NULL;
	char *data = NULL;
	size_t len = 0;

	for (size_t i = 0; i < 101; i++)
		pieces[i] = (struct piece){0, megabyte, i < 100 ? sizeof megabyte : 1, NULL};
	answer(&(struct answer){.pieces = pieces, .n_pieces = 100});
	ck_assert_int_eq(
		holt_sandbox_download(sandbox, "/mnt/user-data/x", NULL, &data, &len, NULL), 0);
	ck_assert_uint_eq(len, HOLT_DOWNLOAD_BYTES_MAX);
	holt_free(data);
	for (int how = 0; how < 2; how++) {
		if (how == 0)
			answer(&(struct answer){.pieces = pieces, .n_pieces = 101});
		else
			answer(&(struct answer){
				.code = HOLT_ELIMIT, .errnum = EFBIG, .message = "too big"});
		const int r = holt_sandbox_download(
			sandbox, "/mnt/user-data/x", NULL, &data, &len, &error);
		ck_assert_int_eq(holt_error_errno(error), EFBIG);
		ck_assert_str_eq(holt_error_object(error), "/mnt/user-data/x");
		ck_assert_str_eq(holt_error_message(error), want);
		ck_assert_int_eq(holt_error_failure(error), HOLT_FAILURE_NONE);
		check_error(r, &error, HOLT_ELIMIT, want);
	}
	ck_assert_int_eq(atomic_load(&told), 0);
}
END_TEST

typedef int (*write_fn)(holt_sandbox *, const char *, const void *, size_t,
	const holt_call_options *, holt_error **);

/* C-89, C-91, C-98 */
START_TEST(writing)
{
	static const struct {
		write_fn fn;
		const char *op;
	} rows[] = {{holt_sandbox_write, "write"}, {holt_sandbox_append, "append"},
		{holt_sandbox_update, "update"}};
	holt_call_options o = HOLT_CALL_OPTIONS_INIT;
	char all[256];

	for (size_t i = 0; i < sizeof all; i++)
		all[i] = (char)i;
	for (size_t i = 0; i < N(rows); i++) {
		ck_assert_int_eq(rows[i].fn(sandbox, "rel/f", all, sizeof all, NULL, NULL), 0);
		ck_assert_str_eq(stub.op, rows[i].op);
		ck_assert_str_eq(stub.path, "rel/f");
		ck_assert_uint_eq(stub.flags, HOLT_WRITE_PARENTS);
		ck_assert_uint_eq(stub.n_written, sizeof all);
		ck_assert_int_eq(memcmp(stub.written, all, sizeof all), 0);
		ck_assert_int_eq(rows[i].fn(sandbox, "f", NULL, 0, NULL, NULL), 0);
		ck_assert_uint_eq(stub.n_written, 0);
		o.flags = HOLT_WRITE_EXCLUSIVE;
		ck_assert_int_eq(rows[i].fn(sandbox, "f", "x", 1, &o, NULL), 0);
		ck_assert_uint_eq(stub.flags, HOLT_WRITE_PARENTS | HOLT_WRITE_EXCLUSIVE);
		o.flags = 4;
		ck_assert_int_eq(rows[i].fn(sandbox, "f", "x", 1, &o, NULL), -HOLT_EINVALID);
		ck_assert_int_eq(rows[i].fn(sandbox, "f", NULL, 1, NULL, NULL), -HOLT_EINVALID);
		ck_assert_int_eq(rows[i].fn(sandbox, "..\\f", "x", 1, NULL, NULL), -HOLT_EDENIED);
		ck_assert_int_eq(rows[i].fn(NULL, "f", "x", 1, NULL, NULL), -HOLT_EINVALID);
	}
}
END_TEST

struct giver {
	int pieces;
	size_t len; /* that is claimed */
	int result;
};

static int give(void *data, size_t size, size_t *ret_len, void *user)
{
	struct giver *g = user;

	if (g->pieces-- == 0) {
		*ret_len = 0;
		return g->result;
	}
	memset(data, 'g', g->len < size ? g->len : size);
	*ret_len = g->len;
	return 0;
}

START_TEST(writing_what_comes)
{
	struct giver g = {.pieces = 3, .len = 5};
	holt_error *error = NULL;

	ck_assert_int_eq(holt_sandbox_write_from(sandbox, "/f", give, &g, NULL, NULL), 0);
	ck_assert_str_eq(stub.op, "write");
	ck_assert_uint_eq(stub.n_written, 15);
	g = (struct giver){.pieces = 1, .len = 5};
	ck_assert_int_eq(holt_sandbox_append_from(sandbox, "/f", give, &g, NULL, NULL), 0);
	ck_assert_str_eq(stub.op, "append");
	ck_assert_uint_eq(stub.n_written, 5);
	g = (struct giver){.pieces = 1, .len = 5, .result = 1};
	int r = holt_sandbox_write_from(sandbox, "/f", give, &g, NULL, &error);
	check_error(r, &error, HOLT_ECANCELLED, "cancelled");
	g = (struct giver){.pieces = 1, .len = 8};
	r = holt_sandbox_write_from(sandbox, "/f", give, &g, NULL, &error);
	check_error(r, &error, HOLT_EINVALID, "the source gave 8 bytes where 7 have room");
	ck_assert_int_eq(
		holt_sandbox_write_from(sandbox, "/f", NULL, NULL, NULL, NULL), -HOLT_EINVALID);
}
END_TEST

START_TEST(names_of_files)
{
	holt_call_options o = HOLT_CALL_OPTIONS_INIT;
	holt_file_info info = HOLT_FILE_INFO_INIT;
	holt_error *error = NULL;

	o.timeout_ms = 77;
	o.flags = HOLT_STAT_NOFOLLOW;
	ck_assert_int_eq(holt_sandbox_stat(sandbox, "/f", &o, &info, NULL), 0);
	ck_assert_uint_eq(info.size_bytes, 42);
	ck_assert_uint_eq(stub.flags, HOLT_STAT_NOFOLLOW);
	ck_assert_uint_eq(stub.call.timeout_ms, 77);
	o.flags = HOLT_MKDIR_PARENTS;
	ck_assert_int_eq(holt_sandbox_make_directory(sandbox, "/d", &o, NULL), 0);
	ck_assert_str_eq(stub.op, "mkdir");
	ck_assert_uint_eq(stub.flags, HOLT_MKDIR_PARENTS);
	o.flags = HOLT_MOVE_NOREPLACE;
	ck_assert_int_eq(holt_sandbox_move(sandbox, "/a", "/b", &o, NULL), 0);
	ck_assert_str_eq(stub.path, "/a");
	ck_assert_str_eq(stub.to, "/b");
	ck_assert_uint_eq(stub.flags, HOLT_MOVE_NOREPLACE);
	o.flags = HOLT_REMOVE_RECURSIVE | HOLT_REMOVE_FORCE;
	ck_assert_int_eq(holt_sandbox_remove(sandbox, "/a", &o, NULL), 0);
	ck_assert_str_eq(stub.op, "remove");
	ck_assert_uint_eq(stub.flags, HOLT_REMOVE_RECURSIVE | HOLT_REMOVE_FORCE);
	ck_assert_int_eq(holt_sandbox_stat(sandbox, "/f", &o, &info, NULL), -HOLT_EINVALID);
	ck_assert_int_eq(holt_sandbox_stat(sandbox, "/../f", NULL, &info, NULL), -HOLT_EDENIED);
	ck_assert_int_eq(holt_sandbox_make_directory(sandbox, "", NULL, NULL), -HOLT_EINVALID);
	ck_assert_int_eq(holt_sandbox_remove(sandbox, "a/..", NULL, NULL), -HOLT_EDENIED);
	const int r = holt_sandbox_move(sandbox, "/a", "/b/..", NULL, &error);
	ck_assert_str_eq(holt_error_object(error), "/b/..");
	check_error(r, &error, HOLT_EDENIED, "");
	ck_assert_int_eq(holt_sandbox_move(sandbox, "..", "/b", NULL, NULL), -HOLT_EDENIED);
	info.struct_size = 8;
	ck_assert_int_eq(holt_sandbox_stat(sandbox, "/f", NULL, &info, NULL), -HOLT_EINVALID);
}
END_TEST

START_TEST(every_allocation_may_fail)
{
	char *data = NULL;
	size_t len = 0;
	unsigned long n = 0;

	answer(&(struct answer){.pieces = ten, .n_pieces = N(ten)});
	while (!data) {
		mem_fail_at(++n);
		const int r = holt_sandbox_read(sandbox, "/f", NULL, &data, &len, NULL);
		mem_fail_at(0);
		ck_assert_int_eq(r, data ? 0 : -HOLT_ENO_MEMORY);
	}
	ck_assert_uint_ge(n, 2);
	holt_free(data);
	data = NULL;
	for (n = 1; !data; n++) {
		mem_fail_at(n);
		const int r = holt_sandbox_download(
			sandbox, "/mnt/user-data/f", NULL, &data, &len, NULL);
		mem_fail_at(0);
		ck_assert_int_eq(r, data ? 0 : -HOLT_ENO_MEMORY);
	}
	holt_free(data);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("contract_files");
	TCase *t = tcase_create("all");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_set_timeout(t, 60);
	tcase_add_test(t, a_whole_file_is_unchanged);
	tcase_add_test(t, six_ranges_of_the_golden_file);
	tcase_add_test(t, an_empty_range_still_needs_a_file);
	tcase_add_test(t, lines_one_by_one);
	tcase_add_test(t, limits_of_reading);
	tcase_add_test(t, piece_by_piece);
	tcase_add_test(t, failures_as_content);
	tcase_add_test(t, downloads);
	tcase_add_test(t, a_download_has_a_limit);
	tcase_add_test(t, writing);
	tcase_add_test(t, writing_what_comes);
	tcase_add_test(t, names_of_files);
	tcase_add_test(t, every_allocation_may_fail);
	suite_add_tcase(s, t);
	return run_suite(s);
}
