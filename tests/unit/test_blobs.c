/* SPDX-License-Identifier: Apache-2.0 */
/* Blobs of the store: arriving, cut, gone on with, shared by processes, damaged. */
#include <check.h>
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/fsutil.h"
#include "base/mem.h"
#include "base/str.h"
#include "image/blobs.h"

#define BYTES  (4u << 20)
#define PIECE  65536u
#define ROUNDS 24 /* loaders that are killed */

static char dir[] = "/tmp/holt-blobs-XXXXXX";
static struct image_store *store;
static uint8_t *data;
static struct descriptor want;

static struct image_store *open_store(void)
{
	auto_error error = NULL;
	struct image_store *s = NULL;

	ck_assert_msg(image_store_open(dir, &s, &error) == 0, "%s", holt_error_message(error));
	return s;
}

static void setup(void)
{
	memcpy(dir + strlen(dir) - 6, "XXXXXX", 6);
	ck_assert_ptr_nonnull(mkdtemp(dir));
	store = open_store();
	data = mem_zalloc(BYTES);
	for (size_t i = 0; i < BYTES; i++)
		data[i] = (uint8_t)(i * 2654435761u >> 13);
	want.size = BYTES;
	ck_assert_int_eq(digest_of(data, BYTES, want.digest), 0);
}

static void teardown(void)
{
	mem_free(data);
	image_store_close(store);
	ck_assert_int_eq(fs_remove_tree(AT_FDCWD, dir), 0);
}

static struct blob *open_blob(struct image_store *s)
{
	auto_error error = NULL;
	struct blob *b = NULL;

	ck_assert_msg(blob_open(s, &want, NULL, &b, &error) == 0, "%s", holt_error_message(error));
	return b;
}

static void load(struct blob *b, size_t from, size_t to)
{
	for (size_t at = from; at < to; at += PIECE) {
		const size_t len = to - at < PIECE ? to - at : PIECE;
		ck_assert_int_eq(blob_write(b, at, data + at, len, NULL), 0);
	}
}

static bool has(const char *suffix)
{
	auto_free char *path = str_printf("%s/blobs/%s%s", dir, want.digest + 7, suffix);

	return access(path, F_OK) == 0;
}

static void assert_bytes(struct blob *b)
{
	auto_free uint8_t *got = mem_zalloc(BYTES);

	ck_assert_int_eq(pread(blob_fd(b), got, BYTES, 0), BYTES);
	ck_assert_mem_eq(got, data, BYTES);
}

START_TEST(a_blob_is_whole_after_its_last_byte_only)
{
	struct blob *b = open_blob(store);

	ck_assert(!blob_is_whole(b));
	load(b, 0, BYTES);
	ck_assert(!has("") && has(BLOB_PART));
	ck_assert_int_eq(blob_commit(b, NULL), 0);
	ck_assert(blob_is_whole(b) && has("") && !has(BLOB_PART));
	assert_bytes(b);
	blob_close(b);
	b = open_blob(store);
	ck_assert(blob_is_whole(b));
	ck_assert_uint_eq(blob_have(b), BYTES);
	assert_bytes(b);
	blob_close(b);
}
END_TEST

START_TEST(a_cut_one_goes_on)
{
	struct blob *b = open_blob(store);

	load(b, 0, BYTES / 2 + 7);
	blob_close(b);
	ck_assert(has(BLOB_PART));
	b = open_blob(store);
	ck_assert_uint_eq(blob_have(b), BYTES / 2 + 7);
	load(b, BYTES / 2 + 7, BYTES);
	ck_assert_int_eq(blob_commit(b, NULL), 0);
	assert_bytes(b);
	blob_close(b);
}
END_TEST

START_TEST(one_that_never_began_leaves_nothing)
{
	blob_close(open_blob(store));
	ck_assert(!has("") && !has(BLOB_PART));
}
END_TEST

/* A part that holds something else, as after a power cut. */
START_TEST(a_wrong_part_is_found_out_and_written_again)
{
	auto_error error = NULL;
	struct blob *b = open_blob(store);

	load(b, 0, BYTES / 2);
	ck_assert_int_eq(pwrite(blob_fd(b), "wrong", 5, 1000), 5);
	blob_close(b);
	b = open_blob(store);
	load(b, BYTES / 2, BYTES);
	ck_assert_int_eq(blob_commit(b, &error), -HOLT_EINVALID);
	ck_assert_ptr_nonnull(strstr(holt_error_message(error), want.digest));
	ck_assert_str_eq(holt_error_object(error), want.digest);
	ck_assert_uint_eq(blob_have(b), 0);
	ck_assert(!has(""));
	load(b, 0, BYTES);
	ck_assert_int_eq(blob_commit(b, NULL), 0);
	assert_bytes(b);
	blob_close(b);
}
END_TEST

START_TEST(a_registry_that_begins_again_is_taken_at_its_word)
{
	struct blob *b = open_blob(store);

	load(b, 0, BYTES / 2);
	load(b, 0, BYTES);
	ck_assert_int_eq(blob_commit(b, NULL), 0);
	assert_bytes(b);
	blob_close(b);
}
END_TEST

START_TEST(more_bytes_or_others_than_they_should_be_are_refused)
{
	auto_error more = NULL;
	auto_error gap = NULL;
	auto_error early = NULL;
	struct blob *b = open_blob(store);

	load(b, 0, PIECE);
	ck_assert_int_eq(blob_write(b, PIECE + 1, data, 1, &gap), -HOLT_EPROTOCOL);
	ck_assert_int_eq(blob_commit(b, &early), -HOLT_EINVALID);
	load(b, PIECE, BYTES);
	ck_assert_int_eq(blob_write(b, BYTES, "x", 1, &more), -HOLT_EINVALID);
	ck_assert_int_eq(blob_commit(b, NULL), 0);
	blob_close(b);
}
END_TEST

START_TEST(a_whole_one_of_another_size_is_none)
{
	auto_free char *path = str_printf("%s/blobs/%s", dir, want.digest + 7);

	ck_assert_int_eq(fs_replace(AT_FDCWD, path, "short", 5, 0600), 0);
	struct blob *b = open_blob(store);
	ck_assert(!blob_is_whole(b));
	ck_assert_uint_eq(blob_have(b), 0);
	blob_close(b);
	ck_assert(!has(""));
}
END_TEST

/* A manifest that lies about a size does no harm to who has the blob. */
START_TEST(a_good_one_survives_a_descriptor_with_another_size)
{
	struct blob *b = open_blob(store);
	auto_error error = NULL;

	load(b, 0, BYTES);
	ck_assert_int_eq(blob_commit(b, NULL), 0);
	blob_close(b);
	want.size = BYTES - 1;
	ck_assert_int_eq(blob_open(store, &want, NULL, &b, &error), -HOLT_EINVALID);
	ck_assert_ptr_nonnull(strstr(holt_error_message(error), "4194304 bytes, expected 4194303"));
	want.size = BYTES;
	b = open_blob(store);
	ck_assert(blob_is_whole(b));
	blob_close(b);
}
END_TEST

START_TEST(a_discarded_one_is_gone)
{
	struct blob *b = open_blob(store);

	load(b, 0, PIECE);
	blob_discard(b);
	ck_assert(!has(BLOB_PART));
	b = open_blob(store);
	load(b, 0, BYTES);
	ck_assert_int_eq(blob_commit(b, NULL), 0);
	blob_discard(b);
	ck_assert(!has(""));
}
END_TEST

static void *reader(void *arg)
{
	struct blob *b = arg;
	uint64_t at = 0;
	uint64_t have = 0;
	uint8_t *got = mem_zalloc(BYTES);
	bool same = true;

	while (at < BYTES) {
		if (blob_wait(b, at, 10000, &have, NULL) < 0 || have <= at)
			break;
		same = same &&
		       pread(blob_fd(b), got, have - at, (off_t)at) == (ssize_t)(have - at) &&
		       memcmp(got, data + at, have - at) == 0;
		at = have;
	}
	mem_free(got);
	return (void *)(uintptr_t)(same && at == BYTES);
}

START_TEST(a_reader_has_the_bytes_as_they_come)
{
	struct blob *b = open_blob(store);
	pthread_t thread;
	void *fine = NULL;

	ck_assert_int_eq(pthread_create(&thread, NULL, reader, b), 0);
	load(b, 0, BYTES);
	ck_assert_int_eq(blob_commit(b, NULL), 0);
	ck_assert_int_eq(pthread_join(thread, &fine), 0);
	ck_assert_ptr_nonnull(fine);
	blob_close(b);
}
END_TEST

START_TEST(a_reader_is_told_that_it_does_not_come)
{
	auto_error error = NULL;
	struct blob *b = open_blob(store);
	uint64_t have = 0;

	load(b, 0, PIECE);
	ck_assert_int_eq(blob_wait(b, 0, 0, &have, NULL), 0);
	ck_assert_uint_eq(have, PIECE);
	ck_assert_int_eq(blob_wait(b, PIECE, 10, &have, NULL), 0);
	ck_assert_uint_eq(have, PIECE);
	blob_fail(b, -HOLT_EDENIED, "no entry");
	ck_assert_int_eq(blob_wait(b, 0, 10, &have, &error), -HOLT_EDENIED);
	ck_assert_str_eq(holt_error_message(error), "no entry");
	blob_close(b);
}
END_TEST

/* As a pull in another process: whatever it finds, in the end the blob is whole. */
static void loads_all(unsigned pause_us)
{
	struct image_store *s = open_store();
	struct blob *b = open_blob(s);

	for (size_t at = blob_have(b); !blob_is_whole(b) && at < BYTES; at = blob_have(b)) {
		if (blob_write(b, at, data + at, BYTES - at < PIECE ? BYTES - at : PIECE, NULL) < 0)
			_exit(3);
		(void)usleep(pause_us);
	}
	if (!blob_is_whole(b) && blob_commit(b, NULL) < 0)
		_exit(4);
	assert_bytes(b);
	blob_close(b);
	image_store_close(s);
	_exit(0);
}

static void assert_ends_well(pid_t pid)
{
	int status = -1;

	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
}

START_TEST(many_processes_load_it_once)
{
	pid_t pids[8];

	for (unsigned i = 0; i < 8; i++) {
		if ((pids[i] = fork()) == 0)
			loads_all(200);
	}
	for (unsigned i = 0; i < 8; i++)
		assert_ends_well(pids[i]);
	ck_assert(has("") && !has(BLOB_PART));
}
END_TEST

/* K25: each round goes on behind what the killed one left. */
START_TEST(killed_loaders_leave_what_the_next_one_goes_on_with)
{
	for (unsigned i = 0; i < ROUNDS; i++) {
		const pid_t pid = fork();
		if (pid == 0)
			loads_all(1000);
		(void)usleep(2000 + i * 700);
		(void)kill(pid, SIGKILL);
		ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
		ck_assert(!(has("") && has(BLOB_PART)));
	}
	const pid_t last = fork();
	if (last == 0)
		loads_all(0);
	assert_ends_well(last);
}
END_TEST

/* Who removes blobs takes the lock alone, without waiting. */
START_TEST(one_in_use_is_locked_for_who_removes)
{
	struct blob *b = open_blob(store);
	auto_free char *path = str_printf("%s/blobs/%s", dir, want.digest + 7);

	load(b, 0, BYTES);
	ck_assert_int_eq(blob_commit(b, NULL), 0);
	const int fd = open(path, O_RDONLY | O_CLOEXEC);
	ck_assert_int_lt(flock(fd, LOCK_EX | LOCK_NB), 0);
	blob_close(b);
	ck_assert_int_eq(flock(fd, LOCK_EX | LOCK_NB), 0);
	(void)fd_close(fd);
}
END_TEST

static void put_blob(char first, size_t bytes, time_t used)
{
	char name[DIGEST_HEX_LEN + 1] = {0};
	auto_free char *big = mem_zalloc(bytes);

	memset(name, first, DIGEST_HEX_LEN);
	memset(big, 'x', bytes);
	auto_free char *path = str_printf("%s/blobs/%s", dir, name);
	ck_assert_int_eq(fs_replace(AT_FDCWD, path, big, bytes, 0600), 0);
	const struct timespec times[2] = {{.tv_sec = used}, {.tv_sec = used}};
	ck_assert_int_eq(utimensat(AT_FDCWD, path, times, 0), 0);
}

static bool has_blob(char first)
{
	char name[DIGEST_HEX_LEN + 1] = {0};

	memset(name, first, DIGEST_HEX_LEN);
	auto_free char *path = str_printf("%s/blobs/%s", dir, name);
	return access(path, F_OK) == 0;
}

/* K44: what was used last stays, what is in use stays whenever it was used. */
START_TEST(trimming_takes_the_oldest_that_nobody_uses)
{
	struct blob *b = open_blob(store);
	auto_free char *other = str_printf("%s/blobs/README", dir);

	load(b, 0, PIECE); /* in use, and the largest if it counts */
	put_blob('a', 1u << 20, 3000);
	put_blob('b', 1u << 20, 1000);
	put_blob('c', 1u << 20, 2000);
	ck_assert_int_eq(fs_replace(AT_FDCWD, other, "not ours", 8, 0600), 0);
	(void)blobs_trim(store, (3u << 20) + 2 * PIECE);
	ck_assert(has_blob('a') && has_blob('b') && has_blob('c'));
	(void)blobs_trim(store, (2u << 20) + 2 * PIECE);
	ck_assert(has_blob('a') && !has_blob('b') && has_blob('c'));
	(void)blobs_trim(store, 0);
	ck_assert(!has_blob('a') && !has_blob('c') && has(BLOB_PART));
	ck_assert_int_eq(access(other, F_OK), 0);
	load(b, PIECE, BYTES);
	ck_assert_int_eq(blob_commit(b, NULL), 0);
	(void)blobs_trim(store, 0);
	ck_assert(has(""));
	blob_close(b);
	(void)blobs_trim(store, 0);
	ck_assert(!has(""));
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {a_blob_is_whole_after_its_last_byte_only, a_cut_one_goes_on,
		one_that_never_began_leaves_nothing, a_wrong_part_is_found_out_and_written_again,
		a_registry_that_begins_again_is_taken_at_its_word,
		more_bytes_or_others_than_they_should_be_are_refused,
		a_whole_one_of_another_size_is_none,
		a_good_one_survives_a_descriptor_with_another_size, a_discarded_one_is_gone,
		a_reader_has_the_bytes_as_they_come, a_reader_is_told_that_it_does_not_come,
		many_processes_load_it_once, killed_loaders_leave_what_the_next_one_goes_on_with,
		one_in_use_is_locked_for_who_removes, trimming_takes_the_oldest_that_nobody_uses};
	Suite *s = suite_create("blobs");
	TCase *c = tcase_create("blobs");

	tcase_add_checked_fixture(c, setup, teardown);
	tcase_set_timeout(c, 60);
	for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
		tcase_add_test(c, tests[i]);
	suite_add_tcase(s, c);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	const int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
