/* SPDX-License-Identifier: Apache-2.0 */
/* What is run: docker's rules for Entrypoint, Cmd and Env (K19, K20). */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "box/process.h"

#define LIST(...)  ((char *[]){__VA_ARGS__, NULL})
#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

static char empty_word[] = "";

/* The command as one line, or the message of the error. */
static const char *command(const struct image_config *image, const struct process_wish *wish)
{
	static char line[512];
	struct process p = {0};
	auto_error e = NULL;

	line[0] = 0;
	if (process_build(image, "host", wish, &p, &e) < 0) {
		snprintf(line, sizeof line, "error: %s", holt_error_message(e));
		return line;
	}
	for (size_t i = 0; p.argv[i]; i++)
		snprintf(line + strlen(line), sizeof line - strlen(line), "%s[%s]", i ? " " : "",
			p.argv[i]);
	process_done(&p);
	return line;
}

START_TEST(entrypoint_and_cmd)
{
	char ep[] = "ep", e1[] = "e1", c0[] = "cmd", c1[] = "c1";
	struct image_config both = {.entrypoint = LIST(ep, e1), .cmd = LIST(c0, c1)};
	struct image_config only_cmd = {.cmd = LIST(c0, c1)};
	struct image_config only_ep = {.entrypoint = LIST(ep)};
	struct image_config none = {0};
	const char *const *args = WORDS("a", "b");
	const char *const *own = WORDS("own");
	const char *const no_words[] = {NULL};
	const struct {
		struct image_config *image;
		const char *const *argv, *const *entrypoint;
		const char *out;
	} t[] = {
		{&both, NULL, NULL, "[ep] [e1] [cmd] [c1]"},
		{&both, args, NULL, "[ep] [e1] [a] [b]"},
		{&both, NULL, own, "[own]"},
		{&both, args, own, "[own] [a] [b]"},
		{&both, args, no_words, "[a] [b]"},
		{&both, NULL, no_words, "error: no command given"},
		{&only_cmd, NULL, NULL, "[cmd] [c1]"},
		{&only_cmd, args, NULL, "[a] [b]"},
		{&only_cmd, NULL, own, "[own]"},
		{&only_ep, NULL, NULL, "[ep]"},
		{&only_ep, args, NULL, "[ep] [a] [b]"},
		{&none, args, NULL, "[a] [b]"},
		{&none, NULL, NULL, "error: no command given"},
	};

	for (size_t i = 0; i < sizeof t / sizeof t[0]; i++) {
		const struct process_wish wish = {
			.argv = t[i].argv, .entrypoint = t[i].entrypoint, .image_command = true};
		ck_assert_str_eq(command(t[i].image, &wish), t[i].out);
	}
	/* Without image_command only the words given count. */
	const struct process_wish exec = {.argv = args};
	ck_assert_str_eq(command(&both, &exec), "[a] [b]");
	const struct process_wish nothing = {0};
	ck_assert_str_eq(command(&both, &nothing), "error: no command given");
}
END_TEST

/* Docker's table (K19): what the image has in each of its forms, against what the caller gives. */
START_TEST(every_form_of_entrypoint_and_cmd)
{
	static char ep[] = "ep", e1[] = "e1", sh[] = "/bin/sh", c[] = "-c", eps[] = "ep sh",
		    cmd[] = "cmd", c1[] = "c1", cmds[] = "cmd sh";
	char *none[] = {NULL};
	char **const eps_of[] = {NULL, none, LIST(ep, e1), LIST(sh, c, eps)};
	char **const cmds_of[] = {NULL, none, LIST(cmd, c1), LIST(sh, c, cmds)};
	static const char *const ep_line[] = {"", "", "[ep] [e1]", "[/bin/sh] [-c] [ep sh]"};
	static const char *const cmd_line[] = {"", "", "[cmd] [c1]", "[/bin/sh] [-c] [cmd sh]"};
	const char *const *own = WORDS("own");
	const char *const *args = WORDS("a");
	const char *const no_words[] = {NULL};
	/* These hide the image's altogether. */
	const struct {
		const char *const *argv, *const *entrypoint;
		const char *out;
	} over[] = {{NULL, own, "[own]"}, {args, own, "[own] [a]"}, {no_words, own, "[own]"},
		{NULL, no_words, "error: no command given"}, {args, no_words, "[a]"}};

	for (int i = 0; i < 16; i++) {
		struct image_config image = {.entrypoint = eps_of[i / 4], .cmd = cmds_of[i % 4]};
		const char *e = ep_line[i / 4];
		const char *d = cmd_line[i % 4];
		char want[128];

		struct process_wish wish = {.image_command = true};
		snprintf(want, sizeof want, "%s%s%s", e, *e && *d ? " " : "", d);
		ck_assert_str_eq(command(&image, &wish), *want ? want : "error: no command given");
		wish.argv = no_words;
		ck_assert_str_eq(command(&image, &wish), *want ? want : "error: no command given");
		wish.argv = args;
		snprintf(want, sizeof want, "%s%s[a]", e, *e ? " " : "");
		ck_assert_str_eq(command(&image, &wish), want);
		for (size_t j = 0; j < sizeof over / sizeof over[0]; j++) {
			wish.argv = over[j].argv;
			wish.entrypoint = over[j].entrypoint;
			ck_assert_str_eq(command(&image, &wish), over[j].out);
		}
	}
}
END_TEST

START_TEST(env_is_merged_by_name)
{
	char gone[] = "GONE=1", a[] = "A=image", b[] = "B=1", dup[] = "B=2", odd[] = "ODD",
	     noname[] = "=x";
	struct image_config image = {.env = LIST(a, gone, b, dup, odd, noname, empty_word)};
	const struct process_wish wish = {.argv = WORDS("true"),
		.env = WORDS("A=mine=1\n2", "GONE", "C=\xff", "AA=x", "NEVER")};
	struct process p = {0};

	ck_assert_int_eq(process_build(&image, "box", &wish, &p, NULL), 0);
	static const char *const want[] = {"HOSTNAME=box", "A=mine=1\n2", "B=2", "C=\xff", "AA=x"};
	for (size_t i = 0; i < 5; i++)
		ck_assert_str_eq(p.env[i], want[i]);
	ck_assert_ptr_null(p.env[5]);
	process_done(&p);
}
END_TEST

START_TEST(env_without_a_name_is_refused)
{
	static const char *const bad[] = {"=x", "=", ""};
	const struct image_config image = {0};

	for (size_t i = 0; i < 3; i++) {
		const struct process_wish wish = {.argv = WORDS("true"), .env = WORDS(bad[i])};
		struct process p = {0};
		auto_error e = NULL;
		ck_assert_int_eq(process_build(&image, "h", &wish, &p, &e), -HOLT_EINVALID);
		ck_assert_str_eq(holt_error_stage(e), "exec");
		ck_assert_str_ne(holt_error_hint(e), "");
		ck_assert_ptr_null(p.argv);
	}
}
END_TEST

START_TEST(sizes_have_limits)
{
	const struct image_config image = {0};
	auto_free char *big = mem_zalloc(131073);
	struct process p = {0};

	memset(big, 'x', 131071);
	const struct process_wish fits = {.argv = WORDS("a", big)};
	ck_assert_int_eq(process_build(&image, "h", &fits, &p, NULL), 0);
	process_done(&p);
	big[131071] = 'x';
	ck_assert_int_eq(process_build(&image, "h", &fits, &p, NULL), -HOLT_ELIMIT);
	big[131071] = 0;
	const char *many[20];
	for (int i = 0; i < 19; i++)
		many[i] = big;
	many[19] = NULL;
	const struct process_wish total = {.argv = many};
	ck_assert_int_eq(process_build(&image, "h", &total, &p, NULL), -HOLT_ELIMIT);
}
END_TEST

START_TEST(cwd_and_user_come_from_image_or_wish)
{
	char dir[] = "/srv", user[] = "u:g";
	const struct image_config image = {.working_dir = dir, .user = user};
	const struct process_wish plain = {.argv = WORDS("x")};
	const struct process_wish own = {.argv = WORDS("x"), .cwd = "/tmp", .user = "0"};
	const struct process_wish relative = {.argv = WORDS("x"), .cwd = "tmp"};
	struct process_wish first = own;
	struct process p = {0};

	ck_assert_int_eq(process_build(&image, "h", &plain, &p, NULL), 0);
	ck_assert_str_eq(p.cwd, "/srv");
	ck_assert_str_eq(p.user, "u:g");
	ck_assert_uint_eq(p.flags, WIRE_EXEC_MKCWD);
	process_done(&p);
	ck_assert_int_eq(process_build(&image, "h", &own, &p, NULL), 0);
	ck_assert_str_eq(p.cwd, "/tmp");
	ck_assert_str_eq(p.user, "0");
	/* It has to be there, but for what a box is made for. */
	ck_assert_uint_eq(p.flags, 0);
	process_done(&p);
	first.image_command = true;
	ck_assert_int_eq(process_build(&image, "h", &first, &p, NULL), 0);
	ck_assert_uint_eq(p.flags, WIRE_EXEC_MKCWD);
	process_done(&p);
	ck_assert_int_eq(process_build(&image, "h", &relative, &p, NULL), -HOLT_EINVALID);
}
END_TEST

START_TEST(every_allocation_may_fail)
{
	char a[] = "A=1", c0[] = "cmd";
	struct image_config image = {.env = LIST(a), .cmd = LIST(c0)};
	const struct process_wish wish = {.image_command = true, .env = WORDS("B=2")};
	int r = -1;
	unsigned long n = 1;

	for (; r != 0 && n < 100; n++) {
		struct process p = {0};
		auto_error e = NULL;

		mem_fail_at(n);
		r = process_build(&image, "h", &wish, &p, &e);
		mem_fail_at(0);
		if (r != 0)
			ck_assert_int_eq(r, -HOLT_ENO_MEMORY);
		process_done(&p);
	}
	ck_assert_int_eq(r, 0);
	ck_assert_uint_gt(n, 8);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {entrypoint_and_cmd, every_form_of_entrypoint_and_cmd,
		env_is_merged_by_name, env_without_a_name_is_refused, sizes_have_limits,
		cwd_and_user_come_from_image_or_wish, every_allocation_may_fail};
	Suite *s = suite_create("process");
	TCase *c = tcase_create("process");

	for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++)
		tcase_add_test(c, tests[i]);
	suite_add_tcase(s, c);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	const int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
