/* SPDX-License-Identifier: Apache-2.0 */
/* The squashfs writer and the tar reader below it: K12, K13, K15, and the same bytes each time. */
#include "image_fixture.h"

#include "base/log.h"
#include "base/mem.h"

#include <locale.h>
#include <signal.h>

#define ROOT "d / 755 0:0\n"

START_TEST(k12_xattrs_are_kept)
{
	EXPECT(ROOT "d d 755 0:0 user.d=1\nl l 777 0:0 -> x trusted.t=v\n"
		    "f x 644 0:0 \"x\" user.foo=bar\nf y 644 0:0 \"y\" security.capability=cap\n",
		LAYER({.type = 'd', .path = "d", .xattr = "user.d", .value = "1"},
			{.type = 'l', .path = "l", .text = "x", .xattr = "trusted.t", .value = "v"},
			{.type = 'f',
				.path = "x",
				.text = "x",
				.xattr = "user.foo",
				.value = "bar"},
			{.type = 'f',
				.path = "y",
				.text = "y",
				.xattr = "security.capability",
				.value = "cap"}));
	EXPECT(ROOT "p p 644 0:0 user.a=b\n",
		LAYER({.type = 'p', .path = "p", .xattr = "user.a", .value = "b"}));
}
END_TEST

static char warned[512];
static unsigned warnings;

static void on_log(int level, const char *component, const char *message, void *user)
{
	(void)component;
	(void)user;
	if (level != HOLT_LOG_WARN)
		return;
	warnings++;
	(void)snprintf(warned, sizeof warned, "%s", message);
}

START_TEST(k12_acls_are_dropped_with_a_warning)
{
	holt_log_set(HOLT_LOG_WARN, on_log, NULL);
	EXPECT(ROOT "f x 644 0:0 \"x\"\nf y 644 0:0 \"y\"\n",
		LAYER({.type = 'f',
			      .path = "x",
			      .text = "x",
			      .xattr = "system.posix_acl_access",
			      .value = "acl"},
			{.type = 'f',
				.path = "y",
				.text = "y",
				.xattr = "odd.name",
				.value = "v"}));
	holt_log_set(HOLT_LOG_WARN, NULL, NULL);
	ck_assert_uint_eq(warnings, 1); /* one for an image; the rest at debug */
	ck_assert_str_eq(warned, "ignoring attribute='system.posix_acl_access' path='x': squashfs "
				 "cannot hold it");
}
END_TEST

START_TEST(k13_owners_and_times)
{
	EXPECT(ROOT "f a 644 2147483647:2000000000 @4294967295 \"a\"\nf b 644 0:0 \"b\"\n"
		    "f c 644 4294967294:0 @1700000000 \"c\"\n",
		LAYER({.type = 'f',
			      .path = "a",
			      .text = "a",
			      .uid = 2147483647,
			      .gid = 2000000000,
			      .mtime_s = INT64_C(1) << 40},
			{.type = 'f', .path = "b", .text = "b", .mtime_s = -5},
			{.type = 'f',
				.path = "c",
				.text = "c",
				.uid = 4294967294,
				.mtime_s = 1700000000}));
}
END_TEST

START_TEST(names_are_bytes)
{
	/* The locale of the thread is not used, and is the same afterwards. */
	(void)setlocale(LC_ALL, "C.UTF-8");
	const locale_t before = uselocale((locale_t)0);
	EXPECT(ROOT "f a\nb:c\t* 644 0:0 \"1\"\nl \xc3\x9f 777 0:0 -> h\xc3\xa9\n"
		    "f \xff\xfe 644 0:0 \"3\"\n",
		LAYER(ENT_FILE("a\nb:c\t*", "1"), ENT_LINK("\xc3\x9f", "h\xc3\xa9"),
			ENT_FILE("\xff\xfe", "3")));
	ck_assert_ptr_eq(uselocale((locale_t)0), before);
}
END_TEST

START_TEST(a_large_directory_is_found)
{
	struct ent *e = calloc(20002, sizeof *e);
	char(*names)[32] = calloc(20001, sizeof *names);
	auto_error error = NULL;
	int fd = -1;

	for (int i = 0; i < 20001; i++) {
		(void)snprintf(names[i], sizeof names[i], "dir/name-%05d", (i * 7919) % 20001);
		e[i] = (struct ent){.type = 'f', .path = names[i], .text = ""};
	}
	struct tarbuf b = fixture_tar(e, NULL);
	ck_assert_int_eq(fixture_merge(&b, 1, 1, &fd, &error), 0);
	char *text = fixture_list(fd);
	size_t lines = 0;
	for (const char *p = text; *p; p++)
		lines += *p == '\n';
	ck_assert_uint_eq(lines, 20001 + 2);
	ck_assert_ptr_nonnull(strstr(text, "f dir/name-20000 644 0:0 \"\"\n"));
	/* In order, which the guest's look-up relies on. */
	ck_assert(strstr(text, "dir/name-00009 ") < strstr(text, "dir/name-00010 "));
	free(text);
	close(fd);
	free(b.data);
	free(names);
	free(e);
}
END_TEST

START_TEST(many_owners_are_refused)
{
	const size_t n = 65600;
	struct ent *e = calloc(n + 1, sizeof *e);
	char(*names)[16] = calloc(n, sizeof *names);
	auto_error error = NULL;
	int fd = -1;

	for (size_t i = 0; i < n; i++) {
		(void)snprintf(names[i], sizeof names[i], "%zu", i);
		e[i] = (struct ent){.type = 'd', .path = names[i], .uid = (int64_t)i};
	}
	struct tarbuf b = fixture_tar(e, NULL);
	ck_assert_int_eq(fixture_merge(&b, 1, 1, &fd, &error), -HOLT_ELIMIT);
	ck_assert_str_eq(holt_error_message(error),
		"the image has more than 65536 different owners or groups");
	free(b.data);
	free(names);
	free(e);
}
END_TEST

/* Random data that compresses in part, the same in each run. */
static char *noise(size_t len)
{
	char *data = malloc(len + 1);
	uint32_t x = 12345;

	for (size_t i = 0; i < len; i++) {
		x = x * 1103515245 + 12345;
		data[i] = (char)('a' + (i / 64 % 2 ? x >> 28 : 0));
	}
	data[len] = 0;
	return data;
}

START_TEST(data_comes_back_and_the_bytes_are_the_same)
{
	char *big = noise(3000000);
	const struct ent *layer = LAYER(ENT_FILE("big", big), ENT_FILE("same", big),
		ENT_FILE("small", "s"), ENT_FILE("tail", big + 2900000), ENT_FILE("empty", ""));
	struct tarbuf b = fixture_tar(layer, NULL);
	char digest[4][DIGEST_STR_LEN + 1];
	auto_error error = NULL;

	for (unsigned i = 0; i < 4; i++) {
		int fd = -1;
		struct stat st;
		ck_assert_int_eq(fixture_merge(&b, 1, 1 + i % 3, &fd, &error), 0);
		ck_assert_int_eq(fstat(fd, &st), 0);
		void *bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
		ck_assert_int_eq(digest_of(bytes, (size_t)st.st_size, digest[i]), 0);
		ck_assert_int_eq(st.st_size % 4096, 0);
		/* Both files share their blocks. */
		ck_assert_int_lt(st.st_size, 3000000);
		(void)munmap(bytes, (size_t)st.st_size);
		ck_assert_str_eq(digest[i], digest[0]);
		if (i == 0) {
			struct fixture_reader *r = calloc(1, sizeof *r);
			sqfs_inode_generic_t *inode = NULL;
			char *back = malloc(3000000);
			fixture_open(r, fd);
			ck_assert_int_eq(
				sqfs_dir_reader_find_by_path(r->dirs, NULL, "same", &inode), 0);
			ck_assert_int_eq(
				sqfs_data_reader_read(r->data, inode, 0, back, 3000000), 3000000);
			ck_assert_mem_eq(back, big, 3000000);
			sqfs_free(inode);
			free(back);
			fixture_close(r);
			free(r);
		}
		close(fd);
	}
	free(b.data);
	free(big);
}
END_TEST

START_TEST(holes_cost_nothing)
{
	/* A file with so many blocks that their list does not fit on a stack. */
	const uint64_t size = UINT64_C(1) << 33;
	struct rootfs *r = NULL;
	struct tree *t = NULL;
	auto_error error = NULL;
	struct tree_node *n = NULL;
	struct stat st;
	uint64_t bytes = 0;
	int fd = memfd_create("rootfs", MFD_CLOEXEC);

	ck_assert_int_eq(tree_new(&t, &error), 0);
	ck_assert_int_eq(rootfs_new(fd, 1, &r, &error), 0);
	ck_assert_int_eq(tree_get(t, t->root, "hole", 4, &n, &error), 0);
	struct tree_inode *i = tree_alloc(t, sizeof *i);
	i->mode = S_IFREG | 0644;
	i->xattr = ROOTFS_NO_XATTR;
	n->kind = TREE_ENTRY;
	n->inode = i;
	ck_assert_int_eq(rootfs_file_begin(r, size, &i->file, &error), 0);
	ck_assert_int_eq(rootfs_file_write(r, "begin", 5, &error), 0);
	ck_assert_int_eq(rootfs_file_hole(r, size - 8, &error), 0);
	ck_assert_int_eq(rootfs_file_write(r, "end", 3, &error), 0);
	ck_assert_int_eq(rootfs_file_end(r, &error), 0);
	ck_assert_int_eq(rootfs_finish(r, t, &bytes, &error), 0);
	ck_assert_int_eq(fstat(fd, &st), 0);
	ck_assert_uint_eq((uint64_t)st.st_size, bytes);
	ck_assert_uint_lt(bytes, 300000);
	rootfs_free(r);
	tree_free(t);

	struct fixture_reader *rd = calloc(1, sizeof *rd);
	sqfs_inode_generic_t *inode = NULL;
	char text[9] = {0};
	fixture_open(rd, fd);
	ck_assert_int_eq(sqfs_dir_reader_find_by_path(rd->dirs, NULL, "hole", &inode), 0);
	ck_assert_int_eq(sqfs_inode_get_file_size(inode, &bytes), 0);
	ck_assert_uint_eq(bytes, size);
	ck_assert_int_eq(sqfs_data_reader_read(rd->data, inode, size - 5, text, 8), 5);
	ck_assert_mem_eq(text, "\0\0end", 5);
	ck_assert_int_eq(sqfs_data_reader_read(rd->data, inode, 0, text, 8), 8);
	ck_assert_mem_eq(text, "begin\0\0\0", 8);
	sqfs_free(inode);
	fixture_close(rd);
	free(rd);
	close(fd);
}
END_TEST

static int output_full(int fd, holt_error **error)
{
	char *big = noise(3000000);
	struct rootfs *r = NULL;
	struct rootfs_file *f = NULL;
	int code = rootfs_new(fd, 2, &r, error);

	for (int i = 0; code == 0 && i < 100; i++) {
		code = rootfs_file_begin(r, 2900000, &f, error);
		/* Different each time, or it would be stored once. */
		if (code == 0)
			code = rootfs_file_write(r, big + i, 2900000, error);
		if (code == 0)
			code = rootfs_file_end(r, error);
	}
	rootfs_free(r);
	free(big);
	return code;
}

START_TEST(k15_sizes_have_limits)
{
	static const struct tar_xattr xattr = {"user.k", "v", ROOTFS_XATTRS_MAX};
	struct rootfs *r = NULL;
	struct rootfs_file *f = NULL;
	const char *dropped = NULL;
	uint32_t index = 0;
	auto_error one = NULL;
	auto_error all = NULL;
	auto_error names = NULL;
	const int fd = memfd_create("rootfs", MFD_CLOEXEC);

	ck_assert_int_eq(rootfs_new(fd, 1, &r, NULL), 0);
	ck_assert_int_eq(rootfs_file_begin(r, ROOTFS_FILE_MAX + 1, &f, &one), -HOLT_ELIMIT);
	ck_assert_str_eq(
		holt_error_message(one), "a file has more bytes than the limit of 1099511627776");
	/* Empty as far as the writer knows: what counts is what was announced. */
	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(rootfs_file_begin(r, ROOTFS_FILE_MAX, &f, NULL), 0);
		ck_assert_int_eq(rootfs_file_end(r, NULL), 0);
	}
	ck_assert_int_eq(rootfs_file_begin(r, 1, &f, &all), -HOLT_ELIMIT);
	ck_assert_str_eq(holt_error_message(all),
		"the files have more bytes together than the limit of 2199023255552");
	ck_assert_int_eq(rootfs_xattrs(r, &xattr, 1, &index, &dropped, &names), -HOLT_ELIMIT);
	ck_assert_str_eq(holt_error_message(names),
		"the extended attributes have more bytes together than the limit of 268435456");
	rootfs_free(r);
	close(fd);
}
END_TEST

START_TEST(k15_memory_of_a_tree_has_a_limit)
{
	struct tree *t = NULL;
	auto_error error = NULL;

	ck_assert_int_eq(tree_new(&t, NULL), 0);
	ck_assert_ptr_null(tree_alloc(t, TREE_BYTES_MAX));
	ck_assert_int_eq(tree_nomem(t, &error), -HOLT_ELIMIT);
	ck_assert_str_eq(holt_error_message(error),
		"names, metadata and link targets of the image take more than 1536 MiB");
	tree_free(t);
}
END_TEST

START_TEST(a_write_that_fails_is_told)
{
	auto_error error = NULL;
	const int fd = memfd_create("rootfs", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	ck_assert_int_eq(ftruncate(fd, 1 << 20), 0);
	ck_assert_int_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_GROW), 0);
	ck_assert_int_eq(output_full(fd, &error), -HOLT_EDENIED);
	ck_assert_str_eq(
		holt_error_message(error), "cannot write the rootfs: Operation not permitted");
	close(fd);
}
END_TEST

/* --- The tar reader --------------------------------------------------------------------------- */

static struct tarbuf join(const struct tarbuf *a, const struct tarbuf *b)
{
	struct tarbuf r = {malloc(a->len + b->len), a->len + b->len};

	memcpy(r.data, a->data, a->len);
	memcpy(r.data + a->len, b->data, b->len);
	return r;
}

static struct tarbuf squeeze(const char *filter, const void *data, size_t len)
{
	struct tarbuf b = {0};
	struct archive *a = archive_write_new();
	struct archive_entry *e = archive_entry_new();

	ck_assert_int_eq(archive_write_set_format_raw(a), ARCHIVE_OK);
	ck_assert_int_eq(archive_write_add_filter_by_name(a, filter), ARCHIVE_OK);
	ck_assert_int_eq(archive_write_set_bytes_in_last_block(a, 1), ARCHIVE_OK);
	ck_assert_int_eq(archive_write_open(a, &b, NULL, fixture_write, NULL), ARCHIVE_OK);
	archive_entry_set_filetype(e, AE_IFREG);
	ck_assert_int_eq(archive_write_header(a, e), ARCHIVE_OK);
	ck_assert_int_eq(archive_write_data(a, data, len), (la_ssize_t)len);
	archive_entry_free(e);
	ck_assert_int_eq(archive_write_close(a), ARCHIVE_OK);
	archive_write_free(a);
	return b;
}

/* Read all of an archive: the names in a row, or the error. */
static int read_all(const struct tarbuf *b, char *names, char *stream, holt_error **error)
{
	const struct tar_source src = {.data = b->data, .size = b->len};
	char blob[DIGEST_STR_LEN + 1];
	char expected[DIGEST_STR_LEN + 1];
	struct tar_reader *tar = NULL;
	struct tar_entry e;
	int code = tar_open(&src, NULL, &tar, error);

	names[0] = 0;
	while (code == 0 && (code = tar_next(tar, &e, error)) > 0) {
		(void)strcat(names, e.path);
		(void)strcat(names, ";");
		code = 0;
	}
	if (code == 0)
		code = tar_finish(tar, blob, stream, error);
	if (code == 0) {
		ck_assert_int_eq(digest_of(b->data, b->len, expected), 0);
		ck_assert_str_eq(blob, expected);
	}
	tar_close(tar);
	return code;
}

START_TEST(k15_compressions)
{
	static const char *const filters[] = {"gzip", "zstd", "xz"};
	struct tarbuf plain = fixture_tar(LAYER(ENT_FILE("a", "a"), ENT_FILE("b", "b")), NULL);
	char expected[DIGEST_STR_LEN + 1];
	char stream[DIGEST_STR_LEN + 1];
	char names[64];
	auto_error error = NULL;

	ck_assert_int_eq(digest_of(plain.data, plain.len, expected), 0);
	ck_assert_int_eq(read_all(&plain, names, stream, &error), 0);
	ck_assert_str_eq(names, "a;b;");
	ck_assert_str_eq(stream, expected);
	for (size_t i = 0; i < 3; i++) {
		/* Whole, and in two members or frames that are cut anywhere. */
		struct tarbuf whole = squeeze(filters[i], plain.data, plain.len);
		struct tarbuf one = squeeze(filters[i], plain.data, 700);
		struct tarbuf two = squeeze(filters[i], plain.data + 700, plain.len - 700);
		struct tarbuf both = join(&one, &two);
		ck_assert_int_eq(read_all(&whole, names, stream, &error), 0);
		ck_assert_str_eq(names, "a;b;");
		ck_assert_str_eq(stream, expected);
		const int code = read_all(&both, names, stream, &error);
		ck_assert_msg(code == 0, "%s: %s", filters[i], holt_error_message(error));
		ck_assert_str_eq(names, "a;b;");
		ck_assert_str_eq(stream, expected);
		free(whole.data);
		free(one.data);
		free(two.data);
		free(both.data);
	}
	free(plain.data);
}
END_TEST

START_TEST(k15_skippable_frames)
{
	static uint8_t skip[] = {0x53, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 'x', 'y', 'z'};
	const struct tarbuf frame = {skip, sizeof skip};
	struct tarbuf b = fixture_tar(LAYER(ENT_FILE("a", "a")), "zstd");
	struct tarbuf before = join(&frame, &b);
	struct tarbuf twice = join(&frame, &before);
	struct tarbuf after = join(&twice, &frame);
	char stream[DIGEST_STR_LEN + 1];
	char names[64];
	auto_error error = NULL;

	const int code = read_all(&after, names, stream, &error);
	ck_assert_msg(code == 0, "%s", holt_error_message(error));
	ck_assert_str_eq(names, "a;");
	free(b.data);
	free(before.data);
	free(twice.data);
	free(after.data);
}
END_TEST

static void refuse(const struct tarbuf *b, const char *message)
{
	char stream[DIGEST_STR_LEN + 1];
	char names[256];
	auto_error error = NULL;

	ck_assert_int_eq(read_all(b, names, stream, &error), -HOLT_EINVALID);
	if (message)
		ck_assert_str_eq(holt_error_message(error), message);
}

START_TEST(k15_damage_is_refused)
{
	static const char *const filters[] = {NULL, "gzip", "zstd", "xz"};
	static uint8_t junk[] = "0123456789abcdefg";
	const struct tarbuf garbage = {junk, sizeof junk};

	refuse(&garbage, "it is not a tar archive: Unrecognized archive format");
	for (size_t i = 0; i < 4; i++) {
		char *big = noise(100000);
		struct tarbuf b = fixture_tar(LAYER(ENT_FILE("a", big)), filters[i]);
		struct tarbuf more = join(&b, &garbage);
		refuse(&more, i == 0   ? "there is garbage behind the end of the tar archive"
			      : i == 1 ? "there are 18 bytes of garbage behind the compressed data"
				       : NULL);
		for (size_t cut = 1; cut < 4; cut++) {
			struct tarbuf part = {b.data, b.len * cut / 4};
			refuse(&part, NULL);
		}
		free(more.data);
		free(b.data);
		free(big);
	}
}
END_TEST

START_TEST(an_empty_stream_is_an_empty_archive)
{
	static uint8_t nothing[1];
	static uint8_t zeros[1024];
	struct tarbuf empty = {nothing, 0};
	struct tarbuf mark = {zeros, sizeof zeros};
	char stream[DIGEST_STR_LEN + 1];
	char names[16];
	auto_error error = NULL;

	ck_assert_int_eq(read_all(&empty, names, stream, &error), 0);
	ck_assert_str_eq(names, "");
	ck_assert_int_eq(read_all(&mark, names, stream, &error), 0);
	ck_assert_str_eq(names, "");
}
END_TEST

START_TEST(the_end_mark_is_seen)
{
	struct tarbuf b = fixture_tar(LAYER(ENT_FILE("a", "a")), NULL);

	for (int cut = 0; cut < 2; cut++) {
		const struct tar_source src = {.data = b.data, .size = cut ? 1024 : b.len};
		struct tar_reader *tar = NULL;
		struct tar_entry e;
		ck_assert_int_eq(tar_open(&src, NULL, &tar, NULL), 0);
		ck_assert_int_eq(tar_next(tar, &e, NULL), 1);
		ck_assert_int_eq(tar_next(tar, &e, NULL), 0);
		ck_assert_int_eq(tar_has_end_mark(tar), !cut);
		tar_close(tar);
	}
	free(b.data);
}
END_TEST

START_TEST(an_import_can_be_cancelled)
{
	struct tarbuf b = fixture_tar(LAYER(ENT_FILE("a", "a")), NULL);
	const struct tar_source src = {.data = b.data, .size = b.len};
	volatile int cancel = 1;
	struct tar_watch watch = {.cancel = &cancel};
	struct tar_reader *tar = NULL;
	auto_error error = NULL;

	ck_assert_int_eq(tar_open(&src, &watch, &tar, &error), -HOLT_ECANCELLED);
	ck_assert_ptr_null(tar);
	free(b.data);
}
END_TEST

START_TEST(k15_a_bomb_ends_at_its_limit)
{
	static char zeros[200000];
	memset(zeros, 'z', sizeof zeros - 1);
	struct tarbuf b = fixture_tar(LAYER(ENT_FILE("a", zeros)), "gzip");
	struct tar_source src = {.data = b.data, .size = b.len, .stream_max = 100000};
	struct tar_reader *tar = NULL;
	struct tar_entry e;
	const void *data;
	size_t len;
	uint64_t offset;
	auto_error error = NULL;
	int code = tar_open(&src, NULL, &tar, &error);

	if (code == 0)
		code = tar_next(tar, &e, &error);
	while (code > 0)
		code = tar_data(tar, &data, &len, &offset, &error);
	ck_assert_int_eq(code, -HOLT_ELIMIT);
	ck_assert_str_eq(holt_error_message(error),
		"the archive has more than 100000 bytes when decompressed");
	tar_close(tar);
	free(b.data);
}
END_TEST

START_TEST(k15_every_cut_of_a_layer_is_seen)
{
	static const char *const filters[] = {NULL, "gzip", "zstd"};

	for (size_t i = 0; i < 3; i++) {
		struct tarbuf b = fixture_tar(LAYER(ENT_DIR("d"), ENT_FILE("d/a", "text"),
						      ENT_LINK("l", "d"), ENT_HARD("h", "d/a")),
			filters[i]);
		char whole[DIGEST_STR_LEN + 1];
		char names[64];
		ck_assert_int_eq(read_all(&b, names, whole, NULL), 0);
		for (size_t cut = 1; cut < b.len; cut++) {
			struct tarbuf part = {malloc(cut), cut};
			char stream[DIGEST_STR_LEN + 1];
			auto_error error = NULL;
			memcpy(part.data, b.data, cut);
			/* Between two entries, or in the zeros at the end, only the digest tells.
			 */
			if (read_all(&part, names, stream, &error) == 0)
				ck_assert_str_ne(stream, whole);
			else
				ck_assert_int_eq(holt_error_code(error), HOLT_EINVALID);
			free(part.data);
		}
		free(b.data);
	}
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {k12_xattrs_are_kept, k12_acls_are_dropped_with_a_warning,
		k13_owners_and_times, names_are_bytes, a_large_directory_is_found,
		many_owners_are_refused, data_comes_back_and_the_bytes_are_the_same,
		holes_cost_nothing, k15_sizes_have_limits, k15_memory_of_a_tree_has_a_limit,
		k15_a_bomb_ends_at_its_limit, k15_every_cut_of_a_layer_is_seen,
		a_write_that_fails_is_told, k15_compressions, k15_skippable_frames,
		k15_damage_is_refused, an_empty_stream_is_an_empty_archive, the_end_mark_is_seen,
		an_import_can_be_cancelled};

	return fixture_run("rootfs", tests, sizeof tests / sizeof tests[0], NULL, NULL, 120);
}
