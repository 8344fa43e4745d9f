/* SPDX-License-Identifier: Apache-2.0 */
/* Docker's rules of copying (K09): every combination of what the two sides can be. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "box/copy_plan.h"

#define A_FILE                                \
	{                                     \
		"/src/f", "/src/f", COPY_FILE \
	}
#define LINK_TO                                     \
	{                                           \
		"/src/l", "/elsewhere/f", COPY_FILE \
	} /* followed */
#define A_DIR                                \
	{                                    \
		"/src/d", "/src/d", COPY_DIR \
	}
#define SLASH                                 \
	{                                     \
		"/src/d/", "/src/d", COPY_DIR \
	}
#define INSIDE                                 \
	{                                      \
		"/src/d/.", "/src/d", COPY_DIR \
	}
#define DOT                             \
	{                               \
		".", "/src/d", COPY_DIR \
	}
#define UP                               \
	{                                \
		"..", "/src/d", COPY_DIR \
	}
#define UP_IN                                \
	{                                    \
		"x/../.", "/src/d", COPY_DIR \
	}
#define ROOT                       \
	{                          \
		"/", "/", COPY_DIR \
	}
#define DOTS                          \
	{                             \
		"///.", "/", COPY_DIR \
	}
#define NONE                                     \
	{                                        \
		"/src/n", "/src/n", COPY_MISSING \
	}
#define DEVICE                                 \
	{                                      \
		"/src/c", "/src/c", COPY_OTHER \
	}

#define TO_NEW                                   \
	{                                        \
		"/dst/n", "/dst/n", COPY_MISSING \
	}
#define TO_NEW_SLASH                              \
	{                                         \
		"/dst/n/", "/dst/n", COPY_MISSING \
	}
#define TO_NEW_DOT                                 \
	{                                          \
		"/dst/n/.", "/dst/n", COPY_MISSING \
	}
#define TO_DIR                               \
	{                                    \
		"/dst/d", "/dst/d", COPY_DIR \
	}
#define TO_DIR_SLASH                          \
	{                                     \
		"/dst/d/", "/dst/d", COPY_DIR \
	}
#define TO_FILE                               \
	{                                     \
		"/dst/f", "/dst/f", COPY_FILE \
	}
#define TO_SLASHED                             \
	{                                      \
		"/dst/f/", "/dst/f", COPY_FILE \
	}
#define TO_DEVICE                              \
	{                                      \
		"/dst/c", "/dst/c", COPY_OTHER \
	}
#define TO_LINK_DIR                           \
	{                                     \
		"/dst/l", "/real/d", COPY_DIR \
	}
#define TO_LINK_FILE                           \
	{                                      \
		"/dst/l", "/real/f", COPY_FILE \
	}
#define TO_DANGLING                               \
	{                                         \
		"/dst/l", "/real/n", COPY_MISSING \
	}
#define TO_ROOT                    \
	{                          \
		"/", "/", COPY_DIR \
	}
#define TO_TOP                           \
	{                                \
		"/n", "/n", COPY_MISSING \
	}

static const struct row {
	struct copy_facts source;
	struct copy_facts target;
	const char *plan; /* from_dir from_name -> to_dir as */
	int code; /* or why not */
} rows[] = {
	{A_FILE, TO_NEW, "/src f -> /dst n", 0},
	{A_FILE, TO_NEW_SLASH, NULL, HOLT_ENOT_FOUND},
	{A_FILE, TO_NEW_DOT, NULL, HOLT_ENOT_FOUND},
	{A_FILE, TO_DIR, "/src f -> /dst/d f", 0},
	{A_FILE, TO_DIR_SLASH, "/src f -> /dst/d f", 0},
	{A_FILE, TO_FILE, "/src f -> /dst f", 0},
	{A_FILE, TO_SLASHED, NULL, HOLT_EINVALID},
	{A_FILE, TO_DEVICE, NULL, HOLT_EINVALID},
	{A_FILE, TO_LINK_DIR, "/src f -> /real/d f", 0},
	{A_FILE, TO_LINK_FILE, "/src f -> /real f", 0},
	{A_FILE, TO_DANGLING, "/src f -> /real n", 0},
	{A_FILE, TO_ROOT, "/src f -> / f", 0},
	{A_FILE, TO_TOP, "/src f -> / n", 0},
	{LINK_TO, TO_NEW, "/elsewhere f -> /dst n", 0},
	{LINK_TO, TO_DIR, "/elsewhere f -> /dst/d l", 0},
	{A_DIR, TO_NEW, "/src d -> /dst n", 0},
	{A_DIR, TO_NEW_SLASH, "/src d -> /dst n", 0},
	{A_DIR, TO_NEW_DOT, "/src d -> /dst n", 0},
	{A_DIR, TO_DIR, "/src d -> /dst/d d", 0},
	{A_DIR, TO_DIR_SLASH, "/src d -> /dst/d d", 0},
	{A_DIR, TO_FILE, NULL, HOLT_EINVALID},
	{A_DIR, TO_SLASHED, NULL, HOLT_EINVALID},
	{A_DIR, TO_DEVICE, NULL, HOLT_EINVALID},
	{A_DIR, TO_LINK_DIR, "/src d -> /real/d d", 0},
	{A_DIR, TO_LINK_FILE, NULL, HOLT_EINVALID},
	{A_DIR, TO_DANGLING, "/src d -> /real n", 0},
	{A_DIR, TO_ROOT, "/src d -> / d", 0},
	{A_DIR, TO_TOP, "/src d -> / n", 0},
	{SLASH, TO_NEW, "/src d -> /dst n", 0},
	{SLASH, TO_DIR, "/src d -> /dst/d d", 0},
	{SLASH, TO_FILE, NULL, HOLT_EINVALID},
	{INSIDE, TO_NEW, "/src d -> /dst n", 0},
	{INSIDE, TO_NEW_SLASH, "/src d -> /dst n", 0},
	{INSIDE, TO_DIR, "/src d -> /dst/d .", 0},
	{INSIDE, TO_DIR_SLASH, "/src d -> /dst/d .", 0},
	{INSIDE, TO_FILE, NULL, HOLT_EINVALID},
	{INSIDE, TO_LINK_DIR, "/src d -> /real/d .", 0},
	{INSIDE, TO_ROOT, "/src d -> / .", 0},
	{DOT, TO_DIR, "/src d -> /dst/d .", 0},
	{DOT, TO_NEW, "/src d -> /dst n", 0},
	{UP, TO_DIR, "/src d -> /dst/d d", 0},
	{UP_IN, TO_DIR, "/src d -> /dst/d .", 0},
	{ROOT, TO_DIR, "/ . -> /dst/d .", 0},
	{ROOT, TO_NEW, "/ . -> /dst n", 0},
	{DOTS, TO_DIR, "/ . -> /dst/d .", 0},
	{NONE, TO_NEW, NULL, HOLT_ENOT_FOUND},
	{NONE, TO_DIR, NULL, HOLT_ENOT_FOUND},
	{NONE, TO_FILE, NULL, HOLT_ENOT_FOUND},
	{DEVICE, TO_NEW, NULL, HOLT_EINVALID},
	{DEVICE, TO_DIR, NULL, HOLT_EINVALID},
	{{"/src/f/", "/src/f", COPY_FILE}, TO_NEW, NULL, HOLT_EINVALID},
	{{"/src/f/.", "/src/f", COPY_FILE}, TO_DIR, NULL, HOLT_EINVALID},
	{{"/src/...", "/src/...", COPY_FILE}, TO_DIR, "/src ... -> /dst/d ...", 0},
	{{"//src///d//", "/src/d", COPY_DIR}, TO_DIR, "/src d -> /dst/d d", 0},
	{{"/src/-x", "/src/-x", COPY_FILE}, TO_DIR, "/src -x -> /dst/d -x", 0},
	{{"f", "/src/f", COPY_FILE}, TO_DIR, "/src f -> /dst/d f", 0},
};

START_TEST(k09_every_combination)
{
	const struct row *row = &rows[_i];
	struct copy_plan plan = {0};
	auto_error e = NULL;
	char text[256];

	const int r = copy_plan_make(&row->source, &row->target, &plan, &e);
	ck_assert_msg(r == -row->code, "'%s' to '%s': %d instead of %d: %s", row->source.path,
		row->target.path, r, -row->code, holt_error_message(e));
	if (row->code) {
		ck_assert_int_eq(holt_error_code(e), row->code);
		ck_assert_str_eq(holt_error_stage(e), "copy");
		ck_assert_str_ne(holt_error_object(e), "");
		ck_assert_str_ne(holt_error_hint(e), "");
		return;
	}
	snprintf(text, sizeof text, "%s %s -> %s %s", plan.from_dir, plan.from_name, plan.to_dir,
		plan.as);
	ck_assert_msg(strcmp(text, row->plan) == 0, "'%s' to '%s': %s instead of %s",
		row->source.path, row->target.path, text, row->plan);
	copy_plan_done(&plan);
}
END_TEST

START_TEST(forms_that_ask_for_a_directory)
{
	static const char *const yes[] = {"a/", "a/.", "a/./", "a/..", ".", "..", "/", "//", "/."};
	static const char *const no[] = {"a", "/a", "./a", "../a", "a.", "a/...", "a/.b", "..."};

	for (size_t i = 0; i < sizeof yes / sizeof yes[0]; i++)
		ck_assert_msg(copy_path_wants_dir(yes[i]), "%s", yes[i]);
	for (size_t i = 0; i < sizeof no / sizeof no[0]; i++)
		ck_assert_msg(!copy_path_wants_dir(no[i]), "%s", no[i]);
}
END_TEST

START_TEST(without_memory)
{
	struct copy_plan plan = {0};
	auto_error e = NULL;

	for (unsigned long n = 1; n <= 4; n++) {
		mem_fail_at(n);
		ck_assert_int_eq(copy_plan_make(&rows[0].source, &rows[0].target, &plan, &e),
			-HOLT_ENO_MEMORY);
		mem_fail_at(0);
		e = NULL;
	}
	ck_assert_ptr_null(plan.from_dir);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("copy_plan");
	TCase *tc = tcase_create("copy_plan");

	tcase_add_loop_test(tc, k09_every_combination, 0, sizeof rows / sizeof rows[0]);
	tcase_add_test(tc, forms_that_ask_for_a_directory);
	tcase_add_test(tc, without_memory);
	suite_add_tcase(s, tc);
	SRunner *sr = srunner_create(s);
	srunner_run_all(sr, CK_NORMAL);
	const int failed = srunner_ntests_failed(sr);
	srunner_free(sr);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
