/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spares on the fake engine: real keepers and agents, with a template that is made up. What
 * machines have to do with it is in tests/vm/spares.bats.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/fsutil.h"
#include "base/str.h"
#include "box/spare_memory.h"
#include "box/spares.h"
#include "box/template_files.h"

#define KEY "0123456789abcdef0123456789abcdef"

static char root[64];
static struct holt_home *home;
static struct template_want want;

static void put(int dir, const char *name)
{
	const int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(ftruncate(fd, 8192), 0);
	close(fd);
}

static void make_template(void)
{
	ck_assert_int_eq(mkdirat(home->templates_fd, KEY, 0700), 0);
	const int dir = openat(home->templates_fd, KEY, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	put(dir, TEMPLATE_MEMORY);
	put(dir, TEMPLATE_STATE);
	put(dir, TEMPLATE_DISK);
	want = (struct template_want){.image = "demo",
		.rootfs_digest = "sha256:0011",
		.memory_mib = 512,
		.cpus = 1,
		.disk_bytes = 8192,
		.boot_timeout_ms = 20000,
		.kernel_fd = home->fd, /* any will do */
		.initrd_fd = home->fd,
		.rootfs_fd = openat(dir, TEMPLATE_STATE, O_RDONLY | O_CLOEXEC)};
	ck_assert_int_eq(template_files_seal(dir, &want, 1), 0);
	close(dir);
}

static void setup(void)
{
	setenv("HOLT_KEEPER", TEST_KEEPER, 1);
	setenv("HOLT_AGENT", TEST_AGENT, 1);
	strcpy(root, "/tmp/holt-spares-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(root));
	ck_assert_int_eq(home_open(&(struct home_wish){.path = root}, &home, NULL), 0);
	ck_assert_int_eq(loop_start(home->loop, NULL), 0);
	make_template();
}

static void count(unsigned *ret, unsigned *ret_ready)
{
	spares_count(home, KEY, ret, ret_ready);
}

/* Until there are no more than that, of whatever state. */
static void await_count(unsigned n)
{
	const uint64_t until_ms = clock_mono_ms() + 10000;
	unsigned have, ready;

	for (count(&have, &ready); have != n; count(&have, &ready)) {
		ck_assert_uint_lt(clock_mono_ms(), until_ms);
		(void)nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
	}
}

static void teardown(void)
{
	ck_assert_int_eq(spares_shed(home, KEY, 0, NULL, NULL), 0);
	await_count(0);
	fd_close(want.rootfs_fd);
	home_close(home);
	ck_assert_int_eq(fs_remove_tree(AT_FDCWD, root), 0);
}

static void fill(unsigned n, uint64_t lifetime_ms)
{
	struct spares_plan plan = {.key = KEY, .n = n, .lifetime_ms = lifetime_ms};
	holt_error *error = NULL;
	unsigned have, ready;

	const int r = spares_fill_wait(home, &want, &plan, &error);
	ck_assert_msg(r == 0, "%s", holt_error_message(error));
	count(&have, &ready);
	ck_assert_uint_eq(have, n);
	ck_assert_uint_eq(ready, n);
}

/* A box that was made and not started, as far as a claim looks at it. */
static struct holt_box make_box(struct keeper_spec *spec)
{
	struct holt_box b = {.home = home, .dir = BOX_DIR_INIT, .owner_fd = FD_NONE};

	ck_assert_int_eq(box_dir_make(home->boxes_fd, &b.dir, NULL), 0);
	put(b.dir.fd, "of-the-box");
	snprintf(b.rec.id, sizeof b.rec.id, "%s", b.dir.id);
	*spec = (struct keeper_spec){.memory_mib = 512,
		.cpus = 1,
		.disk_bytes = 8192,
		.log_bytes = 65536,
		.stop_signal = 15,
		.boot_timeout_ms = 20000,
		.hostname = "claimed"};
	snprintf(spec->id, sizeof spec->id, "%s", b.dir.id);
	return b;
}

static bool box_has(const struct holt_box *b, const char *name)
{
	char path[80];

	snprintf(path, sizeof path, "%s/%s", b->rec.id, name);
	return faccessat(home->boxes_fd, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static void await_box_gone(const struct holt_box *b)
{
	const uint64_t until_ms = clock_mono_ms() + 3000;

	while (box_has(b, ".")) {
		ck_assert_uint_lt(clock_mono_ms(), until_ms);
		(void)nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
	}
}

/* The first spare's id, for strv_free. */
static char **list(void)
{
	auto_fd dir = spares_open(home, KEY);
	char **ids = NULL;

	ck_assert_int_eq(spares_list(dir, &ids), 0);
	return ids;
}

/* ---- claims ---- */

START_TEST(a_claimed_one_takes_the_place_of_the_box_and_ends_with_its_owner)
{
	struct keeper_spec spec;
	struct holt_box b = make_box(&spec);
	struct holt_box late = make_box(&spec);
	struct session *s = NULL;
	struct session *none = NULL;
	int owner = FD_NONE;

	fill(1, 0);
	snprintf(spec.id, sizeof spec.id, "%s", b.rec.id);
	ck_assert_int_eq(spares_claim(&b, KEY, &spec, NULL, &s, &owner, NULL), 0);
	ck_assert_int_lt(b.dir.fd, 0);
	ck_assert(box_has(&b, "sock") && box_has(&b, "state.json") && box_has(&b, "disk.raw"));
	ck_assert(!box_has(&b, "of-the-box"));
	await_count(0);
	/* Nobody gets it twice. */
	ck_assert_int_eq(
		spares_claim(&late, KEY, &spec, NULL, &none, &owner, NULL), -HOLT_ENOT_FOUND);
	ck_assert(box_has(&late, "of-the-box"));
	fd_close(owner);
	await_box_gone(&b);
	session_close(s);
	ck_assert_int_eq(box_dir_destroy(home->boxes_fd, &late.dir), 0);
}
END_TEST

START_TEST(a_claim_that_is_given_up_leaves_the_box_to_its_claimer)
{
	struct keeper_spec spec;
	struct holt_box b = make_box(&spec);
	auto_fd dir = FD_NONE;
	struct session *s = NULL;
	struct session_ready ready;
	int owner = FD_NONE;

	fill(1, 0);
	dir = spares_open(home, KEY);
	char **ids = list();
	ck_assert_int_eq(door_claim(dir, ids[0], &spec, home->loop, &s, &owner, NULL), 0);
	ck_assert_int_eq(session_wait_ready(s, 5000, NULL, &ready, NULL), 0);
	ck_assert_str_eq(ready.origin, "spare");
	fd_close(owner);
	session_close(s);
	await_count(0);
	ck_assert(box_has(&b, "of-the-box"));
	strv_free(ids);
	ck_assert_int_eq(box_dir_destroy(home->boxes_fd, &b.dir), 0);
}
END_TEST

START_TEST(a_claimer_that_dies_early_leaves_nothing)
{
	struct keeper_spec spec;
	struct holt_box b = make_box(&spec);
	auto_fd dir = FD_NONE;
	struct session *s = NULL;
	int owner = FD_NONE;

	fill(1, 0);
	dir = spares_open(home, KEY);
	char **ids = list();
	ck_assert_int_eq(door_claim(dir, ids[0], &spec, home->loop, &s, &owner, NULL), 0);
	box_dir_close(&b.dir);
	fd_close(owner);
	session_close(s);
	await_count(0);
	await_box_gone(&b);
	strv_free(ids);
}
END_TEST

START_TEST(a_claim_with_a_specification_of_no_box_ends_the_spare)
{
	struct keeper_spec spec;
	struct holt_box b = make_box(&spec);
	auto_fd dir = FD_NONE;
	struct session *s = NULL;
	struct session_ready ready;
	int owner = FD_NONE;

	fill(1, 0);
	dir = spares_open(home, KEY);
	char **ids = list();
	spec.role = KEEPER_SPARE;
	/* It may be gone before it has answered. */
	const int r = door_claim(dir, ids[0], &spec, home->loop, &s, &owner, NULL);
	ck_assert_msg(r == 0 || r == -HOLT_ECLOSED, "%d", r);
	if (r == 0) {
		ck_assert_int_lt(session_wait_ready(s, 5000, NULL, &ready, NULL), 0);
		fd_close(owner);
		session_close(s);
	}
	await_count(0);
	ck_assert(box_has(&b, "of-the-box"));
	strv_free(ids);
	ck_assert_int_eq(box_dir_destroy(home->boxes_fd, &b.dir), 0);
}
END_TEST

/* ---- their end ---- */

START_TEST(one_that_nobody_claims_ends_when_its_time_is_over)
{
	const uint64_t began_ms = clock_mono_ms();

	fill(2, 3000);
	await_count(0);
	ck_assert_uint_ge(clock_mono_ms() - began_ms, 3000);
}
END_TEST

START_TEST(surplus_ones_end)
{
	unsigned gone = 0;

	fill(3, 0);
	ck_assert_int_eq(spares_shed(home, KEY, 1, &gone, NULL), 0);
	ck_assert_uint_eq(gone, 2);
	await_count(1);
	ck_assert(spares_end_one(home));
	ck_assert(!spares_end_one(home));
	await_count(0);
}
END_TEST

START_TEST(what_nobody_lives_for_is_swept)
{
	struct box_dir d = BOX_DIR_INIT;
	char gone[BOX_DIR_GONE_MAX];

	ck_assert_int_eq(mkdirat(home->spares_fd, KEY, 0700), 0);
	auto_fd dir = spares_open(home, KEY);
	ck_assert_int_eq(box_dir_make(dir, &d, NULL), 0);
	box_dir_close(&d);
	ck_assert_int_eq(box_dir_make(dir, &d, NULL), 0);
	ck_assert_int_eq(box_dir_hide(dir, d.id, gone), 0);
	box_dir_close(&d);
	spares_sweep(home);
	ck_assert_int_eq(faccessat(home->spares_fd, KEY, F_OK, 0), -1);
	ck_assert_int_eq(errno, ENOENT);
}
END_TEST

/* ---- numbers ---- */

START_TEST(how_many_are_wanted_is_kept)
{
	ck_assert_uint_eq(spares_wanted(home, "sha256:ab"), 0);
	ck_assert_int_eq(spares_want(home, "sha256:ab", 7, NULL), 0);
	ck_assert_uint_eq(spares_wanted(home, "sha256:ab"), 7);
	ck_assert_int_eq(spares_want(home, "sha256:ab", 0, NULL), 0);
	ck_assert_uint_eq(spares_wanted(home, "sha256:ab"), 0);
	ck_assert_int_eq(fs_write_atomic(home->spares_fd, "ab.want", "65\n", 3, 0600), 0);
	ck_assert_uint_eq(spares_wanted(home, "sha256:ab"), 0);
	ck_assert_int_lt(spares_want(home, "sha256:../x", 1, NULL), 0);
}
END_TEST

START_TEST(a_tenth_of_the_memory_stays)
{
	ck_assert(!spare_memory_is_scarce("MemTotal: 1000 kB\nMemAvailable: 100 kB\n"));
	ck_assert(spare_memory_is_scarce("MemTotal: 1000 kB\nMemAvailable: 99 kB\n"));
	ck_assert(!spare_memory_is_scarce("nonsense"));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("spares");
	TCase *c = tcase_create("spares");

	tcase_add_checked_fixture(c, setup, teardown);
	tcase_set_timeout(c, 60);
	tcase_add_test(c, a_claimed_one_takes_the_place_of_the_box_and_ends_with_its_owner);
	tcase_add_test(c, a_claim_that_is_given_up_leaves_the_box_to_its_claimer);
	tcase_add_test(c, a_claimer_that_dies_early_leaves_nothing);
	tcase_add_test(c, a_claim_with_a_specification_of_no_box_ends_the_spare);
	tcase_add_test(c, one_that_nobody_claims_ends_when_its_time_is_over);
	tcase_add_test(c, surplus_ones_end);
	tcase_add_test(c, what_nobody_lives_for_is_swept);
	tcase_add_test(c, how_many_are_wanted_is_kept);
	tcase_add_test(c, a_tenth_of_the_memory_stays);
	suite_add_tcase(s, c);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	const int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
