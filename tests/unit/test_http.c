/* SPDX-License-Identifier: Apache-2.0 */
/* One request and what becomes of it: bodies, ranges, redirects, tries, limits, cancelling. */
#include <arpa/inet.h>
#include <check.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "dir_fixture.h"
#include "http_fixture.h"
#include "image/http.h"

static struct http *client;
static struct web web, other;
static volatile int flag;

static void begin(web_fn fn)
{
	const struct http_options o = {.cancel = &flag};

	ck_assert_int_eq(http_new(&o, &client, NULL), 0);
	web_start(&web, fn, NULL);
}

static void end(void)
{
	http_free(client);
	web_stop(&web);
}

/* A request for @path of the server; fields of @q stay. */
static int ask(struct http_request q, const char *path, struct http_reply *ret, holt_error **error)
{
	char url[256];

	(void)snprintf(url, sizeof url, "%s%s", web.url, path);
	q.url = url;
	if (!q.method)
		q.method = "GET";
	if (!q.body_max && !q.sink)
		q.body_max = 1000;
	return http_do(client, &q, ret, error);
}

static void expect_lines(struct web *w, const char *want)
{
	char *lines = web_lines(w);

	ck_assert_str_eq(lines, want);
	free(lines);
}

static void hello(struct web_conn *c, const struct web_request *q, void *user)
{
	(void)user;
	web_answer(c, q, strcmp(q->target, "/gone") == 0 ? 404 : 200,
		"CONTENT-type:  text/x-y \r\nDocker-Content-Digest: sha256:ab\r\n"
		"WWW-Authenticate: Basic realm=\"a\"\r\nwww-authenticate: Other\r\n"
		"Set-Cookie: a=b\r\n",
		"hello");
}

START_TEST(answers_are_complete)
{
	auto_http_reply r = {0}, r2 = {0};

	begin(hello);
	ck_assert_int_eq(ask((struct http_request){0}, "/x", &r, NULL), 0);
	ck_assert_int_eq(r.status, 200);
	ck_assert_str_eq(r.body, "hello");
	ck_assert_uint_eq(r.body_len, 5);
	ck_assert_str_eq(r.content_type, "text/x-y");
	ck_assert_str_eq(r.content_digest, "sha256:ab");
	ck_assert_str_eq(r.challenges[0], "Basic realm=\"a\"");
	ck_assert_str_eq(r.challenges[1], "Other");
	ck_assert_ptr_null(r.challenges[2]);
	/* Not found is an answer, and no cookie comes back. */
	ck_assert_int_eq(ask((struct http_request){0}, "/gone", &r2, NULL), 0);
	ck_assert_int_eq(r2.status, 404);
	ck_assert_str_eq(r2.body, "hello");
	ck_assert_uint_eq(web_conns(&web), 1); /* the connection is kept */
	end();
}
END_TEST

START_TEST(methods_and_headers_arrive)
{
	static const char *const headers[] = {"Accept: a/b", NULL};
	auto_http_reply r = {0}, r2 = {0};

	begin(hello);
	ck_assert_int_eq(
		ask((struct http_request){.method = "HEAD", .headers = headers}, "/x", &r, NULL),
		0);
	ck_assert_int_eq(r.status, 200);
	ck_assert_uint_eq(r.body_len, 0);
	ck_assert_int_eq(ask((struct http_request){.method = "POST",
				     .form = "a=b",
				     .authorization = "Basic eA=="},
				 "/y", &r2, NULL),
		0);
	ck_assert_str_eq(r2.body, "hello");
	expect_lines(&web, "HEAD /x\nPOST /y auth=Basic eA== body=a=b\n");
	end();
}
END_TEST

/* Bodies. */

struct got {
	char text[256];
	size_t len;
	uint64_t first;
	bool any;
	int fail_with;
};

static int into(void *user, uint64_t at, const void *data, size_t len, holt_error **reterr)
{
	struct got *g = user;

	if (g->fail_with)
		return err_make(reterr, g->fail_with, "the disk is full");
	if (!g->any)
		g->first = at;
	ck_assert_uint_eq(at, g->first + g->len);
	g->any = true;
	ck_assert_uint_lt(g->len + len, sizeof g->text);
	memcpy(g->text + g->len, data, len);
	g->len += len;
	return 0;
}

static void ranges(struct web_conn *c, const struct web_request *q, void *user)
{
	(void)user;
	if (strcmp(q->target, "/part") == 0)
		web_answer(c, q, 206, "Content-Range: bytes 4-9/10\r\n", "456789");
	else if (strcmp(q->target, "/whole") == 0)
		web_answer(c, q, 200, "", "0123456789");
	else if (strcmp(q->target, "/wrong") == 0)
		web_answer(c, q, 206, "Content-Range: bytes 3-9/10\r\n", "3456789");
	else if (strcmp(q->target, "/none") == 0)
		web_answer(c, q, 206, "", "456789");
	else
		web_answer(c, q, 416, "Content-Range: bytes */10\r\n", "no");
}

START_TEST(ranges_are_checked)
{
	static const struct {
		const char *path;
		int result, status;
		uint64_t first;
		const char *text;
	} table[] = {
		{"/part", 0, 206, 4, "456789"},
		{"/whole", 0, 200, 0, "0123456789"},
		{"/wrong", -HOLT_EPROTOCOL, 0, 0, ""},
		{"/none", -HOLT_EPROTOCOL, 0, 0, ""},
		{"/beyond", 0, 416, 0, ""},
	};

	begin(ranges);
	for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
		struct got g = {0};
		auto_http_reply r = {0};
		auto_error error = NULL;
		ck_assert_int_eq(ask((struct http_request){.from = 4, .sink = into, .user = &g},
					 table[i].path, &r, &error),
			table[i].result);
		ck_assert_int_eq(r.status, table[i].status);
		ck_assert_str_eq(g.text, table[i].text);
		ck_assert_uint_eq(g.first, table[i].first);
	}
	/* A part that was not asked for. */
	struct got g = {0};
	auto_http_reply r = {0};
	auto_error error = NULL;
	ck_assert_int_eq(ask((struct http_request){.sink = into, .user = &g}, "/part", &r, &error),
		-HOLT_EPROTOCOL);
	char *lines = web_lines(&web);
	ck_assert_ptr_nonnull(strstr(lines, "GET /part range=bytes=4-\n"));
	free(lines);
	end();
}
END_TEST

static void cut(struct web_conn *c, const struct web_request *q, void *user)
{
	(void)user;
	(void)q;
	web_text(c, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n01234");
	web_cut(c);
}

/* What the sink has is not asked for again; without one, the request is. */
START_TEST(a_cut_body_is_the_callers)
{
	struct got g = {0};
	auto_http_reply r = {0}, r2 = {0};
	auto_error error = NULL;
	auto_error e2 = NULL;

	begin(cut);
	ck_assert_int_eq(ask((struct http_request){.sink = into, .user = &g}, "/x", &r, &error),
		-HOLT_EUNAVAILABLE);
	ck_assert_str_eq(g.text, "01234");
	ck_assert_uint_eq(web_count(&web), 1);
	ck_assert_int_eq(ask((struct http_request){.tries = 2}, "/y?secret=1", &r2, &e2),
		-HOLT_EUNAVAILABLE);
	ck_assert_uint_eq(web_count(&web), 3);
	ck_assert_ptr_null(strstr(holt_error_message(e2), "secret"));
	end();
}
END_TEST

START_TEST(a_sink_may_refuse)
{
	struct got g = {.fail_with = HOLT_EIO};
	auto_http_reply r = {0};
	auto_error error = NULL;

	begin(hello);
	ck_assert_int_eq(
		ask((struct http_request){.sink = into, .user = &g}, "/x", &r, &error), -HOLT_EIO);
	ck_assert_str_eq(holt_error_message(error), "the disk is full");
	ck_assert_uint_eq(web_count(&web), 1);
	end();
}
END_TEST

/* Limits. */

static void endless(struct web_conn *c, const struct web_request *q, void *user)
{
	char filler[16384];
	(void)user;

	memset(filler, 'x', sizeof filler - 1);
	filler[sizeof filler - 1] = 0;
	if (strcmp(q->target, "/headers") == 0) {
		web_text(c, "HTTP/1.1 200 OK\r\n");
		while (!c->ended) {
			web_text(c, "X: ");
			web_send(c, filler, 1000);
			web_text(c, "\r\n");
		}
	} else if (strcmp(q->target, "/challenges") == 0) {
		web_text(c, "HTTP/1.1 401 No\r\n");
		for (int i = 0; i < 40; i++)
			web_text(c, "WWW-Authenticate: Basic\r\n");
		web_text(c, "\r\n");
	} else {
		web_text(c, strcmp(q->target, "/error") == 0 ? "HTTP/1.1 404 No\r\n\r\n"
							     : "HTTP/1.1 200 OK\r\n\r\n");
		while (!c->ended)
			web_text(c, filler);
	}
	web_cut(c);
}

START_TEST(everything_has_a_limit)
{
	begin(endless);
	static const char *const paths[] = {"/headers", "/challenges", "/body"};
	for (size_t i = 0; i < 3; i++) {
		auto_http_reply r = {0};
		auto_error error = NULL;
		const int code = ask((struct http_request){.tries = 1}, paths[i], &r, &error);
		ck_assert_msg(code == -HOLT_ELIMIT, "%s: %d %s", paths[i], code,
			error ? holt_error_message(error) : "");
		ck_assert_ptr_null(r.body);
	}
	/* Of an error the beginning is enough. */
	auto_http_reply r = {0};
	ck_assert_int_eq(ask((struct http_request){0}, "/error", &r, NULL), 0);
	ck_assert_int_eq(r.status, 404);
	ck_assert_uint_le(r.body_len, 16384);
	end();
}
END_TEST

/* Redirects. */

static void echo(struct web_conn *c, const struct web_request *q, void *user)
{
	(void)user;
	web_answer(c, q, 200, "", "there");
}

static void lead(struct web_conn *c, const struct web_request *q, void *user)
{
	char where[256];
	(void)user;

	if (strcmp(q->target, "/away") == 0)
		(void)snprintf(where, sizeof where, "Location: %s/cdn?sig=1\r\n", other.url);
	else if (strcmp(q->target, "/name") == 0) /* the same server by another name */
		(void)snprintf(
			where, sizeof where, "Location: http://localhost:%u/end\r\n", web.port);
	else if (strcmp(q->target, "/here") == 0)
		(void)snprintf(where, sizeof where, "Location: /end\r\n");
	else if (strcmp(q->target, "/user") == 0)
		(void)snprintf(where, sizeof where, "Location: http://u:p@%s/end\r\n", other.host);
	else if (strcmp(q->target, "/file") == 0)
		(void)snprintf(where, sizeof where, "Location: file:///etc/passwd\r\n");
	else if (strcmp(q->target, "/nowhere") == 0)
		where[0] = 0;
	else if (strcmp(q->target, "/round") == 0)
		(void)snprintf(where, sizeof where, "Location: /round\r\n");
	else {
		web_answer(c, q, 200, "", "end");
		return;
	}
	web_answer(c, q, 307, where, "moved");
}

static void expect_redirect(const char *path, const char *method, int result)
{
	auto_http_reply r = {0};
	auto_error error = NULL;

	ck_assert_int_eq(ask((struct http_request){.method = method, .authorization = "Bearer s"},
				 path, &r, &error),
		result);
}

/* K45: also another port is another server. */
START_TEST(credentials_stay_with_their_server_K45)
{
	begin(lead);
	web_start(&other, echo, NULL);
	expect_redirect("/here", "GET", 0);
	expect_redirect("/away", "GET", 0);
	expect_redirect("/user", "HEAD", 0);
	expect_redirect("/name", "GET", 0);
	expect_lines(&other, "GET /cdn?sig=1\nHEAD /end\n");
	expect_lines(&web, "GET /here auth=Bearer s\nGET /end auth=Bearer s\n"
			   "GET /away auth=Bearer s\nHEAD /user auth=Bearer s\n"
			   "GET /name auth=Bearer s\nGET /end\n");
	web_stop(&other);
	end();
}
END_TEST

START_TEST(bad_redirects_are_refused)
{
	begin(lead);
	expect_redirect("/file", "GET", -HOLT_EPROTOCOL);
	expect_redirect("/nowhere", "GET", -HOLT_EPROTOCOL);
	expect_redirect("/here", "POST", -HOLT_EPROTOCOL);
	ck_assert_uint_eq(web_count(&web), 3);
	expect_redirect("/round", "GET", -HOLT_EPROTOCOL);
	ck_assert_uint_eq(web_count(&web), 3 + 1 + HTTP_REDIRECTS_MAX);
	end();
}
END_TEST

/* TLS. */

static void down(struct web_conn *c, const struct web_request *q, void *user)
{
	char where[256];
	(void)user;

	(void)snprintf(where, sizeof where, "Location: %s/clear\r\n", other.url);
	web_answer(c, q, strcmp(q->target, "/down") == 0 ? 307 : 200, where, "secret");
}

/* A client of the server with TLS. */
static void use_client(const char *ca_file, bool insecure)
{
	const struct http_options o = {.ca_file = ca_file, .insecure = insecure};

	http_free(client);
	ck_assert_int_eq(http_new(&o, &client, NULL), 0);
}

START_TEST(certificates_are_checked)
{
	auto_http_reply r = {0}, r2 = {0}, r3 = {0}, r4 = {0};
	auto_error error = NULL;
	auto_error e2 = NULL;

	web_start_tls(&web, down, NULL, in_dir("ca.pem"));
	use_client(NULL, false);
	ck_assert_int_eq(ask((struct http_request){0}, "/", &r, &error), -HOLT_EUNAVAILABLE);
	ck_assert(!r.unreached); /* http would be no better */
	ck_assert_str_ne(holt_error_hint(error), "");
	ck_assert_uint_eq(web_count(&web), 0);
	use_client(in_dir("ca.pem"), false);
	ck_assert_int_eq(ask((struct http_request){0}, "/", &r2, NULL), 0);
	ck_assert_str_eq(r2.body, "secret");
	use_client(NULL, true);
	ck_assert_int_eq(ask((struct http_request){0}, "/", &r3, NULL), 0);
	use_client(in_dir("none.pem"), false);
	ck_assert_int_eq(ask((struct http_request){0}, "/", &r4, &e2), -HOLT_EINVALID);
	end();
}
END_TEST

/* K45: who was told a secret over TLS sends nobody on without it. */
START_TEST(no_way_leads_down_to_http_K45)
{
	auto_http_reply r = {0}, r2 = {0};
	auto_error error = NULL;

	web_start(&other, echo, NULL);
	web_start_tls(&web, down, NULL, in_dir("ca.pem"));
	use_client(in_dir("ca.pem"), false);
	ck_assert_int_eq(
		ask((struct http_request){.authorization = "Bearer s"}, "/down", &r, &error),
		-HOLT_EPROTOCOL);
	ck_assert_uint_eq(web_count(&other), 0);
	ck_assert_int_eq(ask((struct http_request){0}, "/down", &r2, NULL), 0);
	ck_assert_str_eq(r2.body, "there");
	web_stop(&other);
	end();
}
END_TEST

/* Proxies: those of the environment, but not for this machine. */
START_TEST(proxies_are_the_environments)
{
	auto_http_reply r = {0}, r2 = {0};
	const struct http_request q = {
		.method = "GET", .url = "http://r.invalid/v2/", .body_max = 100};

	begin(hello);
	ck_assert_int_eq(setenv("http_proxy", web.url, 1), 0);
	ck_assert_int_eq(http_do(client, &q, &r, NULL), 0);
	ck_assert_int_eq(setenv("http_proxy", "http://127.0.0.1:1", 1), 0);
	ck_assert_int_eq(ask((struct http_request){0}, "/x", &r2, NULL), 0);
	expect_lines(&web, "GET http://r.invalid/v2/\nGET /x\n");
	end();
}
END_TEST

/* Tries. */

static void later(struct web_conn *c, const struct web_request *q, void *user)
{
	char headers[128], date[64];
	struct tm tm;
	(void)user;

	if (strcmp(q->target, "/never") == 0) {
		web_answer(c, q, 429, "Retry-After: 100000\r\n", "");
	} else if (strcmp(q->target, "/always") == 0) {
		web_answer(c, q, 503, "", "");
	} else if (q->nth == 1) {
		const time_t then = time(NULL) + 2;
		(void)strftime(
			date, sizeof date, "%a, %d %b %Y %H:%M:%S GMT", gmtime_r(&then, &tm));
		(void)snprintf(headers, sizeof headers, "Retry-After: %s\r\n",
			strcmp(q->target, "/date") == 0 ? date : "1");
		web_answer(c, q, strcmp(q->target, "/date") == 0 ? 503 : 429, headers, "");
	} else {
		web_answer(c, q, 200, "", "now");
	}
}

/* K45 */
START_TEST(retry_after_is_waited_for_K45)
{
	static const char *const paths[] = {"/seconds", "/date"};

	for (size_t i = 0; i < 2; i++) {
		auto_http_reply r = {0};
		begin(later);
		const uint64_t start = clock_mono_ms();
		ck_assert_int_eq(ask((struct http_request){0}, paths[i], &r, NULL), 0);
		ck_assert_str_eq(r.body, "now");
		ck_assert_uint_ge(clock_mono_ms() - start, 900);
		ck_assert_uint_eq(web_count(&web), 2);
		end();
	}
}
END_TEST

START_TEST(tries_come_to_an_end)
{
	auto_http_reply r = {0}, r2 = {0};

	begin(later);
	/* Longer than anybody would wait: told at once. */
	ck_assert_int_eq(ask((struct http_request){0}, "/never", &r, NULL), 0);
	ck_assert_int_eq(r.status, 429);
	ck_assert_uint_eq(web_count(&web), 1);
	ck_assert_int_eq(ask((struct http_request){.tries = 3}, "/always", &r2, NULL), 0);
	ck_assert_int_eq(r2.status, 503);
	ck_assert_uint_eq(web_count(&web), 4);
	end();
}
END_TEST

START_TEST(nobody_there_is_told)
{
	auto_http_reply r = {0};
	auto_error error = NULL;

	begin(hello);
	const struct http_request q = {
		.method = "GET", .url = "http://127.0.0.1:1/x?token=secret", .tries = 2};
	ck_assert_int_eq(http_do(client, &q, &r, &error), -HOLT_EUNAVAILABLE);
	ck_assert(r.unreached);
	ck_assert_ptr_nonnull(strstr(holt_error_message(error), "http://127.0.0.1:1/x"));
	ck_assert_ptr_null(strstr(holt_error_message(error), "secret"));
	/* TLS where there is none. */
	char url[64];
	(void)snprintf(url, sizeof url, "https://%s/", web.host);
	const struct http_request tls = {.method = "GET", .url = url};
	auto_http_reply r2 = {0};
	auto_error e2 = NULL;
	ck_assert_int_eq(http_do(client, &tls, &r2, &e2), -HOLT_EUNAVAILABLE);
	ck_assert(r2.unreached);
	end();
}
END_TEST

START_TEST(a_header_is_one_line)
{
	auto_http_reply r = {0};
	auto_error error = NULL;

	begin(hello);
	ck_assert_int_eq(
		ask((struct http_request){.authorization = "Bearer a\r\nX: y"}, "/x", &r, &error),
		-HOLT_EINVALID);
	ck_assert_uint_eq(web_count(&web), 0);
	end();
}
END_TEST

/* Cancelling. */

static void silent(struct web_conn *c, const struct web_request *q, void *user)
{
	char byte;
	(void)user;

	if (strcmp(q->target, "/body") == 0)
		web_text(c, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n01234");
	else if (strcmp(q->target, "/later") == 0)
		web_answer(c, q, 429, "Retry-After: 30\r\n", "");
	ck_assert_int_le(read(c->fd, &byte, 1), 0); /* until the other end goes */
	web_cut(c);
}

static void *fire(void *arg)
{
	const struct timespec t = {.tv_nsec = 300000000};

	(void)nanosleep(&t, NULL);
	*(uint64_t *)arg = clock_mono_ms();
	__atomic_store_n(&flag, 1, __ATOMIC_RELAXED);
	return NULL;
}

START_TEST(cancel_ends_every_wait)
{
	static const char *const paths[] = {"/head", "/body", "/later"};
	struct got g = {0};
	auto_http_reply r = {0};
	auto_error error = NULL;
	uint64_t fired = 0;
	pthread_t t;

	flag = 0;
	begin(silent);
	ck_assert_int_eq(pthread_create(&t, NULL, fire, &fired), 0);
	ck_assert_int_eq(
		ask((struct http_request){.sink = into, .user = &g}, paths[_i], &r, &error),
		-HOLT_ECANCELLED);
	const uint64_t ended = clock_mono_ms();
	ck_assert_int_eq(pthread_join(t, NULL), 0);
	ck_assert_uint_lt(ended - fired, 200);
	end();
	flag = 0;
}
END_TEST

int main(void)
{
	Suite *s = suite_create("http");
	TCase *c = tcase_create("http");
	const TTest *const tests[] = {answers_are_complete, methods_and_headers_arrive,
		ranges_are_checked, a_cut_body_is_the_callers, a_sink_may_refuse,
		everything_has_a_limit, credentials_stay_with_their_server_K45,
		bad_redirects_are_refused, retry_after_is_waited_for_K45, tries_come_to_an_end,
		nobody_there_is_told, a_header_is_one_line, certificates_are_checked,
		no_way_leads_down_to_http_K45, proxies_are_the_environments};

	tcase_add_checked_fixture(c, setup, teardown);
	tcase_set_timeout(c, 60);
	for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
		tcase_add_test(c, tests[i]);
	tcase_add_loop_test(c, cancel_ends_every_wait, 0, 3);
	suite_add_tcase(s, c);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	const int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
