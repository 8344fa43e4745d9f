/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An agent that lies, for tests of the host: it boots like the real one and then breaks the
 * protocol in the way that the last bytes of its own file name ("LIAR:" and a mode, in TRAILER
 * bytes; see hostile.bats). What each mode does stands at its function. Modes that begin with
 * "exec-" play the honest agent until a program is to be run.
 */
#include "agent.h"
#include "boot.h"

#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define TRAILER 32
#define FLOOD   100000

static int lanes[2] = {-1, -1};

/* What boot.c needs of the real agent. */

uint64_t agent_now_us(void)
{
	struct timespec ts = {0};

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

static void tell(const char *text)
{
	char line[256];
	const int fd = open("/dev/kmsg", O_WRONLY | O_CLOEXEC);
	const int n = snprintf(line, sizeof line, "<3>liar: %s\n", text);

	if (fd >= 0) {
		(void)!write(fd, line, (size_t)n < sizeof line ? (size_t)n : sizeof line - 1);
		(void)close(fd);
	}
}

void agent_log(struct agent *a, enum agent_log_level level, const char *fmt, ...)
{
	char text[200];
	va_list ap;

	(void)a;
	(void)level;
	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	tell(text);
}

void agent_stage(struct agent *a, const char *name)
{
	(void)a;
	tell(name);
}

/* Sending and receiving, with plain blocking loops. */

static void send_raw(enum wire_lane lane, const void *data, size_t len)
{
	const uint8_t *p = data;

	while (len > 0) {
		struct pollfd pfd = {.fd = lanes[lane], .events = POLLOUT};
		const ssize_t n = write(pfd.fd, p, len);
		if (n > 0) {
			p += n;
			len -= (size_t)n;
		} else {
			(void)poll(&pfd, 1, 100);
		}
	}
}

static struct wire_bytes text_bytes(const char *s)
{
	return (struct wire_bytes){.data = (const uint8_t *)s, .len = (uint32_t)strlen(s)};
}

static void send_msg(const struct wire_msg *msg)
{
	static uint8_t frame[WIRE_DATA_PREFIX + WIRE_DATA_MAX];
	size_t len = 0;

	if (wire_encode(msg, frame, sizeof frame, &len) == WIRE_OK)
		send_raw((enum wire_lane)wire_lane_of(msg->op), frame, len);
}

/* The next frame of the control lane. */
static struct wire_msg *receive_any(void)
{
	static uint8_t buf[1 << 16];
	static size_t have, used;
	static struct wire_msg msg;

	memmove(buf, buf + used, have - used);
	have -= used;
	used = 0;
	while (wire_decode(WIRE_AS_GUEST, WIRE_CONTROL, buf, have, &msg, &used) != WIRE_OK) {
		struct pollfd pfd = {.fd = lanes[WIRE_CONTROL], .events = POLLIN};
		used = 0;
		const ssize_t n = read(pfd.fd, buf + have, sizeof buf - have);
		if (n > 0)
			have += (size_t)n;
		else
			(void)poll(&pfd, 1, 100);
	}
	return &msg;
}

/* The same, but for those that every machine is told and no lie is about. */
static struct wire_msg *receive(void)
{
	struct wire_msg *msg = receive_any();

	while (msg->op == WIRE_OP_network) {
		send_msg(&(struct wire_msg){.op = WIRE_OP_done, .stream = msg->stream});
		msg = receive_any();
	}
	return msg;
}

static void say_hello(uint32_t magic, uint16_t version, uint16_t oldest)
{
	send_msg(&(struct wire_msg){.op = WIRE_OP_hello,
		.hello = {.magic = magic,
			.version = version,
			.oldest = oldest,
			.features = WIRE_FEATURE_NETWORK,
			.build = text_bytes("liar")}});
}

static void become_ready(void)
{
	say_hello(WIRE_MAGIC, WIRE_VERSION, WIRE_OLDEST);
	while (receive()->op != WIRE_OP_setup)
		;
	send_msg(&(struct wire_msg){.op = WIRE_OP_setup_done});
}

/* The stream of the program that the host wants to run. */
static uint32_t wait_exec(void)
{
	const struct wire_msg *msg = receive();

	while (msg->op != WIRE_OP_exec)
		msg = receive();
	return msg->stream;
}

static void start_exec(uint32_t stream)
{
	send_msg(&(struct wire_msg){.op = WIRE_OP_started,
		.stream = stream,
		.started = {.pid = 2, .in_credit = 65536}});
}

static void send_data(uint32_t stream, uint8_t channel, uint32_t len)
{
	static uint8_t bytes[WIRE_DATA_MAX];

	send_msg(&(struct wire_msg){.op = WIRE_OP_data,
		.stream = stream,
		.data = {.channel = channel, .bytes = {bytes, len}}});
}

/* The two lanes may overtake each other: what went over the control lane before shall arrive first.
 */
static void send_exit(uint32_t stream, uint32_t code)
{
	(void)poll(NULL, 0, 500);
	send_msg(&(struct wire_msg){
		.op = WIRE_OP_exit, .stream = stream, .exit = {.kind = WIRE_EXITED, .code = code}});
}

/* The modes. */

/* PID 1 ends: the kernel panics. */
static void mode_panic(void)
{
	_exit(1);
}

static void mode_silent(void)
{
}

/* Honest, and comes to rest whenever it is asked, but does not hear the second host that wakes it:
 * a template is made of it, a clone and a spare begin, and the spare's claim gets no answer. */
static void mode_claim_silent(void)
{
	int woken = 0;

	become_ready();
	for (;;) {
		const struct wire_msg *msg = receive();
		const uint32_t stream = msg->stream;

		if (msg->op == WIRE_OP_park) {
			send_msg(&(struct wire_msg){.op = WIRE_OP_done, .stream = stream});
		} else if (msg->op == WIRE_OP_hello) {
			if (++woken == 2)
				return;
			become_ready();
		} else if (msg->op == WIRE_OP_exec) {
			start_exec(stream);
			send_exit(stream, 0);
		}
	}
}

/* A xorshift generator, so that a failure can be repeated. */
static void mode_random(void)
{
	uint64_t x = 88172645463325252u;
	uint8_t block[4096];

	for (int i = 0; i < 256; i++) {
		for (size_t j = 0; j < sizeof block; j++) {
			x ^= x << 13;
			x ^= x >> 7;
			x ^= x << 17;
			block[j] = (uint8_t)x;
		}
		send_raw(i % 2 ? WIRE_BULK : WIRE_CONTROL, block, sizeof block);
	}
}

/* A header that promises 4 GiB. */
static void mode_oversized(void)
{
	static const uint8_t head[WIRE_HEADER_SIZE] = {0xff, 0xff, 0xff, 0xff, WIRE_OP_log};

	send_raw(WIRE_CONTROL, head, sizeof head);
}

/* A frame that only the host may send. */
static void mode_wrong_way(void)
{
	send_msg(&(struct wire_msg){.op = WIRE_OP_ping, .ping = {.token = 1}});
}

static void mode_setup_first(void)
{
	send_msg(&(struct wire_msg){.op = WIRE_OP_setup_done});
}

static void mode_wrong_version(void)
{
	say_hello(WIRE_MAGIC, 999, 999);
}

/* Refuses the set-up with a text that would turn a terminal's title and colours. */
static void mode_escapes(void)
{
	say_hello(WIRE_MAGIC, WIRE_VERSION, WIRE_OLDEST);
	while (receive()->op != WIRE_OP_setup)
		;
	send_msg(&(struct wire_msg){.op = WIRE_OP_fail,
		.fail = {.class_ = WIRE_FAIL_MOUNT,
			.errnum = 5,
			.stage = text_bytes("sta\033[31mge"),
			.object = text_bytes("ob\033]0;owned\007ject"),
			.text = text_bytes("bad\033[2J\r\nholt: all is well")}});
}

/* Many tiny frames, then all is as it should be: they may cost time, nothing else. */
static void mode_log_flood(void)
{
	static uint8_t one[64];
	static uint8_t many[sizeof one * 1024];
	size_t len = 0, n = 0;

	(void)wire_encode(&(struct wire_msg){.op = WIRE_OP_log,
				  .log = {.level = 2, .text = text_bytes("spam")}},
		one, sizeof one, &len);
	for (; n < sizeof many / sizeof one; n++)
		memcpy(many + n * len, one, len);
	become_ready();
	for (uint32_t sent = 0; sent < FLOOD; sent += (uint32_t)n)
		send_raw(WIRE_CONTROL, many, n * len);
	const uint32_t stream = wait_exec();
	start_exec(stream);
	send_exit(stream, 42);
}

/* Never answers when a program is to be run. */
static void mode_exec_silent(void)
{
	become_ready();
	(void)wait_exec();
}

/* Starts the program and is not heard of again. */
static void mode_exec_endless(void)
{
	become_ready();
	start_exec(wait_exec());
}

static void mode_exec_unknown_stream(void)
{
	become_ready();
	send_data(wait_exec() + 77, WIRE_STDOUT, 10);
}

/* More output than the host gave credit for, by far. */
static void mode_exec_no_credit(void)
{
	become_ready();
	const uint32_t stream = wait_exec();
	start_exec(stream);
	for (int i = 0; i < 64; i++)
		send_data(stream, WIRE_STDOUT, WIRE_DATA_MAX);
	send_exit(stream, 0);
}

/* Lets the host send more input than the protocol allows: in one frame, ... */
static void mode_exec_big_credit(void)
{
	become_ready();
	const uint32_t stream = wait_exec();
	const uint8_t frame[] = {5, 0, 0, 0, WIRE_OP_credit, 0, 0, 0, (uint8_t)stream, 0, 0, 0,
		WIRE_STDIN, 0xff, 0xff, 0xff, 0xff};
	start_exec(stream);
	send_raw(WIRE_CONTROL, frame, sizeof frame);
	send_exit(stream, 0);
}

/* ... and in two, each of which is fine. */
static void mode_exec_more_credit(void)
{
	become_ready();
	const uint32_t stream = wait_exec();
	start_exec(stream);
	for (int i = 0; i < 2; i++)
		send_msg(&(struct wire_msg){.op = WIRE_OP_credit,
			.stream = stream,
			.credit = {.channel = WIRE_STDIN, .bytes = WIRE_CREDIT_MAX}});
	send_exit(stream, 0);
}

static void mode_exec_twice(void)
{
	become_ready();
	const uint32_t stream = wait_exec();
	start_exec(stream);
	start_exec(stream);
	send_exit(stream, 0);
}

/* Output on what the host knows as stdin. */
static void mode_exec_stdin_back(void)
{
	become_ready();
	const uint32_t stream = wait_exec();
	start_exec(stream);
	send_data(stream, WIRE_STDIN, 10);
	send_exit(stream, 0);
}

static void mode_exec_after_eof(void)
{
	become_ready();
	const uint32_t stream = wait_exec();
	start_exec(stream);
	send_msg(&(struct wire_msg){
		.op = WIRE_OP_eof, .stream = stream, .eof = {.channel = WIRE_STDOUT}});
	send_data(stream, WIRE_STDOUT, 10);
	send_exit(stream, 0);
}

/* Half a frame of output, then the machine is gone: never an exit of 0. */
static void mode_exec_cut(void)
{
	become_ready();
	const uint32_t stream = wait_exec();
	static const uint8_t head[WIRE_HEADER_SIZE] = {100, 0, 0, 0, WIRE_OP_data, 0, 0, 0, 1};
	start_exec(stream);
	send_raw(WIRE_BULK, head, sizeof head);
	(void)sleep(1);
	_exit(0);
}

/* An exit code that no program can have. */
static void mode_exec_exit_code(void)
{
	become_ready();
	const uint32_t stream = wait_exec();
	/* The encoder would refuse it. */
	const uint8_t frame[] = {17, 0, 0, 0, WIRE_OP_exit, 0, 0, 0, (uint8_t)stream, 0, 0, 0,
		WIRE_EXITED, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
	start_exec(stream);
	send_raw(WIRE_BULK, frame, sizeof frame);
}

/* Says twice how the program ended. */
static void mode_exec_exit_twice(void)
{
	become_ready();
	const uint32_t stream = wait_exec();
	start_exec(stream);
	send_exit(stream, 0);
	send_exit(stream, 1);
}

/* Answers what nobody asked. */
static void mode_exec_unasked(void)
{
	become_ready();
	const uint32_t stream = wait_exec();
	start_exec(stream);
	send_msg(&(struct wire_msg){.op = WIRE_OP_done, .stream = stream + 99});
}

static const struct {
	const char *name;
	void (*run)(void);
} modes[] = {
	{"claim-silent", mode_claim_silent},
	{"escapes", mode_escapes},
	{"exec-after-eof", mode_exec_after_eof},
	{"exec-big-credit", mode_exec_big_credit},
	{"exec-cut", mode_exec_cut},
	{"exec-endless", mode_exec_endless},
	{"exec-exit-code", mode_exec_exit_code},
	{"exec-exit-twice", mode_exec_exit_twice},
	{"exec-more-credit", mode_exec_more_credit},
	{"exec-no-credit", mode_exec_no_credit},
	{"exec-silent", mode_exec_silent},
	{"exec-stdin-back", mode_exec_stdin_back},
	{"exec-twice", mode_exec_twice},
	{"exec-unasked", mode_exec_unasked},
	{"exec-unknown-stream", mode_exec_unknown_stream},
	{"log-flood", mode_log_flood},
	{"oversized", mode_oversized},
	{"panic", mode_panic},
	{"random", mode_random},
	{"setup-first", mode_setup_first},
	{"silent", mode_silent},
	{"wrong-version", mode_wrong_version},
	{"wrong-way", mode_wrong_way},
};

static void read_mode(char mode[TRAILER + 1])
{
	const int fd = open("/init", O_RDONLY | O_CLOEXEC);
	char trailer[TRAILER + 1] = "";

	if (fd >= 0 && lseek(fd, -TRAILER, SEEK_END) > 0)
		(void)!read(fd, trailer, TRAILER);
	if (fd >= 0)
		(void)close(fd);
	const int named = sscanf(trailer, "LIAR:%31s", mode);
	if (named != 1)
		memcpy(mode, "panic", 6);
}

int main(void)
{
	static struct agent agent = {.kmsg_fd = -1};
	char mode[TRAILER + 1] = "";

	read_mode(mode);
	if (strcmp(mode, "panic") == 0)
		mode_panic();
	if (boot_machine(&agent, &lanes[WIRE_CONTROL], &lanes[WIRE_BULK]) < 0)
		_exit(1);
	for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
		if (strcmp(modes[i].name, mode) == 0)
			modes[i].run();
	}
	tell("now silent");
	for (;;)
		(void)pause();
}
