/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of holt pull, and what it draws while it waits. */
#include <check.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/pull_args.h"
#include "cli/pull_progress.h"

/* ---- the command line ---- */

/* Words up to a NULL; returns the status, what was told is in @said. */
static char said[512];

static int parse(struct pull_args *a, ...)
{
	static char name[] = "pull";
	char *argv[16] = {name};
	char *text = NULL;
	size_t len = 0;
	int argc = 1;
	va_list ap;

	va_start(ap, a);
	while ((argv[argc] = va_arg(ap, char *)))
		argc++;
	va_end(ap);
	optind = 0;
	FILE *before = stderr;
	stderr = open_memstream(&text, &len);
	const int status = pull_args_parse(a, "pull", argc, argv);
	(void)fclose(stderr);
	stderr = before;
	(void)snprintf(said, sizeof said, "%s", text);
	free(text);
	return status;
}

START_TEST(options)
{
	struct pull_args a;

	ck_assert_int_eq(
		parse(&a, "--platform", "linux/amd64", "--insecure", "demo:1", "--ca-file",
			"ca.pem", "--json", "-q", "--creds", "ann", "--password-stdin", NULL),
		CLI_OK);
	ck_assert_str_eq(a.ref, "demo:1");
	ck_assert_str_eq(a.pull.platform, "linux/amd64");
	ck_assert_str_eq(a.pull.ca_file, "ca.pem");
	ck_assert_str_eq(a.pull.username, "ann");
	ck_assert_uint_eq(a.pull.flags, HOLT_PULL_INSECURE);
	ck_assert_int_eq(a.pull.policy, HOLT_PULL_ALWAYS);
	ck_assert(a.json && a.quiet && a.password_stdin);
	/* Nothing is left of the call before. */
	ck_assert_int_eq(parse(&a, "demo", NULL), CLI_OK);
	ck_assert_ptr_null(a.pull.username);
	ck_assert(!a.json && !a.quiet && !a.password_stdin);
}
END_TEST

START_TEST(wrong_lines)
{
	struct pull_args a;

	ck_assert_int_eq(parse(&a, NULL), CLI_USAGE);
	ck_assert_int_eq(parse(&a, "one", "two", NULL), CLI_USAGE);
	ck_assert_int_eq(parse(&a, "--no-such", "one", NULL), CLI_USAGE);
	ck_assert_int_eq(parse(&a, "one", "--ca-file", NULL), CLI_USAGE);
	ck_assert_int_eq(parse(&a, "--creds", "ann", "one", NULL), CLI_USAGE);
	ck_assert_ptr_nonnull(strstr(said, "--password-stdin"));
	ck_assert_int_eq(parse(&a, "--password-stdin", "one", NULL), CLI_USAGE);
	ck_assert_int_eq(parse(&a, "--creds", "", "--password-stdin", "one", NULL), CLI_USAGE);
	/* What stood there may be a secret, so it is not repeated. */
	ck_assert_int_eq(parse(&a, "--creds", "ann:s3cret", "one", NULL), CLI_USAGE);
	ck_assert_ptr_null(strstr(said, "s3cret"));
	ck_assert_ptr_nonnull(strstr(said, "--password-stdin"));
}
END_TEST

static int password(struct pull_args *a, const void *text, size_t len)
{
	FILE *in = tmpfile();

	ck_assert_ptr_nonnull(in);
	ck_assert_uint_eq(fwrite(text, 1, len, in), len);
	rewind(in);
	ck_assert_ptr_nonnull(freopen("/dev/null", "w", stderr));
	const int status = pull_args_password(a, in);
	(void)fclose(in);
	return status;
}

START_TEST(passwords)
{
	static char large[PULL_PASSWORD_MAX + 2];
	static const struct {
		const char *given;
		const char *wanted; /* NULL: refused */
	} table[] = {{"secret\n", "secret"}, {"secret", "secret"}, {"secret\r\n", "secret"},
		{" a b ", " a b "}, {"", NULL}, {"\n", NULL}, {"a\nb\n", NULL}, {"a\n\n", NULL}};
	struct pull_args a = {.pull = HOLT_PULL_OPTIONS_INIT};

	for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
		const int status = password(&a, table[i].given, strlen(table[i].given));

		ck_assert_msg(status == (table[i].wanted ? CLI_OK : CLI_FAILED), "%zu", i);
		if (table[i].wanted)
			ck_assert_str_eq(a.pull.password, table[i].wanted);
		pull_args_forget(&a);
		ck_assert_ptr_null(a.pull.password);
	}
	ck_assert_int_eq(password(&a, "a\0b", 3), CLI_FAILED);
	memset(large, 'x', sizeof large);
	ck_assert_int_eq(password(&a, large, PULL_PASSWORD_MAX), CLI_OK);
	ck_assert_uint_eq(strlen(a.pull.password), PULL_PASSWORD_MAX);
	ck_assert_int_eq(password(&a, large, PULL_PASSWORD_MAX + 1), CLI_FAILED);
}
END_TEST

/* ---- progress ---- */

static struct pull_progress progress;
static char *drawing;
static size_t drawing_len;
static FILE *out;

static void begin(unsigned flags, unsigned rows, unsigned columns)
{
	out = open_memstream(&drawing, &drawing_len);
	ck_assert_ptr_nonnull(out);
	progress_init(&progress, out, "demo:1", flags);
	progress.rows = rows;
	progress.columns = columns;
}

/* What was written since the last call. */
static const char *drawn(void)
{
	static size_t before;
	static FILE *of;

	(void)fflush(out);
	before = of == out ? before : 0;
	of = out;
	const char *text = drawing + before;
	before = drawing_len;
	return text;
}

static void finish(void)
{
	(void)fclose(out);
	free(drawing);
	out = NULL;
}

static void tell(
	int phase, unsigned layer, unsigned layers, uint64_t done, uint64_t total, uint64_t now_ms)
{
	const holt_pull_event e = {.struct_size = sizeof e,
		.phase = phase,
		.layer = layer,
		.layers = layers,
		.digest = "sha256:0123456789abcdef",
		.changed = phase == HOLT_PULL_DONE,
		.done_bytes = done,
		.total_bytes = total};

	progress_event(&progress, &e, now_ms);
}

START_TEST(lines_in_a_pipe)
{
	begin(0, 24, 80);
	tell(HOLT_PULL_RESOLVED, 0, 3, 0, 6000000, 1);
	ck_assert_str_eq(drawn(), "pulling demo:1: 3 layers, 6.0 MB\n");
	tell(HOLT_PULL_WAITING, 1, 3, 0, 1000000, 1);
	tell(HOLT_PULL_LOADING, 3, 3, 1000, 3000000, 2);
	ck_assert_str_eq(drawn(), "");
	tell(HOLT_PULL_RETRY, 3, 3, 1500000, 3000000, 3);
	ck_assert_str_eq(drawn(), "layer 3 of 3: cut off at 1.5 MB of 3.0 MB, going on\n");
	tell(HOLT_PULL_LOADED, 3, 3, 3000000, 3000000, 4);
	ck_assert_str_eq(drawn(), "layer 3 of 3: loaded, 3.0 MB\n");
	tell(HOLT_PULL_KEPT, 2, 3, 2000000, 2000000, 5);
	ck_assert_str_eq(drawn(), "layer 2 of 3: was there before\n");
	tell(HOLT_PULL_LOADED, 1, 3, 1000000, 1000000, 6);
	tell(HOLT_PULL_CONVERTED, 1, 3, 1000000, 1000000, 7);
	ck_assert_str_eq(drawn(), "layer 1 of 3: loaded, 1.0 MB\n");
	tell(HOLT_PULL_DONE, 0, 3, 0, 0, 8);
	/* Not what was there before. */
	ck_assert_str_eq(drawn(), "pulled demo:1: 4.0 MB loaded\n");
	finish();
}
END_TEST

START_TEST(up_to_date)
{
	const holt_pull_event e = {.struct_size = sizeof e, .phase = HOLT_PULL_DONE, .digest = ""};

	begin(0, 24, 80);
	progress_event(&progress, &e, 1);
	ck_assert_str_eq(drawn(), "demo:1 is up to date\n");
	finish();
	begin(PROGRESS_NEWS, 24, 80);
	progress_event(&progress, &e, 1);
	ck_assert_str_eq(drawn(), "");
	finish();
	begin(PROGRESS_TERMINAL | PROGRESS_NEWS, 24, 80);
	progress_event(&progress, &e, 1);
	ck_assert_str_eq(drawn(), "");
	finish();
}
END_TEST

START_TEST(redrawn_on_a_terminal)
{
	begin(PROGRESS_TERMINAL, 24, 60);
	tell(HOLT_PULL_RESOLVED, 0, 2, 0, 4000000, 1000);
	ck_assert_ptr_nonnull(strstr(drawn(), "0 of 2 layers done, 0 B of 4.0 MB, 0 B/s: demo:1"));
	/* Too soon after the last one. */
	tell(HOLT_PULL_LOADING, 2, 2, 0, 2000000, 1050);
	ck_assert_str_eq(drawn(), "");
	tell(HOLT_PULL_LOADING, 2, 2, 1000000, 2000000, 1500);
	ck_assert_str_eq(drawn(),
		"\033[3A\r"
		"  1                waiting                      \033[K\n"
		"  2  0123456789ab  loading  1.0 MB of 2.0 MB    [====>   ]\033[K\n"
		"0 of 2 layers done, 1.0 MB of 4.0 MB, 2.0 MB/s: demo:1\033[K\n"
		"\033[J");
	/* Other texts come in between: all of it goes, and comes back below. */
	progress_hide(&progress);
	ck_assert_str_eq(drawn(), "\033[3A\r\033[J");
	progress_hide(&progress);
	ck_assert_str_eq(drawn(), "");
	tell(HOLT_PULL_LOADED, 2, 2, 2000000, 2000000, 1510);
	ck_assert_int_eq(drawn()[0], '\r');
	tell(HOLT_PULL_DONE, 0, 2, 0, 0, 1511);
	ck_assert_str_eq(drawn(), "\033[3A\r\033[Jpulled demo:1: 2.0 MB loaded\n");
	finish();
}
END_TEST

/* Columns of the widest line, and the number of lines. */
static unsigned measure(const char *text, size_t *ret_widest)
{
	unsigned lines = 0;
	char line[512];

	*ret_widest = 0;
	for (const char *end; (end = strchr(text, '\n')); text = end + 1, lines++) {
		char *to = line;

		for (const char *p = text; p < end; p++) {
			if (*p == '\033')
				p += strcspn(p, "AJK");
			else if (*p != '\r')
				*to++ = *p;
		}
		*to = 0;
		if (cli_columns(line) > *ret_widest)
			*ret_widest = cli_columns(line);
	}
	return lines;
}

/* A line that reaches the last column is wrapped by some terminals. */
START_TEST(fits_into_any_terminal)
{
	for (unsigned columns = 1; columns < 130; columns++) {
		size_t widest = 0;

		begin(PROGRESS_TERMINAL, 10, columns);
		tell(HOLT_PULL_RESOLVED, 0, 2, 0, 4000000, 1000);
		(void)drawn();
		tell(HOLT_PULL_LOADING, 1, 2, 1234567, 1999999999, 2000);
		ck_assert_uint_eq(measure(drawn(), &widest), 3);
		ck_assert_msg(widest < columns || columns == 1, "%u: %zu", columns, widest);
		finish();
	}
}
END_TEST

START_TEST(more_layers_than_rows)
{
	size_t widest = 0;

	begin(PROGRESS_TERMINAL, 10, 80);
	tell(HOLT_PULL_RESOLVED, 0, 500, 0, 4000000, 1000);
	(void)drawn();
	for (unsigned i = 1; i <= 500; i++)
		tell(i > 497 ? HOLT_PULL_LOADING : HOLT_PULL_WAITING, i, 500, 10, 1000, 1000);
	(void)drawn();
	/* Only those in work. */
	tell(HOLT_PULL_LOADING, 499, 500, 20, 1000, 2000);
	ck_assert_uint_eq(measure(drawn(), &widest), 4);
	for (unsigned i = 1; i <= 500; i++)
		tell(HOLT_PULL_LOADING, i, 500, 30, 1000, 2000);
	(void)drawn();
	tell(HOLT_PULL_LOADING, 499, 500, 40, 1000, 3000);
	ck_assert_uint_eq(measure(drawn(), &widest), 9);
	finish();
	/* No room at all, and numbers that make no sense. */
	begin(PROGRESS_TERMINAL, 1, 80);
	tell(HOLT_PULL_RESOLVED, 0, 3, 0, 0, 1000);
	(void)drawn();
	tell(HOLT_PULL_LOADING, 100000, 3, 5, 0, 2000);
	ck_assert_uint_eq(measure(drawn(), &widest), 1);
	tell(HOLT_PULL_LOADING, 1, 1000000, 5, 2, 3000);
	tell(99, 2, 1000000, UINT64_MAX, UINT64_MAX, 4000);
	finish();
}
END_TEST

START_TEST(names_are_harmless)
{
	begin(0, 24, 80);
	progress.name = "a\033]0;x\a";
	tell(HOLT_PULL_RESOLVED, 0, 1, 0, 10, 1);
	ck_assert_str_eq(drawn(), "pulling a\\x1b]0;x\\x07: 1 layer, 10 B\n");
	finish();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("pull_args");
	TCase *t = tcase_create("pull");
	SRunner *runner = srunner_create(s);

	tcase_add_test(t, options);
	tcase_add_test(t, wrong_lines);
	tcase_add_test(t, passwords);
	tcase_add_test(t, lines_in_a_pipe);
	tcase_add_test(t, up_to_date);
	tcase_add_test(t, redrawn_on_a_terminal);
	tcase_add_test(t, fits_into_any_terminal);
	tcase_add_test(t, more_layers_than_rows);
	tcase_add_test(t, names_are_harmless);
	suite_add_tcase(s, t);
	srunner_run_all(runner, CK_ENV);
	const int failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? 1 : 0;
}
