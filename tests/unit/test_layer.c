/* SPDX-License-Identifier: Apache-2.0 */
/* Merging layers: K10, K11, and paths that try to leave. */
#include "image_fixture.h"

#define ROOT "d / 755 0:0\n"

START_TEST(one_layer_is_kept_whole)
{
	EXPECT("d / 755 0:0\n"
	       "d a 755 0:0\n"
	       "f a/x 4755 7:8 \"data\"\n"
	       "c dev 600 0:0 1,3\n"
	       "b disk 644 0:0 259,70000\n"
	       "p fifo 644 0:0\n"
	       "l link 777 0:0 -> a/x\n",
		LAYER(ENT_DIR("a/"),
			{.type = 'f',
				.path = "a/x",
				.text = "data",
				.mode = 04755,
				.uid = 7,
				.gid = 8},
			ENT_LINK("link", "a/x"),
			{.type = 'c', .path = "dev", .mode = 0600, .major = 1, .minor = 3},
			{.type = 'b', .path = "disk", .major = 259, .minor = 70000},
			{.type = 'p', .path = "fifo"}));
}
END_TEST

START_TEST(missing_parents_are_roots)
{
	EXPECT(ROOT "d a 755 0:0\nd a/b 755 0:0\nf a/b/c 644 5:0 \"x\"\n",
		LAYER({.type = 'f', .path = "a/b/c", .text = "x", .uid = 5}));
	/* A lower layer may still describe them. */
	EXPECT(ROOT "d a 700 0:0\nf a/c 644 0:0 \"x\"\n", LAYER(ENT_MODE('d', "a", 0700)),
		LAYER(ENT_FILE("a/c", "x")));
}
END_TEST

START_TEST(newest_layer_wins)
{
	EXPECT(ROOT "d a 711 0:0\nf a/x 600 0:0 \"new\"\nf a/y 644 0:0 \"y\"\n",
		LAYER(ENT_DIR("a"), ENT_FILE("a/x", "old"), ENT_FILE("a/y", "y")),
		LAYER(ENT_MODE('d', "a", 0711),
			{.type = 'f', .path = "a/x", .text = "new", .mode = 0600}));
}
END_TEST

START_TEST(last_entry_of_a_layer_wins)
{
	EXPECT(ROOT "f x 644 0:0 \"two\"\n", LAYER(ENT_FILE("x", "one"), ENT_FILE("x", "two")));
	EXPECT(ROOT "f a 644 0:0 \"file\"\n",
		LAYER(ENT_DIR("a"), ENT_FILE("a/x", "x"), ENT_FILE("a", "file")));
	EXPECT(ROOT "d a 755 0:0\nf a/y 644 0:0 \"y\"\n",
		LAYER(ENT_DIR("a"), ENT_FILE("a/x", "x"), ENT_FILE("a", "file"), ENT_DIR("a"),
			ENT_FILE("a/y", "y")));
}
END_TEST

START_TEST(a_file_replaces_a_directory_and_back)
{
	EXPECT(ROOT "f a 644 0:0 \"now\"\n", LAYER(ENT_DIR("a"), ENT_FILE("a/x", "x")),
		LAYER(ENT_FILE("a", "now")));
	EXPECT(ROOT "d a 755 0:0\nf a/y 644 0:0 \"y\"\n", LAYER(ENT_FILE("a", "was")),
		LAYER(ENT_DIR("a"), ENT_FILE("a/y", "y")));
	/* Also where nothing says that it is a directory now. */
	EXPECT(ROOT "d a 755 0:0\nf a/y 644 0:0 \"y\"\n", LAYER(ENT_FILE("a", "was")),
		LAYER(ENT_FILE("a/y", "y")));
	/* Even if a newer layer hides the file. */
	EXPECT(ROOT "d a 755 0:0\nf a/new 644 0:0 \"new\"\n",
		LAYER(ENT_DIR("a"), ENT_FILE("a/x", "x")),
		LAYER(ENT_FILE("a/y", "y"), ENT_FILE("a", "file")),
		LAYER(ENT_DIR("a"), ENT_FILE("a/new", "new")));
	/* What was below it does not come back. */
	EXPECT(ROOT "d a 755 0:0\n", LAYER(ENT_DIR("a"), ENT_FILE("a/x", "x")),
		LAYER(ENT_FILE("a", "file"), ENT_DIR("a")));
}
END_TEST

START_TEST(k10_whiteouts_hide_lower_layers)
{
	EXPECT(ROOT "d a 755 0:0\nf a/y 644 0:0 \"y\"\n",
		LAYER(ENT_DIR("a"), ENT_FILE("a/x", "x"), ENT_FILE("a/y", "y")),
		LAYER(ENT_GONE("a/.wh.x")));
	EXPECT(ROOT "f b 644 0:0 \"b\"\n",
		LAYER(ENT_DIR("a"), ENT_FILE("a/x", "x"), ENT_FILE("b", "b")),
		LAYER(ENT_GONE(".wh.a")));
	/* Of something that is not there, in a directory that is not there. */
	EXPECT(ROOT "f b 644 0:0 \"b\"\n", LAYER(ENT_FILE("b", "b")), LAYER(ENT_GONE("q/.wh.a")));
	/* As a hard link, a directory, a symlink: the name says it. */
	EXPECT(ROOT "f t 644 0:0 \"t\"\n", LAYER(ENT_FILE("t", "t"), ENT_FILE("x", "x")),
		LAYER(ENT_HARD(".wh.x", "t")));
	EXPECT(ROOT, LAYER(ENT_FILE("x", "x"), ENT_FILE("y", "y")),
		LAYER(ENT_DIR(".wh.x/"), ENT_LINK(".wh.y", "t")));
}
END_TEST

START_TEST(k10_whiteouts_leave_a_directory_that_no_entry_describes)
{
	EXPECT(ROOT "d a 755 0:0\n", LAYER(ENT_FILE("a/x", "x")), LAYER(ENT_GONE("a/.wh.x")));
	EXPECT(ROOT "d a 755 0:0\n", LAYER(ENT_FILE("a/b/x", "x")), LAYER(ENT_GONE("a/.wh.b")));
	EXPECT(ROOT, LAYER(ENT_GONE("a/b/.wh.x")), LAYER(ENT_GONE("a/.wh.b")));
}
END_TEST

START_TEST(k10_whiteouts_spare_their_own_layer)
{
	EXPECT(ROOT "d a 755 0:0\nf a/x 644 0:0 \"new\"\n",
		LAYER(ENT_DIR("a"), ENT_FILE("a/x", "old"), ENT_FILE("a/q", "q")),
		LAYER(ENT_GONE(".wh.a"), ENT_DIR("a"), ENT_FILE("a/x", "new")));
	/* Whatever the order is. */
	EXPECT(ROOT "d a 755 0:0\nf a/x 644 0:0 \"new\"\n",
		LAYER(ENT_DIR("a"), ENT_FILE("a/x", "old"), ENT_FILE("a/q", "q")),
		LAYER(ENT_DIR("a"), ENT_FILE("a/x", "new"), ENT_GONE(".wh.a")));
	/* And the layers above. */
	EXPECT(ROOT "f x 644 0:0 \"three\"\n", LAYER(ENT_FILE("x", "one")),
		LAYER(ENT_GONE(".wh.x")), LAYER(ENT_FILE("x", "three")));
	EXPECT(ROOT "f x 644 0:0 \"one\"\n", LAYER(ENT_GONE(".wh.x")), LAYER(ENT_FILE("x", "one")));
}
END_TEST

START_TEST(k10_opaque_hides_what_was_in_a_directory)
{
	EXPECT(ROOT "d a 700 0:0\nf a/n 644 0:0 \"n\"\n",
		LAYER(ENT_DIR("a"), ENT_FILE("a/x", "x"), ENT_DIR("a/s"), ENT_FILE("a/s/z", "z")),
		LAYER(ENT_MODE('d', "a", 0700), ENT_FILE("a/n", "n"), ENT_GONE("a/.wh..wh..opq")));
	/* The directory itself stays. */
	EXPECT(ROOT "d a 711 3:0\n",
		LAYER({.type = 'd', .path = "a", .mode = 0711, .uid = 3}, ENT_FILE("a/x", "x")),
		LAYER(ENT_GONE("a/.wh..wh..opq")));
	EXPECT("d / 711 0:0\nf n 644 0:0 \"n\"\n",
		LAYER(ENT_MODE('d', "./", 0711), ENT_FILE("x", "x")),
		LAYER(ENT_GONE(".wh..wh..opq"), ENT_FILE("n", "n")));
}
END_TEST

START_TEST(k10_opaque_leaves_a_directory_that_no_entry_describes)
{
	EXPECT(ROOT "d a 755 0:0\nd a/b 755 0:0\n", LAYER(ENT_FILE("a/b/x", "x")),
		LAYER(ENT_GONE("a/b/.wh..wh..opq")));
	EXPECT(ROOT "d a 755 0:0\n", LAYER(ENT_FILE("a/b/x", "x")),
		LAYER(ENT_GONE("a/.wh..wh..opq")));
	/* But marks make nothing exist, and what is removed stays so. */
	EXPECT(ROOT, LAYER(ENT_GONE("a/.wh.x")), LAYER(ENT_GONE("a/.wh..wh..opq")));
	EXPECT(ROOT, LAYER(ENT_FILE("a/b/x", "x")), LAYER(ENT_GONE("a/b/.wh..wh..opq")),
		LAYER(ENT_GONE(".wh.a")));
	/* The same where a symlink leads to it. */
	EXPECT(ROOT "l b 777 0:0 -> s\nd s 755 0:0\n",
		LAYER(ENT_FILE("s/t/x", "x"), ENT_LINK("b", "s")),
		LAYER(ENT_GONE("b/.wh..wh..opq")));
}
END_TEST

START_TEST(k10_opaque_works_through_a_symlink)
{
	EXPECT(ROOT "l l 777 0:0 -> r\nd r 755 0:0\nf r/y 644 0:0 \"y\"\n",
		LAYER(ENT_DIR("r"), ENT_FILE("r/x", "x"), ENT_LINK("l", "r")),
		LAYER(ENT_GONE("l/.wh..wh..opq"), ENT_FILE("l/y", "y")));
	/* What newer layers put there stays. */
	EXPECT(ROOT "l l 777 0:0 -> r\nd r 755 0:0\nf r/z 644 0:0 \"z\"\n",
		LAYER(ENT_DIR("r"), ENT_FILE("r/x", "x"), ENT_LINK("l", "r")),
		LAYER(ENT_GONE("l/.wh..wh..opq")), LAYER(ENT_FILE("r/z", "z")));
}
END_TEST

START_TEST(aufs_book_keeping_is_left_out)
{
	EXPECT(ROOT "f x 644 0:0 \"x\"\n",
		LAYER(ENT_DIR(".wh..wh.plnk"), ENT_FILE(".wh..wh.plnk/1.2", "x"),
			ENT_GONE(".wh..wh.aufs"), ENT_FILE("x", "x")));
}
END_TEST

START_TEST(k11_hard_links)
{
	/* Within a layer, to a link, across layers. */
	EXPECT(ROOT "f l 644 0:0 \"t\" links=3@l\nf m 644 0:0 \"t\" links=3@l\n"
		    "f t 644 0:0 \"t\" links=3@l\n",
		LAYER(ENT_FILE("t", "t"), ENT_HARD("l", "t"), ENT_HARD("m", "l")));
	EXPECT(ROOT "f l 644 0:0 \"t\" links=2@l\nf t 644 0:0 \"t\" links=2@l\n",
		LAYER(ENT_FILE("t", "t")), LAYER(ENT_HARD("l", "./t")));
	/* Deferred: the target comes later in the layer. */
	EXPECT(ROOT "f l 644 0:0 \"t\" links=2@l\nf t 644 0:0 \"t\" links=2@l\n",
		LAYER(ENT_HARD("l", "t"), ENT_FILE("t", "t")));
	EXPECT(ROOT "f l 644 0:0 \"t\" links=2@l\nf t 644 0:0 \"t\" links=2@l\n"
		    "f u 644 0:0 \"u\"\n",
		LAYER(ENT_FILE("u", "u")), LAYER(ENT_HARD("l", "t"), ENT_FILE("t", "t")));
	/* To a symlink and to a device. */
	EXPECT(ROOT "c c 644 0:0 5,1 links=2@c\nc d 644 0:0 5,1 links=2@c\n"
		    "l l 777 0:0 -> nowhere links=2@l\nl s 777 0:0 -> nowhere links=2@l\n",
		LAYER(ENT_LINK("s", "nowhere"), ENT_HARD("l", "s"),
			{.type = 'c', .path = "c", .major = 5, .minor = 1}, ENT_HARD("d", "c")));
}
END_TEST

START_TEST(k11_hard_links_keep_what_they_meant)
{
	/* The target is replaced or removed later: its data must still be found. */
	EXPECT(ROOT "f l 644 0:0 \"old\"\nf t 644 0:0 \"new\"\n",
		LAYER(ENT_FILE("t", "old"), ENT_HARD("l", "t")), LAYER(ENT_FILE("t", "new")));
	EXPECT(ROOT "f l 644 0:0 \"old\"\n", LAYER(ENT_FILE("t", "old")), LAYER(ENT_HARD("l", "t")),
		LAYER(ENT_GONE(".wh.t")));
	EXPECT(ROOT "f l 644 0:0 \"old\" links=2@l\nf m 644 0:0 \"old\" links=2@l\n",
		LAYER(ENT_FILE("t", "old"), ENT_HARD("l", "t"), ENT_HARD("m", "t")),
		LAYER(ENT_GONE(".wh.t")));
	/* Through a link that is gone as well. */
	EXPECT(ROOT "f m 644 0:0 \"old\"\n",
		LAYER(ENT_FILE("t", "old"), ENT_HARD("l", "t"), ENT_HARD("m", "l")),
		LAYER(ENT_GONE(".wh.t"), ENT_GONE(".wh.l")));
	/* The link of layer 2 means the file of layer 1, not the later one of its own layer. */
	EXPECT(ROOT "f l 644 0:0 \"one\"\nf t 644 0:0 \"two\"\n", LAYER(ENT_FILE("t", "one")),
		LAYER(ENT_HARD("l", "t"), ENT_FILE("t", "two")));
	EXPECT(ROOT "f l 644 0:0 \"b\"\n", LAYER(ENT_FILE("t", "a"), ENT_FILE("t", "b")),
		LAYER(ENT_HARD("l", "t")), LAYER(ENT_GONE(".wh.t")));
}
END_TEST

START_TEST(entries_go_through_symlinks)
{
	EXPECT(ROOT "l bin 777 0:0 -> usr/bin\nd usr 755 0:0\nd usr/bin 755 0:0\n"
		    "f usr/bin/ls 644 0:0 \"ls\"\nf usr/bin/new 644 0:0 \"new\"\n",
		LAYER(ENT_DIR("usr"), ENT_DIR("usr/bin"), ENT_FILE("usr/bin/ls", "ls"),
			ENT_LINK("bin", "usr/bin")),
		LAYER(ENT_FILE("bin/new", "new")));
	EXPECT(ROOT "l bin 777 0:0 -> /usr/bin\nd usr 755 0:0\nd usr/bin 755 0:0\n"
		    "f usr/bin/ls 644 0:0 \"new\"\n",
		LAYER(ENT_DIR("usr"), ENT_DIR("usr/bin"), ENT_FILE("usr/bin/ls", "ls"),
			ENT_FILE("usr/bin/old", "old"), ENT_LINK("bin", "/usr/bin")),
		LAYER(ENT_FILE("bin/ls", "new"), ENT_GONE("bin/.wh.old")));
	/* Out of the top there is no way. */
	EXPECT(ROOT "d etc 755 0:0\nf etc/x 644 0:0 \"x\"\nl up 777 0:0 -> ../../etc\n",
		LAYER(ENT_LINK("up", "../../etc"), ENT_FILE("up/x", "x")));
	/* Through two of them. */
	EXPECT(ROOT "d a 755 0:0\nl a/t 777 0:0 -> ../b\nd b 755 0:0\nf b/x 644 0:0 \"x\"\n"
		    "l s 777 0:0 -> a\n",
		LAYER(ENT_DIR("a"), ENT_DIR("b"), ENT_LINK("a/t", "../b"), ENT_LINK("s", "a")),
		LAYER(ENT_FILE("s/t/x", "x")));
	/* A directory in place of the symlink is a directory. */
	EXPECT(ROOT
		"d bin 755 0:0\nf bin/x 644 0:0 \"x\"\nd usr 755 0:0\nf usr/ls 644 0:0 \"ls\"\n",
		LAYER(ENT_DIR("usr"), ENT_FILE("usr/ls", "ls"), ENT_LINK("bin", "usr")),
		LAYER(ENT_DIR("bin"), ENT_FILE("bin/x", "x")));
}
END_TEST

START_TEST(paths_are_cleaned)
{
	EXPECT("d / 700 1:2 @99\n", LAYER({.type = 'd',
					    .path = "./",
					    .mode = 0700,
					    .uid = 1,
					    .gid = 2,
					    .mtime_s = 99}));
	EXPECT(ROOT "d etc 755 0:0\nf etc/passwd 644 0:0 \"x\"\nf z 644 0:0 \"z\"\n",
		LAYER(ENT_FILE("//etc/.//passwd", "x"), ENT_FILE("./z", "z")));
}
END_TEST

static void refuse(const struct ent *entries, int code, const char *message)
{
	struct tarbuf b = fixture_tar(entries, NULL);
	auto_error error = NULL;
	int fd = -1;

	ck_assert_int_eq(fixture_merge(&b, 1, 1, &fd, &error), -code);
	ck_assert_int_eq(holt_error_code(error), code);
	ck_assert_str_eq(holt_error_message(error), message);
	free(b.data);
}

START_TEST(bad_entries_are_refused)
{
	refuse(LAYER(ENT_FILE("../x", "x")), HOLT_EINVALID,
		"'../x': the path goes upwards with '..'");
	refuse(LAYER(ENT_FILE("a/../../x", "x")), HOLT_EINVALID,
		"'a/../../x': the path goes upwards with '..'");
	refuse(LAYER(ENT_FILE("..", "x")), HOLT_EINVALID, "'..': the path goes upwards with '..'");
	refuse(LAYER(ENT_FILE("x", "x"), ENT_HARD("l", "../x")), HOLT_EINVALID,
		"'l': the path goes upwards with '..'");
	refuse(LAYER(ENT_GONE(".wh.")), HOLT_EINVALID, "'.wh.': the whiteout names nothing");
	refuse(LAYER(ENT_GONE("a/.wh...")), HOLT_EINVALID,
		"'a/.wh...': the whiteout names nothing");
	refuse(LAYER(ENT_FILE(".wh.a/x", "x")), HOLT_EINVALID,
		"'.wh.a/x': a name within the path begins with '.wh.'");
	refuse(LAYER(ENT_FILE("f", "x"), ENT_FILE("f/x", "x")), HOLT_EINVALID,
		"'f/x': a name within the path is not a directory");
	refuse(LAYER(ENT_FILE(".", "x")), HOLT_EINVALID, "'.': the root is not a directory");
	refuse(LAYER(ENT_HARD("l", "t")), HOLT_EINVALID,
		"'l' is a hard link to 't', which no layer holds");
	refuse(LAYER(ENT_HARD("l", "l")), HOLT_EINVALID,
		"'l' is a hard link to 'l', and so on in a circle");
	refuse(LAYER(ENT_HARD("l", "m"), ENT_HARD("m", "l")), HOLT_EINVALID,
		"'l' is a hard link to 'm', and so on in a circle");
	refuse(LAYER(ENT_DIR("d"), ENT_HARD("l", "d")), HOLT_EINVALID,
		"'l' is a hard link to 'd', which is a directory");
	refuse(LAYER(ENT_LINK("s", "s"), ENT_FILE("s/x", "x")), HOLT_EINVALID,
		"'s' is used as a directory, but leads to none");
	refuse(LAYER({.type = 'f', .path = "x", .text = "x", .uid = INT64_C(1) << 32}),
		HOLT_EINVALID, "'x': owner 4294967296:0 is out of range");
	refuse(LAYER({.type = 'c', .path = "x", .major = 5000, .minor = 1}), HOLT_EINVALID,
		"'x': device 5000:1 is out of range");
}
END_TEST

START_TEST(long_names_have_limits)
{
	char name[300];
	char path[TAR_PATH_MAX + 100];
	auto_error error = NULL;
	int fd = -1;

	memset(name, 'n', sizeof name);
	name[TREE_NAME_MAX] = 0;
	struct tarbuf b = fixture_tar(LAYER(ENT_FILE(name, "x")), NULL);
	ck_assert_int_eq(fixture_merge(&b, 1, 1, &fd, &error), 0);
	char *text = fixture_list(fd);
	ck_assert_ptr_nonnull(strstr(text, name));
	free(text);
	close(fd);
	free(b.data);

	memset(name, 'n', sizeof name);
	name[TREE_NAME_MAX + 1] = 0;
	b = fixture_tar(LAYER(ENT_FILE(name, "x")), NULL);
	ck_assert_int_eq(fixture_merge(&b, 1, 1, &fd, &error), -HOLT_ELIMIT);
	holt_error_free(error);
	error = NULL;
	free(b.data);

	for (size_t i = 0; i < sizeof path; i++)
		path[i] = i % 2 ? '/' : 'p';
	path[sizeof path - 1] = 0;
	b = fixture_tar(LAYER(ENT_FILE(path, "x")), NULL);
	ck_assert_int_eq(fixture_merge(&b, 1, 1, &fd, &error), -HOLT_ELIMIT);
	free(b.data);
}
END_TEST

/* As deep as a path can be: nothing here may recurse. */
START_TEST(deep_trees_are_fine)
{
	char path[TAR_PATH_MAX];
	auto_error error = NULL;
	int fd = -1;

	for (size_t i = 0; i < sizeof path; i++)
		path[i] = i % 2 ? '/' : 'p';
	path[sizeof path - 1] = 0;
	struct tarbuf b[2] = {fixture_tar(LAYER(ENT_DIR(path)), NULL),
		fixture_tar(LAYER(ENT_FILE("p", "now a file")), NULL)};
	ck_assert_int_eq(fixture_merge(b, 1, 1, &fd, &error), 0);
	close(fd);
	ck_assert_int_eq(fixture_merge(b, 2, 1, &fd, &error), 0);
	char *text = fixture_list(fd);
	ck_assert_str_eq(text, ROOT "f p 644 0:0 \"now a file\"\n");
	free(text);
	close(fd);
	free(b[0].data);
	free(b[1].data);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {one_layer_is_kept_whole, missing_parents_are_roots,
		newest_layer_wins, last_entry_of_a_layer_wins, a_file_replaces_a_directory_and_back,
		k10_whiteouts_hide_lower_layers,
		k10_whiteouts_leave_a_directory_that_no_entry_describes,
		k10_whiteouts_spare_their_own_layer, k10_opaque_hides_what_was_in_a_directory,
		k10_opaque_leaves_a_directory_that_no_entry_describes,
		k10_opaque_works_through_a_symlink, aufs_book_keeping_is_left_out, k11_hard_links,
		k11_hard_links_keep_what_they_meant, entries_go_through_symlinks, paths_are_cleaned,
		bad_entries_are_refused, long_names_have_limits, deep_trees_are_fine};

	return fixture_run("layer", tests, sizeof tests / sizeof tests[0], NULL, NULL, 60);
}
