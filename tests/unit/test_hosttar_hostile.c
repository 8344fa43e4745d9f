/* SPDX-License-Identifier: Apache-2.0 */
/* Unpacking what a hostile guest sends, and both ways while somebody swaps directories (K08). */
#include "hosttar_fixture.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/path.h"

#define RACE_SWAPS 10000

START_TEST(k08_names_that_lead_outside)
{
	static const struct {
		const char *path;
		const char *why;
	} names[] = {{"../outside/x", "leads upwards"}, {"t/../../outside/x", "leads upwards"},
		{"t/..", "leads upwards"}, {"/t/x", "is absolute"}, {"/", "is absolute"},
		{"u", "not asked for"}, {"tt/x", "not asked for"}, {".", "not asked for"},
		{"./", "not asked for"}, {"t/none/x", "in no directory"}};

	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
		refused(LAYER(ENT_DIR("t"), ENT_FILE(names[i].path, "x")), HOLT_EPROTOCOL,
			names[i].why);
}
END_TEST

START_TEST(k08_links_that_lead_outside)
{
	refused(LAYER(ENT_LINK("t", "../outside"), ENT_FILE("t/secret", "x")), HOLT_EPROTOCOL,
		"in no directory");
	ck_assert_int_eq(unlinkat(dst, "t", 0), 0);
	refused(LAYER(ENT_DIR("t"), ENT_LINK("t/x", "/etc"), ENT_FILE("t/x/passwd", "x")),
		HOLT_EPROTOCOL, "in no directory");
	refused(LAYER(ENT_DIR("t"), ENT_LINK("t/l", "../../outside"),
			ENT_HARD("t/h", "t/l/secret")),
		HOLT_EPROTOCOL, "was not sent");
	refused(LAYER(ENT_DIR("t"), ENT_HARD("t/h", "../outside/secret")), HOLT_EPROTOCOL,
		"leads upwards");
	refused(LAYER(ENT_DIR("t"), ENT_HARD("t/h", "/etc/passwd")), HOLT_EPROTOCOL, "is absolute");
	refused(LAYER(ENT_DIR("t"), ENT_HARD("t/h", "other")), HOLT_EPROTOCOL, "not asked for");
	refused(LAYER(ENT_DIR("t"), ENT_HARD("t/h", "t/none")), HOLT_EPROTOCOL, "was not sent");
	/* A link that is written, then written to, and a mode that goes to a link. */
	unpack(fixture_tar(LAYER(ENT_DIR("t"), ENT_LINK("t/l", "../../outside/secret"),
				   ENT_FILE("t/l", "x"), ENT_LINK("t/m", "../../outside/secret"),
				   ENT_HARD("t/n", "t/m"), ENT_MODE('f', "t/n", 0777)),
		       NULL),
		"t", 0);
	has_text(dst, "t/l", "x");
	ck_assert(S_ISREG(look(dst, "t/n").st_mode));
	ck_assert(S_ISLNK(look(dst, "t/m").st_mode));
}
END_TEST

START_TEST(a_hard_link_takes_nothing_away)
{
	unpack(fixture_tar(LAYER(ENT_DIR("t"), ENT_FILE("t/a", "kept"), ENT_HARD("t/a", "./t/./a"),
				   ENT_FILE("t/b", "gone"), ENT_HARD("t/b", "t/a")),
		       NULL),
		"t", 0);
	has_text(dst, "t/a", "kept");
	has_text(dst, "t/b", "kept");
	ck_assert_uint_eq(look(dst, "t/b").st_ino, look(dst, "t/a").st_ino);
}
END_TEST

START_TEST(devices_and_sockets_are_left_out)
{
	unpack(fixture_tar(LAYER(ENT_DIR("t"), ENT_MODE('c', "t/c", 0666),
				   ENT_MODE('b', "t/b", 0666), ENT_MODE('p', "t/p", 0600)),
		       NULL),
		"t", 0);
	ck_assert(!is_there(dst, "t/c"));
	ck_assert(!is_there(dst, "t/b"));
	ck_assert(is_there(dst, "t/p"));
}
END_TEST

START_TEST(an_order_that_nobody_would_choose)
{
	unpack(fixture_tar(LAYER(ENT_DIR("t"), ENT_DIR("t/a"), ENT_DIR("t/b"),
				   ENT_FILE("t/a/1", "1"), ENT_DIR("t/a/c"), ENT_FILE("t/b/2", "2"),
				   ENT_FILE("t/a/c/3", "3"), ENT_FILE("t/a/4", "4")),
		       NULL),
		"t", 0);
	has_text(dst, "t/a/1", "1");
	has_text(dst, "t/b/2", "2");
	has_text(dst, "t/a/c/3", "3");
	has_text(dst, "t/a/4", "4");
}
END_TEST

START_TEST(streams_that_are_cut_or_no_tar)
{
	struct tarbuf b = fixture_tar(LAYER(ENT_FILE("t", "0123456789")), NULL);
	auto_error e = NULL;

	b.len = 515;
	ck_assert_int_eq(unpack_code(b, "t", 0, &e), -HOLT_EPROTOCOL);
	ck_assert_str_ne(holt_error_stage(e), "");
	/* Half a file is no file. */
	ck_assert(!is_there(dst, "t"));
	holt_error_free(take_ptr(e));
	memset(b.data, 'x', b.len);
	ck_assert_int_eq(unpack_code(b, "t", 0, &e), -HOLT_EPROTOCOL);
	free(b.data);
}
END_TEST

/* Every cut and a change of every byte of the headers: an error or not, but nothing outside. */
START_TEST(k08_streams_with_any_byte_changed)
{
	struct tarbuf b = fixture_tar(LAYER(ENT_DIR("t"), ENT_LINK("t/l", "../../outside"),
					      ENT_FILE("t/f", "text"), ENT_HARD("t/h", "t/f")),
		NULL);

	for (size_t at = 0; at < b.len; at++) {
		static const uint8_t masks[] = {0x01, 0x04, 0x10, 0x80, 0x2f};
		const uint8_t old = b.data[at];
		for (size_t i = 0; i < sizeof masks && (at < 512 * 4 || i == 0); i++) {
			b.data[at] = old ^ masks[i];
			(void)unpack_code(b, "t", 0, NULL);
		}
		b.data[at] = old;
		const struct tarbuf cut = {.data = b.data, .len = at};
		(void)unpack_code(cut, "t", 0, NULL);
	}
	free(b.data);
	ck_assert(is_there(dst, "t"));
}
END_TEST

static atomic_bool stop_swapping;
static atomic_int swaps;

/* "dst/t/d" is now a directory, now a link to the outside. */
static void *swap(void *arg)
{
	(void)arg;
	while (!atomic_load(&stop_swapping)) {
		/* The unpacker may take any of these away in between. */
		(void)renameat(dst, "t/d", dst, "real");
		(void)!symlinkat("../../outside", dst, "t/d");
		(void)unlinkat(dst, "t/d", 0);
		(void)renameat(dst, "real", dst, "t/d");
		atomic_fetch_add(&swaps, 1);
	}
	return NULL;
}

static void race_begin(pthread_t *thread, void *(*swapper)(void *))
{
	atomic_store(&stop_swapping, false);
	atomic_store(&swaps, 0);
	ck_assert_int_eq(pthread_create(thread, NULL, swapper, NULL), 0);
}

static void race(bool walk)
{
	const struct tarbuf b = fixture_tar(
		LAYER(ENT_DIR("t"), ENT_DIR("t/d"), ENT_DIR("t/e"), ENT_FILE("t/d/secret", "x"),
			ENT_FILE("t/d/new", "x"), ENT_HARD("t/e/h", "t/d/secret"),
			ENT_MODE('d', "t/d", 0777)),
		NULL);
	pthread_t thread;

	path_force_walk(walk);
	ck_assert_int_eq(mkdirat(dst, "t", 0755), 0);
	race_begin(&thread, swap);
	while (atomic_load(&swaps) < RACE_SWAPS)
		(void)unpack_code(b, "t", 0, NULL);
	atomic_store(&stop_swapping, true);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	ck_assert(!is_there(top, "outside/new"));
	ck_assert_uint_eq(look(top, "outside").st_mode & 07777, 0755);
	ck_assert_int_eq(unpack_code(b, "t", 0, NULL), 0);
	path_force_walk(false);
	free(b.data);
}

START_TEST(k08_race_of_directory_and_link)
{
	race(false);
}
END_TEST

START_TEST(k08_race_without_openat2)
{
	race(true);
}
END_TEST

/* The source is swapped while it is packed: nothing of the outside in the stream. */
static void *swap_source(void *arg)
{
	(void)arg;
	while (!atomic_load(&stop_swapping)) {
		(void)renameat(src, "t/d", src, "real");
		(void)!symlinkat("../../outside", src, "t/d");
		(void)unlinkat(src, "t/d", 0);
		(void)renameat(src, "real", src, "t/d");
		atomic_fetch_add(&swaps, 1);
	}
	return NULL;
}

START_TEST(k08_race_while_packing)
{
	pthread_t thread;

	ck_assert_int_eq(mkdirat(src, "t", 0755), 0);
	ck_assert_int_eq(mkdirat(src, "t/d", 0755), 0);
	write_text(src, "t/d/file", "inside");
	race_begin(&thread, swap_source);
	while (atomic_load(&swaps) < RACE_SWAPS) {
		struct tarbuf b = pack("t", "t", 0);
		ck_assert_ptr_null(memmem(b.data, b.len, "secret", 6));
		free(b.data);
	}
	atomic_store(&stop_swapping, true);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {k08_names_that_lead_outside, k08_links_that_lead_outside,
		a_hard_link_takes_nothing_away, devices_and_sockets_are_left_out,
		an_order_that_nobody_would_choose, streams_that_are_cut_or_no_tar,
		k08_streams_with_any_byte_changed, k08_race_of_directory_and_link,
		k08_race_without_openat2, k08_race_while_packing};

	return fixture_run(
		"hosttar-hostile", tests, sizeof tests / sizeof tests[0], setup, teardown, 60);
}
