/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Repositories: manifests, blobs, logins that are learnt and expire, mirrors. The servers are
 * functions of this file; what they were asked is compared as text.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/digest.h"
#include "base/mem.h"
#include "base/str.h"
#include "dir_fixture.h"
#include "http_fixture.h"
#include "image/registry.h"

#define MANIFEST "{\"schemaVersion\": 2, \"layers\": []}"
#define SCHEMA1  "{\"schemaVersion\": 1, \"fsLayers\": []}"
#define BLOB     "0123456789abcdef"
#define ACCEPT                                                                                  \
	"application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, " \
	"application/vnd.docker.distribution.manifest.list.v2+json, "                           \
	"application/vnd.docker.distribution.manifest.v2+json"

static struct web web, mirror;
static struct registries *registries;
static struct registry *registry;
static struct registry_link *link_;
static char manifest_digest[DIGEST_STR_LEN + 1];
static struct descriptor blob = {.size = sizeof BLOB - 1};

static void begin(void)
{
	setup();
	ck_assert_int_eq(setenv("DOCKER_CONFIG", dir, 1), 0);
	ck_assert_int_eq(digest_of(MANIFEST, sizeof MANIFEST - 1, manifest_digest), 0);
	ck_assert_int_eq(digest_of(BLOB, sizeof BLOB - 1, blob.digest), 0);
}

/* The repository "team/app" of @w, with the options of @o. */
static void open_at(const struct web *w, struct registry_options o)
{
	auto_free char *name = str_printf("%s/team/app", w->host);
	auto_ref ref = {0};

	o.registries = registries;
	ck_assert_int_eq(ref_parse(name, &ref, NULL), 0);
	ck_assert_int_eq(registry_open(&ref, &o, &registry, NULL), 0);
	ck_assert_int_eq(registry_link_open(registry, NULL, &link_, NULL), 0);
}

static void begin_at(web_fn fn)
{
	web_start(&web, fn, NULL);
	open_at(&web, (struct registry_options){0});
}

static void close_all(void)
{
	registry_link_close(link_);
	registry_close(registry);
	registries_free(registries);
	web_stop(&web);
}

static void begin_mirrored(web_fn at_mirror, web_fn at_registry)
{
	web_start(&mirror, at_mirror, NULL);
	web_start(&web, at_registry, NULL);
	auto_free char *text = str_printf(
		"registries: {'%s': {mirrors: ['%s/cache']}}", web.host, mirror.url);
	put_file(dir_fd, "r.yaml", text, strlen(text));
	ck_assert_int_eq(registries_read(in_dir("r.yaml"), &registries, NULL), 0);
	open_at(&web, (struct registry_options){0});
}

static void expect_lines(struct web *w, const char *want)
{
	char *lines = web_lines(w);

	ck_assert_str_eq(lines, want);
	free(lines);
}

static int get(const char *reference, struct registry_manifest *ret, holt_error **error)
{
	return registry_manifest(link_, reference, ret, error);
}

static void expect_manifest(const char *reference)
{
	struct registry_manifest m = {0};
	auto_error error = NULL;
	const int r = get(reference, &m, &error);

	ck_assert_msg(r == 0, "%d %s", r, error ? holt_error_message(error) : "");
	ck_assert_str_eq(m.text, MANIFEST);
	ck_assert_uint_eq(m.len, sizeof MANIFEST - 1);
	ck_assert_str_eq(m.digest, manifest_digest);
	mem_free(m.text);
}

static void expect_failure(const char *reference, int code)
{
	struct registry_manifest m = {0};
	auto_error error = NULL;

	ck_assert_int_eq(get(reference, &m, &error), -code);
	ck_assert_ptr_null(m.text);
	ck_assert_str_ne(holt_error_message(error), "");
}

struct got {
	char text[64];
	uint64_t len;
};

static int into(void *user, uint64_t at, const void *data, size_t len, holt_error **reterr)
{
	struct got *g = user;
	(void)reterr;

	ck_assert_uint_le(at + len, sizeof g->text - 1);
	ck_assert(at == 0 || at == g->len);
	memcpy(g->text + at, data, len);
	g->len = at + len;
	return 0;
}

static int load(struct registry_link *l, uint64_t from, struct got *g, holt_error **error)
{
	g->len = from;
	memcpy(g->text, BLOB, from);
	return registry_blob(l, &blob, from, into, g, error);
}

static void expect_blob(uint64_t from)
{
	struct got g = {0};
	auto_error error = NULL;
	const int r = load(link_, from, &g, &error);

	ck_assert_msg(r == 0, "%d %s", r, error ? holt_error_message(error) : "");
	ck_assert_str_eq(g.text, BLOB);
}

/* A registry that asks nobody's name. */
static void give(struct web_conn *c, const struct web_request *q)
{
	char headers[256];

	if (strstr(q->target, "/blobs/")) {
		web_answer(c, q, 200, "", BLOB);
		return;
	}
	(void)snprintf(headers, sizeof headers, "Docker-Content-Digest: %s\r\n", manifest_digest);
	web_answer(c, q, 200, headers, MANIFEST);
}

static void open_registry(struct web_conn *c, const struct web_request *q, void *user)
{
	(void)user;
	if (strstr(q->target, "/manifests/")) {
		char *accept = web_header(q, "Accept");
		ck_assert_str_eq(accept, ACCEPT);
		free(accept);
	}
	give(c, q);
}

START_TEST(manifests_and_blobs_are_read)
{
	auto_free char *want = str_printf("GET /v2/team/app/manifests/latest\n"
					  "GET /v2/team/app/manifests/%s\n"
					  "GET /v2/team/app/blobs/%s\n",
		manifest_digest, blob.digest);

	begin_at(open_registry);
	expect_manifest("latest");
	expect_manifest(manifest_digest);
	expect_blob(0);
	expect_lines(&web, want);
	close_all();
}
END_TEST

/* What a server says, whole. */
static int status = 200;
static const char *headers = "", *body = "";

static void says(struct web_conn *c, const struct web_request *q, void *user)
{
	(void)user;
	web_answer(c, q, status, headers, body);
}

START_TEST(wrong_answers_have_their_codes)
{
	static const struct {
		int status;
		const char *headers, *body;
		int code;
	} table[] = {
		{404, "", "{\"errors\":[{\"code\":\"X\",\"message\":\"no\\u001b[1m\"}]}",
			HOLT_ENOT_FOUND},
		{403, "", "", HOLT_EDENIED},
		{401, "", "", HOLT_EUNSUPPORTED},
		{401, "WWW-Authenticate: Basic realm=\"x\r\n", "", HOLT_EPROTOCOL},
		{401, "WWW-Authenticate: Basic realm=\"x\"\r\n", "", HOLT_EDENIED},
		{400, "", "", HOLT_EPROTOCOL},
		{204, "", "", HOLT_EPROTOCOL},
		{200, "", "<html>log in to the hotel</html>", HOLT_EPROTOCOL},
		{200, "", SCHEMA1, HOLT_EUNSUPPORTED},
		{200, "Content-Type: application/vnd.docker.distribution.manifest.v1+prettyjws\r\n",
			"{}", HOLT_EUNSUPPORTED},
		{429, "Retry-After: 99999\r\n", "", HOLT_EUNAVAILABLE},
		{500, "Retry-After: 99999\r\n", "", HOLT_EUNAVAILABLE},
		{200,
			"Docker-Content-Digest: sha256:"
			"0000000000000000000000000000000000000000000000000000000000000000\r\n",
			MANIFEST, HOLT_EINVALID},
	};

	begin_at(says);
	for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
		status = table[i].status;
		headers = table[i].headers;
		body = table[i].body;
		expect_failure("latest", table[i].code);
	}
	/* Asked for by digest, another arrives. */
	status = 200;
	headers = "";
	body = MANIFEST " ";
	expect_failure(manifest_digest, HOLT_EINVALID);
	close_all();
}
END_TEST

/* Blobs. */

static void ranged(struct web_conn *c, const struct web_request *q, void *user)
{
	(void)user;
	char *range = web_header(q, "Range");
	if (range)
		web_answer(c, q, 206, "Content-Range: bytes 5-15/16\r\n", &BLOB[5]);
	else
		web_answer(c, q, 200, "", BLOB);
	free(range);
}

static void unranged(struct web_conn *c, const struct web_request *q, void *user)
{
	(void)user;
	char *range = web_header(q, "Range");
	web_answer(c, q, range ? 416 : 200, "", range ? "" : BLOB);
	free(range);
}

/* K45: what is there is not loaded again, where the registry can. */
START_TEST(blobs_go_on_K45)
{
	static const web_fn fns[] = {ranged, open_registry, unranged};
	static const unsigned requests[] = {1, 1, 2};

	begin_at(fns[_i]);
	expect_blob(5);
	ck_assert_uint_eq(web_count(&web), requests[_i]);
	close_all();
}
END_TEST

START_TEST(a_blob_has_no_more_than_its_size)
{
	struct got g = {0};
	auto_error error = NULL;

	begin_at(says);
	status = 200;
	body = BLOB "more";
	ck_assert_int_eq(load(link_, 0, &g, &error), -HOLT_EINVALID);
	ck_assert_uint_le(g.len, blob.size);
	close_all();
}
END_TEST

/* Logins. */

static unsigned given; /* tokens */
static unsigned valid_from = 1; /* tokens before are expired */

/* Tokens "tN"; the token server is the same. */
static void guarded(struct web_conn *c, const struct web_request *q, void *user)
{
	char text[256];
	unsigned n = 0;
	(void)user;

	if (str_starts(q->target, "/token")) {
		(void)snprintf(text, sizeof text, "{\"token\": \"t%u\"}",
			__atomic_add_fetch(&given, 1, __ATOMIC_SEQ_CST));
		web_answer(c, q, 200, "", text);
		return;
	}
	char *auth = web_header(q, "Authorization");
	const bool good = auth && sscanf(auth, "Bearer t%u", &n) == 1 &&
			  n >= __atomic_load_n(&valid_from, __ATOMIC_SEQ_CST);
	free(auth);
	if (good) {
		give(c, q);
		return;
	}
	(void)snprintf(text, sizeof text,
		"WWW-Authenticate: Bearer realm=\"%s/token\",service=\"s\"\r\n", c->web->url);
	web_answer(c, q, 401, text, "");
}

/* K45 */
START_TEST(a_token_is_learnt_once_and_renewed_K45)
{
	begin_at(guarded);
	expect_manifest("latest");
	expect_manifest("latest");
	valid_from = 2; /* it expires in the middle of a pull */
	expect_manifest("latest");
	expect_lines(&web, "GET /v2/team/app/manifests/latest\n"
			   "GET /token?service=s&scope=repository:team/app:pull\n"
			   "GET /v2/team/app/manifests/latest auth=Bearer t1\n"
			   "GET /v2/team/app/manifests/latest auth=Bearer t1\n"
			   "GET /v2/team/app/manifests/latest auth=Bearer t1\n"
			   "GET /token?service=s&scope=repository:team/app:pull\n"
			   "GET /v2/team/app/manifests/latest auth=Bearer t2\n");
	/* A new one that does not help is the end. */
	valid_from = 100;
	expect_failure("latest", HOLT_EDENIED);
	ck_assert_uint_eq(web_count(&web), 10);
	close_all();
}
END_TEST

static void basic(struct web_conn *c, const struct web_request *q, void *user)
{
	(void)user;
	char *auth = web_header(q, "Authorization");
	if (auth && strcmp(auth, "Basic bWU6aHVudGVyMg==") == 0)
		give(c, q);
	else
		web_answer(c, q, 401, "WWW-Authenticate: Basic realm=\"r\"\r\n", "");
	free(auth);
}

/* K45: once from docker's configuration, once from the call. */
START_TEST(basic_logins_work_K45)
{
	web_start(&web, basic, NULL);
	auto_free char *text = str_printf("{\"auths\": {\"%s\": {\"auth\": \"%s\"}}}", web.host,
		_i == 0 ? "bWU6aHVudGVyMg==" : "bWU6d3Jvbmc=");
	put_file(dir_fd, "config.json", text, strlen(text));
	open_at(&web, _i == 1 ? (struct registry_options){.user = "me", .password = "hunter2"}
			      : (struct registry_options){0});
	if (_i == 2) {
		expect_failure("latest", HOLT_EDENIED);
		ck_assert_uint_eq(web_count(&web), 2);
	} else {
		expect_manifest("latest");
		expect_blob(0);
		ck_assert_uint_eq(web_count(&web), 3); /* the login is kept */
	}
	close_all();
}
END_TEST

/* Insecure: http where there is no TLS; and the logins of the call go to nobody else. */
START_TEST(insecure_falls_back_to_http)
{
	web_start(&web, open_registry, NULL);
	open_at(&web, (struct registry_options){.insecure = true});
	expect_manifest("latest");
	expect_blob(0);
	ck_assert_uint_eq(web_count(&web), 2);
	close_all();
}
END_TEST

/* Mirrors. */

static void broken_off(struct web_conn *c, const struct web_request *q, void *user)
{
	(void)q;
	(void)user;
	web_text(c, "HTTP/1.1 200 OK\r\nContent-Length: 16\r\n\r\n01234");
	web_cut(c);
}

static void other_manifest(struct web_conn *c, const struct web_request *q, void *user)
{
	(void)user;
	web_answer(c, q, 200, "", strstr(q->target, "blobs") ? BLOB "0" : "{\"a\": 1}");
}

START_TEST(mirrors_are_asked_first)
{
	begin_mirrored(open_registry, open_registry);
	expect_manifest("latest");
	expect_blob(0);
	expect_lines(&web, "");
	char *lines = web_lines(&mirror);
	ck_assert(str_starts(lines, "GET /cache/v2/team/app/manifests/latest\nGET /cache/v2/"));
	free(lines);
	ck_assert(registry_leave_mirrors(registry));
	ck_assert(!registry_leave_mirrors(registry));
	expect_blob(0);
	ck_assert_uint_eq(web_count(&web), 1);
	close_all();
	web_stop(&mirror);
}
END_TEST

/* K45: whatever is wrong with a mirror, the registry has it. */
START_TEST(mirrors_may_fail_K45)
{
	static const struct {
		int status;
		const char *headers;
	} answers[] = {{404, ""}, {401, "WWW-Authenticate: Basic realm=\"x\"\r\n"}, {403, ""},
		{500, "Retry-After: 9999\r\n"}, {429, "Retry-After: 9999\r\n"}, {204, ""}};

	status = answers[_i].status;
	headers = answers[_i].headers;
	begin_mirrored(says, open_registry);
	expect_manifest("latest");
	expect_manifest(manifest_digest);
	expect_blob(0);
	ck_assert_uint_eq(web_count(&web), 3);
	close_all();
	web_stop(&mirror);
}
END_TEST

START_TEST(mirrors_may_lie_or_break_off_K45)
{
	begin_mirrored(_i == 0 ? other_manifest : broken_off, _i == 0 ? open_registry : ranged);
	if (_i == 0)
		expect_manifest(manifest_digest);
	expect_blob(0);
	char *lines = web_lines(&web);
	/* What the mirror gave before it broke off is kept. */
	ck_assert_int_eq(_i == 1, strstr(lines, "range=bytes=5-") != NULL);
	free(lines);
	close_all();
	web_stop(&mirror);
}
END_TEST

START_TEST(mirrors_may_be_gone_K45)
{
	begin_mirrored(open_registry, open_registry);
	web_stop(&mirror);
	expect_manifest("latest");
	expect_blob(0);
	ck_assert_uint_eq(web_count(&web), 2);
	close_all();
}
END_TEST

/* K45: each is told its own login only. */
START_TEST(logins_stay_with_their_host_K45)
{
	begin_mirrored(basic, basic);
	auto_free char *text = str_printf(
		"{\"auths\": {\"%s\": {\"auth\": \"bWU6aHVudGVyMg==\"}}}", web.host);
	put_file(dir_fd, "config.json", text, strlen(text));
	expect_manifest("latest");
	expect_lines(&mirror, "GET /cache/v2/team/app/manifests/latest\n");
	expect_lines(&web, "GET /v2/team/app/manifests/latest\n"
			   "GET /v2/team/app/manifests/latest auth=Basic bWU6aHVudGVyMg==\n");
	close_all();
	web_stop(&mirror);
}
END_TEST

/* Three at once, as a pull has them; tokens expire meanwhile. */

#define LINKS  3
#define ROUNDS 8

static void *load_often(void *arg)
{
	struct registry_link *l = NULL;
	(void)arg;

	ck_assert_int_eq(registry_link_open(registry, NULL, &l, NULL), 0);
	for (unsigned i = 0; i < ROUNDS; i++) {
		struct got g = {0};
		auto_error error = NULL;
		const int r = load(l, 0, &g, &error);
		ck_assert_msg(r == 0, "%s", error ? holt_error_message(error) : "");
		ck_assert_str_eq(g.text, BLOB);
	}
	registry_link_close(l);
	return NULL;
}

START_TEST(links_share_what_was_learnt)
{
	pthread_t threads[LINKS];

	for (unsigned round = 1; round <= 3; round++) {
		if (round == 1)
			begin_at(guarded);
		__atomic_store_n(&valid_from, round, __ATOMIC_SEQ_CST);
		for (unsigned i = 0; i < LINKS; i++)
			ck_assert_int_eq(pthread_create(&threads[i], NULL, load_often, NULL), 0);
		for (unsigned i = 0; i < LINKS; i++)
			ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
		ck_assert_uint_eq(given, round); /* one for all */
	}
	close_all();
}
END_TEST

/* Memory that runs out anywhere is told as that, and nothing stays. */

static int load_all(void)
{
	struct registry *r = NULL;
	struct registry_link *l = NULL;
	struct registry_manifest m = {0};
	struct got g = {0};
	auto_free char *name = str_printf("%s/team/app", web.host);
	auto_ref ref = {0};
	const struct registry_options o = {0};
	int code = name ? ref_parse(name, &ref, NULL) : -HOLT_ENO_MEMORY;

	if (code == 0)
		code = registry_open(&ref, &o, &r, NULL);
	if (code == 0)
		code = registry_link_open(r, NULL, &l, NULL);
	if (code == 0)
		code = registry_manifest(l, "latest", &m, NULL);
	if (code == 0)
		code = load(l, 0, &g, NULL);
	mem_free(m.text);
	registry_link_close(l);
	registry_close(r);
	return code;
}

START_TEST(memory_may_run_out_anywhere)
{
	unsigned nth = 1;

	web_start(&web, guarded, NULL);
	for (;; nth++) {
		mem_fail_at(nth);
		const int code = load_all();
		mem_fail_at(0);
		if (code == 0)
			break;
		ck_assert_msg(code == -HOLT_ENO_MEMORY, "at %u: %d", nth, code);
	}
	ck_assert_uint_gt(nth, 20);
	web_stop(&web);
}
END_TEST

/* A link that waits for another's login is cancelled by its own flag, within 200 ms. */

static int stop_first, stop_second;

static void slow_tokens(struct web_conn *c, const struct web_request *q, void *user)
{
	char byte;

	if (str_starts(q->target, "/token")) {
		ck_assert_int_le(read(c->fd, &byte, 1), 0); /* until the other end goes */
		web_cut(c);
		return;
	}
	guarded(c, q, user);
}

static void *load_cancelled(void *arg)
{
	struct registry_link *l = NULL;
	struct got g = {0};
	auto_error error = NULL;

	ck_assert_int_eq(registry_link_open(registry, arg, &l, NULL), 0);
	ck_assert_int_eq(load(l, 0, &g, &error), -HOLT_ECANCELLED);
	registry_link_close(l);
	return NULL;
}

START_TEST(who_waits_for_a_login_can_be_cancelled)
{
	pthread_t first, second;
	unsigned waited_ms = 0;

	begin_at(slow_tokens);
	ck_assert_int_eq(pthread_create(&first, NULL, load_cancelled, &stop_first), 0);
	for (; web_count(&web) < 2 && waited_ms < 10000; waited_ms += 10)
		(void)usleep(10000);
	ck_assert_int_eq(pthread_create(&second, NULL, load_cancelled, &stop_second), 0);
	for (; web_count(&web) < 3 && waited_ms < 10000; waited_ms += 10)
		(void)usleep(10000);
	ck_assert_uint_eq(web_count(&web), 3);
	(void)usleep(100000);
	const uint64_t start = clock_mono_ms();
	__atomic_store_n(&stop_second, 1, __ATOMIC_RELAXED);
	ck_assert_int_eq(pthread_join(second, NULL), 0);
	ck_assert_uint_lt(clock_mono_ms() - start, 200);
	__atomic_store_n(&stop_first, 1, __ATOMIC_RELAXED);
	ck_assert_int_eq(pthread_join(first, NULL), 0);
	ck_assert_uint_eq(web_count(&web), 3); /* one has asked for a token */
	close_all();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("registry");
	TCase *c = tcase_create("registry");
	const TTest *const tests[] = {manifests_and_blobs_are_read, wrong_answers_have_their_codes,
		a_blob_has_no_more_than_its_size, a_token_is_learnt_once_and_renewed_K45,
		insecure_falls_back_to_http, mirrors_are_asked_first, mirrors_may_be_gone_K45,
		logins_stay_with_their_host_K45, links_share_what_was_learnt,
		memory_may_run_out_anywhere, who_waits_for_a_login_can_be_cancelled};

	tcase_add_checked_fixture(c, begin, teardown);
	tcase_set_timeout(c, 60);
	for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
		tcase_add_test(c, tests[i]);
	tcase_add_loop_test(c, blobs_go_on_K45, 0, 3);
	tcase_add_loop_test(c, basic_logins_work_K45, 0, 3);
	tcase_add_loop_test(c, mirrors_may_fail_K45, 0, 6);
	tcase_add_loop_test(c, mirrors_may_lie_or_break_off_K45, 0, 2);
	suite_add_tcase(s, c);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	const int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
