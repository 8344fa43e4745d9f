/* SPDX-License-Identifier: Apache-2.0 */
/* The image store and imports into it: whole layouts and tars, damage, several processes. */
/* long: every case leans on the same layouts and the same way of reading a rootfs back */
#include "image_fixture.h"

#include "base/fd.h"
#include "base/fsutil.h"
#include "base/mem.h"
#include "base/str.h"
#include "image/images.h"

#include <dirent.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/wait.h>

static char dir[] = "/tmp/holt-store-XXXXXX";
static struct image_store *store;

static char *in_dir(const char *name)
{
	char *path = str_printf("%s/%s", dir, name);

	ck_assert_ptr_nonnull(path);
	return path;
}

static struct image_store *open_store(void)
{
	auto_free char *path = in_dir("images");
	auto_error error = NULL;
	struct image_store *s = NULL;

	ck_assert_msg(image_store_open(path, &s, &error) == 0, "%s", holt_error_message(error));
	return s;
}

static void setup(void)
{
	memcpy(dir + strlen(dir) - 6, "XXXXXX", 6);
	ck_assert_ptr_nonnull(mkdtemp(dir));
	store = open_store();
}

static void teardown(void)
{
	image_store_close(store);
	ck_assert_int_eq(fs_remove_tree(AT_FDCWD, dir), 0);
}

static unsigned count_files(const char *name)
{
	auto_free char *path = in_dir(name);
	DIR *d = opendir(path);
	unsigned n = 0;

	ck_assert_ptr_nonnull(d);
	for (const struct dirent *e; (e = readdir(d));)
		n += e->d_name[0] != '.';
	(void)closedir(d);
	return n;
}

static void write_file(const char *path, const void *data, size_t len)
{
	const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(fd_write_full(fd, data, len), 0);
	close(fd);
}

/* --- Making layouts --------------------------------------------------------------------------- */

struct desc {
	char digest[DIGEST_STR_LEN + 1];
	size_t size;
};

static struct desc put_blob(const char *top, const void *data, size_t len)
{
	struct desc d = {.size = len};

	ck_assert_int_eq(digest_of(data, len, d.digest), 0);
	auto_free char *path = str_printf("%s/blobs/sha256/%s", top, d.digest + 7);
	write_file(path, data, len);
	return d;
}

/* What to spoil in a layout. */
enum spoil { GOOD, BAD_DIFF_ID, BAD_LAYER_BYTE, SHORT_LAYER, NO_LAYER, BAD_MANIFEST, BAD_CONFIG };

static void spoil_blob(const char *top, const struct desc *d, enum spoil how)
{
	auto_free char *path = str_printf("%s/blobs/sha256/%s", top, d->digest + 7);
	const int fd = open(path, O_RDWR | O_CLOEXEC);
	char c = 0;

	ck_assert_int_ge(fd, 0);
	if (how == SHORT_LAYER)
		ck_assert_int_eq(ftruncate(fd, (off_t)d->size - 1), 0);
	else if (how == NO_LAYER)
		ck_assert_int_eq(unlink(path), 0);
	ck_assert_int_eq(pread(fd, &c, 1, 20), 1);
	c ^= 1;
	if (how != SHORT_LAYER && how != NO_LAYER)
		ck_assert_int_eq(pwrite(fd, &c, 1, 20), 1);
	close(fd);
}

/* A layout of one or more layers; the lowest one is spoilt. */
static char *make_layout(const char *name, const struct ent *const *layers, size_t n,
	const char *filter, const char *ref, enum spoil how)
{
	char *top = in_dir(name);
	auto_free char *blobs = str_printf("%s/blobs/sha256", top);
	char *ids = NULL;
	char *descs = NULL;
	size_t unused;
	FILE *fi = open_memstream(&ids, &unused);
	FILE *fd = open_memstream(&descs, &unused);

	ck_assert_int_eq(fs_mkdirs(blobs), 0);
	for (size_t i = 0; i < n; i++) {
		struct tarbuf plain = fixture_tar(layers[i], NULL);
		struct tarbuf b = fixture_tar(layers[i], filter);
		char id[DIGEST_STR_LEN + 1];
		const struct desc d = put_blob(top, b.data, b.len);
		ck_assert_int_eq(digest_of(plain.data, plain.len, id), 0);
		if (i == 0 && how == BAD_DIFF_ID)
			id[20] = id[20] == '0' ? '1' : '0';
		if (i == 0 && (how == BAD_LAYER_BYTE || how == SHORT_LAYER || how == NO_LAYER))
			spoil_blob(top, &d, how);
		(void)fprintf(fi, "%s\"%s\"", i ? "," : "", id);
		(void)fprintf(
			fd, "%s{\"digest\":\"%s\",\"size\":%zu}", i ? "," : "", d.digest, d.size);
		free(plain.data);
		free(b.data);
	}
	(void)fclose(fi);
	(void)fclose(fd);
	auto_free char *config = str_printf(
		"{\"architecture\":\"amd64\",\"os\":\"linux\",\"config\":{"
		"\"Env\":[\"A=b\"],\"User\":\"agent\"},\"rootfs\":{"
		"\"diff_ids\":[%s]}}",
		ids);
	const struct desc c = put_blob(top, config, strlen(config));
	auto_free char *manifest = str_printf("{\"schemaVersion\":2,\"config\":{\"digest\":\"%s\","
					      "\"size\":%zu},\"layers\":[%s]}",
		c.digest, c.size, descs);
	const struct desc m = put_blob(top, manifest, strlen(manifest));
	if (how == BAD_CONFIG || how == BAD_MANIFEST)
		spoil_blob(top, how == BAD_CONFIG ? &c : &m, how);
	auto_free char *notes =
		ref ? str_printf(",\"annotations\":{\"org.opencontainers.image.ref.name\":\"%s\"}",
			      ref)
		    : str_dup("");
	auto_free char *index = str_printf("{\"schemaVersion\":2,\"manifests\":[{\"digest\":\"%s\","
					   "\"size\":%zu%s}]}",
		m.digest, m.size, notes);
	auto_free char *index_path = str_printf("%s/index.json", top);
	auto_free char *mark_path = str_printf("%s/oci-layout", top);
	write_file(index_path, index, strlen(index));
	write_file(mark_path, "{\"imageLayoutVersion\":\"1.0.0\"}", 30);
	free(ids);
	free(descs);
	return top;
}

static char *simple_layout(const char *name, const char *content, const char *ref)
{
	const struct ent *const layers[] = {
		LAYER(ENT_DIR("a"), ENT_FILE("a/x", "old"), ENT_FILE("a/y", "y")),
		LAYER(ENT_FILE("a/x", content), ENT_GONE("a/.wh.y"))};

	return make_layout(name, layers, 2, "gzip", ref, GOOD);
}

static struct image *import(const char *path, const char *name)
{
	const struct image_import_options o = {.name = name};
	auto_error error = NULL;
	struct image *img = NULL;

	ck_assert_msg(
		image_import(store, path, &o, &img, &error) == 0, "%s", holt_error_message(error));
	return img;
}

static void expect_content(const struct image *img, const char *expected)
{
	auto_error error = NULL;
	int fd = -1;

	ck_assert_int_eq(image_open_rootfs(store, img, &fd, &error), 0);
	char *text = fixture_list(fd);
	ck_assert_str_eq(text, expected);
	free(text);
	close(fd);
}

#define SIMPLE(x) "d / 755 0:0\nd a 755 0:0\nf a/x 644 0:0 \"" x "\"\n"

/* --- Imports ---------------------------------------------------------------------------------- */

static void rootfs_bytes_digest(const struct image *img, char ret[DIGEST_STR_LEN + 1])
{
	int fd = -1;

	ck_assert_int_eq(image_open_rootfs(store, img, &fd, NULL), 0);
	void *data = mmap(NULL, img->size_bytes, PROT_READ, MAP_PRIVATE, fd, 0);
	ck_assert_int_eq(digest_of(data, img->size_bytes, ret), 0);
	(void)munmap(data, img->size_bytes);
	close(fd);
}

START_TEST(a_layout_directory_is_imported)
{
	auto_free char *path = simple_layout("oci", "new", "demo:1");
	struct image *img = import(path, NULL);
	struct image *again = NULL;

	ck_assert_str_eq(img->name, "demo:1");
	ck_assert(digest_valid(img->digest));
	ck_assert(digest_valid(img->rootfs_digest));
	ck_assert_uint_eq(img->layers, 2);
	ck_assert_str_eq(img->config.env[0], "A=b");
	ck_assert_str_eq(img->config.user, "agent");
	expect_content(img, SIMPLE("new"));
	/* The name of the file stands for its bytes: made again, it is the same file. */
	char first[DIGEST_STR_LEN + 1];
	char second[DIGEST_STR_LEN + 1];
	rootfs_bytes_digest(img, first);
	ck_assert_int_eq(image_remove(store, "demo:1", NULL), 0);
	image_free(img);
	img = import(path, NULL);
	rootfs_bytes_digest(img, second);
	ck_assert_str_eq(first, second);
	/* Once more: the same image, under one more name. */
	again = import(path, "Other.host/x");
	ck_assert_str_eq(again->digest, img->digest);
	ck_assert_str_eq(again->rootfs_digest, img->rootfs_digest);
	ck_assert_str_eq(again->name, "Other.host/x:latest");
	ck_assert_uint_eq(count_files("images/rootfs"), 1);
	ck_assert_uint_eq(count_files("images/tmp"), 0);
	image_free(again);
	image_free(img);
}
END_TEST

/* The files of a directory as a tar, for a layout in a tar. */
static char *pack(const char *top, const char *filter)
{
	static char *paths[64];
	static char *texts[64];
	struct ent e[65] = {{0}};
	size_t n = 0;
	auto_free char *blobs = str_printf("%s/blobs/sha256", top);
	DIR *d = opendir(blobs);

	ck_assert_ptr_nonnull(d);
	e[n++] = (struct ent)ENT_DIR("./blobs");
	for (const struct dirent *b; (b = readdir(d));) {
		if (b->d_name[0] != '.')
			paths[n++] = str_printf("blobs/sha256/%s", b->d_name);
	}
	(void)closedir(d);
	paths[n++] = str_dup("oci-layout");
	paths[n++] = str_dup("./index.json");
	for (size_t i = 1; i < n; i++) {
		auto_free char *path = str_printf("%s/%s", top, paths[i]);
		size_t len = 0;
		ck_assert_int_eq(fs_read_file(AT_FDCWD, path, 1 << 20, &texts[i], &len), 0);
		/* The table holds text only, so the layers must not be compressed. */
		e[i] = (struct ent){.type = 'f', .path = paths[i], .text = texts[i]};
	}
	struct tarbuf t = fixture_tar(e, filter);
	char *path = str_printf("%s.tar", top);
	write_file(path, t.data, t.len);
	free(t.data);
	for (size_t i = 1; i < n; i++) {
		mem_free(paths[i]);
		mem_free(texts[i]);
	}
	return path;
}

START_TEST(a_layout_in_a_tar_is_imported)
{
	static const char *const filters[] = {NULL, "gzip", "zstd", "xz"};
	/* A layer without bytes: as text it can be put into the table of a tar. */
	auto_free char *top = in_dir("empty");
	const struct ent *const none[] = {LAYER({0})};
	mem_free(make_layout("empty", none, 0, NULL, "empty:1", GOOD));

	for (size_t i = 0; i < 4; i++) {
		auto_free char *path = pack(top, filters[i]);
		struct image *img = import(path, NULL);
		ck_assert_str_eq(img->name, "empty:1");
		ck_assert_uint_eq(img->layers, 0);
		expect_content(img, "d / 755 0:0\n");
		ck_assert_int_eq(image_remove(store, "empty:1", NULL), 0);
		image_free(img);
		ck_assert_uint_eq(count_files("images/tmp"), 0);
	}
}
END_TEST

START_TEST(a_plain_tar_is_imported)
{
	static const char *const filters[] = {NULL, "gzip", "zstd", "xz"};
	auto_free char *path = in_dir("root.tar");
	char digest[DIGEST_STR_LEN + 1];
	auto_free char *rootfs_digest = NULL;

	for (size_t i = 0; i < 4; i++) {
		struct tarbuf b = fixture_tar(
			LAYER(ENT_DIR("./"), ENT_DIR("a"), ENT_FILE("a/x", "new")), filters[i]);
		write_file(path, b.data, b.len);
		ck_assert_int_eq(digest_of(b.data, b.len, digest), 0);
		struct image *img = import(path, "plain");
		ck_assert_str_eq(img->digest, digest);
		ck_assert_uint_eq(img->layers, 1);
		ck_assert_ptr_null(img->config.cmd);
		expect_content(img, SIMPLE("new"));
		if (!rootfs_digest)
			rootfs_digest = str_dup(img->rootfs_digest);
		ck_assert_str_eq(img->rootfs_digest, rootfs_digest);
		image_free(img);
		free(b.data);
	}
	ck_assert_uint_eq(count_files("images/rootfs"), 1);
}
END_TEST

static void refuse(const char *path, int code, const char *part)
{
	auto_error error = NULL;
	struct image *img = NULL;
	struct image **list = NULL;
	size_t n = 1;

	ck_assert_int_eq(image_import(store, path, NULL, &img, &error), -code);
	ck_assert_ptr_null(img);
	ck_assert_msg(
		strstr(holt_error_message(error), part) != NULL, "%s", holt_error_message(error));
	ck_assert_str_eq(holt_error_stage(error), "image import");
	ck_assert_str_ne(holt_error_object(error), "");
	ck_assert_int_eq(image_list(store, &list, &n, NULL), 0);
	ck_assert_uint_eq(n, 0);
	image_list_free(list, n);
	ck_assert_uint_eq(count_files("images/rootfs"), 0);
	ck_assert_uint_eq(count_files("images/tmp"), 0);
}

START_TEST(k15_damaged_layouts_leave_the_store_alone)
{
	static const struct {
		enum spoil how;
		const char *part;
	} table[] = {
		{BAD_DIFF_ID, "layer 1 of 1: a decompressed layer has the digest sha256:"},
		{BAD_LAYER_BYTE, "layer 1 of 1: a layer has the digest sha256:"},
		{SHORT_LAYER, " bytes, expected "},
		{NO_LAYER, "the layout does not hold the blob sha256:"},
		{BAD_MANIFEST, "a blob has the digest sha256:"},
		{BAD_CONFIG, "a blob has the digest sha256:"},
	};
	static const char *const filters[] = {NULL, "gzip"};
	const struct ent *const layers[] = {LAYER(ENT_FILE("x", "some data of a file"))};

	for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
		for (size_t k = 0; k < 2; k++) {
			auto_free char *path = make_layout(
				"bad", layers, 1, filters[k], NULL, table[i].how);
			refuse(path, HOLT_EINVALID, table[i].part);
			ck_assert_int_eq(fs_remove_tree(AT_FDCWD, path), 0);
		}
	}
}
END_TEST

START_TEST(what_is_no_image_is_refused)
{
	auto_free char *empty = in_dir("empty");
	auto_free char *text = in_dir("text");
	auto_free char *fifo = in_dir("fifo");
	auto_free char *cut = in_dir("cut.tar");
	auto_free char *missing = in_dir("missing");
	struct tarbuf b = fixture_tar(LAYER(ENT_FILE("x", "x")), NULL);

	ck_assert_int_eq(mkdir(empty, 0700), 0);
	refuse(empty, HOLT_EINVALID, "not an OCI image layout: 'oci-layout' is missing");
	write_file(text, "just a text", 11);
	refuse(text, HOLT_EINVALID, "it is not a tar archive");
	ck_assert_int_eq(mkfifo(fifo, 0600), 0);
	refuse(fifo, HOLT_EINVALID, "neither a file nor a directory");
	refuse(missing, HOLT_ENOT_FOUND, "No such file or directory");
	/* Cut between two entries, which only the missing end mark shows. */
	write_file(cut, b.data, 1024);
	refuse(cut, HOLT_EINVALID, "stops without its end mark");
	free(b.data);
}
END_TEST

START_TEST(escapes_are_refused)
{
	const struct ent *const layers[] = {LAYER(ENT_FILE("../../evil", "x"))};
	auto_free char *path = make_layout("evil", layers, 1, "gzip", NULL, GOOD);
	auto_free char *target = in_dir("evil-target");

	refuse(path, HOLT_EINVALID, "'../../evil': the path goes upwards with '..'");
	ck_assert_int_ne(access(target, F_OK), 0);
}
END_TEST

static void count_progress(uint64_t done, uint64_t total, void *user)
{
	ck_assert_uint_le(done, total);
	*(uint64_t *)user = done;
}

static void cancel_soon(uint64_t done, uint64_t total, void *user)
{
	(void)done;
	(void)total;
	*(volatile int *)user = 1;
}

START_TEST(a_running_import_is_cancelled)
{
	char *big = malloc(4000001);
	auto_free char *path = in_dir("big.tar");
	volatile int cancel = 0;
	const struct image_import_options o = {
		.progress = cancel_soon, .user = (void *)(uintptr_t)&cancel, .cancel = &cancel};
	auto_error error = NULL;
	struct image *img = NULL;

	memset(big, 'x', 4000000);
	big[4000000] = 0;
	struct tarbuf b = fixture_tar(LAYER(ENT_FILE("big", big)), NULL);
	write_file(path, b.data, b.len);
	ck_assert_int_eq(image_import(store, path, &o, &img, &error), -HOLT_ECANCELLED);
	ck_assert_ptr_nonnull(strstr(holt_error_message(error), "the import was cancelled"));
	ck_assert_uint_eq(count_files("images/tmp"), 0);
	ck_assert_uint_eq(count_files("images/rootfs"), 0);
	free(b.data);
	free(big);
}
END_TEST

START_TEST(progress_and_cancel)
{
	auto_free char *path = simple_layout("oci", "new", NULL);
	uint64_t done = 0;
	volatile int cancel = 0;
	struct image_import_options o = {
		.progress = count_progress, .user = &done, .cancel = &cancel};
	auto_error error = NULL;
	struct image *img = NULL;

	cancel = 1;
	ck_assert_int_eq(image_import(store, path, &o, &img, &error), -HOLT_ECANCELLED);
	ck_assert_uint_eq(count_files("images/tmp"), 0);
	ck_assert_uint_eq(count_files("images/rootfs"), 0);
	holt_error_free(error);
	error = NULL;
	cancel = 0;
	ck_assert_int_eq(image_import(store, path, &o, &img, &error), 0);
	ck_assert_uint_gt(done, 0);
	ck_assert_ptr_null(img->name);
	image_free(img);
}
END_TEST

START_TEST(a_bad_name_is_refused_first)
{
	auto_free char *path = simple_layout("oci", "new", NULL);
	const struct image_import_options o = {.name = "Bad Name"};
	struct image *img = NULL;

	ck_assert_int_eq(image_import(store, path, &o, &img, NULL), -HOLT_EINVALID);
	ck_assert_uint_eq(count_files("images/rootfs"), 0);
}
END_TEST

/* --- Looking up and removing ------------------------------------------------------------------ */

static struct image *get(const char *ref)
{
	auto_error error = NULL;
	struct image *img = NULL;

	ck_assert_msg(
		image_get(store, ref, &img, &error) == 0, "%s: %s", ref, holt_error_message(error));
	return img;
}

static void get_none(const char *ref, int code)
{
	auto_error error = NULL;
	struct image *img = NULL;

	ck_assert_int_eq(image_get(store, ref, &img, &error), -code);
	ck_assert_ptr_null(img);
	ck_assert_str_eq(holt_error_object(error), ref);
	ck_assert_str_ne(holt_error_hint(error), "");
}

START_TEST(images_are_found_by_name_and_digest)
{
	auto_free char *path = simple_layout("oci", "new", NULL);
	struct image *img = import(path, "demo");
	auto_free char *prefix = str_ndup(img->digest + 7, 8);
	auto_free char *pinned = str_printf("demo@%s", img->digest);
	auto_free char *foreign = str_printf("other@%s", img->digest);
	const char *const good[] = {"demo", "demo:latest", "docker.io/library/demo", img->digest,
		img->digest + 7, prefix, pinned};

	for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
		struct image *found = get(good[i]);
		ck_assert_str_eq(found->digest, img->digest);
		ck_assert_str_eq(found->name, "demo:latest");
		image_free(found);
	}
	get_none("demo:1", HOLT_ENOT_FOUND);
	get_none("nothing", HOLT_ENOT_FOUND);
	get_none("sha256:0000", HOLT_ENOT_FOUND);
	get_none(foreign, HOLT_ENOT_FOUND);
	get_none("Not A Name", HOLT_EINVALID);
	image_free(img);
}
END_TEST

START_TEST(a_name_moves)
{
	auto_free char *one = simple_layout("one", "one", NULL);
	auto_free char *two = simple_layout("two", "two", NULL);
	struct image *a = import(one, "demo");
	struct image *b = import(two, "demo");
	struct image *found = get("demo");
	struct image **list = NULL;
	size_t n = 0;

	ck_assert_str_ne(a->digest, b->digest);
	ck_assert_str_eq(found->digest, b->digest);
	expect_content(found, SIMPLE("two"));
	/* The other one is there without a name, at the end of the list. */
	ck_assert_int_eq(image_list(store, &list, &n, NULL), 0);
	ck_assert_uint_eq(n, 2);
	ck_assert_str_eq(list[0]->name, "demo:latest");
	ck_assert_ptr_null(list[1]->name);
	ck_assert_str_eq(list[1]->digest, a->digest);
	image_list_free(list, n);
	ck_assert_int_eq(image_remove(store, a->digest, NULL), 0);
	ck_assert_uint_eq(count_files("images/rootfs"), 1);
	image_free(found);
	image_free(a);
	image_free(b);
}
END_TEST

START_TEST(k44_a_tag_moves)
{
	auto_free char *one = simple_layout("one", "one", NULL);
	auto_free char *two = simple_layout("two", "two", NULL);
	struct image *a = import(one, "a");
	struct image *b = import(two, "b");
	auto_free char *pinned = str_printf("c@%s", a->digest);
	auto_error error = NULL;

	ck_assert_int_eq(image_tag(store, "a", "c:1", NULL), 0);
	struct image *before = get("c:1");
	ck_assert_str_eq(before->digest, a->digest);
	ck_assert_int_eq(image_tag(store, b->digest, "c:1", NULL), 0);
	struct image *after = get("c:1");
	ck_assert_str_eq(after->digest, b->digest);
	/* Neither a missing image nor a bad name changes anything. */
	ck_assert_int_eq(image_tag(store, "nothing", "c:1", &error), -HOLT_ENOT_FOUND);
	ck_assert_str_eq(holt_error_object(error), "nothing");
	ck_assert_int_eq(image_tag(store, "a", pinned, NULL), -HOLT_EINVALID);
	ck_assert_int_eq(image_tag(store, "a", "Not A Name", NULL), -HOLT_EINVALID);
	struct image *still = get("c:1");
	ck_assert_str_eq(still->digest, b->digest);
	/* The image that lost the name is there by its own. */
	expect_content(a, SIMPLE("one"));
	image_free(still);
	image_free(after);
	image_free(before);
	image_free(a);
	image_free(b);
}
END_TEST

START_TEST(an_image_goes_with_its_last_name)
{
	auto_free char *path = simple_layout("oci", "new", NULL);
	struct image *img = import(path, "b");
	auto_error error = NULL;
	struct image **list = NULL;
	size_t n = 0;
	int fd = -1;

	image_free(import(path, "a"));
	ck_assert_int_eq(image_list(store, &list, &n, NULL), 0);
	ck_assert_uint_eq(n, 2);
	ck_assert_str_eq(list[0]->name, "a:latest");
	ck_assert_str_eq(list[1]->name, "b:latest");
	image_list_free(list, n);
	ck_assert_int_eq(image_remove(store, img->digest, &error), -HOLT_EBUSY);
	ck_assert_str_eq(holt_error_message(error), "the image has 2 names");
	ck_assert_int_eq(image_open_rootfs(store, img, &fd, NULL), 0);
	ck_assert_int_eq(image_remove(store, "a", NULL), 0);
	ck_assert_uint_eq(count_files("images/rootfs"), 1);
	ck_assert_int_eq(image_remove(store, "a", NULL), -HOLT_ENOT_FOUND);
	ck_assert_int_eq(image_remove(store, "b", NULL), 0);
	ck_assert_uint_eq(count_files("images/rootfs"), 0);
	get_none("b", HOLT_ENOT_FOUND);
	/* Who has it open can go on reading. */
	char *text = fixture_list(fd);
	ck_assert_str_eq(text, SIMPLE("new"));
	free(text);
	close(fd);
	ck_assert_int_eq(image_open_rootfs(store, img, &fd, NULL), -HOLT_ENOT_FOUND);
	image_free(img);
}
END_TEST

START_TEST(two_images_may_share_a_rootfs)
{
	struct tarbuf plain = fixture_tar(LAYER(ENT_FILE("x", "x")), NULL);
	struct tarbuf packed = fixture_tar(LAYER(ENT_FILE("x", "x")), "gzip");
	auto_free char *one = in_dir("one.tar");
	auto_free char *two = in_dir("two.tar");

	write_file(one, plain.data, plain.len);
	write_file(two, packed.data, packed.len);
	struct image *a = import(one, "a");
	struct image *b = import(two, "b");
	ck_assert_str_ne(a->digest, b->digest);
	ck_assert_str_eq(a->rootfs_digest, b->rootfs_digest);
	ck_assert_int_eq(image_remove(store, "a", NULL), 0);
	expect_content(b, "d / 755 0:0\nf x 644 0:0 \"x\"\n");
	image_free(a);
	image_free(b);
	free(plain.data);
	free(packed.data);
}
END_TEST

/* --- Crashes and company ---------------------------------------------------------------------- */

START_TEST(k25_leftovers_go_at_the_next_open)
{
	auto_free char *path = simple_layout("oci", "new", NULL);
	auto_free char *dead = in_dir("images/tmp/import-dead");
	auto_free char *alive = in_dir("images/tmp/import-alive");
	auto_free char *orphan = str_printf("%s/images/rootfs/%064d.squashfs", dir, 7);
	auto_free char *foreign = in_dir("images/rootfs/README");

	image_free(import(path, "demo"));
	write_file(dead, "x", 1);
	write_file(alive, "x", 1);
	write_file(orphan, "x", 1);
	write_file(foreign, "x", 1);
	const int fd = open(alive, O_RDWR | O_CLOEXEC);
	ck_assert_int_eq(flock(fd, LOCK_EX), 0);
	struct image_store *other = open_store();
	ck_assert_int_ne(access(dead, F_OK), 0);
	ck_assert_int_eq(access(alive, F_OK), 0);
	ck_assert_int_ne(access(orphan, F_OK), 0);
	ck_assert_int_eq(access(foreign, F_OK), 0);
	image_store_close(other);
	close(fd);
	struct image *img = get("demo");
	expect_content(img, SIMPLE("new"));
	image_free(img);
}
END_TEST

START_TEST(a_lost_rootfs_is_made_again)
{
	auto_free char *path = simple_layout("oci", "new", NULL);
	struct image *img = import(path, "demo");
	auto_free char *file = str_printf(
		"%s/images/rootfs/%s.squashfs", dir, img->rootfs_digest + 7);
	auto_error error = NULL;
	int fd = -1;

	ck_assert_int_eq(truncate(file, 4096 * 100), 0);
	ck_assert_int_eq(image_open_rootfs(store, img, &fd, &error), -HOLT_EIO);
	struct image *again = import(path, "demo");
	expect_content(again, SIMPLE("new"));
	image_free(again);
	ck_assert_int_eq(unlink(file), 0);
	again = import(path, "demo");
	expect_content(again, SIMPLE("new"));
	image_free(again);
	image_free(img);
}
END_TEST

#define WORKERS 4
#define ROUNDS  6

/* What one of several processes does to the store at once. */
static int work(unsigned id, const char *same, const char *const *own)
{
	struct image_store *s = open_store();
	const struct image_import_options shared = {.name = "shared"};
	int failed = 0;

	for (unsigned i = 0; i < ROUNDS; i++) {
		auto_free char *name = str_printf("own-%u", id);
		const struct image_import_options mine = {.name = name};
		struct image *img = NULL;
		failed += image_import(s, same, &shared, &img, NULL) != 0;
		image_free(img);
		img = NULL;
		failed += image_import(s, own[id], &mine, &img, NULL) != 0;
		image_free(img);
		/* Someone else may have removed it just now. */
		const int code = image_remove(s, "shared", NULL);
		failed += code != 0 && code != -HOLT_ENOT_FOUND;
		failed += image_remove(s, name, NULL) != 0;
	}
	image_store_close(s);
	return failed;
}

START_TEST(k27_processes_share_a_store)
{
	auto_free char *same = simple_layout("same", "same", NULL);
	char *own[WORKERS];
	pid_t pids[WORKERS];

	for (unsigned i = 0; i < WORKERS; i++) {
		char name[16];
		(void)snprintf(name, sizeof name, "own%u", i);
		own[i] = simple_layout(name, name, NULL);
	}
	for (unsigned i = 0; i < WORKERS; i++) {
		pids[i] = fork();
		ck_assert_int_ge(pids[i], 0);
		if (pids[i] == 0)
			_exit(work(i, same, (const char *const *)own));
	}
	for (unsigned i = 0; i < WORKERS; i++) {
		int status = -1;
		ck_assert_int_eq(waitpid(pids[i], &status, 0), pids[i]);
		ck_assert_int_eq(status, 0);
		mem_free(own[i]);
	}
	struct image **list = NULL;
	size_t n = 1;
	ck_assert_int_eq(image_list(store, &list, &n, NULL), 0);
	ck_assert_uint_eq(n, 0);
	image_list_free(list, n);
	ck_assert_uint_eq(count_files("images/rootfs"), 0);
	ck_assert_uint_eq(count_files("images/tmp"), 0);
}
END_TEST

/* A process that imports for ever is killed at several moments; then all must be in order. */
START_TEST(k25_killed_imports_leave_a_good_store)
{
	char *big = malloc(4000001);
	for (size_t i = 0; i < 4000000; i++)
		big[i] = (char)('a' + (i * i >> 7) % 23);
	big[4000000] = 0;
	const struct ent *const layers[] = {LAYER(ENT_FILE("big", big))};
	auto_free char *path = make_layout("big", layers, 1, NULL, NULL, GOOD);
	char whole[DIGEST_STR_LEN + 1];
	struct image *undisturbed = import(path, "big");

	rootfs_bytes_digest(undisturbed, whole);
	image_free(undisturbed);
	ck_assert_int_eq(image_remove(store, "big", NULL), 0);
	for (unsigned round = 0; round < 20; round++) {
		const pid_t pid = fork();
		ck_assert_int_ge(pid, 0);
		if (pid == 0) {
			struct image_store *s = open_store();
			for (;;) {
				struct image *img = NULL;
				const struct image_import_options o = {.name = "big"};
				(void)image_import(s, path, &o, &img, NULL);
				(void)image_remove(s, "big", NULL);
				image_free(img);
			}
		}
		(void)usleep(3000 + round * 2777);
		ck_assert_int_eq(kill(pid, SIGKILL), 0);
		ck_assert_int_eq(waitpid(pid, NULL, 0), pid);

		image_store_close(store);
		store = open_store();
		ck_assert_uint_eq(count_files("images/tmp"), 0);
		struct image **list = NULL;
		size_t n = 0;
		ck_assert_int_eq(image_list(store, &list, &n, NULL), 0);
		ck_assert_uint_eq(count_files("images/rootfs"), n);
		for (size_t i = 0; i < n; i++) {
			char digest[DIGEST_STR_LEN + 1];
			rootfs_bytes_digest(list[i], digest);
			ck_assert_str_eq(digest, whole);
			ck_assert_int_eq(image_remove(store, list[i]->digest, NULL), 0);
		}
		image_list_free(list, n);
	}
	free(big);
}
END_TEST

START_TEST(a_newer_index_is_refused)
{
	auto_free char *index = in_dir("images/index.db");
	auto_free char *path = in_dir("images");
	auto_error error = NULL;
	struct image_store *s = NULL;
	const uint8_t version[] = {0, 0, 0, 99};

	image_store_close(store);
	store = NULL;
	/* All of it is in the index itself by now. */
	auto_free char *log = in_dir("images/index.db-wal");
	ck_assert_int_eq(unlink(log), 0);
	const int fd = open(index, O_RDWR | O_CLOEXEC);
	ck_assert_int_eq(pwrite(fd, version, 4, 60), 4); /* user_version in the file's head */
	close(fd);
	ck_assert_int_eq(image_store_open(path, &s, &error), -HOLT_EUNSUPPORTED);
	ck_assert_str_eq(holt_error_message(error),
		"the image index has version 99, this holt knows up to 1");
	ck_assert_ptr_null(s);
}
END_TEST

START_TEST(k29_odd_paths_work)
{
	auto_free char *path = str_printf(
		"%s/a dir with 'quotes', %%20 ?mode=ro#x and \xc3\xbc/%0150d", dir, 1);
	auto_free char *layout = simple_layout("oci", "new", "demo:1");
	auto_error error = NULL;
	struct image_store *s = NULL;
	struct image *img = NULL;

	ck_assert_msg(image_store_open(path, &s, &error) == 0, "%s", holt_error_message(error));
	ck_assert_int_eq(image_import(s, layout, NULL, &img, &error), 0);
	auto_free char *index = str_printf("%s/index.db", path);
	ck_assert_int_eq(access(index, F_OK), 0);
	image_free(img);
	image_store_close(s);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {a_layout_directory_is_imported, a_layout_in_a_tar_is_imported,
		a_plain_tar_is_imported, k15_damaged_layouts_leave_the_store_alone,
		what_is_no_image_is_refused, escapes_are_refused, a_running_import_is_cancelled,
		progress_and_cancel, a_bad_name_is_refused_first,
		images_are_found_by_name_and_digest, a_name_moves, k44_a_tag_moves,
		an_image_goes_with_its_last_name, two_images_may_share_a_rootfs,
		k25_leftovers_go_at_the_next_open, a_lost_rootfs_is_made_again,
		k27_processes_share_a_store, k25_killed_imports_leave_a_good_store,
		a_newer_index_is_refused, k29_odd_paths_work};

	return fixture_run("store", tests, sizeof tests / sizeof tests[0], setup, teardown, 120);
}
