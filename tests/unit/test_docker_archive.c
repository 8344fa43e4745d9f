/* SPDX-License-Identifier: Apache-2.0 */
/* Imports of what docker save writes: names, links, compressed layers, and hostile archives. */
#include "image_fixture.h"

#include "base/fd.h"
#include "base/fsutil.h"
#include "base/mem.h"
#include "base/str.h"
#include "image/docker_archive.h"
#include "image/images.h"

static char dir[] = "/tmp/holt-docker-XXXXXX";
static struct image_store *store;

static struct tarbuf out; /* the archive that is being made */
static struct archive *tar;

static struct tarbuf layers[2];
static char diff_ids[2][DIGEST_STR_LEN + 1];

static char *in_dir(const char *name)
{
	char *path = str_printf("%s/%s", dir, name);

	ck_assert_ptr_nonnull(path);
	return path;
}

static void setup(void)
{
	auto_error error = NULL;

	memcpy(dir + strlen(dir) - 6, "XXXXXX", 6);
	ck_assert_ptr_nonnull(mkdtemp(dir));
	auto_free char *path = in_dir("images");
	ck_assert_msg(image_store_open(path, &store, &error) == 0, "%s", holt_error_message(error));
	layers[0] = fixture_tar(LAYER(ENT_FILE("a", "below"), ENT_FILE("b", "kept")), NULL);
	layers[1] = fixture_tar(LAYER(ENT_FILE("a", "above")), NULL);
	for (size_t i = 0; i < 2; i++)
		ck_assert_int_eq(digest_of(layers[i].data, layers[i].len, diff_ids[i]), 0);
	out = (struct tarbuf){0};
	tar = archive_write_new();
	ck_assert_int_eq(archive_write_set_format_pax_restricted(tar), ARCHIVE_OK);
	ck_assert_int_eq(archive_write_set_bytes_in_last_block(tar, 1), ARCHIVE_OK);
	ck_assert_int_eq(archive_write_open(tar, &out, NULL, fixture_write, NULL), ARCHIVE_OK);
}

static void teardown(void)
{
	free(layers[0].data);
	free(layers[1].data);
	free(out.data);
	image_store_close(store);
	ck_assert_int_eq(fs_remove_tree(AT_FDCWD, dir), 0);
}

static void put(const char *path, const void *data, size_t len)
{
	struct archive_entry *e = archive_entry_new();

	archive_entry_set_pathname(e, path);
	archive_entry_set_filetype(e, AE_IFREG);
	archive_entry_set_perm(e, 0644);
	archive_entry_set_size(e, (la_int64_t)len);
	ck_assert_int_eq(archive_write_header(tar, e), ARCHIVE_OK);
	ck_assert_int_eq(archive_write_data(tar, data, len), (la_ssize_t)len);
	archive_entry_free(e);
}

static void put_text(const char *path, const char *text)
{
	put(path, text, strlen(text));
}

static void put_config(const char *path, const char *note)
{
	auto_free char *text = str_printf(
		"{\"architecture\":\"amd64\",\"os\":\"linux\",\"author\":\"%s\","
		"\"rootfs\":{\"type\":\"layers\",\"diff_ids\":[\"%s\",\"%s\"]}}",
		note, diff_ids[0], diff_ids[1]);

	put_text(path, text);
}

static int import(const char *name, struct image **ret, holt_error **reterr)
{
	auto_free char *path = in_dir("in.tar");
	const struct image_import_options o = {.name = name};

	if (tar) {
		ck_assert_int_eq(archive_write_close(tar), ARCHIVE_OK);
		archive_write_free(tar);
		tar = NULL;
		ck_assert_int_eq(fs_replace(AT_FDCWD, path, out.data, out.len, 0600), 0);
	}
	return image_import(store, path, &o, ret, reterr);
}

static struct image *import_ok(const char *name)
{
	auto_error error = NULL;
	struct image *img = NULL;

	ck_assert_msg(import(name, &img, &error) == 0, "%s", holt_error_message(error));
	return img;
}

static void expect_files(const struct image *img)
{
	auto_error error = NULL;
	auto_fd fd = FD_NONE;

	ck_assert_int_eq(image_open_rootfs(store, img, &fd, &error), 0);
	char *text = fixture_list(fd);
	ck_assert_str_eq(text, "d / 755 0:0\nf a 644 0:0 \"above\"\nf b 644 0:0 \"kept\"\n");
	free(text);
}

/* The import fails with @code and @text in its message, and nothing is in the store. */
static void expect_refused(const char *name, int code, const char *text)
{
	auto_error error = NULL;
	struct image *img = NULL;
	struct image **list = NULL;
	size_t n = 0;

	ck_assert_int_eq(import(name, &img, &error), -code);
	ck_assert_msg(strstr(holt_error_message(error), text), "%s", holt_error_message(error));
	ck_assert_int_eq(image_list(store, &list, &n, NULL), 0);
	ck_assert_uint_eq(n, 0);
	image_list_free(list, n);
}

#define MANIFEST_OF(config, tags)                       \
	"{\"Config\":\"" config "\",\"RepoTags\":" tags \
	",\"Layers\":[\"0/layer.tar\",\"1/layer.tar\"]}"

static void put_layers(void)
{
	put("0/layer.tar", layers[0].data, layers[0].len);
	put("1/layer.tar", layers[1].data, layers[1].len);
}

START_TEST(every_name_and_the_same_digest_each_time)
{
	struct image *other = NULL;

	put_text("manifest.json", "[" MANIFEST_OF("c.json", "[\"r.example/a:1\",\"b\"]") "]");
	put_config("c.json", "x");
	put_layers();
	struct image *img = import_ok(NULL);
	ck_assert_str_eq(img->name, "r.example/a:1");
	ck_assert_uint_eq(img->layers, 2);
	expect_files(img);
	ck_assert_int_eq(image_get(store, "b:latest", &other, NULL), 0);
	ck_assert_str_eq(other->digest, img->digest);
	struct image *again = import_ok("c");
	ck_assert_str_eq(again->name, "c:latest");
	ck_assert_str_eq(again->digest, img->digest);
	image_free(again);
	image_free(other);
	image_free(img);
}
END_TEST

START_TEST(layers_behind_links_and_in_gzip)
{
	struct tarbuf gz = fixture_tar(LAYER(ENT_FILE("a", "above")), "gzip");
	struct archive_entry *e = archive_entry_new();

	put_text("manifest.json", "[" MANIFEST_OF("c.json", "null") "]");
	put_config("c.json", "x");
	put("2/layer.tar", layers[0].data, layers[0].len);
	put("1/layer.tar", gz.data, gz.len);
	archive_entry_set_pathname(e, "0/layer.tar");
	archive_entry_set_filetype(e, AE_IFLNK);
	archive_entry_set_symlink(e, "../2/./layer.tar");
	ck_assert_int_eq(archive_write_header(tar, e), ARCHIVE_OK);
	archive_entry_free(e);
	struct image *img = import_ok(NULL);
	ck_assert_ptr_null(img->name);
	expect_files(img);
	image_free(img);
	free(gz.data);
}
END_TEST

static void put_two(void)
{
	put_text("manifest.json",
		"[" MANIFEST_OF("c.json", "[\"a:1\"]") "," MANIFEST_OF("d.json", "[\"b:2\"]") "]");
	put_config("c.json", "x");
	put_config("d.json", "y");
	put_layers();
}

START_TEST(one_of_several_by_its_name)
{
	put_two();
	expect_refused(NULL, HOLT_EINVALID, "a:1, b:2");
	expect_refused("b:3", HOLT_EINVALID, "a:1, b:2");
	struct image *b = import_ok("b:2");
	struct image *a = import_ok("docker.io/library/a:1");
	ck_assert_str_eq(a->name, "a:1");
	ck_assert_str_ne(a->digest, b->digest);
	expect_files(b);
	image_free(a);
	image_free(b);
}
END_TEST

START_TEST(members_that_are_missing)
{
	put_text("manifest.json", "[" MANIFEST_OF("c.json", "null") "]");
	put_config("c.json", "x");
	put("1/layer.tar", layers[1].data, layers[1].len);
	expect_refused(NULL, HOLT_EINVALID, "does not hold '0/layer.tar'");
}
END_TEST

START_TEST(no_configuration)
{
	put_text("manifest.json", "[" MANIFEST_OF("../c.json", "null") "]");
	put_layers();
	expect_refused(NULL, HOLT_EINVALID, "upwards");
}
END_TEST

START_TEST(layers_that_are_not_those_of_the_configuration)
{
	put_text("manifest.json", "[" MANIFEST_OF("c.json", "null") "]");
	put_config("c.json", "x");
	put("0/layer.tar", layers[1].data, layers[1].len);
	put("1/layer.tar", layers[1].data, layers[1].len);
	expect_refused(NULL, HOLT_EINVALID, diff_ids[0]);
}
END_TEST

START_TEST(links_in_a_circle)
{
	static const char *const links[][2] = {
		{"0/layer.tar", "../1/layer.tar"}, {"1/layer.tar", "../0/layer.tar"}};

	put_text("manifest.json", "[" MANIFEST_OF("c.json", "null") "]");
	put_config("c.json", "x");
	for (size_t i = 0; i < 2; i++) {
		struct archive_entry *e = archive_entry_new();
		archive_entry_set_pathname(e, links[i][0]);
		archive_entry_set_filetype(e, AE_IFLNK);
		archive_entry_set_symlink(e, links[i][1]);
		ck_assert_int_eq(archive_write_header(tar, e), ARCHIVE_OK);
		archive_entry_free(e);
	}
	expect_refused(NULL, HOLT_EINVALID, "too many links");
}
END_TEST

START_TEST(a_manifest_that_is_huge)
{
	char *text = malloc(MANIFEST_BYTES_MAX + 1);

	ck_assert_ptr_nonnull(text);
	memset(text, ' ', MANIFEST_BYTES_MAX + 1);
	put("manifest.json", text, MANIFEST_BYTES_MAX + 1);
	free(text);
	expect_refused(NULL, HOLT_ELIMIT, "'manifest.json'");
}
END_TEST

START_TEST(a_manifest_of_another_kind)
{
	static const char *const texts[] = {"[]", "{}", "[1]", "[{}]", "[{\"Config\":1}]",
		"[{\"Config\":\"c.json\",\"Layers\":[1]}]", "[", "[],", ""};

	put_text("manifest.json", texts[_i]);
	put_config("c.json", "x");
	expect_refused(NULL, HOLT_EINVALID, "");
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {every_name_and_the_same_digest_each_time,
		layers_behind_links_and_in_gzip, one_of_several_by_its_name,
		members_that_are_missing, no_configuration,
		layers_that_are_not_those_of_the_configuration, links_in_a_circle,
		a_manifest_that_is_huge};
	Suite *s = suite_create("docker archives");
	TCase *c = tcase_create("kinds");

	tcase_add_checked_fixture(c, setup, teardown);
	tcase_add_loop_test(c, a_manifest_of_another_kind, 0, 9);
	suite_add_tcase(s, c);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	const int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0 || fixture_run("docker archive", tests, sizeof tests / sizeof tests[0],
				      setup, teardown, 60);
}
