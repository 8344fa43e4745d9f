/* SPDX-License-Identifier: Apache-2.0 */
/* Challenges and what answers them. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "http_fixture.h"
#include "image/registry_auth.h"

static char *challenge_text(char *const *lines)
{
	auto_challenge c = {0};
	auto_error error = NULL;
	const int r = challenge_pick(lines, &c, &error);

	if (r < 0) {
		ck_assert_int_eq(r, -holt_error_code(error));
		return str_printf("%d", -r == HOLT_EPROTOCOL ? 1 : -r == HOLT_EUNSUPPORTED ? 2 : 3);
	}
	return str_printf("%s|%s|%s|%s", c.scheme == CHALLENGE_BASIC ? "basic" : "bearer",
		c.realm ? c.realm : "-", c.service ? c.service : "-", c.scope ? c.scope : "-");
}

/* 1: malformed, 2: none that we can answer. */
START_TEST(challenges_are_read)
{
	static const char *const table[][2] = {
		{"Bearer realm=\"https://a/t\",service=\"s\",scope=\"repository:x:pull,push\"",
			"bearer|https://a/t|s|repository:x:pull,push"},
		{"bearer  REALM = \"https://a/t\" , Service=s", "bearer|https://a/t|s|-"},
		{"Basic realm=\"a \\\"b\\\\\"", "basic|a \"b\\|-|-"},
		{"Basic", "basic|-|-|-"},
		{"Basic ", "basic|-|-|-"},
		{"Basic realm=\"\"", "basic||-|-"},
		{"Basic realm=\"x\", Bearer realm=\"https://y\"", "bearer|https://y|-|-"},
		{"Bearer realm=\"https://y\", Basic realm=\"x\"", "bearer|https://y|-|-"},
		{"Bearer realm=\"https://1\", Bearer realm=\"https://2\"", "bearer|https://1|-|-"},
		{"Negotiate, Basic realm=x", "basic|x|-|-"},
		{"Negotiate YWJj==, Basic realm=x", "basic|x|-|-"},
		{", ,Basic realm=x,,", "basic|x|-|-"},
		{"Bearer realm=\"u\",error=\"invalid_token\",x=y", "bearer|u|-|-"},
		{"Bearer scope=\"x\"", "2"},
		{"Bearer error=\"x\", Basic realm=\"b\"", "basic|b|-|-"},
		{"Digest realm=\"x\", nonce=\"y\"", "2"},
		{"", "2"},
		{",", "2"},
		{"Basic realm=\"x", "1"},
		{"Basic realm=\"x\\", "1"},
		{"Basic realm=\"x\\\"", "1"},
		{"Basic realm=\"x\" service=\"y\"", "1"},
		{"Basic realm=x y", "1"},
		{"Basic realm=\"x\", realm=\"y\"", "1"},
		{"Bearer realm=\"https://a\x01\"", "1"},
		{"Bearer realm==\"x\"", "1"},
		{"Bearer =\"x\"", "1"},
		{"\"Bearer\" realm=x", "1"},
		{"Bearer\trealm=x", "1"},
		{"Basic realm=x;service=y", "1"},
		{"Basic realm=\xc3\xa4", "1"},
	};

	for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
		char *line = str_dup(table[i][0]);
		char *const lines[] = {line, NULL};
		auto_free char *got = challenge_text(lines);
		ck_assert_msg(strcmp(got, table[i][1]) == 0, "'%s': %s", table[i][0], got);
		mem_free(line);
	}
}
END_TEST

START_TEST(lines_come_together)
{
	char other[] = "Negotiate", basic[] = "Basic realm=\"b\"", bearer[] = "Bearer realm=\"t\"";
	char *const lines[] = {other, basic, bearer, NULL};
	auto_free char *got = challenge_text(lines);

	ck_assert_str_eq(got, "bearer|t|-|-");
	auto_free char *none = challenge_text(NULL);
	ck_assert_str_eq(none, "2");
}
END_TEST

START_TEST(challenges_have_limits)
{
	char *line = mem_zalloc(CHALLENGE_BYTES_MAX + 2);
	char *const lines[] = {line, NULL};

	memset(line, 'a', CHALLENGE_BYTES_MAX + 1);
	auto_free char *got = challenge_text(lines);
	ck_assert_str_eq(got, "1");
	for (unsigned n = CHALLENGE_PARAMS_MAX; n <= CHALLENGE_PARAMS_MAX + 1; n++) {
		size_t len = (size_t)snprintf(line, 64, "Basic ");
		for (unsigned i = 0; i < n; i++)
			len += (size_t)snprintf(line + len, 64, "%sp%u=x", i ? "," : "", i);
		auto_free char *many = challenge_text(lines);
		ck_assert_str_eq(many, n <= CHALLENGE_PARAMS_MAX ? "basic|-|-|-" : "1");
	}
	mem_free(line);
}
END_TEST

/* Answers. */

static struct web web;
static struct http *client;
static int status = 200;
static const char *answer = "{\"token\": \"T.1-a\", \"expires_in\": 60}";

static void token(struct web_conn *c, const struct web_request *q, void *user)
{
	(void)user;
	web_answer(c, q, status, "Content-Type: application/json\r\n", answer);
}

static void begin(void)
{
	const struct http_options o = {0};

	ck_assert_int_eq(http_new(&o, &client, NULL), 0);
	web_start(&web, token, NULL);
}

static void end(void)
{
	http_free(client);
	web_stop(&web);
}

/* What answers a Bearer challenge whose realm is the fixture. */
static int ask(const char *realm_tail, struct credentials who, char **ret, holt_error **error)
{
	auto_free char *realm = str_printf("%s%s", web.url, realm_tail);
	char service[] = "my service";
	const struct challenge c = {.scheme = CHALLENGE_BEARER, .realm = realm, .service = service};
	const struct auth_where w = {
		.http = client, .url = "http://127.0.0.1:1", .scope = "repository:a/b:pull"};

	return auth_answer(&w, &c, &who, ret, error);
}

static void expect_lines(const char *want)
{
	char *lines = web_lines(&web);

	ck_assert_str_eq(lines, want);
	free(lines);
}

static char user[] = "me", password[] = "p&w:\xc3\xa4", refresh[] = "r+/=&x";

/* K45 */
START_TEST(tokens_are_asked_for_K45)
{
	char *a = NULL, *b = NULL, *c = NULL;

	begin();
	ck_assert_int_eq(ask("/t", (struct credentials){0}, &a, NULL), 0);
	ck_assert_str_eq(a, "Bearer T.1-a");
	ck_assert_int_eq(
		ask("/t?x=y", (struct credentials){.user = user, .password = password}, &b, NULL),
		0);
	answer = "{\"access_token\": \"acc\", \"token\": null}";
	ck_assert_int_eq(ask("/t", (struct credentials){.identity_token = refresh}, &c, NULL), 0);
	ck_assert_str_eq(c, "Bearer acc");
	expect_lines("GET /t?service=my%20service&scope=repository:a/b:pull\n"
		     "GET /t?x=y&service=my%20service&scope=repository:a/b:pull&account=me "
		     "auth=Basic bWU6cCZ3OsOk\n"
		     "POST /t body=grant_type=refresh_token&client_id=holt&service=my%20service"
		     "&scope=repository:a/b:pull&refresh_token=r%2B/%3D%26x\n");
	secret_free(a);
	secret_free(b);
	secret_free(c);
	end();
}
END_TEST

START_TEST(bad_tokens_are_refused)
{
	static const char *const answers[] = {"", "{}", "[]", "{\"token\": 1}", "{\"token\": \"\"}",
		"{\"token\": \"a b\"}", "{\"token\": \"a\\r\\nX: y\"}", "<html>"};

	begin();
	for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
		char *got = NULL;
		auto_error error = NULL;
		answer = answers[i];
		ck_assert_int_eq(ask("/t", (struct credentials){0}, &got, &error), -HOLT_EPROTOCOL);
		ck_assert_ptr_null(got);
	}
	end();
}
END_TEST

START_TEST(refusals_are_told_without_secrets)
{
	static const struct {
		int status, code;
	} table[] = {{401, HOLT_EDENIED}, {403, HOLT_EDENIED}, {404, HOLT_EPROTOCOL}};

	begin();
	answer = "{\"details\": \"p&w\"}";
	for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
		char *got = NULL;
		auto_error error = NULL;
		status = table[i].status;
		ck_assert_int_eq(ask("/t", (struct credentials){.user = user, .password = password},
					 &got, &error),
			-table[i].code);
		ck_assert_ptr_null(strstr(holt_error_message(error), "p&w"));
	}
	end();
}
END_TEST

START_TEST(secrets_need_tls)
{
	struct credentials who = {.user = user, .password = password};
	char realm[] = "http://tokens.invalid/t";
	const struct challenge bearer = {.scheme = CHALLENGE_BEARER, .realm = realm};
	const struct challenge basic = {.scheme = CHALLENGE_BASIC};
	struct auth_where w = {.url = "https://a.invalid", .scope = "s"};
	char *got = NULL;

	ck_assert_int_eq(auth_answer(&w, &bearer, &who, &got, NULL), -HOLT_EDENIED);
	w.url = "http://a.invalid:5000";
	ck_assert_int_eq(auth_answer(&w, &basic, &who, &got, NULL), -HOLT_EDENIED);
	w.url = "http://127.0.0.1.example:5000";
	ck_assert_int_eq(auth_answer(&w, &basic, &who, &got, NULL), -HOLT_EDENIED);
	ck_assert_ptr_null(got);
	static const char *const fine[] = {
		"https://a.invalid", "http://localhost:5000", "http://127.8.8.8", "http://[::1]:1"};
	for (size_t i = 0; i < sizeof fine / sizeof *fine; i++) {
		w.url = fine[i];
		ck_assert_int_eq(auth_answer(&w, &basic, &who, &got, NULL), 0);
		ck_assert_str_eq(got, "Basic bWU6cCZ3OsOk");
		secret_free(take_ptr(got));
	}
	w.url = "http://a.invalid";
	w.insecure = true;
	ck_assert_int_eq(auth_answer(&w, &basic, &who, &got, NULL), 0);
	secret_free(got);
}
END_TEST

START_TEST(nobody_cannot_log_in)
{
	const struct credentials nobody = {0};
	char name[] = "a:b";
	const struct credentials colon = {.user = name, .password = password};
	const struct challenge basic = {.scheme = CHALLENGE_BASIC};
	const struct auth_where w = {.url = "https://a.invalid", .scope = "s"};
	char *got = NULL;
	auto_error error = NULL;

	ck_assert_int_eq(auth_answer(&w, &basic, &nobody, &got, &error), -HOLT_EDENIED);
	ck_assert_ptr_nonnull(strstr(holt_error_hint(error), "docker login"));
	ck_assert_int_eq(auth_answer(&w, &basic, &colon, &got, NULL), -HOLT_EINVALID);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("registry_auth");
	TCase *c = tcase_create("registry_auth");
	const TTest *const tests[] = {challenges_are_read, lines_come_together,
		challenges_have_limits, tokens_are_asked_for_K45, bad_tokens_are_refused,
		refusals_are_told_without_secrets, secrets_need_tls, nobody_cannot_log_in};

	for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
		tcase_add_test(c, tests[i]);
	suite_add_tcase(s, c);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	const int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
