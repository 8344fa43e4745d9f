/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/wire.h"

#include <check.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * The codec: every operation there and back, the bytes of one frame of each against the golden
 * file, and what must be refused. GOLDEN_DIR comes from the build.
 */

#define FRAME_MAX 4096

#define STR(s)                                                     \
	{                                                          \
		.data = (const uint8_t *)(s), .len = sizeof(s) - 1 \
	}
#define STRS(s, n)                                                               \
	{                                                                        \
		.data = (const uint8_t *)(s), .len = sizeof(s) - 1, .count = (n) \
	}
#define MSG(o, s, ...)                                                 \
	{                                                              \
		.op = WIRE_OP_##o, .stream = (s), .o = { __VA_ARGS__ } \
	}

/* One message of each operation; the fields have values that no other order or width would give. */
static const struct wire_msg samples[] = {
	MSG(hello, 0, .magic = WIRE_MAGIC, .version = 3, .oldest = 2,
		.features = 0x1122334455667788, .build = STR("holt")),
	MSG(stage, 0, .name = STR("rootfs")),
	MSG(setup, 0, .wall_ns = 1700000000123456789,
		.seed = STR("0123456789abcdef0123456789abcdef"), .hostname = STR("box"),
		.machine_id = STR("00112233445566778899aabbccddeeff"),
		.mac = STR("\x02hol\x01\x02")),
	MSG(setup_done, 0, .uptime_us = 1234567),
	MSG(ping, 0, .token = 0x0102030405060708),
	MSG(pong, 0, .token = 0x0102030405060708),
	MSG(fail, 9, .class_ = WIRE_FAIL_CWD, .errnum = 20, .stage = STR("cwd"),
		.object = STR("/x"), .text = STR("no")),
	MSG(log, 0, .level = 1, .text = STR("line")),
	MSG(shutdown, 0, .grace_ms = 1500),
	MSG(freeze, 6, .on = 1, .wall_ns = 1700000000123456789),
	MSG(done, 6, .value = 0x01020304),
	MSG(stats, 7, .flags = 0x01020304),
	MSG(stats_reply, 7, .uptime_us = 1, .cpu_us = 2, .memory_used = 3, .memory_total = 4,
		.disk_used = 5, .disk_total = 0x0102030405060708, .processes = 6, .execs = 7),
	MSG(park, 8, .flags = 0x01020304),
	MSG(directories, 8, .user = STR("al"), .paths = STRS("/w\0/x y\0", 2)),
	MSG(exec, 5, .flags = WIRE_EXEC_STDIN, .timeout_ms = 30000, .out_credit = 262144,
		.rows = 24, .cols = 80, .pids_max = 4096, .replay = 65536, .user = STR("al:wheel"),
		.cwd = STR("/w"), .argv = STRS("sh\0-c\0exit 3\0", 3),
		.env = STRS("A=1\0\xff=\n\0", 2)),
	MSG(started, 5, .pid = 77, .in_credit = 131072, .number = 3),
	MSG(signal, 5, .signo = 15, .flags = WIRE_SIGNAL_ALL),
	MSG(credit, 5, .channel = WIRE_STDOUT, .bytes = 65536),
	MSG(resize, 5, .rows = 50, .cols = 0x0102),
	MSG(network, 9, .up = 1, .mtu = 0x01020304, .address = STR("10.0.2.15/24"),
		.gateway = STR("10.0.2.2"), .address6 = STR("fd00::15/64"),
		.gateway6 = STR("fd00::2"), .resolver = STR("10.0.2.3"), .search = STR("a b")),
	MSG(data, 5, .channel = WIRE_STDOUT, .bytes = STR("\0\x04\xff")),
	MSG(eof, 5, .channel = WIRE_STDERR),
	MSG(exit, 5, .kind = WIRE_SIGNALED, .code = 9, .flags = WIRE_EXIT_TIMED_OUT,
		.duration_us = 1000001),
	MSG(ready, 0, .vmm_us = 1, .hello_us = 2, .ready_us = 3, .vmm_pid = 4, .attempts = 5,
		.accel = STR("tcg"), .origin = STR("clone"), .note = STR("why")),
	MSG(ended, 0, .reason = WIRE_END_VM_CRASHED, .code = 137, .flags = WIRE_EXIT_OOM,
		.errnum = 11, .stage = STR("run"), .text = STR("gone"), .hint = STR("look")),
	MSG(gap, 5, .channel = WIRE_STDOUT, .bytes = 0x0102030405060708),
	MSG(attach, 8, .number = 3, .out_credit = 262144),
	MSG(leave, 8, .flags = 0x01020304),
	MSG(stop, 9, .signo = 15, .grace_ms = 10000),
	MSG(kill, 9, .signo = 2),
	MSG(pause, 9, .on = 1),
	MSG(detach, 9, .flags = 0x01020304),
	MSG(hold, 9, .wait_ms = 30000, .idle_ms = 600000, .pause_ms = UINT64_MAX,
		.on_idle = WIRE_IDLE_STOP, .holder = STR("h1"), .label = STR("worker 1"),
		.trace = STR("t")),
	MSG(unhold, 9, .trace = STR("t")),
	MSG(lease, 9, .lease_ms = 0x0102030405060708),
	MSG(file_read, 0, .first_line = 2, .last_line = 0x0102030405060708, .max_bytes = 3,
		.path = STR("/a\xff\n")),
	MSG(file_write, 0, .flags = WIRE_WRITE_PARENTS, .path = STR("b")),
	MSG(file_stat, 0, .flags = WIRE_STAT_FOLLOW, .path = STR("/c")),
	MSG(file_mkdir, 0, .flags = WIRE_MKDIR_PARENTS, .path = STR("/d")),
	MSG(file_move, 0, .flags = WIRE_MOVE_NOREPLACE, .from = STR("/e"), .to = STR("/f/g")),
	MSG(file_remove, 0, .flags = WIRE_REMOVE_FORCE, .path = STR("/h")),
	MSG(file_list, 0, .max_depth = 2, .max_results = 0x0102030405060708, .root = STR("/i"),
		.ignore = STRS(".git\0*.log\0", 2)),
	MSG(file_glob, 0, .flags = WIRE_GLOB_DIRS, .max_results = 200, .root = STR("/j"),
		.pattern = STR("**/*.c"), .ignore = STRS("build\0", 1)),
	MSG(file_grep, 0, .flags = WIRE_GREP_LITERAL, .max_results = 100, .line_max = 801,
		.step_limit = 1000000, .time_ms = 0x0102030405060708, .root = STR("/k"),
		.pattern = STR("a\0b"), .glob = STR("*.h"), .ignore = STRS("tmp\0", 1)),
	MSG(file_data, 0, .bytes = STR("\0\x04\xff")),
	MSG(file_end, 0, .abort_ = 1),
	MSG(file_info, 0, .type = WIRE_FILE_SYMLINK, .mode = 0777, .uid = 1000, .gid = 1001,
		.size = 0x0102030405060708, .mtime_ns = 1700000000123456789, .target = STR("l")),
	MSG(file_entry, 0, .type = WIRE_FILE_REGULAR, .path = STR("m/n")),
	MSG(file_match, 0, .line = 7, .line_len = 0x0102030405060708, .path = STR("o"),
		.text = STR("text\0")),
	MSG(file_done, 0, .truncated = 1, .searched = 2, .skipped = 0x0102030405060708),
	MSG(file_fail, 0, .class_ = WIRE_FILE_FAIL_STEPS, .errnum = 2, .stage = STR("grep"),
		.object = STR("/p"), .text = STR("no")),
};
#define N_SAMPLES ((int)(sizeof(samples) / sizeof(samples[0])))

/* Some side that accepts the message. */
static enum wire_side side_of(const struct wire_msg *m)
{
	switch (m->op) {
	case WIRE_OP_setup:
	case WIRE_OP_ping:
	case WIRE_OP_shutdown:
	case WIRE_OP_freeze:
	case WIRE_OP_stats:
	case WIRE_OP_park:
	case WIRE_OP_directories:
	case WIRE_OP_exec:
	case WIRE_OP_signal:
	case WIRE_OP_credit: /* the sample grants stdout */
	case WIRE_OP_network:
	case WIRE_OP_resize:
	case WIRE_OP_file_read:
	case WIRE_OP_file_write:
	case WIRE_OP_file_stat:
	case WIRE_OP_file_mkdir:
	case WIRE_OP_file_move:
	case WIRE_OP_file_remove:
	case WIRE_OP_file_list:
	case WIRE_OP_file_glob:
	case WIRE_OP_file_grep:
	case WIRE_OP_file_end:
		return WIRE_AS_GUEST;
	case WIRE_OP_attach:
	case WIRE_OP_leave:
	case WIRE_OP_stop:
	case WIRE_OP_kill:
	case WIRE_OP_pause:
	case WIRE_OP_detach:
	case WIRE_OP_hold:
	case WIRE_OP_unhold:
	case WIRE_OP_lease:
		return WIRE_AS_KEEPER;
	default:
		return WIRE_AS_CLIENT;
	}
}

static size_t encode(const struct wire_msg *m, uint8_t *buf)
{
	size_t len = 0;

	ck_assert_int_eq(wire_encode(m, buf, FRAME_MAX, &len), WIRE_OK);
	ck_assert_uint_eq(len, wire_size(m));
	return len;
}

static enum wire_status decode(enum wire_side side, enum wire_lane lane, const uint8_t *buf,
	size_t len, struct wire_msg *ret)
{
	size_t used = 0;

	return wire_decode(side, lane, buf, len, ret, &used);
}

/* Decode bytes that are one frame of @m's lane, after a change made to them. */
static enum wire_status judge(const struct wire_msg *m, const uint8_t *buf, size_t len)
{
	struct wire_msg got;

	return decode(side_of(m), (enum wire_lane)wire_lane_of(m->op), buf, len, &got);
}

START_TEST(every_op_has_a_sample)
{
	for (uint32_t op = 0; op <= UINT16_MAX; op++) {
		bool sampled = false;
		for (int i = 0; i < N_SAMPLES; i++)
			sampled |= samples[i].op == op;
		ck_assert_int_eq(sampled, wire_lane_of((uint16_t)op) >= 0);
		ck_assert_int_eq(sampled, strcmp(wire_op_name((uint16_t)op), "?") != 0);
	}
}
END_TEST

START_TEST(round_trip)
{
	const struct wire_msg *m = &samples[_i];
	uint8_t a[FRAME_MAX];
	uint8_t b[FRAME_MAX];
	struct wire_msg got;
	size_t used = 0;
	const size_t len = encode(m, a);

	a[len] = 0xaa; /* the next frame begins; it must not matter */
	ck_assert_int_eq(wire_decode(side_of(m), (enum wire_lane)wire_lane_of(m->op), a, len + 1,
				 &got, &used),
		WIRE_OK);
	ck_assert_uint_eq(used, len);
	ck_assert_uint_eq(got.op, m->op);
	ck_assert_uint_eq(got.stream, m->stream);
	ck_assert_uint_eq(encode(&got, b), len);
	ck_assert_mem_eq(a, b, len);
}
END_TEST

/* Every prefix asks for more and says for how much. */
START_TEST(prefixes)
{
	const struct wire_msg *m = &samples[_i];
	uint8_t buf[FRAME_MAX];
	struct wire_msg got;
	const size_t len = encode(m, buf);

	for (size_t n = 0; n < len; n++) {
		size_t used = 0;
		/* Exactly as long, so that a sanitizer sees a read beyond. */
		uint8_t *part = malloc(n ? n : 1);
		ck_assert_ptr_nonnull(part);
		memcpy(part, buf, n);
		ck_assert_int_eq(wire_decode(side_of(m), (enum wire_lane)wire_lane_of(m->op), part,
					 n, &got, &used),
			WIRE_MORE);
		ck_assert_uint_eq(used, n < WIRE_HEADER_SIZE ? WIRE_HEADER_SIZE : len);
		free(part);
	}
}
END_TEST

START_TEST(too_little_room)
{
	const struct wire_msg *m = &samples[_i];
	uint8_t buf[FRAME_MAX];
	size_t len = 4711;
	const size_t size = wire_size(m);

	for (size_t cap = 0; cap < size; cap++) {
		memset(buf, 0x5a, sizeof(buf));
		ck_assert_int_eq(wire_encode(m, buf, cap, &len), WIRE_NO_SPACE);
		for (size_t i = cap; i < size; i++)
			ck_assert_uint_eq(buf[i], 0x5a);
	}
	ck_assert_uint_eq(len, 4711);
}
END_TEST

/* Change single facts of a good frame. */
START_TEST(damaged_header)
{
	const struct wire_msg *m = &samples[_i];
	uint8_t good[FRAME_MAX];
	uint8_t buf[FRAME_MAX];
	struct wire_msg got;
	const size_t len = encode(m, good);
	const enum wire_lane lane = (enum wire_lane)wire_lane_of(m->op);

	/* All of it is found without the payload. */
	ck_assert_int_eq(decode(side_of(m), lane == WIRE_BULK ? WIRE_CONTROL : WIRE_BULK, good,
				 WIRE_HEADER_SIZE, &got),
		WIRE_BAD_OP);
	memcpy(buf, good, len);
	buf[6] = 1;
	ck_assert_int_eq(judge(m, buf, WIRE_HEADER_SIZE), WIRE_BAD_FIELD);
	memcpy(buf, good, len);
	buf[5] = 0x7f;
	ck_assert_int_eq(judge(m, buf, WIRE_HEADER_SIZE), WIRE_BAD_OP);
	memcpy(buf, good, len);
	buf[3] = 0x7f;
	ck_assert_int_eq(judge(m, buf, WIRE_HEADER_SIZE), WIRE_BAD_LENGTH);
	/* One byte more or less than the fields take. */
	memcpy(buf, good, len);
	const uint32_t payload = (uint32_t)(len - WIRE_HEADER_SIZE);
	buf[0] = (uint8_t)(payload + 1);
	buf[1] = (uint8_t)((payload + 1) >> 8);
	buf[len] = 0;
	ck_assert_int_eq(judge(m, buf, len + 1), WIRE_BAD_FIELD);
	buf[0] = (uint8_t)(payload - 1);
	buf[1] = (uint8_t)((payload - 1) >> 8);
	ck_assert_int_eq(judge(m, buf, len), WIRE_BAD_FIELD);
}
END_TEST

/* Who accepts what: h host, g guest, c client, k keeper. */
static const struct {
	uint16_t op;
	const char *sides;
} receivers[] = {
	{WIRE_OP_hello, "hgck"},
	{WIRE_OP_stage, "hc"},
	{WIRE_OP_setup, "gk"},
	{WIRE_OP_setup_done, "hc"},
	{WIRE_OP_ping, "gk"},
	{WIRE_OP_pong, "hc"},
	{WIRE_OP_fail, "hc"},
	{WIRE_OP_log, "hc"},
	{WIRE_OP_shutdown, "gk"},
	{WIRE_OP_freeze, "gk"},
	{WIRE_OP_done, "hc"},
	{WIRE_OP_stats, "gk"},
	{WIRE_OP_stats_reply, "hc"},
	{WIRE_OP_park, "gk"},
	{WIRE_OP_directories, "gk"},
	{WIRE_OP_exec, "gk"},
	{WIRE_OP_started, "hc"},
	{WIRE_OP_signal, "gk"},
	{WIRE_OP_credit, "gk"}, /* for stdout; see channel_directions */
	{WIRE_OP_resize, "gk"},
	{WIRE_OP_network, "gk"},
	{WIRE_OP_data, "hc"}, /* of stdout */
	{WIRE_OP_eof, "hc"},
	{WIRE_OP_exit, "hc"},
	{WIRE_OP_ready, "c"},
	{WIRE_OP_ended, "c"},
	{WIRE_OP_gap, "c"},
	{WIRE_OP_attach, "k"},
	{WIRE_OP_leave, "k"},
	{WIRE_OP_stop, "k"},
	{WIRE_OP_kill, "k"},
	{WIRE_OP_pause, "k"},
	{WIRE_OP_detach, "k"},
	{WIRE_OP_hold, "k"},
	{WIRE_OP_unhold, "k"},
	{WIRE_OP_lease, "k"},
	{WIRE_OP_file_read, "gk"},
	{WIRE_OP_file_write, "gk"},
	{WIRE_OP_file_stat, "gk"},
	{WIRE_OP_file_mkdir, "gk"},
	{WIRE_OP_file_move, "gk"},
	{WIRE_OP_file_remove, "gk"},
	{WIRE_OP_file_list, "gk"},
	{WIRE_OP_file_glob, "gk"},
	{WIRE_OP_file_grep, "gk"},
	{WIRE_OP_file_data, "hgck"},
	{WIRE_OP_file_end, "gk"},
	{WIRE_OP_file_info, "hc"},
	{WIRE_OP_file_entry, "hc"},
	{WIRE_OP_file_match, "hc"},
	{WIRE_OP_file_done, "hc"},
	{WIRE_OP_file_fail, "hc"},
};

START_TEST(directions)
{
	static const char letters[] = "hgck";
	static const enum wire_side sides[] = {
		WIRE_AS_HOST, WIRE_AS_GUEST, WIRE_AS_CLIENT, WIRE_AS_KEEPER};
	const struct wire_msg *m = &samples[_i];
	uint8_t buf[FRAME_MAX];
	struct wire_msg got;
	const size_t len = encode(m, buf);

	ck_assert_uint_eq(receivers[_i].op, m->op);
	for (int s = 0; s < 4; s++) {
		const enum wire_status st = decode(
			sides[s], (enum wire_lane)wire_lane_of(m->op), buf, len, &got);
		ck_assert_int_eq(st == WIRE_OK, strchr(receivers[_i].sides, letters[s]) != NULL);
	}
}
END_TEST

static enum wire_status pass(enum wire_side side, struct wire_msg m)
{
	uint8_t buf[FRAME_MAX];
	struct wire_msg got;
	const size_t len = encode(&m, buf);

	return decode(side, (enum wire_lane)wire_lane_of(m.op), buf, len, &got);
}

START_TEST(channel_directions)
{
	const struct wire_msg in = MSG(data, 1, .channel = WIRE_STDIN, .bytes = STR("x"));
	const struct wire_msg out = MSG(data, 1, .channel = WIRE_STDERR, .bytes = STR("x"));
	const struct wire_msg in_end = MSG(eof, 1, .channel = WIRE_STDIN);
	const struct wire_msg in_credit = MSG(credit, 1, .channel = WIRE_STDIN, .bytes = 1);
	const struct wire_msg out_credit = MSG(credit, 1, .channel = WIRE_STDERR, .bytes = 1);

	ck_assert_int_eq(pass(WIRE_AS_GUEST, in), WIRE_OK);
	ck_assert_int_eq(pass(WIRE_AS_KEEPER, in), WIRE_OK);
	ck_assert_int_eq(pass(WIRE_AS_HOST, in), WIRE_BAD_FIELD);
	ck_assert_int_eq(pass(WIRE_AS_CLIENT, in), WIRE_BAD_FIELD);
	ck_assert_int_eq(pass(WIRE_AS_GUEST, out), WIRE_BAD_FIELD);
	ck_assert_int_eq(pass(WIRE_AS_HOST, out), WIRE_OK);
	ck_assert_int_eq(pass(WIRE_AS_GUEST, in_end), WIRE_OK);
	ck_assert_int_eq(pass(WIRE_AS_HOST, in_end), WIRE_BAD_FIELD);
	ck_assert_int_eq(pass(WIRE_AS_GUEST, in_credit), WIRE_BAD_FIELD);
	ck_assert_int_eq(pass(WIRE_AS_HOST, in_credit), WIRE_OK);
	ck_assert_int_eq(pass(WIRE_AS_GUEST, out_credit), WIRE_OK);
	ck_assert_int_eq(pass(WIRE_AS_HOST, out_credit), WIRE_BAD_FIELD);
}
END_TEST

/* The encoder refuses what the decoder would refuse. */
START_TEST(bad_fields)
{
	static const struct wire_msg bad[] = {
		MSG(data, 1, .channel = 3, .bytes = STR("x")),
		MSG(data, 1, .channel = WIRE_STDOUT),
		MSG(data, 0, .channel = WIRE_STDOUT, .bytes = STR("x")),
		MSG(eof, 1, .channel = 3),
		MSG(credit, 1, .channel = 3, .bytes = 1),
		MSG(credit, 1, .channel = 1, .bytes = WIRE_CREDIT_MAX + 1),
		MSG(exec, 0, .argv = STRS("x\0", 1)),
		MSG(exec, 1, .out_credit = WIRE_CREDIT_MAX + 1),
		MSG(exec, 1, .argv = STRS("x", 1)),
		MSG(exec, 1, .argv = STRS("x\0", 0)),
		MSG(exec, 1, .argv = STRS("x\0", 2)),
		MSG(exec, 1, .env = STRS("x\0y\0z", 2)),
		MSG(exec, 1, .env = STRS("", 1)),
		MSG(exit, 1, .kind = 2),
		MSG(exit, 1, .code = 256),
		MSG(started, 1, .in_credit = WIRE_CREDIT_MAX + 1),
		MSG(resize, 0, .rows = 1),
		MSG(freeze, 1, .on = 2),
		MSG(gap, 1, .channel = WIRE_STDIN, .bytes = 1),
		MSG(gap, 1, .channel = 3, .bytes = 1),
		MSG(gap, 0, .channel = WIRE_STDOUT, .bytes = 1),
		MSG(attach, 1, .out_credit = WIRE_CREDIT_MAX + 1),
		MSG(attach, 0, .number = 1),
		MSG(leave, 0, .flags = 0),
		MSG(stop, 0, .signo = 15),
		MSG(kill, 0, .signo = 15),
		MSG(pause, 0, .on = 1),
		MSG(pause, 1, .on = 2),
		MSG(detach, 0, .flags = 0),
		MSG(hold, 0, .wait_ms = 1),
		MSG(hold, 1, .on_idle = WIRE_IDLE_STOP + 1),
		MSG(unhold, 0, .trace = STR("")),
		MSG(lease, 0, .lease_ms = 1),
	};
	uint8_t buf[FRAME_MAX];
	size_t len = 0;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		ck_assert_int_eq(wire_encode(&bad[i], buf, sizeof(buf), &len), WIRE_BAD_FIELD);
	const struct wire_msg unknown = {.op = 63};
	ck_assert_int_eq(wire_encode(&unknown, buf, sizeof(buf), &len), WIRE_BAD_OP);
	ck_assert_uint_eq(wire_size(&unknown), 0);
}
END_TEST

/* Messages about files: paths are not empty and have no NUL, but for the root of a result. */
START_TEST(bad_file_fields)
{
	static const struct wire_msg bad[] = {
		MSG(file_read, 1, .path = STR("/a")), /* they have no stream */
		MSG(file_done, 1, .searched = 1),
		MSG(file_read, 0, .first_line = 1),
		MSG(file_read, 0, .path = STR("a\0b")),
		MSG(file_write, 0, .path = STR("\0")),
		MSG(file_stat, 0, .flags = 0),
		MSG(file_mkdir, 0, .path = STR("a\0")),
		MSG(file_move, 0, .from = STR("a")),
		MSG(file_move, 0, .to = STR("a")),
		MSG(file_move, 0, .from = STR("a"), .to = STR("\0a")),
		MSG(file_remove, 0, .path = STR("")),
		MSG(file_list, 0, .max_depth = 1),
		MSG(file_list, 0, .root = STR("/"), .ignore = STRS("x", 1)),
		MSG(file_glob, 0, .root = STR("/")),
		MSG(file_glob, 0, .pattern = STR("*")),
		MSG(file_glob, 0, .root = STR("/"), .pattern = STR("*\0")),
		MSG(file_grep, 0, .pattern = STR("x")),
		MSG(file_grep, 0, .root = STR("/"), .pattern = STR("x"), .glob = STR("a\0b")),
		MSG(file_data, 0, .bytes = STR("")),
		MSG(file_end, 0, .abort_ = 2),
		MSG(file_info, 0, .type = 0),
		MSG(file_info, 0, .type = WIRE_FILE_BLOCK + 1),
		MSG(file_entry, 0, .type = 0, .path = STR("a")),
		MSG(file_entry, 0, .type = WIRE_FILE_REGULAR, .path = STR("a\0b")),
		MSG(file_match, 0, .line = 0, .path = STR("a")),
		MSG(file_match, 0, .line = 1, .path = STR("\0")),
		MSG(file_match, 0, .line = 1, .line_len = 2, .path = STR("a"), .text = STR("abc")),
		MSG(file_done, 0, .truncated = 2),
	};
	static const struct wire_msg good[] = {
		MSG(file_entry, 0, .type = WIRE_FILE_DIRECTORY),
		MSG(file_match, 0, .line = 1, .line_len = 3, .text = STR("a\0b")),
		MSG(file_grep, 0, .root = STR("/"), .pattern = STR("\0")),
		MSG(file_info, 0, .type = WIRE_FILE_BLOCK),
	};
	uint8_t buf[FRAME_MAX];
	size_t len = 0;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		ck_assert_msg(wire_encode(&bad[i], buf, sizeof(buf), &len) == WIRE_BAD_FIELD,
			"row %zu", i);
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		len = encode(&good[i], buf);
		ck_assert_int_eq(judge(&good[i], buf, len), WIRE_OK);
	}
}
END_TEST

/* The same lists, as bytes that only a hostile peer sends. */
START_TEST(bad_lists)
{
	const struct wire_msg good = MSG(exec, 1, .argv = STRS("a\0b\0", 2));
	/* flags 4, timeout 8, credit 4, rows 2, cols 2, pids_max 4, replay 4, user 4, cwd 4: then
	 * count and length of argv */
	const size_t at = WIRE_HEADER_SIZE + 36;
	uint8_t buf[FRAME_MAX];
	const size_t len = encode(&good, buf);

	ck_assert_int_eq(judge(&good, buf, len), WIRE_OK);
	for (unsigned count = 0; count < 5; count++) {
		buf[at] = (uint8_t)count;
		ck_assert_int_eq(judge(&good, buf, len), count == 2 ? WIRE_OK : WIRE_BAD_FIELD);
	}
	buf[at] = 2;
	buf[at + 3] = 0x80;
	ck_assert_int_eq(judge(&good, buf, len), WIRE_BAD_FIELD);
	buf[at + 3] = 0;
	for (unsigned n = 0; n < 256; n++) {
		buf[at + 4] = (uint8_t)n;
		ck_assert_int_eq(judge(&good, buf, len), n == 4 ? WIRE_OK : WIRE_BAD_FIELD);
	}
	buf[at + 4] = 4;
	memset(buf + at + 4, 0xff, 4);
	ck_assert_int_eq(judge(&good, buf, len), WIRE_BAD_FIELD);
}
END_TEST

/* Flags are told apart by single bits, and none is used twice. */
static void check_bits(const uint32_t *flags, size_t n, uint32_t all)
{
	uint32_t seen = 0;

	for (size_t i = 0; i < n; i++) {
		ck_assert_uint_ne(flags[i], 0);
		ck_assert_uint_eq(flags[i] & (flags[i] - 1), 0);
		ck_assert_uint_eq(seen & flags[i], 0);
		seen |= flags[i];
	}
	ck_assert_uint_eq(seen, all);
}

START_TEST(flags_are_single_bits)
{
	static const uint32_t guest_flags[] = {
		WIRE_EXEC_STDIN, WIRE_EXEC_MKCWD, WIRE_EXEC_TTY, WIRE_EXEC_BUILTIN};
	static const uint32_t keeper_flags[] = {WIRE_EXEC_KEEP, WIRE_EXEC_MAIN};
	static const uint32_t signal_flags[] = {
		WIRE_SIGNAL_ALL, WIRE_SIGNAL_HANGUP, WIRE_SIGNAL_LEADER};
	static const uint32_t exit_flags[] = {WIRE_EXIT_TIMED_OUT, WIRE_EXIT_OOM, WIRE_EXIT_LEFT};
	static const uint32_t write_flags[] = {
		WIRE_WRITE_APPEND, WIRE_WRITE_PARENTS, WIRE_WRITE_EXCLUSIVE};
	static const uint32_t remove_flags[] = {WIRE_REMOVE_RECURSIVE, WIRE_REMOVE_FORCE};
	static const uint32_t grep_flags[] = {WIRE_GREP_LITERAL, WIRE_GREP_CASE};

	check_bits(guest_flags, 4, WIRE_EXEC_FLAGS_ALL);
	check_bits(keeper_flags, 2, WIRE_EXEC_KEEP | WIRE_EXEC_MAIN);
	/* The keeper's lie above all that an agent may know one day. */
	ck_assert_uint_gt(WIRE_EXEC_KEEP, WIRE_EXEC_FLAGS_ALL);
	check_bits(signal_flags, 3, 7);
	check_bits(exit_flags, 3, 7);
	check_bits(write_flags, 3, 7);
	check_bits(remove_flags, 2, 3);
	check_bits(grep_flags, 2, 3);
}
END_TEST

START_TEST(limits)
{
	static uint8_t payload[WIRE_DATA_MAX + 1];
	static uint8_t buf[2 * WIRE_DATA_MAX];
	static uint8_t nuls[WIRE_STRS_MAX + 1];
	size_t len = 0;
	struct wire_msg got;
	struct wire_msg m = MSG(data, 1, .channel = 1, .bytes = {payload, WIRE_DATA_MAX});

	ck_assert_int_eq(wire_encode(&m, buf, sizeof(buf), &len), WIRE_OK);
	ck_assert_uint_eq(len, WIRE_DATA_PREFIX + WIRE_DATA_MAX);
	ck_assert_int_eq(decode(WIRE_AS_HOST, WIRE_BULK, buf, len, &got), WIRE_OK);
	ck_assert_ptr_eq(got.data.bytes.data, buf + WIRE_DATA_PREFIX);
	m.data.bytes.len++;
	ck_assert_int_eq(wire_encode(&m, buf, sizeof(buf), &len), WIRE_BAD_FIELD);

	struct wire_msg e = MSG(exec, 1, .env = {nuls, WIRE_STRS_MAX, WIRE_STRS_MAX});
	ck_assert_int_eq(wire_encode(&e, buf, sizeof(buf), &len), WIRE_OK);
	ck_assert_int_eq(decode(WIRE_AS_GUEST, WIRE_CONTROL, buf, len, &got), WIRE_OK);
	e.exec.env.len = e.exec.env.count = WIRE_STRS_MAX + 1;
	ck_assert_int_eq(wire_encode(&e, buf, sizeof(buf), &len), WIRE_BAD_FIELD);

	/* A field that fits by itself, in a message that is longer than its operation allows. */
	const struct wire_msg s = MSG(stage, 0, .name = {payload, 300});
	ck_assert_int_eq(wire_encode(&s, buf, sizeof(buf), &len), WIRE_NO_SPACE);

	ck_assert_uint_eq(wire_frame_max(WIRE_AS_GUEST, WIRE_CONTROL), 3145728 + 12);
	ck_assert_uint_eq(wire_frame_max(WIRE_AS_KEEPER, WIRE_BULK), 65600 + 12);
	ck_assert_uint_eq(wire_frame_max(WIRE_AS_HOST, WIRE_CONTROL), 8192 + 12);
	ck_assert_uint_eq(wire_frame_max(WIRE_AS_CLIENT, WIRE_BULK), 65600 + 12);
	ck_assert_uint_eq(wire_frame_max(WIRE_AS_HOST, WIRE_FILES), 131200 + 12);
	ck_assert_uint_eq(wire_frame_max(WIRE_AS_GUEST, WIRE_FILES), 262200 + 12);
}
END_TEST

/* The longest path in every place, and one byte more. */
START_TEST(file_limits)
{
	static uint8_t path[WIRE_PATH_MAX + 1];
	static uint8_t buf[5 * WIRE_DATA_MAX];
	size_t len = 0;
	struct wire_msg got;
	struct wire_bytes *places[4];
	struct wire_msg m[] = {MSG(file_read, 0, .path = {path, WIRE_PATH_MAX}),
		MSG(file_move, 0, .from = {path, WIRE_PATH_MAX}, .to = {path, WIRE_PATH_MAX}),
		MSG(file_entry, 0, .type = WIRE_FILE_REGULAR, .path = {path, WIRE_PATH_MAX}),
		MSG(file_match, 0, .line = 1, .line_len = WIRE_PATH_MAX,
			.path = {path, WIRE_PATH_MAX}, .text = {path, WIRE_PATH_MAX})};

	places[0] = &m[0].file_read.path;
	places[1] = &m[1].file_move.to;
	places[2] = &m[2].file_entry.path;
	places[3] = &m[3].file_match.path;
	memset(path, 'p', sizeof(path));
	for (size_t i = 0; i < 4; i++) {
		ck_assert_int_eq(wire_encode(&m[i], buf, sizeof(buf), &len), WIRE_OK);
		ck_assert_int_eq(decode(side_of(&m[i]), WIRE_FILES, buf, len, &got), WIRE_OK);
		places[i]->len++;
		ck_assert_int_eq(wire_encode(&m[i], buf, sizeof(buf), &len), WIRE_BAD_FIELD);
	}
	struct wire_msg data = MSG(file_data, 0, .bytes = {path, WIRE_DATA_MAX});
	ck_assert_int_eq(wire_encode(&data, buf, sizeof(buf), &len), WIRE_OK);
	ck_assert_int_eq(decode(WIRE_AS_HOST, WIRE_FILES, buf, len, &got), WIRE_OK);
	data.file_data.bytes = (struct wire_bytes){buf, WIRE_DATA_MAX + 1};
	ck_assert_int_eq(wire_encode(&data, buf, sizeof(buf), &len), WIRE_BAD_FIELD);
}
END_TEST

START_TEST(data_in_place)
{
	uint8_t buf[64];
	size_t len = 0;

	memcpy(buf + WIRE_DATA_PREFIX, "payload", 7);
	const struct wire_msg m = MSG(
		data, 3, .channel = WIRE_STDERR, .bytes = {buf + WIRE_DATA_PREFIX, 7});
	ck_assert_int_eq(wire_encode(&m, buf, sizeof(buf), &len), WIRE_OK);
	ck_assert_uint_eq(len, WIRE_DATA_PREFIX + 7);
	ck_assert_mem_eq(buf + WIRE_DATA_PREFIX, "payload", 7);
}
END_TEST

START_TEST(walk_list)
{
	const struct wire_strs list = STRS("one\0\0three\0", 3);
	const struct wire_strs none = {0};
	uint32_t pos = 0;

	ck_assert_str_eq(wire_strs_next(&list, &pos), "one");
	ck_assert_str_eq(wire_strs_next(&list, &pos), "");
	ck_assert_str_eq(wire_strs_next(&list, &pos), "three");
	ck_assert_ptr_null(wire_strs_next(&list, &pos));
	ck_assert_ptr_null(wire_strs_next(&list, &pos));
	pos = 0;
	ck_assert_ptr_null(wire_strs_next(&none, &pos));
}
END_TEST

/* Lines "name hex", one for each operation in the order of the samples. A line that changes means
 * that peers of two versions no longer understand each other. */
START_TEST(golden)
{
	FILE *f = fopen(GOLDEN_DIR "/wire.txt", "re");
	char want[2048];
	char have[2048];
	uint8_t buf[FRAME_MAX];

	ck_assert_msg(f, "no " GOLDEN_DIR "/wire.txt");
	for (int i = 0; i < N_SAMPLES; i++) {
		const size_t len = encode(&samples[i], buf);
		int n = snprintf(have, sizeof(have), "%s ", wire_op_name(samples[i].op));
		for (size_t k = 0; k < len; k++)
			n += snprintf(have + n, sizeof(have) - (size_t)n, "%02x", buf[k]);
		ck_assert_msg(
			fgets(want, sizeof(want), f), "no golden line; it would be:\n%s", have);
		want[strcspn(want, "\n")] = 0;
		ck_assert_str_eq(have, want);
	}
	ck_assert_msg(!fgets(want, sizeof(want), f), "a golden line is left over: %s", want);
	(void)fclose(f);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("wire");
	TCase *t = tcase_create("codec");

	tcase_add_test(t, every_op_has_a_sample);
	tcase_add_loop_test(t, round_trip, 0, N_SAMPLES);
	tcase_add_loop_test(t, prefixes, 0, N_SAMPLES);
	tcase_add_loop_test(t, too_little_room, 0, N_SAMPLES);
	tcase_add_loop_test(t, damaged_header, 0, N_SAMPLES);
	tcase_add_loop_test(t, directions, 0, N_SAMPLES);
	tcase_add_test(t, channel_directions);
	tcase_add_test(t, bad_fields);
	tcase_add_test(t, bad_file_fields);
	tcase_add_test(t, bad_lists);
	tcase_add_test(t, flags_are_single_bits);
	tcase_add_test(t, limits);
	tcase_add_test(t, file_limits);
	tcase_add_test(t, data_in_place);
	tcase_add_test(t, walk_list);
	tcase_add_test(t, golden);
	suite_add_tcase(s, t);

	SRunner *r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	const int failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
