/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is written on and on: the log of a box's program and the events of a home, through rotations
 * and behind what killed writers leave.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fsutil.h"
#include "base/mem.h"
#include "box/box_log.h"
#include "box/box_state.h"
#include "box/event_log.h"

#define WRITERS 3
#define EVENTS  1200 /* of each writer: more than 1 MiB in all */

static char dir[64];
static int dir_fd, box_fd;

static void setup(void)
{
	snprintf(dir, sizeof dir, "/tmp/holt-logs-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ck_assert_int_ge(dir_fd, 0);
	ck_assert_int_eq(mkdirat(dir_fd, "b", 0700), 0);
	box_fd = openat(dir_fd, "b", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ck_assert_int_ge(box_fd, 0);
}

static void teardown(void)
{
	close(box_fd);
	close(dir_fd);
	ck_assert_int_eq(fs_remove_tree(AT_FDCWD, dir), 0);
}

static void append_to(int at, const char *name, const void *data, size_t len)
{
	const int fd = openat(at, name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, data, len), (ssize_t)len);
	close(fd);
}

/* ---- the log ---- */

static struct box_log writer;

static void log_text(const char *text)
{
	box_log_write(&writer, WIRE_STDOUT, (const uint8_t *)text, strlen(text));
}

/* All that a reader gets without waiting, as text. */
static char *read_log(uint64_t tail)
{
	static char text[1 << 20];
	struct holt_log_reader *r = NULL;
	holt_error *e = NULL;
	const void *data = NULL;
	size_t len = 0, total = 0;
	int stream = 0;

	ck_assert_int_eq(box_log_open(dir_fd, "b", tail, &r, &e), 0);
	for (;;) {
		const int rc = box_log_next(r, 0, NULL, &data, &len, &stream, NULL, &e);
		ck_assert_msg(rc == 0, "%s", holt_error_message(e));
		if (len == 0)
			break;
		ck_assert_uint_lt(total + len, sizeof text);
		memcpy(text + total, data, len);
		total += len;
	}
	box_log_close(r);
	text[total] = 0;
	return text;
}

START_TEST(tail_counts_lines)
{
	writer = BOX_LOG_INIT(box_fd, 1 << 20);
	ck_assert_str_eq(read_log(UINT64_MAX), "");
	ck_assert_str_eq(read_log(0), "");
	ck_assert_str_eq(read_log(5), "");
	log_text("one\ntw");
	log_text("o\n");
	log_text("\n");
	log_text("four\nfi");
	log_text("ve");
	static const char *const want[] = {"", "five", "four\nfive", "\nfour\nfive",
		"two\n\nfour\nfive", "one\ntwo\n\nfour\nfive", "one\ntwo\n\nfour\nfive"};
	for (uint64_t n = 0; n < 7; n++)
		ck_assert_str_eq(read_log(n), want[n]);
	ck_assert_str_eq(read_log(UINT64_MAX), want[5]);
	ck_assert_str_eq(read_log(UINT64_MAX - 1), want[5]);
	log_text("\n");
	ck_assert_str_eq(read_log(1), "five\n");
	ck_assert_str_eq(read_log(0), "");
	box_log_done(&writer);
}
END_TEST

START_TEST(log_keeps_bytes_streams_and_times)
{
	uint8_t all[256];
	struct holt_log_reader *r = NULL;
	const void *data = NULL;
	size_t len = 0;
	int stream = 0;
	uint64_t when = 0;
	const uint64_t before = clock_wall_ns();

	for (int i = 0; i < 256; i++)
		all[i] = (uint8_t)i;
	writer = BOX_LOG_INIT(box_fd, 1 << 20);
	box_log_write(&writer, WIRE_STDERR, all, sizeof all);
	box_log_write(&writer, WIRE_STDOUT, all, 0);
	box_log_write(&writer, WIRE_STDOUT, all, 1);
	ck_assert_int_eq(box_log_open(dir_fd, "b", UINT64_MAX, &r, NULL), 0);
	ck_assert_int_eq(box_log_next(r, 0, NULL, &data, &len, &stream, &when, NULL), 0);
	ck_assert_uint_eq(len, sizeof all);
	ck_assert_mem_eq(data, all, len);
	ck_assert_int_eq(stream, WIRE_STDERR);
	ck_assert(when >= before && when <= clock_wall_ns());
	ck_assert_int_eq(box_log_next(r, 0, NULL, &data, &len, &stream, &when, NULL), 0);
	ck_assert(len == 1 && stream == WIRE_STDOUT);
	ck_assert_int_eq(box_log_next(r, 0, NULL, &data, &len, &stream, &when, NULL), 0);
	ck_assert_uint_eq(len, 0);
	box_log_close(r);
	box_log_done(&writer);
}
END_TEST

static off_t size_of(const char *name)
{
	struct stat st;

	return fstatat(box_fd, name, &st, 0) == 0 ? st.st_size : 0;
}

START_TEST(log_rotates_within_its_limit)
{
	char line[101];

	writer = BOX_LOG_INIT(box_fd, 65536);
	for (int i = 0; i < 5000; i++) {
		snprintf(line, sizeof line, "%05d %93s\n", i, "x");
		log_text(line);
		if (i % 100 == 0)
			ck_assert_int_le(size_of("log") + size_of("log.1"), 65536 + 200);
	}
	const char *text = read_log(UINT64_MAX);
	ck_assert_uint_gt(strlen(text), 65536 / 2 - 32768 / 4);
	const int first = atoi(text);
	ck_assert_uint_eq(strlen(text), (size_t)(5000 - first) * 100);
	ck_assert_int_eq(atoi(read_log(1)), 4999);
	ck_assert_int_eq(atoi(read_log(300)), 4700);
	box_log_done(&writer);
	/* The next run goes on behind it. */
	writer = BOX_LOG_INIT(box_fd, 65536);
	log_text("again\n");
	ck_assert_str_eq(read_log(1), "again\n");
	box_log_done(&writer);
}
END_TEST

START_TEST(torn_records_hide_nothing_else)
{
	static const uint8_t head[24] = {'H', 'L', 'O', 'G', 200};

	writer = BOX_LOG_INIT(box_fd, 1 << 20);
	log_text("before\n");
	box_log_done(&writer);
	/* Each time a keeper was killed after so many bytes of a record. */
	for (size_t n = 1; n < sizeof head; n++) {
		append_to(box_fd, "log", head, n);
		ck_assert_ptr_nonnull(strstr(read_log(UINT64_MAX), "before\n"));
		log_text("between\n");
		box_log_done(&writer);
	}
	log_text("after\n");
	const char *text = read_log(UINT64_MAX);
	size_t found = 0;
	for (const char *p = text; (p = strstr(p, "between\n")); p++)
		found++;
	ck_assert_uint_eq(found, sizeof head - 1);
	ck_assert_str_eq(read_log(1), "after\n");
	box_log_done(&writer);
}
END_TEST

START_TEST(torn_end_is_waited_for)
{
	struct holt_log_reader *r = NULL;
	const void *data = NULL;
	size_t len = 0;
	int stream = 0;
	char record[24 + 5] = "HLOG\5";

	record[16] = WIRE_STDOUT;
	memcpy(record + 24, "whole", 5);
	append_to(box_fd, "log", record, 26);
	ck_assert_int_eq(box_log_open(dir_fd, "b", UINT64_MAX, &r, NULL), 0);
	ck_assert_int_eq(box_log_next(r, 0, NULL, &data, &len, &stream, NULL, NULL), 0);
	ck_assert_uint_eq(len, 0);
	append_to(box_fd, "log", record + 26, sizeof record - 26);
	ck_assert_int_eq(box_log_next(r, 0, NULL, &data, &len, &stream, NULL, NULL), 0);
	ck_assert_uint_eq(len, 5);
	ck_assert_mem_eq(data, "whole", 5);
	box_log_close(r);
}
END_TEST

START_TEST(foreign_log_is_passed_over)
{
	char noise[100000];

	memset(noise, 'H', sizeof noise);
	append_to(box_fd, "log.1", noise, sizeof noise);
	append_to(box_fd, "log", "HLOGHLOGHLOG", 12);
	writer = BOX_LOG_INIT(box_fd, 1 << 20);
	log_text("ours\n");
	ck_assert_str_eq(read_log(UINT64_MAX), "ours\n");
	box_log_done(&writer);
}
END_TEST

/* A program that writes numbered lines through many rotations while somebody follows. */
static void *write_lines(void *arg)
{
	const struct timespec pause = {.tv_nsec = 100000000};
	char line[101];

	for (int i = 0; i < 2000; i++) {
		snprintf(line, sizeof line, "%05d %93s\n", i, "x");
		log_text(line);
		/* No faster than the reader looks. */
		if (i % 200 == 199)
			(void)nanosleep(&pause, NULL);
	}
	box_log_done(&writer);
	const struct box_state s = {.phase = BOX_EXITED, .end = BOX_END_PROGRAM};
	ck_assert_int_eq(box_state_write(box_fd, &s), 0);
	close(*(int *)arg);
	return NULL;
}

START_TEST(follow_crosses_rotations_and_ends)
{
	int lock = openat(box_fd, "keeper.lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	struct holt_log_reader *r = NULL;
	pthread_t t;
	const void *data = NULL;
	size_t len = 0;
	int stream = 0, want = 0;

	ck_assert_int_eq(flock(lock, LOCK_EX), 0);
	const struct box_state s = {.phase = BOX_RUNNING};
	ck_assert_int_eq(box_state_write(box_fd, &s), 0);
	writer = BOX_LOG_INIT(box_fd, 131072);
	ck_assert_int_eq(box_log_open(dir_fd, "b", UINT64_MAX, &r, NULL), 0);
	ck_assert_int_eq(pthread_create(&t, NULL, write_lines, &lock), 0);
	for (;;) {
		ck_assert_int_eq(box_log_next(r, 20000, NULL, &data, &len, &stream, NULL, NULL), 0);
		if (len == 0)
			break;
		char number[6] = "";
		memcpy(number, data, 5);
		ck_assert_int_eq(atoi(number), want++);
	}
	ck_assert_int_eq(want, 2000);
	pthread_join(t, NULL);
	box_log_close(r);
}
END_TEST

START_TEST(following_can_be_cancelled)
{
	const int lock = openat(box_fd, "keeper.lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	struct holt_log_reader *r = NULL;
	holt_cancel *cancel = NULL;
	const void *data = NULL;
	size_t len = 0;
	int stream = 0;

	ck_assert_int_eq(flock(lock, LOCK_EX), 0);
	ck_assert_int_eq(cancel_new(&cancel, NULL), 0);
	ck_assert_int_eq(box_log_open(dir_fd, "b", UINT64_MAX, &r, NULL), 0);
	ck_assert_int_eq(box_log_next(r, 120, NULL, &data, &len, &stream, NULL, NULL), 0);
	ck_assert_uint_eq(len, 0);
	cancel_trigger(cancel);
	ck_assert_int_eq(box_log_next(r, HOLT_FOREVER, cancel, &data, &len, &stream, NULL, NULL),
		-HOLT_ECANCELLED);
	box_log_close(r);
	cancel_free(cancel);
	close(lock);
	ck_assert_int_eq(box_log_open(dir_fd, "none", 0, &r, NULL), -HOLT_ENOT_FOUND);
}
END_TEST

/* ---- events ---- */

static void write_events(int number)
{
	char pad[400];

	memset(pad, 'p', sizeof pad - 1);
	pad[sizeof pad - 1] = 0;
	for (int i = 0; i < EVENTS; i++)
		event_tell(dir_fd, "create", "0123", "n",
			json_pack("{s:i, s:i, s:s}", "writer", number, "i", i, "pad", pad));
	_exit(0);
}

static json_t *parse(const char *text)
{
	json_t *doc = NULL;

	ck_assert_int_eq(json_parse(text, strlen(text), 8192, "event", &doc, NULL), 0);
	return doc;
}

START_TEST(processes_share_the_events_and_rotate_them)
{
	struct holt_events *e = NULL;
	const char *text = NULL;
	int next[WRITERS] = {0}, done = 0, status;
	pid_t pids[WRITERS];

	ck_assert_int_eq(events_open(dir_fd, UINT64_MAX, &e, NULL), 0);
	for (int i = 0; i < WRITERS; i++) {
		pids[i] = fork();
		if (pids[i] == 0)
			write_events(i);
	}
	/* Nothing is lost and nothing comes twice, across the rotation. */
	while (done < WRITERS * EVENTS) {
		ck_assert_int_eq(events_next(e, 20000, NULL, &text, NULL), 0);
		ck_assert_ptr_nonnull(text);
		json_t *doc = parse(text);
		const int w = (int)json_integer_value(json_object_get(doc, "writer"));
		ck_assert(w >= 0 && w < WRITERS);
		ck_assert_int_eq(json_integer_value(json_object_get(doc, "i")), next[w]++);
		json_decref(doc);
		done++;
	}
	for (int i = 0; i < WRITERS; i++) {
		ck_assert_int_eq(waitpid(pids[i], &status, 0), pids[i]);
		ck_assert_int_eq(status, 0);
	}
	ck_assert_int_eq(events_next(e, 0, NULL, &text, NULL), 0);
	ck_assert_ptr_null(text);
	events_close(e);
	ck_assert_int_eq(faccessat(dir_fd, "events.1.jsonl", F_OK, 0), 0);
}
END_TEST

static size_t count_events(uint64_t since_ns)
{
	struct holt_events *e = NULL;
	const char *text = NULL;
	size_t n = 0;

	ck_assert_int_eq(events_open(dir_fd, since_ns, &e, NULL), 0);
	while (events_next(e, 0, NULL, &text, NULL) == 0 && text)
		n++;
	events_close(e);
	return n;
}

START_TEST(events_since_and_foreign_lines)
{
	static const char noise[] = "garbage\n\n{}\n{\"time\":5}\n[]\n\xff\0x\n";
	static char big[20000];
	uint64_t times[3];

	ck_assert_uint_eq(count_events(0), 0);
	for (int i = 0; i < 3; i++) {
		times[i] = clock_wall_ns();
		event_tell(dir_fd, "start", "0123", NULL, NULL);
		append_to(dir_fd, "events.jsonl", noise, sizeof noise - 1);
	}
	memset(big, 'x', sizeof big);
	append_to(dir_fd, "events.jsonl", big, sizeof big);
	append_to(dir_fd, "events.jsonl", "\n", 1);
	ck_assert_uint_eq(count_events(0), 3);
	for (int i = 0; i < 3; i++)
		ck_assert_uint_eq(count_events(times[i]), (size_t)(3 - i));
	ck_assert_uint_eq(count_events(clock_wall_ns()), 0);
	ck_assert_uint_eq(count_events(UINT64_MAX), 0);
	/* A line that is too long for an event is not written at all. */
	big[sizeof big - 1] = 0;
	event_tell(dir_fd, "start", "0123", "n", json_pack("{s:s}", "x", big));
	ck_assert_uint_eq(count_events(0), 3);
}
END_TEST

START_TEST(torn_event_is_waited_for)
{
	struct holt_events *e = NULL;
	const char *text = NULL;
	const char line[] = "{\"time\":\"2030-01-01T00:00:00.000000000Z\",\"action\":\"die\"}\n";

	ck_assert_int_eq(events_open(dir_fd, 0, &e, NULL), 0);
	append_to(dir_fd, "events.jsonl", line, 20);
	ck_assert_int_eq(events_next(e, 0, NULL, &text, NULL), 0);
	ck_assert_ptr_null(text);
	append_to(dir_fd, "events.jsonl", line + 20, strlen(line) - 20);
	ck_assert_int_eq(events_next(e, 0, NULL, &text, NULL), 0);
	ck_assert_ptr_nonnull(text);
	ck_assert_uint_eq(strlen(text), strlen(line) - 1);
	events_close(e);
}
END_TEST

START_TEST(event_names_are_any_bytes)
{
	struct holt_events *e = NULL;
	const char *text = NULL;

	ck_assert_int_eq(events_open(dir_fd, UINT64_MAX, &e, NULL), 0);
	event_tell(dir_fd, "create", "0123", "na\"me",
		json_pack("{s:o}", "image", json_from_bytes("\xff\n\x1b")));
	ck_assert_int_eq(events_next(e, 0, NULL, &text, NULL), 0);
	json_t *doc = parse(text);
	char *image = NULL;
	ck_assert_int_eq(json_get_bytes(doc, "image", &image, NULL), 0);
	ck_assert_str_eq(image, "\xff\n\x1b");
	ck_assert_str_eq(json_string_value(json_object_get(doc, "name")), "na\"me");
	mem_free(image);
	json_decref(doc);
	events_close(e);
	/* A directory that cannot be written is no failure. */
	event_tell(-1, "create", "0123", NULL, json_pack("{}"));
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {tail_counts_lines, log_keeps_bytes_streams_and_times,
		log_rotates_within_its_limit, torn_records_hide_nothing_else,
		torn_end_is_waited_for, foreign_log_is_passed_over,
		follow_crosses_rotations_and_ends, following_can_be_cancelled,
		processes_share_the_events_and_rotate_them, events_since_and_foreign_lines,
		torn_event_is_waited_for, event_names_are_any_bytes};
	Suite *s = suite_create("box logs");
	TCase *c = tcase_create("box logs");

	tcase_add_checked_fixture(c, setup, teardown);
	tcase_set_timeout(c, 60);
	for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++)
		tcase_add_test(c, tests[i]);
	suite_add_tcase(s, c);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	const int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
