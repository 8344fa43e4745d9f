/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is known of a box, each by itself: record and state, and JSON of any bytes under them. The
 * index is in test_box_index.c, the logs in test_box_logs.c, boxes as a whole in test_boxes.c.
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
#include <unistd.h>

#include "base/fsutil.h"
#include "base/mem.h"
#include "base/str.h"
#include "box/box_record.h"
#include "box/box_state.h"
#include "wire/wire.h"

#include "dir_fixture.h"

/* ---- JSON of any bytes ---- */

static char *round_trip(const char *s)
{
	json_t *doc = json_pack("{s:o}", "x", json_from_bytes(s));
	char *text = json_text(doc), *back = NULL;
	json_t *again = NULL;

	ck_assert_int_eq(json_parse(text, strlen(text), 1 << 20, "test", &again, NULL), 0);
	ck_assert_int_eq(json_get_bytes(again, "x", &back, NULL), 0);
	json_decref(again);
	json_decref(doc);
	mem_free(text);
	return back;
}

START_TEST(bytes_survive_json)
{
	char all[256], one[2] = "";

	for (int i = 1; i < 256; i++) {
		one[0] = all[i - 1] = (char)i;
		char *back = round_trip(one);
		ck_assert_str_eq(back, one);
		mem_free(back);
	}
	all[255] = 0;
	char *back = round_trip(all);
	ck_assert_str_eq(back, all);
	mem_free(back);
	back = round_trip("");
	ck_assert_str_eq(back, "");
	mem_free(back);
}
END_TEST

START_TEST(other_shapes_are_no_bytes)
{
	static const char *const bad[] = {"5", "[]", "{}", "true", "{\"hex\":5}", "{\"hex\":\"0\"}",
		"{\"hex\":\"0g\"}", "{\"hex\":\"00\"}", "{\"hex\":\"41004100\"}",
		"{\"hex\":\"AB\"}", "\"a\\u0000b\""};
	/* jansson takes \u0000 only where it is told to, so that one fails earlier. */

	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		char text[64];
		json_t *doc = NULL;
		char *bytes = NULL, **list = NULL;
		holt_error *e = NULL;

		snprintf(text, sizeof text, "{\"x\":%s,\"l\":[\"a\",%s]}", bad[i], bad[i]);
		if (json_parse(text, strlen(text), 100, "test", &doc, NULL) < 0) {
			ck_assert_uint_eq(i, sizeof bad / sizeof bad[0] - 1);
			continue;
		}
		ck_assert_int_eq(json_get_bytes(doc, "x", &bytes, &e), -HOLT_EINVALID);
		ck_assert_ptr_null(bytes);
		ck_assert_ptr_nonnull(strstr(holt_error_message(e), "'x'"));
		holt_error_free(e);
		e = NULL;
		ck_assert_int_eq(json_get_list(doc, "l", &list, &e), -HOLT_EINVALID);
		ck_assert_ptr_null(list);
		holt_error_free(e);
		json_decref(doc);
	}
}
END_TEST

START_TEST(lists_are_lists)
{
	const char text[] = "{\"l\":[\"a\",{\"hex\":\"ff\"},\"\"],\"s\":\"a\",\"o\":{\"a\":1},"
			    "\"n\":null,\"e\":[]}";
	json_t *doc = NULL;
	char **list = NULL;

	ck_assert_int_eq(json_parse(text, strlen(text), 200, "test", &doc, NULL), 0);
	ck_assert_int_eq(json_get_list(doc, "l", &list, NULL), 0);
	ck_assert_str_eq(list[0], "a");
	ck_assert_str_eq(list[1], "\xff");
	ck_assert_str_eq(list[2], "");
	ck_assert_ptr_null(list[3]);
	strv_free(list);
	ck_assert_int_eq(json_get_list(doc, "e", &list, NULL), 0);
	ck_assert_ptr_null(list[0]);
	strv_free(list);
	ck_assert_int_eq(json_get_list(doc, "n", &list, NULL), 0);
	ck_assert_ptr_null(list);
	ck_assert_int_eq(json_get_list(doc, "none", &list, NULL), 0);
	ck_assert_ptr_null(list);
	ck_assert_int_eq(json_get_list(doc, "s", &list, NULL), -HOLT_EINVALID);
	ck_assert_int_eq(json_get_list(doc, "o", &list, NULL), -HOLT_EINVALID);
	/* Without memory nothing is left and the code says so. */
	for (unsigned long n = 1;; n++) {
		mem_fail_at(n);
		const int r = json_get_list(doc, "l", &list, NULL);
		mem_fail_at(0);
		if (r == 0)
			break;
		ck_assert_int_eq(r, -HOLT_ENO_MEMORY);
		ck_assert_ptr_null(list);
	}
	strv_free(list);
	json_decref(doc);
}
END_TEST

/* ---- the record ---- */

static char word0[] = "/bin/echo", word1[] = "\xff\xfe", word2[] = "", word3[] = "\x01\x7f\x80",
	    word4[] = "gr\xc3\xbc\xc3\x9f", env0[] = "A=1", all_bytes[256];
static char *argv[] = {word0, word1, word2, word3, word4, NULL};
static char *env[] = {env0, all_bytes, NULL};
static char image_name[] = "r\xe9gistry/x:1", digest[] = "sha256:00", host[] = "h", user[] = "0:0";
static char where[] = "/w\xff", allowed[] = "*.a.example:443",
	    published[] = "127.0.0.1:80:8080/udp";
static char *allow[] = {allowed, NULL}, *publish[] = {published, NULL};

static struct box_record sample(void)
{
	struct box_record r = {.image = image_name,
		.image_digest = digest,
		.created_ns = 1700000000123456789,
		.keep = true,
		.memory_mib = 262144,
		.cpus = 64,
		.disk_bytes = 17592186044416u,
		.log_bytes = 1073741824,
		.stop_signal = 64,
		.stop_grace_ms = 3600000,
		.hostname = host,
		.mac = {0xfe, 0, 1, 0x7f, 0x80, 0xff},
		.network = {.mode = NET_ALLOWLIST, .allow = allow, .publish = publish},
		.config = {.env = env, .entrypoint = argv, .working_dir = where},
		.has_program = true,
		.program = {.argv = argv,
			.env = env,
			.cwd = where,
			.user = user,
			.flags = 0xffffffff,
			.timeout_ms = INT64_MAX,
			.rows = 65535,
			.cols = 1,
			.pids_max = 0xffffffff,
			.replay = 16777216}};

	strcpy(r.id, "0123456789abcdef");
	all_bytes[0] = 'B';
	all_bytes[1] = '=';
	for (int i = 2; i < 255; i++)
		all_bytes[i] = (char)i;
	return r;
}

static void same_list(char **a, char **b)
{
	size_t i = 0;

	for (; a[i] && b[i]; i++)
		ck_assert_str_eq(a[i], b[i]);
	ck_assert_ptr_eq(a[i], b[i]);
}

START_TEST(record_comes_back_whole)
{
	const struct box_record r = sample();
	json_t *doc = box_record_json(&r);
	char *text = json_text(doc);
	struct box_record b = {0};
	holt_error *e = NULL;

	const int rc = box_record_parse(text, &b, &e);
	ck_assert_msg(rc == 0, "%s", holt_error_message(e));
	ck_assert_str_eq(b.id, r.id);
	ck_assert_str_eq(b.image, r.image);
	ck_assert_str_eq(b.image_digest, r.image_digest);
	ck_assert_str_eq(b.hostname, r.hostname);
	ck_assert_mem_eq(b.mac, r.mac, sizeof r.mac);
	ck_assert(b.created_ns == r.created_ns && b.keep && b.memory_mib == r.memory_mib);
	ck_assert(b.cpus == r.cpus && b.disk_bytes == r.disk_bytes && b.log_bytes == r.log_bytes);
	ck_assert(b.stop_signal == r.stop_signal && b.stop_grace_ms == r.stop_grace_ms);
	ck_assert_int_eq(b.network.mode, NET_ALLOWLIST);
	same_list(b.network.allow, allow);
	same_list(b.network.publish, publish);
	same_list(b.config.env, env);
	same_list(b.config.entrypoint, argv);
	ck_assert_ptr_null(b.config.cmd);
	ck_assert_ptr_null(b.config.user);
	ck_assert_str_eq(b.config.working_dir, where);
	ck_assert(b.has_program);
	same_list(b.program.argv, argv);
	same_list(b.program.env, env);
	ck_assert_str_eq(b.program.cwd, where);
	ck_assert_str_eq(b.program.user, user);
	ck_assert_uint_eq(b.program.flags, r.program.flags);
	ck_assert_uint_eq(b.program.timeout_ms, r.program.timeout_ms);
	ck_assert(b.program.rows == 65535 && b.program.cols == 1);
	ck_assert(b.program.pids_max == 0xffffffff && b.program.replay == 16777216);
	box_record_done(&b);
	mem_free(text);
	json_decref(doc);
}
END_TEST

static const struct {
	const char *key;
	const char *value; /* NULL: the member is missing */
	bool fine;
} changes[] = {{"id", NULL, false}, {"id", "5", false},
	{"id", "\"0123456789abcdef0123456789abcdef0\"", false}, {"mac", NULL, false},
	{"mac", "\"zz\"", false}, {"image", NULL, false}, {"image", "[]", false},
	{"image_digest", NULL, true}, {"hostname", NULL, false}, {"created_ns", NULL, false},
	{"created_ns", "-1", false}, {"created_ns", "1e3", false},
	{"created_ns", "9223372036854775807", true}, {"created_ns", "9223372036854775808", false},
	{"memory_mib", "4294967296", false}, {"memory_mib", "\"512\"", false},
	{"cpus", "null", false}, {"disk_bytes", "-9223372036854775808", false},
	{"stop_signal", "65", false}, {"stop_grace_ms", "2147483648", false}, {"keep", NULL, true},
	{"keep", "1", true}, {"config", NULL, true}, {"config", "{}", true},
	{"config", "{\"env\":\"A=1\"}", false}, {"config", "{\"env\":[5]}", false},
	{"config", "{\"cmd\":{}}", false}, {"program", NULL, true}, {"program", "{}", false},
	{"program", "[]", false}, {"program", "{\"flags\":0}", false}, {"network", NULL, true},
	{"network", "{}", false}, {"network", "{\"mode\":\"closed\"}", false},
	{"network", "{\"mode\":\"open\",\"allow\":[\"a.example\"]}", false},
	{"unknown", "[1]", true}};

START_TEST(record_is_checked)
{
	const struct box_record r = sample();
	json_t *doc = box_record_json(&r);
	struct box_record b = {0};
	holt_error *e = NULL;

	json_object_del(doc, changes[_i].key);
	char *base = json_text(doc);
	base[strlen(base) - 1] = 0;
	char *text = changes[_i].value
			     ? str_printf("%s,\"%s\":%s}", base, changes[_i].key, changes[_i].value)
			     : str_printf("%s}", base);
	const int rc = box_record_parse(text, &b, &e);
	ck_assert_msg((rc == 0) == changes[_i].fine, "%s: %d %s", text, rc, holt_error_message(e));
	/* Boxes of before there was any. */
	if (rc == 0 && strcmp(changes[_i].key, "network") == 0)
		ck_assert_int_eq(b.network.mode, NET_ISOLATED);
	if (rc < 0) {
		ck_assert_int_eq(rc, -HOLT_EINVALID);
		ck_assert_str_ne(holt_error_message(e), "");
	}
	holt_error_free(e);
	box_record_done(&b);
	mem_free(base);
	mem_free(text);
	json_decref(doc);
}
END_TEST

START_TEST(record_without_memory)
{
	const struct box_record r = sample();
	json_t *doc = box_record_json(&r);
	char *text = json_text(doc);
	struct box_record b = {0};
	unsigned long n = 1;

	for (;; n++) {
		holt_error *e = NULL;

		mem_fail_at(n);
		const int rc = box_record_parse(text, &b, &e);
		mem_fail_at(0);
		if (rc == 0)
			break;
		ck_assert_int_eq(rc, -HOLT_ENO_MEMORY);
		holt_error_free(e);
	}
	ck_assert_uint_gt(n, 15);
	box_record_done(&b);
	mem_free(text);
	json_decref(doc);
}
END_TEST

/* ---- the state ---- */

static int box_dir(void)
{
	ck_assert(mkdirat(dir_fd, "b", 0700) == 0 || errno == EEXIST);
	const int fd = openat(dir_fd, "b", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ck_assert_int_ge(fd, 0);
	return fd;
}

static int lock_box(int box)
{
	const int fd = openat(box, "keeper.lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(flock(fd, LOCK_EX | LOCK_NB), 0);
	return fd;
}

static struct box_state look(void)
{
	struct box_state s;

	memset(&s, 0xa5, sizeof s);
	box_state_look(dir_fd, "b", &s);
	return s;
}

START_TEST(state_has_names)
{
	for (int i = BOX_CREATED; i <= BOX_GONE; i++)
		ck_assert_str_ne(box_phase_name(i), "?");
	for (int i = BOX_END_NONE; i <= BOX_END_POWEROFF; i++)
		ck_assert_str_ne(box_end_name(i), "?");
	ck_assert_str_eq(box_phase_name(-1), "?");
	ck_assert_str_eq(box_phase_name(BOX_GONE + 1), "?");
	ck_assert_str_eq(box_end_name(-1), "?");
	ck_assert_str_eq(box_end_name(BOX_END_POWEROFF + 1), "?");
	for (uint16_t i = 0; i <= WIRE_END_POWEROFF; i++) {
		ck_assert_int_ne(box_end_of_wire(i), BOX_END_NONE);
		ck_assert_int_ne(box_end_of_wire(i), BOX_END_LOST);
	}
	ck_assert_int_eq(box_end_of_wire(WIRE_END_POWEROFF + 1), BOX_END_LOST);
	ck_assert_int_eq(box_end_of_wire(65535), BOX_END_LOST);
}
END_TEST

START_TEST(state_comes_back)
{
	const int box = box_dir(), lock = lock_box(box);

	for (int phase = BOX_CREATED; phase <= BOX_GONE; phase++) {
		for (int end = BOX_END_NONE; end <= BOX_END_POWEROFF; end++) {
			struct box_state s = {.phase = (enum box_phase)phase,
				.end = (enum box_end)end,
				.exit_code = 255,
				.keeper_pid = 4194304,
				.vmm_pid = 1,
				.attempts = 2,
				.started_ns = 1700000000123456789,
				.ended_ns = INT64_MAX,
				.hello_us = 1,
				.ready_us = 1u << 31,
				.accel = "kvm",
				.text = "it \"ended\" \\ so \xc3\xbc"};

			ck_assert_int_eq(box_state_write(box, &s), 0);
			const struct box_state back = look();
			ck_assert_int_eq(back.phase, s.phase);
			ck_assert_int_eq(back.end, s.end);
			ck_assert_int_eq(back.exit_code, s.exit_code);
			ck_assert_int_eq(back.keeper_pid, s.keeper_pid);
			ck_assert_int_eq(back.vmm_pid, s.vmm_pid);
			ck_assert_uint_eq(back.attempts, s.attempts);
			ck_assert(back.started_ns == s.started_ns && back.ended_ns == s.ended_ns);
			ck_assert(back.hello_us == s.hello_us && back.ready_us == s.ready_us);
			ck_assert_str_eq(back.accel, s.accel);
			ck_assert_str_eq(back.text, s.text);
		}
	}
	close(lock);
	close(box);
}
END_TEST

/* Only what runs is held by somebody. */
START_TEST(lease_comes_back_while_the_box_runs)
{
	static const char *const odd[] = {"\"held\"", "[]", "{}", "{\"state\":\"flying\"}",
		"{\"state\":\"\"}", "{\"state\":7,\"holder\":\"x\"}"};
	const int box = box_dir(), lock = lock_box(box);

	for (int phase = BOX_STARTING; phase <= BOX_EXITED; phase++) {
		for (int lease = BOX_LEASE_NONE; lease <= BOX_LEASE_WARM; lease++) {
			const bool runs = phase >= BOX_RUNNING && phase <= BOX_STOPPING &&
					  lease != BOX_LEASE_NONE;
			const struct box_state s = {.phase = (enum box_phase)phase,
				.lease = (enum box_lease)lease,
				.lease_ns = 1700000000123456789,
				.lease_until_ns = INT64_MAX,
				.holder = "h-1",
				.holder_label = "worker \"1\""};

			ck_assert_int_eq(box_state_write(box, &s), 0);
			const struct box_state back = look();
			ck_assert_int_eq(back.lease, runs ? lease : BOX_LEASE_NONE);
			ck_assert(back.lease_ns == (runs ? s.lease_ns : 0));
			ck_assert(back.lease_until_ns == (runs ? s.lease_until_ns : 0));
			ck_assert_str_eq(back.holder, runs ? s.holder : "");
			ck_assert_str_eq(back.holder_label, runs ? s.holder_label : "");
		}
	}
	for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
		char text[160];

		snprintf(text, sizeof text, "{\"state\":\"running\",\"reason\":\"\",\"lease\":%s}",
			odd[i]);
		put_file(box, "state.json", text, strlen(text));
		ck_assert_int_eq(look().phase, BOX_RUNNING);
		ck_assert_int_eq(look().lease, BOX_LEASE_NONE);
		ck_assert_str_eq(look().holder, "");
	}
	/* The keeper was killed. */
	const struct box_state s = {
		.phase = BOX_RUNNING, .lease = BOX_LEASE_HELD, .holder = "h-1", .lease_ns = 5};
	ck_assert_int_eq(box_state_write(box, &s), 0);
	close(lock);
	const struct box_state lost = look();
	ck_assert_int_eq(lost.end, BOX_END_LOST);
	ck_assert_int_eq(lost.lease, BOX_LEASE_NONE);
	ck_assert(lost.lease_ns == 0 && !lost.holder[0]);
	close(box);
}
END_TEST

START_TEST(lock_tells_whether_a_keeper_lives)
{
	ck_assert_int_eq(look().phase, BOX_GONE);
	const int box = box_dir();
	ck_assert_int_eq(look().phase, BOX_CREATED);
	int lock = lock_box(box);
	ck_assert_int_eq(look().phase, BOX_STARTING);
	for (int phase = BOX_STARTING; phase <= BOX_STOPPING; phase++) {
		const struct box_state s = {.phase = (enum box_phase)phase, .keeper_pid = 7};

		ck_assert_int_eq(box_state_write(box, &s), 0);
		ck_assert_int_eq(look().phase, s.phase);
		close(lock);
		const struct box_state lost = look();
		ck_assert_int_eq(lost.phase, BOX_EXITED);
		ck_assert_int_eq(lost.end, BOX_END_LOST);
		ck_assert_int_eq(lost.exit_code, 137);
		ck_assert_int_eq(lost.keeper_pid, 0);
		ck_assert_str_ne(lost.text, "");
		lock = lock_box(box);
	}
	close(lock);
	const struct box_state s = {.phase = BOX_EXITED, .end = BOX_END_PROGRAM, .exit_code = 3};
	ck_assert_int_eq(box_state_write(box, &s), 0);
	ck_assert_int_eq(look().end, BOX_END_PROGRAM);
	close(box);
}
END_TEST

static const char *const garbage[] = {"", "{", "{\"state\":\"run", "[]", "null", "{}",
	"{\"state\":\"flying\",\"reason\":\"\"}", "{\"state\":5,\"reason\":\"\"}",
	"{\"state\":\"running\"}", "{\"state\":\"running\",\"reason\":\"bored\"}", "\xff\xfe"};

START_TEST(garbage_counts_as_lost)
{
	const int box = box_dir();

	put_file(box, "state.json", garbage[_i], strlen(garbage[_i]));
	ck_assert_int_eq(look().phase, BOX_EXITED);
	ck_assert_int_eq(look().end, BOX_END_LOST);
	close(box);
}
END_TEST

START_TEST(odd_state_files)
{
	static char big[10000];
	const char numbers[] = "{\"state\":\"exited\",\"reason\":\"stopped\","
			       "\"exit_code\":9999999999,\"keeper_pid\":-1,\"vmm_pid\":\"x\"}";
	const char wild[] = "{\"state\":\"exited\",\"reason\":\"stopped\",\"exit_code\":9999999999,"
			    "\"keeper_pid\":-1,\"vmm_pid\":\"x\",\"attempts\":1e5,"
			    "\"text\":\"a\\u0000b\",\"accel\":\"far too long for it\"}";
	const int box = box_dir();

	memset(big, ' ', sizeof big);
	put_file(box, "state.json", big, sizeof big);
	ck_assert_int_eq(look().end, BOX_END_LOST);
	put_file(box, "state.json", wild, strlen(wild));
	const struct box_state s = look();
	/* jansson refuses the NUL, so all of it. */
	ck_assert_int_eq(s.end, BOX_END_LOST);
	put_file(box, "state.json", numbers, strlen(numbers));
	ck_assert_int_eq(look().end, BOX_END_STOPPED);
	ck_assert(look().exit_code == 0 && look().keeper_pid == 0 && look().vmm_pid == 0);
	ck_assert_int_eq(unlinkat(box, "state.json", 0), 0);
	ck_assert_int_eq(symlinkat("/etc/passwd", box, "state.json"), 0);
	ck_assert_int_eq(look().end, BOX_END_LOST);
	close(box);
}
END_TEST

/* A keeper that starts and ends over and over, as fast as it can. */
static void *keeper_thread(void *arg)
{
	const int box = box_dir();

	while (!__atomic_load_n((int *)arg, __ATOMIC_SEQ_CST)) {
		struct box_state s = {.phase = BOX_RUNNING};
		int lock = -1;

		while ((lock = openat(box, "keeper.lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600)) <
				0 ||
			flock(lock, LOCK_EX | LOCK_NB) < 0)
			close(lock);
		ck_assert_int_eq(box_state_write(box, &s), 0);
		s.phase = BOX_EXITED;
		s.end = BOX_END_PROGRAM;
		ck_assert_int_eq(box_state_write(box, &s), 0);
		close(lock);
	}
	close(box);
	return NULL;
}

START_TEST(ending_keeper_is_never_lost_2000_looks)
{
	pthread_t t;
	int stop = 0;
	const int box = box_dir();
	const struct box_state first = {.phase = BOX_EXITED, .end = BOX_END_PROGRAM};

	ck_assert_int_eq(box_state_write(box, &first), 0);
	ck_assert_int_eq(pthread_create(&t, NULL, keeper_thread, &stop), 0);
	for (int i = 0; i < 2000; i++)
		ck_assert_int_ne(look().end, BOX_END_LOST);
	__atomic_store_n(&stop, 1, __ATOMIC_SEQ_CST);
	pthread_join(t, NULL);
	close(box);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {bytes_survive_json, other_shapes_are_no_bytes,
		lists_are_lists, record_comes_back_whole, record_without_memory, state_has_names,
		state_comes_back, lease_comes_back_while_the_box_runs,
		lock_tells_whether_a_keeper_lives, odd_state_files,
		ending_keeper_is_never_lost_2000_looks};
	Suite *s = suite_create("box parts");
	TCase *c = tcase_create("box parts");

	tcase_add_checked_fixture(c, setup, teardown);
	tcase_set_timeout(c, 60);
	for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++)
		tcase_add_test(c, tests[i]);
	tcase_add_loop_test(c, record_is_checked, 0, (int)(sizeof changes / sizeof changes[0]));
	tcase_add_loop_test(
		c, garbage_counts_as_lost, 0, (int)(sizeof garbage / sizeof garbage[0]));
	suite_add_tcase(s, c);
	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	const int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
