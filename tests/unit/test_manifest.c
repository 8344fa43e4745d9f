/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON documents of an image, as untrusted input. */
#include "image_fixture.h"

#include "base/mem.h"
#include "base/str.h"
#include "image/manifest.h"

#define D1 "sha256:1111111111111111111111111111111111111111111111111111111111111111"
#define D2 "sha256:2222222222222222222222222222222222222222222222222222222222222222"
#define D3 "sha256:3333333333333333333333333333333333333333333333333333333333333333"

#define DESC(digest) "{\"digest\":\"" digest "\",\"size\":7}"
#define DESC_FOR(digest, os, arch)                                         \
	"{\"digest\":\"" digest "\",\"size\":7,\"platform\":{\"os\":\"" os \
	"\",\"architecture\":\"" arch "\"}}"
#define INDEX(list) "{\"schemaVersion\":2,\"manifests\":[" list "]}"

static int pick(const char *text, struct descriptor *d, char **name, holt_error **error)
{
	return manifest_pick(text, strlen(text), d, name, error);
}

static void expect_pick(const char *text, const char *digest, const char *expected_name)
{
	auto_error error = NULL;
	auto_free char *name = NULL;
	struct descriptor d;

	ck_assert_msg(pick(text, &d, &name, &error) == 0, "%s", holt_error_message(error));
	ck_assert_str_eq(d.digest, digest);
	ck_assert_uint_eq(d.size, 7);
	if (expected_name)
		ck_assert_str_eq(name, expected_name);
	else
		ck_assert_ptr_null(name);
}

static void refuse_pick(const char *text, int code, const char *message)
{
	auto_error error = NULL;
	char *name = NULL;
	struct descriptor d;

	ck_assert_int_eq(pick(text, &d, &name, &error), -code);
	ck_assert_str_eq(holt_error_message(error), message);
}

START_TEST(index_gives_the_platform)
{
	expect_pick(INDEX(DESC(D1)), D1, NULL);
	expect_pick(INDEX(DESC_FOR(D1, "linux", "arm64") "," DESC_FOR(
			    D2, "linux", "amd64") "," DESC_FOR(D3, "unknown", "unknown")),
		D2, NULL);
	/* A match is better than an entry that says nothing, wherever it stands. */
	expect_pick(INDEX(DESC(D1) "," DESC_FOR(D2, "linux", "amd64")), D2, NULL);
	expect_pick(INDEX(DESC_FOR(D2, "linux", "amd64") "," DESC(D1)), D2, NULL);
	/* One image with two names is one image. */
	expect_pick(INDEX(DESC(D1) "," DESC(D1)), D1, NULL);
	refuse_pick(INDEX(DESC_FOR(D1, "linux", "arm64")), HOLT_EUNSUPPORTED,
		"none of its 1 manifests is for linux/amd64");
	refuse_pick(INDEX(""), HOLT_EUNSUPPORTED, "none of its 0 manifests is for linux/amd64");
	refuse_pick(INDEX(DESC(D1) "," DESC(D2)), HOLT_EINVALID,
		"it holds several images for this platform");
	refuse_pick(INDEX(DESC(D1) "," DESC(D2) "," DESC(D1)), HOLT_EINVALID,
		"it holds several images for this platform");
}
END_TEST

#define NAMED(key, value) \
	INDEX("{\"digest\":\"" D1 "\",\"size\":7,\"annotations\":{\"" key "\":\"" value "\"}}")

START_TEST(index_gives_the_name)
{
	expect_pick(NAMED("org.opencontainers.image.ref.name", "demo:1"), D1, "demo:1");
	expect_pick(
		NAMED("io.containerd.image.name", "docker.io/library/alpine:3"), D1, "alpine:3");
	/* A bare tag, and what is no name at all. */
	expect_pick(NAMED("org.opencontainers.image.ref.name", "latest"), D1, NULL);
	expect_pick(NAMED("org.opencontainers.image.ref.name", "A:B:C"), D1, NULL);
}
END_TEST

START_TEST(bad_descriptors_are_refused)
{
	refuse_pick(INDEX("1"), HOLT_EINVALID, "a descriptor is not an object");
	refuse_pick(INDEX("{\"size\":1}"), HOLT_EINVALID, "a descriptor lacks its digest or size");
	refuse_pick(INDEX("{\"digest\":\"" D1 "\"}"), HOLT_EINVALID,
		"a descriptor lacks its digest or size");
	refuse_pick(INDEX("{\"digest\":\"" D1 "\",\"size\":-1}"), HOLT_EINVALID,
		"'size' is out of range");
	refuse_pick(INDEX("{\"digest\":\"sha512:00\",\"size\":1}"), HOLT_EINVALID,
		"a digest is not sha256: and 64 lower-case hex digits");
	refuse_pick(INDEX("{\"digest\":\"../../../etc/passwd\",\"size\":1}"), HOLT_EINVALID,
		"a digest is not sha256: and 64 lower-case hex digits");
	refuse_pick("{\"manifests\":{}}", HOLT_EINVALID, "'manifests' is not a list");
	refuse_pick("{}", HOLT_EINVALID, "'manifests' is missing");
	refuse_pick("[]", HOLT_EINVALID, "the index is not a JSON object");
}
END_TEST

START_TEST(documents_have_limits)
{
	auto_error error = NULL;
	struct descriptor d;
	struct manifest m;
	char *name = NULL;
	char *text = malloc(MANIFEST_BYTES_MAX + 2);

	memset(text, ' ', MANIFEST_BYTES_MAX + 1);
	ck_assert_int_eq(
		manifest_pick(text, MANIFEST_BYTES_MAX + 1, &d, &name, &error), -HOLT_ELIMIT);
	free(text);

	FILE *f = open_memstream(&text, &(size_t){0});
	(void)fprintf(f, "{\"config\":" DESC(D1) ",\"layers\":[" DESC(D1));
	for (int i = 0; i < MANIFEST_LAYERS_MAX; i++)
		(void)fprintf(f, "," DESC(D1));
	(void)fprintf(f, "]}");
	(void)fclose(f);
	holt_error_free(error);
	error = NULL;
	ck_assert_int_eq(manifest_parse(text, strlen(text), &m, &error), -HOLT_ELIMIT);
	ck_assert_str_eq(
		holt_error_message(error), "'layers' has 513 items, more than the limit of 512");
	free(text);

	/* Nesting, which must not end on the stack. */
	text = malloc(200001);
	memset(text, '[', 200000);
	text[200000] = 0;
	holt_error_free(error);
	error = NULL;
	ck_assert_int_eq(manifest_parse(text, 200000, &m, &error), -HOLT_EINVALID);
	free(text);
}
END_TEST

START_TEST(kinds_are_told_apart)
{
	static const char both[] = "{\"manifests\":[],\"layers\":[]}";
	bool is_index = false;

	ck_assert_int_eq(manifest_is_index(INDEX(""), strlen(INDEX("")), &is_index, NULL), 0);
	ck_assert(is_index);
	ck_assert_int_eq(manifest_is_index("{\"layers\":[]}", 13, &is_index, NULL), 0);
	ck_assert(!is_index);
	ck_assert_int_eq(manifest_is_index("{}", 2, &is_index, NULL), -HOLT_EINVALID);
	ck_assert_int_eq(manifest_is_index(both, strlen(both), &is_index, NULL), -HOLT_EINVALID);
}
END_TEST

START_TEST(manifest_lists_layers)
{
	static const char text[] = "{\"schemaVersion\":2,\"config\":" DESC(D1) ",\"layers\":[" DESC(
		D2) "," DESC(D3) "]}";
	static const char sealed[] = "{\"config\":" DESC(
		D1) ",\"layers\":[{\"digest\":\"" D2
		    "\",\"size\":1,\"mediaType\":\"x.tar+gzip+encrypted\"}]}";
	auto_error error = NULL;
	struct manifest m = {0};

	ck_assert_int_eq(manifest_parse(text, strlen(text), &m, &error), 0);
	ck_assert_str_eq(m.config.digest, D1);
	ck_assert_uint_eq(m.n_layers, 2);
	ck_assert_str_eq(m.layers[0].digest, D2);
	ck_assert_str_eq(m.layers[1].digest, D3);
	manifest_done(&m);
	ck_assert_int_eq(manifest_parse(sealed, strlen(sealed), &m, &error), -HOLT_EUNSUPPORTED);
	ck_assert_str_eq(holt_error_message(error), "layer 1 is encrypted");
}
END_TEST

static int config(const char *text, struct image_config *c, char ***ids, holt_error **error)
{
	return config_parse(text, strlen(text), c, ids, error);
}

START_TEST(config_is_read)
{
	struct image_config c = {0};
	auto_error error = NULL;
	char **ids = NULL;

	ck_assert_int_eq(config("{\"architecture\":\"amd64\",\"os\":\"linux\",\"config\":{"
				"\"Env\":[\"A=b\",\"C=d=e\"],\"Entrypoint\":[\"/e\",\"\"],"
				"\"Cmd\":null,\"WorkingDir\":\"/w\",\"User\":\"\","
				"\"StopSignal\":\"SIGINT\"},"
				"\"rootfs\":{\"type\":\"layers\",\"diff_ids\":[\"" D1 "\"]}}",
				 &c, &ids, &error),
		0);
	ck_assert_str_eq(c.env[0], "A=b");
	ck_assert_str_eq(c.env[1], "C=d=e");
	ck_assert_ptr_null(c.env[2]);
	ck_assert_str_eq(c.entrypoint[0], "/e");
	ck_assert_str_eq(c.entrypoint[1], "");
	ck_assert_ptr_null(c.cmd);
	ck_assert_str_eq(c.working_dir, "/w");
	ck_assert_ptr_null(c.user);
	ck_assert_str_eq(c.stop_signal, "SIGINT");
	ck_assert_str_eq(ids[0], D1);
	ck_assert_ptr_null(ids[1]);
	ck_assert_int_eq(config_check_platform(&c, &error), 0);
	config_done(&c);
	strv_free(ids);
	ck_assert_int_eq(config("{}", &c, &ids, &error), 0);
	ck_assert_ptr_null(c.env);
	ck_assert_ptr_null(ids);
	config_done(&c);
}
END_TEST

START_TEST(bad_configs_are_refused)
{
	static const char *const table[][2] = {
		{"{\"config\":[]}", "'config' is not an object"},
		{"{\"config\":{\"Env\":\"A=b\"}}", "'Env' is not a list"},
		{"{\"config\":{\"Cmd\":[1]}}", "item 0 of 'Cmd' is not a string without NUL"},
		{"{\"config\":{\"Cmd\":[\"a\\u0000b\"]}}", NULL},
		{"{\"config\":{\"User\":5}}", "'User' is not a string"},
		{"{\"rootfs\":{\"diff_ids\":[\"x\"]}}",
			"diff_id 1 is not sha256: and 64 lower-case hex digits"},
		{"", NULL},
		{"{", NULL},
	};

	for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
		struct image_config c = {0};
		auto_error error = NULL;
		char **ids = NULL;
		ck_assert_int_eq(config(table[i][0], &c, &ids, &error), -HOLT_EINVALID);
		if (table[i][1])
			ck_assert_str_eq(holt_error_message(error), table[i][1]);
		ck_assert_ptr_null(c.env);
		ck_assert_ptr_null(ids);
	}
}
END_TEST

START_TEST(other_platforms_are_refused)
{
	struct image_config c = {0};
	auto_error error = NULL;

	ck_assert_int_eq(
		config("{\"architecture\":\"arm64\",\"os\":\"linux\"}", &c, NULL, NULL), 0);
	ck_assert_int_eq(config_check_platform(&c, &error), -HOLT_EUNSUPPORTED);
	ck_assert_str_eq(
		holt_error_message(error), "the image is for linux/arm64, not for linux/amd64");
	config_done(&c);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {index_gives_the_platform, index_gives_the_name,
		bad_descriptors_are_refused, documents_have_limits, kinds_are_told_apart,
		manifest_lists_layers, config_is_read, bad_configs_are_refused,
		other_platforms_are_refused};

	return fixture_run("manifest", tests, sizeof tests / sizeof tests[0], NULL, NULL, 30);
}
