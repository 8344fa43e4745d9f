/* SPDX-License-Identifier: Apache-2.0 */
/* Whose sandbox it is: tokens, keys, names, and the rules of each provider. */
#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "holt/identity.h"
#include "provider/identity_rule.h"
#include "provider/scope.h"

#include "base/mem.h"
#include "base/str.h"

struct vector {
	const char *user;
	size_t user_len;
	const char *thread;
	size_t thread_len;
	const char *token;
};

#define V(user_, thread_, token_)                                                    \
	{                                                                            \
		.user = (user_), .user_len = sizeof(user_) - 1, .thread = (thread_), \
		.thread_len = sizeof(thread_) - 1, .token = (token_)                 \
	}

static const struct vector vectors[] = {
	V("alice", "thread-1", "dc977b840cb8638e"),
	V("bob", "thread-1", "38e740e3a7a8bcc6"),
	V("alice", "thread-2", "84288daa9c9aa8fc"),
	V("", "t", "983743815e8fe2ac"),
	V("u", "", "27e14d2b41b03178"),
	V("", "", "e7ac0786668e0ff0"),
	V("None", "abc", "c0b80df1b97d187e"),
	V("None", "t-1", "d17a4c5874ec1bbb"),
	V("", "t-1", "57fb26360b48bcf0"),
	V("u-1", "t-1", "8ee1a188a789a4f6"),
	V("default", "t-1", "93a64dc1a6356607"),
	V("default", "thread-1", "fe0dc8182dec7b77"),
	V("用户", "线程", "cfa8a5bf41ddff8d"),
	V("\xc3\xa9", "e\xcc\x81", "903b5d1437035332"),
	V("e\xcc\x81", "\xc3\xa9", "f9bbddcab000df65"),
	V("\xf0\x9f\x98\x80", "\xf0\x9f\x9a\x80", "e6b3954ce04de9ad"),
	V("user-9721", "thread-9721", "7f7b984ccf326330"),
	V("user-94361", "thread-94361", "7f7b984c6fc4f156"),
	V("a:b", "c", "b0ee04f880c4ff42"),
	V("a", "b:c", "b0ee04f880c4ff42"),
	V("A", "T", "e4a0efb78190d99c"),
	V("a", "t", "4870d47a74c0c77b"),
	V(" a", "t", "5d2646e45013e7b3"),
	V("a\n", "t", "704c9c3b2a239b85"),
	V("u\0", "t", "bccdbb7ed4879b1d"),
	V("ef9fd623-4295-452d-b964-36fcbd0d4b45", "d791167a-f606-4a5d-8493-ebec43f169b9",
		"1cab59612b99b25d"),
	V("u1", "thread-1", "631cb60906e1d697"),
	V("None", "thread-1", "200407baee1140d4"),
	V("", "thread-1", "b5e31e77c85dfdb7"),
};

static void check_token(
	const char *user, size_t user_len, const char *thread, size_t thread_len, const char *want)
{
	char token[HOLT_SCOPE_TOKEN_LEN + 1] = "";
	holt_error *error = NULL;

	const int r = holt_scope_token(user, user_len, thread, thread_len, token, &error);
	ck_assert_msg(r == 0, "%s", error ? holt_error_message(error) : "");
	ck_assert_ptr_null(error);
	ck_assert_str_eq(token, want);
	ck_assert(holt_is_scope_token(token, strlen(token)));
}

/* C-1, C-2, C-4, C-5, C-9, C-23 */
START_TEST(golden_vectors)
{
	char x[1000], y[1000];

	for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++)
		check_token(vectors[i].user, vectors[i].user_len, vectors[i].thread,
			vectors[i].thread_len, vectors[i].token);
	memset(x, 'x', sizeof x);
	memset(y, 'y', sizeof y);
	check_token(x, sizeof x, y, sizeof y, "d985c7b351a72d34");
}
END_TEST

/* C-10: what had one old id of 8 digits has two of 16; C-6: what the colon cannot tell apart has
 * one, and only the keys differ. */
START_TEST(tokens_that_meet)
{
	struct scope_key a = {.user = NULL}, b = {.user = NULL};
	const struct scope_key ab_c = {(char[]){"a:b"}, 3, (char[]){"c"}, 1};
	const struct scope_key a_bc = {(char[]){"a"}, 1, (char[]){"b:c"}, 3};
	char one[SCOPE_TOKEN_LEN + 1], two[SCOPE_TOKEN_LEN + 1];

	ck_assert_int_eq(scope_token("user-9721", 9, "thread-9721", 11, one, NULL), 0);
	ck_assert_int_eq(scope_token("user-94361", 10, "thread-94361", 12, two, NULL), 0);
	ck_assert_int_eq(strncmp(one, two, 8), 0);
	ck_assert_str_ne(one, two);

	ck_assert_int_eq(scope_key_copy(&ab_c, &a, NULL), 0);
	ck_assert_int_eq(scope_key_copy(&a_bc, &b, NULL), 0);
	ck_assert(scope_key_equal(&a, &ab_c));
	ck_assert(!scope_key_equal(&a, &b));
	scope_key_done(&a);
	scope_key_done(&b);
}
END_TEST

/* C-7, C-286 */
START_TEST(none_is_a_text_in_tokens_and_a_tenant_of_its_own)
{
	const struct scope_key none = {NULL, 0, (char[]){"t-1"}, 3};
	const struct scope_key empty = {(char[]){""}, 0, (char[]){"t-1"}, 3};
	const struct scope_key text = {(char[]){"None"}, 4, (char[]){"t-1"}, 3};
	const struct scope_key alone = {NULL, 0, NULL, 0};

	check_token(NULL, 0, "t-1", 3, "d17a4c5874ec1bbb");
	check_token("None", 4, "t-1", 3, "d17a4c5874ec1bbb");
	check_token("u", 1, NULL, 0, "9021a3eec3decdad");
	ck_assert(!scope_key_equal(&none, &empty));
	ck_assert(!scope_key_equal(&none, &text));
	ck_assert(!scope_key_equal(&empty, &text));
	ck_assert(!scope_key_equal(&none, &alone));
	ck_assert(scope_key_equal(&none, &none));
}
END_TEST

static void *derive_again(void *arg)
{
	const struct vector *v = arg;
	char token[SCOPE_TOKEN_LEN + 1];

	for (int i = 0; i < 1000; i++) {
		if (scope_token(v->user, v->user_len, v->thread, v->thread_len, token, NULL) < 0 ||
			strcmp(token, v->token) != 0)
			return NULL;
	}
	return arg;
}

/* C-3 */
START_TEST(the_same_at_all_times_on_all_threads)
{
	pthread_t threads[4];

	ck_assert_int_eq(HOLT_SCOPE_TOKEN_VERSION, 1);
	for (size_t i = 0; i < 4; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, derive_again,
					 (void *)(uintptr_t)&vectors[i % 2]),
			0);
	for (size_t i = 0; i < 4; i++) {
		void *done = NULL;

		ck_assert_int_eq(pthread_join(threads[i], &done), 0);
		ck_assert_ptr_nonnull(done);
	}
}
END_TEST

static void check_refused(const char *text, size_t len, size_t at)
{
	char token[SCOPE_TOKEN_LEN + 1] = "untouched", where[32];
	struct scope_key k = {0};
	const struct scope_key bad = {(char *)(uintptr_t)text, len, NULL, 0};

	(void)snprintf(where, sizeof where, "at byte %zu", at);
	for (int i = 0; i < 2; i++) {
		auto_error error = NULL;
		const int r = i ? holt_scope_token("u", 1, text, len, token, &error)
				: holt_scope_token(text, len, "t", 1, token, &error);

		ck_assert_int_eq(r, -HOLT_EINVALID);
		ck_assert_str_eq(token, "untouched");
		ck_assert_ptr_nonnull(strstr(holt_error_message(error), i ? "thread" : "user"));
		ck_assert_msg(
			strstr(holt_error_message(error), where), "%s", holt_error_message(error));
		ck_assert_str_eq(holt_error_stage(error), "identity");
	}
	ck_assert_int_eq(scope_key_copy(&bad, &k, NULL), -HOLT_EINVALID);
	ck_assert_ptr_null(k.user);
}

/* C-8 */
START_TEST(only_utf8_is_hashed)
{
	check_refused("a\xed\xa0\x80", 4, 1); /* a surrogate */
	check_refused("\xed\xbf\xbf", 3, 0);
	check_refused("ab\xc0\x80", 4, 2); /* more bytes than needed */
	check_refused("\xc1\xbf", 2, 0);
	check_refused("\xe0\x80\x80", 3, 0);
	check_refused("\xf0\x80\x80\x80", 4, 0);
	check_refused("\xf4\x90\x80\x80", 4, 0); /* behind U+10FFFF */
	check_refused("\xf5\x80\x80\x80", 4, 0);
	check_refused("\xff", 1, 0);
	check_refused("a\x80", 2, 1);
	check_refused("\xe7\x94\xa8\xe7\x94", 5, 3); /* cut */
	/* The last ones that are characters. */
	check_token("\xf4\x8f\xbf\xbf", 4, "\xed\x9f\xbf\xee\x80\x80", 6, "8612d7492c791e68");
}
END_TEST

START_TEST(lengths)
{
	static char long_text[SCOPE_BYTES_MAX + 1];
	char token[SCOPE_TOKEN_LEN + 1];

	memset(long_text, 'u', sizeof long_text);
	ck_assert_int_eq(scope_token(long_text, SCOPE_BYTES_MAX, "t", 1, token, NULL), 0);
	check_refused(long_text, sizeof long_text, SCOPE_BYTES_MAX);
	check_refused(NULL, 3, 0);
	ck_assert_int_eq(holt_scope_token("u", 1, "t", 1, NULL, NULL), -HOLT_EINVALID);
}
END_TEST

/* C-11 */
START_TEST(what_has_the_form_of_a_token)
{
	static const char *const yes[] = {"dc977b840cb8638e", "0000000000000000"};
	static const char *const no[] = {"", "dc977b840cb8638", "dc977b840cb8638e0",
		"DC977b840cb8638e", "dc977b840cb8638E", "dc977b840cb8638e\n", "dc977b840cb8638\n",
		"gc977b840cb8638e", "local:alice:thread-1", " c977b840cb8638e", "123"};

	for (size_t i = 0; i < sizeof yes / sizeof *yes; i++)
		ck_assert_int_eq(holt_is_scope_token(yes[i], strlen(yes[i])), 1);
	for (size_t i = 0; i < sizeof no / sizeof *no; i++)
		ck_assert_msg(holt_is_scope_token(no[i], strlen(no[i])) == 0, "%s", no[i]);
	ck_assert_int_eq(holt_is_scope_token(NULL, 0), 0);
	ck_assert_int_eq(holt_is_scope_token(NULL, 16), 0);
	ck_assert_int_eq(holt_is_scope_token("0000000\0"
					     "00000000",
				 16),
		0);
}
END_TEST

START_TEST(keys_as_text)
{
	const struct {
		struct scope_key key;
		const char *text;
	} table[] = {
		{{(char[]){"u"}, 1, (char[]){"t"}, 1}, "user 'u', thread 't'"},
		{{NULL, 0, (char[]){""}, 0}, "no user, thread ''"},
		{{(char[]){"\x1b[1m"}, 4, NULL, 0}, "user '\\x1b[1m', no thread"},
		{{(char[]){"a\0b"}, 3, NULL, 0}, "user 'a\\x00b', no thread"},
	};
	char text[600], longest[200];

	for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
		scope_key_text(&table[i].key, text, sizeof text);
		ck_assert_str_eq(text, table[i].text);
	}
	memset(longest, 'x', sizeof longest);
	const struct scope_key cut = {longest, sizeof longest, longest, 64};
	scope_key_text(&cut, text, sizeof text);
	ck_assert_uint_eq(strlen(text), strlen("user '', thread ''...") + 128);
	ck_assert(str_starts(text, "user 'xxx"));
	ck_assert_ptr_nonnull(strstr(text, "x'..., thread 'x"));
}
END_TEST

/* C-19 */
START_TEST(names_of_boxes)
{
	char name[BOX_NAME_MAX], id[RANDOM_ID_LEN + 1], other[RANDOM_ID_LEN + 1];
	char pool[POOL_NAME_MAX + 1];

	scope_box_name("default", "dc977b840cb8638e", name);
	ck_assert_str_eq(name, "holt-default-dc977b840cb8638e");
	ck_assert_str_eq(scope_box_id("default", name), "dc977b840cb8638e");
	ck_assert_ptr_null(scope_box_id("defaul", name));
	ck_assert_ptr_null(scope_box_id("default-", name));
	ck_assert_ptr_null(scope_box_id("default", "holt-default-"));
	ck_assert_ptr_null(scope_box_id("default", "holt-default-x"));
	ck_assert_ptr_null(scope_box_id("default", "holt-default-DC977B840CB8638E"));
	ck_assert_ptr_null(scope_box_id("default", "my-box"));
	/* A pool's name that begins with another's. */
	scope_box_name("a-b", "dc977b840cb8638e", name);
	ck_assert_ptr_null(scope_box_id("a", name));
	ck_assert_str_eq(scope_box_id("a-b", name), "dc977b840cb8638e");

	ck_assert_int_eq(scope_random_id(id, NULL), 0);
	ck_assert_int_eq(scope_random_id(other, NULL), 0);
	ck_assert_uint_eq(strspn(id, "0123456789abcdef"), 8);
	ck_assert_str_ne(id, other);
	scope_box_name("a", id, name);
	ck_assert_str_eq(scope_box_id("a", name), id);

	memset(pool, 'p', POOL_NAME_MAX);
	pool[POOL_NAME_MAX] = 0;
	scope_box_name(pool, "dc977b840cb8638e", name);
	ck_assert_str_eq(scope_box_id(pool, name), "dc977b840cb8638e");
}
END_TEST

/* ---- what other providers do ---- */

#define NONE ((struct scope_part){NULL, 0})

static struct scope_part part(const char *text)
{
	return (struct scope_part){text, text ? strlen(text) : 0};
}

static struct identity_asked asked(const char *user, const char *thread, const char *effective)
{
	return (struct identity_asked){part(user), part(thread), effective};
}

static void check_id(const char *provider, struct identity_asked who, const char *want)
{
	auto_error error = NULL;
	auto_free char *id = NULL;

	const int r = identity_id(identity_rule(provider), &who, &id, &error);
	ck_assert_msg(r == 0, "%s: %s", provider, error ? holt_error_message(error) : "");
	ck_assert_msg(strcmp(id, want) == 0, "%s: %s, not %s", provider, id, want);
}

/* C-12, C-13, C-14 */
START_TEST(which_user_counts)
{
	static const struct {
		const char *provider;
		const char *none;
		const char *empty;
		const char *named;
		const char *in_request; /* no user, effective user u-1 */
	} table[] = {
#define DEFAULT "93a64dc1a6356607"
#define TEXT    "d17a4c5874ec1bbb"
#define EMPTY   "57fb26360b48bcf0"
#define NAMED   "8ee1a188a789a4f6"
		{"aio", DEFAULT, DEFAULT, NAMED, NAMED},
		{"e2b", DEFAULT, DEFAULT, NAMED, NAMED},
		{"sandbox0", DEFAULT, DEFAULT, NAMED, NAMED},
		{"boxlite", TEXT, EMPTY, NAMED, TEXT},
		{"holt", TEXT, EMPTY, NAMED, TEXT},
		{"tenki", EMPTY, EMPTY, NAMED, EMPTY},
		{"opensandbox", EMPTY, EMPTY, NAMED, EMPTY},
		{"smol", EMPTY, EMPTY, NAMED, EMPTY},
		{"local", "local:default:t-1", "local:default:t-1", "local:u-1:t-1",
			"local:u-1:t-1"},
	};

	for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
		check_id(table[i].provider, asked(NULL, "t-1", NULL), table[i].none);
		check_id(table[i].provider, asked("", "t-1", NULL), table[i].empty);
		check_id(table[i].provider, asked("u-1", "t-1", NULL), table[i].named);
		check_id(table[i].provider, asked("u-1", "t-1", "other"), table[i].named);
		check_id(table[i].provider, asked(NULL, "t-1", "u-1"), table[i].in_request);
	}
	ck_assert_ptr_null(identity_rule("nobody"));
}
END_TEST

static bool same(const char *provider, struct identity_asked a, struct identity_asked b)
{
	return identity_same(identity_rule(provider), &a, &b);
}

/* C-12, C-15, C-16, C-17: what a map takes for one, and who looks behind the id. */
START_TEST(what_is_found_again)
{
	const struct identity_asked none = asked(NULL, "t-1", NULL), empty = asked("", "t-1", NULL),
				    text = asked("None", "t-1", NULL);
	const struct identity_asked ab_c = asked("a:b", "c", NULL), a_bc = asked("a", "b:c", NULL);
	const char *const checking[] = {"aio", "boxlite", "holt"};
	const char *const trusting[] = {"tenki", "smol", "opensandbox", "sandbox0"};

	ck_assert(same("boxlite", none, empty));
	ck_assert(!same("boxlite", none, text));
	ck_assert(!same("holt", none, empty));
	ck_assert(!same("holt", none, text));
	ck_assert(!same("boxlite", ab_c, a_bc));
	ck_assert(same("tenki", ab_c, a_bc));
	ck_assert(!same("local", asked("a", "b", NULL), asked("b", "a", NULL)));
	ck_assert(same("aio", none, asked("default", "t-1", NULL)));
	/* Without a thread nothing is found again. */
	ck_assert(!same("holt", asked("u", NULL, NULL), asked("u", NULL, NULL)));
	for (size_t i = 0; i < 3; i++)
		ck_assert(identity_rule(checking[i])->checks_scope);
	for (size_t i = 0; i < 4; i++)
		ck_assert(!identity_rule(trusting[i])->checks_scope);
	/* What takes turns. */
	ck_assert_int_eq(identity_rule("boxlite")->lock, IDENTITY_LOCK_ID);
	ck_assert_int_eq(identity_rule("holt")->lock, IDENTITY_LOCK_ID);
	ck_assert_int_eq(identity_rule("aio")->lock, IDENTITY_LOCK_MAP);
	ck_assert_int_eq(identity_rule("e2b")->lock, IDENTITY_LOCK_MAP);
	ck_assert(identity_rule("e2b")->remote_id);
}
END_TEST

/* C-12 */
START_TEST(without_a_thread)
{
	static const struct {
		const char *provider;
		size_t digits; /* 0: it is "local" */
	} table[] = {{"aio", 8}, {"boxlite", 8}, {"e2b", 16}, {"holt", 8}, {"local", 0},
		{"opensandbox", 8}, {"sandbox0", 16}, {"smol", 16}, {"tenki", 8}};

	for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
		const struct identity_rule *rule = identity_rule(table[i].provider);
		const struct identity_asked who = asked("u", NULL, NULL);
		auto_free char *id = NULL;
		auto_free char *again = NULL;

		ck_assert_int_eq(identity_id(rule, &who, &id, NULL), 0);
		ck_assert_int_eq(identity_id(rule, &who, &again, NULL), 0);
		if (table[i].digits == 0) {
			ck_assert_str_eq(id, "local");
			ck_assert_str_eq(again, "local");
			continue;
		}
		ck_assert_uint_eq(strlen(id), table[i].digits);
		ck_assert_uint_eq(strspn(id, "0123456789abcdef"), table[i].digits);
		ck_assert_str_ne(id, again);
	}
}
END_TEST

static void check_name(const char *provider, const char *base, const char *id, const char *want)
{
	auto_free char *name = NULL;
	size_t len = 0;

	ck_assert_int_eq(identity_name(identity_rule(provider), base, id, &name, NULL), 0);
	ck_assert_str_eq(name, want);
	const char *back = identity_name_id(identity_rule(provider), base, name, &len);
	ck_assert_ptr_nonnull(back);
	ck_assert_uint_eq(len, strlen(id));
	ck_assert_int_eq(strncmp(back, id, len), 0);
}

/* C-19 */
START_TEST(names_and_their_ids)
{
	auto_free char *name = NULL;
	auto_error error = NULL;
	size_t len = 0;
	const struct identity_rule *smol = identity_rule("smol");

	check_name("boxlite", NULL, "dc977b840cb8638e", "deer-flow-boxlite-dc977b840cb8638e");
	check_name("tenki", NULL, "dc977b840cb8638e", "deer-flow-tenki-dc977b840cb8638e");
	check_name("aio", NULL, "dc977b840cb8638e", "deer-flow-sandbox-dc977b840cb8638e");
	check_name("aio", "mine", "dc977b840cb8638e", "mine-dc977b840cb8638e");
	check_name("holt", NULL, "dc977b840cb8638e", "holt-default-dc977b840cb8638e");
	check_name("holt", "two", "12345678", "holt-two-12345678");

	ck_assert_int_eq(identity_name(smol, NULL, "dc977b840cb8638e", &name, NULL), 0);
	ck_assert(str_starts(name, "deer-flow-smol-dc977b840cb8638e-"));
	ck_assert_uint_eq(strlen(name), strlen("deer-flow-smol-dc977b840cb8638e-") + 8);
	ck_assert_str_eq(identity_name_id(smol, NULL, name, &len), name + 15);
	ck_assert_uint_eq(len, 16);
	ck_assert_ptr_null(identity_name_id(smol, NULL, "deer-flow-smol-dc977b840cb8638e", &len));
	ck_assert_ptr_null(identity_name_id(smol, NULL, "deer-flow-smol--12345678", &len));
	ck_assert_ptr_null(identity_name_id(smol, NULL, "deer-flow-smol-a-1234567G", &len));

	ck_assert_int_eq(
		identity_name(identity_rule("e2b"), NULL, "x", &name, &error), -HOLT_EUNSUPPORTED);
	ck_assert_ptr_null(identity_name_id(identity_rule("opensandbox"), NULL, "x", &len));
}
END_TEST

/* C-18 */
START_TEST(names_of_boxlite_are_taken_at_their_word)
{
	const struct identity_rule *rule = identity_rule("boxlite");
	static const char *const none[] = {NULL, "", "deer-flow-boxlite-", "deer-flow-boxlite",
		"deer-flow-tenki-x", "my-box", "xdeer-flow-boxlite-adopted"};
	size_t len = 0;

	for (size_t i = 0; i < sizeof none / sizeof *none; i++)
		ck_assert_ptr_null(identity_name_id(rule, NULL, none[i], &len));
	ck_assert_str_eq(
		identity_name_id(rule, NULL, "deer-flow-boxlite-adopted", &len), "adopted");
	ck_assert_uint_eq(len, 7);
	ck_assert_str_eq(identity_name_id(rule, NULL, "deer-flow-boxlite-A B\n", &len), "A B\n");
}
END_TEST

static void check_local(const char *id, const char *user, const char *thread)
{
	struct scope_part u = NONE, t = NONE;

	ck_assert_msg(identity_local_parse(id, &u, &t) == (user != NULL), "%s", id ? id : "NULL");
	if (!user)
		return;
	ck_assert(scope_part_equal(u, part(user)));
	ck_assert(scope_part_equal(t, part(thread)));
}

/* C-19 */
START_TEST(ids_of_local_sandboxes)
{
	const struct identity_asked nul = {{"u\0", 2}, {"t", 1}, NULL};
	auto_free char *id = NULL;

	check_local("local:alice:thread-1", "alice", "thread-1");
	check_local("local:a:b:c", "a", "b:c");
	check_local("local", NULL, NULL);
	check_local("local:", NULL, NULL);
	check_local("local:a", NULL, NULL);
	check_local("local::t", NULL, NULL);
	check_local("local:a:", NULL, NULL);
	check_local("remote:a:b", NULL, NULL);
	check_local(NULL, NULL, NULL);
	ck_assert_int_eq(identity_id(identity_rule("local"), &nul, &id, NULL), -HOLT_EINVALID);
	ck_assert_ptr_null(id);
}
END_TEST

/* C-20 */
START_TEST(metadata_keys)
{
	static const char *const e2b[] = {"deer_flow_user", "deer_flow_thread",
		"deer_flow_provider", "deer_flow_gateway", "deer_flow_created_at",
		"deer_flow_capacity_ledger", "deer_flow_capacity_reservation", NULL};
	static const char *const opensandbox[] = {
		"deer_flow_provider", "deer_flow_thread", "deer_flow_user", NULL};

	for (size_t i = 0; i < 7; i++)
		ck_assert_str_eq(identity_rule("e2b")->metadata[i], e2b[i]);
	ck_assert_ptr_null(identity_rule("e2b")->metadata[7]);
	for (size_t i = 0; i < 3; i++)
		ck_assert_str_eq(identity_rule("opensandbox")->metadata[i], opensandbox[i]);
	ck_assert_ptr_null(identity_rule("opensandbox")->metadata[3]);
	ck_assert_ptr_null(identity_rule("boxlite")->metadata);
}
END_TEST

/* C-21 */
START_TEST(tokens_with_skills)
{
	static const struct {
		bool restricted;
		const char *root;
		const char *token;
	} table[] = {
		{true, "/mnt/skills", "265ea14674f2ec65"},
		{true, "/opt/skills", "0c5fa9afeb406bd7"},
		{false, "/mnt/skills", "3ee1a542c5bea562"},
		{false, "/opt/skills", "9c24d0c7935c83bf"},
	};
	char token[SCOPE_TOKEN_LEN + 1];

	for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
		ck_assert_int_eq(identity_skills_token(table[i].restricted, part("alice"),
					 part("thread-1"), table[i].root, token, NULL),
			0);
		ck_assert_str_eq(token, table[i].token);
	}
	ck_assert_int_eq(
		identity_skills_token(true, part("\xff"), part("t"), "/mnt/skills", token, NULL),
		-HOLT_EINVALID);
}
END_TEST

START_TEST(every_allocation_may_fail)
{
	const struct scope_key key = {(char[]){"u"}, 1, (char[]){"t"}, 1};
	struct scope_key copy = {0};
	auto_free char *id = NULL;
	auto_free char *name = NULL;
	const struct identity_asked who = asked("u", NULL, NULL);

	for (unsigned long n = 1; n < 4; n++) {
		auto_error error = NULL;

		mem_fail_at(n);
		const int r = scope_key_copy(&key, &copy, &error);
		mem_fail_at(0);
		ck_assert_int_eq(r, n < 3 ? -HOLT_ENO_MEMORY : 0);
		ck_assert((error != NULL) == (r < 0));
	}
	scope_key_done(&copy);
	for (unsigned long n = 1; !id; n++) {
		mem_fail_at(n);
		(void)identity_id(identity_rule("sandbox0"), &who, &id, NULL);
		mem_fail_at(0);
	}
	for (unsigned long n = 1; !name; n++) {
		mem_fail_at(n);
		(void)identity_name(identity_rule("holt"), NULL, id, &name, NULL);
		mem_fail_at(0);
	}
	ck_assert(str_starts(name, "holt-default-"));
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {golden_vectors, tokens_that_meet,
		none_is_a_text_in_tokens_and_a_tenant_of_its_own,
		the_same_at_all_times_on_all_threads, only_utf8_is_hashed, lengths,
		what_has_the_form_of_a_token, keys_as_text, names_of_boxes, which_user_counts,
		what_is_found_again, without_a_thread, names_and_their_ids,
		names_of_boxlite_are_taken_at_their_word, ids_of_local_sandboxes, metadata_keys,
		tokens_with_skills, every_allocation_may_fail};
	Suite *s = suite_create("identity");
	TCase *t = tcase_create("all");

	for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
		tcase_add_test(t, tests[i]);
	suite_add_tcase(s, t);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	const int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? 1 : 0;
}
